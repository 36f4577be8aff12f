//! Settings of the kernel: timer frequency, preemption model, isolation, command line.

use super::notes::Notes;
use super::root::Root;
use flate2::read::GzDecoder;
use idlewave_units::{Cpu, CpuSet};
use std::io::Read;

/// A kernel configuration has about 250 KiB; a malicious archive unpacks to no more than this.
const CONFIG_CAP: u64 = 8 << 20;

/// The kernel's build configuration, from /proc/config.gz or /boot/config-RELEASE. `Err` names what
/// was tried.
pub(super) fn config(root: &Root, release: &str) -> Result<String, String> {
    let packed = root.bytes("proc/config.gz", super::root::FILE_CAP);
    if let Ok(Some(bytes)) = &packed {
        let mut text = Vec::new();
        // Data unpacked before an error in the archive is still valid.
        let unpacked = GzDecoder::new(bytes.as_slice())
            .take(CONFIG_CAP)
            .read_to_end(&mut text);
        if unpacked.is_ok() || !text.is_empty() {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
    }
    for path in [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
        format!("usr/lib/modules/{release}/config"),
    ] {
        match root.text(&path) {
            Ok(Some(text)) => return Ok(text),
            Ok(None) => {}
            Err(why) => return Err(why),
        }
    }
    Err(match packed {
        Err(why) => why,
        Ok(Some(_)) => "/proc/config.gz is damaged".to_owned(),
        Ok(None) => format!("neither /proc/config.gz nor /boot/config-{release} exists"),
    })
}

/// `CONFIG_HZ` of a configuration.
pub(super) fn hz(config: &str) -> Option<u32> {
    config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.trim().parse().ok())
}

/// The kernel's parameters of a command line; those after `--` belong to init.
fn parameters(command_line: &str) -> impl DoubleEndedIterator<Item = (&str, Option<&str>)> {
    let words: Vec<&str> = command_line
        .split_whitespace()
        .take_while(|w| *w != "--")
        .collect();
    words.into_iter().map(|w| match w.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (w, None),
    })
}

/// The bracketed choice in /sys/kernel/debug/sched/preempt or transparent_hugepage/enabled: `none
/// [voluntary] full`, or `none voluntary (full)`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let inner = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        inner.or_else(|| word.strip_prefix('(').and_then(|w| w.strip_suffix(')')))
    })
}

/// Preemption model, from the first of these that decides: the running choice in debugfs, the build
/// string, the command line, the configuration. `None` if none does.
pub(super) fn preemption(
    notes: &mut Notes<'_>,
    build: &str,
    command_line: Option<&str>,
    config: Option<&str>,
) -> Option<String> {
    if build
        .split_whitespace()
        .any(|w| matches!(w, "PREEMPT_RT" | "RT"))
    {
        return Some("rt".to_owned());
    }
    // debugfs is for root only (mode 0700): its absence needs no note if another source works.
    let running = notes.root.text("sys/kernel/debug/sched/preempt");
    if let Some(model) = running
        .as_ref()
        .ok()
        .and_then(Option::as_deref)
        .and_then(chosen)
    {
        return Some(model.to_owned());
    }
    let dynamic = build.contains("PREEMPT_DYNAMIC");
    if dynamic {
        let asked = parameters(command_line.unwrap_or_default())
            .rev()
            .find_map(|(key, value)| value.filter(|_| key == "preempt"));
        if let Some(model) = asked {
            return Some(model.to_owned());
        }
    } else if build.split_whitespace().any(|w| w == "PREEMPT") {
        return Some("full".to_owned());
    }
    let of_config = config.and_then(|config| {
        let set = |key: &str| config.lines().any(|l| l.strip_prefix(key) == Some("=y"));
        [
            ("CONFIG_PREEMPT_RT", "rt"),
            ("CONFIG_PREEMPT_NONE", "none"),
            ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
            ("CONFIG_PREEMPT_LAZY", "lazy"),
            ("CONFIG_PREEMPT", "full"),
        ]
        .into_iter()
        .find_map(|(key, model)| set(key).then(|| model.to_owned()))
    });
    if of_config.is_none() {
        let why = match running {
            Err(why) => why,
            Ok(_) if dynamic => {
                "it is chosen at boot, and /sys/kernel/debug/sched/preempt does not exist"
                    .to_owned()
            }
            Ok(_) => "none or voluntary: the build string does not say which".to_owned(),
        };
        notes.note("preemption", &why);
    }
    of_config
}

/// CPUs whose RCU callbacks run elsewhere: `rcu_nocbs=` of the command line and all of `nohz_full`,
/// which implies it. `None` if the command line is unknown.
/// (Documentation/admin-guide/kernel-parameters.txt)
pub(super) fn rcu_nocbs(
    notes: &mut Notes<'_>,
    command_line: Option<&str>,
    nohz_full: Option<&CpuSet>,
    possible: &CpuSet,
) -> Option<CpuSet> {
    let mut set: CpuSet = nohz_full.cloned().unwrap_or_default();
    for (key, value) in parameters(command_line?) {
        if key != "rcu_nocbs" {
            continue;
        }
        match value {
            // Without a value callbacks can be moved at run time; none are so far.
            None => {}
            Some(list) => match cpu_list(list, possible) {
                Some(cpus) => cpus.iter().for_each(|cpu| set.insert(cpu)),
                None => {
                    notes.note("rcu_nocbs", &format!("list `{}`", super::notes::cut(list)));
                    return None;
                }
            },
        }
    }
    Some(set)
}

/// A list of CPUs in the syntax of kernel parameters: `all`, `0-3,8`, `1-N`, `0-30:2/4` (the first
/// two of every four).
fn cpu_list(text: &str, possible: &CpuSet) -> Option<CpuSet> {
    let last = possible.iter().last()?.get();
    let number = |word: &str| {
        if word == "N" {
            Some(last)
        } else {
            word.parse::<u32>().ok()
        }
    };
    let mut set = CpuSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (range, group) = match part.split_once(':') {
            Some((range, group)) => (range, Some(group.split_once('/')?)),
            None => (part, None),
        };
        let (begin, end) = match range.split_once('-') {
            _ if range == "all" => (0, last),
            Some((a, b)) => (number(a)?, number(b)?),
            None => (number(range)?, number(range)?),
        };
        let (used, size) = match group {
            Some((used, size)) => (used.parse::<u32>().ok()?, size.parse::<u32>().ok()?.max(1)),
            None => (1, 1),
        };
        // CPUs beyond the last possible one are ignored, as by the kernel.
        (begin..=end.min(last))
            .filter(|cpu| (cpu - begin) % size < used)
            .for_each(|cpu| set.insert(Cpu::new(cpu)));
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn possible() -> CpuSet {
        (0..16).map(Cpu::new).collect()
    }

    #[test]
    fn lists_of_the_command_line_are_read_as_the_kernel_reads_them() {
        for (text, cpus) in [
            ("1-3,8", "1-3,8"),
            ("all", "0-15"),
            ("8-N", "8-15"),
            ("0-7:2/4", "0-1,4-5"),
            ("4-99999", "4-15"),
            ("", ""),
        ] {
            assert_eq!(
                cpu_list(text, &possible()).unwrap().to_string(),
                cpus,
                "{text}"
            );
        }
        assert_eq!(cpu_list("1-", &possible()), None);
        assert_eq!(cpu_list("1-3:2", &possible()), None);
    }

    #[test]
    fn the_frequency_is_not_taken_from_its_neighbours() {
        assert_eq!(
            hz("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
            Some(250)
        );
        assert_eq!(hz("CONFIG_HZ_1000=y\n"), None);
    }

    #[test]
    fn the_chosen_word_is_the_bracketed_one() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("none voluntary (full) lazy"), Some("full"));
        assert_eq!(chosen("none voluntary"), None);
    }

    #[test]
    fn parameters_after_two_dashes_are_not_the_kernels() {
        assert_eq!(
            parameters("a b=1 -- c=2").collect::<Vec<_>>(),
            [("a", None), ("b", Some("1"))]
        );
    }

    proptest! {
        #[test]
        fn foreign_lists_never_panic(text in "\\PC*", list in "[0-9N:/,\\-]{0,40}") {
            cpu_list(&text, &possible());
            if let Some(set) = cpu_list(&list, &possible()) {
                prop_assert!(set.difference(&possible()).is_empty());
            }
            chosen(&text);
            hz(&text);
        }
    }
}

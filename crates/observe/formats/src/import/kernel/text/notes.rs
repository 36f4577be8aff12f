//! Lines that are no events but say something about the trace.

use super::head::number;
use idlewave_units::Cpu;
use memchr::memmem;

/// What the lines around the events say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) host: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) cpu_model: Option<String>,
    /// Whether `trace-cmd report` wrote the text.
    pub(crate) report: bool,
    /// Events overwritten before the text was made.
    pub(crate) overwritten: u64,
}

impl Facts {
    /// Takes a line; `false` if it says nothing that is known.
    pub(crate) fn note(&mut self, line: &[u8]) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        if line.starts_with(b"cpus=") || line.starts_with(b"version = ") {
            self.report = true;
            return true;
        }
        let Some(comment) = line.strip_prefix(b"#") else {
            return false;
        };
        let comment = String::from_utf8_lossy(comment);
        if let Some((key, value)) = comment.split_once(':') {
            let value = value.trim();
            let text = || Some(value.chars().take(256).collect::<String>());
            match key.trim() {
                "entries-in-buffer/entries-written" => {
                    let numbers = value.split_whitespace().next().unwrap_or("");
                    if let Some((there, all)) = numbers.split_once('/') {
                        let (there, all) = (there.parse().ok(), all.parse::<u64>().ok());
                        let gone = all.zip(there).map(|(all, there)| all.saturating_sub(there));
                        self.overwritten = gone.unwrap_or(0);
                    }
                }
                "hostname" => self.host = text(),
                "os release" => self.kernel = text(),
                "arch" => self.architecture = text(),
                "cpudesc" => self.cpu_model = text(),
                _ => {}
            }
        }
        true
    }
}

/// What a tool says about events lost on a CPU; the count is `None` if it does not know. `CPU:1
/// [LOST 245 EVENTS]` of tracefs, `CPU:1 [245 EVENTS DROPPED]` and `CPU:1 [EVENTS DROPPED]` of
/// trace-cmd.
pub(crate) fn lost(line: &[u8]) -> Option<(Cpu, Option<u64>)> {
    let (cpu, rest) = number(line.trim_ascii().strip_prefix(b"CPU:")?)?;
    let inside = rest.strip_prefix(b" [")?.strip_suffix(b"]")?;
    memmem::find(inside, b"EVENTS")?;
    let count = inside.strip_prefix(b"LOST ").unwrap_or(inside);
    let count = number(count).map(|(count, _)| count);
    Some((Cpu::new(u32::try_from(cpu).ok()?), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_as_each_tool_prints_them() {
        let found = |line: &str| lost(line.as_bytes()).map(|(cpu, n)| (cpu.get(), n));
        assert_eq!(found("CPU:1 [LOST 245 EVENTS]"), Some((1, Some(245))));
        assert_eq!(found("CPU:12 [7 EVENTS DROPPED]"), Some((12, Some(7))));
        assert_eq!(found("CPU:0 [EVENTS DROPPED]"), Some((0, None)));
        assert_eq!(found("CPU:0"), None);
        assert_eq!(found("cpus=2"), None);
    }

    #[test]
    fn headers_give_the_machine_and_what_was_overwritten() {
        let mut facts = Facts::default();
        for line in [
            "# entries-in-buffer/entries-written: 100/345   #P:2",
            "# hostname : vm",
            "# os release : 6.18.44",
            "# arch : x86_64",
            "# cpudesc : AMD EPYC",
            "cpus=2",
            "",
        ] {
            assert!(facts.note(line.as_bytes()), "{line}");
        }
        let expected = Facts {
            host: Some("vm".to_owned()),
            kernel: Some("6.18.44".to_owned()),
            architecture: Some("x86_64".to_owned()),
            cpu_model: Some("AMD EPYC".to_owned()),
            report: true,
            overwritten: 245,
        };
        assert_eq!(facts, expected);
        assert!(!facts.note(b"something else"));
    }
}

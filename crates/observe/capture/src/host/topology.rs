//! Location of CPUs: cores, packages, NUMA nodes, caches (`/sys/devices/system/cpu`, `.../node`;
//! Documentation/admin-guide/cputopology.rst of the kernel).

use super::notes::Notes;
use idlewave_run::{Cache, CpuTopology};
use idlewave_units::{Bytes, Cpu, CpuSet};
use std::collections::BTreeMap;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
/// Most caches listed per CPU; machines have four or five.
const MAX_CACHES: usize = 64;

/// CPUs that are online: the list in sysfs, otherwise the `cpuN` lines of /proc/stat.
pub(super) fn online(notes: &mut Notes<'_>) -> CpuSet {
    if let Some(set) = notes.cpus("online CPUs", &format!("{CPU}/online")) {
        if !set.is_empty() {
            return set;
        }
    }
    let stat = notes.text("online CPUs", "proc/stat").unwrap_or_default();
    stat.lines()
        .filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok())
        .map(Cpu::new)
        .collect()
}

/// Location of every online CPU.
pub(super) fn places(notes: &mut Notes<'_>, online: &CpuSet) -> Vec<CpuTopology> {
    let numa = numa_of(notes);
    online
        .iter()
        .map(|cpu| {
            let dir = format!("{CPU}/cpu{}/topology", cpu.get());
            // Kernels before 5.3 have only thread_siblings_list; some ARM kernels lack the package
            // (-1).
            let siblings = notes
                .cpus("siblings", &format!("{dir}/core_cpus_list"))
                .or_else(|| notes.cpus("siblings", &format!("{dir}/thread_siblings_list")));
            CpuTopology {
                cpu,
                core: place(notes, "core", &format!("{dir}/core_id")),
                package: place(notes, "package", &format!("{dir}/physical_package_id")),
                numa: numa.get(&cpu).copied(),
                siblings: siblings.filter(|s| !s.is_empty()),
            }
        })
        .collect()
}

/// A number that the kernel reports as -1 if the firmware does not provide it.
fn place(notes: &mut Notes<'_>, setting: &str, path: &str) -> Option<u32> {
    let number: i64 = notes.parsed(setting, path)?;
    u32::try_from(number).ok()
}

/// NUMA nodes that are online; `None` for a kernel without NUMA.
fn nodes(notes: &mut Notes<'_>) -> Option<Vec<u32>> {
    let set = notes.cpus("NUMA nodes", &format!("{NODE}/online"))?;
    Some(set.iter().map(Cpu::get).collect())
}

/// Number of NUMA nodes.
pub(super) fn numa_nodes(notes: &mut Notes<'_>) -> Option<u32> {
    u32::try_from(nodes(notes)?.len()).ok()
}

fn numa_of(notes: &mut Notes<'_>) -> BTreeMap<Cpu, u32> {
    let mut numa = BTreeMap::new();
    for node in nodes(notes).unwrap_or_default() {
        let cpus = notes.cpus("NUMA nodes", &format!("{NODE}/node{node}/cpulist"));
        numa.extend(
            cpus.iter()
                .flat_map(|set| set.iter())
                .map(|cpu| (cpu, node)),
        );
    }
    numa
}

/// Caches of one CPU, level by level.
pub(super) fn caches(notes: &mut Notes<'_>, cpu: Cpu) -> Vec<Cache> {
    let dir = format!("{CPU}/cpu{}/cache", cpu.get());
    let mut caches = Vec::new();
    for index in 0..MAX_CACHES {
        let dir = format!("{dir}/index{index}");
        let Some(level) = notes.parsed("caches", &format!("{dir}/level")) else {
            break;
        };
        // On aarch64 the size is known only if the firmware's PPTT table has it.
        let Some(size) = notes
            .word("caches", &format!("{dir}/size"))
            .and_then(|s| size_of(&s))
        else {
            notes.note("caches", &format!("no size of cache {dir}"));
            continue;
        };
        caches.push(Cache {
            level,
            kind: notes
                .word("caches", &format!("{dir}/type"))
                .unwrap_or_default(),
            size,
            shared_by: notes
                .cpus("caches", &format!("{dir}/shared_cpu_list"))
                .unwrap_or_default(),
        });
    }
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

/// A size in sysfs notation: `48K`, `32M`, `4096`.
pub(super) fn size_of(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" | "kB" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .map(Bytes::new)
}

/// Whether hardware threads share cores: from the kernel, otherwise from the siblings.
pub(super) fn smt(notes: &mut Notes<'_>, places: &[CpuTopology]) -> Option<bool> {
    if let Some(active) = notes.word("SMT", &format!("{CPU}/smt/active")) {
        return Some(active == "1");
    }
    let siblings: Option<Vec<usize>> = places
        .iter()
        .map(|p| p.siblings.as_ref().map(CpuSet::len))
        .collect();
    siblings
        .filter(|s| !s.is_empty())
        .map(|s| s.into_iter().any(|n| n > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(size_of("48K"), Some(Bytes::from_kib(48)));
        assert_eq!(size_of("32M"), Some(Bytes::from_kib(32 << 10)));
        assert_eq!(size_of("4096"), Some(Bytes::new(4096)));
        assert_eq!(size_of("16384 kB"), Some(Bytes::from_kib(16384)));
        assert_eq!(size_of("4 furlongs"), None);
        assert_eq!(size_of("99999999999999999999K"), None);
        assert_eq!(size_of("18446744073709551615G"), None);
    }
}

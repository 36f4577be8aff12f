//! All settings together.

use super::cgroup::CpuGroups;
use super::notes::Notes;
use super::root::Root;
use super::{kernel, processor, topology};
use idlewave_run::HostSheet;
use idlewave_units::{Bytes, CpuSet};
use std::path::Path;

/// Reads the host sheet below `root` (`/` for the live machine).
///
/// Never fails: missing settings are `None`, unreadable ones are listed in `unreadable`. Takes some
/// milliseconds for 256 CPUs (five small files each).
pub fn read_host(root: &Path) -> HostSheet {
    let root = Root::new(root);
    let mut notes = Notes::new(&root);
    let notes = &mut notes;

    let cpuinfo = processor::cpuinfo(notes);
    let cpuinfo = cpuinfo.as_deref();
    let online = topology::online(notes);
    let allowed = allowed(notes, &online);
    let places = topology::places(notes, &online);
    let smt = topology::smt(notes, &places);
    let first = allowed.iter().next().or_else(|| online.iter().next());

    let release = notes
        .word("kernel", "proc/sys/kernel/osrelease")
        .unwrap_or_default();
    let build = notes
        .word("kernel", "proc/sys/kernel/version")
        .unwrap_or_default();
    let command_line = notes.text("kernel command line", "proc/cmdline");
    let config = kernel::config(&root, &release);
    let hz = match &config {
        Ok(text) => kernel::hz(text),
        Err(_) => None,
    };
    if hz.is_none() {
        let why = config
            .as_ref()
            .err()
            .map_or("the configuration has no CONFIG_HZ", |w| w);
        notes.note("hz", why);
    }
    let config = config.ok();
    let preemption = kernel::preemption(notes, &build, command_line.as_deref(), config.as_deref());
    let nohz_full = notes.cpus("nohz_full", "sys/devices/system/cpu/nohz_full");
    let possible = notes.cpus("possible CPUs", "sys/devices/system/cpu/possible");
    let possible = possible
        .filter(|p| !p.is_empty())
        .unwrap_or_else(|| online.clone());
    let rcu_nocbs = kernel::rcu_nocbs(
        notes,
        command_line.as_deref(),
        nohz_full.as_ref(),
        &possible,
    );

    let quota = CpuGroups::find(&root).and_then(|groups| groups.quota(&root));
    let cgroup_quota = quota.unwrap_or_else(|why| {
        notes.note("cgroup quota", &why);
        None
    });
    let pages = notes.word("huge pages", "sys/kernel/mm/transparent_hugepage/enabled");

    HostSheet {
        name: notes
            .word("host name", "proc/sys/kernel/hostname")
            .unwrap_or_default(),
        architecture: processor::architecture(notes, cpuinfo),
        cpu_model: cpuinfo.and_then(processor::model),
        caches: first
            .map(|cpu| topology::caches(notes, cpu))
            .unwrap_or_default(),
        memory: memory(notes),
        numa_nodes: topology::numa_nodes(notes),
        governor: processor::governor(notes, &online),
        turbo: processor::turbo(notes),
        hypervisor: processor::hypervisor(notes, cpuinfo),
        isolated: notes.cpus("isolated CPUs", "sys/devices/system/cpu/isolated"),
        transparent_huge_pages: pages.as_deref().and_then(kernel::chosen).map(str::to_owned),
        irqbalance: irqbalance(notes),
        clock_source: notes.word(
            "clock source",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        rt_runtime_us: notes
            .parsed::<i64>("rt runtime", "proc/sys/kernel/sched_rt_runtime_us")
            .and_then(|us| u64::try_from(us).ok()),
        online,
        allowed,
        topology: places,
        kernel: release,
        kernel_build: build,
        kernel_command_line: command_line,
        hz,
        preemption,
        nohz_full,
        rcu_nocbs,
        smt,
        cgroup_quota,
        unreadable: std::mem::take(&mut notes.unreadable),
    }
}

/// Affinity of the process, without offline CPUs (the list in /proc contains them).
fn allowed(notes: &mut Notes<'_>, online: &CpuSet) -> CpuSet {
    let status = notes
        .text("allowed CPUs", "proc/self/status")
        .unwrap_or_default();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    match list.map(|l| l.trim().parse::<CpuSet>()) {
        Some(Ok(set)) => set.iter().filter(|cpu| online.contains(*cpu)).collect(),
        Some(Err(e)) => {
            notes.note("allowed CPUs", &e.to_string());
            CpuSet::new()
        }
        None => {
            notes.note(
                "allowed CPUs",
                "/proc/self/status has no line Cpus_allowed_list",
            );
            CpuSet::new()
        }
    }
}

/// `MemTotal` of /proc/meminfo.
fn memory(notes: &mut Notes<'_>) -> Option<Bytes> {
    let info = notes.text("memory", "proc/meminfo")?;
    let total = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    topology::size_of(total.trim())
}

/// Whether a process named irqbalance exists. In a container, or with /proc mounted hidepid=2, only
/// own processes are visible, so its absence means nothing.
fn irqbalance(notes: &mut Notes<'_>) -> Option<bool> {
    let is = |pid: u32, name: &str| {
        let comm = notes.root.text(&format!("proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.is_some_and(|c| c.trim() == name))
    };
    if notes
        .root
        .numbers("proc")
        .into_iter()
        .any(|pid| is(pid, "irqbalance"))
    {
        return Some(true);
    }
    if is(2, "kthreadd") {
        return Some(false);
    }
    notes.note(
        "irqbalance",
        "only processes of this container or user are visible",
    );
    None
}

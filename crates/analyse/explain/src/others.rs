//! Other users of the CPUs, from the kernel's trace: /proc shows only processes alive when it is
//! read.

use crate::catalog::Catalog;
use crate::kernel::Kernel;
use crate::ran::Ran;
use idlewave_run::SourceKind;
use idlewave_run::tables::{Table, TaskKind, Tasks};
use idlewave_units::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of names listed.
const TOP: usize = 10;

/// Tasks that took the most CPU time on the traced CPUs, other than ranks, the recorded program and
/// idlewave itself: name, nanoseconds; largest first. `None` unless every switch was traced.
pub(crate) fn top_others(
    kernel: &Kernel,
    ran: &Ran,
    tasks: &Tasks,
    catalog: &mut Catalog,
) -> Option<Vec<(String, u64)>> {
    if !kernel.sees_everything() {
        return None;
    }
    let of_program: BTreeSet<Pid> = tasks
        .rows()
        .filter(|task| task.node == kernel.node && task.kind == TaskKind::Program)
        .map(|task| task.pid)
        .collect();
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (pid, thread) in ran.on(kernel.node) {
        let source = catalog.thread(kernel.node, pid);
        let other = matches!(
            catalog.kind(source),
            SourceKind::Task | SourceKind::KernelThread
        );
        if other && !of_program.contains(&pid) {
            *by_name.entry(catalog.name(source).to_owned()).or_default() += thread.time;
        }
    }
    let mut top: Vec<(String, u64)> = by_name.into_iter().filter(|(_, ns)| *ns > 0).collect();
    // Equal times stay in order of name.
    top.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    top.truncate(TOP);
    Some(top)
}

//! Which CPUs the ranks of `measure smt` use, and what the other hardware threads of their cores do.

use idlewave_run::{CpuTopology, Siblings};
use idlewave_units::{Cpu, CpuSet};
use serde::Serialize;

/// The core of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// The rank's hardware thread: the first that may be used.
    pub cpu: Cpu,
    /// The others that may be used, at least one.
    pub siblings: CpuSet,
}

impl Core {
    /// CPUs to which its rank is bound.
    pub fn of_rank(&self, state: Siblings) -> CpuSet {
        let own = std::iter::once(self.cpu);
        match state {
            Siblings::Idle | Siblings::Busy => own.collect(),
            Siblings::Free => own.chain(self.siblings.iter()).collect(),
        }
    }
}

/// The cores that are measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// One per rank, in the order of their CPUs.
    pub cores: Vec<Core>,
    /// CPUs that may be used, but no sibling of theirs.
    pub left_out: CpuSet,
}

impl Layout {
    /// The cores with at least two hardware threads among the `usable` CPUs; `online` ones are
    /// described by `places`.
    pub fn of(places: &[CpuTopology], usable: &CpuSet) -> Self {
        let mut layout = Self::default();
        for place in places.iter().filter(|p| usable.contains(p.cpu)) {
            let siblings = siblings_of(place, places);
            let others = siblings.iter().filter(|&c| usable.contains(c));
            let others: CpuSet = others.collect();
            let next = others.iter().next();
            match next {
                None => layout.left_out.insert(place.cpu),
                // Otherwise the core is that of a CPU before.
                Some(next) if place.cpu < next => layout.cores.push(Core {
                    cpu: place.cpu,
                    siblings: others,
                }),
                Some(_) => {}
            }
        }
        layout.cores.sort_by_key(|core| core.cpu);
        layout
    }

    /// All CPUs of the cores that may be used.
    pub fn cpus(&self) -> CpuSet {
        let cpus = self.cores.iter().map(|core| core.of_rank(Siblings::Free));
        cpus.flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
            .collect()
    }

    /// CPUs on which idlewave computes.
    pub fn busy(&self, state: Siblings) -> Vec<Cpu> {
        match state {
            Siblings::Idle | Siblings::Free => Vec::new(),
            Siblings::Busy => self.cores.iter().flat_map(|c| c.siblings.iter()).collect(),
        }
    }
}

/// The other CPUs of its core that are online.
fn siblings_of(place: &CpuTopology, places: &[CpuTopology]) -> CpuSet {
    let online = |cpu: Cpu| places.iter().any(|p| p.cpu == cpu);
    let all = place.siblings.iter().flat_map(CpuSet::iter);
    all.filter(|&cpu| cpu != place.cpu && online(cpu)).collect()
}

/// How to compare SMT on with SMT off.
pub const ON_AND_OFF: &str = "where SMT can be switched, the administrator does so in \
    /sys/devices/system/cpu/smt/control; compare a run of each setting with `idlewave compare`, or \
    times in files with `idlewave measure step A B`";

/// Why no core can be measured, and what to do about it.
pub fn why_none(places: &[CpuTopology], usable: &CpuSet) -> (String, &'static str) {
    if places.iter().all(|p| p.siblings.is_none()) {
        let reason = "the kernel does not say which CPUs share a core";
        return (reason.to_owned(), ON_AND_OFF);
    }
    if places.iter().any(|p| !siblings_of(p, places).is_empty()) {
        return (
            format!("no two of the CPUs {usable} share a core"),
            "allow all hardware threads of a core: in --cpus, in the cpuset, or with taskset",
        );
    }
    let reason = "each of its cores has one hardware thread: it has no SMT, or SMT is off";
    (reason.to_owned(), ON_AND_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of these cores, each a list of CPUs as sysfs has it; those `offline` have no entry.
    fn machine(cores: &[&str], offline: &str) -> Vec<CpuTopology> {
        let mut places = Vec::new();
        for (core, text) in cores.iter().enumerate() {
            let siblings = set(text);
            for cpu in siblings.difference(&set(offline)).iter() {
                places.push(CpuTopology {
                    cpu,
                    core: Some(core as u32),
                    package: Some(0),
                    numa: None,
                    siblings: Some(siblings.clone()),
                });
            }
        }
        places.sort_by_key(|place| place.cpu);
        places
    }

    fn set(text: &str) -> CpuSet {
        match text {
            "" => CpuSet::default(),
            text => text.parse().expect("a list of CPUs"),
        }
    }

    /// CPU of each rank and its siblings, and what is left out.
    fn layout(cores: &[&str], offline: &str, usable: &str) -> (Vec<(u32, String)>, String) {
        let found = Layout::of(&machine(cores, offline), &set(usable));
        let cores = found.cores.iter();
        let cores = cores.map(|c| (c.cpu.get(), c.siblings.to_string()));
        (cores.collect(), found.left_out.to_string())
    }

    fn cores(of: &[(u32, &str)]) -> Vec<(u32, String)> {
        of.iter().map(|(cpu, s)| (*cpu, s.to_string())).collect()
    }

    #[test]
    fn every_core_with_siblings_has_one_rank() {
        // Siblings are numbered after all cores, as by most firmware, or next to each other.
        let apart = layout(&["0,4", "1,5", "2,6", "3,7"], "", "0-7");
        let wanted = cores(&[(0, "4"), (1, "5"), (2, "6"), (3, "7")]);
        assert_eq!(apart, (wanted, String::new()));
        let beside = layout(&["0-1", "2-3"], "", "0-3");
        assert_eq!(beside, (cores(&[(0, "1"), (2, "3")]), String::new()));
        let four = layout(&["0-3", "4-7"], "", "0-7");
        assert_eq!(four, (cores(&[(0, "1-3"), (4, "5-7")]), String::new()));
    }

    #[test]
    fn threads_that_may_not_be_used_or_are_offline_do_not_count() {
        // CPU 5 is not allowed, nor are 0 and 2.
        let some = layout(&["0,4", "1,5", "2,6", "3,7"], "", "1,3-4,6-7");
        assert_eq!(some, (cores(&[(3, "7")]), "1,4,6".to_owned()));
        // sysfs of some kernels still lists an offline sibling.
        let off = layout(&["0,4", "1,5"], "4", "0-1,4-5");
        assert_eq!(off, (cores(&[(1, "5")]), "0".to_owned()));
        // Two of four threads.
        let two = layout(&["0-3", "4-7"], "5", "2-7");
        assert_eq!(two, (cores(&[(2, "3"), (4, "6-7")]), String::new()));
    }

    #[test]
    fn ranks_keep_to_their_core_and_the_load_to_the_siblings() {
        let layout = Layout::of(&machine(&["0-3", "4-7"], ""), &set("0-7"));
        let of_ranks = |state| {
            let cores = layout.cores.iter();
            let each = cores.map(|core| core.of_rank(state).to_string());
            each.collect::<Vec<_>>()
        };
        let busy = |state| {
            let cpus: CpuSet = layout.busy(state).into_iter().collect();
            cpus.to_string()
        };
        assert_eq!(of_ranks(Siblings::Idle), ["0", "4"]);
        assert_eq!(of_ranks(Siblings::Free), ["0-3", "4-7"]);
        assert_eq!(of_ranks(Siblings::Busy), ["0", "4"]);
        assert_eq!(Siblings::ALL.map(busy), ["", "", "1-3,5-7"]);
    }

    #[test]
    fn a_machine_without_two_threads_of_a_core_says_why() {
        let why = |cores: &[&str], offline, usable| {
            let (places, usable) = (machine(cores, offline), set(usable));
            assert!(Layout::of(&places, &usable).cores.is_empty());
            why_none(&places, &usable)
        };
        let (reason, next) = why(&["0", "1"], "", "0-1");
        assert!(reason.contains("no SMT"), "{reason}");
        assert!(next.contains("smt/control"), "{next}");
        // Switched off: the siblings are offline.
        assert!(why(&["0,2", "1,3"], "2-3", "0-1").0.contains("no SMT"));
        let (reason, next) = why(&["0,2", "1,3"], "", "0-1");
        assert_eq!(reason, "no two of the CPUs 0-1 share a core");
        assert!(next.contains("--cpus"), "{next}");
        let mut unknown = machine(&["0,1"], "");
        unknown.iter_mut().for_each(|place| place.siblings = None);
        assert!(why_none(&unknown, &set("0-1")).0.contains("does not say"));
    }
}

//! What-if models: changes to the machine.

use crate::model::{NoiseModel, Source, Together};
use idlewave_run::SourceKind;

impl NoiseModel {
    /// The model in which the events of every source strike all CPUs of all nodes at the same
    /// moments.
    pub fn coscheduled(&self) -> NoiseModel {
        let mut model = self.clone();
        for source in &mut model.sources {
            source.together = Together::All;
        }
        model
    }

    /// Reserves this many CPUs of every node for all noise that can run anywhere. That noise then
    /// strikes no rank, and the node has fewer ranks. `None` if no CPU would be left for ranks, or
    /// `cpus` is 0.
    pub fn with_quiet_cpus(&self, cpus: u32) -> Option<NoiseModel> {
        let left = self
            .cpus_per_node
            .checked_sub(cpus)
            .filter(|&left| left > 0 && cpus > 0)?;
        let mut model = self.clone();
        model.cpus_per_node = left;
        model.sources.retain(|source| !source.can_move());
        for source in &mut model.sources {
            if let Some(struck) = &mut source.cpus {
                struck.retain(|&cpu| cpu < left);
            }
        }
        model
            .sources
            .retain(|s| s.cpus.as_ref().is_none_or(|c| !c.is_empty()));
        Some(model)
    }
}

/// Kernel threads that belong to one CPU.
const PER_CPU_THREADS: [&str; 9] = [
    "ksoftirqd",
    "migration",
    "cpuhp",
    "kworker",
    "idle_inject",
    "irq_work",
    "watchdog",
    "rcuc",
    "ktimers",
];

impl Source {
    /// Whether an administrator can move it to another CPU: user processes, device interrupts,
    /// kernel threads not bound to a CPU. Work for the CPU itself stays: its timer tick, softirqs,
    /// bound kernel threads, the hypervisor.
    pub fn can_move(&self) -> bool {
        match self.kind {
            SourceKind::Task | SourceKind::OtherTask | SourceKind::Irq => true,
            SourceKind::KernelThread => {
                let unbound = self.name.starts_with("kworker/u");
                let own = PER_CPU_THREADS.iter().any(|t| self.name.starts_with(t));
                unbound || !own
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Arrivals, Lengths, Scope};

    fn source(kind: SourceKind, name: &str, cpus: Option<Vec<u32>>) -> Source {
        Source {
            kind,
            name: name.into(),
            strikes: Scope::EachCpu,
            together: Together::Alone,
            cpus,
            keeps: 0.0,
            arrivals: Arrivals::Poisson { rate_per_s: 1.0 },
            length: Some(Lengths::Fixed { ns: 1 }),
            fit: None,
        }
    }

    #[test]
    fn a_quiet_cpu_takes_what_can_move_and_nothing_else() {
        let model = NoiseModel {
            cpus_per_node: 4,
            sources: vec![
                source(SourceKind::Task, "crond", None),
                source(SourceKind::TimerTick, "local timer", None),
                source(SourceKind::Irq, "eth0", Some(vec![0])),
                source(SourceKind::KernelThread, "kworker/3:1", Some(vec![3])),
                source(SourceKind::KernelThread, "kworker/u8:0", None),
                source(SourceKind::KernelThread, "kswapd0", None),
                source(SourceKind::Softirq, "timer", Some(vec![0, 3])),
            ],
            ..NoiseModel::default()
        };
        let quiet = model.with_quiet_cpus(1).unwrap();
        let names: Vec<&str> = quiet.sources.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["local timer", "timer"]);
        assert_eq!(quiet.cpus_per_node, 3);
        assert_eq!(quiet.sources[1].cpus, Some(vec![0]));
        assert_eq!(quiet.check(), Ok(()));
        assert_eq!(model.with_quiet_cpus(4), None);
        assert_eq!(model.with_quiet_cpus(0), None);
    }

    #[test]
    fn coscheduled_noise_strikes_all_at_once() {
        let model = NoiseModel {
            sources: vec![source(SourceKind::Task, "crond", None)],
            ..NoiseModel::default()
        };
        let together = model.coscheduled();
        assert!(together.sources.iter().all(|s| s.together == Together::All));
    }
}

//! Names in the bundle: which sources of the model are threads, and which are rows of `sources`.

use idlewave_noise::{Noise, NoiseModel};
use idlewave_run::SourceKind;
use idlewave_run::tables::{Source, Sources, Table, Task, TaskKind, Tasks};
use idlewave_units::{NodeId, Pid};
use std::collections::BTreeSet;

/// Class and name of one-off delays: additional work, once.
pub const DELAY: (SourceKind, &str) = (SourceKind::Imbalance, "one-off delay");

/// What a source of the model is in the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A thread on the CPU.
    Thread(Pid),
    /// A row of `sources`.
    Interrupt(u32),
}

/// Numbers of all threads and sources. Ranks come first; every thread has a different number, on
/// all CPUs.
pub struct Names {
    kinds: Vec<SourceKind>,
    ranks: u32,
    /// Source and rank of the threads that have struck.
    threads: BTreeSet<(u32, u32)>,
}

impl Names {
    pub fn new(model: &NoiseModel, ranks: u32) -> Self {
        Names {
            kinds: model.sources.iter().map(|s| s.kind).collect(),
            ranks,
            threads: BTreeSet::new(),
        }
    }

    /// The thread of a rank. 0 is the idle task.
    pub fn rank(rank: u32) -> Pid {
        Pid::new(rank + 1)
    }

    /// What strikes the CPU of a rank. A source of the model has a thread of its own on each rank,
    /// so that no thread is in two places.
    pub fn who(&mut self, rank: u32, source: u32) -> Who {
        match self.kinds[source as usize] {
            SourceKind::Task | SourceKind::KernelThread => {
                self.threads.insert((source, rank));
                Who::Thread(self.thread(source, rank))
            }
            _ => Who::Interrupt(source),
        }
    }

    /// The row of `sources` of one-off delays.
    pub fn delay(&self) -> u32 {
        self.kinds.len() as u32
    }

    fn thread(&self, source: u32, rank: u32) -> Pid {
        Pid::new((source + 1) * self.ranks + rank + 1)
    }

    /// The table `sources`: those of the model, each at its own number, and the one-off delays if
    /// there are any.
    pub fn sources(&self, model: &NoiseModel, delays: bool) -> Sources {
        let mut sources = Sources::default();
        let named = model.sources.iter().map(|s| (s.kind, s.name.as_str()));
        for (id, (kind, name)) in (0..).zip(named.chain(delays.then_some(DELAY))) {
            sources.push(Source {
                id,
                kind,
                name: name.to_owned(),
            });
        }
        sources
    }

    /// The table `tasks`: the ranks and all threads that have struck.
    pub fn tasks(&self, model: &NoiseModel, noise: &Noise) -> Tasks {
        let mut tasks = Tasks::default();
        let node = |rank| NodeId::new(noise.place(rank).node);
        for rank in 0..self.ranks {
            tasks.push(Task {
                node: node(rank),
                pid: Self::rank(rank),
                process: None,
                name: format!("rank {rank}"),
                kind: TaskKind::Rank,
            });
        }
        for &(source, rank) in &self.threads {
            tasks.push(Task {
                node: node(rank),
                pid: self.thread(source, rank),
                process: None,
                name: model.sources[source as usize].name.clone(),
                kind: match self.kinds[source as usize] {
                    SourceKind::KernelThread => TaskKind::Kernel,
                    _ => TaskKind::User,
                },
            });
        }
        tasks
    }
}

//! When and for how long every source struck every CPU: the input for fitting a noise model.

use crate::ExplainError;
use crate::crowd::{Crowd, crowds};
use crate::observe::{Observed, observe, watch_strikes};
use crate::profile::is_of_the_machine;
use crate::watch::{Charge, Watch};
use crate::watched::{gaps, is_recorded};
use idlewave_run::{Ledger, RunReader, SourceKind};
use idlewave_units::{Cpu, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// A CPU while a thread on it was watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The node.
    pub node: NodeId,
    /// The CPU to which the watched threads were bound, or on which they first ran.
    pub cpu: Cpu,
    /// Starts and ends in nanoseconds, in order, without overlap.
    pub watched: Vec<(u64, u64)>,
}

/// One strike on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneStrike {
    /// Number of the lane.
    pub lane: u32,
    /// Start, nanoseconds.
    pub begin: u64,
    /// Net time taken, nanoseconds.
    pub length: u64,
}

/// All strikes of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStrikes {
    /// Class.
    pub kind: SourceKind,
    /// Name, as in the table of sources.
    pub name: String,
    /// In order of lane and start.
    pub strikes: Vec<LaneStrike>,
}

/// Which noise of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoiseOf {
    /// Noise of the machine, in all phases. Effects of the run itself (its recorder, tracing, other
    /// ranks on the same CPU) are left out, as in the noise profile.
    #[default]
    Machine,
    /// Everything that took time from the ranks of this phase, including effects of the run itself,
    /// but not the turns of other ranks on the same CPU.
    Phase(u32),
}

impl NoiseOf {
    fn has_phase(self, phase: u32) -> bool {
        match self {
            NoiseOf::Machine => true,
            NoiseOf::Phase(only) => only == phase,
        }
    }

    fn has_kind(self, kind: SourceKind) -> bool {
        match self {
            NoiseOf::Machine => is_of_the_machine(kind),
            NoiseOf::Phase(_) => kind != SourceKind::Rank,
        }
    }
}

/// The noise of a run, event by event.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseEvents {
    /// Watched CPUs, by node and CPU.
    pub lanes: Vec<Lane>,
    /// Sources with at least one strike, by class and name.
    pub sources: Vec<SourceStrikes>,
    /// Nodes whose kernel's view was not recorded; their detours are under
    /// [`NoiseEvents::UNNAMED`].
    pub unnamed: Vec<NodeId>,
    /// Nodes whose ranks shared CPUs. Their turns are not noise.
    pub crowds: Vec<Crowd>,
    /// What is missing from the run.
    pub losses: Ledger,
}

impl NoiseEvents {
    /// Name of the source, of class unexplained, for everything that has no name.
    pub const UNNAMED: &'static str = "detours";
}

/// The strikes of all sources of a run, exactly as its explanation counts them.
///
/// # Errors
/// The bundle cannot be read, contradicts itself, or `stop` became true.
pub fn noise_events(
    run: &RunReader,
    of: NoiseOf,
    stop: &AtomicBool,
) -> Result<NoiseEvents, ExplainError> {
    let Observed {
        kernels,
        catalog,
        losses,
        watches,
        charges,
        extras,
        ..
    } = observe(run, stop)?;
    let wanted: Vec<bool> = watches.iter().map(|w| of.has_phase(w.phase)).collect();
    let (lanes, of_watch) = lanes(&watches, &wanted);
    let mut strikes: BTreeMap<(SourceKind, String), Vec<LaneStrike>> = BTreeMap::new();
    for (i, watch) in watches.iter().enumerate() {
        if !wanted[i] || kernels.are_blind(watch.node) {
            continue;
        }
        for strike in watch_strikes(watch, &charges[i], &extras[i], &catalog, &kernels) {
            let kind = catalog.kind(strike.source);
            // A program may sleep voluntarily.
            let own = kind == SourceKind::Blocked && is_recorded(run.manifest(), watch);
            if of.has_kind(kind) && !own {
                let key = (kind, catalog.name(strike.source).to_owned());
                strikes.entry(key).or_default().push(LaneStrike {
                    lane: of_watch[i],
                    begin: strike.begin,
                    length: strike.length,
                });
            }
        }
    }
    let of_phase = watches.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
    let mut unnamed: Vec<NodeId> = of_phase
        .map(|(w, _)| w.node)
        .filter(|&n| kernels.are_blind(n))
        .collect();
    unnamed.sort_unstable();
    unnamed.dedup();
    if !unnamed.is_empty() {
        let key = (SourceKind::Unexplained, NoiseEvents::UNNAMED.to_owned());
        let list = strikes.entry(key).or_default();
        for (i, gaps) in gaps(run, &watches)?.iter().enumerate() {
            if wanted[i] && kernels.are_blind(watches[i].node) {
                list.extend(gaps.iter().map(|gap| LaneStrike {
                    lane: of_watch[i],
                    begin: gap.begin,
                    length: gap.length,
                }));
            }
        }
    }
    let by_ranks = |list: &Vec<Charge>| {
        let ranks = |c: &&Charge| catalog.kind(c.source) == SourceKind::Rank;
        list.iter().filter(ranks).map(Charge::length).sum::<u64>()
    };
    let of_ranks = watches.iter().zip(charges.iter().map(by_ranks));
    let crowds = crowds(
        of_ranks.zip(&wanted).filter(|w| *w.1).map(|w| w.0),
        &kernels,
    );
    let sources = strikes
        .into_iter()
        .filter(|(_, s)| !s.is_empty())
        .map(|((kind, name), mut strikes)| {
            strikes.sort_unstable();
            SourceStrikes {
                kind,
                name,
                strikes,
            }
        })
        .collect();
    Ok(NoiseEvents {
        lanes,
        sources,
        unnamed,
        crowds,
        losses,
    })
}

/// Consecutive wanted watches of one CPU are one lane; overlapping ones are several. Also returns
/// the lane of every watch, meaningless where it is not wanted.
fn lanes(watches: &[Watch], wanted: &[bool]) -> (Vec<Lane>, Vec<u32>) {
    let mut order: Vec<usize> = (0..watches.len()).filter(|&i| wanted[i]).collect();
    order.sort_by_key(|&i| {
        let w = &watches[i];
        (w.node, w.cpu, w.begin, w.end, i)
    });
    let mut lanes: Vec<Lane> = Vec::new();
    let mut of_watch = vec![0; watches.len()];
    for i in order {
        let w = &watches[i];
        let free = lanes.iter().position(|l| {
            l.node == w.node
                && l.cpu == w.cpu
                && l.watched.last().is_none_or(|&(_, end)| end <= w.begin)
        });
        let lane = free.unwrap_or_else(|| {
            lanes.push(Lane {
                node: w.node,
                cpu: w.cpu,
                watched: Vec::new(),
            });
            lanes.len() - 1
        });
        lanes[lane].watched.push((w.begin, w.end));
        of_watch[i] = lane as u32;
    }
    (lanes, of_watch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Pid;

    #[test]
    fn phases_of_a_cpu_are_one_lane_and_threads_at_the_same_time_are_several() {
        let watch = |cpu, begin, end| Watch {
            phase: 0,
            rank: None,
            node: NodeId::new(0),
            cpu: Cpu::new(cpu),
            pid: Pid::new(1),
            begin,
            end,
        };
        let watches = [
            watch(1, 50, 60),
            watch(0, 0, 10),
            watch(0, 10, 20),
            watch(0, 15, 18),
            watch(1, 0, 10),
        ];
        let (few, _) = lanes(&watches, &[true, false, true, false, false]);
        let spans: Vec<_> = few.iter().map(|l| l.watched.clone()).collect();
        assert_eq!(spans, [vec![(10, 20)], vec![(50, 60)]]);
        let (lanes, of_watch) = lanes(&watches, &[true; 5]);
        let spans: Vec<_> = lanes
            .iter()
            .map(|l| (l.cpu.get(), l.watched.clone()))
            .collect();
        assert_eq!(
            spans,
            [
                (0, vec![(0, 10), (10, 20)]),
                (0, vec![(15, 18)]),
                (1, vec![(0, 10), (50, 60)]),
            ]
        );
        assert_eq!(of_watch, [2, 0, 0, 1, 2]);
    }
}

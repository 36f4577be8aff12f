//! From records in counts to rows on CLOCK_MONOTONIC.

use crate::detour::Gap;
use crate::fixed_time::Counted;
use crate::fixed_work::Span;
use crate::lockstep::Iteration;
use crate::md::Step;
use idlewave_clock::Calibration;
use idlewave_run::spill::{Block, RecordKind};
use idlewave_run::tables::{Detour, Detours, Quanta, Quantum, Region, RegionKind, Regions, Table};
use idlewave_run::{Coupling, Manifest, PhaseKind};
use idlewave_units::{Bytes, Nanos, Rank};
use std::collections::BTreeMap;

/// Rows made of records.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Detours of the detour loop and gaps of ranks.
    pub detours: Detours,
    /// Repetitions of the fixed work quantum.
    pub quanta: Quanta,
    /// Computation and wait of every iteration.
    pub regions: Regions,
    /// Per phase and rank: the number and record of the iteration that has not ended yet.
    open: BTreeMap<(u32, Rank), (u64, Iteration)>,
    /// The same for steps of the Lennard-Jones run.
    open_steps: BTreeMap<(u32, Rank), (u64, Step)>,
}

impl Rows {
    /// Drops the rows but keeps their memory, and the position in each series of iterations.
    pub fn clear(&mut self) {
        self.detours.clear();
        self.quanta.clear();
        self.regions.clear();
    }

    /// Adds the rows of a block, `words`, of the run that `manifest` describes. Returns the number
    /// of records that match no phase and so produce no rows.
    #[must_use]
    pub fn add(
        &mut self,
        block: &Block,
        words: &[u64],
        manifest: &Manifest,
        calibration: &Calibration,
    ) -> u64 {
        let phase = manifest.phases.get(block.phase as usize);
        match (block.kind, phase.map(|p| &p.kind)) {
            (RecordKind::Detour, Some(PhaseKind::Detour { .. })) => {
                self.detours(block, words, false, calibration);
            }
            (RecordKind::RankGap, Some(PhaseKind::Lockstep { .. })) => {
                self.detours(block, words, true, calibration);
            }
            (RecordKind::Quantum, Some(PhaseKind::FixedWork { .. })) => {
                for span in bytemuck::cast_slice::<u64, Span>(words) {
                    self.quantum(block, [span.begin, span.end], None, calibration);
                }
            }
            (RecordKind::TimedQuantum, Some(PhaseKind::FixedTime { .. })) => {
                for one in bytemuck::cast_slice::<u64, Counted>(words) {
                    self.quantum(block, [one.begin, one.end], Some(one.units), calibration);
                }
            }
            (
                RecordKind::Iteration,
                Some(&PhaseKind::Lockstep {
                    coupling,
                    message_bytes,
                    ..
                }),
            ) => {
                // A ring: one message from each side.
                let bytes = (coupling == Coupling::Neighbours && manifest.ranks.len() > 1)
                    .then(|| Bytes::new(2 * message_bytes));
                let wait = RegionKind::wait_of(coupling);
                self.iterations(block, words, wait, bytes, calibration);
            }
            (RecordKind::MdStep, Some(PhaseKind::MolecularDynamics { .. })) => {
                self.steps(block, words, calibration);
            }
            _ => return (words.len() / block.kind.words()) as u64,
        }
        0
    }

    /// A quantum with its first and last reading in counts.
    fn quantum(
        &mut self,
        block: &Block,
        counts: [u64; 2],
        units: Option<u64>,
        calibration: &Calibration,
    ) {
        let [begin_ns, end_ns] = counts.map(|counts| calibration.to_ns(counts));
        self.quanta.push(Quantum {
            phase: block.phase,
            cpu: block.cpu,
            begin_ns,
            duration: Nanos::from_nanos(end_ns.saturating_sub(begin_ns)),
            units,
        });
    }

    fn detours(&mut self, block: &Block, words: &[u64], of_rank: bool, calibration: &Calibration) {
        for gap in bytemuck::cast_slice::<u64, Gap>(words) {
            let begin_ns = calibration.to_ns(gap.begin);
            let end_ns = calibration.to_ns(gap.begin.saturating_add(gap.length));
            self.detours.push(Detour {
                phase: block.phase,
                cpu: block.cpu,
                rank: of_rank.then_some(block.rank),
                begin_ns,
                length: Nanos::from_nanos(end_ns.saturating_sub(begin_ns)),
            });
        }
    }

    fn iterations(
        &mut self,
        block: &Block,
        words: &[u64],
        wait: RegionKind,
        bytes: Option<Bytes>,
        calibration: &Calibration,
    ) {
        let key = (block.phase, block.rank);
        for &next in bytemuck::cast_slice::<u64, Iteration>(words) {
            let number = self.open.get(&key).map_or(0, |open| open.0 + 1);
            let Some((iteration, i)) = self.open.insert(key, (number, next)) else {
                continue;
            };
            let arrival_ns = calibration.to_ns(i.arrival);
            let region = |kind, begin_ns, end_ns, bytes| Region {
                rank: block.rank,
                phase: block.phase,
                iteration,
                kind,
                begin_ns,
                end_ns,
                bytes,
            };
            let begin_ns = calibration.to_ns(i.begin);
            self.regions
                .push(region(RegionKind::Compute, begin_ns, arrival_ns, None));
            let end_ns = calibration.to_ns(next.begin);
            self.regions.push(region(wait, arrival_ns, end_ns, bytes));
        }
    }

    fn steps(&mut self, block: &Block, words: &[u64], calibration: &Calibration) {
        let key = (block.phase, block.rank);
        for &next in bytemuck::cast_slice::<u64, Step>(words) {
            let number = self.open_steps.get(&key).map_or(0, |open| open.0 + 1);
            let Some((iteration, step)) = self.open_steps.insert(key, (number, next)) else {
                continue;
            };
            let edges = [
                (RegionKind::Update, step.begin, step.exchange),
                (RegionKind::Exchange, step.exchange, step.list),
                (RegionKind::Rebuild, step.list, step.force),
                (RegionKind::Force, step.force, next.begin),
            ];
            for (kind, begin, end) in edges {
                // Most steps do not rebuild the list.
                if kind != RegionKind::Rebuild || begin != end {
                    self.regions.push(Region {
                        rank: block.rank,
                        phase: block.phase,
                        iteration,
                        kind,
                        begin_ns: calibration.to_ns(begin),
                        end_ns: calibration.to_ns(end),
                        bytes: None,
                    });
                }
            }
        }
    }
}

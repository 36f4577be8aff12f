//! A recorded program as stored in its bundle.

use super::calls::RecordedCalls;
use super::lanes::Program;
use super::messages::{Ends, Matched};
use crate::ExplainError;
use crate::catalog::Catalog;
use crate::watch::Charge;
use idlewave_run::{Ledger, PhaseKind, RunReader, SourceKind};

/// A recorded program as stored in the bundle.
#[derive(Debug)]
pub struct Recorded {
    /// Its calls.
    pub program: Program,
    /// Its messages.
    pub matched: Matched,
    /// Name of its MPI library.
    pub library: Option<String>,
    /// Start and end of the phase.
    pub phase: (u64, u64),
}

impl Recorded {
    /// Reads the first recorded phase; `None` if there is none, or its program called no MPI.
    pub fn read(run: &RunReader, losses: &mut Ledger) -> Result<Option<Self>, ExplainError> {
        let phases = run.manifest().phases.iter();
        let mut recorded = phases.filter_map(|p| match &p.kind {
            PhaseKind::Recorded { library, .. } => Some((library, (p.begin_ns, p.end_ns))),
            _ => None,
        });
        let Some((library, phase)) = recorded.next() else {
            return Ok(None);
        };
        let mut program = Program::without_calls(run)?;
        let (calls, ends) = rayon::join(
            || RecordedCalls::read(run, &program),
            || Ends::read(run, &program),
        );
        let (Some(calls), ends) = (calls?, ends?) else {
            return Ok(None);
        };
        program.add_calls(calls, losses);
        Ok(Some(Self {
            matched: Matched::of(ends, &mut program, losses),
            program,
            library: library.clone(),
            phase,
        }))
    }

    /// When the thread of a lane is known to have run again after `time`: at the start and end of
    /// each call it did run. `None` before its first call.
    pub(crate) fn back_after(&self, lane: usize, time: u64) -> Option<u64> {
        let calls = &self.program.lanes[lane].calls;
        let next = calls.partition_point(|c| c.begin <= time);
        let call = calls[..next].last()?;
        let outside = || calls.get(next).map_or(u64::MAX, |c| c.begin);
        Some(if call.end > time { call.end } else { outside() })
    }

    /// Removes sleep inside calls from what was taken from the lanes: there it is how the rank
    /// waits.
    pub(crate) fn drop_sleep_in_calls(&self, catalog: &Catalog, charges: &mut [Vec<Charge>]) {
        for (lane, list) in self.program.lanes.iter().zip(charges) {
            let mut kept = Vec::with_capacity(list.len());
            for charge in list.drain(..) {
                if catalog.kind(charge.source) != SourceKind::Blocked {
                    kept.push(charge);
                    continue;
                }
                let mut from = charge.begin;
                for call in &lane.calls[lane.calls_within(charge.begin, charge.end)] {
                    if from < call.begin {
                        kept.push(Charge {
                            begin: from,
                            end: call.begin,
                            ..charge
                        });
                    }
                    from = call.end;
                }
                if from < charge.end {
                    kept.push(Charge {
                        begin: from,
                        ..charge
                    });
                }
            }
            *list = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_again_when_it_leaves_its_call_or_enters_the_next() {
        let recorded = Recorded {
            program: Program::of_calls(&[(10, 20), (30, 30), (40, 50)]),
            matched: Matched::default(),
            library: None,
            phase: (0, 100),
        };
        let back = |time| recorded.back_after(0, time);
        assert_eq!(
            [9, 10, 19, 20, 29].map(back),
            [None, Some(20), Some(20), Some(30), Some(30)]
        );
        assert_eq!(
            [30, 39, 40, 50].map(back),
            [Some(40), Some(40), Some(50), Some(u64::MAX)]
        );
    }
}

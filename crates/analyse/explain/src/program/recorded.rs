//! A recorded program as stored in its bundle.

use super::lanes::Program;
use super::messages::Matched;
use crate::ExplainError;
use crate::catalog::Catalog;
use crate::edges::Gap;
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
        let Some(mut program) = Program::read(run, losses)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            matched: Matched::read(run, &mut program, losses)?,
            program,
            library: library.clone(),
            phase,
        }))
    }

    /// The stretches during which a lane is not known to have run; at the start and end of each
    /// call it did run.
    pub(crate) fn unseen(&self, lane: usize) -> Vec<Gap> {
        let calls = &self.program.lanes[lane].calls;
        let mut out = Vec::with_capacity(2 * calls.len());
        for (i, call) in calls.iter().enumerate() {
            let next = calls.get(i + 1).map_or(u64::MAX / 2, |c| c.begin);
            for (begin, end) in [(call.begin, call.end), (call.end, next)] {
                let length = end.saturating_sub(begin);
                out.push(Gap { begin, length });
            }
        }
        out
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

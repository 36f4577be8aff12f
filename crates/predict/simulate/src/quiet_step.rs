//! The undisturbed step that a prediction is for.

use crate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use crate::goal::Parameters;
use crate::{Shape, Stencil, Work};
use idlewave_run::findings::Topology;
use idlewave_units::Nanos;

/// A step of a rank without noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietStep {
    /// Computation, above 0.
    pub work: Nanos,
    /// Cost of an exchange with the neighbours; `None` if it was not measured.
    pub exchange: Option<Nanos>,
    /// Cost of a barrier; `None` if it was not measured.
    pub barrier: Option<Nanos>,
}

impl QuietStep {
    /// The step as a program.
    pub(crate) fn program(&self, topology: Topology, ranks: u64) -> Program {
        let (then, beyond) = match topology {
            Topology::Barrier => {
                let barrier = Phase::Collective {
                    operation: Collective::Barrier,
                    algorithm: Algorithm::Dissemination,
                    bytes: 1,
                };
                (barrier, self.barrier)
            }
            _ => {
                let exchange = Phase::Exchange {
                    stencil: Stencil::nearest(Shape::of(topology, ranks as usize)),
                    bytes: 1,
                    wait: Wait::All,
                };
                (exchange, self.exchange)
            }
        };
        let pause = beyond.map_or(0, Nanos::get);
        Program {
            ranks: ranks as u32,
            phases: vec![
                Phase::Compute(Work::Same(self.work.get())),
                then,
                Phase::Pause(pause),
            ],
            costs: Parameters::FREE,
        }
    }
}

//! The end of the run.

use super::anchor::Anchor;
use super::build::Build;
use super::losses::COPY;
use crate::import::app::{NodeFacts, Told};
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use idlewave_run::{ClockSheet, Phase, PhaseKind, TraceMode, Unavailable};
use idlewave_units::{CpuSet, Nanos, NodeId};

impl Build {
    /// Describes the nodes, and finishes the tables and the run.
    pub(super) fn finish(mut self, anchor: &Anchor, name: String) -> Result<Imported, ImportError> {
        if self.losses.files == 0 {
            let directory = anchor.path().with_extension("");
            return Err(ImportError::Lacks {
                path: anchor.path().to_owned(),
                what: format!(
                    "its events are missing: there are none in {}",
                    directory.display()
                ),
                next: COPY.to_owned(),
            });
        }
        let (begin_ns, end_ns) = self.span.unwrap_or_default();
        let span = Nanos::from_nanos(end_ns - begin_ns);
        let manifest = &mut self.app.run.manifest;
        let mut method = match self.corrected {
            true => "times of the archive, with the offsets of each location's clock in it",
            false => "times of the archive",
        }
        .to_owned();
        if self.shifts.moved > 0 {
            method += ", and the clocks of ranks aligned by collectives that wait for all";
        }
        let sheet = |(node, host): (u32, &String)| {
            NodeFacts {
                node: NodeId::new(node),
                host: host.clone(),
                cpus: CpuSet::default(),
                traced_cpus: 0,
                clock: ClockSheet::OTF2,
                counts_per_second: self.ticks_per_second as f64,
                method: method.clone(),
                wall: span,
                mode: TraceMode::Off,
                unavailable: vec![Unavailable {
                    what: "which thread had which CPU, interrupts and wake-ups".to_owned(),
                    why: "an OTF2 archive tells what the program did, not what the kernel did"
                        .to_owned(),
                    allow: Some("sudo idlewave record -- mpirun ./program".to_owned()),
                }],
            }
            .sheet()
        };
        manifest.nodes = (0..).zip(&self.world.nodes).map(sheet).collect();
        manifest.phases = vec![Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: None,
            },
            begin_ns,
            end_ns,
        }];
        let library = "an MPI library that the archive does not name";
        let library = (self.app.called() > 0).then(|| library.to_owned());
        let mut losses = self.losses.ledger();
        self.shifts.enter(&mut losses);
        self.app.finish(Told {
            format: "OTF2 archive",
            name,
            events: self.events,
            missed: None,
            cpus: 0,
            span,
            library,
            losses,
        })
    }
}

//! A synthetic run for tests and the example: a machine that is simulated event by event, so that
//! tables and findings agree, with culprits, late steps and a prediction.

mod findings;
mod machine;

pub use findings::bare_findings;

use idlewave_run::{RunError, RunReader, RunWriter, findings::Findings};
use std::path::Path;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Ranks, one per CPU; at least 1.
    pub ranks: u32,
    /// Iterations of each of the two lockstep runs; 20 us of computation each.
    pub iterations: u64,
    /// Name of the process that takes 500 us every 50 ms on CPU 0.
    pub culprit: String,
    /// CLOCK_MONOTONIC at the begin of the run: above 2^53 after 104 days of uptime.
    pub begin_ns: u64,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            ranks: 2,
            iterations: 12_000,
            culprit: "iw-daemon".to_owned(),
            begin_ns: 1 << 54,
        }
    }
}

impl Synthetic {
    /// Writes the bundle with its findings into `path`, which must not exist or be empty.
    pub fn write(&self, path: &Path) -> Result<(RunReader, Findings), RunError> {
        let machine = machine::Machine::run(self);
        let mut writer = RunWriter::create(path, machine.manifest(self))?;
        writer.write_table(&machine.tasks)?;
        writer.write_table(&machine.sources)?;
        writer.write_table(&machine.bursts)?;
        writer.write_table(&machine.interrupts)?;
        writer.write_table(&machine.regions)?;
        writer.write_table(&machine.detours)?;
        writer.close(None)?;
        let run = RunReader::open(path)?;
        let findings = findings::find(&machine, run.manifest());
        run.write_findings(&findings)?;
        Ok((run, findings))
    }
}

//! What was imported.

use crate::import::kernel::Chosen;
use idlewave_run::Ledger;
use idlewave_units::Nanos;

/// What was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The format, in words.
    pub format: String,
    /// Events or records read.
    pub events: u64,
    /// Events that the recorder lost, by its own count; `None` if the format does not record that.
    pub missed: Option<u64>,
    /// CPUs of the trace.
    pub cpus: u32,
    /// From the first event to the last.
    pub span: Nanos,
    /// The program under study.
    pub program: Subject,
    /// What is missing or uncertain; the manifest of the run has it too.
    pub losses: Ledger,
    /// How the traces of the program were joined with the kernel's, if there were any.
    pub joined: Option<Joined>,
}

/// How two traces became one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What was added to the program's times.
    pub offset_ns: i64,
    /// Bound of its error; `None` if the user gave it.
    pub error: Option<Nanos>,
    /// Moments at which a thread must have had a CPU, used to find or check the offset.
    pub moments: u64,
    /// Both traces use the same thread numbers.
    pub by_number: bool,
}

/// The program under study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Threads chosen from all that the trace has.
    Chosen {
        /// Which and why.
        chosen: Chosen,
        /// Threads of the trace whose kind was inferred from their names and parents.
        inferred: u64,
    },
    /// What the trace itself says.
    Told {
        /// Its name.
        name: String,
        /// Its ranks; 0 if it has none.
        ranks: u64,
        /// Its threads.
        threads: u64,
    },
}

impl Imported {
    /// How the program was chosen; `None` if the trace says which it is.
    pub fn chosen(&self) -> Option<&Chosen> {
        match &self.program {
            Subject::Chosen { chosen, .. } => Some(chosen),
            Subject::Told { .. } => None,
        }
    }
}

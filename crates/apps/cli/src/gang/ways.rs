//! Options of the services with a fixed set of values.

use clap::ValueEnum;
use idlewave_freeze::Kind;
use idlewave_gang_agent::Copying;

/// What a switch does with network contexts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Contexts {
    /// Copy the whole context out and the next one in
    All,
    /// Copy only the parts in use
    Valid,
    /// Keep each context in its own memory and switch a pointer
    Pointer,
}

impl From<Contexts> for Copying {
    fn from(contexts: Contexts) -> Self {
        match contexts {
            Contexts::All => Copying::All,
            Contexts::Valid => Copying::Valid,
            Contexts::Pointer => Copying::Pointer,
        }
    }
}

/// How processes are stopped.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Freezer {
    /// The freezer of cgroup v2
    V2,
    /// The freezer of cgroup v1
    V1,
    /// SIGSTOP and SIGCONT
    Signals,
}

impl Freezer {
    pub fn kind(self) -> Kind {
        match self {
            Freezer::V2 => Kind::V2,
            Freezer::V1 => Kind::V1,
            Freezer::Signals => Kind::Signals,
        }
    }
    /// The value on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Freezer::V2 => "v2",
            Freezer::V1 => "v1",
            Freezer::Signals => "signals",
        }
    }
}

//! What a service is told to do in one way or another.

use clap::ValueEnum;
use idlewave_agent::Copying;
use idlewave_freeze::Kind;

/// What a switch does with network contexts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Contexts {
    /// All of a context is copied out, and all of the next one in
    All,
    /// What means something in them is copied
    Valid,
    /// Each gang has memory of its own, and a pointer says whose turn it is
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
    /// As it is asked for.
    pub fn word(self) -> &'static str {
        match self {
            Freezer::V2 => "v2",
            Freezer::V1 => "v1",
            Freezer::Signals => "signals",
        }
    }
}

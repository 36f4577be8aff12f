//! Identifiers: numbers that cannot be added.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Wraps a number from the system or from idlewave.
            pub const fn new(index: u32) -> Self {
                Self(index)
            }
            /// The number itself.
            pub const fn get(self) -> u32 {
                self.0
            }
            /// The number as an index into a table sorted by it.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A process of a parallel program: 0-based, dense, as in `MPI_Comm_rank` of the world.
    Rank
);
id!(
    /// A logical CPU, by the kernel's number (`/sys/devices/system/cpu/cpuN`).
    Cpu
);
id!(
    /// A node of a run: 0-based, dense, in the order of the manifest's `nodes`.
    NodeId
);
id!(
    /// A thread, by the kernel's number (`tid`; what tracepoints call `pid`). 0 is the idle task.
    Pid
);

impl Pid {
    /// The idle task of a CPU: it runs when nothing else does.
    pub const IDLE: Pid = Pid(0);
}

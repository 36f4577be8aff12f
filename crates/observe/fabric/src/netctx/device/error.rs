//! Why a device cannot be made, used or switched.

use crate::netctx::{ChannelError, ContextError};
use std::path::PathBuf;

/// Why a device cannot be made, used or switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device's file, or the pipe beside it.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried: a verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file is no device of this version, or others than its owner may write to it.
    #[error("use {} as a network device: {reason}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Numbers that no device has.
    #[error("make a network device: {0}")]
    Setup(String),
    /// Contexts of this size are not possible.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// An epoch that has begun already.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// There is no such gang on this device.
    #[error("find gang {0} on the network device")]
    NoSuchGang(u32),
    /// It is there already.
    #[error("admit gang {0} a second time")]
    Admitted(u32),
    /// The device has no place for it.
    #[error("admit gang {gang}: {reason}")]
    NoRoom {
        /// Which.
        gang: u32,
        /// What there is too little of.
        reason: String,
    },
    /// A gang still runs: its ranks must be stopped before.
    #[error("change the network's context while gang {0} is not stopped")]
    NotStopped(u32),
    /// Ranks have not left the device: they are not scheduled, or were stopped within it.
    #[error("change the network's context while rank {rank} of gang {gang} is within the device")]
    Inside {
        /// The gang.
        gang: u32,
        /// One of those ranks.
        rank: u32,
    },
    /// No gang is active.
    #[error("resume a gang: none was switched to")]
    NoGang,
    /// A rank attaches to what is not its own.
    #[error("attach as rank {rank} of gang {gang}: {reason}")]
    Attach {
        /// The gang.
        gang: u32,
        /// The rank.
        rank: u32,
        /// Why not.
        reason: String,
    },
    /// What tells a process its device is not understood.
    #[error(
        "understand IDLEWAVE_NETCTX={0}: give FILE,GANG,RANK,SIZE, or ticket:FILE where IDLEWAVE_RANK and IDLEWAVE_SIZE or a launcher tell the rank, and then spin, yield or sleep"
    )]
    Environment(String),
    /// Nobody has made the device that is waited for.
    #[error("find the network device that {} is to name: not all ranks of the gang have come within a minute, or the agent of this node has ended", .0.display())]
    NoTicket(PathBuf),
}

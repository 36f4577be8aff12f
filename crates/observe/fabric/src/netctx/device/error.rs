//! Why a device cannot be created, used or switched.

use crate::netctx::{ChannelError, ContextError};
use std::path::PathBuf;

/// Why a device cannot be created, used or switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// An operation on the device's file, or on the pipe beside it, failed.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried: a verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file is not a device of this version, or is not private to this user.
    #[error("use {} as a network device: {reason}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A number is out of range.
    #[error("make a network device: {0}")]
    Setup(String),
    /// Contexts of this size are not possible.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The epoch has already begun.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// There is no such gang on this device.
    #[error("find gang {0} on the network device")]
    NoSuchGang(u32),
    /// The gang is on the device already.
    #[error("admit gang {0} a second time")]
    Admitted(u32),
    /// The device has no room for the gang.
    #[error("admit gang {gang}: {reason}")]
    NoRoom {
        /// The gang.
        gang: u32,
        /// What is lacking.
        reason: String,
    },
    /// A gang still runs: it must be stopped first.
    #[error("change the network's context while gang {0} is not stopped")]
    NotStopped(u32),
    /// Ranks are still inside the device: they are not scheduled, or were frozen there.
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
    /// A process may not attach as this rank.
    #[error("attach as rank {rank} of gang {gang}: {reason}")]
    Attach {
        /// The gang.
        gang: u32,
        /// The rank.
        rank: u32,
        /// Why not.
        reason: String,
    },
    /// The environment variable that names a process's device cannot be parsed.
    #[error(
        "understand IDLEWAVE_NETCTX={0}: give FILE,GANG,RANK,SIZE, or ticket:FILE where IDLEWAVE_RANK and IDLEWAVE_SIZE or a launcher tell the rank, and then spin, yield or sleep"
    )]
    Environment(String),
    /// The ticket was not written in time.
    #[error("find the network device that {} is to name: not all ranks of the gang have come within a minute, or the agent of this node has ended", .0.display())]
    NoTicket(PathBuf),
}

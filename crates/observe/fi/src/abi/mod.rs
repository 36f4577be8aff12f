//! The binary interface of libfabric 1.17, as far as this provider uses it: declarations written
//! from its headers (rdma/fabric.h and those beside it) and manual pages.
//!
//! Later versions only append to structures and keep what is here, so the provider works with them
//! too: each table of functions begins with its size, and [`info`](super::info) allocates
//! attributes with room to spare.

pub mod code;
mod entries;
mod info;
mod objects;

pub use entries::*;
pub use info::*;
pub use objects::*;

/// The interface that this is, 1.17: its first 16 bits are the major version.
pub const INTERFACE: u32 = 1 << 16 | 17;

/// Flags and capabilities.
pub mod flag {
    pub const MSG: u64 = 1 << 1;
    pub const TAGGED: u64 = 1 << 3;
    pub const RECV: u64 = 1 << 10;
    pub const SEND: u64 = 1 << 11;
    pub const MULTI_RECV: u64 = 1 << 16;
    pub const REMOTE_CQ_DATA: u64 = 1 << 17;
    pub const MORE: u64 = 1 << 18;
    pub const PEEK: u64 = 1 << 19;
    pub const COMPLETION: u64 = 1 << 24;
    pub const INJECT: u64 = 1 << 25;
    pub const INJECT_COMPLETE: u64 = 1 << 26;
    pub const TRANSMIT_COMPLETE: u64 = 1 << 27;
    pub const LOCAL_COMM: u64 = 1 << 51;
    pub const REMOTE_COMM: u64 = 1 << 52;
    pub const SOURCE: u64 = 1 << 57;
    pub const DIRECTED_RECV: u64 = 1 << 59;
    /// Of a receive.
    pub const DISCARD: u64 = 1 << 58;
    /// Of a receive.
    pub const CLAIM: u64 = 1 << 59;
    /// Of a binding.
    pub const SELECTIVE_COMPLETION: u64 = 1 << 59;
    /// Of an address vector: insertions are reported by events.
    pub const EVENT: u64 = COMPLETION;
}

/// Orders of messages.
pub mod order {
    /// Sends are matched in the order in which they were made.
    pub const SEND_AFTER_SEND: u64 = 1 << 8;
}

/// No address: any source, or an address that could not be inserted.
pub const NO_ADDRESS: u64 = u64::MAX;

//! User-level messages with network contexts, as gang switching needs them: what the network knows
//! of a rank is one region of memory that can be put aside while another gang runs, after its
//! channels were drained.
//!
//! A new implementation, over shared memory and UDP, of the idea of PM and SCore-D (Hori, Tezuka
//! and Ishikawa 1998, "Highly Efficient Gang Scheduling Implementation", SC'98); written from the
//! papers. [`channel`] is one direction between two ranks, pure; [`frame`] is what it says over the
//! wire. [`context`] is the region, [`policy`] how several gangs share a network. A [`Device`] is
//! one node: it moves frames between a [`Transport`] and the active context, and is told to switch;
//! [`NetctxFabric`] is one rank of a gang on top, a process.

pub mod channel;
pub mod context;
pub mod device;
mod fabric;
pub mod frame;
mod piece;
pub mod policy;
mod talk;
pub mod transport;
mod words;

pub use channel::{ChannelError, Phase};
pub use context::{Context, ContextError, Counts, Layout};
pub use device::{Device, DeviceError};
pub use fabric::NetctxFabric;
pub use frame::{FrameError, Header, Kind, Link};
pub use policy::Policy;
pub use talk::Traffic;
pub use transport::{Lossy, Memory, Misdeeds, Transport, Udp};

//! User-level messages with network contexts, as gang switching needs them: what the network knows of a rank is one
//! region of memory that can be put aside while another gang runs, after its channels were drained.
//!
//! A new implementation, over shared memory and UDP, of the idea of PM and SCore-D (Hori, Tezuka and Ishikawa 1998, "Highly
//! Efficient Gang Scheduling Implementation", SC'98); written from the papers. [`channel`] is one direction between two
//! ranks, pure; [`frame`] is what it says over the wire. [`context`] is the region, [`policy`] how several gangs
//! share a network. A [`Node`] moves frames between a [`Transport`] and the active context, a [`World`] switches all nodes of
//! one process, a [`Device`] is one node whose ranks are processes, and [`NetctxFabric`] is one rank of a gang on top.

pub mod channel;
pub mod context;
pub mod device;
mod fabric;
pub mod frame;
pub mod node;
pub mod policy;
mod port;
mod talk;
pub mod transport;
mod world;

pub use channel::{ChannelError, Phase};
pub use context::{Context, ContextError, Counts, Layout};
pub use device::{Device, DeviceError};
pub use fabric::NetctxFabric;
pub use frame::{FrameError, Header, Kind, Link};
pub use node::{Node, Traffic};
pub use policy::{Contexts, Policy};
pub use port::{Port, ThreadPort};
pub use transport::{Lossy, Memory, Misdeeds, Transport, Udp};
pub use world::{Gangs, NetctxError, Options, Switched, World};

//! User-level messages with network contexts, for gang switching: the network state of a rank is
//! one region of memory. Once its channels are drained, it can be put aside while another gang
//! runs.
//!
//! A new implementation, over shared memory and UDP, of the idea of PM and SCore-D (Hori, Tezuka
//! and Ishikawa 1998, "Highly Efficient Gang Scheduling Implementation", SC'98); written from the
//! papers. [`channel`] is one direction between two ranks, without I/O; [`frame`] is its wire
//! format. [`context`] is the region, [`policy`] how several gangs share a network. A [`Device`] is
//! one node's network: it moves frames between a [`Transport`] and the active context, and switches
//! when told to. [`NetctxFabric`], on top, is one rank of a gang: a process. Message layers other
//! than this crate's use a rank's rings directly ([`device::RankPort`]), which carry [`Pieces`].

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

pub use crate::piece::{Header as PieceHeader, Piece, Pieces};
pub use channel::{ChannelError, Phase};
pub use context::{Context, ContextError, Counts, Layout};
pub use device::{Device, DeviceError, Within};
pub use fabric::NetctxFabric;
pub use frame::{FrameError, Header, Kind, Link};
pub use policy::Policy;
pub use talk::Traffic;
pub use transport::{Lossy, Memory, Misdeeds, Transport, Udp};

//! Authenticated datagrams between the controller and the agents of gang switching.
//!
//! Messages may be lost, doubled and late: the protocol above says everything again. What a [`Link`] promises is that what
//! [`Link::receive`] gives was said by the named peer, who knows the key, in this session, and is given once; no other
//! datagram changes anything or ends the process. It does not hide what is said: whoever sees the network can read it.
//!
//! [`session`] decides, without sockets, clock or random numbers of its own; [`Link`] carries datagrams between it and one
//! socket. Codes are HMAC-SHA256 (RFC 2104, FIPS 180-4) truncated to 16 bytes, nonces have 16 bytes, the window against
//! replays is that of RFC 4303, section 3.4.3.

mod auth;
mod bucket;
mod counters;
mod derive;
mod error;
mod frame;
mod key;
mod link;
mod munge;
mod peer;
pub mod session;
mod socket;
mod window;

pub use auth::Auth;
pub use counters::{Counters, Reason};
pub use error::LinkError;
pub use frame::LONGEST;
pub use key::Key;
pub use link::Link;
pub use munge::Munge;
pub use peer::Peer;
pub use socket::Address;

//! Encrypted and authenticated datagrams between the controller and the agents of gang switching.
//!
//! The network may lose, duplicate or delay messages, so the protocol above repeats them. A
//! [`Link`] guarantees that every message from [`Link::receive`] was sent by the named peer, which
//! knows the key, in this session, and is delivered only once. No other datagram changes anything
//! or ends the process. No outsider can read the messages, but who speaks to whom, when and how
//! much is not hidden. There is no forward secrecy: whoever learns a shared key later can read
//! traffic recorded earlier.
//!
//! [`session`] makes the decisions, without sockets, clock or random numbers of its own; [`Link`]
//! carries datagrams between it and one socket. HMAC-SHA256 (RFC 2104, FIPS 180-4) derives session
//! keys and, truncated to 16 bytes, authenticates handshakes, whose nonces have 16 bytes.
//! ChaCha20-Poly1305 (RFC 8439) seals the frames of a session. The replay window is that of RFC
//! 4303, section 3.4.3.

mod address;
mod auth;
mod bucket;
mod coder;
mod counters;
mod derive;
mod error;
mod frame;
mod key;
mod link;
mod munge;
mod peer;
mod seal;
pub mod session;
mod socket;
mod window;

pub use address::Address;
pub use auth::Auth;
pub use coder::{Coder, TAG};
pub use counters::{Counters, Reason};
pub use error::LinkError;
pub use frame::LONGEST;
pub use key::Key;
pub use link::Link;
pub use munge::Munge;
pub use peer::Peer;

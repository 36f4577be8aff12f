//! The session of one pair of peers, without sockets, clock or random numbers of its own.
//!
//! Each end has a nonce for the next session with the other. HELLO states it; HELLO-BACK states the
//! other end's nonce and confirms the first. The session keys are derived from both nonces, both
//! names and the secrets of both ends. The session is the same whichever end asks, even if both do.
//! An end takes a new nonce whenever a session begins:
//!
//! - The end that asked begins the session on HELLO-BACK, whose code depends on its nonce. It
//!   repeats its nonce in each frame until it receives a frame of the session.
//! - The other end begins the session on such a frame, and not before: a replayed HELLO is
//!   answered and changes nothing. Since the frame's code depends on the nonce of this end, it
//!   cannot begin a second session.
//! - The previous session is over when the other end is heard in the new one.
//!
//! An end that hears nothing after it spoke asks for a new session ([`SILENCE`]) and keeps using
//! the one it has. So that silence means something, an end that has nothing to say answers with a
//! note now and then ([`ECHO`]).

mod channel;
mod contribution;
mod handshake;
mod secrets;
mod speak;
mod state;

pub use crate::derive::Secret;
pub(crate) use handshake::genuine_hello;
pub use secrets::Secrets;
pub use speak::{ECHO, KEPT, SILENCE, WAITING};
pub use state::{Handled, Session};

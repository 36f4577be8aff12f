//! The session of one pair of peers, without sockets, clock or random numbers of its own.
//!
//! Each end has a nonce for the next session with the other. HELLO tells it, HELLO-BACK tells the
//! other's and that the first was understood; the keys of the session are made of both nonces, both
//! names and the secrets of both ends. Whoever asks, and if both do, the session is the same one.
//! An end takes a new nonce whenever a session begins:
//!
//! - The end that asked begins it with HELLO-BACK, whose code needs its nonce. It says its nonce
//!   again in each frame until it hears one of the session.
//! - The other end begins it with such a frame, and not before: an old HELLO that somebody says
//!   again is answered, and changes nothing. As its code needs the nonce of this end, such a frame
//!   begins no second session.
//! - A session that ran before is over when the other end is heard in the new one.
//!
//! An end that hears nothing after it spoke asks for a new session ([`SILENCE`]), and goes on
//! speaking in the one it has. So that silence means something, an end that is only spoken to
//! answers with a note now and then ([`ECHO`]).

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

//! Long messages between processes of one node: the sender offers its message, and the receiver
//! copies it from the sender's memory (process_vm_readv(2)) and says when it has. That is one copy
//! instead of two through a ring. Nothing of the message is on the network meanwhile, so a switch
//! neither waits for it nor has anything to save: the memory of a process stays while it is frozen.
//!
//! A process number may mean another process in another namespace, so each copy reads a secret of
//! the sender's as well. A receiver that may not read there (`ptrace_scope`, seccomp, another user)
//! refuses, and the sender sends the message in pieces.

use crate::room::{PARTS, Room};
use idlewave_fabric::netctx::Piece;
use std::ffi::c_void;
use std::sync::OnceLock;

/// The shortest message that is offered, bytes.
pub const SHORTEST: usize = 16 << 10;
/// Bytes copied at a time: in between, the receiver is outside of its device, so that its gang can
/// be switched.
pub const AT_ONCE: usize = 256 << 10;
/// Bytes of an offer.
pub const BYTES: usize = 48;
const SECRET: usize = 16;

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The sender's number for it.
    pub number: u64,
    process: u32,
    begin: u64,
    /// Where the secret lies.
    guard: u64,
    secret: [u8; SECRET],
}

/// What tells this process from any other; `None` without random numbers.
fn secret() -> Option<&'static [u8; SECRET]> {
    static OWN: OnceLock<Option<[u8; SECRET]>> = OnceLock::new();
    let make = || {
        let mut secret = [0; SECRET];
        // SAFETY: writes so many bytes into the array.
        let got = unsafe { libc::getrandom(secret.as_mut_ptr().cast(), SECRET, 0) };
        (got == SECRET as isize).then_some(secret)
    };
    OWN.get_or_init(make).as_ref()
}

/// Lets other processes of this user read this one's memory where Yama allows that only to its
/// ancestors (Documentation/admin-guide/LSM/Yama.rst). Without Yama this changes nothing.
pub fn allow() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

impl Offer {
    /// An offer of these bytes, which stay where they are until it is answered.
    pub fn of(number: u64, bytes: &[u8]) -> Option<Self> {
        let secret = secret()?;
        Some(Self {
            number,
            process: std::process::id(),
            begin: bytes.as_ptr().addr() as u64,
            guard: secret.as_ptr().addr() as u64,
            secret: *secret,
        })
    }

    /// As it is sent.
    pub fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = [self.number, self.process.into(), self.begin, self.guard];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[BYTES - SECRET..].copy_from_slice(&self.secret);
        bytes
    }

    /// From the bytes of a piece from `skip` on; `None` if it is none.
    pub fn read(piece: &dyn Piece, skip: usize) -> Option<Self> {
        let mut bytes = Vec::with_capacity(BYTES);
        piece.append_to(skip, BYTES, &mut bytes);
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            number: word(0)?,
            process: u32::try_from(word(8)?).ok()?,
            begin: word(16)?,
            guard: word(24)?,
            secret: *bytes.get(BYTES - SECRET..)?.first_chunk()?,
        })
    }

    /// Copies `length` bytes of the message from `at` on to the same place of `room`, as many of
    /// them as there is room for. False if they cannot be read.
    pub fn copy(&self, at: usize, length: usize, room: &mut Room) -> bool {
        let mut found = [0_u8; SECRET];
        let span = |base: u64, len| libc::iovec {
            iov_base: std::ptr::without_provenance_mut::<c_void>(base as usize),
            iov_len: len,
        };
        let mut here = [span(0, 0); 1 + PARTS];
        here[0] = libc::iovec {
            iov_base: found.as_mut_ptr().cast(),
            iov_len: SECRET,
        };
        let mut bytes = 0;
        for (place, (base, len)) in here[1..].iter_mut().zip(room.parts_at(at, length)) {
            bytes += len;
            *place = libc::iovec {
                iov_base: base.cast(),
                iov_len: len,
            };
        }
        let Some(begin) = self.begin.checked_add(at as u64) else {
            return false;
        };
        let there = [span(self.guard, SECRET), span(begin, bytes)];
        let [parts, both] = [here.len(), there.len()].map(|count| count as libc::c_ulong);
        let process = self.process as libc::pid_t;
        // SAFETY: writes only to `found` and to parts of the room, which may be written; the other
        // process's addresses are checked by the kernel.
        let got = unsafe {
            libc::process_vm_readv(process, here.as_ptr(), parts, there.as_ptr(), both, 0)
        };
        got == (SECRET + bytes) as isize && found == self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Span;

    fn room(parts: &mut [&mut [u8]]) -> Room {
        let span = |part: &mut &mut [u8]| Span {
            base: part.as_mut_ptr(),
            len: part.len(),
        };
        let spans: Vec<Span> = parts.iter_mut().map(span).collect();
        // SAFETY: the tests keep the bytes.
        unsafe { Room::of(spans.as_ptr(), spans.len()) }.unwrap()
    }

    #[test]
    fn an_offer_is_read_as_it_was_sent() {
        let offer = Offer::of(u64::MAX - 7, b"abc").unwrap();
        let sent = [&[9, 9][..], &offer.bytes()].concat();
        assert_eq!(Offer::read(&&sent[..], 2), Some(offer));
        assert_eq!(Offer::read(&&sent[..sent.len() - 1], 2), None);
        let mut other = sent.clone();
        // A process number of more than 32 bits.
        other[2 + 12] = 1;
        assert_eq!(Offer::read(&&other[..], 2), None);
    }

    #[test]
    fn a_message_is_copied_piece_by_piece_into_the_parts_that_there_are() {
        let message: Vec<u8> = (0..100).collect();
        let offer = Offer::of(1, &message).unwrap();
        let (mut first, mut second) = ([0; 30], [0; 50]);
        let mut room = room(&mut [&mut first, &mut second]);
        for at in (0..100).step_by(20) {
            assert!(offer.copy(at, 20, &mut room));
        }
        assert_eq!(
            (&first[..], &second[..]),
            (&message[..30], &message[30..80])
        );
    }

    #[test]
    fn memory_that_is_not_the_senders_is_refused() {
        let (message, mut to) = (*b"abcd", [0; 4]);
        let offer = Offer::of(1, &message).unwrap();
        let mut room = room(&mut [&mut to]);
        let mut secret = offer.secret;
        secret[3] ^= 1;
        assert!(!Offer { secret, ..offer }.copy(0, 4, &mut room));
        assert!(!Offer { begin: 0, ..offer }.copy(0, 4, &mut room));
        assert!(
            !Offer {
                begin: u64::MAX,
                ..offer
            }
            .copy(2, 2, &mut room)
        );
        for process in [0, u32::MAX] {
            assert!(!Offer { process, ..offer }.copy(0, 4, &mut room));
        }
        assert!(offer.copy(0, 4, &mut room));
        assert_eq!(to, message);
    }
}

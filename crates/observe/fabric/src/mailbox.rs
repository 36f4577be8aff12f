//! A lock-free mailbox from one rank to another: single producer, single consumer.

use crate::piece::{Header, Piece, Pieces};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that one slot carries; longer messages take several.
pub const SLOT_BYTES: usize = 2_048;
/// Slots of a mailbox.
const SLOTS: usize = 8;

#[repr(align(64))]
struct Slot {
    /// Even: free in round `state / 2`. Odd: filled in round `state / 2`.
    state: AtomicU32,
    content: UnsafeCell<Content>,
}

struct Content {
    header: Header,
    bytes: [u8; SLOT_BYTES],
}

/// The mailbox. Each end counts its own `turn`s, outside shared memory.
pub struct Mailbox {
    slots: Box<[Slot]>,
}

// SAFETY: only the side that owns a slot, according to its state, touches its content: the producer
// while the state is even and of the producer's turn, the consumer while it is odd and of the
// consumer's turn. Each side stores the state with Release after its access and loads it with
// Acquire before the next, so the accesses of the two sides are ordered. [`Ends`] ensures that
// there is one producer and one consumer: only rank `s` puts into mailboxes from `s`, only rank `d`
// takes from those to `d`.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    /// An empty mailbox with its memory touched, so that first use causes no page fault.
    pub fn new() -> Self {
        let empty = |_| Slot {
            state: AtomicU32::new(0),
            content: UnsafeCell::new(Content {
                header: Header {
                    tag: 0,
                    message: 0,
                    piece: 0,
                },
                bytes: [0; SLOT_BYTES],
            }),
        };
        Self {
            slots: (0..SLOTS).map(empty).collect(),
        }
    }

    fn place(&self, turn: u64) -> (&Slot, u32) {
        let slots = self.slots.len() as u64;
        // Rounds wrap after 2^31; the two sides are never more than one round apart.
        (
            &self.slots[(turn % slots) as usize],
            ((turn / slots) as u32).wrapping_mul(2),
        )
    }

    /// Puts in the producer's `turn`-th piece; false if its slot is still full.
    pub fn put(&self, turn: u64, tag: u32, message: u64, bytes: &[u8]) -> bool {
        let (slot, free) = self.place(turn);
        if slot.state.load(Ordering::Acquire) != free {
            return false;
        }
        let piece = bytes.len().min(SLOT_BYTES);
        // SAFETY: the state says that the slot is free in our turn; see the comment on Sync.
        let content = unsafe { &mut *slot.content.get() };
        content.header = Header {
            tag,
            message,
            piece: piece as u32,
        };
        content.bytes[..piece].copy_from_slice(&bytes[..piece]);
        slot.state.store(free.wrapping_add(1), Ordering::Release);
        true
    }

    /// Passes the consumer's `turn`-th piece to `read` and frees its slot, if the piece is there.
    pub fn take<T>(&self, turn: u64, read: impl FnOnce(Header, &[u8]) -> T) -> Option<T> {
        let (slot, free) = self.place(turn);
        if slot.state.load(Ordering::Acquire) != free.wrapping_add(1) {
            return None;
        }
        // SAFETY: the state says that the slot was filled in our turn; see the comment on Sync.
        let content = unsafe { &*slot.content.get() };
        let result = read(
            content.header,
            &content.bytes[..content.header.piece as usize],
        );
        slot.state.store(free.wrapping_add(2), Ordering::Release);
        Some(result)
    }
}

/// The mailboxes between all ranks of a world, each created on first use.
pub struct Mailboxes {
    size: u32,
    /// The one from rank `s` to rank `d` is at `s * size + d`.
    boxes: Box<[OnceLock<Mailbox>]>,
}

impl Mailboxes {
    /// For a world of `size` ranks.
    pub fn new(size: u32) -> Self {
        let n = size as usize;
        Self {
            size,
            boxes: (0..n * n).map(|_| OnceLock::new()).collect(),
        }
    }
    /// Ranks of the world.
    pub fn size(&self) -> u32 {
        self.size
    }
    fn place(&self, from: u32, to: u32) -> usize {
        from as usize * self.size as usize + to as usize
    }
    /// The mailbox from one rank to another.
    pub fn of(&self, from: u32, to: u32) -> &Mailbox {
        self.boxes[self.place(from, to)].get_or_init(Mailbox::new)
    }
    /// The mailbox from one rank to another if it was ever used.
    pub fn get(&self, from: u32, to: u32) -> Option<&Mailbox> {
        self.boxes[self.place(from, to)].get()
    }
}

/// One rank's ends of all mailboxes.
pub struct Ends {
    rank: u32,
    mailboxes: Arc<Mailboxes>,
    /// Per destination: pieces put.
    put: Vec<u64>,
    /// Per source: pieces taken.
    taken: Vec<u64>,
}

impl Ends {
    /// The ends of `rank`. Create them only once: each mailbox has one producer and one consumer.
    pub fn new(rank: u32, mailboxes: &Arc<Mailboxes>) -> Self {
        let n = mailboxes.size() as usize;
        Self {
            rank,
            mailboxes: Arc::clone(mailboxes),
            put: vec![0; n],
            taken: vec![0; n],
        }
    }
}

impl Pieces for Ends {
    fn size(&self) -> u32 {
        self.mailboxes.size()
    }

    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize> {
        let turn = &mut self.put[to as usize];
        let mailbox = self.mailboxes.of(self.rank, to);
        mailbox.put(*turn, tag, message, rest).then(|| {
            *turn += 1;
            rest.len().min(SLOT_BYTES)
        })
    }

    fn take<T>(&mut self, from: u32, read: impl FnOnce(Header, &dyn Piece) -> T) -> Option<T> {
        let turn = &mut self.taken[from as usize];
        let mailbox = self.mailboxes.get(from, self.rank)?;
        let taken = mailbox.take(*turn, |header, bytes| read(header, &bytes))?;
        *turn += 1;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order_and_a_full_mailbox_takes_no_more() {
        let mailbox = Mailbox::new();
        for turn in 0..SLOTS as u64 {
            assert!(mailbox.put(turn, turn as u32, 1, &[turn as u8]));
        }
        assert!(!mailbox.put(SLOTS as u64, 9, 1, &[9]), "full");
        for turn in 0..SLOTS as u64 {
            assert_eq!(
                mailbox.take(turn, |h, b| (h.tag, b[0])),
                Some((turn as u32, turn as u8))
            );
        }
        assert_eq!(mailbox.take(SLOTS as u64, |_, _| ()), None, "empty");
        assert!(mailbox.put(SLOTS as u64, 9, 1, &[9]), "free again");
    }

    #[test]
    fn two_threads_pass_every_piece_unharmed() {
        const PIECES: u64 = 20_000;
        let mailbox = Mailbox::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..PIECES {
                    let bytes = [turn as u8; 64];
                    while !mailbox.put(turn, turn as u32, 64, &bytes) {
                        std::thread::yield_now();
                    }
                }
            });
            for turn in 0..PIECES {
                let whole = loop {
                    let whole =
                        mailbox.take(turn, |h, b| h.tag == turn as u32 && b == [turn as u8; 64]);
                    if let Some(whole) = whole {
                        break whole;
                    }
                    std::thread::yield_now();
                };
                assert!(whole, "piece {turn}");
            }
        });
    }
}

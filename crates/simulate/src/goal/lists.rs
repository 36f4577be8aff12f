//! Receives that wait for messages and messages that wait for receives, linked through the operations' own state.

use super::schedule::{ANY, Record};

/// End of a list.
pub(super) const NONE: u32 = u32::MAX;

/// What changes of an operation.
#[derive(Clone, Copy)]
pub(super) struct State {
    /// Operations for which it still waits.
    pub missing: u32,
    /// The next one in the same list: of a posted receive, or of a send whose message has no receive yet.
    pub next: u32,
}

/// First and last of a list of operations.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub first: u32,
    pub last: u32,
}

impl List {
    pub const EMPTY: List = List {
        first: NONE,
        last: NONE,
    };

    #[inline]
    pub fn append(&mut self, states: &mut [State], index: u32) {
        states[index as usize].next = NONE;
        match self.last {
            NONE => self.first = index,
            last => states[last as usize].next = index,
        }
        self.last = index;
    }

    /// Takes the first one that fits.
    #[inline]
    pub fn take(&mut self, states: &mut [State], fits: impl Fn(usize) -> bool) -> Option<u32> {
        let (mut before, mut here) = (NONE, self.first);
        while here != NONE {
            let next = states[here as usize].next;
            if fits(here as usize) {
                match before {
                    NONE => self.first = next,
                    _ => states[before as usize].next = next,
                }
                if next == NONE {
                    self.last = before;
                }
                return Some(here);
            }
            (before, here) = (here, next);
        }
        None
    }
}

/// What a rank waits with.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    /// Receives without a message, in the order in which they were posted.
    pub posted: List,
    /// Messages without a receive, in the order in which they were taken from the network.
    pub unexpected: List,
}

/// Whether a receive takes the message of a send.
#[inline]
pub(super) fn matches(recv: &Record, send: &Record) -> bool {
    (recv.peer == ANY || recv.peer == send.rank) && (recv.tag == ANY || recv.tag == send.tag)
}

//! One direction between two contexts as a state machine without I/O and without a clock.
//!
//! Frames are numbered, acknowledged cumulatively, and retransmitted from the oldest unacknowledged
//! one when an outside timer says so (go-back-N; Bertsekas and Gallager, *Data Networks*, section
//! 2.4.2). A frame is sent only once the receiver has granted space for it: what is on the network
//! always finds room, so a drain waits only for the network, never for the application. A drain
//! ends an epoch: the sender stops and says at which frame (flush), and the receiver answers once
//! it has everything before that. Then no frame of this epoch that could still be delivered is in
//! flight.
//!
//! A frame is accepted only in its own epoch. Frames of the previous epoch that are still on the
//! network are therefore harmless, and so is a frame of the next one that arrives before its
//! receiver has resumed: it is retransmitted. Numbers continue across epochs, so nothing is lost or
//! duplicated when a drain is abandoned halfway. A frame that stays on the network while 2^31
//! others are sent in the same epoch could be taken for a new one; slices end long before that.

mod receive;
mod ring;
mod send;

use super::frame::Link;
use bytemuck::{Pod, Zeroable};

pub use receive::{ReceiveState, Receiver};
pub(super) use ring::Content;
pub use ring::Ring;
pub use send::{SendState, Sender};

/// The state of a channel end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Messages flow.
    Running,
    /// The sender has stopped; not everything that it sent has been received.
    Flushing,
    /// Everything sent was received, and this end knows it.
    Drained,
}

const RUNNING: u32 = 0;
const FLUSHING: u32 = 1;
const DRAINED: u32 = 2;

impl Phase {
    /// From the word in a context.
    fn of(word: u32) -> Self {
        match word {
            RUNNING => Self::Running,
            DRAINED => Self::Drained,
            _ => Self::Flushing,
        }
    }
}

/// Why a channel end refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The epoch is not later than the end's own.
    #[error("resume in epoch {asked}: epoch {own} has begun")]
    Epoch {
        /// The end's own epoch.
        own: u64,
        /// The requested epoch.
        asked: u64,
    },
}

/// What both ends of a channel have in common: the link and the phase.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
struct End {
    epoch: u64,
    gang: u32,
    source: u32,
    destination: u32,
    phase: u32,
}

impl End {
    fn new(link: Link) -> Self {
        Self {
            epoch: link.epoch,
            gang: link.gang,
            source: link.source,
            destination: link.destination,
            phase: RUNNING,
        }
    }

    fn link(&self) -> Link {
        Link {
            gang: self.gang,
            epoch: self.epoch,
            source: self.source,
            destination: self.destination,
        }
    }

    fn phase(&self) -> Phase {
        Phase::of(self.phase)
    }

    fn resume(&mut self, epoch: u64) -> Result<(), ChannelError> {
        if epoch <= self.epoch {
            let (own, asked) = (self.epoch, epoch);
            return Err(ChannelError::Epoch { own, asked });
        }
        (self.epoch, self.phase) = (epoch, RUNNING);
        Ok(())
    }
}

/// Whether `a` comes before `b` among numbers that wrap around and are less than 2^31 apart.
fn before(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netctx::frame::{Header, Kind};

    const PAYLOAD: usize = 8;

    fn ring() -> Vec<u64> {
        vec![0; 4 * Ring::stride(PAYLOAD) / 8]
    }

    #[test]
    fn what_was_put_in_and_not_sent_goes_by_itself_if_there_is_room_for_it() {
        let mut bytes = ring();
        let mut state = SendState::new(Link::default(), 7, 1);
        let slots = Ring::new(&mut bytes, PAYLOAD).expect("four slots");
        let mut sender = Sender::new(&mut state, slots);
        assert!(!sender.state().will_send(7), "nothing is in");
        // With a mark that the sender may not have read yet.
        assert!(sender.state().will_send(8));
        assert!(sender.push(&[1], true) && sender.push(&[2], true));
        sender.stop();
        assert!(sender.state().will_send(9), "stopped before it was sent");
        let mut state = SendState::new(Link::default(), 7, 1);
        let slots = Ring::new(&mut bytes, PAYLOAD).expect("four slots");
        let mut sender = Sender::new(&mut state, slots);
        assert!(sender.push(&[1], true) && sender.push(&[2], true));
        assert!(sender.poll().is_some() && sender.poll().is_none());
        assert!(
            !sender.state().will_send(9),
            "the receiver has room for one"
        );
    }

    #[test]
    fn marks_that_no_rank_can_have_come_to_are_refused_and_change_nothing() {
        // Across the wrap-around; two of four slots are filled.
        let first = u32::MAX;
        let mut bytes = ring();
        let mut state = SendState::new(Link::default(), first, 4);
        let slots = Ring::new(&mut bytes, PAYLOAD).expect("four slots");
        let mut sender = Sender::new(&mut state, slots);
        assert!(sender.push(&[1], true) && sender.push(&[2], true));
        for (filled, possible) in [(0, false), (1, true), (4, false), (3, true), (2, false)] {
            assert_eq!(sender.fill_to(filled), possible, "{filled}");
        }
        assert_eq!((sender.state().stored(), sender.room()), ((first, 4), 0));

        let mut bytes = ring();
        let mut state = ReceiveState::new(Link::default(), first, 4);
        let slots = Ring::new(&mut bytes, PAYLOAD).expect("four slots");
        let mut receiver = Receiver::new(&mut state, slots);
        for sequence in [first, 0, 1] {
            let header = Header {
                kind: Kind::End,
                link: Link::default(),
                sequence,
                limit: 0,
            };
            assert!(receiver.hear(&header, &[7]));
        }
        for (taken, possible) in [(first - 1, false), (0, true), (first, false), (3, false)] {
            assert_eq!(receiver.release_to(taken), possible, "{taken}");
        }
        assert_eq!(receiver.state().stored(), (0, 2));
        assert!(receiver.release_to(2), "all of them");
    }
}

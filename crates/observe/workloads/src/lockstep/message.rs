//! The header of every message in a lockstep run.

use crate::WorkloadError;
use idlewave_units::Rank;

/// Bytes of the header.
pub const HEADER: usize = 24;
/// The end is not decided yet.
pub const NO_END: u64 = u64::MAX;

/// Which message it is, and what its sender knows about the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The last iteration, or [`NO_END`].
    pub last: u64,
    /// Iteration in which it was sent.
    pub iteration: u64,
    pub sender: Rank,
    /// The link it goes over, or the rank it goes to.
    pub way: u32,
}

impl Header {
    /// Writes it to the start of a message, which has room for it.
    #[inline]
    pub fn write(&self, message: &mut [u8]) {
        message[..8].copy_from_slice(&self.last.to_le_bytes());
        message[8..16].copy_from_slice(&self.iteration.to_le_bytes());
        message[16..20].copy_from_slice(&self.sender.get().to_le_bytes());
        message[20..24].copy_from_slice(&self.way.to_le_bytes());
    }

    /// Reads it from the start of a message; `None` if that is too short.
    #[inline]
    pub fn read(message: &[u8]) -> Option<Self> {
        let bytes = |from: usize, to: usize| message.get(from..to);
        Some(Self {
            last: u64::from_le_bytes(bytes(0, 8)?.try_into().ok()?),
            iteration: u64::from_le_bytes(bytes(8, 16)?.try_into().ok()?),
            sender: Rank::new(u32::from_le_bytes(bytes(16, 20)?.try_into().ok()?)),
            way: u32::from_le_bytes(bytes(20, 24)?.try_into().ok()?),
        })
    }

    /// What a message says about the end, after checking that it is the expected one.
    ///
    /// # Errors
    /// It is a different one: a defect of the fabric.
    #[inline]
    pub fn checked(
        message: &[u8],
        iteration: u64,
        sender: Rank,
        way: u32,
    ) -> Result<u64, WorkloadError> {
        match Self::read(message) {
            Some(h) if (h.iteration, h.sender, h.way) == (iteration, sender, way) => Ok(h.last),
            _ => Err(WorkloadError::WrongMessage {
                from: sender,
                iteration,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_not_the_expected_one_is_refused() {
        let header = Header {
            last: 7,
            iteration: 3,
            sender: Rank::new(2),
            way: 1,
        };
        let mut message = vec![0; HEADER];
        header.write(&mut message);
        assert_eq!(Header::read(&message), Some(header));
        assert_eq!(
            Header::checked(&message, 3, Rank::new(2), 1).expect("this one"),
            7
        );
        for (iteration, sender, way) in [(4, 2, 1), (3, 1, 1), (3, 2, 0)] {
            let refused = Header::checked(&message, iteration, Rank::new(sender), way);
            assert!(matches!(refused, Err(WorkloadError::WrongMessage { .. })));
        }
        assert!(Header::checked(&message[..HEADER - 1], 3, Rank::new(2), 1).is_err());
    }
}

//! Pieces of messages, and what carries them.

use std::mem::MaybeUninit;

/// What accompanies a piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tag of the message.
    pub tag: u32,
    /// Bytes of the whole message.
    pub message: u64,
    /// Bytes of this piece.
    pub piece: u32,
}

/// Carries pieces of messages between this rank and the others, in order for each pair.
pub trait Pieces {
    /// Ranks of the world.
    fn size(&self) -> u32;

    /// Sends as much of `rest`, the remainder of a message of `message` bytes, as fits into one
    /// piece, and returns how much; `None` if there is no room. An empty message is one piece too.
    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize>;

    /// Passes the next piece from a rank to `read`, if one has arrived.
    fn take<T>(&mut self, from: u32, read: impl FnOnce(Header, &dyn Piece) -> T) -> Option<T>;
}

/// The bytes of a piece, in place. Another process may be able to change them, so copy them before
/// looking at them.
pub trait Piece {
    /// Number of bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes from `skip` on, `most` at most.
    fn append_to(&self, skip: usize, most: usize, data: &mut Vec<u8>);

    /// Writes the bytes from `skip` on to the start of `to`, as many as there are and fit; returns
    /// how many.
    fn copy_to(&self, skip: usize, to: &mut [MaybeUninit<u8>]) -> usize;
}

impl Piece for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn append_to(&self, skip: usize, most: usize, data: &mut Vec<u8>) {
        let rest = self.get(skip..).unwrap_or_default();
        data.extend_from_slice(&rest[..rest.len().min(most)]);
    }

    fn copy_to(&self, skip: usize, to: &mut [MaybeUninit<u8>]) -> usize {
        let rest = self.get(skip..).unwrap_or_default();
        let both = to.iter_mut().zip(rest);
        both.map(|(place, byte)| place.write(*byte)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_bytes_is_appended() {
        let piece: &dyn Piece = &&b"abcdef"[..];
        let part = |skip, most| {
            let mut data = b"-".to_vec();
            piece.append_to(skip, most, &mut data);
            String::from_utf8(data)
        };
        assert_eq!(part(0, usize::MAX), Ok("-abcdef".to_owned()));
        assert_eq!(part(2, 3), Ok("-cde".to_owned()));
        assert_eq!(part(4, 3), Ok("-ef".to_owned()));
        assert_eq!(part(7, 3), Ok("-".to_owned()));
    }
}

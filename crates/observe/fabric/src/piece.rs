//! Pieces of messages, and what carries them.

/// What goes with a piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tag of the message.
    pub tag: u32,
    /// Bytes of the whole message.
    pub message: u64,
    /// Bytes of this piece.
    pub piece: u32,
}

/// What carries pieces of messages between the own rank and the others, in order of each pair.
pub trait Pieces {
    /// Ranks of the world.
    fn size(&self) -> u32;

    /// Takes the first bytes of `rest`, the end of a message of `message` bytes, and gives their
    /// number; `None` if there is no room. A message of no bytes is a piece as well.
    fn put(&mut self, to: u32, tag: u32, message: u64, rest: &[u8]) -> Option<usize>;

    /// Gives the next piece from a rank to `read`, if one has come.
    fn take<T>(&mut self, from: u32, read: impl FnOnce(Header, &dyn Piece) -> T) -> Option<T>;
}

/// The bytes of a piece, where they lie: perhaps in memory that another process may change, so they
/// are copied before anybody looks at them.
pub trait Piece {
    /// How many.
    fn len(&self) -> usize;

    /// Appends them.
    fn append_to(&self, data: &mut Vec<u8>);
}

impl Piece for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn append_to(&self, data: &mut Vec<u8>) {
        data.extend_from_slice(self);
    }
}

//! Memory of the program: where messages come from and go to.

use crate::abi::Span;
use idlewave_fabric::netctx::Piece;
use std::mem::MaybeUninit;

/// The most parts of a buffer.
pub const PARTS: usize = 4;

/// A buffer of up to [`PARTS`] parts, to be filled with a message.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    parts: [(*mut u8, usize); PARTS],
    bytes: usize,
}

// SAFETY: the memory belongs to the operation, not to a thread.
unsafe impl Send for Room {}

impl Room {
    /// The buffer that a program passed; `None` if it has too many parts, or a part has a length
    /// but no address, or more bytes than there can be.
    ///
    /// # Safety
    /// If `count` is at most [`PARTS`], `spans` points to that many spans, and the memory that they
    /// name may be written until the operation is complete.
    pub unsafe fn of(spans: *const Span, count: usize) -> Option<Self> {
        let mut room = Self::default();
        if count > PARTS || (spans.is_null() && count > 0) {
            return None;
        }
        for (at, part) in room.parts.iter_mut().take(count).enumerate() {
            // SAFETY: one of `count` spans.
            let Span { base, len } = unsafe { spans.add(at).read() };
            room.bytes = room.bytes.checked_add(len)?;
            if base.is_null() && len > 0 || room.bytes > isize::MAX as usize {
                return None;
            }
            *part = (base, len);
        }
        Some(room)
    }

    /// Its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first byte.
    pub fn begin(&self) -> *mut u8 {
        self.parts[0].0
    }

    /// `bytes` from `at` on, of its first part; as much of that as there is.
    pub fn part(&self, at: usize, bytes: usize) -> Self {
        let (base, len) = self.parts[0];
        let at = at.min(len);
        let bytes = bytes.min(len - at);
        let mut part = Self::default();
        // Within the part: `at` is at most its length.
        part.parts[0] = (base.wrapping_add(at), bytes);
        part.bytes = bytes;
        part
    }

    /// The parts that `length` bytes from `at` on lie in, as many as there is room for.
    pub fn parts_at(&self, at: usize, length: usize) -> [(*mut u8, usize); PARTS] {
        let (mut at, mut length) = (at, length);
        self.parts.map(|(base, len)| {
            let skip = at.min(len);
            let bytes = length.min(len - skip);
            (at, length) = (at - skip, length - bytes);
            // Within the part.
            (base.wrapping_add(skip), bytes)
        })
    }

    /// Writes bytes of a message: those of `piece` from `skip` on, to offset `at`. What does not
    /// fit is dropped.
    pub fn write(&mut self, at: usize, piece: &dyn Piece, skip: usize) {
        let mut skip = skip;
        let length = piece.len().saturating_sub(skip);
        for (base, len) in self.parts_at(at, length) {
            if len == 0 {
                continue;
            }
            // SAFETY: within memory that may be written, see `of`; nobody else uses it meanwhile.
            let place =
                unsafe { std::slice::from_raw_parts_mut(base.cast::<MaybeUninit<u8>>(), len) };
            skip += piece.copy_to(skip, place);
        }
    }
}

impl Default for Room {
    fn default() -> Self {
        Self {
            parts: [(std::ptr::null_mut(), 0); PARTS],
            bytes: 0,
        }
    }
}

/// The content of a message to be sent.
#[derive(Debug)]
pub enum Content {
    /// In memory of the program.
    Lent(*const u8, usize),
    /// Copied.
    Own(Vec<u8>),
}

// SAFETY: the memory belongs to the operation, not to a thread.
unsafe impl Send for Content {}

impl Content {
    /// What a program passed, for reading; `None` as for [`Room::of`].
    ///
    /// # Safety
    /// That of [`Room::of`], but for reading.
    pub unsafe fn of(spans: *const Span, count: usize) -> Option<Self> {
        // SAFETY: as promised; nothing is written there.
        let room = unsafe { Room::of(spans, count) }?;
        if room.parts[1..].iter().all(|(_, len)| *len == 0) {
            return Some(Self::Lent(room.parts[0].0, room.parts[0].1));
        }
        let mut own = Vec::with_capacity(room.bytes);
        for (base, len) in room.parts {
            own.extend_from_slice(slice(base, len));
        }
        Some(Self::Own(own))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(base, len) => slice(*base, *len),
            Self::Own(own) => own,
        }
    }
}

fn slice<'a>(base: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: made only from parts that `Content::of` was promised to be readable.
    unsafe { std::slice::from_raw_parts(base, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(bytes: &mut [u8]) -> Span {
        Span {
            base: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }

    const NOWHERE: Span = Span {
        base: std::ptr::null_mut(),
        len: 0,
    };

    fn room(spans: &[Span]) -> Option<Room> {
        // SAFETY: so many spans, of bytes that the tests keep.
        unsafe { Room::of(spans.as_ptr(), spans.len()) }
    }

    /// What is in parts of 3, 0 and 4 bytes, with 2 more behind the last, after a write.
    fn written(at: usize, piece: &[u8], skip: usize) -> ([u8; 3], [u8; 6]) {
        let (mut first, mut second) = ([0; 3], [0; 6]);
        let spans = [span(&mut first), NOWHERE, span(&mut second[..4]), NOWHERE];
        let mut room = room(&spans).unwrap();
        assert_eq!(room.bytes(), 7);
        room.write(at, &piece, skip);
        (first, second)
    }

    #[test]
    fn parts_are_filled_in_turn_and_nothing_beyond_them() {
        let (none, empty) = ([0; 3], [0; 6]);
        assert_eq!(written(0, &[9, 9, 1, 2], 2), ([1, 2, 0], empty));
        assert_eq!(written(2, &[3, 4], 0), ([0, 0, 3], [4, 0, 0, 0, 0, 0]));
        assert_eq!(written(3, &[4, 5], 0), (none, [4, 5, 0, 0, 0, 0]));
        let long: Vec<u8> = (0..20).collect();
        assert_eq!(written(0, &long, 1), ([1, 2, 3], [4, 5, 6, 7, 0, 0]));
        assert_eq!(written(5, &long, 1), (none, [0, 0, 1, 2, 0, 0]));
        assert_eq!(written(7, &long, 1), (none, empty));
        assert_eq!(written(70, &long, 1), (none, empty));
        assert_eq!(written(0, &long, 20), (none, empty));
    }

    #[test]
    fn a_buffer_of_too_many_parts_or_without_an_address_is_refused() {
        let mut bytes = [0; 2];
        let of = |count| room(&(0..count).map(|_| NOWHERE).collect::<Vec<_>>());
        assert!(of(PARTS).is_some() && of(PARTS + 1).is_none());
        let (base, len) = (std::ptr::null_mut(), 1);
        assert!(room(&[span(&mut bytes), Span { base, len }]).is_none());
        let all = [2, usize::MAX].map(|len| Span {
            len,
            ..span(&mut bytes)
        });
        assert!(room(&all).is_none());
        // SAFETY: no span is read.
        assert!(unsafe { Room::of(std::ptr::null(), 1) }.is_none());
    }

    #[test]
    fn a_message_in_several_parts_is_sent_as_one() {
        let (mut first, mut second) = (*b"ab", *b"cde");
        let spans = [span(&mut first), NOWHERE, span(&mut second)];
        // SAFETY: three spans of bytes that are kept.
        let content = unsafe { Content::of(spans.as_ptr(), 3) }.unwrap();
        assert_eq!(content.bytes(), b"abcde");
    }
}

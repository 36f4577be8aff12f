//! Numbers and texts of OTF2 files, in either byte order.
//!
//! Most numbers are a byte with their length and that many bytes; 0 is a length alone, and so is
//! the largest number (255). Records begin with their length, so that fields appended by later
//! versions are skipped.

/// Bytes that are read from their start. Reading gives `None` if they end or are no number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    big: bool,
}

/// The mark of the byte order in the second byte of each file.
const BIG: u8 = 0x23;
const LITTLE: u8 = 0x42;
/// The first byte of each file and of each chunk of it.
const HEADER: u8 = 3;

impl<'a> Bytes<'a> {
    pub(super) fn new(rest: &'a [u8], big: bool) -> Self {
        Self { rest, big }
    }

    /// The bytes after the first two of a file; `None` if those two are not OTF2's.
    pub(super) fn of_file(file: &'a [u8]) -> Option<Self> {
        match *file {
            [HEADER, order @ (BIG | LITTLE), ref rest @ ..] => Some(Self::new(rest, order == BIG)),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn is_big(&self) -> bool {
        self.big
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// A number of eight bytes.
    pub(super) fn full_u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(match self.big {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    }

    /// A number after its length.
    fn packed(&mut self, longest: u8) -> Option<u64> {
        match self.u8()? {
            0 => Some(0),
            u8::MAX => Some(u64::MAX),
            length if length <= longest => {
                let bytes = self.take(length.into())?;
                let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
                Some(match self.big {
                    true => bytes.iter().fold(0, add),
                    false => bytes.iter().rev().fold(0, add),
                })
            }
            _ => None,
        }
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.packed(8)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        // The largest 64-bit number stands for the largest 32-bit one.
        self.packed(4).map(|number| number as u32)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.packed(8).map(|number| number as i64)
    }

    /// A zero-terminated text.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let text = self.take(end)?;
        self.rest = &self.rest[1..];
        Some(text)
    }

    /// The fields of a record, after its length.
    pub(super) fn record(&mut self) -> Option<Bytes<'a>> {
        let length = match self.u8()? {
            u8::MAX => usize::try_from(self.full_u64()?).ok()?,
            length => length.into(),
        };
        let big = self.big;
        self.take(length).map(|rest| Bytes { rest, big })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], big: bool) -> Bytes<'_> {
        Bytes::new(bytes, big)
    }

    #[test]
    fn numbers_are_as_long_as_they_say_in_either_byte_order() {
        for (bytes, big, number) in [
            (&[0][..], false, 0),
            (&[1, 7], false, 7),
            (&[2, 1, 2], false, 0x201),
            (&[2, 1, 2], true, 0x102),
            (&[8, 1, 2, 3, 4, 5, 6, 7, 8], true, 0x0102_0304_0506_0708),
            (&[0xff], false, u64::MAX),
        ] {
            assert_eq!(of(bytes, big).u64(), Some(number), "{bytes:?}");
        }
        assert_eq!(of(&[0xff], false).u32(), Some(u32::MAX));
        assert_eq!(of(&[4, 1, 0, 0, 0], false).u32(), Some(1));
        assert_eq!(
            of(&[8, 254, 255, 255, 255, 255, 255, 255, 255], false).i64(),
            Some(-2)
        );
        assert_eq!(
            of(&[1, 0, 0, 0, 0, 0, 0, 2], true).full_u64(),
            Some((1 << 56) + 2)
        );
    }

    #[test]
    fn what_ends_early_or_is_too_long_is_no_number() {
        for bytes in [&[][..], &[2, 1], &[5, 0, 0, 0, 0, 0]] {
            assert_eq!(of(bytes, false).u32(), None, "{bytes:?}");
        }
        assert_eq!(of(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0], false).u64(), None);
        assert_eq!(of(b"abc", false).text(), None);
        assert_eq!(of(&[4, 1, 2], false).record().map(|r| r.len()), None);
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(of(&huge, false).record().map(|r| r.len()), None);
        assert!(Bytes::of_file(&[3, 0x43, 0]).is_none());
    }

    #[test]
    fn records_of_255_bytes_and_more_have_a_long_length() {
        let mut bytes = vec![0xff, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend([9; 257]);
        let mut all = of(&bytes, false);
        assert_eq!(all.record().map(|r| r.len()), Some(256));
        assert_eq!(all.len(), 1);
    }
}

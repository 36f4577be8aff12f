//! The wire format of protocol buffers: as much of it as traces need.
//!
//! A message is a sequence of fields; a field is a key (`number << 3 | type`) and a value. Written by
//! hand since the dozen messages of a trace would otherwise bring a code generator into the build.
//! Source: the protocol buffers encoding guide.

/// Types of values on the wire.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// Writes messages.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// What was written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// An integer, boolean or enum. Negative numbers of signed fields are sign-extended by the
    /// caller.
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
    }

    /// A number of 8 bytes.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | FIXED64));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Fields that are already encoded.
    pub(crate) fn append(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    /// A text.
    pub(crate) fn text(&mut self, field: u32, text: &str) {
        self.raw(field, text.as_bytes());
    }

    /// Bytes, or a message that is already encoded.
    pub(crate) fn raw(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field << 3 | BYTES));
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A message, written by `inside`.
    pub(crate) fn message(&mut self, field: u32, inside: impl FnOnce(&mut Self)) {
        self.varint(u64::from(field << 3 | BYTES));
        // Most messages are so short that their length takes one byte.
        let at = self.bytes.len();
        self.bytes.push(0);
        inside(self);
        let length = self.bytes.len() - at - 1;
        if length < 0x80 {
            self.bytes[at] = length as u8;
            return;
        }
        let mut head = Encoder::default();
        head.varint(length as u64);
        self.bytes.splice(at..=at, head.bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Why bytes are not a message. Offsets count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The message ends within a field.
    #[error("field at offset {0} is cut short")]
    Cut(usize),
    /// A number of more than 64 bits.
    #[error("number at offset {0} has more than 64 bits")]
    Long(usize),
    /// A type that no current writer uses, or field number 0.
    #[error("field at offset {0} is of no known type")]
    Type(usize),
}

/// A value as it stands in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer, boolean or enum.
    Uint(u64),
    /// A text, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of fixed size.
    Fixed,
}

/// The fields of a message, in order. After an error there are no more.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// The fields of this message.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), WireError> {
        let begin = self.at;
        let key = self.varint(begin)?;
        let number = u32::try_from(key >> 3).map_err(|_| WireError::Type(begin))?;
        if number == 0 {
            return Err(WireError::Type(begin));
        }
        let value = match key as u32 & 7 {
            VARINT => Value::Uint(self.varint(begin)?),
            BYTES => {
                let length = self.varint(begin)?;
                Value::Bytes(self.take(length, begin)?)
            }
            FIXED64 => self.take(8, begin).map(|_| Value::Fixed)?,
            FIXED32 => self.take(4, begin).map(|_| Value::Fixed)?,
            _ => return Err(WireError::Type(begin)),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: u64, begin: usize) -> Result<&'a [u8], WireError> {
        let cut = WireError::Cut(begin);
        let length = usize::try_from(length).map_err(|_| cut)?;
        let end = self.at.checked_add(length).ok_or(cut)?;
        let bytes = self.bytes.get(self.at..end).ok_or(cut)?;
        self.at = end;
        Ok(bytes)
    }

    fn varint(&mut self, begin: usize) -> Result<u64, WireError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let (value, length) = varint(rest).map_err(|long| match long {
            true => WireError::Long(begin),
            false => WireError::Cut(begin),
        })?;
        self.at += length;
        Ok(value)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

/// The number at the start of `bytes` and its length in bytes. The error says whether it is too long
/// (`true`) or cut short.
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), bool> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate() {
        // Nine bytes of 7 bits, and one bit of the tenth.
        if place == 9 && *byte > 1 {
            return Err(true);
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((value, place + 1));
        }
    }
    Err(false)
}

/// The numbers of a packed field, up to the first that is damaged.
pub(crate) fn packed(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (value, length) = varint(rest).ok()?;
        rest = &rest[length..];
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_those_of_the_encoding_guide() {
        // Test1 { a: 150 }, Test2 { b: "testing" }, Test3 { c: Test1 }.
        let mut out = Encoder::default();
        out.uint(1, 150);
        assert_eq!(out.bytes(), [0x08, 0x96, 0x01]);
        out.clear();
        out.text(2, "testing");
        assert_eq!(out.bytes(), b"\x12\x07testing");
        out.clear();
        out.message(3, |inner| inner.uint(1, 150));
        assert_eq!(out.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn a_message_of_128_bytes_has_a_length_of_two() {
        let mut out = Encoder::default();
        out.message(1, |inner| inner.raw(1, &[7; 126]));
        assert_eq!(&out.bytes()[..3], [0x0a, 0x80, 0x01]);
        assert_eq!(out.bytes().len(), 131);
    }

    #[test]
    fn what_is_cut_or_too_long_is_named_with_its_offset() {
        let all = |bytes| Fields::of(bytes).collect::<Result<Vec<_>, _>>();
        assert_eq!(all(&[0x08]), Err(WireError::Cut(0)));
        assert_eq!(all(&[0x08, 1, 0x12, 2, 0]), Err(WireError::Cut(2)));
        assert_eq!(
            all(&[
                0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
            ]),
            Err(WireError::Cut(0))
        );
        assert_eq!(
            all(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
            Err(WireError::Long(0))
        );
        assert_eq!(all(&[0x0b]), Err(WireError::Type(0)));
        assert_eq!(all(&[0x00, 1]), Err(WireError::Type(0)));
    }

    proptest! {
        #[test]
        fn fields_read_back(values in prop::collection::vec((1_u32..1 << 20, any::<u64>(), prop::collection::vec(any::<u8>(), 0..200)), 0..20)) {
            let mut out = Encoder::default();
            for (field, number, bytes) in &values {
                out.uint(*field, *number);
                out.message(*field, |inner| inner.raw(1, bytes));
            }
            let mut fields = Fields::of(out.bytes());
            for (field, number, bytes) in &values {
                prop_assert_eq!(fields.next(), Some(Ok((*field, Value::Uint(*number)))));
                let (key, value) = fields.next().unwrap().unwrap();
                prop_assert_eq!(key, *field);
                let Value::Bytes(value) = value else { panic!() };
                let inner = Fields::of(value).next();
                prop_assert_eq!(inner, Some(Ok((1, Value::Bytes(bytes)))));
            }
            prop_assert_eq!(fields.next(), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Fields::of(&bytes).count() <= bytes.len());
            prop_assert!(packed(&bytes).count() <= bytes.len());
        }
    }
}

//! Writes numbers of any size at any bit, as C lays out bit-fields.

/// Bytes that are being written.
#[derive(Clone, Default)]
pub struct Bits {
    pub bytes: Vec<u8>,
    /// Bits so far.
    pub at: u64,
    pub big: bool,
}

impl Bits {
    pub fn align(&mut self, align: u64) {
        self.at = self.at.next_multiple_of(align);
        self.bytes.resize(self.at.div_ceil(8) as usize, 0);
    }

    pub fn number(&mut self, value: u64, size: u64, align: u64) {
        self.align(align);
        for n in 0..size {
            let (byte, bit) = ((self.at / 8) as usize, self.at % 8);
            self.bytes.resize(self.bytes.len().max(byte + 1), 0);
            let (from, to) = match self.big {
                true => (size - 1 - n, 7 - bit),
                false => (n, bit),
            };
            self.bytes[byte] |= ((value >> from & 1) as u8) << to;
            self.at += 1;
        }
    }

    /// A text, padded with zeros to this length.
    pub fn text(&mut self, text: &str, length: usize) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(length, 0);
        for byte in bytes {
            self.number(u64::from(byte), 8, 8);
        }
    }
}

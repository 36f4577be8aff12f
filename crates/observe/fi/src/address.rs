//! Addresses of endpoints: a gang and a rank.

/// The start of every address.
const MAGIC: [u8; 8] = *b"iw-netct";

/// An endpoint's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The gang, by its number on its devices.
    pub gang: u32,
    /// The rank.
    pub rank: u32,
}

impl Address {
    /// Its length, bytes.
    pub const BYTES: usize = 16;
    /// Its format: one of this provider's own (`addr_format` with the top bit).
    pub const FORMAT: u32 = 1 << 31 | 0x1d1e;

    /// As it is given to others.
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.gang.to_le_bytes());
        bytes[12..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    /// What others gave; `None` if it is no such address.
    pub fn read(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = bytes[at..].first_chunk().copied();
            bytes.map(u32::from_le_bytes)
        };
        let address = Self {
            gang: number(8)?,
            rank: number(12)?,
        };
        bytes.starts_with(&MAGIC).then_some(address)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "idlewave://{}/{}", self.gang, self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written_and_nothing_else_is_one() {
        let address = Address {
            gang: 7,
            rank: u32::MAX,
        };
        assert_eq!(Address::read(address.bytes()), Some(address));
        assert_eq!(address.to_string(), "idlewave://7/4294967295");
        let mut other = address.bytes();
        other[0] ^= 1;
        assert_eq!(Address::read(other), None);
    }
}

//! Message authentication codes: HMAC-SHA256.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Length of an authentication code in bytes: HMAC-SHA256, truncated to half (RFC 2104, section 5),
/// or Poly1305.
pub const TAG: usize = 16;

/// Makes and checks message authentication codes under one key: HMAC-SHA256 (RFC 2104, FIPS 180-4),
/// truncated to its first 16 bytes. A code proves that a holder of the key sent the message, not
/// when, how often or to whom. Debug output omits the key.
#[derive(Clone)]
pub struct Coder(Hmac<Sha256>);

impl Coder {
    /// From a key of 64 bytes, the block length of SHA-256; HMAC pads shorter keys with zeros.
    pub(crate) fn keyed(key: [u8; 64]) -> Self {
        Coder(Hmac::new(&key.into()))
    }

    /// From a key that is used for nothing else.
    pub fn new(key: &[u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        Self::keyed(block)
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        parts.iter().for_each(|part| code.update(part));
        code
    }

    /// The whole code, 32 bytes.
    pub(crate) fn whole(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// The first `N` bytes of the code.
    pub(crate) fn first<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let whole = self.whole(parts);
        std::array::from_fn(|k| whole[k])
    }

    /// The code of `message`.
    pub fn tag(&self, message: &[u8]) -> [u8; TAG] {
        self.first(&[message])
    }

    /// Whether `tag` is the code of `message`, compared in constant time.
    pub fn accepts(&self, message: &[u8], tag: &[u8; TAG]) -> bool {
        self.over(&[message]).verify_truncated_left(tag).is_ok()
    }
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coder(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_hmac_sha256_of_rfc_4231() {
        // Test case 1: key of 20 bytes 0x0b, "Hi There".
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let code = Coder::new(&key).whole(&[b"Hi", b" There"]);
        assert_eq!(code[..4], [0xb0, 0x34, 0x4c, 0x61]);
        assert_eq!(code[28..], [0x2e, 0x32, 0xcf, 0xf7]);
        let tag: [u8; TAG] = std::array::from_fn(|k| code[k]);
        assert_eq!(Coder::new(&key).tag(b"Hi There"), tag);
        assert!(Coder::new(&key).accepts(b"Hi There", &tag));
        for k in 0..TAG {
            let mut other = tag;
            other[k] ^= 1;
            assert!(!Coder::new(&key).accepts(b"Hi There", &other));
        }
    }
}

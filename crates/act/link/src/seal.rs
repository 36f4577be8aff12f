//! Encrypts and authenticates the frames of a session: ChaCha20-Poly1305 (RFC 8439, section 2.8).
//!
//! A nonce must never repeat under one key. The nonce is the frame's counter, which each end counts
//! up from zero. The key belongs to one direction of one session: it is derived from the nonces of
//! both ends, which are new for each session.

use crate::coder::TAG;
use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use std::fmt;

/// Seals the frames of one direction of one session. Debug output omits the key.
pub(crate) struct Sealer(ChaCha20Poly1305);

/// As in RFC 8439, section 2.8: 32 bits constant per sender, then the counter, little-endian.
fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Sealer(ChaCha20Poly1305::new(&(*key).into()))
    }

    /// Appends the encrypted payload to `frame`, which so far holds the cleartext head, then the
    /// tag over both.
    pub(crate) fn seal(&self, counter: u64, frame: &mut Vec<u8>, payload: &[u8]) {
        let begin = frame.len();
        frame.extend(payload);
        let (head, body) = frame.split_at_mut(begin);
        let tag = self.encrypt(&nonce(counter), head, body);
        frame.extend(tag);
    }

    fn encrypt(&self, nonce: &[u8; 12], head: &[u8], body: &mut [u8]) -> [u8; TAG] {
        let sealed = self
            .0
            .encrypt_inout_detached(&(*nonce).into(), head, body.into());
        match sealed {
            Ok(tag) => tag.into(),
            Err(_) => unreachable!("a frame is shorter than the 256 GiB of one nonce"),
        }
    }

    /// The payload; `None` if the tag does not match key, counter, head and body.
    pub(crate) fn open(
        &self,
        counter: u64,
        head: &[u8],
        body: &[u8],
        tag: &[u8; TAG],
    ) -> Option<Vec<u8>> {
        let mut payload = body.to_vec();
        let (nonce, tag) = (nonce(counter).into(), (*tag).into());
        let opened =
            self.0
                .decrypt_inout_detached(&nonce, head, payload.as_mut_slice().into(), &tag);
        opened.ok().map(|()| payload)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_sealed_as_rfc_8439_says() {
        // Section 2.8.2.
        let key = std::array::from_fn(|k| 0x80 + k as u8);
        let nonce = [7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47];
        let head = [
            0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
        ];
        let mut body = *b"Ladies and Gentlemen of the class of '99: If I could offer you \
            only one tip for the future, sunscreen would be it.";
        let tag = Sealer::new(&key).encrypt(&nonce, &head, &mut body);
        assert_eq!(body.len(), 114);
        assert_eq!(
            body[..16],
            [
                0xd3, 0x1a, 0x8d, 0x34, 0x64, 0x8e, 0x60, 0xdb, 0x7b, 0x86, 0xaf, 0xbc, 0x53, 0xef,
                0x7e, 0xc2
            ]
        );
        assert_eq!(body[112..], [0x61, 0x16]);
        assert_eq!(
            tag,
            [
                0x1a, 0xe1, 0x0b, 0x59, 0x4f, 0x09, 0xe2, 0x6a, 0x7e, 0x90, 0x2e, 0xcb, 0xd0, 0x60,
                0x06, 0x91
            ]
        );
    }

    #[test]
    fn the_counter_is_the_end_of_the_nonce_lowest_byte_first() {
        assert_eq!(nonce(0x0201), [0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(nonce(u64::MAX)[4..], [0xff; 8]);
    }

    #[test]
    fn what_is_sealed_opens_with_the_same_key_counter_head_and_tag_alone() {
        let sealer = Sealer::new(&[1; 32]);
        let mut frame = b"head".to_vec();
        sealer.seal(9, &mut frame, b"payload");
        assert_eq!(frame[..4], *b"head");
        let (rest, tag) = frame.split_last_chunk::<TAG>().unwrap();
        let body = &rest[4..];
        assert_ne!(body, b"payload");
        let open = |sealer: &Sealer, counter, head: &[u8], body: &[u8], tag: &[u8; TAG]| {
            sealer.open(counter, head, body, tag)
        };
        let opened = open(&sealer, 9, b"head", body, tag);
        assert_eq!(opened.as_deref(), Some(&b"payload"[..]));
        assert_eq!(open(&Sealer::new(&[2; 32]), 9, b"head", body, tag), None);
        assert_eq!(open(&sealer, 10, b"head", body, tag), None);
        assert_eq!(open(&sealer, 9, b"heae", body, tag), None);
        assert_eq!(open(&sealer, 9, b"hea", body, tag), None);
        for k in 0..TAG {
            let mut other = *tag;
            other[k] ^= 0x80;
            assert_eq!(open(&sealer, 9, b"head", body, &other), None, "{k}");
        }
        for k in 0..body.len() {
            let mut other = body.to_vec();
            other[k] ^= 1;
            assert_eq!(open(&sealer, 9, b"head", &other, tag), None, "{k}");
        }
    }

    #[test]
    fn no_key_is_printed() {
        assert_eq!(format!("{:?}", Sealer::new(&[7; 32])), "Sealer(..)");
    }
}

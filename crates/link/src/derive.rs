//! Codes and the keys that are made of secrets and nonces. All are HMAC-SHA256, told apart by labels.

use crate::peer::Peer;
use crate::seal::Sealer;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Length of a code in bytes: HMAC-SHA256, truncated to half (RFC 2104, section 5), or Poly1305.
pub const TAG: usize = 16;

/// Chosen anew by an end for each session.
pub(crate) type Nonce = [u8; 16];

/// Names a session; both ends derive the same.
pub(crate) type SessionId = [u8; 8];

/// What only those know who may speak. Printed without its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// These bytes, which nobody else knows.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// For a credential.
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Makes and checks codes of messages under one key: HMAC-SHA256 (RFC 2104, FIPS 180-4), truncated to its first 16 bytes. They prove
/// that somebody with the key said it, not when, how often and to whom. Printed without its key.
#[derive(Clone)]
pub struct Coder(Hmac<Sha256>);

impl Coder {
    /// With a key of 64 bytes, the length of a block of SHA-256; shorter ones are filled up with zeros, as HMAC says.
    fn keyed(key: [u8; 64]) -> Self {
        Coder(Hmac::new(&key.into()))
    }

    /// Under this key, which has no other use.
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

    /// All 32 bytes.
    pub(crate) fn whole(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// The first bytes.
    pub(crate) fn first<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let whole = self.whole(parts);
        std::array::from_fn(|k| whole[k])
    }

    /// The code of `message`.
    pub fn tag(&self, message: &[u8]) -> [u8; TAG] {
        self.first(&[message])
    }

    /// Whether the code of `message` is `tag`; takes the same time wherever they differ.
    pub fn accepts(&self, message: &[u8], tag: &[u8; TAG]) -> bool {
        self.over(&[message]).verify_truncated_left(tag).is_ok()
    }
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coder(..)")
    }
}

/// For HELLO: proves that its sender knows `secret`, not that it is fresh.
pub(crate) fn hello_coder(secret: &Secret) -> Coder {
    Coder::new(&Coder::new(secret.bytes()).whole(&[b"idlewave link 1 hello"]))
}

/// What one end adds to a session.
pub(crate) struct Share<'a> {
    pub(crate) peer: Peer,
    pub(crate) nonce: &'a Nonce,
    pub(crate) secret: &'a Secret,
}

/// The secret of a session: of both ends' secrets, nonces and names.
#[derive(Debug)]
pub(crate) struct Pair(Coder);

impl Pair {
    /// Whoever comes first: both ends get the same.
    pub(crate) fn new(one: Share<'_>, other: Share<'_>) -> Self {
        let (low, high) = if one.peer <= other.peer {
            (one, other)
        } else {
            (other, one)
        };
        let mut key = [0; 64];
        key[..32].copy_from_slice(low.secret.bytes());
        key[32..].copy_from_slice(high.secret.bytes());
        Pair(Coder::new(&Coder::keyed(key).whole(&[
            b"idlewave link 1 session",
            &low.peer.to_bytes(),
            &high.peer.to_bytes(),
            low.nonce,
            high.nonce,
        ])))
    }

    pub(crate) fn id(&self) -> SessionId {
        self.0.first(&[b"id"])
    }

    /// For the frames that `sender` sends.
    pub(crate) fn frames_of(&self, sender: Peer) -> Sealer {
        Sealer::new(&self.key_of(sender))
    }

    fn key_of(&self, sender: Peer) -> [u8; 32] {
        self.0.whole(&[b"frames of", &sender.to_bytes()])
    }

    /// For the HELLO-BACK that `sender` sends.
    pub(crate) fn back_of(&self, sender: Peer) -> Coder {
        Coder::new(&self.0.whole(&[b"hello-back of", &sender.to_bytes()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::NodeId;

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

    #[test]
    fn both_ends_derive_the_same_and_everything_in_it_matters() {
        let (a, b) = (Peer::Controller, Peer::Agent(NodeId::new(0)));
        let other = Peer::Agent(NodeId::new(1));
        let (s, t) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let (m, n) = ([3; 16], [4; 16]);
        let id = |x: (Peer, &Secret, &Nonce), y: (Peer, &Secret, &Nonce)| {
            let share = |(peer, secret, nonce)| Share {
                peer,
                nonce,
                secret,
            };
            Pair::new(share(x), share(y)).id()
        };
        let expected = id((a, &s, &m), (b, &t, &n));
        assert_eq!(id((b, &t, &n), (a, &s, &m)), expected);
        let others = [
            id((a, &t, &m), (b, &t, &n)),
            id((a, &s, &m), (b, &s, &n)),
            id((a, &s, &n), (b, &t, &n)),
            id((a, &s, &m), (b, &t, &m)),
            id((a, &s, &m), (other, &t, &n)),
            id((other, &s, &m), (b, &t, &n)),
            id((a, &t, &m), (b, &s, &n)),
            id((a, &s, &n), (b, &t, &m)),
        ];
        for (k, other) in others.iter().enumerate() {
            assert_ne!(*other, expected, "{k}");
        }
    }

    #[test]
    fn each_direction_and_purpose_has_its_own_code() {
        let (a, b) = (Peer::Controller, Peer::Agent(NodeId::new(0)));
        let secret = Secret::new([1; 32]);
        let share = |peer| Share {
            peer,
            nonce: &[0; 16],
            secret: &secret,
        };
        let pair = Pair::new(share(a), share(b));
        let coders = [
            Coder::new(&pair.key_of(a)),
            Coder::new(&pair.key_of(b)),
            pair.back_of(a),
            pair.back_of(b),
            hello_coder(&secret),
        ];
        let mut codes = coders.map(|coder| coder.whole(&[b"the same"])).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 5);
    }

    #[test]
    fn no_secret_is_printed() {
        let secret = Secret::new([7; 32]);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(format!("{:?}", hello_coder(&secret)), "Coder(..)");
    }
}

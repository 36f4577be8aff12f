//! Keys derived from secrets and nonces. All use HMAC-SHA256 and differ by their labels.

use crate::coder::Coder;
use crate::peer::Peer;
use crate::seal::Sealer;
use std::fmt;

/// A number that an end chooses afresh for each session.
pub(crate) type Nonce = [u8; 16];

/// Identifies a session; both ends derive the same value.
pub(crate) type SessionId = [u8; 8];

/// A value that only authorised ends know. Debug output omits the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// From bytes that nobody else knows.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// The bytes, to put into a credential.
    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The coder for HELLO. Its code proves that the sender knows `secret`, but not that the message is
/// fresh.
pub(crate) fn hello_coder(secret: &Secret) -> Coder {
    Coder::new(&Coder::new(secret.bytes()).whole(&[b"idlewave link 1 hello"]))
}

/// What one end contributes to a session.
pub(crate) struct Share<'a> {
    pub(crate) peer: Peer,
    pub(crate) nonce: &'a Nonce,
    pub(crate) secret: &'a Secret,
}

/// The secret of a session, derived from both ends' secrets, nonces and names.
#[derive(Debug)]
pub(crate) struct Pair(Coder);

impl Pair {
    /// In either order: both ends derive the same secret.
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

//! The bytes of a datagram.
//!
//! Every datagram starts with version, kind, sender and receiver, and ends with an authentication
//! code of 16 bytes over everything before it: in greetings HMAC-SHA256, in frames of a session the
//! tag of ChaCha20-Poly1305, which also encrypts the payload ([`crate::seal`]). Numbers are
//! little-endian.
//!
//! | kind | between them, with lengths in bytes |
//! |---|---|
//! | 1 HELLO | sender's nonce (16), zeros (16), credential length (2), credential, padding |
//! | 2 HELLO-BACK | sender's nonce (16), receiver's (16), credential length (2), credential |
//! | 3 payload, 4 note | session (8), counter (8), encrypted payload |
//! | 5 payload, 6 note | session (8), counter (8), sender's nonce (16), encrypted payload |
//!
//! A sender uses kinds 5 and 6 until it knows that the receiver has the session. A note has no
//! payload: it tells the receiver that its sender is alive in this session.

use crate::Reason;
use crate::coder::{Coder, TAG};
use crate::derive::{Nonce, SessionId};
use crate::peer::{PEER, Peer};
use crate::seal::Sealer;

/// The longest payload of one message, in bytes. It fits into one UDP datagram of IPv4 (65,507
/// bytes).
pub const LONGEST: usize = 60_000;

/// The longest datagram: a payload with everything around it.
pub(crate) const LONGEST_FRAME: usize = HEAD + 8 + 8 + 16 + LONGEST + TAG;

/// Longest credential in bytes. No known site has longer ones: munge writes some 250 bytes for a
/// payload of 32.
pub(crate) const LONGEST_CREDENTIAL: usize = 2_048;

const VERSION: u8 = 2;
const HEAD: usize = 2 + 2 * PEER;

/// A parsed datagram.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) from: Peer,
    pub(crate) to: Peer,
    pub(crate) content: Content<'a>,
    /// The bytes that the code covers.
    pub(crate) signed: &'a [u8],
    pub(crate) tag: [u8; TAG],
}

#[derive(Debug)]
pub(crate) enum Content<'a> {
    Hello(Greeting<'a>),
    Back(Greeting<'a>),
    Speech(Speech<'a>),
}

/// HELLO or HELLO-BACK.
#[derive(Debug)]
pub(crate) struct Greeting<'a> {
    pub(crate) nonce: Nonce,
    pub(crate) echo: Nonce,
    pub(crate) credential: &'a [u8],
}

/// A frame of a session.
#[derive(Debug)]
pub(crate) struct Speech<'a> {
    pub(crate) id: SessionId,
    pub(crate) counter: u64,
    /// The sender's nonce, until the sender knows that the receiver has the session.
    pub(crate) opening: Option<Nonce>,
    /// Encrypted if read from a datagram, plain if it is to be sent; `None` for a note.
    pub(crate) payload: Option<&'a [u8]>,
}

/// The next `N` bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Reason> {
    let (first, others) = rest.split_first_chunk().ok_or(Reason::Malformed)?;
    *rest = others;
    Ok(*first)
}

impl<'a> Frame<'a> {
    /// Parses a datagram; nothing in it can be trusted yet.
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Self, Reason> {
        if datagram.len() > LONGEST_FRAME {
            return Err(Reason::Long);
        }
        let (signed, tag) = datagram
            .split_last_chunk::<TAG>()
            .ok_or(Reason::Malformed)?;
        let mut rest = signed;
        let [version, kind] = take(&mut rest)?;
        if version != VERSION {
            return Err(Reason::Version);
        }
        let from = Peer::from_bytes(take(&mut rest)?).ok_or(Reason::Malformed)?;
        let to = Peer::from_bytes(take(&mut rest)?).ok_or(Reason::Malformed)?;
        let content = match kind {
            1 => Content::Hello(Greeting::parse(rest)?),
            2 => Content::Back(Greeting::parse(rest)?),
            3..=6 => Content::Speech(Speech::parse(kind, rest)?),
            _ => return Err(Reason::Malformed),
        };
        Ok(Frame {
            from,
            to,
            content,
            signed,
            tag: *tag,
        })
    }

    /// Length of the whole datagram.
    pub(crate) fn length(&self) -> usize {
        self.signed.len() + TAG
    }

    /// Whether the code of a greeting was made with this key.
    pub(crate) fn is_of(&self, coder: &Coder) -> bool {
        coder.accepts(self.signed, &self.tag)
    }

    /// The payload of a frame of a session, empty for a note; `None` if the frame was not made
    /// with this key or was changed.
    pub(crate) fn open(&self, speech: &Speech<'_>, sealer: &Sealer) -> Option<Vec<u8>> {
        let body = speech.payload.unwrap_or_default();
        let head = self.signed.strip_suffix(body)?;
        sealer.open(speech.counter, head, body, &self.tag)
    }
}

impl<'a> Greeting<'a> {
    fn parse(mut rest: &'a [u8]) -> Result<Self, Reason> {
        let nonce = take(&mut rest)?;
        let echo = take(&mut rest)?;
        let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
        if length > LONGEST_CREDENTIAL {
            return Err(Reason::Malformed);
        }
        Ok(Greeting {
            nonce,
            echo,
            credential: rest.get(..length).ok_or(Reason::Malformed)?,
        })
    }
}

impl<'a> Speech<'a> {
    fn parse(kind: u8, mut rest: &'a [u8]) -> Result<Self, Reason> {
        Ok(Speech {
            id: take(&mut rest)?,
            counter: u64::from_le_bytes(take(&mut rest)?),
            opening: match kind {
                5 | 6 => Some(take(&mut rest)?),
                _ => None,
            },
            payload: match kind {
                3 | 5 => Some(rest),
                _ if rest.is_empty() => None,
                _ => return Err(Reason::Malformed),
            },
        })
    }
}

fn head(kind: u8, from: Peer, to: Peer, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + room + TAG);
    bytes.extend([VERSION, kind]);
    bytes.extend(from.to_bytes());
    bytes.extend(to.to_bytes());
    bytes
}

fn finish(mut bytes: Vec<u8>, coder: &Coder) -> Vec<u8> {
    let tag: [u8; TAG] = coder.first(&[&bytes]);
    bytes.extend(tag);
    bytes
}

/// A HELLO. If it has a credential, it is padded so that an answer with another credential is not
/// longer: to a multiple of 512 bytes, with at least 128 bytes to spare.
pub(crate) fn hello(
    coder: &Coder,
    from: Peer,
    to: Peer,
    nonce: &Nonce,
    credential: &[u8],
) -> Vec<u8> {
    let mut bytes = greeting(1, from, to, nonce, &[0; 16], credential);
    if !credential.is_empty() {
        let length = (bytes.len() + 128 + TAG).next_multiple_of(512);
        bytes.resize(length - TAG, 0);
    }
    finish(bytes, coder)
}

/// A HELLO-BACK to the HELLO with nonce `echo`.
pub(crate) fn back(
    coder: &Coder,
    from: Peer,
    to: Peer,
    nonce: &Nonce,
    echo: &Nonce,
    credential: &[u8],
) -> Vec<u8> {
    finish(greeting(2, from, to, nonce, echo, credential), coder)
}

fn greeting(
    kind: u8,
    from: Peer,
    to: Peer,
    nonce: &Nonce,
    echo: &Nonce,
    credential: &[u8],
) -> Vec<u8> {
    let mut bytes = head(kind, from, to, 34 + credential.len());
    bytes.extend(nonce);
    bytes.extend(echo);
    // `Secrets::mine` promises credentials of at most `LONGEST_CREDENTIAL` bytes.
    bytes.extend((credential.len() as u16).to_le_bytes());
    bytes.extend(credential);
    bytes
}

/// A frame of a session.
pub(crate) fn speech(sealer: &Sealer, from: Peer, to: Peer, speech: &Speech<'_>) -> Vec<u8> {
    let kind = match (speech.opening, speech.payload) {
        (None, Some(_)) => 3,
        (None, None) => 4,
        (Some(_), Some(_)) => 5,
        (Some(_), None) => 6,
    };
    let payload = speech.payload.unwrap_or_default();
    let mut bytes = head(kind, from, to, 32 + payload.len());
    bytes.extend(speech.id);
    bytes.extend(speech.counter.to_le_bytes());
    bytes.extend(speech.opening.iter().flatten());
    sealer.seal(speech.counter, &mut bytes, payload);
    bytes
}

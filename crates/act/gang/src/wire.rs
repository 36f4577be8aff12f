//! The byte form of a [`Message`]: compact, versioned, up to the size of a datagram.
//!
//! Little-endian numbers. A frame is: version (1 byte), kind (1 byte), length of the rest (4
//! bytes), body. It has no checksum: the sender signs it, and unsigned frames are not decoded. The
//! encoding is canonical: every accepted frame is the one that [`encode`] gives for its message.

use crate::GangId;
use crate::protocol::{
    Command, Epoch, Message, Nodes, Order, Phases, Question, Roster, Slot, Tally, Why,
};
use idlewave_units::{Nanos, NodeId};

/// Version of the format.
pub const VERSION: u8 = 1;

/// Bytes before the body.
pub const HEADER: usize = 6;

/// Why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the message does.
    #[error("read a frame: it is truncated")]
    Short,
    /// The length is not that of the message.
    #[error("read a frame: its length does not match its content")]
    Length,
    /// Unsupported version.
    #[error("read a frame: version {0}, expected {VERSION}; all nodes need the same idlewave")]
    Version(u8),
    /// A number without meaning.
    #[error("read a frame: {0} is not {1}")]
    Meaning(u64, &'static str),
}

/// The bytes of a message.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut out = Writer(vec![VERSION, 0, 0, 0, 0, 0]);
    let kind = match message {
        Message::Order(order) => {
            out.order(order);
            0
        }
        Message::Answer {
            epoch,
            question,
            tally,
        } => {
            out.u64(epoch.get());
            out.0.push(*question as u8);
            out.tally(tally);
            1
        }
        Message::Newer { epoch } => {
            out.u64(epoch.get());
            2
        }
        Message::Join { node } => {
            out.u32(node.get());
            3
        }
        Message::Leave { node } => {
            out.u32(node.get());
            4
        }
        Message::Gone { node, gang, died } => {
            out.u32(node.get());
            out.u32(gang.get());
            out.0.push(u8::from(*died));
            5
        }
        Message::Known { gang } => {
            out.u32(gang.get());
            6
        }
    };
    let mut bytes = out.0;
    // Sets take at most 8 KiB, refusals 320 KiB.
    let length = (bytes.len() - HEADER) as u32;
    bytes[1] = kind;
    bytes[2..HEADER].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Decodes the message in a frame.
///
/// # Errors
/// The bytes are not exactly one frame of this version.
pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    let mut input = Reader(bytes);
    let (version, kind) = (input.u8()?, input.u8()?);
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    if input.u32()? as usize != input.0.len() {
        return Err(WireError::Length);
    }
    let message = match kind {
        0 => Message::Order(input.order()?),
        1 => Message::Answer {
            epoch: Epoch::new(input.u64()?),
            question: match input.u8()? {
                0 => Question::Prepare,
                1 => Question::Switch,
                2 => Question::Abort,
                other => return Err(WireError::Meaning(other.into(), "a question")),
            },
            tally: input.tally()?,
        },
        2 => Message::Newer {
            epoch: Epoch::new(input.u64()?),
        },
        3 => Message::Join {
            node: input.node()?,
        },
        4 => Message::Leave {
            node: input.node()?,
        },
        5 => Message::Gone {
            node: input.node()?,
            gang: GangId::new(input.u32()?),
            died: input.flag()?,
        },
        6 => Message::Known {
            gang: GangId::new(input.u32()?),
        },
        other => return Err(WireError::Meaning(other.into(), "a kind of message")),
    };
    if input.0.is_empty() {
        Ok(message)
    } else {
        Err(WireError::Length)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    fn slot(&mut self, slot: Slot) {
        match slot {
            Slot::All => self.0.push(0),
            Slot::Gang(gang) => {
                self.0.push(1);
                self.u32(gang.get());
            }
        }
    }
    fn nodes(&mut self, nodes: &Nodes) {
        self.u32(nodes.words().len() as u32);
        for word in nodes.words() {
            self.u64(*word);
        }
    }
    fn order(&mut self, order: &Order) {
        self.u64(order.epoch.get());
        self.u64(order.lease_until.get());
        self.nodes(&order.roster.members);
        self.0.extend_from_slice(&order.roster.arity.to_le_bytes());
        match order.command {
            Command::Prepare {
                from,
                to,
                stop_at,
                drain,
            } => {
                self.0.push(0);
                self.slot(from);
                self.slot(to);
                self.u64(stop_at.get());
                self.0.push(u8::from(drain));
            }
            Command::Switch { thaw_at } => {
                self.0.push(1);
                self.u64(thaw_at.get());
            }
            Command::Abort { why } => self.0.extend([2, why as u8]),
            Command::Beat => self.0.push(3),
        }
    }
    fn tally(&mut self, tally: &Tally) {
        self.nodes(&tally.who);
        self.nodes(&tally.left);
        self.u32(tally.refused.len() as u32);
        for (node, why) in &tally.refused {
            self.u32(node.get());
            self.0.push(*why as u8);
        }
        let p = &tally.phases;
        for time in [p.stop, p.drain, p.freeze, p.context, p.thaw] {
            self.u64(time.get());
        }
        self.u64(tally.sent);
        self.u64(tally.received);
        self.0.push(u8::from(tally.thawed.is_some()));
        if let Some((first, last)) = tally.thawed {
            self.u64(first.get());
            self.u64(last.get());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*first)
    }
    fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }
    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }
    fn time(&mut self) -> Result<Nanos, WireError> {
        self.u64().map(Nanos::from_nanos)
    }
    fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(WireError::Meaning(other.into(), "a flag")),
        }
    }
    fn node(&mut self) -> Result<NodeId, WireError> {
        match self.u32()? {
            node if node < Nodes::LIMIT => Ok(NodeId::new(node)),
            other => Err(WireError::Meaning(other.into(), "a node")),
        }
    }
    fn why(&mut self) -> Result<Why, WireError> {
        Ok(match self.u8()? {
            0 => Why::Missing,
            1 => Why::Drain,
            2 => Why::Freeze,
            3 => Why::UnderWay,
            4 => Why::GangGone,
            5 => Why::Leaving,
            other => return Err(WireError::Meaning(other.into(), "a reason")),
        })
    }
    fn slot(&mut self) -> Result<Slot, WireError> {
        Ok(if self.flag()? {
            Slot::Gang(GangId::new(self.u32()?))
        } else {
            Slot::All
        })
    }
    /// Reads a count of items of `size` bytes, bounded by the remaining bytes.
    fn count(&mut self, size: usize) -> Result<usize, WireError> {
        let count = self.u32()? as usize;
        if count > self.0.len() / size {
            Err(WireError::Short)
        } else {
            Ok(count)
        }
    }
    fn nodes(&mut self) -> Result<Nodes, WireError> {
        let count = self.count(8)?;
        let words = (0..count)
            .map(|_| self.u64())
            .collect::<Result<Vec<_>, _>>()?;
        let nodes = Nodes::from_words(words);
        // Each set has exactly one encoding.
        nodes
            .filter(|n| n.words().len() == count)
            .ok_or(WireError::Meaning(
                count as u64,
                "the length of a set of nodes",
            ))
    }
    fn order(&mut self) -> Result<Order, WireError> {
        let (epoch, lease_until) = (Epoch::new(self.u64()?), self.time()?);
        let members = self.nodes()?;
        let arity = u16::from_le_bytes(self.array()?);
        let command = match self.u8()? {
            0 => Command::Prepare {
                from: self.slot()?,
                to: self.slot()?,
                stop_at: self.time()?,
                drain: self.flag()?,
            },
            1 => Command::Switch {
                thaw_at: self.time()?,
            },
            2 => Command::Abort { why: self.why()? },
            3 => Command::Beat,
            other => return Err(WireError::Meaning(other.into(), "a command")),
        };
        Ok(Order {
            epoch,
            lease_until,
            roster: Roster { members, arity },
            command,
        })
    }
    fn tally(&mut self) -> Result<Tally, WireError> {
        let (who, left) = (self.nodes()?, self.nodes()?);
        let count = self.count(5)?;
        let refused = (0..count)
            .map(|_| Ok((self.node()?, self.why()?)))
            .collect::<Result<Vec<_>, WireError>>()?;
        let phases = Phases {
            stop: self.time()?,
            drain: self.time()?,
            freeze: self.time()?,
            context: self.time()?,
            thaw: self.time()?,
        };
        let (sent, received) = (self.u64()?, self.u64()?);
        let thawed = if self.flag()? {
            Some((self.time()?, self.time()?))
        } else {
            None
        };
        Ok(Tally {
            who,
            left,
            refused,
            sent,
            received,
            phases,
            thawed,
        })
    }
}

#[cfg(test)]
mod tests;

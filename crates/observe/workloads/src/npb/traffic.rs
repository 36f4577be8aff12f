//! What a benchmark communicates, in what order, without running it: input for simulations.

use idlewave_units::{Bytes, Rank};

/// What one rank does in the timed part, in order.
///
/// Left out is the agreement whether to stop early, an allreduce of 8 bytes at most 20 times a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Before the first iteration.
    pub before: Vec<Operation>,
    /// In every iteration.
    pub iteration: Vec<Operation>,
    /// After the last iteration, or only in it.
    pub after: Vec<Operation>,
}

/// One operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Computes, for a time in proportion to this number: it compares with other operations of the
    /// same benchmark, on all ranks.
    Compute(u64),
    /// All ranks combine values.
    Allreduce {
        /// Bytes of the values of one rank.
        bytes: Bytes,
    },
    /// The same amount from every rank to every rank.
    Alltoall {
        /// Bytes from one rank to another.
        bytes_per_pair: Bytes,
    },
    /// These messages at once; waits for all of them. Messages between two ranks arrive in the order
    /// in which they were sent.
    Exchange(Vec<Message>),
    /// Starts to send, and goes on.
    Send {
        /// The receiver.
        to: Rank,
        /// Length of the message.
        bytes: Bytes,
    },
    /// Waits for what it started to send.
    Flush,
    /// These operations, none of them a collective, so many times.
    Repeat(u32, Vec<Operation>),
}

/// A message, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To another rank.
    Send {
        /// The receiver.
        to: Rank,
        /// Its length.
        bytes: Bytes,
    },
    /// From another rank.
    Receive {
        /// The sender.
        from: Rank,
        /// Its length.
        bytes: Bytes,
    },
}

/// Bytes of floating-point numbers.
const fn numbers(count: usize) -> Bytes {
    Bytes::new((count * size_of::<f64>()) as u64)
}

impl Message {
    /// Sends numbers.
    pub(super) const fn send(to: Rank, count: usize) -> Self {
        let bytes = numbers(count);
        Self::Send { to, bytes }
    }

    /// Receives numbers.
    pub(super) const fn receive(from: Rank, count: usize) -> Self {
        let bytes = numbers(count);
        Self::Receive { from, bytes }
    }
}

impl Operation {
    /// Starts to send numbers.
    pub(super) const fn send(to: Rank, count: usize) -> Self {
        let bytes = numbers(count);
        Self::Send { to, bytes }
    }

    /// Sums of numbers.
    pub(super) const fn sum(count: usize) -> Self {
        let bytes = numbers(count);
        Self::Allreduce { bytes }
    }

    /// Sends and receives numbers.
    pub(super) fn swap(partner: Rank, sent: usize, received: usize) -> Self {
        let messages = [
            Message::receive(partner, received),
            Message::send(partner, sent),
        ];
        Self::Exchange(messages.to_vec())
    }

    /// These messages at once, if there are any.
    pub(super) fn exchange(messages: Vec<Message>) -> Option<Self> {
        (!messages.is_empty()).then_some(Self::Exchange(messages))
    }

    /// Bytes that this rank, of `ranks`, passes to it.
    pub fn bytes(&self, ranks: u32) -> Bytes {
        match self {
            Self::Compute(_) | Self::Flush => Bytes::new(0),
            Self::Allreduce { bytes } | Self::Send { bytes, .. } => *bytes,
            Self::Alltoall { bytes_per_pair } => {
                Bytes::new(u64::from(ranks) * bytes_per_pair.get())
            }
            Self::Exchange(messages) => Bytes::new(
                messages
                    .iter()
                    .map(|message| match message {
                        Message::Send { bytes, .. } => bytes.get(),
                        Message::Receive { .. } => 0,
                    })
                    .sum(),
            ),
            Self::Repeat(times, operations) => {
                let once = operations.iter().map(|o| o.bytes(ranks).get());
                Bytes::new(u64::from(*times) * once.sum::<u64>())
            }
        }
    }
}

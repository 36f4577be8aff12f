//! One end of a pair: messages back and forth, and streams with several messages in flight.

use idlewave_fabric::{Fabric, FabricError, Tag};
use idlewave_units::Rank;
use std::collections::VecDeque;
use std::time::Instant;

const TAG: Tag = Tag(310);
const ACKNOWLEDGEMENT: Tag = Tag(311);
/// The most messages of a stream in flight.
const WINDOW: u64 = 64;
/// The most bytes in flight.
const WINDOW_BYTES: u64 = 8 << 20;

fn quiet() {}

/// This rank's role in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The partner.
    pub other: Rank,
    /// Whether this rank is the first of the two.
    pub begins: bool,
}

impl Pair {
    /// The role in a world whose first half begins.
    pub fn of(rank: Rank, size: u32) -> Self {
        let (half, own) = (size / 2, rank.get());
        let begins = own < half;
        let other = if begins { own + half } else { own - half };
        Self {
            other: Rank::new(other),
            begins,
        }
    }
}

/// Seconds of half a round trip, the mean of `rounds`; `None` on the partner. An empty message
/// before them is not counted, since the partner may be late.
pub fn ping_pong<F: Fabric>(
    fabric: &mut F,
    pair: Pair,
    bytes: u64,
    rounds: u64,
) -> Result<Option<f64>, FabricError> {
    let bytes = bytes as usize;
    let (mut message, mut buffer) = (vec![0x5a; bytes], Vec::with_capacity(bytes));
    back_and_forth(fabric, pair, 0, &mut Vec::new(), &mut Vec::new())?;
    let begin = Instant::now();
    for _ in 0..rounds {
        back_and_forth(fabric, pair, bytes, &mut message, &mut buffer)?;
    }
    let half = begin.elapsed().as_secs_f64() / (2.0 * rounds as f64);
    Ok(pair.begins.then_some(half))
}

fn back_and_forth<F: Fabric>(
    fabric: &mut F,
    pair: Pair,
    bytes: usize,
    message: &mut Vec<u8>,
    buffer: &mut Vec<u8>,
) -> Result<(), FabricError> {
    let mut send = |fabric: &mut F| -> Result<(), FabricError> {
        let sending = fabric.start_send(pair.other, TAG, std::mem::take(message))?;
        *message = fabric.finish_send(sending, &mut quiet)?;
        Ok(())
    };
    if pair.begins {
        send(fabric)?;
    }
    let room = std::mem::take(buffer);
    let receiving = fabric.start_receive(Some(pair.other), TAG, bytes, room)?;
    *buffer = fabric.finish_receive(receiving, &mut quiet)?.data;
    if !pair.begins {
        send(fabric)?;
    }
    Ok(())
}

/// Sends a stream of `messages` from the first of a pair to the second, or both ways. The time in
/// seconds: one way, on the sender until the receiver confirms the last message; both ways, until
/// all own messages are sent and all others received. `None` on receivers.
pub fn stream<F: Fabric>(
    fabric: &mut F,
    pair: Pair,
    bytes: u64,
    messages: u64,
    both_ways: bool,
) -> Result<Option<f64>, FabricError> {
    let (sends, receives) = (pair.begins || both_ways, !pair.begins || both_ways);
    let window = (WINDOW_BYTES / bytes.max(1)).clamp(1, WINDOW).min(messages);
    let (other, length) = (pair.other, bytes as usize);
    let mut incoming = VecDeque::new();
    if receives {
        for _ in 0..window {
            let buffer = Vec::with_capacity(length);
            incoming.push_back(fabric.start_receive(Some(other), TAG, length, buffer)?);
        }
    }
    let mut buffers = Vec::new();
    if sends {
        buffers = vec![vec![0x5a_u8; length]; window as usize];
    }
    // Receives are posted before the first message is sent.
    fabric.barrier(&mut quiet)?;
    let begin = Instant::now();
    let mut outgoing = VecDeque::new();
    for buffer in buffers {
        outgoing.push_back(fabric.start_send(other, TAG, buffer)?);
    }
    for done in 1..=messages {
        let more = done + window <= messages;
        if let Some(receiving) = incoming.pop_front() {
            let buffer = fabric.finish_receive(receiving, &mut quiet)?.data;
            if more {
                incoming.push_back(fabric.start_receive(Some(other), TAG, length, buffer)?);
            }
        }
        if let Some(sending) = outgoing.pop_front() {
            let buffer = fabric.finish_send(sending, &mut quiet)?;
            if more {
                outgoing.push_back(fabric.start_send(other, TAG, buffer)?);
            }
        }
    }
    if !both_ways {
        if pair.begins {
            let told = fabric.start_receive(Some(other), ACKNOWLEDGEMENT, 0, Vec::new())?;
            fabric.finish_receive(told, &mut quiet)?;
        } else {
            let telling = fabric.start_send(other, ACKNOWLEDGEMENT, Vec::new())?;
            fabric.finish_send(telling, &mut quiet)?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(sends.then_some(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_fabric::{PointToPoint, Waiting, world};

    #[test]
    fn pairs_are_mutual_and_the_first_half_begins() {
        for rank in 0..6 {
            let pair = Pair::of(Rank::new(rank), 6);
            assert_eq!(pair.begins, rank < 3);
            let back = Pair::of(pair.other, 6);
            assert_eq!((back.other.get(), back.begins), (rank, !pair.begins));
        }
    }

    #[test]
    fn streams_longer_and_shorter_than_the_window_end_on_both_sides() {
        std::thread::scope(|scope| {
            for mut fabric in world(4, Waiting::Yield) {
                scope.spawn(move || {
                    let pair = Pair::of(fabric.rank(), 4);
                    for both in [false, true] {
                        for (bytes, messages) in [(0, 1), (8, 3), (8, 200), (5 << 20, 3)] {
                            let took = stream(&mut fabric, pair, bytes, messages, both);
                            let took = took.expect("living peers");
                            assert_eq!(took.is_some(), pair.begins || both);
                            assert!(took.is_none_or(|seconds| seconds > 0.0));
                        }
                    }
                    let took = ping_pong(&mut fabric, pair, 100, 5).expect("living peers");
                    assert_eq!(took.is_some(), pair.begins);
                });
            }
        });
    }
}

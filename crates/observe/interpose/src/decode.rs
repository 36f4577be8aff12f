//! The records of a ring as values. They come from another process and may contain anything.

use crate::InterposeError;
use crate::ring::{ANY_TAG, WORDS, kind, loss};

/// A record. Times are in the clock of its ring, ranks in MPI_COMM_WORLD.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Record {
    /// A call.
    Call {
        begin: u64,
        end: u64,
        /// Number in [`functions`](crate::functions).
        function: u16,
        /// Bits of [`flags`](crate::ring::flags).
        flags: u8,
        /// Number of the communicator.
        communicator: Option<u64>,
        /// Number of the collective among those of its communicator, low 32 bits.
        sequence: u32,
        /// Root of the collective.
        root: Option<u32>,
        /// Bytes that the call sent, by its definition if it is a collective.
        sent: u64,
        /// Bytes that it received.
        received: u64,
        /// Number of the request that it started or completed, if it is one.
        request: Option<u64>,
    },
    /// A send or receive of the call before it.
    Transfer {
        /// Whether it is a send.
        send: bool,
        /// When the call was entered.
        posted: u64,
        flags: u8,
        /// `None` for any.
        tag: Option<i32>,
        communicator: u64,
        /// `None` for any source, or a process outside MPI_COMM_WORLD.
        peer: Option<u32>,
        /// For a receive, valid only if there is no request.
        bytes: u64,
        /// `None` if the call completed it.
        request: Option<u64>,
    },
    /// A request that the call before it completed.
    Completion {
        begin: u64,
        end: u64,
        flags: u8,
        /// `None` for any: a receive that was cancelled.
        tag: Option<i32>,
        /// `None` for a collective.
        peer: Option<u32>,
        bytes: u64,
        request: u64,
    },
    /// Some members of a communicator.
    Members {
        communicator: u64,
        flags: u8,
        /// Members in all.
        total: u32,
        /// Position of the first one here.
        first: u32,
        /// Up to ten; `None` for processes outside MPI_COMM_WORLD.
        ranks: Vec<Option<u32>>,
    },
    /// The name of a mark.
    MarkName { number: u32, name: String },
    /// A mark.
    Mark { what: Mark, time: u64, number: u32 },
    /// A comparison of clocks.
    Clock {
        /// Own time before the message was sent.
        sent: u64,
        /// Own time when the answer arrived.
        received: u64,
        /// Who answered.
        peer: u32,
        /// CLOCK_MONOTONIC of the peer when it answered, ns.
        theirs: u64,
        /// Own CLOCK_MONOTONIC just after `received`, ns.
        own: u64,
    },
    /// What could not be recorded.
    Loss { reason: Loss, many: u64 },
    /// Tests and probes that found nothing.
    Polls {
        /// Start of the first one.
        first: u64,
        /// Start of the last one.
        last: u64,
        /// Function of the last one.
        function: u16,
        many: u64,
    },
}

/// Kinds of mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A region begins.
    Begin,
    /// A region ends.
    End,
    /// A point in time.
    Point,
}

/// Reasons of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Calls of the function with this number are only counted.
    NotFollowed(u16),
    /// See [`loss::OUTSIDE_WORLD`].
    OutsideWorld,
    /// See [`loss::UNKNOWN_REQUEST`].
    UnknownRequest,
    /// See [`loss::MARK`].
    Mark,
    /// See [`loss::NOT_INITIALISED`].
    NotInitialised,
}

fn rank(word: u64) -> Option<u32> {
    // Ranks are below 2^31; anything else is not a rank.
    u32::try_from(word)
        .ok()
        .filter(|&rank| rank <= i32::MAX as u32)
        .and_then(|rank| rank.checked_sub(1))
}

fn tag(word: u64) -> Option<i32> {
    let tag = (word >> 32) as u32 as i32;
    (tag != ANY_TAG).then_some(tag)
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Decodes a record.
///
/// # Errors
/// [`InterposeError::Record`] if this version does not know the record.
pub fn decode(w: &[u64; WORDS]) -> Result<Record, InterposeError> {
    let flags = (w[2] >> 8) as u8;
    let function = (w[2] >> 16) as u16;
    let mark = |what| Record::Mark {
        what,
        time: w[0],
        number: high(w[2]),
    };
    Ok(match w[2] as u8 {
        kind::CALL => Record::Call {
            begin: w[0],
            end: w[1],
            function,
            flags,
            communicator: Some(w[3]).filter(|&key| key != 0),
            sequence: low(w[4]),
            root: rank(u64::from(high(w[4]))),
            sent: w[5],
            received: w[6],
            request: w[7].checked_sub(1),
        },
        kind @ (kind::SEND | kind::RECEIVE) => Record::Transfer {
            send: kind == kind::SEND,
            posted: w[0],
            flags,
            tag: tag(w[2]),
            communicator: w[3],
            peer: rank(w[4]),
            bytes: w[5],
            request: w[7].checked_sub(1),
        },
        kind::COMPLETION => Record::Completion {
            begin: w[0],
            end: w[1],
            flags,
            tag: tag(w[2]),
            peer: rank(w[4]),
            bytes: w[5],
            request: w[7]
                .checked_sub(1)
                .ok_or_else(|| wrong("a completion without a request"))?,
        },
        kind::MEMBERS => members(w, flags)?,
        kind::MARK_NAME => Record::MarkName {
            number: high(w[2]),
            name: name(w),
        },
        kind::MARK_BEGIN => mark(Mark::Begin),
        kind::MARK_END => mark(Mark::End),
        kind::MARK_POINT => mark(Mark::Point),
        kind::CLOCK => Record::Clock {
            sent: w[0],
            received: w[1],
            peer: rank(w[4]).ok_or_else(|| wrong("a comparison of clocks with nobody"))?,
            theirs: w[5],
            own: w[6],
        },
        kind::LOSS => Record::Loss {
            reason: reason(high(w[2]), w[3])?,
            many: w[5],
        },
        kind::POLLS => Record::Polls {
            first: w[0],
            last: w[1],
            function,
            many: w[5],
        },
        other => return Err(wrong(&format!("kind {other} is not known"))),
    })
}

fn wrong(what: &str) -> InterposeError {
    InterposeError::Record {
        what: what.to_owned(),
    }
}

fn members(w: &[u64; WORDS], flags: u8) -> Result<Record, InterposeError> {
    let (total, first) = (low(w[0]), high(w[0]));
    let here = match total.checked_sub(first) {
        Some(left) if left > 0 => left.min(10) as usize,
        _ => return Err(wrong(&format!("member {first} of {total}"))),
    };
    let all = [w[1], w[4], w[5], w[6], w[7]];
    let ranks = all.iter().flat_map(|&word| [low(word), high(word)]);
    Ok(Record::Members {
        communicator: w[3],
        flags,
        total,
        first,
        ranks: ranks.take(here).map(|word| rank(u64::from(word))).collect(),
    })
}

fn name(w: &[u64; WORDS]) -> String {
    let words = [w[0], w[1], w[3], w[4], w[5], w[6], w[7]];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn reason(number: u32, function: u64) -> Result<Loss, InterposeError> {
    Ok(match number {
        loss::NOT_FOLLOWED => {
            let function = function
                .checked_sub(1)
                .and_then(|number| u16::try_from(number).ok());
            Loss::NotFollowed(function.ok_or_else(|| wrong("a loss of no function"))?)
        }
        loss::OUTSIDE_WORLD => Loss::OutsideWorld,
        loss::UNKNOWN_REQUEST => Loss::UnknownRequest,
        loss::MARK => Loss::Mark,
        loss::NOT_INITIALISED => Loss::NotInitialised,
        other => return Err(wrong(&format!("loss {other} is not known"))),
    })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;

//! Counts of what happened on a link, for metrics.

use std::fmt;

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Shorter than its contents require, or not a frame at all.
    Malformed,
    /// Longer than any frame.
    Long,
    /// Of another version of the format.
    Version,
    /// Addressed to another end.
    Receiver,
    /// Its sender cannot be a peer here: the datagram was reflected, or names this end as the
    /// sender.
    Sender,
    /// Belongs to a session that is unknown, or no longer known.
    Session,
    /// Its authentication code is wrong: altered on the way, or made without the key.
    Forged,
    /// It was received before.
    Replayed,
    /// Too old to tell whether it was received before.
    Late,
    /// Answers a HELLO that was not sent or is no longer open.
    Unasked,
    /// Exceeds the rate at which handshakes are answered.
    Rate,
    /// Its credential is invalid, was used before, or belongs to another user.
    Credential,
    /// The answer would have been longer than the question.
    Amplifies,
    /// This end could not do its part of the handshake because its credential daemon did not
    /// answer.
    Unable,
}

impl Reason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Reason; 14] = [
        Reason::Malformed,
        Reason::Long,
        Reason::Version,
        Reason::Receiver,
        Reason::Sender,
        Reason::Session,
        Reason::Forged,
        Reason::Replayed,
        Reason::Late,
        Reason::Unasked,
        Reason::Rate,
        Reason::Credential,
        Reason::Amplifies,
        Reason::Unable,
    ];

    /// One lower-case word, for metric labels.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::Long => "long",
            Reason::Version => "version",
            Reason::Receiver => "receiver",
            Reason::Sender => "sender",
            Reason::Session => "session",
            Reason::Forged => "forged",
            Reason::Replayed => "replayed",
            Reason::Late => "late",
            Reason::Unasked => "unasked",
            Reason::Rate => "rate",
            Reason::Credential => "credential",
            Reason::Amplifies => "amplifies",
            Reason::Unable => "unable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What happened on a link since it was bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams handed to the kernel, including those of handshakes.
    pub sent: u64,
    /// Datagrams that the kernel rejected: the peer is not there, or its queue is full.
    pub unsent: u64,
    /// Payloads passed to the caller.
    pub given: u64,
    /// Sessions that began.
    pub sessions: u64,
    refused: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Datagrams refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused.get(reason as usize).copied().unwrap_or(0)
    }

    /// All refused datagrams.
    pub fn all_refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(crate) fn refuse(&mut self, reason: Reason) {
        if let Some(count) = self.refused.get_mut(reason as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_count_and_name() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
        let mut counters = Counters::default();
        for (times, reason) in Reason::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| counters.refuse(reason));
        }
        for (times, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(counters.refused(reason), times as u64 + 1);
        }
        assert_eq!(counters.all_refused(), 14 * 15 / 2);
    }
}

//! What happened on a link, for metrics.

use std::fmt;

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Too short for what it says it is, or no frame at all.
    Malformed,
    /// Longer than any frame.
    Long,
    /// Of another version of the format.
    Version,
    /// Meant for somebody else.
    Receiver,
    /// From nobody who can be a peer here: reflected, or its sender is this end itself.
    Sender,
    /// Of a session that is not, or no longer, known.
    Session,
    /// Its code is wrong: changed on the way, or made without the key.
    Forged,
    /// It was given before.
    Replayed,
    /// Too late to know whether it was given before.
    Late,
    /// An answer to a question that was not asked, or is over.
    Unasked,
    /// More handshakes than are answered in this time.
    Rate,
    /// Its credential is not valid, was used before, or is of another user.
    Credential,
    /// The answer would have been longer than the question.
    Amplifies,
    /// This end could not make its part of the handshake, as its credential daemon did not answer.
    Unable,
}

impl Reason {
    /// All of them, in the order of their declaration.
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

    /// One word in lower case, for labels of metrics.
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
    /// Datagrams that were handed to the kernel, those of handshakes included.
    pub sent: u64,
    /// Datagrams that the kernel did not take: the peer is not there, or its queue is full.
    pub unsent: u64,
    /// Payloads that were given to the caller.
    pub given: u64,
    /// Sessions that began.
    pub sessions: u64,
    refused: [u64; Reason::ALL.len()],
}

impl Counters {
    /// Datagrams that were refused for this reason.
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused.get(reason as usize).copied().unwrap_or(0)
    }

    /// All datagrams that were refused.
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

//! Messages between the watching node and the others: deflated JSON (RFC 1951). They may be lost,
//! duplicated or late.
//!
//! Clocks are not compared. Nodes are asked again once all have answered. What is equal in both
//! answers of a node held at a moment in between: when the first node was asked again. That moment
//! is the same for all nodes.

use crate::process::Kernel;
use crate::sighting::{SAMPLES, Sighting};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use idlewave_interpose::{StateProcess, StateRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// Longest message in bytes: one datagram of a link.
pub(crate) const LONGEST: usize = 56_000;
/// Largest inflated message: a rank that uses all of its tables takes about 500 kB.
const INFLATED: u64 = 16 << 20;

/// A request to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Look, and report.
    Look {
        /// Number of the look; a repeated request gets the same answer.
        round: u64,
        /// Whether CPU times and polls count from this look to the next.
        regular: bool,
        /// Pages, by number, whose tables at this epoch are known.
        have: Vec<(u32, u64)>,
    },
    /// No more requests follow.
    End,
}

/// A node's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It exists; sent repeatedly.
    Here {
        /// Its host name.
        host: String,
        /// Whether none of its ranks moves, by a glance at each; `None` without ranks.
        still: Option<bool>,
    },
    /// The answer to a look, or a part of it.
    Looked {
        /// Number of the look.
        round: u64,
        /// Index of the part, from 0.
        part: u32,
        /// Number of parts, at least 1.
        parts: u32,
        /// Processes.
        ranks: Vec<Page>,
    },
}

/// A process as its node sees it. Times are ages at the moment of the look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Number of its page on its node.
    pub number: u32,
    process: StateProcess,
    kernel: Kernel,
    cpu_before: Option<Duration>,
    still: Duration,
    spent: Vec<(Duration, Duration)>,
    unchanged: u32,
    /// Time since it was found gone.
    gone: Option<Duration>,
    /// Whether the tables of the record are left out: the process moves, or they are known.
    bare: bool,
    record: StateRecord,
}

/// Why a message is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ToldError {
    /// Not deflated, or too long.
    #[error("inflate a message of another node: {0}")]
    Deflate(#[from] std::io::Error),
    /// Its content is invalid.
    #[error("parse a message of another node: {0}; all nodes need the same idlewave")]
    Content(#[from] serde_json::Error),
}

impl Ask {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// Not a valid request.
    pub fn decode(bytes: &[u8]) -> Result<Self, ToldError> {
        decode(bytes)
    }
}

impl Told {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a node's message.
    ///
    /// # Errors
    /// Not a valid message.
    pub fn decode(bytes: &[u8]) -> Result<Self, ToldError> {
        decode(bytes)
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::fast());
    // Serialisation cannot fail: no maps, and writing to memory.
    let bytes = serde_json::to_vec(message).unwrap_or_default();
    let _ = deflated.write_all(&bytes);
    deflated.finish().unwrap_or_default()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ToldError> {
    let mut inflated = Vec::new();
    DeflateDecoder::new(bytes)
        .take(INFLATED)
        .read_to_end(&mut inflated)?;
    Ok(serde_json::from_slice(&inflated)?)
}

/// The answer to a look, in as many messages as needed.
pub(crate) fn answer(round: u64, pages: Vec<Page>) -> Vec<Vec<u8>> {
    let mut groups = vec![pages];
    // Halves what is too long until it fits.
    let mut at = 0;
    while let Some(group) = groups.get_mut(at) {
        let message = Told::Looked {
            round,
            part: u32::MAX,
            parts: u32::MAX,
            ranks: group.clone(),
        };
        if message.encode().len() <= LONGEST {
            at += 1;
        } else if group.len() > 1 {
            let rest = group.split_off(group.len() / 2);
            groups.insert(at + 1, rest);
        } else if let Some(page) = group.first_mut().filter(|page| !page.bare) {
            // The page alone exceeds a message: its state counts as unknown, like that of a moving
            // rank.
            page.bare = true;
            page.record = bare(&page.record);
        } else {
            at += 1;
        }
    }
    let parts = groups.len() as u32;
    let part = |(part, ranks): (usize, Vec<Page>)| Told::Looked {
        round,
        part: part as u32,
        parts,
        ranks,
    };
    groups
        .into_iter()
        .enumerate()
        .map(|group| part(group).encode())
        .collect()
}

/// A record without its tables.
fn bare(record: &StateRecord) -> StateRecord {
    StateRecord {
        phase: record.phase,
        rank: record.rank,
        size: record.size,
        unknown: record.unknown,
        epochs: record.epochs,
        mode: record.mode,
        partial: record.partial,
        function: record.function,
        polls: record.polls,
        ..StateRecord::default()
    }
}

impl Page {
    /// The observation of a process at `now`. Its tables are left out if the receiver has them
    /// (`known` is their epoch), or if the process has moved since the previous look.
    pub(crate) fn of(number: u32, seen: &Sighting, now: Instant, known: Option<u64>) -> Self {
        let left_out =
            seen.fresh && seen.gone.is_none() || (seen.epoch.is_some() && known == seen.epoch);
        let spent = seen.spent.iter();
        Self {
            number,
            process: seen.process.clone(),
            kernel: seen.kernel,
            cpu_before: seen.cpu_before,
            still: now.saturating_duration_since(seen.since),
            spent: spent
                .map(|(at, cpu)| (now.saturating_duration_since(*at), *cpu))
                .collect(),
            unchanged: seen.unchanged,
            gone: seen.gone_at.map(|at| now.saturating_duration_since(at)),
            bare: left_out,
            record: match left_out {
                true => bare(&seen.record),
                false => seen.record.clone(),
            },
        }
    }

    /// Converts it to a sighting of a process of `node`, with what was known `before`; received at
    /// `now`, in look `look`.
    pub(crate) fn sighting(
        self,
        node: u32,
        before: Option<Sighting>,
        now: Instant,
        look: u64,
    ) -> Sighting {
        let ago = |age: Duration| now.checked_sub(age).unwrap_or(now);
        let mut record = self.record;
        let [first, second] = record.epochs;
        let epoch = (first == second && first % 2 == 0).then_some(first);
        let fresh = match (&before, self.kernel) {
            (Some(before), Kernel::Gone) => before.gone.is_none(),
            (Some(before), _) => epoch.is_none() || before.epoch != epoch,
            (None, _) => true,
        };
        if self.bare {
            match before
                .as_ref()
                .filter(|of| of.epoch == epoch && of.has_tables())
            {
                Some(before) => {
                    record.wants.clone_from(&before.record.wants);
                    record.posted.clone_from(&before.record.posted);
                    record
                        .communicators
                        .clone_from(&before.record.communicators);
                    record.pairs.clone_from(&before.record.pairs);
                }
                // Nothing follows from a record without its tables.
                None => record.epochs = [1, 1],
            }
        }
        Sighting {
            process: self.process,
            kernel: self.kernel,
            found: before.as_ref().map_or(look, |of| of.found),
            gone: match self.kernel {
                Kernel::Gone => Some(before.and_then(|of| of.gone).unwrap_or(look)),
                _ => None,
            },
            gone_at: self.gone.map(ago),
            node,
            cpu_before: self.cpu_before,
            since: ago(self.still),
            spent: self
                .spent
                .into_iter()
                .take(SAMPLES)
                .map(|(age, cpu)| (ago(age), cpu))
                .collect(),
            epoch,
            fresh,
            polls_before: record.polls,
            unchanged: self.unchanged,
            record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_interpose::{
        StateCollective, StateCommunicator, StateCount, StatePair, StatePhase, StateWant,
    };
    use std::collections::BTreeMap;

    /// Digits that do not compress.
    fn mixed(n: u64) -> u64 {
        (n + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn record(pairs: u64) -> StateRecord {
        let count =
            |n| StateCount::Tags((0..4).map(|tag| (tag, mixed(n * 4 + tag as u64))).collect());
        let world = StateCommunicator {
            key: 9,
            members: 4,
            world: true,
            entered: 7,
            last: StateCollective::default(),
        };
        let want = StateWant::Receive {
            communicator: 9,
            from: Some(1),
            tag: None,
            slot: Some(3),
        };
        StateRecord {
            phase: StatePhase::Running,
            rank: Some(2),
            size: Some(4),
            epochs: [6, 6],
            mode: 1,
            wants: vec![want],
            posted: vec![want],
            communicators: vec![world],
            pairs: (0..pairs)
                .map(|n| StatePair {
                    communicator: 9,
                    peer: n as u32,
                    sent: count(2 * n),
                    received: count(2 * n + 1),
                })
                .collect(),
            ..StateRecord::default()
        }
    }

    /// A process that was seen twice with this record.
    fn sighting(record: StateRecord, now: Instant) -> Sighting {
        let mut seen = Sighting::new(StateProcess::default(), 1);
        seen.kernel = Kernel::There {
            stopped: true,
            cpu: Duration::from_millis(30),
        };
        seen.record = record;
        seen.track(now - Duration::from_millis(40), 1, true);
        seen.track(now, 2, true);
        seen
    }

    /// The received parts of an answer, by number of the page.
    fn heard(messages: &[Vec<u8>]) -> BTreeMap<u32, Page> {
        let count = messages.len() as u32;
        let mut pages = BTreeMap::new();
        for (at, message) in messages.iter().enumerate() {
            assert!(message.len() <= LONGEST);
            let Told::Looked {
                round,
                part,
                parts,
                ranks,
            } = Told::decode(message).unwrap()
            else {
                panic!("no answer");
            };
            assert_eq!((round, part, parts), (5, at as u32, count));
            pages.extend(ranks.into_iter().map(|page| (page.number, page)));
        }
        pages
    }

    #[test]
    fn what_is_told_of_a_process_is_what_was_seen_of_it() {
        let now = Instant::now();
        let seen = sighting(record(3), now);
        let told = heard(&answer(5, vec![Page::of(0, &seen, now, None)]));
        let first = told[&0].clone().sighting(1, None, now, 1);
        assert!(first.fresh, "it was not told before");
        let second = told[&0].clone().sighting(1, Some(first), now, 2);
        assert!(!second.fresh);
        assert_eq!(second.record, seen.record);
        assert_eq!((second.since, second.epoch), (seen.since, Some(6)));
        assert_eq!(second.spent, seen.spent);
        assert_eq!(second.kernel, seen.kernel);
        assert_eq!((second.found, second.gone), (1, None));
        // Tables known at this epoch are not sent again. A receiver that knows another epoch then
        // knows nothing about the process.
        let short = Page::of(0, &seen, now, Some(6));
        assert!(short.record.pairs.is_empty() && short.record.wants.is_empty());
        let third = short.clone().sighting(1, Some(second.clone()), now, 3);
        assert_eq!((third.record, third.fresh), (seen.record.clone(), false));
        let mut other = second;
        other.epoch = Some(4);
        let lost = short.sighting(1, Some(other), now, 3);
        assert!(lost.fresh && lost.record.epochs == [1, 1]);
    }

    #[test]
    fn what_has_moved_since_the_look_before_is_told_without_tables() {
        let now = Instant::now();
        let mut seen = sighting(record(3), now);
        seen.record.epochs = [8, 8];
        seen.track(now, 3, true);
        let page = Page::of(0, &seen, now, None);
        assert!(page.bare && page.record.pairs.is_empty());
        assert_eq!((page.record.rank, page.record.size), (Some(2), Some(4)));
        // If it was killed while writing, its record is final, though no look sees it complete.
        (seen.kernel, seen.gone) = (Kernel::Gone, Some(4));
        seen.record.epochs = [9, 9];
        seen.track(now, 4, true);
        let last = Page::of(0, &seen, now, None);
        assert_eq!(
            (last.bare, &last.record, seen.fresh),
            (false, &seen.record, true)
        );
        let first = last
            .clone()
            .sighting(1, Some(page.sighting(1, None, now, 3)), now, 4);
        assert_eq!((first.fresh, first.gone), (true, Some(4)));
        seen.track(now, 5, true);
        assert!(!seen.fresh);
        let second = last.sighting(1, Some(first), now, 5);
        assert_eq!((second.fresh, second.gone), (false, Some(4)));
    }

    #[test]
    fn an_answer_takes_as_many_messages_as_it_needs() {
        let now = Instant::now();
        let seen = sighting(record(60), now);
        let pages = (0..100).map(|number| Page::of(number, &seen, now, None));
        let messages = answer(5, pages.collect());
        assert!(messages.len() > 3, "{}", messages.len());
        let told = heard(&messages);
        assert!(told.keys().copied().eq(0..100));
        assert!(told.values().all(|page| page.record == seen.record));
        assert_eq!(
            answer(5, Vec::new()).len(),
            1,
            "that there is nobody is an answer"
        );
    }

    #[test]
    fn of_a_process_that_no_message_holds_nothing_is_concluded() {
        let now = Instant::now();
        let (large, small) = (sighting(record(2_048), now), sighting(record(1), now));
        let pages = [(0, &small), (1, &large), (2, &small)];
        let pages = pages.map(|(number, seen)| Page::of(number, seen, now, None));
        let told = heard(&answer(5, pages.to_vec()));
        assert_eq!(told[&0].record, small.record);
        assert_eq!(told[&2].record, small.record);
        let first = told[&1].clone().sighting(1, None, now, 1);
        let second = told[&1].clone().sighting(1, Some(first), now, 2);
        assert_eq!(second.record.epochs, [1, 1], "as if it moved");
        assert_eq!(
            (second.record.rank, second.record.pairs.len()),
            (Some(2), 0)
        );
    }
}

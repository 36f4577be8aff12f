//! The other end of [`Far`](crate::Far): looks at the pages of one node, and answers requests.

use crate::error::WatchError;
use crate::pages::Pages;
use crate::told::{Ask, Page, Told, ToldError, answer};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Interval at which it announces itself.
const HERE: Duration = Duration::from_millis(500);
/// Least interval between two messages saying that its ranks do not move: ranks that take turns in
/// sending are still for a moment again and again.
const STILL: Duration = Duration::from_millis(50);

/// Looks at the pages of a directory on request. It has no sockets, but returns the messages to
/// send.
#[derive(Debug)]
pub struct Lookout {
    pages: Pages,
    host: String,
    /// What it last said about its ranks, and when.
    said: Option<(Option<bool>, Instant)>,
    /// The last answer, in case it was lost.
    last: Option<(u64, Vec<Vec<u8>>)>,
    ended: bool,
}

impl Lookout {
    /// For the pages of a directory on the node of this name.
    pub fn new(directory: &Path, host: String) -> Self {
        Self {
            pages: Pages::new(directory),
            host,
            said: None,
            last: None,
            ended: false,
        }
    }

    /// Glances at the ranks, to be called every 10 ms; returns a message to send, if any.
    pub fn glance(&mut self, now: Instant) -> Option<Vec<u8>> {
        let still = self.pages.is_still();
        let due = match self.said {
            None => true,
            Some((before, at)) if before == still => now >= at + HERE,
            Some((_, at)) => still != Some(true) || now >= at + STILL,
        };
        if !due {
            return None;
        }
        self.said = Some((still, now));
        let host = self.host.clone();
        Some(Told::Here { host, still }.encode())
    }

    /// Handles a request; returns the messages of the answer.
    ///
    /// # Errors
    /// The request is not valid; the directory or a page in it cannot be read.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) -> Result<Vec<Vec<u8>>, LookoutError> {
        let (round, regular, have) = match Ask::decode(bytes)? {
            Ask::End => {
                self.ended = true;
                return Ok(Vec::new());
            }
            Ask::Look {
                round,
                regular,
                have,
            } => (round, regular, have),
        };
        match &self.last {
            Some((last, answer)) if *last == round => return Ok(answer.clone()),
            // A late request.
            Some((last, _)) if *last > round => return Ok(Vec::new()),
            _ => {}
        }
        // Known pages are reported even if their directory has gone.
        let found = self.pages.look(now, regular);
        if self.pages.sightings().next().is_none() {
            found?;
        }
        let have: BTreeMap<u32, u64> = have.into_iter().collect();
        let seen = self.pages.numbered();
        let pages = seen.map(|(number, of)| Page::of(number, of, now, have.get(&number).copied()));
        let messages = answer(round, pages.collect());
        if regular {
            self.pages.close();
        }
        self.last = Some((round, messages.clone()));
        Ok(messages)
    }

    /// Whether it was told that no more requests follow.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
pub enum LookoutError {
    /// It is not valid.
    #[error(transparent)]
    Told(#[from] ToldError),
    /// Nothing can be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(round: u64) -> Vec<u8> {
        let have = Vec::new();
        Ask::Look {
            round,
            regular: true,
            have,
        }
        .encode()
    }

    #[test]
    fn a_question_that_comes_again_is_answered_again_without_another_look() {
        let directory = tempfile::tempdir().unwrap();
        let mut lookout = Lookout::new(directory.path(), "a".to_owned());
        let now = Instant::now();
        let first = lookout.hear(now, &ask(3)).unwrap();
        assert_eq!((first.len(), lookout.pages.looks), (1, 1));
        assert_eq!(lookout.hear(now, &ask(3)).unwrap(), first);
        assert!(lookout.hear(now, &ask(2)).unwrap().is_empty());
        assert_eq!(lookout.pages.looks, 1);
        assert!(lookout.hear(now, &ask(4)).unwrap() != first);
        assert_eq!(lookout.pages.looks, 2);
        assert!(lookout.hear(now, &[1, 2, 3]).is_err());
        assert!(!lookout.is_ended());
        assert!(lookout.hear(now, &Ask::End.encode()).unwrap().is_empty());
        assert!(lookout.is_ended());
    }

    #[test]
    fn it_says_that_it_is_there_at_once_and_then_twice_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let mut lookout = Lookout::new(directory.path(), "a".to_owned());
        let begin = Instant::now();
        let at = (0..200).map(|n| Duration::from_millis(10 * n));
        let said: Vec<Duration> = at
            .filter(|at| lookout.glance(begin + *at).is_some())
            .collect();
        assert_eq!(said, [0, 500, 1_000, 1_500].map(Duration::from_millis));
    }
}

//! What is asked to be switched, and how much of it is taken: agents are told all gangs in one message, and anybody may ask.

use crate::parcel::{Mark, Seen};
use idlewave_gang::policy::{Class, PolicyError};

/// Gangs in all. An agent is told each in up to 300 bytes, and a message of the link holds 60,000.
pub const MOST: usize = 128;
/// Gangs of one user who is not root.
pub const MOST_OF_USER: usize = 64;
/// Bytes of a mark. Those that are made here have some 30.
pub const LONGEST_MARK: usize = 64;
/// Bytes of a name.
pub const LONGEST_NAME: usize = 256;

/// Nodes have numbers below this, as `idlewave gang agent` takes them.
pub const MOST_NODES: u32 = 65_536;
/// CPUs of a node.
pub const MOST_CPUS: u32 = 65_536;

/// What an agent says that it sees, within what can be: sums of processes and ranks over all nodes do not overflow.
pub fn bounded(seen: Seen) -> Seen {
    let most = 1 << 15;
    Seen {
        processes: seen.processes.min(most),
        ranks: seen.ranks.min(most),
        ..seen
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// For people.
    pub name: String,
    /// Whose.
    pub user: u32,
    /// How its processes are known.
    pub mark: Mark,
    /// Who goes first.
    pub class: Class,
    /// Its share against others of its class, from 1.
    pub weight: u32,
    /// Bytes of the network context of each rank, for ranks that are to have one.
    pub contexts: Option<u64>,
}

impl Job {
    /// Whether it can be taken beside the gangs of these users.
    ///
    /// # Errors
    /// [`DeskError::Mark`], [`DeskError::Name`], [`DeskError::Many`].
    pub fn fits(&self, users: impl Iterator<Item = u32>) -> Result<(), DeskError> {
        let plain = |byte: u8| byte.is_ascii_graphic();
        if let Mark::Token(token) = &self.mark {
            if token.is_empty() || token.len() > LONGEST_MARK || !token.bytes().all(plain) {
                return Err(DeskError::Mark(token.len()));
            }
        }
        if self.name.len() > LONGEST_NAME {
            return Err(DeskError::Name(self.name.len()));
        }
        let (mut all, mut own) = (0, 0);
        for user in users {
            all += 1;
            own += usize::from(user == self.user);
        }
        match (own, all) {
            (n, _) if n >= MOST_OF_USER && self.user != 0 => Err(DeskError::Many(n)),
            (_, n) if n >= MOST => Err(DeskError::Many(n)),
            _ => Ok(()),
        }
    }
}

/// Why a request cannot be met. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeskError {
    /// No such gang.
    #[error("find gang {0}: there is none of that number; `idlewave gang list` shows them")]
    NoGang(u32),
    /// It is somebody else's.
    #[error("end gang {gang} of user {theirs} as user {asked}: it is another user's")]
    OtherUser {
        /// Which.
        gang: u32,
        /// Whose.
        theirs: u32,
        /// Who asked.
        asked: u32,
    },
    /// The service takes nothing new.
    #[error("admit a gang: gang switching is drained; `idlewave gang drain --undo` lets it go on")]
    Draining,
    /// Its mark is taken.
    #[error("admit a gang: its mark is that of gang {0}")]
    Marked(u32),
    /// No gang has this mark.
    #[error("find the gang of {0}: there is none; `idlewave gang list` shows them")]
    NoMark(Mark),
    /// Its mark cannot stand in an environment, or is too long: so many bytes.
    #[error(
        "admit a gang: a mark has 1 to {LONGEST_MARK} letters, digits or signs, this one has {0} bytes"
    )]
    Mark(usize),
    /// Its name is too long: so many bytes.
    #[error("admit a gang: a name has up to {LONGEST_NAME} bytes, this one has {0}")]
    Name(usize),
    /// There are too many: so many.
    #[error("admit a gang: there are {0} already; wait until some have ended")]
    Many(usize),
    /// It cannot have the network contexts that it asks for.
    #[error("give a gang network contexts: {0}")]
    Contexts(String),
    /// Settings out of range.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Nanos;

    fn job(user: u32, mark: &str, name: &str) -> Job {
        Job {
            name: name.to_owned(),
            user,
            mark: Mark::Token(mark.to_owned()),
            class: Class::Production,
            weight: 1,
            contexts: None,
        }
    }

    #[test]
    fn what_would_not_fit_a_message_or_an_environment_is_not_taken() {
        let fits = |mark: &str, name: &str| job(7, mark, name).fits([].into_iter());
        assert_eq!(fits(&"m".repeat(64), &"n".repeat(256)), Ok(()));
        assert_eq!(fits(&"m".repeat(65), "n"), Err(DeskError::Mark(65)));
        assert_eq!(fits("", "n"), Err(DeskError::Mark(0)));
        assert_eq!(fits("a b", "n"), Err(DeskError::Mark(3)));
        assert_eq!(fits("a\0", "n"), Err(DeskError::Mark(2)));
        assert_eq!(fits("m", &"n".repeat(257)), Err(DeskError::Name(257)));
    }

    #[test]
    fn sums_over_all_nodes_of_what_agents_claim_do_not_overflow() {
        let claimed = Seen {
            processes: u32::MAX,
            ranks: u32::MAX,
            cpu: Nanos::from_nanos(u64::MAX),
            ..Seen::default()
        };
        let one = bounded(claimed);
        assert!(one.processes.checked_mul(MOST_NODES).is_some());
        assert!(one.ranks.checked_mul(MOST_NODES).is_some());
        let usual = Seen {
            processes: 128,
            ranks: 64,
            cpu: Nanos::from_secs(1_000_000),
            ..Seen::default()
        };
        assert_eq!(bounded(usual.clone()), usual);
    }

    #[test]
    fn one_user_cannot_take_all_places_and_nobody_more_than_there_are() {
        let beside = |user: u32, of: u32, n: usize| {
            let users = std::iter::repeat_n(of, n);
            job(user, "m", "n").fits(users)
        };
        assert_eq!(beside(7, 7, 63), Ok(()));
        assert_eq!(beside(7, 7, 64), Err(DeskError::Many(64)));
        assert_eq!(beside(7, 8, 64), Ok(()));
        assert_eq!(beside(0, 0, 64), Ok(()));
        assert_eq!(beside(0, 0, 128), Err(DeskError::Many(128)));
        assert_eq!(beside(7, 8, 128), Err(DeskError::Many(128)));
    }
}

//! Requests for switching, and their limits: agents receive all gangs in one message, and any user
//! may submit.

use crate::parcel::{Mark, Seen};
use idlewave_gang::policy::{Class, PolicyError};
use idlewave_sys::Uid;

/// Most gangs in all. Each takes up to 300 bytes in the message to agents; a message of the link
/// holds 60,000.
pub const MOST: usize = 128;
/// Most gangs of one user other than root, submitted by root or an operator: a batch system has its
/// own limits.
pub const MOST_OF_USER: usize = 64;
/// Most gangs that one user submits. Each may have a row of the matrix, that is, a turn that all
/// others wait for.
pub const MOST_OWN: usize = 16;
/// Most bytes of a mark. Generated marks have about 30.
pub const LONGEST_MARK: usize = 64;
/// Most bytes of a name.
pub const LONGEST_NAME: usize = 256;

/// Node numbers are below this, as in `idlewave gang agent`.
pub const MOST_NODES: u32 = 65_536;
/// Most CPUs of a node.
pub const MOST_CPUS: u32 = 65_536;

/// An agent's report, limited so that sums of processes and ranks over all nodes do not overflow.
pub fn bounded(seen: Seen) -> Seen {
    let most = 1 << 15;
    Seen {
        processes: seen.processes.min(most),
        ranks: seen.ranks.min(most),
        ..seen
    }
}

/// A request for switching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Display name.
    pub name: String,
    /// Its user.
    pub user: Uid,
    /// Whether that user submitted it, and not root or an operator.
    pub own: bool,
    /// The mark of its processes.
    pub mark: Mark,
    /// Its class.
    pub class: Class,
    /// Its share relative to others of its class, at least 1.
    pub weight: u32,
    /// Bytes of the network context of each rank, if ranks are to have one.
    pub contexts: Option<u64>,
}

impl Job {
    /// Whether it can be accepted beside the gangs of these users.
    ///
    /// # Errors
    /// [`DeskError::Mark`], [`DeskError::Name`], [`DeskError::Many`].
    pub fn fits(&self, users: impl Iterator<Item = Uid>) -> Result<(), DeskError> {
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
        let most = if self.own { MOST_OWN } else { MOST_OF_USER };
        match (own, all) {
            (n, _) if n >= most && self.user != Uid::ROOT => Err(DeskError::OfUser(n, self.user)),
            (_, n) if n >= MOST => Err(DeskError::Many(n)),
            _ => Ok(()),
        }
    }
}

/// Why a request failed. Fits "failed to ...".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeskError {
    /// There is no such gang.
    #[error("find gang {0}: it does not exist; `idlewave gang list` shows all gangs")]
    NoGang(u32),
    /// It belongs to another user.
    #[error("end gang {gang} of user {theirs} as user {asked}: it belongs to another user")]
    OtherUser {
        /// The gang.
        gang: u32,
        /// Its user.
        theirs: Uid,
        /// The requesting user.
        asked: Uid,
    },
    /// The service accepts nothing new.
    #[error("admit a gang: gang switching is drained; `idlewave gang drain --undo` resumes it")]
    Draining,
    /// Its mark is in use.
    #[error("admit a gang: gang {0} already has its mark")]
    Marked(u32),
    /// No gang has this mark.
    #[error("find the gang of {0}: it does not exist; `idlewave gang list` shows all gangs")]
    NoMark(Mark),
    /// Its mark cannot be an environment variable's value, or is too long; its length.
    #[error(
        "admit a gang: a mark must have 1 to {LONGEST_MARK} letters, digits or signs, this one has {0} bytes"
    )]
    Mark(usize),
    /// Its name is too long; its length.
    #[error("admit a gang: a name has up to {LONGEST_NAME} bytes, this one has {0}")]
    Name(usize),
    /// A user has too many gangs; their number.
    #[error("admit a gang: user {1} already has {0}; wait until some have ended")]
    OfUser(usize, Uid),
    /// There are too many gangs; their number.
    #[error("admit a gang: there are already {0}; wait until some have ended")]
    Many(usize),
    /// The requested network contexts are not possible.
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
            user: Uid::new(user),
            own: false,
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
            let users = std::iter::repeat_n(Uid::new(of), n);
            job(user, "m", "n").fits(users)
        };
        assert_eq!(beside(7, 7, 63), Ok(()));
        assert_eq!(beside(7, 7, 64), Err(DeskError::OfUser(64, Uid::new(7))));
        let own = Job {
            own: true,
            ..job(7, "m", "n")
        };
        assert_eq!(own.fits([Uid::new(7); 15].into_iter()), Ok(()));
        assert_eq!(
            own.fits([Uid::new(7); 16].into_iter()),
            Err(DeskError::OfUser(16, Uid::new(7)))
        );
        assert_eq!(own.fits([Uid::new(8); 16].into_iter()), Ok(()));
        assert_eq!(beside(7, 8, 64), Ok(()));
        assert_eq!(beside(0, 0, 64), Ok(()));
        assert_eq!(beside(0, 0, 128), Err(DeskError::Many(128)));
        assert_eq!(beside(7, 8, 128), Err(DeskError::Many(128)));
    }
}

//! How two ends authenticate each other.

use crate::session::{Secret, Secrets};
use crate::{Key, LinkError, Munge, Reason};
use idlewave_units::Nanos;

/// How the ends of a link prove their identity. Both use the same method.
///
/// Anyone who knows the shared key, or runs as the same user, can speak as any peer: both methods
/// tell the controller and its agents apart from everyone else, not from each other.
#[derive(Debug)]
pub enum Auth {
    /// All ends know one key.
    Key(Key),
    /// All ends run as the same user; the site's credential daemon vouches for it.
    Munge(Munge),
}

impl Secrets for Auth {
    fn shared(&self) -> Option<Secret> {
        match self {
            Auth::Key(key) => Some(key.secret().clone()),
            Auth::Munge(munge) => munge.shared(),
        }
    }

    fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        match self {
            Auth::Key(key) => key.secret().clone().mine(fresh),
            Auth::Munge(munge) => munge.mine(fresh),
        }
    }

    fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        match self {
            Auth::Key(key) => key.secret().clone().theirs(now, credential),
            Auth::Munge(munge) => munge.theirs(now, credential),
        }
    }
}

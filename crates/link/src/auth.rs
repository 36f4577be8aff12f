//! How two ends know each other.

use crate::session::{Secret, Secrets};
use crate::{Key, LinkError, Reason};
use idlewave_units::Nanos;

/// How the ends of a link prove who they are; the same at both.
///
/// Whoever knows a shared key can speak as any peer: it tells the controller and its agents from everybody else, not from each
/// other.
#[derive(Debug)]
#[non_exhaustive]
pub enum Auth {
    /// All know one key.
    Key(Key),
}

impl Secrets for Auth {
    fn shared(&self) -> Option<Secret> {
        match self {
            Auth::Key(key) => Some(key.secret().clone()),
        }
    }

    fn mine(&mut self, _fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        match self {
            Auth::Key(key) => Ok((key.secret().clone(), Vec::new())),
        }
    }

    fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        match self {
            Auth::Key(key) => key.secret().clone().theirs(now, credential),
        }
    }
}

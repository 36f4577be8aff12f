//! Credentials like munge's, without munge: each can be decoded once in the whole network.

use idlewave_link::session::{Secret, Secrets};
use idlewave_link::{LinkError, Reason};
use idlewave_units::Nanos;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The daemons of the whole network.
#[derive(Debug, Default)]
pub struct Daemon {
    made: BTreeMap<Vec<u8>, [u8; 32]>,
    decoded: BTreeSet<Vec<u8>>,
    pub down: bool,
}

/// The credentials of one process, which remembers what it decoded.
#[derive(Debug, Default)]
pub struct Vault {
    pub daemon: Rc<RefCell<Daemon>>,
    opened: BTreeMap<Vec<u8>, Secret>,
}

impl Vault {
    pub fn of(daemon: &Rc<RefCell<Daemon>>) -> Self {
        Vault {
            daemon: Rc::clone(daemon),
            opened: BTreeMap::new(),
        }
    }

    /// How many credentials were made, and how many decoded.
    pub fn work(&self) -> (usize, usize) {
        let daemon = self.daemon.borrow();
        (daemon.made.len(), daemon.decoded.len())
    }
}

impl Secrets for Vault {
    fn shared(&self) -> Option<Secret> {
        None
    }

    fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        let mut daemon = self.daemon.borrow_mut();
        if daemon.down {
            return Err(LinkError::Munge("it is down".to_owned()));
        }
        let mut credential = format!("credential {:06}", daemon.made.len()).into_bytes();
        credential.resize(188 + 24 * (daemon.made.len() % 3), b'.');
        daemon.made.insert(credential.clone(), fresh);
        Ok((Secret::new(fresh), credential))
    }

    fn theirs(&mut self, _now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        if let Some(secret) = self.opened.get(credential) {
            return Ok(secret.clone());
        }
        let mut daemon = self.daemon.borrow_mut();
        if daemon.down {
            return Err(Reason::Unable);
        }
        let secret = daemon.made.get(credential).copied();
        let secret = Secret::new(secret.ok_or(Reason::Credential)?);
        if !daemon.decoded.insert(credential.to_vec()) {
            return Err(Reason::Credential);
        }
        self.opened.insert(credential.to_vec(), secret.clone());
        Ok(secret)
    }
}

//! Where the secrets of a handshake come from.

use crate::derive::Secret;
use crate::{LinkError, Reason};
use idlewave_units::Nanos;

/// Supplies the secrets with which two ends authenticate each other.
pub trait Secrets {
    /// The secret that all ends share; `None` if each brings its own, in a credential.
    fn shared(&self) -> Option<Secret>;

    /// This end's secret, and a credential of at most 2,048 bytes that conveys it to the other end
    /// only. `fresh` is random; the same `fresh` gives the same secret in another credential. If
    /// all ends share a secret, it is that one, and the credential is empty.
    ///
    /// # Errors
    /// No credential can be made now.
    fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError>;

    /// The secret in a credential of the other end.
    ///
    /// # Errors
    /// The credential is invalid or not for this end, or too many came recently.
    fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason>;
}

/// All ends share this one.
impl Secrets for Secret {
    fn shared(&self) -> Option<Secret> {
        Some(self.clone())
    }

    fn mine(&mut self, _fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        Ok((self.clone(), Vec::new()))
    }

    fn theirs(&mut self, _now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        if credential.is_empty() {
            Ok(self.clone())
        } else {
            Err(Reason::Credential)
        }
    }
}

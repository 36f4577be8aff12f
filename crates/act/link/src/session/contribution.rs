//! What each end contributes to a session: a nonce, a secret, and the credentials that convey it.

use super::secrets::Secrets;
use crate::LinkError;
use crate::derive::{Nonce, Secret};
use idlewave_units::Nanos;

/// Nonces and credentials are renewed after this time; munge credentials live for five minutes.
pub(super) const VALID: Nanos = Nanos::from_secs(60);

/// This end's contribution to a session.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) nonce: Nonce,
    pub(super) secret: Secret,
    /// What the secret is made from.
    pub(super) fresh: [u8; 32],
    pub(super) made: Nanos,
    /// The credential for HELLO. As long as no HELLO has been sent, the first answer to the other
    /// end's HELLO uses it up.
    pub(super) credential: Option<Credential>,
    /// Whether this end has sent its nonce in a HELLO.
    pub(super) told: bool,
}

/// Conveys a secret; empty if all ends share one.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) bytes: Vec<u8>,
    pub(super) made: Nanos,
}

/// A nonce of the other end, if each end has a secret of its own.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) nonce: Nonce,
    pub(super) secret: Secret,
    /// This end's credential in the answer: a peer that restarted cannot decode one that it decoded
    /// before.
    pub(super) answer: Credential,
}

impl Credential {
    /// For ends that share one secret.
    pub(super) fn none(now: Nanos) -> Self {
        Credential {
            bytes: Vec::new(),
            made: now,
        }
    }
}

impl Local {
    /// Whether it may still be used. It expires, so that no old handshake is accepted hours later.
    pub(super) fn is_valid(&self, now: Nanos) -> bool {
        now.saturating_sub(self.made) <= VALID
    }

    /// Another credential for the same secret.
    pub(super) fn another(
        &self,
        now: Nanos,
        secrets: &mut dyn Secrets,
    ) -> Result<Credential, LinkError> {
        let (_, bytes) = secrets.mine(self.fresh)?;
        Ok(Credential { bytes, made: now })
    }
}

//! What each end adds to a session: a nonce and a secret, and the credentials that tell the secret.

use super::secrets::Secrets;
use crate::LinkError;
use crate::derive::{Nonce, Secret};
use idlewave_units::Nanos;

/// Nonces and credentials are renewed after this: credentials of munge are valid for five minutes.
pub(super) const VALID: Nanos = Nanos::from_secs(60);

/// What this end adds to a session.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) nonce: Nonce,
    pub(super) secret: Secret,
    /// What the secret is made of.
    pub(super) fresh: [u8; 32],
    pub(super) made: Nanos,
    /// The credential in HELLO, or, before it was said, in the first answer to one.
    pub(super) credential: Option<Credential>,
    /// It was said in HELLO.
    pub(super) told: bool,
}

/// Tells a secret; empty where all share one.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) bytes: Vec<u8>,
    pub(super) made: Nanos,
}

/// A nonce of the other end, where each has a secret of its own.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) nonce: Nonce,
    pub(super) secret: Secret,
    /// The credential of this end that answers it: whoever has started again cannot decode one that
    /// it decoded before.
    pub(super) answer: Credential,
}

impl Credential {
    /// Where all share one secret.
    pub(super) fn none(now: Nanos) -> Self {
        Credential {
            bytes: Vec::new(),
            made: now,
        }
    }
}

impl Local {
    /// Whether it may still be used. It expires, so that nothing of an earlier handshake is
    /// accepted hours later.
    pub(super) fn is_valid(&self, now: Nanos) -> bool {
        now.saturating_sub(self.made) <= VALID
    }

    /// Another credential of the same secret.
    pub(super) fn another(
        &self,
        now: Nanos,
        secrets: &mut dyn Secrets,
    ) -> Result<Credential, LinkError> {
        let (_, bytes) = secrets.mine(self.fresh)?;
        Ok(Credential { bytes, made: now })
    }
}

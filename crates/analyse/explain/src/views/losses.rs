//! What could not be recorded, and what was lost or is uncertain: all of it, while the summary
//! shows only the largest entries.

use idlewave_run::findings::Findings;
use idlewave_run::{Ledger, Loss, Manifest, Unavailable};
use serde::Serialize;
use std::cmp::Reverse;

/// What a run lacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Losses {
    /// What could not be recorded, and what would allow it.
    pub unavailable: Vec<Unavailable>,
    /// What was lost or is uncertain, largest count first.
    pub losses: Vec<Loss>,
}

/// Losses of recording and analysis. The findings include the manifest's losses, except those
/// entered since the run was last explained.
pub fn all_losses(manifest: &Manifest, findings: &Findings) -> Ledger {
    let mut all = findings.losses.clone();
    for loss in manifest.losses.entries() {
        if !findings.losses.entries().contains(loss) {
            let loss = loss.clone();
            all.enter(loss.what, loss.count, loss.consequence, loss.advice);
        }
    }
    all
}

impl Losses {
    /// What this run lacks.
    pub fn of(manifest: &Manifest, findings: &Findings) -> Self {
        let mut losses = all_losses(manifest, findings).entries().to_vec();
        losses.sort_by_key(|loss| Reverse(loss.count));
        Self {
            unavailable: findings.trace.unavailable.clone(),
            losses,
        }
    }
}

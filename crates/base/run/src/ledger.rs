//! The loss ledger: every drop, overflow, gap and unmatched event is one entry, shown by every
//! report.

use serde::{Deserialize, Serialize};

/// Something that is missing from, or uncertain in, a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// What was lost: "kernel events overwritten on CPU 3".
    pub what: String,
    /// How many.
    pub count: u64,
    /// What this means for the findings.
    pub consequence: String,
    /// What the user can do about it.
    pub advice: String,
}

/// The losses of a run, in the order they were found. Equal entries add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger(Vec<Loss>);

impl Ledger {
    /// Enters `count` losses; zero losses make no entry.
    pub fn enter(
        &mut self,
        what: impl Into<String>,
        count: u64,
        consequence: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(Loss {
            what: what.into(),
            count,
            consequence: consequence.into(),
            advice: advice.into(),
        });
    }

    fn add(&mut self, loss: Loss) {
        if loss.count == 0 {
            return;
        }
        let same = |l: &&mut Loss| {
            l.what == loss.what && l.consequence == loss.consequence && l.advice == loss.advice
        };
        match self.0.iter_mut().find(same) {
            Some(entry) => entry.count += loss.count,
            None => self.0.push(loss),
        }
    }

    /// Appends the entries of another ledger.
    pub fn append(&mut self, other: Ledger) {
        for loss in other.0 {
            self.add(loss);
        }
    }
    /// The entries.
    pub fn entries(&self) -> &[Loss] {
        &self.0
    }
    /// Whether no loss is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loss_makes_no_entry_and_equal_losses_add_up() {
        let mut ledger = Ledger::default();
        ledger.enter("events lost", 0, "c", "a");
        assert!(ledger.is_empty());
        ledger.enter("events lost", 3, "c", "a");
        ledger.enter("events lost", 4, "c", "a");
        assert_eq!(ledger.entries().len(), 1);
        assert_eq!(ledger.entries()[0].count, 7);
    }
}

//! How much work a prediction may take.

/// A share of the usual work of a prediction, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort(f64);

impl Effort {
    /// All of it.
    pub const USUAL: Effort = Effort(1.0);

    /// This share; `None` outside of 0..=1, and for 0.
    pub fn of(share: f64) -> Option<Effort> {
        (share > 0.0 && share <= 1.0).then_some(Effort(share))
    }

    /// The share.
    pub fn share(self) -> f64 {
        self.0
    }

    /// Whether predictions are less precise than usual, or lack points.
    pub fn is_reduced(self) -> bool {
        self.0 < 1.0
    }
}

impl Default for Effort {
    fn default() -> Self {
        Effort::USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_is_a_share() {
        for share in [0.0, -1.0, 1.1, f64::NAN] {
            assert_eq!(Effort::of(share), None);
        }
        assert_eq!(Effort::of(1.0), Some(Effort::USUAL));
        assert!(Effort::of(0.5).unwrap().is_reduced());
    }
}

//! How much effort to spend on predictions.

use idlewave_pipeline::Effort;

/// Environment variable with the share of the usual effort to spend on a prediction, 0..=1. Tests
/// of everything else set it to run faster.
const EFFORT: &str = "IDLEWAVE_EFFORT";

/// The effort from the environment; the usual one if the variable is unset or invalid.
pub fn effort() -> Effort {
    let asked = std::env::var(EFFORT)
        .ok()
        .and_then(|text| text.parse().ok());
    asked.and_then(Effort::of).unwrap_or_default()
}

//! The effort that a prediction is worth.

use idlewave_pipeline::Effort;

/// Environment variable with the share of the usual effort to spend on a prediction, 0..=1: for
/// tests of everything else.
const EFFORT: &str = "IDLEWAVE_EFFORT";

/// The effort asked for; the usual one if none is, or nonsense.
pub fn effort() -> Effort {
    let asked = std::env::var(EFFORT)
        .ok()
        .and_then(|text| text.parse().ok());
    asked.and_then(Effort::of).unwrap_or_default()
}

//! What the user may choose.

use crate::{FabricChoice, MeasureError};
use idlewave_mpi::Search;
use idlewave_units::Nanos;

/// Least and most time.
const DURATION: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(3_600)];

/// A calibration.
#[derive(Clone, Debug, Default)]
pub struct CalibrateOptions {
    /// Time for all of it, from 1 s to 60 min. At least three rounds are made, which may take
    /// longer on slow networks.
    pub duration: Nanos,
    /// Who carries the messages; `None` for what suits.
    pub fabric: Option<FabricChoice>,
    /// Where the MPI library is.
    pub mpi: Search,
    /// Ranks as threads; `None` for one per CPU. Not for MPI, where the launcher says.
    pub ranks: Option<u32>,
    /// Host names below each leaf switch; empty if all nodes are below one, or nobody knows.
    pub leaves: Vec<Vec<String>>,
}

impl CalibrateOptions {
    /// Checks what can be checked without the ranks.
    ///
    /// # Errors
    /// An option that cannot be carried out, with what would do instead.
    pub fn check(&self) -> Result<(), MeasureError> {
        let [least, most] = DURATION;
        if !(least..=most).contains(&self.duration) {
            return Err(MeasureError::option(
                format!("--duration {}", self.duration),
                format!("a calibration takes from {least} to {most}"),
                "try --duration 60s",
            ));
        }
        if self.ranks.is_some_and(|ranks| ranks < 2) {
            return Err(MeasureError::option(
                "--ranks",
                "a message needs two ranks",
                "give 2 or more",
            ));
        }
        Ok(())
    }
}

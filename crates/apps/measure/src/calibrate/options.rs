//! The options of a calibration.

use crate::{FabricChoice, MeasureError};
use idlewave_mpi::Search;
use idlewave_units::Nanos;

/// The minimum and maximum time.
const DURATION: [Nanos; 2] = [Nanos::from_secs(1), Nanos::from_secs(3_600)];

/// The options of a calibration.
#[derive(Clone, Debug, Default)]
pub struct CalibrateOptions {
    /// Total time, from 1 s to 60 min. There are at least three rounds, which may take longer on
    /// slow networks.
    pub duration: Nanos,
    /// The fabric; `None` to choose a suitable one.
    pub fabric: Option<FabricChoice>,
    /// Where to find the MPI library.
    pub mpi: Search,
    /// Number of ranks as threads; `None` for one per CPU. Not for MPI, where the launcher sets it.
    pub ranks: Option<u32>,
    /// Host names below each leaf switch; empty if all nodes are below one, or if this is not
    /// known.
    pub leaves: Vec<Vec<String>>,
}

impl CalibrateOptions {
    /// Checks what can be checked without the ranks.
    ///
    /// # Errors
    /// An option that is not possible, with an alternative.
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

//! The options of a study.

use idlewave_pipeline::Effort;
use idlewave_session::SessionError;
use idlewave_units::{Bytes, CpuSet, Nanos};
use std::path::PathBuf;

/// The minimum and maximum time to measure.
const DURATION: [Nanos; 2] = [Nanos::from_secs(2), Nanos::from_secs(3_600)];
/// The minimum and maximum computation of one iteration.
const WORK: [Nanos; 2] = [Nanos::from_micros(2), Nanos::from_secs(1)];
/// The most ranks; more do not belong on one node.
const MOST_RANKS: u32 = 4_096;
/// The smallest limit for the size of a run on disk.
const LEAST_SIZE: Bytes = Bytes::new(1 << 20);
/// The minimum number of iterations that must fit into the shortest part of a study.
const LEAST_ITERATIONS: u64 = 20;

/// Options of a study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Directory for the bundle; `None` for a new one named after the date.
    pub output: Option<PathBuf>,
    /// Time to measure, 2 s to 1 h.
    pub duration: Nanos,
    /// Ranks of the lockstep runs; `None` for one per CPU.
    pub ranks: Option<u32>,
    /// Computation of one iteration, 2 us to 1 s.
    pub work: Nanos,
    /// CPUs to measure; `None` for all allowed ones.
    pub cpus: Option<CpuSet>,
    /// Whether to record a kernel trace.
    pub trace: bool,
    /// The size limit of the run on disk: a part of the study ends early when it has used up its
    /// share.
    pub max_size: Bytes,
    /// Seed of the prediction.
    pub seed: u64,
    /// The effort for the prediction.
    pub effort: Effort,
    /// The command line, for the manifest.
    pub command: Vec<String>,
}

impl Default for StudyOptions {
    fn default() -> Self {
        Self {
            output: None,
            duration: Nanos::from_secs(30),
            ranks: None,
            work: Nanos::from_micros(20),
            cpus: None,
            trace: true,
            max_size: Bytes::new(1 << 30),
            seed: 1,
            effort: Effort::USUAL,
            command: Vec::new(),
        }
    }
}

impl StudyOptions {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// [`SessionError::Option`], with an alternative.
    pub fn check(&self) -> Result<(), SessionError> {
        let wrong = |option: String, reason: &str, next: String| {
            Err(SessionError::Option {
                option,
                reason: reason.to_owned(),
                next,
            })
        };
        let (duration, work) = (self.duration, self.work);
        if !(DURATION[0]..=DURATION[1]).contains(&duration) {
            let next = format!(
                "give a time from {} to {}, as in --duration 30s",
                DURATION[0], DURATION[1]
            );
            return wrong(
                format!("--duration {duration}"),
                "not a time that a study can take",
                next,
            );
        }
        if !(WORK[0]..=WORK[1]).contains(&work) {
            let next = format!(
                "give a time from {} to {}, as in --work 20us",
                WORK[0], WORK[1]
            );
            return wrong(
                format!("--work {work}"),
                "not a computation between two exchanges",
                next,
            );
        }
        // The shortest part of a study that iterates is 15 % of it.
        let least = Nanos::from_nanos((work.get() * LEAST_ITERATIONS).saturating_mul(100) / 15);
        if least > duration {
            let next = format!(
                "give less work, or --duration {}s",
                least.get().div_ceil(1_000_000_000)
            );
            let reason = format!("only a few iterations fit into --duration {duration}");
            return wrong(format!("--work {work}"), &reason, next);
        }
        if self.ranks.is_some_and(|r| r == 0 || r > MOST_RANKS) {
            let option = format!("--ranks {}", self.ranks.unwrap_or_default());
            return wrong(
                option,
                "not a number of ranks for one node",
                format!("give 1 to {MOST_RANKS}"),
            );
        }
        if self.max_size < LEAST_SIZE {
            return wrong(
                format!("--max-size {}", self.max_size),
                "too little for any study",
                format!("give at least {LEAST_SIZE}"),
            );
        }
        if self.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            return wrong(
                "--cpus".to_owned(),
                "the list is empty",
                "give at least one CPU, as in --cpus 0".to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut StudyOptions)) -> String {
        let mut options = StudyOptions::default();
        change(&mut options);
        options.check().expect_err("an invalid option").to_string()
    }

    #[test]
    fn the_defaults_are_fine() {
        StudyOptions::default().check().expect("defaults");
    }

    #[test]
    fn absurd_options_are_refused_by_name() {
        assert!(refused(|o| o.duration = Nanos::ZERO).contains("--duration 0"));
        assert!(refused(|o| o.duration = Nanos::from_secs(100_000)).contains("--duration"));
        assert!(refused(|o| o.work = Nanos::from_nanos(1)).contains("--work 1 ns"));
        assert!(refused(|o| o.work = Nanos::from_secs(1)).contains("--work"));
        assert!(refused(|o| o.ranks = Some(0)).contains("--ranks 0"));
        assert!(refused(|o| o.ranks = Some(1_000_000)).contains("--ranks 1000000"));
        assert!(refused(|o| o.cpus = Some(CpuSet::new())).contains("--cpus"));
        assert!(refused(|o| o.max_size = Bytes::new(1)).contains("--max-size 1 B"));
    }
}

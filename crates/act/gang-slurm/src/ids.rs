//! The numbers that Slurm gives to jobs and steps.

use idlewave_units::foreign::cut;
use std::fmt;
use std::str::FromStr;

/// A job by its Slurm number, which is at least 1. Each task of an array has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u32);

impl JobId {
    /// Largest job number: `MAX_JOB_ID` of slurm.h; larger values have other meanings.
    const MOST: u32 = 0x03ff_ffff;

    /// Wraps a number from Slurm; `None` if it is not a job number: 0, and values that slurm.h
    /// reserves.
    pub const fn new(number: u32) -> Option<Self> {
        match number {
            1..=Self::MOST => Some(JobId(number)),
            _ => None,
        }
    }
    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not a job number, truncated. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
#[error("read a job number: {0:?} is not one")]
pub struct NoJobId(String);

impl FromStr for JobId {
    type Err = NoJobId;
    fn from_str(text: &str) -> Result<Self, NoJobId> {
        digits(text)
            .and_then(JobId::new)
            .ok_or_else(|| NoJobId(cut(text)))
    }
}

/// Decimal digits only: the standard library accepts a sign, Slurm does not.
pub(crate) fn digits(text: &str) -> Option<u32> {
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse().ok(),
        false => None,
    }
}

/// A step of a job: what one srun started, or one of the steps that Slurm makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The step of an srun, from 0.
    Number(u32),
    /// One component of a heterogeneous step: written `0+1`.
    Component(u32, u32),
    /// The script of sbatch.
    Batch,
    /// Processes that enter from outside, by ssh through pam_slurm_adopt.
    Extern,
    /// The shell of salloc with `use_interactive_step`.
    Interactive,
}

impl Step {
    /// Parses the form used by control groups and scontrol: `0`, `0+1`, `batch`. `None` if it is
    /// not a step.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "batch" => Some(Step::Batch),
            "extern" => Some(Step::Extern),
            "interactive" => Some(Step::Interactive),
            _ => match name.split_once('+') {
                Some((step, component)) => Some(Step::Component(number(step)?, digits(component)?)),
                None => Some(Step::Number(number(name)?)),
            },
        }
    }

    /// Converts SLURM_STEP_ID: the steps that Slurm makes itself have numbers at the upper end
    /// (slurm.h). `None` if it is not a step, or one that does not exist yet.
    pub fn from_variable(text: &str) -> Option<Self> {
        match digits(text)? {
            0xffff_fffa => Some(Step::Interactive),
            0xffff_fffb => Some(Step::Batch),
            0xffff_fffc => Some(Step::Extern),
            _ => Some(Step::Number(number(text)?)),
        }
    }
}

/// The number of an srun step: larger ones are reserved (`SLURM_MAX_NORMAL_STEP_ID` of slurm.h).
fn number(text: &str) -> Option<u32> {
    digits(text).filter(|n| *n <= 0xffff_fff0)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Number(step) => write!(f, "{step}"),
            Step::Component(step, component) => write!(f, "{step}+{component}"),
            Step::Batch => f.write_str("batch"),
            Step::Extern => f.write_str("extern"),
            Step::Interactive => f.write_str("interactive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_numbers_of_jobs_are_jobs() {
        assert_eq!("17".parse::<JobId>().unwrap().get(), 17);
        assert_eq!("67108863".parse::<JobId>().unwrap().get(), 0x03ff_ffff);
        for text in ["", "0", "-1", "+1", "1.0", "67108864", "4294967294", "x"] {
            let error = text.parse::<JobId>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn steps_are_read_as_groups_and_as_variables_write_them() {
        for (name, step) in [
            ("0", Step::Number(0)),
            ("12", Step::Number(12)),
            ("3+1", Step::Component(3, 1)),
            ("batch", Step::Batch),
            ("extern", Step::Extern),
            ("interactive", Step::Interactive),
        ] {
            assert_eq!(Step::from_name(name), Some(step));
            assert_eq!(step.to_string(), name);
        }
        for (text, step) in [
            ("7", Some(Step::Number(7))),
            ("4294967290", Some(Step::Interactive)),
            ("4294967291", Some(Step::Batch)),
            ("4294967292", Some(Step::Extern)),
            ("4294967293", None),
            ("4294967280", Some(Step::Number(4_294_967_280))),
            ("4294967281", None),
            ("batch", None),
        ] {
            assert_eq!(Step::from_variable(text), step, "{text}");
        }
        for text in ["", "+1", "1+", "1+x", "TBD", "Batch", "4294967291"] {
            assert_eq!(Step::from_name(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_a_step_is_written_back_the_same(text in "[0-9+a-z]{0,12}") {
            if let Some(step) = Step::from_name(&text) {
                prop_assert_eq!(Step::from_name(&step.to_string()), Some(step));
            }
        }
    }
}

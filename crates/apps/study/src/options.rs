//! The options of a study, and of a single measurement of every CPU.

use idlewave_pipeline::Effort;
use idlewave_run::{Neighbour, WorkKernel};
use idlewave_session::SessionError;
use idlewave_stats::warm_up;
use idlewave_units::{Bytes, CpuSet, Nanos, ParseNanosError};
use idlewave_workloads::speed::Speed;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// The minimum and maximum time to measure.
const DURATION: [Nanos; 2] = [Nanos::from_secs(2), Nanos::from_secs(3_600)];
/// The minimum and maximum time of a quantum, and its steps.
const QUANTUM: [Nanos; 2] = [Nanos::from_micros(1), Nanos::from_secs(1)];
const STEPS: RangeInclusive<u64> = 1_000..=10_000_000_000;
/// The least and most time of a fixed time quantum, how many units fit into it, at least and usually,
/// and the smallest unit: some readings of the clock.
const EVERY: [Nanos; 2] = [Nanos::from_micros(20), Nanos::from_secs(1)];
const LEAST_UNITS: u64 = 10;
const UNITS: u64 = 200;
const LEAST_UNIT: Nanos = Nanos::from_nanos(100);
const UNIT_STEPS: u64 = 10;
/// Priorities of SCHED_FIFO.
const PRIORITIES: RangeInclusive<u8> = 1..=99;
/// The smallest arrays.
const LEAST_ARRAY: Bytes = Bytes::from_kib(4);
/// Starts of a measurement of the warm-up, and the idleness before each.
const STARTS: RangeInclusive<u32> = warm_up::STARTS_NEEDED as u32..=1_000;
const REST: [Nanos; 2] = [Nanos::from_millis(10), Nanos::from_secs(600)];
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

/// How much work a quantum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// As many steps as take this time at the CPU's best.
    Time(Nanos),
    /// This many steps: the same work on every machine.
    Steps(u64),
}

/// What a fixed quantum of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantum {
    /// How much.
    pub work: Work,
    /// What a step does.
    pub kernel: WorkKernel,
    /// Size of the arrays of each CPU, for [`WorkKernel::Stream`] only; `None` for four times the
    /// last-level cache.
    pub array: Option<Bytes>,
}

impl From<Work> for Quantum {
    /// The usual kernel.
    fn from(work: Work) -> Self {
        Self {
            work,
            kernel: WorkKernel::default(),
            array: None,
        }
    }
}

impl FromStr for Work {
    type Err = ParseNanosError;

    /// A time, as in `20us`, or a number of steps without a unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(steps) => Ok(Self::Steps(steps)),
            Err(_) => text.parse().map(Self::Time),
        }
    }
}

/// What to measure on every CPU by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMeasurement {
    /// When the CPU was taken from a loop that only reads the clock.
    Detours,
    /// How long the same work takes, again and again.
    FixedWork {
        /// The work.
        quantum: Quantum,
        /// Quanta per CPU; `None` for as many as fit into the duration.
        runs: Option<u64>,
    },
    /// How much work fits into equal times.
    FixedTime {
        /// The work of one unit.
        quantum: Quantum,
        /// The time of a quantum.
        every: Nanos,
    },
    /// Whether the same work takes longer after the CPUs were idle. The duration is that of one
    /// start.
    WarmUp {
        /// The work.
        quantum: Quantum,
        /// Number of starts.
        starts: u32,
        /// Idleness before each.
        rest: Nanos,
    },
    /// Detours, and how long the same work takes, with one busy CPU, two, and so on to all. The
    /// duration is that of each of the two on each number of CPUs.
    LoadSweep {
        /// The work.
        quantum: Quantum,
    },
}

impl CpuMeasurement {
    /// The work that is repeated, if any.
    pub fn quantum(&self) -> Option<Quantum> {
        match *self {
            Self::Detours => None,
            Self::FixedWork { quantum, .. }
            | Self::FixedTime { quantum, .. }
            | Self::WarmUp { quantum, .. }
            | Self::LoadSweep { quantum } => Some(quantum),
        }
    }

    /// The same with arrays of this size, if it has any.
    pub(crate) fn with_array(mut self, array: Bytes) -> Self {
        match &mut self {
            Self::FixedWork { quantum, .. }
            | Self::FixedTime { quantum, .. }
            | Self::WarmUp { quantum, .. }
            | Self::LoadSweep { quantum } => quantum.array = Some(array),
            Self::Detours => {}
        }
        self
    }
}

/// Options of a measurement of every CPU by itself.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// What to measure.
    pub what: CpuMeasurement,
    /// Directory for the bundle; `None` if only the results are wanted.
    pub output: Option<PathBuf>,
    /// Time to measure, 100 ms to 1 h.
    pub duration: Nanos,
    /// CPUs to measure; `None` for all allowed ones.
    pub cpus: Option<CpuSet>,
    /// Whether one CPU measures after the other, each for the whole time.
    pub one_at_a_time: bool,
    /// What runs on the CPUs that do not measure.
    pub neighbours: Vec<Neighbour>,
    /// Priority of the measuring threads under SCHED_FIFO, 1 to 99; `None` for the ordinary policy.
    pub realtime: Option<u8>,
    /// Whether to record a kernel trace.
    pub trace: bool,
    /// The size limit of the run on disk: the measurement ends early when it is reached.
    pub max_size: Bytes,
    /// The command line, for the manifest.
    pub command: Vec<String>,
}

impl CpuOptions {
    /// The longest time to measure.
    pub const LONGEST: Nanos = DURATION[1];

    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// [`SessionError::Option`], with an alternative.
    pub fn check(&self) -> Result<(), SessionError> {
        check_duration(
            self.duration,
            [Nanos::from_millis(100), Self::LONGEST],
            "3s",
        )?;
        match self.what {
            CpuMeasurement::Detours => {}
            CpuMeasurement::LoadSweep { quantum } => quantum.check()?,
            CpuMeasurement::FixedTime { quantum, every } => {
                if !(EVERY[0]..=EVERY[1]).contains(&every) {
                    let next = format!("give a time from {} to {}", EVERY[0], EVERY[1]);
                    return refused(format!("--every {every}"), "not a fixed time", next);
                }
                quantum.check_array()?;
                quantum.work.check_unit(every)?;
            }
            CpuMeasurement::FixedWork { quantum, runs } => {
                quantum.check()?;
                if runs == Some(0) {
                    let next = "give at least 1, as in --runs 100000".to_owned();
                    return refused("--runs 0".to_owned(), "there would be no result", next);
                }
            }
            CpuMeasurement::WarmUp {
                quantum,
                starts,
                rest,
            } => {
                quantum.check()?;
                if !STARTS.contains(&starts) {
                    let reason = "not a number of starts that tells something";
                    let next = format!("give {} to {}", STARTS.start(), STARTS.end());
                    return refused(format!("--starts {starts}"), reason, next);
                }
                if !(REST[0]..=REST[1]).contains(&rest) {
                    let next = format!("give a time from {} to {}", REST[0], REST[1]);
                    return refused(format!("--idle {rest}"), "not possible", next);
                }
            }
        }
        if let Some(priority) = self.realtime.filter(|p| !PRIORITIES.contains(p)) {
            return refused(
                format!("--realtime {priority}"),
                "not a priority of SCHED_FIFO",
                format!("give {} to {}", PRIORITIES.start(), PRIORITIES.end()),
            );
        }
        check_size(self.max_size)?;
        check_cpus(self.cpus.as_ref())
    }
}

impl Quantum {
    fn check(self) -> Result<(), SessionError> {
        self.work.check()?;
        self.check_array()
    }

    fn check_array(self) -> Result<(), SessionError> {
        match self.array {
            Some(array) if self.kernel != WorkKernel::Stream => refused(
                format!("--array {array}"),
                "only the stream works on arrays",
                "omit it, or give --kernel stream".to_owned(),
            ),
            Some(array) if array < LEAST_ARRAY => refused(
                format!("--array {array}"),
                "too little to stream through",
                format!("give at least {LEAST_ARRAY}"),
            ),
            _ => Ok(()),
        }
    }
}

impl Work {
    /// Steps of a quantum on CPUs of this speed.
    pub(crate) fn steps(self, speed: Speed) -> u64 {
        match self {
            Self::Time(time) => speed.steps(time),
            Self::Steps(steps) => steps,
        }
    }

    /// The time of a quantum on CPUs of this speed, at best.
    pub(crate) fn time(self, speed: Speed) -> Nanos {
        match self {
            Self::Time(time) => time,
            Self::Steps(steps) => speed.time(steps),
        }
    }

    /// The usual unit of a fixed time quantum: 200 fit into it.
    pub fn unit_of(every: Nanos) -> Self {
        Self::Time(Nanos::from_nanos(every.get() / UNITS))
    }

    /// Checks it as a unit of a fixed time quantum.
    fn check_unit(self, every: Nanos) -> Result<(), SessionError> {
        let [least, most] = [LEAST_UNIT, Nanos::from_nanos(every.get() / LEAST_UNITS)];
        match self {
            Self::Time(time) if !(least..=most).contains(&time) => refused(
                format!("--work {time}"),
                &format!("not a unit of which several fit into {every}"),
                format!("give a time from {least} to {most}, or steps"),
            ),
            Self::Steps(steps) if !(UNIT_STEPS..=*STEPS.end()).contains(&steps) => refused(
                format!("--work {steps}"),
                "not a number of steps for a unit",
                format!("give {UNIT_STEPS} or more, or a time, as in {least}"),
            ),
            _ => Ok(()),
        }
    }

    fn check(self) -> Result<(), SessionError> {
        match self {
            Self::Time(time) if !(QUANTUM[0]..=QUANTUM[1]).contains(&time) => refused(
                format!("--work {time}"),
                "not a time that a quantum can take",
                format!(
                    "give a time from {} to {}, or steps",
                    QUANTUM[0], QUANTUM[1]
                ),
            ),
            Self::Steps(steps) if !STEPS.contains(&steps) => refused(
                format!("--work {steps}"),
                "not a number of steps for a quantum",
                format!(
                    "give {} to {}, or a time, as in 20us",
                    STEPS.start(),
                    STEPS.end()
                ),
            ),
            _ => Ok(()),
        }
    }
}

fn refused(option: String, reason: &str, next: String) -> Result<(), SessionError> {
    Err(SessionError::Option {
        option,
        reason: reason.to_owned(),
        next,
    })
}

fn check_duration(duration: Nanos, bounds: [Nanos; 2], example: &str) -> Result<(), SessionError> {
    if (bounds[0]..=bounds[1]).contains(&duration) {
        return Ok(());
    }
    refused(
        format!("--duration {duration}"),
        "not a time that this can take",
        format!(
            "give a time from {} to {}, as in --duration {example}",
            bounds[0], bounds[1]
        ),
    )
}

fn check_size(most: Bytes) -> Result<(), SessionError> {
    if most >= LEAST_SIZE {
        return Ok(());
    }
    refused(
        format!("--max-size {most}"),
        "too little for any run",
        format!("give at least {LEAST_SIZE}"),
    )
}

fn check_cpus(cpus: Option<&CpuSet>) -> Result<(), SessionError> {
    match cpus.is_some_and(CpuSet::is_empty) {
        false => Ok(()),
        true => refused(
            "--cpus".to_owned(),
            "the list is empty",
            "give at least one CPU, as in --cpus 0".to_owned(),
        ),
    }
}

impl StudyOptions {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// [`SessionError::Option`], with an alternative.
    pub fn check(&self) -> Result<(), SessionError> {
        let work = self.work;
        check_duration(self.duration, DURATION, "30s")?;
        if !(WORK[0]..=WORK[1]).contains(&work) {
            let next = format!(
                "give a time from {} to {}, as in --work 20us",
                WORK[0], WORK[1]
            );
            return refused(
                format!("--work {work}"),
                "not a computation between two exchanges",
                next,
            );
        }
        // The shortest part of a study that iterates with all of the work is 28 % of it.
        let least = Nanos::from_nanos((work.get() * LEAST_ITERATIONS).saturating_mul(100) / 28);
        if least > self.duration {
            let next = format!(
                "give less work, or --duration {}s",
                least.get().div_ceil(1_000_000_000)
            );
            let reason = format!(
                "only a few iterations fit into --duration {}",
                self.duration
            );
            return refused(format!("--work {work}"), &reason, next);
        }
        if self.ranks.is_some_and(|r| r == 0 || r > MOST_RANKS) {
            let option = format!("--ranks {}", self.ranks.unwrap_or_default());
            return refused(
                option,
                "not a number of ranks for one node",
                format!("give 1 to {MOST_RANKS}"),
            );
        }
        check_size(self.max_size)?;
        check_cpus(self.cpus.as_ref())
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

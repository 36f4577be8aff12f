//! A quantity in two runs.

use idlewave_run::findings::Estimate;
use idlewave_stats::quantiles::median_of;
use idlewave_stats::two_samples::difference;
use idlewave_units::{Cpu, counted, show};
use serde::Serialize;
use std::fmt;

/// A quantity of something in two runs. Equal blocks of both have one value each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is a quantity of.
    pub subject: Subject,
    /// The quantity.
    pub quantity: Quantity,
    /// Its values in A.
    pub a: Side,
    /// Its values in B.
    pub b: Side,
    /// B less A, in the unit of the quantity.
    pub shift: Estimate,
    /// Probability that a block of B has more than one of A, equal ones counted half, 0..=1.
    pub superiority: Estimate,
    /// Two-sided probability of values this different if there is no difference.
    pub p: f64,
    /// The same, adjusted for the number of comparisons.
    pub p_adjusted: f64,
    /// What follows from it.
    pub verdict: Verdict,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Subject {
    /// The mean of all CPUs of each run.
    AllCpus,
    /// A CPU.
    Cpu {
        /// Its number.
        cpu: Cpu,
    },
    /// The steps of a lockstep run.
    Lockstep {
        /// How its ranks wait.
        name: String,
        /// Ranks.
        ranks: u32,
    },
    /// A computation that every rank repeats in every step.
    Computation {
        /// Its name.
        name: String,
        /// Ranks.
        ranks: u32,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::AllCpus => write!(f, "all CPUs"),
            Subject::Cpu { cpu } => write!(f, "CPU {cpu}"),
            Subject::Lockstep { name, ranks } | Subject::Computation { name, ranks } => {
                write!(f, "{name}, {}", counted(*ranks, "rank"))
            }
        }
    }
}

/// A quantity that two runs may have, what matters most first. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Mean time of a lockstep step.
    StepTime,
    /// The same over the undisturbed step of its run, minus 1.
    StepSlowdown,
    /// Of a computation that every rank repeats: mean over slowest, step by step, 0..=1.
    Efficiency,
    /// Its mean.
    Mean,
    /// Its standard deviation.
    Deviation,
    /// The slowest in a block.
    Slowest,
    /// Mean time of the same work on a CPU.
    QuantumTime,
    /// The same over the undisturbed time of its run, minus 1.
    QuantumSlowdown,
    /// Share of the time that detours took, 0..=1.
    Stolen,
    /// Detours per second.
    DetourRate,
}

impl Quantity {
    /// Its name.
    pub const fn label(self) -> &'static str {
        match self {
            Quantity::StepTime => "step time",
            Quantity::StepSlowdown | Quantity::QuantumSlowdown => "slow-down",
            Quantity::Mean => "mean",
            Quantity::Deviation => "deviation",
            Quantity::Slowest => "slowest",
            Quantity::Efficiency => "efficiency",
            Quantity::QuantumTime => "same work",
            Quantity::Stolen => "stolen share",
            Quantity::DetourRate => "detours per s",
        }
    }

    /// A value in a suitable unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Quantity::StepTime
            | Quantity::Mean
            | Quantity::Deviation
            | Quantity::Slowest
            | Quantity::QuantumTime => show::time(value),
            Quantity::StepSlowdown | Quantity::QuantumSlowdown | Quantity::Stolen => {
                show::percent(value)
            }
            Quantity::Efficiency => show::efficiency(value),
            Quantity::DetourRate => show::digits(value),
        }
    }

    /// A difference of two values, with its sign.
    pub fn show_shift(self, shift: f64) -> String {
        let text = self.show(shift);
        match shift > 0.0 && text.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("+{text}"),
            false => text,
        }
    }

    /// What it is called if it differs, and if it does not.
    pub const fn verdict(self, verdict: Verdict) -> &'static str {
        let [more, less] = match self {
            Quantity::StepTime | Quantity::Mean | Quantity::Slowest | Quantity::QuantumTime => {
                ["longer", "shorter"]
            }
            Quantity::Efficiency => ["higher", "lower"],
            Quantity::Deviation => ["larger", "smaller"],
            Quantity::StepSlowdown
            | Quantity::QuantumSlowdown
            | Quantity::Stolen
            | Quantity::DetourRate => ["more", "less"],
        };
        match verdict {
            Verdict::NotSignificant => "not significant",
            Verdict::More => more,
            Verdict::Less => less,
        }
    }
}

/// The values of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Median of the blocks.
    pub median: f64,
    /// Mean of the blocks.
    pub mean: f64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Side {
    fn of(values: &[f64]) -> Option<Self> {
        Some(Self {
            median: median_of(values)?,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            blocks: values.len() as u64,
        })
    }
}

/// B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B has significantly more; of a time: it is longer.
    More,
    /// B has significantly less; of a time: it is shorter.
    Less,
    /// The difference may be chance.
    NotSignificant,
}

impl Verdict {
    /// Whether the difference is significant.
    pub fn differs(self) -> bool {
        self != Verdict::NotSignificant
    }
}

impl Row {
    /// The row of these values, one per block, without its verdict. `None` if there are too few.
    pub(super) fn of(subject: &Subject, quantity: Quantity, [a, b]: [Vec<f64>; 2]) -> Option<Self> {
        let found = difference(&a, &b)?;
        Some(Self {
            subject: subject.clone(),
            quantity,
            a: Side::of(&a)?,
            b: Side::of(&b)?,
            shift: found.shift,
            superiority: found.superiority,
            p: found.p,
            p_adjusted: 1.0,
            verdict: Verdict::NotSignificant,
        })
    }

    pub(super) fn judge(&mut self, p_adjusted: f64, error: f64) {
        self.p_adjusted = p_adjusted;
        self.verdict = match (p_adjusted < error, self.superiority.value > 0.5) {
            (false, _) => Verdict::NotSignificant,
            (true, true) => Verdict::More,
            (true, false) => Verdict::Less,
        };
    }

    /// The shift with its interval: `+3.20 us (+2.90 us to +3.50 us)`.
    pub fn shift_text(&self) -> String {
        let [value, low, high] = [self.shift.value, self.shift.low, self.shift.high]
            .map(|v| self.quantity.show_shift(v));
        format!("{value} ({low} to {high})")
    }
}

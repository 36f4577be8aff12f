//! What advice is based on besides the findings.

use idlewave_units::show::percent;
use idlewave_units::{Nanos, counted};

/// What the analysis knows besides its findings, for the gains of advice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Per source of the findings, its effective number of delays: (sum of their lengths)^2 / sum
    /// of their squares.
    pub delays: Vec<f64>,
    /// Gaps that no kernel record explains; `None` if there were none.
    pub gaps: Option<Gaps>,
    /// Time of the threads of a recorded program without ranks.
    pub threads: Nanos,
}

/// Gaps during which the kernel recorded nothing ("hypervisor gaps").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// How many of them are shorter than [`Gaps::SHORT`].
    pub short: u64,
    /// Time in all of them.
    pub time: Nanos,
    /// Time in the short ones.
    pub short_time: Nanos,
    /// Time during which gaps would have been seen, summed over CPUs.
    pub watched: Nanos,
}

impl Gaps {
    /// Another virtual machine that takes a CPU keeps it for a time slice: tenths of milliseconds
    /// to milliseconds (Linux CFS and EEVDF: base slice 0.7 to 3 ms; Xen credit: 30 ms). Shorter
    /// gaps are as long as an exit to the host, an interrupt of the host or a system-management
    /// interrupt.
    pub const SHORT: Nanos = Nanos::from_micros(10);

    /// Share of the watched time.
    pub(super) fn share(&self) -> f64 {
        self.time.as_f64() / self.watched.as_f64().max(1.0)
    }

    /// Whether steal time, which the hypervisor reports, accounts for at least half of the gaps.
    pub(super) fn is_steal(&self, steal: Option<f64>) -> bool {
        steal.is_some_and(|s| s >= 0.5 * self.share())
    }

    /// Whether short gaps took most of the time.
    pub(super) fn are_short(&self) -> bool {
        self.short_time.as_f64() > 0.5 * self.time.as_f64()
    }

    /// What is known about their cause, as a clause.
    pub(super) fn known(&self, steal: Option<f64>) -> String {
        let steal = match steal {
            Some(s) => format!("the kernel counted {} of steal time", percent(s)),
            None => "steal time was not measured".to_owned(),
        };
        format!(
            "gaps took {} of the CPUs' time and {steal}; {} of {} are shorter than {}",
            percent(self.share()),
            percent(self.short as f64 / self.count.max(1) as f64),
            counted(self.count, "gap"),
            Self::SHORT
        )
    }
}

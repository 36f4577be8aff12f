//! Contamination: how much other programs used the machine while something was measured, when that
//! is so much that the result describes them as well, and the words for it that all output shares.

use idlewave_units::foreign::one_line;
use idlewave_units::show::{count, percent};
use idlewave_units::{Nanos, named};
use serde::{Deserialize, Serialize};

/// The most tasks that a sentence names.
const NAMED: usize = 3;

/// Load by other processes during the run, from the difference of two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contamination {
    /// Wall time between the two readings.
    pub wall: Nanos,
    /// Online CPUs over which the shares are taken.
    pub cpus: u32,
    /// Share of all CPU time used by processes other than this one and the recorded program, 0..=1.
    /// Resolution: one tick per CPU.
    pub others: Option<f64>,
    /// Share of all CPU time that the hypervisor gave to other guests, 0..=1.
    pub steal: Option<f64>,
    /// Tasks other than this process that took most CPU time in between: name, nanoseconds; largest
    /// first. In a manifest from a sample of living processes, in findings from the kernel trace if
    /// there is one.
    pub top_tasks: Vec<(String, u64)>,
    /// Share of wall time during which some task waited for a CPU (`/proc/pressure/cpu`), 0..=1.
    pub cpu_pressure: Option<f64>,
    /// How often this process's cgroup was throttled.
    pub throttled: Option<u64>,
}

impl Contamination {
    /// A run is flagged above this share of others.
    pub const FLAG_ABOVE: f64 = 0.02;
    /// A tick of `/proc/stat`: USER_HZ is 100 (proc(5)).
    const TICK: Nanos = Nanos::from_millis(10);

    /// Whether others used so much CPU time that the findings describe them as much as the machine. A
    /// tick per CPU is none: the readings may be wrong by that.
    pub fn is_flagged(&self) -> bool {
        let beyond_ticks = |others: f64| others * self.wall.as_f64() > Self::TICK.as_f64();
        self.others
            .is_some_and(|others| others > Self::FLAG_ABOVE && beyond_ticks(others))
    }

    /// What to say about a machine that others used meanwhile; `None` if they hardly did. `traced`: the
    /// names come from the kernel trace, not from a sample.
    fn busy(&self, traced: bool) -> Option<String> {
        let top: Vec<String> = self
            .top_tasks
            .iter()
            .take(NAMED)
            .map(|(name, ns)| format!("{} {}", one_line(name), Nanos::from_nanos(*ns)))
            .collect();
        let top = top.join(", ");
        let names = match (traced, top.is_empty(), self.others_used()) {
            (true, false, _) => format!(": {top}"),
            (false, false, Some(used)) => {
                format!(" ({used} of CPU time; {top} in a sample of living processes)")
            }
            _ => String::new(),
        };
        let [others, rest] = self.shares();
        self.is_flagged()
            .then(|| format!("BUSY MACHINE: {others}{names}{rest}. Quiet the machine and repeat."))
    }

    /// What others used; then what the hypervisor stole, and how often the CPU quota throttled the
    /// run.
    pub fn shares(&self) -> [String; 2] {
        let others = match self.others {
            None => "use by others: not measured".to_owned(),
            Some(share) => format!("others used {} of the CPUs", percent(share)),
        };
        let steal = self.steal.map(|s| format!(", steal {}", percent(s)));
        let throttled = self.throttled.filter(|times| *times > 0).map(|times| {
            format!(
                ", throttled {} {} by the CPU quota",
                count(times),
                named(times, "time")
            )
        });
        let rest = [steal, throttled].into_iter().flatten().collect();
        [others, rest]
    }

    /// CPU time used by others; `None` where it was not measured.
    pub fn others_used(&self) -> Option<Nanos> {
        let all = self.wall.as_f64() * f64::from(self.cpus);
        self.others
            .map(|share| Nanos::from_nanos((share * all).round() as u64))
    }
}

/// Whether others contaminated a measurement on these nodes: whether one of them is flagged, or
/// `None` if none is but some were not watched.
pub fn is_contaminated<'a>(nodes: impl IntoIterator<Item = &'a Contamination>) -> Option<bool> {
    let mut unknown = false;
    for seen in nodes {
        if seen.is_flagged() {
            return Some(true);
        }
        unknown |= seen.others.is_none();
    }
    (!unknown).then_some(false)
}

/// A sentence for every busy node of a measurement, with its name if there are several nodes. The
/// names of tasks come from a sample of living processes.
pub fn busy_nodes<'a>(
    nodes: impl IntoIterator<Item = (&'a str, &'a Contamination)>,
) -> Vec<String> {
    let nodes = nodes.into_iter();
    told(nodes.map(|(name, seen)| (name, seen, false)).collect())
}

/// The same of nodes with name and load, and whether the kernel trace named the tasks.
pub(crate) fn told(nodes: Vec<(&str, &Contamination, bool)>) -> Vec<String> {
    let several = nodes.len() > 1;
    let said = nodes.into_iter().filter_map(|(name, seen, traced)| {
        let busy = seen.busy(traced)?;
        Some(match several {
            true => format!("{}: {busy}", one_line(name)),
            false => busy,
        })
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(others: Option<f64>) -> Contamination {
        Contamination {
            wall: Nanos::from_secs(10),
            cpus: 2,
            others,
            steal: Some(0.0),
            top_tasks: vec![("gzip\u{1b}".to_owned(), 370_000_000)],
            ..Contamination::default()
        }
    }

    #[test]
    fn a_node_is_busy_above_two_percent_and_what_was_not_measured_is_not_known() {
        let is = |shares: &[Option<f64>]| {
            let nodes: Vec<Contamination> = shares.iter().map(|&share| seen(share)).collect();
            is_contaminated(&nodes)
        };
        assert_eq!(is(&[Some(0.02)]), Some(false));
        assert_eq!(is(&[Some(0.0201)]), Some(true));
        assert_eq!(is(&[Some(0.01), None]), None);
        assert_eq!(is(&[None, Some(0.5)]), Some(true));
    }

    #[test]
    fn a_single_tick_makes_no_short_measurement_busy() {
        let of = |wall, others| Contamination {
            wall: Nanos::from_millis(wall),
            ..seen(Some(others))
        };
        assert!(!of(6, 0.9).is_flagged());
        assert!(!of(100, 0.1).is_flagged());
        assert!(of(100, 0.11).is_flagged());
    }

    #[test]
    fn a_busy_node_is_told_with_what_others_used_and_a_quiet_one_is_not() {
        let [quiet, busy] = [seen(Some(0.01)), seen(Some(0.3))];
        assert_eq!(busy_nodes([("a", &quiet)]), [""; 0]);
        let said = "BUSY MACHINE: others used 30.0 % of the CPUs (6.00 s of CPU time; gzip\\u001b 370 ms in a sample of \
                    living processes), steal 0 %. Quiet the machine and repeat.";
        assert_eq!(busy_nodes([("a", &busy)]), [said]);
        let both = [("a", &busy), ("b", &quiet)];
        assert_eq!(busy_nodes(both), [format!("a: {said}")]);
        let traced = busy.busy(true).expect("it is busy");
        assert!(
            traced.contains("CPUs: gzip\\u001b 370 ms, steal"),
            "{traced}"
        );
    }
}

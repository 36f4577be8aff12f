//! Whether a machine keeps limits: for the acceptance of nodes.
//!
//! A limit on a quantity with an interval is kept if the whole interval is at or below it, and
//! exceeded if the whole interval is above it. In between the run was too short to say. How long a
//! run would have to be follows from intervals shrinking with the square root of the time:
//! T (h / d)^2, where h is half of the interval and d the distance of the value from the limit.
//! Every CPU of every node is judged by itself, and the worst decides; with 95 % intervals, one of
//! many CPUs that are just at the limit is misjudged by chance.

use crate::ExplainError;
use crate::cpu_noise::cpu_noise;
use idlewave_run::findings::{CpuNoise, Estimate, Findings};
use idlewave_run::tables::Detours;
use idlewave_run::{Manifest, PhaseKind, RunReader};
use idlewave_stats::rates;
use idlewave_units::show::{self, percent, time};
use idlewave_units::{Cpu, Nanos, NodeId};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// A run that would have to be longer than this decides nothing.
const LONGEST: Nanos = Nanos::from_secs(30 * 24 * 3_600);

/// A limit that a machine has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Share of the time of every CPU that detours take, 0..=1.
    Noise(f64),
    /// Detours longer than this: none, or at most so many per second of every CPU.
    Detour(Nanos, Option<f64>),
    /// Slow-down of fixed work on every CPU.
    Work(f64),
    /// Predicted slow-down at this many ranks, however they wait.
    Slowdown(u64, f64),
    /// Share of the time of all CPUs that the hypervisor gave to others, 0..=1.
    Steal(f64),
}

/// Limits that go together. docs/acceptance.md has their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A node of a cluster for parallel programs.
    ComputeNode,
    /// A node with promised latencies.
    Realtime,
    /// A virtual machine.
    Cloud,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::ComputeNode, Self::Realtime, Self::Cloud];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ComputeNode => "compute-node",
            Self::Realtime => "realtime",
            Self::Cloud => "cloud",
        }
    }

    /// Its limits.
    pub fn limits(self) -> Vec<Limit> {
        match self {
            Self::ComputeNode => vec![
                Limit::Noise(0.001),
                Limit::Detour(Nanos::from_micros(50), Some(1.0)),
            ],
            Self::Realtime => vec![Limit::Detour(Nanos::from_micros(20), None)],
            Self::Cloud => vec![Limit::Steal(0.1), Limit::Work(0.1)],
        }
    }
}

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a limit: give noise=0.1%, detour=50us, detour=50us@0.1/s, work=1%, slowdown@1e5=20% or steal=1%"
)]
pub struct ParseLimitError;

impl FromStr for Limit {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or(ParseLimitError)
    }
}

impl Limit {
    fn parse(text: &str) -> Option<Self> {
        let (name, most) = text.split_once('=')?;
        if let Some(ranks) = name.strip_prefix("slowdown@") {
            let ranks = ranks.parse::<f64>().ok()?;
            let whole = (2.0..=1e9).contains(&ranks) && ranks.fract() == 0.0;
            return whole.then_some(Self::Slowdown(ranks as u64, read_share(most)?));
        }
        Some(match name {
            "noise" => Self::Noise(read_share(most)?),
            "work" => Self::Work(read_share(most)?),
            "steal" => Self::Steal(read_share(most)?),
            "detour" => match most.split_once('@') {
                None => Self::Detour(most.parse().ok()?, None),
                Some((length, rate)) => {
                    let rate = rate.strip_suffix("/s")?.parse::<f64>().ok()?;
                    let rate = Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0)?;
                    Self::Detour(length.parse().ok()?, Some(rate))
                }
            },
            _ => return None,
        })
    }
}

/// A share, as in `0.1%`.
fn read_share(text: &str) -> Option<f64> {
    let share = text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0;
    (share.is_finite() && share >= 0.0).then_some(share)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noise(share) => write!(f, "noise at most {}", percent(*share)),
            Self::Detour(longest, None) => write!(f, "no detour longer than {longest}"),
            Self::Detour(longest, Some(rate)) => {
                write!(f, "at most {rate}/s detours longer than {longest}")
            }
            Self::Work(share) => write!(f, "fixed work at most {} slower", percent(*share)),
            Self::Slowdown(ranks, share) => {
                write!(f, "slow-down at {ranks} ranks at most {}", percent(*share))
            }
            Self::Steal(share) => write!(f, "steal time at most {}", percent(*share)),
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Whether a limit is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is kept.
    Pass,
    /// The run was too short to say.
    TooShort,
    /// What it is about was not measured.
    NotMeasured,
    /// It is exceeded.
    Fail,
}

/// A limit with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The limit.
    pub limit: Limit,
    /// Whether it is kept.
    pub verdict: Verdict,
    /// What was measured, in words, with its interval; or why it was not measured.
    pub found: String,
    /// The same as a number: shares 0..=1, detours per second; of the worst CPU or topology. `None`
    /// if it was not measured.
    pub value: Option<Estimate>,
    /// How long a run would have to be to say more; `None` if it said enough, or if that is not
    /// known.
    pub needs: Option<Nanos>,
    /// Names of the nodes that exceed it, in their order; empty in a run of one node.
    pub exceeded_on: Vec<String>,
}

/// Judges all limits by the findings of a run.
///
/// # Errors
/// The table of detours cannot be read.
pub fn judge(
    limits: &[Limit],
    run: &RunReader,
    findings: &Findings,
) -> Result<Vec<Judgement>, ExplainError> {
    // Of many nodes, the findings keep the worst only.
    let cpus = match &findings.nodes {
        Some(_) => Cow::Owned(cpu_noise(run)?),
        None => Cow::Borrowed(findings.cpus.as_slice()),
    };
    limits
        .iter()
        .map(|limit| judgement(*limit, run, findings, &cpus))
        .collect()
}

/// By how much the same work is slower if this share of it is lost.
fn slower(lost: &Estimate) -> Estimate {
    let of = |share: f64| share / (1.0 - share).max(f64::EPSILON);
    Estimate {
        value: of(lost.value),
        low: of(lost.low),
        high: of(lost.high),
        ..lost.clone()
    }
}

/// How the CPUs of a run are called, and its nodes.
struct Names<'a> {
    manifest: &'a Manifest,
    several: bool,
}

impl Names<'_> {
    fn node(&self, node: NodeId) -> String {
        let sheet = self.manifest.nodes.iter().find(|n| n.node == node);
        sheet.map_or_else(|| node.to_string(), |n| n.host.name.clone())
    }

    fn cpu(&self, cpu: &CpuNoise) -> String {
        match self.several {
            true => format!("CPU {} of {}", cpu.cpu, self.node(cpu.node)),
            false => format!("CPU {}", cpu.cpu),
        }
    }
}

fn judgement(
    limit: Limit,
    run: &RunReader,
    findings: &Findings,
    cpus: &[CpuNoise],
) -> Result<Judgement, ExplainError> {
    let manifest = run.manifest();
    let names = Names {
        manifest,
        several: findings.nodes.is_some(),
    };
    let of_node = |c: &CpuNoise, found: Found| Found {
        node: names.several.then_some(c.node),
        ..found
    };
    let all: Vec<Found> = match limit {
        Limit::Noise(most) => collected(cpus, |c| {
            let d = c.detours.as_ref()?;
            let said = format!("{} of {}", share(&d.stolen), names.cpu(c));
            let found = of_interval(said, d.stolen.clone(), most, Some(d.watched));
            Some(of_node(c, found))
        }),
        Limit::Work(most) => collected(cpus, |c| {
            let Some(f) = &c.fixed_work else {
                let f = c.fixed_time.as_ref()?;
                let slower = slower(&f.lost);
                let said = format!("{} on {}", share(&slower), names.cpu(c));
                let took = Nanos::from_nanos(f.interval.get().saturating_mul(f.count));
                return Some(of_node(c, of_interval(said, slower, most, Some(took))));
            };
            let said = format!("{} on {}", share(&f.slowdown), names.cpu(c));
            let length = f.reference.get().saturating_mul(f.count);
            let took = Nanos::from_nanos((length as f64 * (1.0 + f.slowdown.value)) as u64);
            let found = of_interval(said, f.slowdown.clone(), most, Some(took));
            Some(of_node(c, found))
        }),
        Limit::Detour(longest, rate) => {
            let kept = kept(run, longest)?;
            collected(cpus, |c| {
                let kept = kept.get(&(c.node, c.cpu));
                let found = of_lengths(c, &names.cpu(c), kept, longest, rate)?;
                Some(of_node(c, found))
            })
        }
        Limit::Slowdown(ranks, most) => at_scale(findings, ranks)
            .map(|(name, at, s)| {
                let said = format!("{} for {name} at {at} ranks", share(&s));
                of_interval(said, s, most, None)
            })
            .collect(),
        Limit::Steal(most) => match names.several {
            false => of_steal(findings.contamination.steal, most, None, &names),
            true => {
                let nodes = manifest.nodes.iter();
                let steal =
                    nodes.map(|n| of_steal(n.contamination.steal, most, Some(n.node), &names));
                steal.flatten().collect()
            }
        },
    };
    let exceeded: BTreeSet<NodeId> = all
        .iter()
        .filter(|f| f.verdict == Verdict::Fail)
        .filter_map(|f| f.node)
        .collect();
    let exceeded_on = exceeded.into_iter().map(|n| names.node(n)).collect();
    Ok(match worst(all.into_iter()) {
        Some(found) => Judgement {
            exceeded_on,
            limit,
            verdict: found.verdict,
            found: found.said,
            value: Some(found.value),
            needs: found.needs,
        },
        None => Judgement {
            exceeded_on,
            limit,
            verdict: Verdict::NotMeasured,
            found: not_measured(limit, findings),
            value: None,
            needs: None,
        },
    })
}

/// What was found of every CPU.
fn collected(cpus: &[CpuNoise], of: impl Fn(&CpuNoise) -> Option<Found>) -> Vec<Found> {
    cpus.iter().filter_map(of).collect()
}

/// The steal time of one node, if its kernel counts it.
fn of_steal(steal: Option<f64>, most: f64, node: Option<NodeId>, names: &Names<'_>) -> Vec<Found> {
    let found = steal.map(|steal| Found {
        node,
        verdict: verdict(steal <= most, steal > most),
        said: match node {
            Some(node) => format!("{} on {}", percent(steal), names.node(node)),
            None => percent(steal),
        },
        value: Estimate {
            value: steal,
            low: steal,
            high: steal,
            n: 1,
            method: "as the kernel counted it".to_owned(),
        },
        needs: None,
    });
    found.into_iter().collect()
}

/// What was found of one CPU, or of one topology.
struct Found {
    /// Its node, in a run of several.
    node: Option<NodeId>,
    verdict: Verdict,
    said: String,
    value: Estimate,
    needs: Option<Nanos>,
}

fn verdict(kept: bool, exceeded: bool) -> Verdict {
    match (kept, exceeded) {
        (_, true) => Verdict::Fail,
        (true, _) => Verdict::Pass,
        _ => Verdict::TooShort,
    }
}

/// The worst verdict; of equal ones, the largest value.
fn worst(all: impl Iterator<Item = Found>) -> Option<Found> {
    all.max_by(|a, b| {
        let value = a.value.value.total_cmp(&b.value.value);
        a.verdict.cmp(&b.verdict).then(value)
    })
}

/// Compares an interval with a limit. `time` is how long was measured.
fn of_interval(said: String, value: Estimate, most: f64, time: Option<Nanos>) -> Found {
    let verdict = verdict(value.high <= most, value.low > most);
    let needs = time
        .filter(|_| verdict == Verdict::TooShort)
        .and_then(|time| {
            let half = (value.high - value.low) / 2.0;
            let factor = (half / (value.value - most)).powi(2);
            let needs = time.as_f64() * factor.max(1.0);
            (needs <= LONGEST.as_f64()).then(|| Nanos::from_nanos(needs as u64))
        });
    Found {
        node: None,
        verdict,
        said,
        value,
        needs,
    }
}

/// An estimated share with its interval.
fn share(of: &Estimate) -> String {
    format!(
        "{} ({} to {})",
        percent(of.value),
        percent(of.low),
        percent(of.high)
    )
}

/// The detours of one CPU that were kept.
#[derive(Default)]
struct Kept {
    /// All.
    all: u64,
    /// Those longer than the limit.
    longer: u64,
    /// The longest of all.
    longest: Nanos,
}

fn kept(run: &RunReader, limit: Nanos) -> Result<BTreeMap<(NodeId, Cpu), Kept>, ExplainError> {
    let phases = &run.manifest().phases;
    let of_loop = |phase: u32| match phases.get(phase as usize)?.kind {
        PhaseKind::Detour { node, .. } => Some(node),
        _ => None,
    };
    let mut found: BTreeMap<(NodeId, Cpu), Kept> = BTreeMap::new();
    run.for_each::<Detours>(|d| {
        if let Some(node) = of_loop(d.phase) {
            let kept = found.entry((node, d.cpu)).or_default();
            kept.all += 1;
            kept.longer += u64::from(d.length > limit);
            kept.longest = d.length.max(kept.longest);
        }
    })?;
    Ok(found)
}

/// Compares the detours of one CPU with a limit of their length, or of the rate of longer ones.
fn of_lengths(
    cpu: &CpuNoise,
    name: &str,
    kept: Option<&Kept>,
    limit: Nanos,
    rate: Option<f64>,
) -> Option<Found> {
    let seen = cpu.detours.as_ref()?;
    let watched = seen.watched;
    let (all, count) = kept.map_or((0, 0), |kept| (kept.all, kept.longer));
    let value = rates::poisson(count, watched.as_secs_f64());
    let mut said = match kept.filter(|_| count > 0) {
        Some(kept) => format!(
            "{count} in {watched} on {name}, the longest {}",
            kept.longest
        ),
        None => {
            let most = show::count_f64(value.high);
            format!("none in {watched} on {name}: fewer than {most}/s (95 %)")
        }
    };
    // What was not kept may have been longer, and what is below the threshold is not seen.
    let not_kept = seen.count.saturating_sub(all);
    let unseen = limit < seen.threshold;
    if not_kept > 0 {
        said.push_str(&format!("; the lengths of {not_kept} more are not known"));
    }
    if unseen {
        said.push_str(&format!("; detours below {} are not seen", seen.threshold));
    }
    let judged = |found: Found| match found.verdict {
        Verdict::Fail => found,
        _ if not_kept > 0 || unseen => Found {
            verdict: Verdict::NotMeasured,
            needs: None,
            ..found
        },
        _ => found,
    };
    let Some(most) = rate else {
        return Some(judged(Found {
            node: None,
            verdict: verdict(count == 0, count > 0),
            said,
            value,
            needs: None,
        }));
    };
    let mut found = of_interval(said, value, most, Some(watched));
    if count == 0 && found.verdict == Verdict::TooShort {
        // The bound of a rate without events shrinks with the time itself.
        let needs = watched.as_f64() * found.value.high / most;
        found.needs = Some(Nanos::from_nanos(needs as u64));
    }
    Some(judged(found))
}

/// The predicted slow-down at the fewest ranks that are not below `ranks`, per topology.
fn at_scale(
    findings: &Findings,
    ranks: u64,
) -> impl Iterator<Item = (&'static str, u64, Estimate)> + '_ {
    let curves = findings.prediction.iter().flat_map(|p| &p.curves);
    curves.filter_map(move |curve| {
        let points = curve.points.iter().filter(|p| p.ranks >= ranks);
        let point = points.min_by_key(|p| p.ranks)?;
        Some((curve.topology.label(), point.ranks, point.slowdown.clone()))
    })
}

fn not_measured(limit: Limit, findings: &Findings) -> String {
    match limit {
        Limit::Noise(_) | Limit::Detour(..) => {
            "not measured: idlewave study or measure detour measure it".to_owned()
        }
        Limit::Work(_) => {
            "not measured: idlewave study, measure fwq or measure ftq measure it".to_owned()
        }
        Limit::Steal(_) => "not measured: the kernel does not count it".to_owned(),
        Limit::Slowdown(..) => match (&findings.prediction, &findings.not_predicted) {
            (None, Some(why)) => format!("not predicted: {why}"),
            (None, None) => "not predicted: idlewave study predicts it".to_owned(),
            (Some(_), _) => "not predicted for that many ranks".to_owned(),
        },
    }
}

impl Judgement {
    /// What was found, and how long a run would have to be, in words.
    pub fn said(&self) -> String {
        let needs = match (self.verdict, self.needs) {
            (Verdict::TooShort, Some(needs)) => {
                format!(": too short to say, needs {}", time(needs.as_f64()))
            }
            (Verdict::TooShort, None) => ": too short to say".to_owned(),
            _ => String::new(),
        };
        let others = match self.exceeded_on.len() {
            0 | 1 => String::new(),
            n => format!("; {n} nodes exceed it"),
        };
        format!("{}{needs}{others}", self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::findings::DetourFindings;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate {
            value,
            low,
            high,
            n: 10,
            method: String::new(),
        }
    }

    fn found(value: f64, low: f64, high: f64, most: f64) -> (Verdict, Option<Nanos>) {
        let time = Some(Nanos::from_secs(30));
        let found = of_interval(String::new(), estimate(value, low, high), most, time);
        (found.verdict, found.needs)
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        for (text, limit, words) in [
            ("noise=0.1%", Limit::Noise(0.001), "noise at most 0.10 %"),
            (
                "detour=50us",
                Limit::Detour(Nanos::from_micros(50), None),
                "no detour longer than 50.0 us",
            ),
            (
                "detour=1ms@0.1/s",
                Limit::Detour(Nanos::from_millis(1), Some(0.1)),
                "at most 0.1/s detours longer than 1.00 ms",
            ),
            (
                "work=2 %",
                Limit::Work(0.02),
                "fixed work at most 2.00 % slower",
            ),
            (
                "slowdown@1e5=20%",
                Limit::Slowdown(100_000, 0.2),
                "slow-down at 100000 ranks at most 20.0 %",
            ),
            ("steal=0%", Limit::Steal(0.0), "steal time at most 0 %"),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string(), words);
        }
        for text in [
            "",
            "noise",
            "noise=",
            "noise=1",
            "noise=-1%",
            "noise=nan%",
            "noise@3=1%",
            "detour=",
            "detour=50us@",
            "detour=50us@0/s",
            "detour=50us@1",
            "detour=@1/s",
            "slowdown=1%",
            "slowdown@1=1%",
            "slowdown@2.5=1%",
            "slowdown@1e10=1%",
            "latency=1us",
        ] {
            assert_eq!(text.parse::<Limit>(), Err(ParseLimitError), "{text}");
        }
    }

    #[test]
    fn an_interval_decides_only_if_all_of_it_is_on_one_side() {
        assert_eq!(found(0.01, 0.005, 0.02, 0.02), (Verdict::Pass, None));
        assert_eq!(found(0.03, 0.021, 0.04, 0.02), (Verdict::Fail, None));
        assert_eq!(found(0.03, 0.02, 0.04, 0.02).0, Verdict::TooShort);
        // Half of the interval is 0.02, twice the distance: four times as long.
        let needs = Some(Nanos::from_secs(120));
        let (verdict, got) = found(0.03, 0.01, 0.05, 0.02);
        assert_eq!(verdict, Verdict::TooShort);
        assert!(got.zip(needs).is_some_and(|(got, needs)| {
            got.as_f64() / needs.as_f64() > 0.999 && got.as_f64() / needs.as_f64() < 1.001
        }));
        // Exactly at the limit, no time suffices.
        assert_eq!(found(0.02, 0.01, 0.03, 0.02), (Verdict::TooShort, None));
    }

    /// A second on one CPU with `all` detours, of which `kept` were kept.
    fn of_length(all: u64, kept: Kept, limit: Nanos) -> (Verdict, String) {
        let cpu = CpuNoise {
            node: NodeId::new(0),
            cpu: Cpu::new(3),
            detours: Some(DetourFindings {
                watched: Nanos::from_secs(1),
                threshold: Nanos::from_micros(1),
                turn_quanta: 1.0,
                count: all,
                rate: estimate(1.0, 1.0, 1.0),
                stolen: estimate(0.0, 0.0, 0.0),
                largest: None,
                classes: Vec::new(),
                periods: Vec::new(),
                spectrum: None,
                histogram: Vec::new(),
            }),
            fixed_work: None,
            fixed_time: None,
            reserved: None,
            starts: None,
        };
        let found = of_lengths(&cpu, "CPU 3", Some(&kept), limit, None).expect("detours");
        (found.verdict, found.said)
    }

    #[test]
    fn detours_whose_length_is_not_known_pass_no_limit() {
        let limit = Nanos::from_micros(50);
        let kept = |longer| Kept {
            all: 7,
            longer,
            longest: Nanos::from_micros(60),
        };
        assert_eq!(of_length(7, kept(0), limit).0, Verdict::Pass);
        let (verdict, said) = of_length(9, kept(0), limit);
        assert_eq!(verdict, Verdict::NotMeasured);
        assert!(said.contains("lengths of 2 more are not known"), "{said}");
        assert_eq!(of_length(9, kept(1), limit).0, Verdict::Fail);
        // The loop does not see detours below its threshold.
        let below = of_length(7, kept(0), Nanos::from_nanos(500));
        assert_eq!(below.0, Verdict::NotMeasured);
    }

    #[test]
    fn a_share_of_lost_work_is_so_much_slower_work() {
        let found = slower(&estimate(0.2, 0.0, 0.5));
        assert_eq!((found.value, found.low, found.high), (0.25, 0.0, 1.0));
        assert!(slower(&estimate(1.0, 1.0, 1.0)).value.is_finite());
    }

    #[test]
    fn the_worst_cpu_decides() {
        let found = |verdict, value| Found {
            node: None,
            verdict,
            said: String::new(),
            value: estimate(value, value, value),
            needs: None,
        };
        let worst = |all: Vec<Found>| worst(all.into_iter()).map(|f| (f.verdict, f.value.value));
        assert_eq!(worst(Vec::new()), None);
        assert_eq!(
            worst(vec![
                found(Verdict::Pass, 3.0),
                found(Verdict::Fail, 1.0),
                found(Verdict::Fail, 2.0),
                found(Verdict::TooShort, 9.0),
            ]),
            Some((Verdict::Fail, 2.0))
        );
    }
}

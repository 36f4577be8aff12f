//! One source, from its events to its laws.

use crate::arrivals::{LEAST, LEVEL, Law, choose, trace};
use crate::input::SourceEvents;
use crate::lengths::{FittedLengths, lengths};
use crate::periodic::Comb;
use crate::report::SourceReport;
use crate::shares::shares;
use crate::sharing::{Cpus, Shared, Sharing, alike, alone, apart, sharing};
use idlewave_noise::{Arrivals, Fit, GoodnessOfFit, Scope, Source, Together};
use idlewave_run::SourceKind;
use idlewave_stats::line::{Joined, Line};
use idlewave_units::show::time;

/// Lateness within this share of the period is small.
const SMALL_JITTER: f64 = 0.05;

/// Settings for all sources of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// CPUs of a node.
    pub cpus_per_node: u32,
    /// Whether the times of different CPUs can be compared.
    pub common_clock: bool,
    /// Whether each CPU is struck as measured there, however alike the CPUs are.
    pub apart: bool,
    /// Seed of simulated probabilities and of resampling.
    pub seed: u64,
}

/// Fits a source by one model or several: one for each group of CPUs that it strikes alike, and for
/// its regular and irregular parts.
pub fn fit_source(events: SourceEvents, setting: &Setting) -> Vec<(Source, SourceReport)> {
    let named = Named {
        kind: events.kind,
        name: events.name,
        keeps: events.keeps,
    };
    let groups = match setting.apart {
        true => apart(events.lines),
        false => alike(events.lines),
    };
    groups
        .into_iter()
        .filter(|(_, lines)| lines.iter().any(|l| !l.events.is_empty()))
        .flat_map(|(cpus, lines)| fit_alike(&named, &cpus, lines, setting))
        .collect()
}

/// The identity of a source.
struct Named {
    kind: SourceKind,
    name: String,
    keeps: f64,
}

/// What a source's events have in common, whatever their laws.
struct Common<'a> {
    named: &'a Named,
    cpus: &'a Cpus,
    strikes: Scope,
    together: Together,
    /// One CPU's part of the time of a line.
    of_cpu: f64,
    watched_ns: u64,
    tests: Vec<GoodnessOfFit>,
    why: Vec<String>,
}

fn fit_alike(
    named: &Named,
    cpus: &Cpus,
    lines: Vec<Line>,
    setting: &Setting,
) -> Vec<(Source, SourceReport)> {
    let watched_ns = lines.iter().map(Line::time).sum();
    let whole = u32::try_from(lines.len()).is_ok_and(|n| n % setting.cpus_per_node == 0);
    let Shared {
        sharing,
        comb,
        tests,
        why,
    } = match setting.common_clock {
        true => sharing(&lines, cpus.is_none() && whole),
        false => alone(&lines),
    };
    let mut why: Vec<String> = Some(why).filter(|w| !w.is_empty()).into_iter().collect();
    if let Some(cpus) = cpus {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        why.push(format!(
            "CPU {} is struck at a rate of its own",
            list.join(", ")
        ));
    }
    let (lines, strikes, together, of_cpu) = match sharing {
        Sharing::Alone => (lines, Scope::EachCpu, Together::Alone, 1.0),
        Sharing::Together(lines) => (lines, Scope::EachCpu, Together::Node, 1.0),
        Sharing::OneAtATime(lines) => {
            let share = 1.0 / f64::from(setting.cpus_per_node);
            (lines, Scope::OneCpuOfNode, Together::Alone, share)
        }
    };
    let mut common = Common {
        named,
        cpus,
        strikes,
        together,
        of_cpu,
        watched_ns,
        tests,
        why,
    };
    let comb = match comb {
        Some(comb) if !comb.rest.is_empty() => comb,
        other => return vec![fit_lines(&common, &lines, other, setting)],
    };
    let rest = comb.rest.clone();
    let on_comb: Vec<Line> = lines
        .iter()
        .zip(&rest)
        .map(|(line, rest)| Line {
            events: without(&line.events, &rest.events),
            watched: line.watched.clone(),
            ..*line
        })
        .collect();
    let why = common.why.clone();
    common
        .why
        .push("what lies beside its comb is a source of its own".to_owned());
    let regular = fit_lines(&common, &on_comb, Some(comb), setting);
    common.why = why;
    common
        .why
        .push("this is what lies beside its comb".to_owned());
    vec![regular, fit_lines(&common, &rest, None, setting)]
}

/// Events without `some` of them; both in order.
fn without(events: &[(u64, u64)], some: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut some = some.iter().peekable();
    let mut kept = Vec::with_capacity(events.len());
    for event in events {
        if some.next_if_eq(&event).is_none() {
            kept.push(*event);
        }
    }
    kept
}

/// Fits the laws of lines that each have a process of their own.
fn fit_lines(
    common: &Common<'_>,
    lines: &[Line],
    comb: Option<Comb>,
    setting: &Setting,
) -> (Source, SourceReport) {
    let named = common.named;
    let longest = lines.iter().map(Line::time).max().unwrap_or(1);
    let joined = Joined::new(lines);
    let chosen = choose(comb, &joined);
    let mut tests = common.tests.clone();
    tests.extend(chosen.tests);
    let mut why = vec![chosen.why];
    why.extend(common.why.iter().cloned());
    let independent = !matches!(chosen.law, Law::Trace { .. });
    let taken = common.of_cpu * (1.0 - named.keeps);
    let found = shares(&joined, independent, setting.seed).scaled(common.of_cpu, taken);
    let mut values: Vec<u64> = joined.events.iter().map(|e| e[1]).collect();
    values.sort_unstable();
    let few = values.len() < LEAST;
    let rejected = chosen.p.is_some_and(|p| p < LEVEL);
    let laws = laws(chosen.law, &joined, &values, longest, setting.seed);
    why.extend(laws.why);
    let mut tail_shape = None;
    let length = laws.lengths.map(|fitted| {
        tests.extend(fitted.test);
        why.push(fitted.why);
        tail_shape = fitted.shape;
        fitted.lengths
    });
    let arrivals = laws.arrivals;
    let period_ns = match arrivals {
        Arrivals::Periodic {
            period_ns,
            jitter_ns,
            ..
        } => Some([period_ns, jitter_ns]),
        _ => None,
    };
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let report = SourceReport {
        kind: named.kind,
        name: named.name.clone(),
        cpus: common.cpus.clone(),
        strikes: common.strikes,
        together: common.together,
        keeps: named.keeps,
        law: laws.name.to_owned(),
        events: values.len() as u64,
        watched_ns: common.watched_ns,
        rate_per_s: found.rate,
        period_ns,
        length_p50_ns: at(0.5),
        length_p99_ns: at(0.99),
        length_max_ns: at(1.0),
        tail_shape,
        stolen: found.stolen,
        p: chosen.p,
        tests,
        why,
        few,
        doubtful: rejected && laws.depends_on_test || laws.cut_down,
    };
    let source = Source {
        kind: named.kind,
        name: named.name.clone(),
        strikes: common.strikes,
        together: common.together,
        cpus: common.cpus.clone(),
        keeps: named.keeps,
        arrivals,
        length,
        fit: Some(Fit {
            events: report.events,
            watched_ns: report.watched_ns,
            rate_per_s: report.rate_per_s,
            stolen: report.stolen,
            tests: report.tests.clone(),
        }),
    };
    (source, report)
}

/// The law of the arrivals with its parameters, and that of the lengths.
struct Laws {
    name: &'static str,
    arrivals: Arrivals,
    /// `None` where the arrivals hold the lengths, too.
    lengths: Option<FittedLengths>,
    why: Vec<String>,
    /// Whether it matters that the test of the arrivals rejects the law.
    depends_on_test: bool,
    /// Whether events were left out.
    cut_down: bool,
}

/// Fits `law` to the events, whose lengths are `values`.
fn laws(law: Law, joined: &Joined, values: &[u64], longest: u64, seed: u64) -> Laws {
    match law {
        Law::Poisson => {
            let rate_per_s = values.len() as f64 / (joined.time as f64 / 1e9);
            Laws {
                name: "poisson",
                arrivals: Arrivals::Poisson { rate_per_s },
                lengths: Some(lengths(values.to_vec(), 0, longest, seed)),
                why: Vec::new(),
                depends_on_test: true,
                cut_down: false,
            }
        }
        Law::Periodic(comb) => {
            let period_ns = (comb.period.round() as u64).max(1);
            let missing = comb.teeth - comb.struck.len() as u64;
            let struck = comb.struck.iter().map(|s| s.2).collect();
            Laws {
                name: "periodic",
                arrivals: Arrivals::Periodic {
                    period_ns,
                    jitter_ns: (comb.jitter.round() as u64).min(period_ns - 1),
                    phase_ns: None,
                },
                lengths: Some(lengths(struck, missing, longest, seed)),
                why: vec![format!(
                    "period {}, known to {}",
                    time(comb.period),
                    time(comb.uncertainty)
                )],
                // The distribution of the lateness hardly matters if it is small.
                depends_on_test: comb.jitter > SMALL_JITTER * comb.period,
                cut_down: false,
            }
        }
        Law::Trace { block_ns } => {
            let (arrivals, left_out) = trace(joined, block_ns);
            Laws {
                name: "trace",
                arrivals,
                lengths: None,
                cut_down: left_out.is_some(),
                why: left_out
                    .into_iter()
                    .chain(["no length beyond the longest seen".to_owned()])
                    .collect(),
                depends_on_test: true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_the_events_are_taken_out_once_each() {
        let all = [(1, 5), (2, 5), (2, 5), (3, 1)];
        assert_eq!(without(&all, &[(2, 5), (3, 1)]), [(1, 5), (2, 5)]);
        assert_eq!(without(&all, &[]), all);
    }
}

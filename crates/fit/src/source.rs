//! One source from its events to its laws.

use crate::arrivals::{Law, choose, trace};
use crate::input::SourceEvents;
use crate::lengths::lengths;
use crate::line::{Joined, Line};
use crate::report::SourceReport;
use crate::shares::shares;
use crate::sharing::{Cpus, Shared, Sharing, alike, alone, sharing};
use idlewave_noise::{Arrivals, Fit, Scope, Source, Together};

/// What holds for all sources of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// CPUs of a node.
    pub cpus_per_node: u32,
    /// Whether the times of different CPUs can be compared.
    pub common_clock: bool,
    /// Of simulated probabilities and of resampling.
    pub seed: u64,
}

/// Fits a source: one model of it, or one for each group of CPUs that it strikes alike.
pub fn fit_source(events: SourceEvents, setting: &Setting) -> Vec<(Source, SourceReport)> {
    let SourceEvents {
        kind,
        name,
        keeps,
        lines,
    } = events;
    alike(lines)
        .into_iter()
        .filter(|(_, lines)| lines.iter().any(|l| !l.events.is_empty()))
        .map(|(cpus, lines)| {
            let part = fit_alike(&cpus, lines, keeps, setting);
            let mut source = Source {
                kind,
                name: name.clone(),
                strikes: Scope::EachCpu,
                together: Together::Alone,
                cpus,
                keeps,
                arrivals: part.0,
                length: part.1,
                fit: None,
            };
            (source.strikes, source.together) = part.2;
            let report = part.3.of(&source);
            source.fit = Some(Fit {
                events: report.events,
                watched_ns: report.watched_ns,
                rate_per_s: report.rate_per_s,
                stolen: report.stolen,
                tests: report.tests.clone(),
            });
            (source, report)
        })
        .collect()
}

type Part = (
    Arrivals,
    Option<idlewave_noise::Lengths>,
    (Scope, Together),
    Unnamed,
);

/// What is to be said of a source, but for its name.
struct Unnamed(SourceReport);

impl Unnamed {
    fn of(self, source: &Source) -> SourceReport {
        SourceReport {
            kind: source.kind,
            name: source.name.clone(),
            cpus: source.cpus.clone(),
            strikes: source.strikes,
            together: source.together,
            keeps: source.keeps,
            ..self.0
        }
    }
}

fn fit_alike(cpus: &Cpus, lines: Vec<Line>, keeps: f64, setting: &Setting) -> Part {
    let events: usize = lines.iter().map(|l| l.events.len()).sum();
    let watched_ns = lines.iter().map(Line::time).sum();
    let whole = u32::try_from(lines.len()).is_ok_and(|n| n % setting.cpus_per_node == 0);
    let Shared {
        sharing,
        comb,
        mut tests,
        why: shared_why,
    } = match setting.common_clock {
        true => sharing(&lines, cpus.is_none() && whole),
        false => alone(&lines),
    };
    let mut why: Vec<String> = Vec::new();
    let (lines, shape, of_cpu) = match sharing {
        Sharing::Alone => (lines, (Scope::EachCpu, Together::Alone), 1.0),
        Sharing::Together(lines) => (lines, (Scope::EachCpu, Together::Node), 1.0),
        Sharing::OneAtATime(lines) => {
            let share = 1.0 / f64::from(setting.cpus_per_node);
            (lines, (Scope::OneCpuOfNode, Together::Alone), share)
        }
    };
    let longest = lines.iter().map(Line::time).max().unwrap_or(1);
    let joined = Joined::new(&lines);
    let chosen = choose(comb, &joined);
    tests.extend(chosen.tests);
    why.push(chosen.why);
    why.extend(Some(shared_why).filter(|w| !w.is_empty()));
    if let Some(cpus) = cpus {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        why.push(format!(
            "CPU {} is struck more than others",
            list.join(", ")
        ));
    }
    let independent = !matches!(chosen.law, Law::Trace { .. });
    let found = shares(&joined, independent, setting.seed).scaled(of_cpu, 1.0);
    let stolen = found.scaled(1.0, of_cpu * (1.0 - keeps)).stolen;
    let mut values: Vec<u64> = joined.events.iter().map(|e| e[1]).collect();
    values.sort_unstable();
    let law = match &chosen.law {
        Law::Periodic(_) => "periodic",
        Law::Poisson => "poisson",
        Law::Trace { .. } => "trace",
    };
    let mut poor = chosen.p.is_some_and(|p| p < crate::arrivals::LEVEL)
        || joined.events.len() < crate::arrivals::LEAST;
    let (arrivals, fitted) = match chosen.law {
        Law::Poisson => {
            let rate_per_s = joined.events.len() as f64 / (joined.time as f64 / 1e9);
            let fitted = lengths(values.clone(), 0, longest, setting.seed);
            (Arrivals::Poisson { rate_per_s }, Some(fitted))
        }
        Law::Periodic(comb) => {
            let period_ns = (comb.period.round() as u64).max(1);
            let missing = comb.teeth - comb.struck.len() as u64;
            let struck = comb.struck.iter().map(|s| s.2).collect();
            why.push(format!(
                "period {:.0} ns, known to {:.1} ns",
                comb.period, comb.uncertainty
            ));
            let arrivals = Arrivals::Periodic {
                period_ns,
                jitter_ns: (comb.jitter.round() as u64).min(period_ns - 1),
                phase_ns: None,
            };
            (
                arrivals,
                Some(lengths(struck, missing, longest, setting.seed)),
            )
        }
        Law::Trace { block_ns } => {
            let (arrivals, left_out) = trace(&joined, block_ns);
            poor |= left_out.is_some();
            why.extend(left_out);
            why.push("no length beyond the longest seen".to_owned());
            (arrivals, None)
        }
    };
    let mut tail_shape = None;
    let length = fitted.map(|fitted| {
        tests.extend(fitted.test);
        why.push(fitted.why);
        tail_shape = fitted.shape;
        fitted.lengths
    });
    let at = |q: f64| values[((values.len() - 1) as f64 * q).round() as usize];
    let report = SourceReport {
        kind: idlewave_run::SourceKind::Unexplained,
        name: String::new(),
        cpus: None,
        strikes: Scope::EachCpu,
        together: Together::Alone,
        keeps,
        law: law.to_owned(),
        events: events as u64,
        watched_ns,
        rate_per_s: found.rate,
        length_p50_ns: at(0.5),
        length_p99_ns: at(0.99),
        length_max_ns: at(1.0),
        tail_shape,
        stolen,
        p: chosen.p,
        tests,
        why,
        poor,
    };
    (arrivals, length, shape, Unnamed(report))
}

//! Validity checks for a model.

use crate::lengths::LONGEST_NS;
use crate::model::{Arrivals, Lengths, NoiseModel, Scope, Source, Tail, Together};
use idlewave_units::show::{digits, percent};
use std::collections::BTreeMap;

/// Why a model is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelProblem {
    /// Unsupported version of the format.
    #[error("schema {0} is not supported, expected {known}", known = NoiseModel::SCHEMA)]
    Schema(u32),
    /// Nodes without CPUs.
    #[error("cpus_per_node is 0; a node has at least 1 CPU")]
    NoCpus,
    /// More sources than the simulation can number.
    #[error("{0} sources, at most {most} are supported", most = MOST_SOURCES)]
    TooManySources(usize),
    /// No CPU time is left for the ranks.
    #[error("all sources together take {} of {}; they must leave at least 1 % to ranks", percent(*.share), called(*.cpu))]
    Overload {
        /// Share of its time, 0.99 or more.
        share: f64,
        /// The CPU within a node; `None` if all CPUs are alike.
        cpu: Option<u32>,
    },
    /// A problem with one source.
    #[error("source '{name}': {problem}")]
    Source {
        /// Class and name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// With more noise than this, work hardly ever finishes.
const MOST_TAKEN: f64 = 0.99;
/// Above this share the noise is another program that competes for the CPU.
const MUCH_TAKEN: f64 = 0.5;

fn called(cpu: Option<u32>) -> String {
    cpu.map_or("a CPU".to_owned(), |cpu| format!("CPU {cpu} of a node"))
}

/// The most sources that a drawn word can number.
const MOST_SOURCES: usize = 32_768;

impl NoiseModel {
    /// Checks everything beyond the syntax.
    ///
    /// # Errors
    /// The first invalid value, with its source.
    pub fn check(&self) -> Result<(), ModelProblem> {
        if self.schema != NoiseModel::SCHEMA {
            return Err(ModelProblem::Schema(self.schema));
        }
        if self.cpus_per_node == 0 {
            return Err(ModelProblem::NoCpus);
        }
        if self.sources.len() > MOST_SOURCES {
            return Err(ModelProblem::TooManySources(self.sources.len()));
        }
        let named = |source: &Source, problem| ModelProblem::Source {
            name: source.label(),
            problem,
        };
        for one in &self.sources {
            source(one, self.cpus_per_node).map_err(|p| named(one, p))?;
            one.stolen(self.cpus_per_node).ok_or_else(|| {
                let problem = "a shape of 1 or more has no mean length; add limit_ns";
                named(one, problem.into())
            })?;
        }
        match self.busiest() {
            Some((cpu, share)) if share >= MOST_TAKEN => Err(ModelProblem::Overload { share, cpu }),
            _ => Ok(()),
        }
    }

    /// A warning, without the full stop, if the sources together take most of a CPU: ranks there
    /// are predicted to be very slow.
    pub fn crawls(&self) -> Option<String> {
        let (cpu, share) = self.busiest().filter(|b| b.1 >= MUCH_TAKEN)?;
        Some(format!(
            "noise takes {} of {}: ranks there take {} times as long, and so do all ranks that wait for them",
            percent(share),
            called(cpu),
            digits(1.0 / (1.0 - share).max(1.0 - MOST_TAKEN))
        ))
    }

    /// The CPU of a node from which the sources together take the largest share, and that share.
    /// The CPU is `None` if all CPUs are alike. There is no result without sources, or if one has
    /// no mean length.
    pub fn busiest(&self) -> Option<(Option<u32>, f64)> {
        let (mut of_all, mut of_some) = (0.0, BTreeMap::<u32, f64>::new());
        for one in &self.sources {
            let mean = one.stolen(self.cpus_per_node)?;
            match &one.cpus {
                None => of_all += mean,
                Some(cpus) => {
                    let each = mean * f64::from(self.cpus_per_node) / cpus.len().max(1) as f64;
                    for &cpu in cpus {
                        *of_some.entry(cpu).or_default() += each;
                    }
                }
            }
        }
        let most = of_some.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        match (self.sources.is_empty(), most) {
            (true, _) => None,
            (false, None) => Some((None, of_all)),
            (false, Some((cpu, share))) => Some((Some(cpu), of_all + share)),
        }
    }
}

fn source(source: &Source, cpus_per_node: u32) -> Result<(), String> {
    if !(0.0..1.0).contains(&source.keeps) {
        return Err(format!(
            "keeps = {}, expected 0 or more and less than 1",
            source.keeps
        ));
    }
    if source.strikes == Scope::OneCpuOfNode && source.together == Together::Node {
        return Err(
            "strikes = \"one-cpu-of-node\" and together = \"node\" exclude each other".into(),
        );
    }
    if let Some(cpus) = &source.cpus {
        if let Some(cpu) = cpus.iter().find(|&&c| c >= cpus_per_node) {
            return Err(format!(
                "CPU {cpu} does not exist: a node has {cpus_per_node}"
            ));
        }
        if cpus.is_empty() {
            return Err("cpus is empty; omit it to strike all CPUs".into());
        }
    }
    arrivals(&source.arrivals)?;
    match (&source.length, &source.arrivals) {
        (Some(_), Arrivals::Trace { .. }) => {
            Err("a trace has lengths of its own; omit length".into())
        }
        (None, Arrivals::Trace { .. }) => Ok(()),
        (None, _) => Err("length is missing".into()),
        (Some(length), _) => lengths(length),
    }
}

fn arrivals(arrivals: &Arrivals) -> Result<(), String> {
    match arrivals {
        Arrivals::Poisson { rate_per_s } => match (0.0..=1e9).contains(rate_per_s) {
            true => Ok(()),
            false => Err(format!("rate_per_s = {rate_per_s}, expected 0 to 1e9")),
        },
        Arrivals::Periodic {
            period_ns,
            jitter_ns,
            phase_ns,
        } => {
            if *period_ns == 0 {
                return Err("period_ns is 0, expected 1 or more".into());
            }
            if jitter_ns >= period_ns {
                return Err("jitter_ns must be less than period_ns".into());
            }
            if phase_ns.is_some_and(|phase| phase >= *period_ns) {
                return Err("phase_ns must be less than period_ns".into());
            }
            Ok(())
        }
        Arrivals::Trace {
            watched_ns,
            block_ns,
            events,
        } => {
            if *watched_ns == 0 || *block_ns == Some(0) {
                return Err("watched_ns and block_ns must be greater than 0".into());
            }
            if let Some(pair) = events.windows(2).find(|w| w[1][0] < w[0][0]) {
                return Err(format!("the event at {} ns is out of order", pair[1][0]));
            }
            if let Some(last) = events.last().filter(|e| e[0] >= *watched_ns) {
                return Err(format!(
                    "the event at {} ns is beyond watched_ns = {watched_ns}",
                    last[0]
                ));
            }
            match events.iter().find(|e| e[1] > LONGEST_NS) {
                Some(event) => Err(too_long(event[1])),
                None => Ok(()),
            }
        }
    }
}

fn too_long(ns: u64) -> String {
    format!("an event of {ns} ns is too long, at most {LONGEST_NS} ns")
}

fn lengths(lengths: &Lengths) -> Result<(), String> {
    match lengths {
        Lengths::Fixed { ns } if *ns > LONGEST_NS => Err(too_long(*ns)),
        Lengths::Fixed { .. } => Ok(()),
        Lengths::Exponential { mean_ns } => match (0.0..=LONGEST_NS as f64).contains(mean_ns) {
            true => Ok(()),
            false => Err(format!("mean_ns = {mean_ns}, expected 0 to {LONGEST_NS}")),
        },
        Lengths::Empirical { bins, tail } => {
            if let Some(bin) = bins.iter().find(|b| b[0] > LONGEST_NS) {
                return Err(too_long(bin[0]));
            }
            let count = bins.iter().map(|b| b[1]);
            let beyond = tail.map_or(0, |t| t.count);
            match count.chain([beyond]).try_fold(0_u64, u64::checked_add) {
                None => Err("the number of events exceeds 64 bits".into()),
                Some(0) => Err("all bins are empty".into()),
                Some(_) => tail.as_ref().map_or(Ok(()), check_tail),
            }
        }
        Lengths::Pareto(tail) => check_tail(tail),
    }
}

fn check_tail(tail: &Tail) -> Result<(), String> {
    if tail.threshold_ns > LONGEST_NS {
        return Err(too_long(tail.threshold_ns));
    }
    if !(tail.scale_ns > 0.0 && tail.scale_ns <= LONGEST_NS as f64) {
        return Err(format!(
            "scale_ns = {}, expected more than 0",
            tail.scale_ns
        ));
    }
    // An exponential variate is at most 36.8; beyond this shape the longest event overflows.
    if !(-10.0..=10.0).contains(&tail.shape) {
        return Err(format!("shape = {}, expected -10 to 10", tail.shape));
    }
    match tail.limit_ns {
        Some(limit) if limit < tail.threshold_ns => {
            Err("limit_ns is less than threshold_ns".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(change: impl FnOnce(&mut Source)) -> NoiseModel {
        let mut source = Source::task(
            "crond",
            Arrivals::Poisson { rate_per_s: 10.0 },
            Some(Lengths::Fixed { ns: 100 }),
        );
        change(&mut source);
        NoiseModel {
            cpus_per_node: 2,
            sources: vec![source],
            ..NoiseModel::default()
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_source() {
        let tail = |scale_ns, shape, limit_ns| {
            Some(Lengths::Pareto(Tail {
                count: 1,
                threshold_ns: 100,
                scale_ns,
                shape,
                limit_ns,
            }))
        };
        let trace = |watched_ns, block_ns, events: &[[u64; 2]]| Arrivals::Trace {
            watched_ns,
            block_ns,
            events: events.to_vec(),
        };
        let periodic = |period_ns, jitter_ns, phase_ns| Arrivals::Periodic {
            period_ns,
            jitter_ns,
            phase_ns,
        };
        assert_eq!(model(|_| {}).check(), Ok(()));
        let refused: Vec<(NoiseModel, &str)> = vec![
            (model(|s| s.keeps = 1.0), "keeps"),
            (model(|s| s.keeps = f64::NAN), "keeps"),
            (model(|s| s.cpus = Some(vec![2])), "CPU 2"),
            (model(|s| s.cpus = Some(vec![])), "empty"),
            (model(|s| s.length = None), "missing"),
            (model(|s| s.length = tail(0.0, 0.1, None)), "scale_ns"),
            (model(|s| s.length = tail(1.0, 11.0, None)), "shape"),
            (model(|s| s.length = tail(1.0, 1.0, None)), "no mean"),
            (model(|s| s.length = tail(1.0, 0.1, Some(99))), "limit_ns"),
            (model(|s| s.arrivals = periodic(0, 0, None)), "period_ns"),
            (model(|s| s.arrivals = periodic(5, 5, None)), "jitter_ns"),
            (model(|s| s.arrivals = periodic(5, 0, Some(5))), "phase_ns"),
            (model(|s| s.arrivals = trace(9, None, &[])), "omit length"),
            (
                model(|s| s.arrivals = Arrivals::Poisson { rate_per_s: -1.0 }),
                "rate_per_s",
            ),
        ];
        for (model, word) in refused {
            let text = model.check().unwrap_err().to_string();
            assert!(text.contains(word) && text.contains("task:crond"), "{text}");
        }
        let often = model(|s| s.arrivals = Arrivals::Poisson { rate_per_s: 9.9e6 });
        let text = often.check().unwrap_err().to_string();
        assert!(text.contains("99.0 %"), "{text}");
        // On one CPU of two: on average, half the time is left.
        let one = model(|s| {
            s.arrivals = Arrivals::Poisson { rate_per_s: 9.9e6 };
            s.cpus = Some(vec![1]);
        });
        let text = one.check().unwrap_err().to_string();
        assert!(text.contains("99.0 % of CPU 1"), "{text}");
        let half = model(|s| {
            s.arrivals = Arrivals::Poisson { rate_per_s: 9.9e6 };
            (s.cpus, s.strikes) = (Some(vec![1]), Scope::OneCpuOfNode);
        });
        assert_eq!(half.check(), Ok(()));
        assert!((half.busiest().unwrap().1 - 0.495).abs() < 1e-9);
        for (arrivals, word) in [
            (trace(0, None, &[]), "greater than 0"),
            (trace(9, Some(0), &[]), "greater than 0"),
            (trace(9, None, &[[5, 1], [4, 1]]), "order"),
            (trace(9, None, &[[9, 1]]), "beyond watched_ns"),
            (trace(9, None, &[[1, u64::MAX]]), "too long"),
        ] {
            let text = model(|s| (s.arrivals, s.length) = (arrivals, None))
                .check()
                .unwrap_err()
                .to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}

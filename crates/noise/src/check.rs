//! What a model must hold before it can strike.

use crate::lengths::LONGEST_NS;
use crate::model::{Arrivals, Lengths, NoiseModel, Scope, Source, Tail, Together};

/// Why a model cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelProblem {
    /// Another version of the form.
    #[error("schema {0} is not known, known is {known}", known = NoiseModel::SCHEMA)]
    Schema(u32),
    /// Nodes without CPUs.
    #[error("cpus_per_node is 0; a node has at least 1 CPU")]
    NoCpus,
    /// More sources than words of the simulation can name.
    #[error("{0} sources are too many, at most {most} can be", most = MOST_SOURCES)]
    TooManySources(usize),
    /// No time is left for ranks.
    #[error("all sources together take {:.1} % of a CPU, at least 1 % must be left for ranks", .share * 100.0)]
    Overload {
        /// Share of a CPU's time, from 0.99 on.
        share: f64,
    },
    /// Something about a source.
    #[error("source '{name}': {problem}")]
    Source {
        /// Class and name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// With more noise than this work hardly ever ends.
const MOST_TAKEN: f64 = 0.99;

/// Sources that a drawn word can name.
const MOST_SOURCES: usize = 32_768;

impl NoiseModel {
    /// Everything that a reader cannot see from the form alone.
    ///
    /// # Errors
    /// The first thing that cannot be, with its source.
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
        let mut share = 0.0;
        for one in &self.sources {
            source(one, self.cpus_per_node).map_err(|p| named(one, p))?;
            share += one.stolen(self.cpus_per_node).ok_or_else(|| {
                let problem = "lengths of a shape from 1 on have no mean; give a limit_ns";
                named(one, problem.into())
            })?;
        }
        match share < MOST_TAKEN {
            true => Ok(()),
            false => Err(ModelProblem::Overload { share }),
        }
    }
}

fn source(source: &Source, cpus_per_node: u32) -> Result<(), String> {
    if !(0.0..1.0).contains(&source.keeps) {
        return Err(format!("keeps = {} is not from 0 to below 1", source.keeps));
    }
    if source.strikes == Scope::OneCpuOfNode && source.together == Together::Node {
        return Err(
            "an event strikes one CPU of the node, or all of them together, not both".into(),
        );
    }
    if let Some(cpus) = &source.cpus {
        if let Some(cpu) = cpus.iter().find(|&&c| c >= cpus_per_node) {
            return Err(format!(
                "CPU {cpu} is not among the {cpus_per_node} of a node"
            ));
        }
        if cpus.is_empty() {
            return Err("cpus is empty; leave it out to strike all".into());
        }
    }
    arrivals(&source.arrivals)?;
    match (&source.length, &source.arrivals) {
        (Some(_), Arrivals::Trace { .. }) => {
            Err("a trace has the lengths of its events; leave length out".into())
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
            false => Err(format!("rate_per_s = {rate_per_s} is not from 0 to 1e9")),
        },
        Arrivals::Periodic {
            period_ns,
            jitter_ns,
            phase_ns,
        } => {
            if *period_ns == 0 {
                return Err("period_ns is 0".into());
            }
            if jitter_ns >= period_ns {
                return Err("jitter_ns is not below period_ns".into());
            }
            if phase_ns.is_some_and(|phase| phase >= *period_ns) {
                return Err("phase_ns is not below period_ns".into());
            }
            Ok(())
        }
        Arrivals::Trace {
            watched_ns,
            block_ns,
            events,
        } => {
            if *watched_ns == 0 || *block_ns == Some(0) {
                return Err("watched_ns and block_ns are above 0".into());
            }
            if let Some(pair) = events.windows(2).find(|w| w[1][0] < w[0][0]) {
                return Err(format!("the event at {} ns is not in order", pair[1][0]));
            }
            if let Some(last) = events.last().filter(|e| e[0] >= *watched_ns) {
                return Err(format!(
                    "the event at {} ns begins after the {watched_ns} ns that were watched",
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
    format!("an event of {ns} ns is too long; at most {LONGEST_NS} ns can be")
}

fn lengths(lengths: &Lengths) -> Result<(), String> {
    match lengths {
        Lengths::Fixed { ns } if *ns > LONGEST_NS => Err(too_long(*ns)),
        Lengths::Fixed { .. } => Ok(()),
        Lengths::Exponential { mean_ns } => match (0.0..=LONGEST_NS as f64).contains(mean_ns) {
            true => Ok(()),
            false => Err(format!("mean_ns = {mean_ns} is not from 0 to {LONGEST_NS}")),
        },
        Lengths::Empirical { bins, tail } => {
            if let Some(bin) = bins.iter().find(|b| b[0] > LONGEST_NS) {
                return Err(too_long(bin[0]));
            }
            let count = bins.iter().map(|b| b[1]);
            let beyond = tail.map_or(0, |t| t.count);
            match count.chain([beyond]).try_fold(0_u64, u64::checked_add) {
                None => Err("more events than 64 bits can count".into()),
                Some(0) => Err("no bin has an event".into()),
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
        return Err(format!("scale_ns = {} is not above 0", tail.scale_ns));
    }
    // An exponential variate is at most 36.8: beyond this the longest event would be no number.
    if !(-10.0..=10.0).contains(&tail.shape) {
        return Err(format!("shape = {} is not from -10 to 10", tail.shape));
    }
    match tail.limit_ns {
        Some(limit) if limit < tail.threshold_ns => Err("limit_ns is below threshold_ns".into()),
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
            (
                model(|s| s.arrivals = trace(9, None, &[])),
                "leave length out",
            ),
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
        for (arrivals, word) in [
            (trace(0, None, &[]), "above 0"),
            (trace(9, Some(0), &[]), "above 0"),
            (trace(9, None, &[[5, 1], [4, 1]]), "order"),
            (trace(9, None, &[[9, 1]]), "after"),
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

//! The points of a prediction, each the answer to a question.

use crate::QuietStep;
use crate::budget::{
    Budget, GRAIN_RANKS, RANKS, RANKS_WITHOUT, RATE_RANKS, events_per_ns, stand_in, stretched,
};
use crate::bulk::Program;
use crate::question::{Answer, Approach, Effort, Question, QuestionError, answer_within};
use idlewave_noise::NoiseModel;
use idlewave_run::SourceKind;
use idlewave_run::findings::Topology;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Replications of a point, and of a point with so many ranks that each replication is accurate.
const REPLICATIONS: u32 = 8;
const REPLICATIONS_OF_MANY: u32 = 4;
const MANY: u64 = 4096;
/// Steps of the first look at a run; each further look takes this many times as many.
const LOOK: u64 = 8;
/// The coarsest granularity of the curves over granularity, in nanoseconds.
const COARSEST_NS: f64 = 1e8;

/// A simulated point of a curve.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// The ranks that the point is for.
    pub ranks: u64,
    /// Ranks that were simulated.
    pub simulated: u64,
    /// Steps of each replication that were averaged.
    pub steps: u64,
    /// What came out.
    pub answer: Answer,
}

/// What all points share.
pub(crate) struct Curves<'a> {
    pub model: &'a NoiseModel,
    pub removed: &'a [(SourceKind, String, Vec<usize>)],
    pub seed: u64,
    pub budget: Budget,
    pub stop: &'a AtomicBool,
    /// Number of finished jobs, for the progress display.
    pub done: &'a AtomicU64,
}

impl Curves<'_> {
    /// Slow-down against ranks, up to the largest number that the budget affords.
    pub fn curve(&self, topology: Topology, step: &QuietStep) -> Result<Vec<Point>, QuestionError> {
        let mut points: Vec<Point> = Vec::new();
        let per_ns = events_per_ns(self.model);
        let work_ns = step.work.as_f64() * stretched(self.model);
        let runs = replications(RANKS[0]);
        let least = self
            .budget
            .point(topology, RANKS[0], runs, per_ns * work_ns);
        if least.is_none() {
            return Ok(points);
        }
        let first = step.program(topology, RANKS[0]);
        let afford = |ns| self.budget.point(topology, RANKS[0], runs, per_ns * ns);
        let most_ns = self.budget.longest_point(RANKS[0], runs, per_ns);
        let Some((_, mut step_ns)) = self.affordable(&first, most_ns, afford)? else {
            return Ok(points);
        };
        for ranks in RANKS {
            let simulated = stand_in(topology, ranks);
            if let Some(same) = points.last().filter(|p| p.simulated == simulated) {
                let again = same.clone();
                points.push(Point { ranks, ..again });
                continue;
            }
            // More ranks never wait less, so the step at the smaller number of ranks is a lower
            // bound.
            let events = per_ns * step_ns;
            let runs = replications(simulated);
            let afford = |variants: usize| {
                let made = runs * variants as u32;
                let steps = self.budget.point(topology, simulated, made, events)?;
                Some((steps, self.budget.longest_point(simulated, made, per_ns)))
            };
            let wanted = RANKS_WITHOUT.contains(&ranks) || simulated < ranks;
            let with_all = wanted.then(|| afford(1 + self.removed.len())).flatten();
            let Some((steps, most_ns)) = with_all.or_else(|| afford(1)) else {
                break;
            };
            let program = step.program(topology, simulated);
            let Some(answer) = self.ask(&program, steps, runs, with_all.is_some(), most_ns)? else {
                break;
            };
            step_ns = answer.step_ns.mean;
            points.push(Point {
                ranks,
                simulated,
                steps,
                answer,
            });
        }
        Ok(points)
    }

    /// A point of a curve over granularity; `None` if the budget does not afford it.
    pub fn grain(
        &self,
        topology: Topology,
        step: &QuietStep,
    ) -> Result<Option<Point>, QuestionError> {
        let coarsest = COARSEST_NS * stretched(self.model);
        let ranks = GRAIN_RANKS
            .into_iter()
            .find(|&ranks| self.afford_grain(topology, ranks, coarsest).is_some())
            .unwrap_or(RANKS[0]);
        self.cheap(topology, ranks, step)
    }

    /// A point of the curve over the rate of the noise, on a ring; `None` if the budget does not
    /// afford it.
    pub fn rate(&self, step: &QuietStep) -> Result<Option<Point>, QuestionError> {
        self.cheap(Topology::Ring1d, RATE_RANKS, step)
    }

    fn afford_grain(&self, topology: Topology, ranks: u64, step_ns: f64) -> Option<u64> {
        let events = events_per_ns(self.model) * step_ns;
        self.budget
            .grain(topology, ranks, REPLICATIONS_OF_MANY, events)
    }

    /// A point for which the budget of a curve over granularity is enough.
    fn cheap(
        &self,
        topology: Topology,
        ranks: u64,
        step: &QuietStep,
    ) -> Result<Option<Point>, QuestionError> {
        let afford = |step_ns| self.afford_grain(topology, ranks, step_ns);
        if afford(step.work.as_f64() * stretched(self.model)).is_none() {
            return Ok(None);
        }
        let program = step.program(topology, ranks);
        let (runs, per_ns) = (REPLICATIONS_OF_MANY, events_per_ns(self.model));
        let most_ns = self.budget.longest_grain(ranks, runs, per_ns);
        self.alone(&program, runs, most_ns, afford)
    }

    /// The point of a measured program; `None` if the budget does not afford it.
    pub fn check(&self, program: &Program) -> Result<Option<Point>, QuestionError> {
        let ranks = u64::from(program.ranks);
        let per_ns = events_per_ns(self.model);
        let afford = |ns: f64| {
            let events = per_ns * ns;
            self.budget
                .point(Topology::Barrier, ranks, REPLICATIONS, events)
        };
        let most_ns = self.budget.longest_point(ranks, REPLICATIONS, per_ns);
        self.alone(program, REPLICATIONS, most_ns, afford)
    }

    /// The point of a program with as many steps as `afford` allows; `None` if it allows none.
    fn alone(
        &self,
        program: &Program,
        runs: u32,
        most_ns: f64,
        afford: impl Fn(f64) -> Option<u64>,
    ) -> Result<Option<Point>, QuestionError> {
        let Some((steps, _)) = self.affordable(program, most_ns, afford)? else {
            return Ok(None);
        };
        let answer = self.ask(program, steps, runs, false, most_ns)?;
        let ranks = u64::from(program.ranks);
        Ok(answer.map(|answer| Point {
            ranks,
            simulated: ranks,
            steps,
            answer,
        }))
    }

    /// The steps that `afford` allows for a mean step, and that mean, in nanoseconds; `None` if it
    /// allows none.
    ///
    /// The mean is taken from ever longer looks: where noise takes most of a CPU, delays pile up,
    /// and the first steps of a run say little about its later ones. The last look has at least an
    /// eighth of the run's steps, and none has more steps than the run. All looks together, with
    /// one replication each, cost at most 8/7 of one replication of the run.
    fn affordable(
        &self,
        program: &Program,
        most_ns: f64,
        afford: impl Fn(f64) -> Option<u64>,
    ) -> Result<Option<(u64, f64)>, QuestionError> {
        let mut look = 1;
        while let Some(seen) = self.ask(program, look, 1, false, most_ns)? {
            let step_ns = seen.step_ns.mean;
            let Some(steps) = afford(step_ns) else {
                break;
            };
            if look > 1 && steps <= LOOK * look {
                return Ok(Some((steps, step_ns)));
            }
            look *= LOOK;
        }
        Ok(None)
    }

    /// `None` if the ranks of a replication take more than `most_ns` on average.
    fn ask(
        &self,
        program: &Program,
        steps: u64,
        runs: u32,
        without: bool,
        most_ns: f64,
    ) -> Result<Option<Answer>, QuestionError> {
        let without: Vec<(String, Vec<usize>)> = match without {
            true => {
                let named = self.removed.iter();
                named
                    .map(|(_, name, n)| (name.clone(), n.clone()))
                    .collect()
            }
            false => Vec::new(),
        };
        let approach = Approach::of(program);
        let warm_up = steps / 16;
        let question = Question {
            program,
            model: self.model,
            steps: steps - warm_up,
            warm_up,
            delays: &[],
            without: &without,
            approach,
        };
        let effort = Effort {
            seed: self.seed,
            least: runs,
            most: runs,
            precision: 1.0,
        };
        match answer_within(&question, &effort, most_ns, self.stop, &|_, _| {}) {
            Err(QuestionError::TooLong) => Ok(None),
            answer => answer.map(Some),
        }
    }
}

fn replications(ranks: u64) -> u32 {
    match ranks < MANY {
        true => REPLICATIONS,
        false => REPLICATIONS_OF_MANY,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use idlewave_noise::{Arrivals, Lengths, Source};
    use idlewave_units::Nanos;

    /// Takes a CPU of a node for 490 ms of each second.
    fn half(cpu: u32, phase_ns: u64) -> Source {
        let arrivals = Arrivals::Periodic {
            period_ns: 1_000_000_000,
            jitter_ns: 0,
            phase_ns: Some(phase_ns),
        };
        let length = Lengths::Fixed { ns: 490_000_000 };
        Source {
            cpus: Some(vec![cpu]),
            ..Source::task("half", arrivals, Some(length))
        }
    }

    #[test]
    fn the_mean_step_is_that_of_a_run_and_not_of_its_start() {
        // Both CPUs are free for 20 ms of each second, first at the start; then one or the other is
        // taken, so a few steps take all the rest.
        let model = NoiseModel {
            cpus_per_node: 2,
            sources: vec![half(0, 20_000_000), half(1, 510_000_000)],
            ..NoiseModel::default()
        };
        let curves = Curves {
            model: &model,
            removed: &[],
            seed: 1,
            budget: Budget::of(0.0),
            stop: &AtomicBool::new(false),
            done: &AtomicU64::new(0),
        };
        let step = QuietStep {
            work: Nanos::from_micros(20),
            exchange: None,
            barrier: Some(Nanos::from_micros(1)),
        };
        let program = step.program(Topology::Barrier, 2);
        let ask_within = |steps, runs, most_ns| {
            let answer = curves.ask(&program, steps, runs, false, most_ns);
            answer.unwrap()
        };
        let ask = |steps, runs| ask_within(steps, runs, f64::INFINITY).unwrap();
        let start = ask(16, 2);
        assert!(start.step_ns.mean < 22_000.0, "{start:?}");
        let run = ask(20_000, 1);
        assert!(run.step_ns.mean > 900_000.0, "{run:?}");

        let affordable = |most_ns, afford: fn(f64) -> Option<u64>| {
            curves.affordable(&program, most_ns, afford).unwrap()
        };
        let (steps, step_ns) = affordable(f64::INFINITY, |_| Some(20_000)).unwrap();
        assert_eq!(steps, 20_000);
        assert!((step_ns / run.step_ns.mean - 1.0).abs() < 0.1, "{step_ns}");
        // What the whole run would cost is known before it is made.
        let cheap = |ns: f64| (ns < 100_000.0).then_some(20_000);
        assert_eq!(affordable(f64::INFINITY, cheap), None);
        // A run that turns out to be longer than was afforded is given up, and so is a look.
        for most_ns in [1e7, 1e9, 1.5e10] {
            assert_eq!(ask_within(20_000, 1, most_ns), None);
        }
        for most_ns in [1e7, 1e9] {
            assert_eq!(affordable(most_ns, |_| Some(20_000)), None);
        }
    }
}

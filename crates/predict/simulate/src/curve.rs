//! The points of a prediction, each the answer to a question.

use crate::QuietStep;
use crate::budget::{
    Budget, GRAIN_RANKS, RANKS, RANKS_WITHOUT, events_per_ns, stand_in, stretched,
};
use crate::bulk::Program;
use crate::question::{Answer, Approach, Effort, Question, QuestionError, answer};
use idlewave_noise::NoiseModel;
use idlewave_run::SourceKind;
use idlewave_run::findings::Topology;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Replications of a point, and of a point with so many ranks that each replication is accurate.
const REPLICATIONS: u32 = 8;
const REPLICATIONS_OF_MANY: u32 = 4;
const MANY: u64 = 4096;
/// Steps used to estimate the mean step at the start of a run.
const GLANCE: u64 = 16;
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
        let Some(mut step_ns) = self.glance(&step.program(topology, RANKS[0]))? else {
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
                let runs = runs * variants as u32;
                self.budget.point(topology, simulated, runs, events)
            };
            let wanted = RANKS_WITHOUT.contains(&ranks) || simulated < ranks;
            let with_all = wanted.then(|| afford(1 + self.removed.len())).flatten();
            let Some(steps) = with_all.or_else(|| afford(1)) else {
                break;
            };
            let program = step.program(topology, simulated);
            let answer = self.ask(&program, steps, runs, with_all.is_some())?;
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
        let (per_ns, stretched) = (events_per_ns(self.model), stretched(self.model));
        let afford = |ranks: u64, step_ns: f64| {
            let runs = REPLICATIONS_OF_MANY;
            self.budget.grain(topology, ranks, runs, per_ns * step_ns)
        };
        let ranks = GRAIN_RANKS
            .into_iter()
            .find(|&ranks| afford(ranks, COARSEST_NS * stretched).is_some())
            .unwrap_or(RANKS[0]);
        if afford(ranks, step.work.as_f64() * stretched).is_none() {
            return Ok(None);
        }
        let program = step.program(topology, ranks);
        let steps = self.glance(&program)?.and_then(|ns| afford(ranks, ns));
        let Some(steps) = steps else {
            return Ok(None);
        };
        let answer = self.ask(&program, steps, REPLICATIONS_OF_MANY, false)?;
        Ok(Some(Point {
            ranks,
            simulated: ranks,
            steps,
            answer,
        }))
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
        let Some(step_ns) = self.glance(program)? else {
            return Ok(None);
        };
        let steps = afford(step_ns).unwrap_or(GLANCE);
        let answer = self.ask(program, steps, REPLICATIONS, false)?;
        Ok(Some(Point {
            ranks,
            simulated: ranks,
            steps,
            answer,
        }))
    }

    /// A rough estimate of the mean step, in nanoseconds; `None` if even that costs too much.
    fn glance(&self, program: &Program) -> Result<Option<f64>, QuestionError> {
        // Where noise takes nearly all of a CPU, steps are many times longer than their work.
        let first_ns = self.ask(program, 1, 1, false)?.step_ns.mean;
        let events = events_per_ns(self.model) * first_ns;
        let (runs, ranks) = (2, u64::from(program.ranks));
        if !self.budget.glance(ranks, u64::from(runs) * GLANCE, events) {
            return Ok(None);
        }
        Ok(Some(self.ask(program, GLANCE, runs, false)?.step_ns.mean))
    }

    fn ask(
        &self,
        program: &Program,
        steps: u64,
        runs: u32,
        without: bool,
    ) -> Result<Answer, QuestionError> {
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
        answer(&question, &effort, self.stop, &|_, _| {})
    }
}

fn replications(ranks: u64) -> u32 {
    match ranks < MANY {
        true => REPLICATIONS,
        false => REPLICATIONS_OF_MANY,
    }
}

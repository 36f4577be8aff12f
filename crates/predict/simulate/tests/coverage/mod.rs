//! Random programs and models: the slow-down estimated from a short run against that of a long one.

use idlewave_noise::{Arrivals, Clock, Lengths, NoiseModel, Source, uniform};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::question::{Answer, Effort, Extent, Question, QuestionError, answer};
use idlewave_simulate::{Shape, Stencil, Work};
use std::fmt;
use std::sync::atomic::AtomicBool;

const WORK_NS: u64 = 100_000;
/// The long run has this many times the rank-steps of the short one, in this many replications.
const LONGER: u64 = 4;
const LONG_RUNS: u32 = 32;

/// A random program and model.
pub struct Trial {
    #[allow(dead_code)] // The example shows it.
    pub what: String,
    program: Program,
    model: NoiseModel,
    seed: u64,
}

/// The results of both runs.
pub struct Seen {
    short: Answer,
    long: Answer,
}

impl Seen {
    /// Whether the short run's interval contains the long run's value, whose own interval widens
    /// it.
    pub fn holds(&self) -> bool {
        let (short, long) = (&self.short.slowdown, &self.long.slowdown);
        (short.mean - long.mean).abs() <= short.half_width().hypot(long.half_width())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (short, long) = (&self.short.slowdown, &self.long.slowdown);
        let errors = (short.mean - long.mean) / short.half_width();
        let percent = |part: f64| 100.0 * part / long.mean;
        write!(
            f,
            "{} {:>7.3} % off {:>6.2} half-widths of {:>6.3} % (n = {}), unseen {:>6.3} %, long run {:.3e} to {:.3} %,",
            if self.holds() { "  " } else { "NO" },
            percent(short.mean - long.mean),
            errors,
            percent(short.half_width()),
            self.short.replications,
            percent(self.short.unseen.mean),
            long.mean,
            percent(long.half_width()),
        )
    }
}

impl Trial {
    /// The trial with this number.
    pub fn draw(seed: u64, number: u32) -> Trial {
        let mut drawn = 64 * number;
        let mut next = || {
            drawn += 1;
            uniform(seed, drawn)
        };
        let mut log = |least: f64, most: f64| least * (most / least).powf(next());
        let ranks = log(8.0, 600.0) as u32;
        let sources: Vec<(f64, f64)> = (0..3).map(|_| (log(1e-3, 0.3), log(1e3, 2e5))).collect();
        let mut kind = |count: u32| (next() * f64::from(count)) as u32;
        let count = 1 + kind(3) as usize;
        let source =
            |(number, &(per_step, ns)): (usize, &(f64, f64)), regular: bool, fixed: bool| {
                let rate_per_s = per_step * 1e9 / WORK_NS as f64;
                let arrivals = match regular {
                    true => Arrivals::Periodic {
                        period_ns: (1e9 / rate_per_s) as u64,
                        jitter_ns: 0,
                        phase_ns: None,
                    },
                    false => Arrivals::Poisson { rate_per_s },
                };
                let lengths = match fixed {
                    true => Lengths::Fixed { ns: ns as u64 },
                    false => Lengths::Exponential { mean_ns: ns },
                };
                Source::task(format!("{number}"), arrivals, Some(lengths))
            };
        let sources = sources[..count]
            .iter()
            .enumerate()
            .map(|s| source(s, kind(4) == 0, kind(2) == 0))
            .collect();
        let model = NoiseModel {
            sources,
            clock: match kind(5) {
                0 => Clock::Work,
                _ => Clock::Wall,
            },
            ..NoiseModel::default()
        };
        let dims = kind(8);
        let shape = match dims {
            1 => Shape::plane(ranks as usize),
            2 => Shape::cuboid(ranks as usize),
            _ => Shape {
                x: ranks as usize,
                y: 1,
                z: 1,
            },
        };
        let stencil = Stencil {
            shape,
            reach: 1 + kind(2),
            periodic: kind(4) > 0,
            one_sided: kind(4) == 0,
        };
        let waits = match kind(4) {
            0 => Wait::Blocking,
            _ => Wait::All,
        };
        let coupled = match dims {
            0 => Phase::Collective {
                operation: Collective::Allreduce,
                algorithm: Algorithm::RecursiveDoubling,
                bytes: 8,
            },
            _ => Phase::Exchange {
                stencil,
                bytes: 8,
                wait: waits,
            },
        };
        let what = format!("{ranks} ranks, {coupled:?}, {model:?}");
        let program = Program {
            ranks,
            phases: vec![Phase::Compute(Work::Same(WORK_NS)), coupled],
            costs: Parameters::FREE,
        };
        Trial {
            what,
            program,
            model,
            seed: seed.wrapping_add(number.into()),
        }
    }

    /// Runs it with this many rank-steps per replication.
    pub fn run(&self, rank_steps: u64) -> Result<Seen, QuestionError> {
        let go = AtomicBool::new(false);
        let short = Extent::within(&self.program, &self.model, rank_steps, u64::MAX);
        let effort = Effort {
            seed: self.seed,
            least: 4,
            most: 16,
            precision: 0.05,
        };
        let question = short.question(&self.program, &self.model, &[]);
        let short = answer(&question, &effort, &go, &|_, _| {})?;
        let steps = LONGER * rank_steps / u64::from(self.program.ranks);
        let long = Question {
            program: &self.program,
            steps,
            warm_up: steps / 2,
            approach: None,
            ..question
        };
        let effort = Effort {
            seed: !self.seed,
            least: LONG_RUNS,
            most: LONG_RUNS,
            ..effort
        };
        let long = answer(&long, &effort, &go, &|_, _| {})?;
        Ok(Seen { short, long })
    }
}

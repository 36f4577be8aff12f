//! Plays the program of a question until it is done or stopped.
//!
//! Most questions are about computation and an exchange whose messages cost all ranks the same;
//! these run on the lockstep engine, which does a billion rank-steps per second. Computation and a
//! barrier of no cost run in closed form, all others on the general engine. All engines agree on
//! every rank.

use super::closed::Closed;
use super::error::QuestionError;
use crate::bulk::{Engine, OneOff, Phase, Program, Wait};
use crate::lockstep::{Lockstep, LockstepConfig};
use idlewave_noise::Noise;
use std::sync::atomic::{AtomicBool, Ordering};

/// A running program.
pub(super) struct Runner<'a> {
    form: Form<'a>,
    /// The sum of the times of all ranks, in nanoseconds, beyond which the run ends as too long.
    most: Option<u128>,
    /// Steps between two checks of that limit and of the stop flag.
    stride: u64,
}

/// The engine for a program.
enum Form<'a> {
    Fast(Box<Lockstep<'a>>),
    Closed(Closed<'a>),
    General(Box<Engine<'a>>),
}

/// Steps of the fast engine between two checks of the stop flag.
const STRIDE: u64 = 64;
/// The same for a run with a limit: where noise takes most of a CPU, a few steps may exceed it by
/// far.
const STRIDE_WITHIN: u64 = 8;

impl<'a> Runner<'a> {
    /// `most_ns` is the mean time of the ranks beyond which the run ends as too long; infinite for
    /// no limit.
    pub fn new(
        program: &Program,
        noise: &'a Noise,
        delays: &[OneOff],
        most_ns: f64,
    ) -> Result<Self, QuestionError> {
        let form = Form::of(program, noise, delays)?;
        let most = most_ns.is_finite();
        let most = most.then(|| (most_ns * f64::from(program.ranks)) as u128);
        let stride = match (&form, most) {
            (Form::Fast(_), None) => STRIDE,
            (Form::Fast(_), Some(_)) => STRIDE_WITHIN,
            _ => 1,
        };
        Ok(Runner { form, most, stride })
    }

    /// Takes this many steps.
    pub fn advance(&mut self, steps: u64, stop: &AtomicBool) -> Result<(), QuestionError> {
        let mut left = steps;
        while left > 0 {
            let stride = left.min(self.stride);
            match &mut self.form {
                Form::Fast(engine) => engine.advance(stride)?,
                Form::Closed(closed) => closed.step()?,
                Form::General(engine) => engine.step()?,
            }
            left -= stride;
            check(stop)?;
            if self.most.is_some_and(|most| self.sum() > most) {
                return Err(QuestionError::TooLong);
            }
        }
        Ok(())
    }

    /// The sum of the times of all ranks, in nanoseconds.
    pub fn sum(&self) -> u128 {
        let sum = |times: &[u64]| times.iter().map(|&t| u128::from(t)).sum();
        match &self.form {
            Form::Fast(engine) => sum(&engine.times()),
            Form::Closed(closed) => closed.sum(),
            Form::General(engine) => sum(engine.times()),
        }
    }
}

impl<'a> Form<'a> {
    fn of(program: &Program, noise: &'a Noise, delays: &[OneOff]) -> Result<Self, QuestionError> {
        if delays.is_empty() {
            if let Some(closed) = Closed::of(program, noise) {
                return Ok(Form::Closed(closed));
            }
        }
        let fast = match delays.is_empty() {
            true => as_lockstep(program),
            false => None,
        };
        // What the fast engine rejects, the general one can run or report better.
        if let Some(Ok(engine)) = fast.map(|config| Lockstep::new(config, noise)) {
            return Ok(Form::Fast(Box::new(engine)));
        }
        let engine = Engine::new(program, noise, delays)?;
        Ok(Form::General(Box::new(engine)))
    }
}

/// Advances the general engine by this many steps.
pub(super) fn advance(
    engine: &mut Engine<'_>,
    steps: u64,
    stop: &AtomicBool,
) -> Result<(), QuestionError> {
    for _ in 0..steps {
        engine.step()?;
        check(stop)?;
    }
    Ok(())
}

/// Checks the stop flag.
fn check(stop: &AtomicBool) -> Result<(), QuestionError> {
    // Relaxed: it only has to be seen eventually.
    match stop.load(Ordering::Relaxed) {
        true => Err(QuestionError::Stopped),
        false => Ok(()),
    }
}

/// The program for the fast engine; `None` if it has another form.
pub(super) fn as_lockstep(program: &Program) -> Option<LockstepConfig> {
    let (work, exchange, pause) = match &program.phases[..] {
        [Phase::Compute(work), exchange] => (work, exchange, 0),
        [Phase::Compute(work), exchange, Phase::Pause(pause)] => (work, exchange, *pause),
        _ => return None,
    };
    let Phase::Exchange {
        stencil,
        bytes,
        wait: Wait::All,
    } = exchange
    else {
        return None;
    };
    program.sends_for_free(*bytes).then(|| LockstepConfig {
        work: work.clone(),
        ..LockstepConfig::new(*stencil, 0, pause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::{Parameters, PerByte};
    use crate::{Shape, Stencil, Work};
    use idlewave_noise::{Arrivals, Lengths, NoiseModel, Scope, Source, Together};
    use idlewave_run::SourceKind;
    use idlewave_units::{Bytes, Nanos};
    use proptest::prelude::*;

    proptest! {
        /// The engines agree rank by rank and nanosecond by nanosecond.
        #[test]
        fn both_engines_agree_on_programs_that_both_can_express(
            sides in (1_usize..9, 1_usize..5, 1_usize..4), reach in 1_u32..4, periodic: bool, one_sided: bool,
            works in proptest::collection::vec(0_u64..20_000, 160), same: bool, pause in 0_u64..500,
            rates in proptest::collection::vec((1e2..9e4_f64, 0_u64..5_000), 0..3), regular: bool, seed: u64,
        ) {
            let shape = Shape { x: sides.0, y: sides.1, z: sides.2 };
            let ranks = shape.ranks();
            let work = match same {
                true => Work::Same(works[0]),
                false => Work::Each(works[..ranks].to_vec()),
            };
            let source = |&(rate, ns): &(f64, u64)| Source {
                kind: SourceKind::Task,
                name: "x".into(),
                strikes: Scope::EachCpu,
                together: Together::Alone,
                cpus: None,
                keeps: 0.0,
                arrivals: match regular {
                    true => Arrivals::Periodic { period_ns: (1e9 / rate) as u64, jitter_ns: 0, phase_ns: None },
                    false => Arrivals::Poisson { rate_per_s: rate },
                },
                length: Some(Lengths::Fixed { ns }),
                fit: None,
            };
            let model = NoiseModel { sources: rates.iter().map(source).collect(), ..NoiseModel::default() };
            let noise = Noise::new(&model, seed, 0, |_| true).unwrap();
            let stencil = Stencil { shape, reach, periodic, one_sided };
            let program = Program {
                ranks: ranks as u32,
                phases: vec![
                    Phase::Compute(work),
                    Phase::Exchange { stencil, bytes: 8, wait: Wait::All },
                    Phase::Pause(pause),
                ],
                costs: Parameters {
                    latency: Nanos::ZERO,
                    overhead: Nanos::ZERO,
                    gap: Nanos::ZERO,
                    gap_per_byte: PerByte::ZERO,
                    overhead_per_byte: PerByte::ZERO,
                    rendezvous: Bytes::new(8),
                },
            };
            let mut fast = Lockstep::new(as_lockstep(&program).unwrap(), &noise).unwrap();
            let mut general = Engine::new(&program, &noise, &[]).unwrap();
            for _ in 0..7 {
                general.step().unwrap();
                fast.advance(1).unwrap();
                prop_assert_eq!(&fast.times()[..], general.times());
            }
        }
    }

    proptest! {
        /// Also under noise that strikes the ranks of a node together or leaves part of the speed,
        /// with both clocks.
        #[test]
        fn a_barrier_of_no_cost_in_one_go_is_that_of_the_general_engine(
            ranks in 1_u32..40, works in proptest::collection::vec(0_u64..20_000, 40), same: bool, pause in 0_u64..500,
            rates in proptest::collection::vec((1e2..5e4_f64, 0_u64..9_000, any::<bool>(), 0_u8..2), 0..3), exposure: bool, seed: u64,
        ) {
            let source = |&(rate_per_s, ns, node, part): &(f64, u64, bool, u8)| Source {
                together: if node { Together::Node } else { Together::Alone },
                keeps: 0.5 * f64::from(part),
                ..Source::task("x", Arrivals::Poisson { rate_per_s }, Lengths::Fixed { ns })
            };
            let model = NoiseModel {
                cpus_per_node: 3,
                clock: if exposure { idlewave_noise::Clock::Work } else { idlewave_noise::Clock::Wall },
                sources: rates.iter().map(source).filter(|s| s.stolen(3).is_some_and(|t| t < 0.3)).collect(),
                ..NoiseModel::default()
            };
            let noise = Noise::new(&model, seed, 0, |_| true).unwrap();
            let barrier = Phase::Collective {
                operation: crate::bulk::Collective::Barrier,
                algorithm: crate::bulk::Algorithm::Dissemination,
                bytes: 1,
            };
            let work = match same {
                true => Work::Same(works[0]),
                false => Work::Each(works[..ranks as usize].to_vec()),
            };
            let program = Program {
                ranks,
                phases: vec![Phase::Compute(work), barrier, Phase::Pause(pause)],
                costs: Parameters::FREE,
            };
            let mut closed = Closed::of(&program, &noise).unwrap();
            let mut general = Engine::new(&program, &noise, &[]).unwrap();
            for _ in 0..9 {
                general.step().unwrap();
                closed.step().unwrap();
                prop_assert_eq!(closed.sum(), general.times().iter().map(|&t| u128::from(t)).sum::<u128>());
            }
        }
    }

    #[test]
    fn programs_of_other_costs_are_not_for_the_fast_engine() {
        let shape = Shape { x: 4, y: 1, z: 1 };
        let free = Parameters {
            latency: Nanos::ZERO,
            overhead: Nanos::ZERO,
            gap: Nanos::ZERO,
            gap_per_byte: PerByte::ZERO,
            ..Parameters::default()
        };
        let program = |wait, costs| Program {
            ranks: 4,
            phases: vec![
                Phase::Compute(Work::Same(1)),
                Phase::Exchange {
                    stencil: Stencil::nearest(shape),
                    bytes: 8,
                    wait,
                },
            ],
            costs,
        };
        assert!(as_lockstep(&program(Wait::All, free)).is_some());
        assert!(as_lockstep(&program(Wait::Blocking, free)).is_none());
        let one = Nanos::from_nanos(1);
        for costs in [
            Parameters {
                latency: one,
                ..free
            },
            Parameters {
                overhead: one,
                ..free
            },
            Parameters { gap: one, ..free },
            Parameters {
                gap_per_byte: PerByte::from_nanos(1),
                ..free
            },
            Parameters {
                rendezvous: Bytes::new(7),
                ..free
            },
        ] {
            assert!(as_lockstep(&program(Wait::All, costs)).is_none());
        }
    }
}

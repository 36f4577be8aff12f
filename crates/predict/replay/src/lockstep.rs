//! Lockstep runs as programs for the simulation: the undisturbed computation as measured, with the
//! same coupling.

use idlewave_run::findings::{Estimate, Findings, LockstepFindings};
use idlewave_run::{Coupling, ExchangeVariant, Manifest, Neighbourhood, PhaseKind};
use idlewave_simulate::bulk::{Algorithm, Collective, Phase, Program, Wait};
use idlewave_simulate::goal::Parameters;
use idlewave_simulate::{Shape, Stencil, Work};
use idlewave_units::Nanos;

/// A measured lockstep run, and how to simulate one like it.
#[derive(Clone, Debug, PartialEq)]
pub struct LikeLockstep {
    /// Index of its phase in the manifest.
    pub phase: u32,
    /// Its name in the findings.
    pub name: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of measured steps.
    pub steps: u64,
    /// Mean measured step, in nanoseconds.
    pub step_ns: Estimate,
    /// Undisturbed computation of each rank.
    compute: Vec<u64>,
    /// Undisturbed step, in nanoseconds.
    pub quiet_ns: u64,
    /// Mean communication of a step beyond the longest computation, in nanoseconds.
    comm: u64,
    coupling: Coupling,
    /// `None` for more than three dimensions.
    shape: Option<Shape>,
    neighbourhood: Neighbourhood,
    variant: ExchangeVariant,
}

impl LikeLockstep {
    /// The lockstep runs of a bundle that have at least one step.
    pub fn all(manifest: &Manifest, findings: &Findings) -> Vec<LikeLockstep> {
        let like = |found| LikeLockstep::of(manifest, found);
        findings.lockstep.iter().filter_map(like).collect()
    }

    fn of(manifest: &Manifest, found: &LockstepFindings) -> Option<LikeLockstep> {
        let phase = manifest.phases.get(found.phase as usize)?;
        let PhaseKind::Lockstep {
            coupling,
            sides,
            neighbourhood,
            variant,
            ..
        } = &phase.kind
        else {
            return None;
        };
        let compute: Vec<u64> = found.compute.iter().map(|c| c.get()).collect();
        let longest = compute.iter().copied().max()?;
        let step = found.step.as_f64();
        let slow_messages = found.slow_messages.map_or(0, Nanos::get);
        let slow_messages = slow_messages / found.iterations.max(1);
        let of = |slowdown: f64| step * (1.0 + slowdown);
        (found.iterations > 0 && longest > 0).then(|| LikeLockstep {
            phase: found.phase,
            name: found.name.clone(),
            ranks: found.ranks,
            steps: found.iterations,
            step_ns: Estimate {
                value: of(found.slowdown.value),
                low: of(found.slowdown.low),
                high: of(found.slowdown.high),
                n: found.slowdown.n,
                method: found.slowdown.method.clone(),
            },
            compute,
            quiet_ns: found.step.get().max(longest),
            comm: found.step.get().saturating_sub(longest) + slow_messages,
            coupling: *coupling,
            shape: Shape::of_sides(sides),
            neighbourhood: *neighbourhood,
            variant: *variant,
        })
    }

    /// Undisturbed computation of the rank that computes longest, in nanoseconds.
    pub fn longest_ns(&self) -> u64 {
        self.compute.iter().copied().max().unwrap_or(0)
    }

    /// The program on this many ranks. Ranks beyond the measured ones reuse the measured times in
    /// turn.
    ///
    /// Communication is a pause after the wait that uses no CPU. At any rank count it lasts as long
    /// as it did on average where no noise struck.
    pub fn program(&self, ranks: u32) -> Program {
        let each: Vec<u64> = (0..ranks as usize)
            .map(|r| self.compute[r % self.compute.len()])
            .collect();
        let work = |share: fn(u64) -> u64| Work::Each(each.iter().map(|&ns| share(ns)).collect());
        let exchange = |wait| Phase::Exchange {
            stencil: self.stencil(ranks),
            bytes: 1,
            wait,
        };
        let all = |operation, algorithm| Phase::Collective {
            operation,
            algorithm,
            bytes: 1,
        };
        let mut phases = match (self.coupling, self.variant) {
            (Coupling::Neighbours, ExchangeVariant::NonBlocking) => {
                vec![Phase::Compute(work(|ns| ns)), exchange(Wait::All)]
            }
            (Coupling::Neighbours, ExchangeVariant::Blocking) => {
                vec![Phase::Compute(work(|ns| ns)), exchange(Wait::Blocking)]
            }
            (Coupling::Neighbours, ExchangeVariant::Overlapped) => vec![
                Phase::Compute(work(|ns| ns - ns / 2)),
                exchange(Wait::Overlapped(work(|ns| ns / 2))),
            ],
            (Coupling::Reduce, _) => vec![
                Phase::Compute(work(|ns| ns)),
                all(Collective::Reduce, Algorithm::Binomial),
            ],
            (Coupling::Barrier | Coupling::Allreduce | Coupling::Alltoall, _) => vec![
                Phase::Compute(work(|ns| ns)),
                all(Collective::Barrier, Algorithm::Dissemination),
            ],
        };
        phases.push(Phase::Pause(self.comm));
        Program {
            ranks,
            phases,
            costs: Parameters::FREE,
        }
    }

    /// The run's own decomposition at its own size; at another size, the one nearest to a cube with
    /// the same number of dimensions.
    fn stencil(&self, ranks: u32) -> Stencil {
        let n = ranks as usize;
        let dimensions = |shape: Shape| shape.sides().len();
        let shape = match self.shape {
            Some(own) if own.ranks() == n => own,
            Some(own) if dimensions(own) == 2 => Shape::plane(n),
            Some(own) if dimensions(own) == 3 => Shape::cuboid(n),
            _ => Shape::line(n),
        };
        Stencil::within(shape, self.neighbourhood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_noise::{Noise, NoiseModel};
    use idlewave_run::testing::{empty_manifest, quiet_lockstep};
    use idlewave_run::{Phase as RunPhase, WaitsFor};
    use idlewave_simulate::bulk::Engine;

    fn like(coupling: Coupling, variant: ExchangeVariant, sides: &[u32]) -> LikeLockstep {
        LikeLockstep {
            phase: 0,
            name: "x".into(),
            ranks: 4,
            steps: 10,
            step_ns: Estimate {
                value: 1_200.0,
                low: 1_100.0,
                high: 1_300.0,
                n: 10,
                method: String::new(),
            },
            quiet_ns: 1_050,
            compute: vec![1_000, 900],
            comm: 50,
            coupling,
            shape: Shape::of_sides(sides),
            neighbourhood: Neighbourhood::default(),
            variant,
        }
    }

    /// In the program messages take their average time; in the undisturbed step, their shortest.
    #[test]
    fn slow_messages_are_in_the_program_and_not_in_the_undisturbed_step() {
        let nanos = Nanos::from_nanos;
        let mut manifest = empty_manifest();
        manifest.phases.push(RunPhase {
            kind: PhaseKind::Lockstep {
                coupling: Coupling::Barrier,
                work_steps: 1,
                work_target: nanos(1_000),
                message_bytes: 8,
                sides: Vec::new(),
                neighbourhood: Neighbourhood::default(),
                variant: ExchangeVariant::NonBlocking,
                ranks: None,
                iterations: 10,
                threshold: nanos(1_000),
                turn: None,
            },
            begin_ns: 0,
            end_ns: 1,
        });
        let found = |slow_messages| LockstepFindings {
            slow_messages,
            ..quiet_lockstep()
        };
        for (slow, comm) in [(None, 50), (Some(nanos(0)), 50), (Some(nanos(700)), 120)] {
            let like = LikeLockstep::of(&manifest, &found(slow)).unwrap();
            assert_eq!((like.quiet_ns, like.comm), (1_050, comm), "{slow:?}");
        }
    }

    /// Neighbours are those of the run, which lists its sides in the opposite order.
    #[test]
    fn ranks_wait_for_those_for_whom_they_waited() {
        let sides = [2, 3];
        let like = LikeLockstep {
            neighbourhood: Neighbourhood {
                one_sided: true,
                ..Neighbourhood::default()
            },
            ..like(Coupling::Neighbours, ExchangeVariant::NonBlocking, &sides)
        };
        let waits = WaitsFor::within(like.coupling, &sides, like.neighbourhood, 6);
        let stencil = like.stencil(6);
        for rank in 0..6 {
            let mut own: Vec<usize> = stencil.sources(rank).chain([rank]).collect();
            own.sort_unstable();
            own.dedup();
            let mut there: Vec<usize> = waits.of(rank).chain([rank]).collect();
            there.sort_unstable();
            there.dedup();
            assert_eq!(own, there, "rank {rank}");
        }
        assert_eq!(like.stencil(16).shape, Shape { x: 4, y: 4, z: 1 });
        assert_eq!(like.stencil(16).neighbourhood(), like.neighbourhood);
    }

    /// Without noise, a step is the longest computation plus the communication, whatever the
    /// coupling.
    #[test]
    fn an_undisturbed_step_is_as_long_as_it_was_measured() {
        let noise = Noise::new(&NoiseModel::default(), 0, 0, |_| true).unwrap();
        use ExchangeVariant::*;
        for (coupling, variant, sides) in [
            (Coupling::Neighbours, NonBlocking, &[][..]),
            (Coupling::Neighbours, Blocking, &[2, 2]),
            (Coupling::Neighbours, Overlapped, &[4]),
            (Coupling::Barrier, NonBlocking, &[]),
            (Coupling::Alltoall, NonBlocking, &[]),
            (Coupling::Reduce, NonBlocking, &[]),
        ] {
            for ranks in [4, 6] {
                let program = like(coupling, variant, sides).program(ranks);
                let mut engine = Engine::new(&program, &noise, &[]).unwrap();
                for _ in 0..20 {
                    engine.step().unwrap();
                }
                let last = engine.times().iter().max().copied();
                assert_eq!(last, Some(20 * 1_050), "{coupling:?} {variant:?}");
            }
        }
    }
}

//! A program as a lockstep run: which ranks wait for which after the computation, and the program
//! in words.

use super::error::BundleError;
use crate::bulk::{Collective, Phase, Program, Wait};
use crate::{Shape, Stencil, Work};
use idlewave_run::{Coupling, ExchangeVariant, Neighbourhood};
use idlewave_units::{Bytes, Nanos};

/// What the bundle's phase says about the program.
#[derive(Debug, PartialEq, Eq)]
pub struct LockstepPhase {
    pub coupling: Coupling,
    pub sides: Vec<u32>,
    pub neighbourhood: Neighbourhood,
    pub variant: ExchangeVariant,
    pub message_bytes: u64,
    /// The longest computation of any rank.
    pub work: Nanos,
}

/// The work of a step.
pub fn work(program: &Program) -> Result<&Work, BundleError> {
    match program.phases.first() {
        Some(Phase::Compute(work)) => Ok(work),
        _ => Err(BundleError::NoLockstep("a step begins with a computation")),
    }
}

impl LockstepPhase {
    /// The part after the computation must be communication in which one rule says which ranks wait
    /// for which.
    pub fn of(program: &Program) -> Result<LockstepPhase, BundleError> {
        let no = |why| Err(BundleError::NoLockstep(why));
        let ns = match work(program)? {
            Work::Same(ns) => *ns,
            Work::Each(ns) => ns.iter().copied().max().unwrap_or(0),
        };
        let mut lockstep = LockstepPhase {
            coupling: Coupling::Neighbours,
            sides: Vec::new(),
            neighbourhood: Neighbourhood::default(),
            variant: ExchangeVariant::NonBlocking,
            message_bytes: 0,
            work: Nanos::from_nanos(ns),
        };
        let mut exchanged: Option<Stencil> = None;
        let mut collective = None;
        for phase in &program.phases[1..] {
            match phase {
                Phase::Compute(_) => return no("a step has one computation"),
                Phase::Pause(_) => {}
                Phase::Exchange {
                    stencil,
                    bytes,
                    wait,
                } => {
                    if exchanged.is_some_and(|s| s != *stencil) {
                        return no("all exchanges of a step have the same neighbours");
                    }
                    exchanged = Some(*stencil);
                    lockstep.variant = match wait {
                        Wait::Blocking => ExchangeVariant::Blocking,
                        Wait::All => ExchangeVariant::NonBlocking,
                        Wait::Overlapped(_) => {
                            return no("all computation of a step comes before its communication");
                        }
                    };
                    lockstep.message_bytes = *bytes;
                    lockstep.sides = stencil.shape.sides();
                    lockstep.neighbourhood = stencil.neighbourhood();
                }
                Phase::Collective {
                    operation, bytes, ..
                } => {
                    let coupling = match operation {
                        Collective::Barrier => Coupling::Barrier,
                        Collective::Allreduce => Coupling::Allreduce,
                        Collective::Alltoall => Coupling::Alltoall,
                        Collective::Reduce => Coupling::Reduce,
                        Collective::Broadcast => {
                            return no(
                                "a broadcast has ranks wait for rank 0 alone, which no lockstep run does",
                            );
                        }
                    };
                    // A rank that waits for all waits for every other rank, whatever comes before
                    // or after.
                    if collective.is_none_or(|c| c == Coupling::Reduce) {
                        collective = Some(coupling);
                        lockstep.message_bytes = *bytes;
                    }
                }
            }
        }
        match (collective, exchanged) {
            (None, None) => return no("a step ends with an exchange or a collective"),
            (Some(Coupling::Reduce), Some(_)) => {
                return no("an exchange and a reduction have no common rule of who waits for whom");
            }
            (Some(coupling), _) => lockstep.coupling = coupling,
            (None, Some(_)) => {}
        }
        Ok(lockstep)
    }
}

/// The program in words: one line for each part of a step and one for the message costs.
pub fn in_words(program: &Program) -> Vec<String> {
    let mut lines: Vec<String> = program.phases.iter().map(phase).collect();
    let c = &program.costs;
    lines.push(format!(
        "messages: latency {} ns, overhead {} ns, gap {} ns, gap per byte {} ns, overhead per byte {} ns, {}",
        c.latency.get(),
        c.overhead.get(),
        c.gap.get(),
        c.gap_per_byte,
        c.overhead_per_byte,
        match c.rendezvous.get() {
            u64::MAX => "no rendezvous".to_owned(),
            bytes => format!("rendezvous above {bytes} bytes"),
        }
    ));
    lines
}

fn time(work: &Work) -> String {
    match work {
        Work::Same(ns) => Nanos::from_nanos(*ns).to_string(),
        Work::Each(all) => {
            let of = |ns: Option<&u64>| Nanos::from_nanos(ns.copied().unwrap_or(0));
            format!("{} to {}", of(all.iter().min()), of(all.iter().max()))
        }
    }
}

fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Compute(work) => format!("compute {}", time(work)),
        Phase::Pause(ns) => format!("pause {}", Nanos::from_nanos(*ns)),
        Phase::Exchange {
            stencil,
            bytes,
            wait,
        } => {
            let Shape { x, y, z } = stencil.shape;
            let how = match wait {
                Wait::Blocking => "one direction after the other",
                Wait::All => "all at once",
                Wait::Overlapped(_) => "all at once, while computing",
            };
            format!(
                "exchange {} with neighbours on {x} x {y} x {z} ranks, reach {}, {}, {}, {how}",
                Bytes::new(*bytes),
                stencil.reach,
                match stencil.periodic {
                    true => "periodic",
                    false => "not periodic",
                },
                match stencil.one_sided {
                    true => "to higher ranks only",
                    false => "both ways",
                },
            )
        }
        Phase::Collective {
            operation,
            algorithm,
            bytes,
        } => format!("{operation} of {} by {algorithm}", Bytes::new(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::Algorithm;

    fn program(phases: Vec<Phase>) -> Program {
        Program {
            ranks: 12,
            phases,
            costs: Default::default(),
        }
    }

    fn exchange(shape: Shape, wait: Wait) -> Phase {
        Phase::Exchange {
            stencil: Stencil::nearest(shape),
            bytes: 64,
            wait,
        }
    }

    fn collective(operation: Collective) -> Phase {
        Phase::Collective {
            operation,
            algorithm: operation.algorithms()[0],
            bytes: 8,
        }
    }

    const PLANE: Shape = Shape { x: 4, y: 3, z: 1 };
    const COMPUTE: Phase = Phase::Compute(Work::Same(1_000));

    #[test]
    fn the_collective_that_waits_for_all_rules() {
        let of = |phases: Vec<Phase>| LockstepPhase::of(&program(phases)).map(|l| l.coupling);
        let all = exchange(PLANE, Wait::All);
        let both = vec![
            COMPUTE,
            all.clone(),
            Phase::Pause(5),
            collective(Collective::Allreduce),
        ];
        assert_eq!(of(both).unwrap(), Coupling::Allreduce);
        assert_eq!(of(vec![COMPUTE, all]).unwrap(), Coupling::Neighbours);
        let mixed = vec![
            COMPUTE,
            collective(Collective::Reduce),
            collective(Collective::Barrier),
        ];
        assert_eq!(of(mixed).unwrap(), Coupling::Barrier);
        let mixed = vec![
            COMPUTE,
            collective(Collective::Alltoall),
            collective(Collective::Reduce),
        ];
        assert_eq!(of(mixed).unwrap(), Coupling::Alltoall);
    }

    #[test]
    fn neighbours_are_those_of_the_stencil() {
        let stencil = Stencil {
            reach: 2,
            periodic: false,
            one_sided: true,
            ..Stencil::nearest(PLANE)
        };
        let wait = Wait::Blocking;
        let found = LockstepPhase::of(&program(vec![
            COMPUTE,
            Phase::Exchange {
                stencil,
                bytes: 64,
                wait,
            },
        ]))
        .unwrap();
        let expected = LockstepPhase {
            coupling: Coupling::Neighbours,
            sides: vec![3, 4],
            neighbourhood: Neighbourhood {
                reach: 2,
                periodic: false,
                one_sided: true,
            },
            variant: ExchangeVariant::Blocking,
            message_bytes: 64,
            work: Nanos::from_micros(1),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_lockstep_run_is_refused_with_the_reason() {
        let other = Shape { x: 12, y: 1, z: 1 };
        let all = exchange(PLANE, Wait::All);
        for (phases, why) in [
            (vec![], "begins with a computation"),
            (vec![all.clone(), COMPUTE], "begins with a computation"),
            (vec![COMPUTE], "ends with an exchange"),
            (vec![COMPUTE, Phase::Pause(1)], "ends with an exchange"),
            (vec![COMPUTE, COMPUTE, all.clone()], "one computation"),
            (
                vec![COMPUTE, all.clone(), exchange(other, Wait::All)],
                "same neighbours",
            ),
            (
                vec![COMPUTE, exchange(PLANE, Wait::Overlapped(Work::Same(1)))],
                "comes before its communication",
            ),
            (vec![COMPUTE, collective(Collective::Broadcast)], "rank 0"),
            (
                vec![COMPUTE, all, collective(Collective::Reduce)],
                "no common rule",
            ),
        ] {
            let error = LockstepPhase::of(&program(phases)).unwrap_err().to_string();
            assert!(error.contains(why), "{error} / {why}");
        }
    }

    #[test]
    fn the_words_have_every_number() {
        let lines = in_words(&program(vec![
            Phase::Compute(Work::Each(vec![1_000, 3_000])),
            exchange(PLANE, Wait::Blocking),
            Phase::Pause(7),
            Phase::Collective {
                operation: Collective::Allreduce,
                algorithm: Algorithm::Ring,
                bytes: 8,
            },
        ]));
        assert_eq!(
            lines,
            [
                "compute 1.00 us to 3.00 us",
                "exchange 64 B with neighbours on 4 x 3 x 1 ranks, reach 1, periodic, both ways, one direction after the other",
                "pause 7 ns",
                "allreduce of 8 B by ring",
                "messages: latency 2500 ns, overhead 1500 ns, gap 1000 ns, gap per byte 6 ns, overhead per byte 0 ns, rendezvous above 65535 bytes",
            ]
        );
    }
}

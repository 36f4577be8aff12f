//! Random programs: arbitrary ones, and some that always terminate.

use super::program::{Op, Program};
use super::random::Random;
use crate::state::Collective;
use idlewave_units::Rank;

impl Program {
    /// An arbitrary program of 2 to 4 ranks and at most `ops` operations.
    pub fn any(random: &mut Random, ops: usize) -> Program {
        let mut program = empty(random);
        let ranks = program.ranks.len();
        for _ in 0..ops {
            let rank = random.below(ranks);
            let op = any_op(random, &program, rank);
            program.ranks[rank].push(op);
        }
        program
    }

    /// A program that terminates for every order of its steps. Both ends of each message, and all
    /// members of each collective, are generated in one order of events, so by induction every
    /// operation completes. Receives from anyone have a tag of their own.
    pub fn ending(random: &mut Random, events: usize) -> Program {
        let mut program = empty(random);
        let ranks = program.ranks.len();
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); ranks];
        for event in 0..events {
            match random.below(8) {
                0 => program.ranks[random.below(ranks)].push(Op::Compute),
                1 => {
                    let communicator = random.below(program.communicators.len()) as u32;
                    let kind = kind(random, &program, communicator);
                    for member in program.communicators[communicator as usize].clone() {
                        program.ranks[member].push(Op::Collective { communicator, kind });
                    }
                }
                2 => gather(random, &mut program, event as i32 + 100),
                3 | 4 => {
                    let rank = random.below(ranks);
                    wait(random, &mut program, &mut open, rank);
                }
                _ => message(random, &mut program, &mut open),
            }
        }
        for (rank, left) in open.into_iter().enumerate() {
            if !left.is_empty() && !random.one_in(4) {
                program.ranks[rank].push(Op::WaitAll(left));
            }
        }
        program
    }

    /// Drops, duplicates, swaps or replaces one operation: often the program no longer terminates.
    pub fn broken(mut self, random: &mut Random) -> Program {
        let rank = random.below(self.ranks.len());
        let at = random.below(self.ranks[rank].len());
        let new = any_op(random, &self, rank);
        let ops = &mut self.ranks[rank];
        if ops.is_empty() {
            ops.push(new);
            return self;
        }
        match random.below(3) {
            0 => ops[at] = Op::Compute,
            1 if at + 1 < ops.len() => {
                // Waits refer to operations by index, so only unreferenced ones may be swapped.
                let plain = |op: &Op| {
                    !matches!(
                        op,
                        Op::Send {
                            blocking: false,
                            ..
                        } | Op::Receive {
                            blocking: false,
                            ..
                        } | Op::WaitAll(_)
                            | Op::WaitAny(_)
                    )
                };
                if plain(&ops[at]) && plain(&ops[at + 1]) {
                    ops.swap(at, at + 1);
                }
            }
            _ => ops[at] = new,
        }
        self
    }
}

/// Ranks without operations, in a world and perhaps a smaller communicator.
fn empty(random: &mut Random) -> Program {
    let ranks = 2 + random.below(3);
    let mut communicators = vec![(0..ranks).collect::<Vec<_>>()];
    if random.one_in(2) {
        let without = random.below(ranks);
        let some = (0..ranks).filter(|r| ranks == 2 || *r != without);
        communicators.push(some.collect());
    }
    Program {
        ranks: vec![Vec::new(); ranks],
        communicators,
    }
}

fn kind(random: &mut Random, program: &Program, communicator: u32) -> Collective {
    let members = &program.communicators[communicator as usize];
    let root = Rank::new(members[random.below(members.len())] as u32);
    match random.below(6) {
        0 | 1 => Collective::Barrier,
        2 => Collective::AllToAll(random.below(2) as u16),
        3 => Collective::FromRoot { which: 0, root },
        4 => Collective::ToRoot { which: 0, root },
        _ => Collective::Other(0),
    }
}

fn any_op(random: &mut Random, program: &Program, rank: usize) -> Op {
    let mine: Vec<u32> = (0..program.communicators.len() as u32)
        .filter(|c| program.communicators[*c as usize].contains(&rank))
        .collect();
    let communicator = mine[random.below(mine.len())];
    let members = &program.communicators[communicator as usize];
    let peer = members[random.below(members.len())];
    let blocking = !random.one_in(3);
    let posted = program.ranks[rank].iter().enumerate().filter(|(_, op)| {
        matches!(
            op,
            Op::Send {
                blocking: false,
                ..
            } | Op::Receive {
                blocking: false,
                ..
            }
        )
    });
    let posted: Vec<usize> = posted.map(|(at, _)| at).collect();
    match random.below(12) {
        0..=3 => Op::Send {
            communicator,
            to: peer,
            tag: random.below(2) as i32,
            rendezvous: random.one_in(2),
            blocking,
        },
        4..=7 => Op::Receive {
            communicator,
            from: (!random.one_in(3)).then_some(peer),
            tag: (!random.one_in(4)).then_some(random.below(2) as i32),
            blocking,
        },
        8 => Op::WaitAll(posted),
        9 => Op::WaitAny(posted),
        10 => Op::Collective {
            communicator,
            kind: kind(random, program, communicator),
        },
        _ if random.one_in(3) => Op::Outside,
        _ => Op::Compute,
    }
}

fn message(random: &mut Random, program: &mut Program, open: &mut [Vec<usize>]) {
    let communicator = random.below(program.communicators.len()) as u32;
    let members = &program.communicators[communicator as usize];
    let from = random.below(members.len());
    let to = (from + 1 + random.below(members.len() - 1)) % members.len();
    let (from, to) = (members[from], members[to]);
    let tag = random.below(2) as i32;
    let mut push = |rank: usize, op: Op, blocking: bool| {
        if !blocking {
            open[rank].push(program.ranks[rank].len());
        }
        program.ranks[rank].push(op);
    };
    let blocking = random.one_in(2);
    let send = Op::Send {
        communicator,
        to,
        tag,
        rendezvous: random.one_in(2),
        blocking,
    };
    push(from, send, blocking);
    let blocking = random.one_in(2);
    let receive = Op::Receive {
        communicator,
        from: Some(from),
        tag: Some(tag),
        blocking,
    };
    push(to, receive, blocking);
}

/// Some ranks send to one, which receives from anyone.
fn gather(random: &mut Random, program: &mut Program, tag: i32) {
    let ranks = program.ranks.len();
    let to = random.below(ranks);
    let messages = 1 + random.below(3);
    for _ in 0..messages {
        let from = (to + 1 + random.below(ranks - 1)) % ranks;
        program.ranks[from].push(if random.one_in(2) {
            Op::rendezvous(to, tag)
        } else {
            Op::send(to, tag)
        });
    }
    for _ in 0..messages {
        program.ranks[to].push(Op::receive(None, Some(tag)));
    }
}

fn wait(random: &mut Random, program: &mut Program, open: &mut [Vec<usize>], rank: usize) {
    if open[rank].is_empty() {
        return;
    }
    if random.one_in(2) {
        let all = std::mem::take(&mut open[rank]);
        program.ranks[rank].push(Op::WaitAll(all));
    } else {
        // Which one completed is unknown: they stay open.
        program.ranks[rank].push(Op::WaitAny(open[rank].clone()));
    }
}

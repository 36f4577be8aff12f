//! Runs a program step by step by the rules of MPI: messages of one pair arrive in the order in
//! which they were sent; a message takes the first matching posted receive, a receive the first
//! matching message.

use super::program::{Op, Program};
use crate::state::Collective;

/// A send or receive that has not been waited for yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    /// Index of its operation.
    pub(super) op: usize,
    /// Whether it is complete; for a receive, the sender and the tag.
    pub(super) done: Option<(usize, i32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    from: usize,
    op: usize,
    communicator: u32,
    tag: i32,
    rendezvous: bool,
}

/// The state that determines how a run continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    /// By rank: the operation, and whether the rank is inside it.
    pub(super) at: Vec<(usize, bool)>,
    /// By rank, in the order of posting.
    pub(super) open: Vec<Vec<Open>>,
    /// By sender and receiver (sender * ranks + receiver).
    network: Vec<Vec<Message>>,
    /// By receiver: messages that arrived without a receive.
    unexpected: Vec<Vec<Message>>,
}

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A rank starts its next operation (a non-blocking one completes at once).
    Begin(usize),
    /// A rank leaves its operation; with `WaitAny`, because the given operation has completed.
    End(usize, Option<usize>),
    /// The oldest message between two ranks arrives.
    Arrive(usize, usize),
}

/// A program at some point of its run.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) position: Position,
    /// By receiver: (communicator, sender, tag, messages), for the recorder's view only.
    pub(super) received: Vec<Vec<(u32, usize, i32, u64)>>,
}

impl<'a> Machine<'a> {
    /// At the start.
    pub fn new(program: &'a Program) -> Machine<'a> {
        let ranks = program.ranks.len();
        Machine {
            program,
            position: Position {
                at: vec![(0, false); ranks],
                open: vec![Vec::new(); ranks],
                network: vec![Vec::new(); ranks * ranks],
                unexpected: vec![Vec::new(); ranks],
            },
            received: vec![Vec::new(); ranks],
        }
    }

    /// The current or next operation of a rank; `None`: it has exited.
    pub fn op(&self, rank: usize) -> Option<&'a Op> {
        self.program.ranks[rank].get(self.position.at[rank].0)
    }

    /// Whether a rank has exited.
    pub fn exited(&self, rank: usize) -> bool {
        self.op(rank).is_none()
    }

    /// All possible next steps.
    pub fn steps(&self) -> Vec<Step> {
        let ranks = self.program.ranks.len();
        let mut steps = Vec::new();
        for rank in 0..ranks {
            let Some(op) = self.op(rank) else { continue };
            if !self.position.at[rank].1 {
                steps.push(Step::Begin(rank));
                continue;
            }
            match op {
                Op::WaitAny(of) => {
                    let open = || {
                        self.position.open[rank]
                            .iter()
                            .filter(|o| of.contains(&o.op))
                    };
                    if open().next().is_none() {
                        steps.push(Step::End(rank, None));
                    }
                    for done in open().filter(|o| o.done.is_some()) {
                        steps.push(Step::End(rank, Some(done.op)));
                    }
                }
                _ if self.over(rank, op) => steps.push(Step::End(rank, None)),
                _ => {}
            }
        }
        for from in 0..ranks {
            for to in 0..ranks {
                if !self.position.network[from * ranks + to].is_empty() {
                    steps.push(Step::Arrive(from, to));
                }
            }
        }
        steps
    }

    fn over(&self, rank: usize, op: &Op) -> bool {
        let done = |at: usize| {
            self.position.open[rank]
                .iter()
                .all(|o| o.op != at || o.done.is_some())
        };
        match op {
            Op::Compute | Op::Outside => true,
            Op::Send { .. } | Op::Receive { .. } => done(self.position.at[rank].0),
            Op::WaitAll(of) => of.iter().all(|at| done(*at)),
            Op::WaitAny(_) => false,
            Op::Collective { communicator, kind } => self.all_came(rank, *communicator, *kind),
        }
    }

    /// Collectives of a communicator that a rank has entered.
    pub(super) fn entered(&self, rank: usize, communicator: u32) -> Vec<Collective> {
        let (at, inside) = self.position.at[rank];
        let ops = &self.program.ranks[rank];
        ops[..(at + usize::from(inside)).min(ops.len())]
            .iter()
            .filter_map(|op| match op {
                Op::Collective {
                    communicator: c,
                    kind,
                } if *c == communicator => Some(*kind),
                _ => None,
            })
            .collect()
    }

    fn all_came(&self, rank: usize, communicator: u32, kind: Collective) -> bool {
        let number = self.entered(rank, communicator).len();
        let came = |member: usize| {
            self.entered(member, communicator).get(number - 1).copied() == Some(kind)
        };
        let root = match kind {
            Collective::FromRoot { root, .. } | Collective::ToRoot { root, .. } => root.index(),
            _ => rank,
        };
        match kind {
            Collective::FromRoot { .. } => came(root),
            Collective::ToRoot { .. } if root != rank => true,
            Collective::Other(_) => true,
            Collective::Barrier | Collective::AllToAll(_) | Collective::ToRoot { .. } => {
                self.program.communicators[communicator as usize]
                    .iter()
                    .all(|member| came(*member))
            }
        }
    }

    /// Takes a step, one of [`Machine::steps`].
    pub fn take(&mut self, step: Step) {
        match step {
            Step::Begin(rank) => self.begin(rank),
            Step::End(rank, by) => self.end(rank, by),
            Step::Arrive(from, to) => {
                let ranks = self.program.ranks.len();
                let message = self.position.network[from * ranks + to].remove(0);
                self.arrive(to, message);
            }
        }
    }

    fn begin(&mut self, rank: usize) {
        let Some(op) = self.op(rank) else { return };
        let at = self.position.at[rank].0;
        let mut blocks = true;
        match op {
            Op::Send {
                communicator,
                to,
                tag,
                rendezvous,
                blocking,
            } => {
                blocks = *blocking;
                self.position.open[rank].push(Open {
                    op: at,
                    done: (!rendezvous).then_some((*to, *tag)),
                });
                let ranks = self.program.ranks.len();
                self.position.network[rank * ranks + to].push(Message {
                    from: rank,
                    op: at,
                    communicator: *communicator,
                    tag: *tag,
                    rendezvous: *rendezvous,
                });
            }
            Op::Receive { blocking, .. } => {
                blocks = *blocking;
                self.position.open[rank].push(Open { op: at, done: None });
                let first = self.position.unexpected[rank]
                    .iter()
                    .position(|m| fits(op, m));
                if let Some(first) = first {
                    let message = self.position.unexpected[rank].remove(first);
                    self.matched(rank, at, &message);
                }
            }
            Op::Compute => blocks = false,
            Op::WaitAll(_) | Op::WaitAny(_) | Op::Collective { .. } | Op::Outside => {}
        }
        self.position.at[rank] = if blocks { (at, true) } else { (at + 1, false) };
    }

    fn arrive(&mut self, to: usize, message: Message) {
        let first = self.position.open[to]
            .iter()
            .find(|open| open.done.is_none() && fits(&self.program.ranks[to][open.op], &message));
        match first.map(|open| open.op) {
            Some(op) => self.matched(to, op, &message),
            None => self.position.unexpected[to].push(message),
        }
    }

    fn matched(&mut self, to: usize, op: usize, message: &Message) {
        for open in &mut self.position.open[to] {
            if open.op == op {
                open.done = Some((message.from, message.tag));
            }
        }
        if message.rendezvous {
            for open in &mut self.position.open[message.from] {
                if open.op == message.op {
                    open.done = Some((to, message.tag));
                }
            }
        }
    }

    fn end(&mut self, rank: usize, by: Option<usize>) {
        let at = self.position.at[rank].0;
        let over: Vec<usize> = match self.op(rank) {
            Some(Op::WaitAll(of)) => of.clone(),
            Some(Op::WaitAny(_)) => by.into_iter().collect(),
            _ => vec![at],
        };
        let open = std::mem::take(&mut self.position.open[rank]);
        for o in open {
            if !over.contains(&o.op) {
                self.position.open[rank].push(o);
                continue;
            }
            if let (Op::Receive { communicator, .. }, Some((from, tag))) =
                (&self.program.ranks[rank][o.op], o.done)
            {
                let key = (*communicator, from, tag);
                let counts = &mut self.received[rank];
                match counts.iter_mut().find(|c| (c.0, c.1, c.2) == key) {
                    Some(count) => count.3 += 1,
                    None => counts.push((key.0, key.1, key.2, 1)),
                }
            }
        }
        self.position.at[rank] = (at + 1, false);
    }
}

fn fits(op: &Op, message: &Message) -> bool {
    matches!(op, Op::Receive { communicator, from, tag, .. }
        if *communicator == message.communicator
            && from.is_none_or(|from| from == message.from)
            && tag.is_none_or(|tag| tag == message.tag))
}

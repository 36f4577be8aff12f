//! A recorder's view of a machine.

use super::machine::Machine;
use super::program::Op;
use crate::state::{
    Communicator, Count, Doing, Entered, Posted, RankState, Receive, Request, Send, Snapshot, Wait,
};
use idlewave_units::Rank;

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether counters are kept by tag.
    pub tags: bool,
    /// Whether posted receives are known.
    pub posted: bool,
    /// Whether waits for several requests look like loops of tests.
    pub polling: bool,
}

impl Seen {
    /// Everything.
    pub const ALL: Seen = Seen {
        tags: true,
        posted: true,
        polling: false,
    };
}

impl Machine<'_> {
    /// The snapshot at this moment, like one of a frozen program.
    pub fn snapshot(&self, seen: Seen) -> Snapshot {
        let members = |of: &Vec<usize>| Communicator {
            members: of.iter().map(|m| Rank::new(*m as u32)).collect(),
        };
        Snapshot {
            ranks: (0..self.program.ranks.len())
                .map(|rank| self.rank(rank, seen))
                .collect(),
            communicators: self.program.communicators.iter().map(members).collect(),
            polls: 2,
        }
    }

    fn rank(&self, rank: usize, seen: Seen) -> RankState {
        let doing = self.doing(rank, seen);
        let waited = match &doing {
            Doing::Blocked { .. } | Doing::Polling { .. } => self.waited(rank),
            Doing::Computing | Doing::Exited => Vec::new(),
        };
        let posted = self.position.open[rank]
            .iter()
            .filter(|o| !waited.contains(&o.op))
            .filter_map(|o| match self.request(rank, o.op, seen) {
                Some(Request::Receive(r)) => Some(r),
                _ => None,
            })
            .collect();
        let communicators = 0..self.program.communicators.len() as u32;
        RankState {
            epochs: [2, 2],
            doing,
            sent: counts(self.sent(rank), seen.tags),
            received: counts(self.received[rank].clone(), seen.tags),
            entered: communicators
                .filter_map(|communicator| {
                    let entered = self.entered(rank, communicator);
                    Some(Entered {
                        communicator,
                        number: entered.len() as u64,
                        kind: *entered.last()?,
                    })
                })
                .collect(),
            posted: if seen.posted {
                Posted::Known(posted)
            } else {
                Posted::Unknown
            },
        }
    }

    /// Operations with a request that the current one waits for.
    fn waited(&self, rank: usize) -> Vec<usize> {
        let (at, _) = self.position.at[rank];
        match self.op(rank) {
            Some(Op::WaitAll(of) | Op::WaitAny(of)) => self.position.open[rank]
                .iter()
                .map(|o| o.op)
                .filter(|op| of.contains(op))
                .collect(),
            Some(_) => vec![at],
            None => Vec::new(),
        }
    }

    fn doing(&self, rank: usize, seen: Seen) -> Doing {
        let (at, inside) = self.position.at[rank];
        let Some(op) = self.op(rank) else {
            return Doing::Exited;
        };
        if !inside {
            return Doing::Computing;
        }
        let waited = self.waited(rank);
        // A request known to complete without other ranks is not waited for.
        let alone = |op: &usize| {
            matches!(
                self.program.ranks[rank][*op],
                Op::Send {
                    rendezvous: false,
                    ..
                }
            )
        };
        let requests = || -> Vec<Request> {
            waited
                .iter()
                .filter(|op| !alone(op))
                .filter_map(|op| self.request(rank, *op, seen))
                .collect()
        };
        let wait = match op {
            Op::WaitAny(_) if waited.is_empty() || waited.iter().any(alone) => None,
            Op::WaitAny(_) => Some(Wait::Any(requests())),
            Op::WaitAll(_) => Some(Wait::All(requests())),
            Op::Outside => Some(Wait::One(Request::Outside)),
            _ if alone(&at) => None,
            _ => self.request(rank, at, seen).map(Wait::One),
        };
        let several = matches!(op, Op::WaitAny(_) | Op::WaitAll(_));
        match wait {
            None => Doing::Computing,
            Some(wait) if several && seen.polling => Doing::Polling {
                call: 2,
                wait,
                // A loop seen as often as needed, or once less.
                unchanged: 1 + (at as u32 + rank as u32) % 2,
            },
            Some(wait) => Doing::Blocked { call: 1, wait },
        }
    }

    fn request(&self, rank: usize, op: usize, seen: Seen) -> Option<Request> {
        Some(match &self.program.ranks[rank][op] {
            Op::Receive {
                communicator,
                from,
                tag,
                ..
            } => Request::Receive(Receive {
                communicator: *communicator,
                from: from.map(|f| Rank::new(f as u32)),
                tag: tag.filter(|_| seen.tags),
            }),
            Op::Send {
                communicator,
                to,
                tag,
                ..
            } => {
                let before = self.program.ranks[rank][..op].iter();
                let same = before.filter(|other| {
                    matches!(other, Op::Send { communicator: c, to: t, tag: g, .. }
                        if c == communicator && t == to && (g == tag || !seen.tags))
                });
                Request::Send(Send {
                    communicator: *communicator,
                    to: Rank::new(*to as u32),
                    tag: seen.tags.then_some(*tag),
                    number: same.count() as u64 + 1,
                })
            }
            Op::Collective { communicator, kind } => Request::Collective {
                communicator: *communicator,
                number: self.entered(rank, *communicator).len() as u64,
                kind: *kind,
            },
            Op::Compute | Op::WaitAll(_) | Op::WaitAny(_) | Op::Outside => return None,
        })
    }

    /// Every send that was started counts.
    fn sent(&self, rank: usize) -> Vec<(u32, usize, i32, u64)> {
        let (at, inside) = self.position.at[rank];
        self.program.ranks[rank]
            .iter()
            .take(at + usize::from(inside))
            .filter_map(|op| match op {
                Op::Send {
                    communicator,
                    to,
                    tag,
                    ..
                } => Some((*communicator, *to, *tag, 1)),
                _ => None,
            })
            .collect()
    }
}

fn counts(of: Vec<(u32, usize, i32, u64)>, tags: bool) -> Vec<Count> {
    let mut counts: Vec<Count> = of
        .into_iter()
        .map(|(communicator, peer, tag, messages)| Count {
            communicator,
            peer: Rank::new(peer as u32),
            tag: tags.then_some(tag),
            messages,
        })
        .collect();
    counts.sort_unstable();
    counts.dedup_by(|next, kept| {
        let same =
            (next.communicator, next.peer, next.tag) == (kept.communicator, kept.peer, kept.tag);
        if same {
            kept.messages += next.messages;
        }
        same
    });
    counts
}

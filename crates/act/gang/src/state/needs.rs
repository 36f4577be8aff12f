//! What each blocked rank still needs: its wait, minus what is in flight.

use super::counts::{self, Incoming};
use super::snapshot::{Collective, Doing, Posted, Receive, Request, Send, Snapshot, Wait};
use super::verdict::Problem;
use idlewave_units::Rank;

/// What a request still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing more.
    Met,
    /// This rank must continue.
    Rank(Rank),
    /// Some other member must continue.
    Anyone(u32),
    /// All ranks that are late for a collective must continue.
    Late { communicator: u32, number: u64 },
    /// Impossible: another member is in a different collective.
    Mismatch(Rank),
    /// An external event.
    Outside,
}

/// The needs of all ranks, in one list.
pub(super) struct Needs {
    /// By rank: start of its needs; one more for the end.
    pub(super) offsets: Vec<usize>,
    /// One need per request of the rank's wait; none for a rank that does not wait.
    pub(super) needs: Vec<Need>,
    /// By rank: whether it counts as waiting.
    pub(super) waits: Vec<bool>,
}

/// The wait of a rank, if it counts as waiting.
pub(super) fn wait_of(snapshot: &Snapshot, rank: usize) -> Option<(u16, &Wait)> {
    let state = &snapshot.ranks[rank];
    match &state.doing {
        _ if state.moved() => None,
        Doing::Blocked { call, wait } => Some((*call, wait)),
        Doing::Polling {
            call,
            wait,
            unchanged,
        } if *unchanged >= snapshot.polls => Some((*call, wait)),
        Doing::Polling { .. } | Doing::Computing | Doing::Exited => None,
    }
}

impl Needs {
    /// Examines every request once.
    pub(super) fn new(snapshot: &Snapshot) -> Result<Needs, Problem> {
        let given = snapshot.ranks.len();
        let mut all = Needs {
            offsets: Vec::with_capacity(given + 1),
            needs: Vec::with_capacity(given),
            waits: Vec::with_capacity(given),
        };
        let mut incoming = None;
        let mut nth = Nth::default();
        for rank in 0..given {
            all.offsets.push(all.needs.len());
            let wait = wait_of(snapshot, rank);
            all.waits.push(wait.is_some());
            let Some((_, wait)) = wait else { continue };
            let every = matches!(wait, Wait::All(_));
            nth.read(if every { wait.requests() } else { &[] });
            for (at, request) in wait.requests().iter().enumerate() {
                let me = Rank::new(rank as u32);
                let need = match request {
                    Request::Receive(r) => receive(snapshot, me, r, nth.of(at), &mut incoming)?,
                    Request::Send(s) => send(snapshot, me, s)?,
                    Request::Collective {
                        communicator,
                        number,
                        kind,
                    } => collective(snapshot, me, *communicator, *number, *kind)?,
                    Request::Outside => Need::Outside,
                };
                all.needs.push(need);
            }
        }
        all.offsets.push(all.needs.len());
        Ok(all)
    }

    /// The needs of one rank, in the order of its requests.
    pub(super) fn of(&self, rank: usize) -> &[Need] {
        &self.needs[self.offsets[rank]..self.offsets[rank + 1]]
    }
}

/// Of equal receives that must all complete, the n-th needs n messages.
#[derive(Default)]
struct Nth {
    order: Vec<(Receive, usize)>,
    nth: Vec<u64>,
}

impl Nth {
    fn read(&mut self, requests: &[Request]) {
        self.order.clear();
        self.nth.clear();
        self.nth.resize(requests.len(), 1);
        if requests.len() < 2 {
            return;
        }
        for (at, request) in requests.iter().enumerate() {
            if let Request::Receive(r) = request {
                self.order.push((*r, at));
            }
        }
        self.order.sort_unstable();
        for pair in self.order.windows(2) {
            if pair[0].0 == pair[1].0 {
                self.nth[pair[1].1] = self.nth[pair[0].1] + 1;
            }
        }
    }

    fn of(&self, at: usize) -> u64 {
        self.nth.get(at).copied().unwrap_or(1)
    }
}

fn known(snapshot: &Snapshot, me: Rank, communicator: u32) -> Result<(), Problem> {
    if (communicator as usize) < snapshot.communicators.len() {
        return Ok(());
    }
    Err(Problem::Communicator {
        rank: me,
        communicator,
        given: snapshot.communicators.len(),
    })
}

fn receive(
    snapshot: &Snapshot,
    me: Rank,
    receive: &Receive,
    nth: u64,
    incoming: &mut Option<Incoming>,
) -> Result<Need, Problem> {
    known(snapshot, me, receive.communicator)?;
    let (messages, need) = match receive.from {
        Some(from) => (
            counts::under_way(snapshot, from, me, receive)?,
            Need::Rank(from),
        ),
        None => {
            let index = match incoming {
                Some(index) => index,
                None => incoming.insert(Incoming::new(snapshot)?),
            };
            (
                index.under_way(snapshot, me, receive)?,
                Need::Anyone(receive.communicator),
            )
        }
    };
    Ok(if messages >= nth { Need::Met } else { need })
}

/// Messages with the same sender, communicator and tag are matched in the order in which they were
/// sent (MPI 4.1, 3.5). So a message can only be matched if all earlier ones are: each of them is
/// counted as received, or belongs to a posted receive.
fn send(snapshot: &Snapshot, me: Rank, send: &Send) -> Result<Need, Problem> {
    known(snapshot, me, send.communicator)?;
    let Some(peer) = snapshot.ranks.get(send.to.index()) else {
        return Err(Problem::Rank {
            named: send.to,
            given: snapshot.ranks.len(),
        });
    };
    let Posted::Known(posted) = &peer.posted else {
        return Ok(Need::Met);
    };
    let takes = |r: &Receive| {
        r.communicator == send.communicator
            && r.from.is_none_or(|from| from == me)
            && (r.tag.is_none() || send.tag.is_none() || r.tag == send.tag)
    };
    let waited = match &peer.doing {
        Doing::Blocked { wait, .. } | Doing::Polling { wait, .. } => wait.requests(),
        Doing::Computing | Doing::Exited => &[],
    };
    let open = posted.iter().filter(|r| takes(r)).count()
        + waited
            .iter()
            .filter(|r| matches!(r, Request::Receive(r) if takes(r)))
            .count();
    let received = counts::of_peer(&peer.received, send.communicator, me);
    let matched = if send.tag.is_some() && counts::tagged(received) {
        send.number <= counts::received(received, send.tag).saturating_add(open as u64)
    } else {
        // Which of the messages were received is unknown: none, or perhaps this one.
        open > 0 || counts::received(received, None) > 0
    };
    Ok(if matched {
        Need::Met
    } else {
        Need::Rank(send.to)
    })
}

fn collective(
    snapshot: &Snapshot,
    me: Rank,
    communicator: u32,
    number: u64,
    kind: Collective,
) -> Result<Need, Problem> {
    known(snapshot, me, communicator)?;
    let of = |rank: usize| {
        counts::entered(&snapshot.ranks[rank].entered, communicator).map(|e| (e.number, e.kind))
    };
    let entered = of(me.index()).map_or(0, |e| e.0);
    if entered < number {
        return Err(Problem::NotEntered {
            rank: me,
            communicator,
            number,
            entered,
        });
    }
    let late = Need::Late {
        communicator,
        number,
    };
    Ok(match kind {
        Collective::Barrier | Collective::AllToAll(_) => late,
        Collective::ToRoot { root, .. } if root == me => late,
        Collective::FromRoot { root, .. } if root != me => {
            if root.index() >= snapshot.ranks.len() {
                return Err(Problem::Rank {
                    named: root,
                    given: snapshot.ranks.len(),
                });
            }
            match of(root.index()) {
                Some((at, other)) if at == number && other != kind => {
                    if snapshot.ranks[root.index()].moved() {
                        Need::Met
                    } else {
                        Need::Mismatch(root)
                    }
                }
                Some((at, _)) if at >= number => Need::Met,
                _ => Need::Rank(root),
            }
        }
        Collective::ToRoot { .. } | Collective::FromRoot { .. } | Collective::Other(_) => Need::Met,
    })
}

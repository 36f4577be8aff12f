//! Turns the records of all ranks into a snapshot for judging.
//!
//! A page has no member lists of communicators: the ranks that have a communicator are its members,
//! if their number is its size. If a rank is missing (it is still creating the communicator, or its
//! page is unusable), waits on that communicator are unknown.
//!
//! Sends: waiting for a small send means nothing, since it may be buffered and complete in a
//! moment, and a wait for several requests does not show which are still open. So a small send
//! counts as awaited only if it alone can block its call, and only if [`Small`] says that all ranks
//! had enough time to complete what completes without other ranks. Between nodes no time is enough:
//! a library copies such a send into a socket, which accepts it as fast as the network does. From
//! [`idlewave_interpose::state::LARGE`] bytes on, or in synchronous mode, a send waits for its
//! receive and is treated like any other request.

use idlewave_gang::state::{
    Collective, Communicator, Count, Doing, Entered, Posted, RankState, Receive, Request, Send,
    Snapshot, Wait,
};
use idlewave_interpose::state::{class, mode};
use idlewave_interpose::{
    StateCollective, StateCount, StatePair, StatePhase, StateRecord, StateWant,
};
use idlewave_units::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// Which small sends count as stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Small {
    /// None.
    Open,
    /// Those to ranks on the same node: every rank in a call has been in it for long enough, with
    /// enough CPU time, to complete what completes there without other ranks.
    Near,
    /// All.
    All,
}

/// The observation of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The content of its page.
    pub record: StateRecord,
    /// Whether its process is known to have ended.
    pub gone: bool,
    /// Successive looks at which it polled for the same requests, with new polls at each.
    pub unchanged: u32,
    /// Whether its state is not known to hold at the same moment as those of the others: then it
    /// counts as moving.
    pub moved: bool,
    /// Its node, by an arbitrary number.
    pub node: u32,
}

/// A snapshot, and the meaning of its numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapped {
    /// The snapshot to judge.
    pub snapshot: Snapshot,
    /// For each communicator number: its key, and whether it is MPI_COMM_WORLD.
    pub communicators: Vec<(u64, bool)>,
}

/// The snapshot of all ranks of a world, in their order. `polls`: see [`Snapshot::polls`].
pub fn snapshot(ranks: &[Seen], small: Small, polls: u32) -> Snapped {
    let groups = Groups::new(ranks);
    let states = ranks.iter().map(|seen| {
        let stuck = |to: u32| match small {
            Small::Open => false,
            Small::Near => ranks
                .get(to as usize)
                .is_some_and(|other| other.node == seen.node),
            Small::All => true,
        };
        state(seen, &groups, &stuck)
    });
    Snapped {
        snapshot: Snapshot {
            ranks: states.collect(),
            communicators: groups.all,
            polls,
        },
        communicators: groups.names,
    }
}

/// Communicators by key.
struct Groups {
    numbers: BTreeMap<u64, (u32, bool)>,
    all: Vec<Communicator>,
    names: Vec<(u64, bool)>,
}

impl Groups {
    fn new(ranks: &[Seen]) -> Self {
        let mut found: BTreeMap<u64, (Vec<Rank>, bool, BTreeSet<u32>)> = BTreeMap::new();
        for (rank, seen) in ranks.iter().enumerate() {
            for of in &seen.record.communicators {
                let (members, world, sizes) = found.entry(of.key).or_default();
                members.push(Rank::new(rank as u32));
                *world |= of.world;
                sizes.insert(of.members);
            }
        }
        let mut groups = Self {
            numbers: BTreeMap::new(),
            all: Vec::new(),
            names: Vec::new(),
        };
        for (key, (members, world, sizes)) in found {
            let complete = sizes.iter().eq([&(members.len() as u32)]);
            let number = groups.all.len() as u32;
            groups.numbers.insert(key, (number, complete));
            groups.all.push(Communicator { members });
            groups.names.push((key, world));
        }
        groups
    }

    fn number(&self, key: u64) -> Option<u32> {
        self.numbers.get(&key).map(|(number, _)| *number)
    }

    /// The number of a communicator whose members are all known.
    fn whole(&self, key: u64) -> Option<u32> {
        let (number, complete) = self.numbers.get(&key)?;
        complete.then_some(*number)
    }
}

fn state(seen: &Seen, groups: &Groups, stuck: &dyn Fn(u32) -> bool) -> RankState {
    let record = &seen.record;
    let ended = seen.gone || matches!(record.phase, StatePhase::Finalising | StatePhase::Finalised);
    let epochs = match record.unknown {
        // As if it moved: nothing follows from its counters.
        1.. => [1, 1],
        0 if seen.moved => [1, 1],
        0 if ended => [0, 0],
        0 => record.epochs,
    };
    let doing = if ended {
        Doing::Exited
    } else {
        doing(seen, groups, stuck).unwrap_or(Doing::Computing)
    };
    let taken: BTreeSet<u32> = record.wants.iter().filter_map(slot).collect();
    let posted = record.posted.iter();
    let posted = posted.filter(|want| slot(want).is_none_or(|slot| !taken.contains(&slot)));
    let posted = posted.filter_map(|want| match request(want, groups.number(key(want))?) {
        Request::Receive(receive) => Some(receive),
        _ => None,
    });
    let count = |of: fn(&StatePair) -> &StateCount| {
        let mut counts: Vec<Count> = record
            .pairs
            .iter()
            .filter_map(|pair| Some((groups.number(pair.communicator)?, pair)))
            .flat_map(|(communicator, pair)| counts(communicator, pair.peer, of(pair)))
            .collect();
        counts.sort_unstable();
        counts
    };
    let mut entered: Vec<Entered> = record
        .communicators
        .iter()
        .filter(|of| of.entered > 0)
        .filter_map(|of| {
            Some(Entered {
                communicator: groups.number(of.key)?,
                number: of.entered,
                kind: collective(&of.last),
            })
        })
        .collect();
    entered.sort_unstable_by_key(|entered| entered.communicator);
    // A torn record may name a communicator twice; the duplicate is ignored.
    entered.dedup_by_key(|entered| entered.communicator);
    RankState {
        epochs,
        doing,
        sent: count(|pair| &pair.sent),
        received: count(|pair| &pair.received),
        entered,
        posted: Posted::Known(posted.collect()),
    }
}

fn counts(communicator: u32, peer: u32, of: &StateCount) -> Vec<Count> {
    let one = |tag: Option<i32>, messages: u64| Count {
        communicator,
        peer: Rank::new(peer),
        tag,
        messages,
    };
    match of {
        StateCount::Sum(messages) => vec![one(None, *messages)],
        StateCount::Tags(tags) => tags.iter().map(|(tag, n)| one(Some(*tag), *n)).collect(),
    }
}

fn slot(want: &StateWant) -> Option<u32> {
    match want {
        StateWant::Receive { slot, .. } => *slot,
        _ => None,
    }
}

fn key(want: &StateWant) -> u64 {
    match want {
        StateWant::Receive { communicator, .. }
        | StateWant::Send { communicator, .. }
        | StateWant::Collective { communicator, .. } => *communicator,
    }
}

fn request(want: &StateWant, communicator: u32) -> Request {
    match *want {
        StateWant::Receive { from, tag, .. } => Request::Receive(Receive {
            communicator,
            from: from.map(Rank::new),
            tag,
        }),
        StateWant::Send {
            to, tag, number, ..
        } => Request::Send(Send {
            communicator,
            to: Rank::new(to),
            tag,
            number,
        }),
        StateWant::Collective { number, what, .. } => Request::Collective {
            communicator,
            number,
            kind: collective(&what),
        },
    }
}

fn collective(what: &StateCollective) -> Collective {
    let (which, root) = (what.which, Rank::new(what.root));
    match what.class {
        class::BARRIER => Collective::Barrier,
        class::ALL_TO_ALL => Collective::AllToAll(which),
        class::FROM_ROOT => Collective::FromRoot { which, root },
        class::TO_ROOT => Collective::ToRoot { which, root },
        _ => Collective::Other(which),
    }
}

/// `None`: its wait is unknown, or it does not wait.
fn doing(seen: &Seen, groups: &Groups, stuck: &dyn Fn(u32) -> bool) -> Option<Doing> {
    let record = &seen.record;
    if record.phase != StatePhase::Running || record.unknown != 0 {
        return None;
    }
    let wait = wait(record, groups, stuck)?;
    let call = record.function;
    Some(match record.mode {
        mode::ALL | mode::ANY => Doing::Blocked { call, wait },
        _ => Doing::Polling {
            call,
            wait,
            unchanged: seen.unchanged,
        },
    })
}

fn wait(record: &StateRecord, groups: &Groups, stuck: &dyn Fn(u32) -> bool) -> Option<Wait> {
    let any = match record.mode {
        mode::ALL | mode::POLL_ALL => false,
        mode::ANY | mode::POLL_ANY => true,
        _ => return None,
    };
    let mut partial = record.partial;
    let (mut certain, mut small) = (Vec::new(), Vec::new());
    for want in &record.wants {
        let Some(communicator) = groups.whole(key(want)) else {
            partial = true;
            continue;
        };
        let request = request(want, communicator);
        match want {
            StateWant::Send {
                to,
                synchronous: false,
                large: false,
                ..
            } => match (stuck(*to), any) {
                (true, true) => certain.push(request),
                (true, false) => small.push(request),
                (false, _) => partial = true,
            },
            _ => certain.push(request),
        }
    }
    // An unknown request may end the wait.
    if any && partial {
        return None;
    }
    if !certain.is_empty() {
        return Some(match (any, certain.as_slice()) {
            (_, [one]) => Wait::One(*one),
            (true, _) => Wait::Any(certain),
            (false, _) => Wait::All(certain),
        });
    }
    // The call has not returned, so at least one of the small sends is open if there is nothing
    // else to wait for.
    match small.as_slice() {
        _ if partial => None,
        [] => None,
        [one] => Some(Wait::One(*one)),
        _ => Some(Wait::Any(small)),
    }
}

//! The state of a gang with contexts, from what its ranks on all nodes waited for at one switch.
//!
//! Agents examine a gang when it is frozen and drained, and report which switch that was. At the
//! last switch reported by all of its nodes nothing was in flight. So a rank that waited for a
//! message then can get it only from a rank that continues.

use super::gang::Contexts;
use super::{Desk, GangId};
use crate::contexts::{ContextSeen, Placed, Waiting, What};
use crate::control::Observation;
use idlewave_fabric::Tag;
use idlewave_gang::state::{
    Cause, Communicator, Deadlock, Doing, Link, Posted, RankState, Receive, Request, Send,
    Snapshot, State, Wait, judge,
};
use idlewave_units::Rank;

/// The numbers of the waiting calls, as verdicts return them.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// Most lines that describe a deadlock.
const LINES: usize = 8;

impl Desk {
    /// Judges the last reports on a gang.
    pub(super) fn judge_contexts(&mut self, id: GangId) {
        let Some(gang) = self.gangs.get_mut(&id) else {
            return;
        };
        let contexts = gang.contexts.as_ref();
        let Some((observed, waits)) = contexts.and_then(state_of) else {
            return;
        };
        gang.waits = waits;
        if gang.at_rest != Some(observed) {
            gang.at_rest = Some(observed);
            self.judge_rows();
        }
    }
}

/// The state of all ranks at the last switch reported by all nodes, with lines that describe a
/// deadlock.
fn state_of(contexts: &Contexts) -> Option<(Observation, Vec<String>)> {
    let Placed { nodes, .. } = contexts.placed.as_ref()?;
    let seen = |node: &u32| contexts.seen.iter().find(|(of, _)| of.get() == *node);
    let of_node = |node: &u32| seen(node).map(|(_, seen)| seen);
    let epochs = nodes
        .iter()
        .map(|node| of_node(node).and_then(|s| s.looked));
    let epoch = epochs.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
    let waiting = |(rank, node): (u32, &u32)| -> Option<Waiting> {
        let all = |seen: &ContextSeen| seen.waits.iter().find(|w| w.rank == rank).cloned();
        // A rank that started to wait at a later switch is not known to have waited at this one.
        of_node(node).and_then(all).filter(|w| w.since <= epoch)
    };
    let waits: Vec<Option<Waiting>> = (0..).zip(nodes).map(waiting).collect();
    let state = |waiting: &Option<Waiting>| rank_state(waiting.as_ref().map(|w| w.what));
    let members = (0..nodes.len() as u32).map(Rank::new).collect();
    let snapshot = Snapshot {
        ranks: waits.iter().map(state).collect(),
        communicators: vec![Communicator { members }],
        polls: 0,
    };
    let left = |w: &&Option<Waiting>| w.as_ref().is_some_and(|w| w.what == What::Left);
    let alive = nodes.len() - waits.iter().filter(left).count();
    Some(match judge(&snapshot).state {
        State::Terminated => (Observation::Terminated, Vec::new()),
        State::Deadlocked(deadlock) | State::Suspected(deadlock) => {
            let observed = Observation::Deadlocked {
                ranks: deadlock.ranks.len() as u32,
                all: deadlock.ranks.len() == alive,
                polling: false,
            };
            (observed, lines(&deadlock, &waits))
        }
        State::Progressing | State::Idle { .. } | State::Unknown(_) => {
            (Observation::Progressing, Vec::new())
        }
    })
}

fn rank_state(what: Option<What>) -> RankState {
    let blocked = |call, request| Doing::Blocked {
        call,
        wait: Wait::One(request),
    };
    let communicator = 0;
    let doing = match what {
        None => Doing::Computing,
        Some(What::Left) => Doing::Exited,
        Some(What::Receive { from, .. }) => {
            let from = from.map(Rank::new);
            // The rings show that nothing has arrived, whatever its tag.
            let tag = None;
            let receive = Receive {
                communicator,
                from,
                tag,
            };
            blocked(RECEIVE, Request::Receive(receive))
        }
        Some(What::Send { to, .. }) => {
            let send = Send {
                communicator,
                to: Rank::new(to),
                tag: None,
                number: 1,
            };
            blocked(SEND, Request::Send(send))
        }
    };
    RankState {
        epochs: [0, 0],
        doing,
        sent: Vec::new(),
        received: Vec::new(),
        entered: Vec::new(),
        posted: Posted::Known(Vec::new()),
    }
}

/// Which ranks wait for which.
fn lines(deadlock: &Deadlock, waits: &[Option<Waiting>]) -> Vec<String> {
    let links: &[Link] = match &deadlock.cause {
        Cause::Cycle { links, .. } | Cause::Knot { links } => links,
        Cause::Exited { waits } | Cause::Mismatch { waits } => std::slice::from_ref(waits),
        Cause::Unnamed => &[],
    };
    let line = |link: &Link| {
        let of = waits.get(link.from.index()).and_then(Option::as_ref);
        let (from, to) = (link.from, link.to);
        let to = to.map_or_else(|| "any rank".to_owned(), |to| format!("rank {to}"));
        let tag = |tag: u32| match tag < Tag::RESERVED {
            true => format!("tag {tag}"),
            false => "a collective".to_owned(),
        };
        match of.map(|waiting| waiting.what) {
            Some(What::Send { tag: of, .. }) => {
                format!(
                    "rank {from} waits until {to} receives a message ({})",
                    tag(of)
                )
            }
            Some(What::Receive { tag: of, .. }) => {
                format!("rank {from} waits for a message from {to} ({})", tag(of))
            }
            _ => format!("rank {from} waits for {to}"),
        }
    };
    let mut lines: Vec<String> = links.iter().take(LINES).map(line).collect();
    if let Cause::Exited { .. } = deadlock.cause {
        lines.push("which has ended".to_owned());
    }
    if links.len() > LINES {
        lines.push(format!("and {} more", links.len() - LINES));
    }
    lines
}

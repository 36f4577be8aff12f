//! From a snapshot to a verdict.

use super::cause::cause;
use super::groups::groups;
use super::live::Live;
use super::needs::Needs;
use super::snapshot::{Doing, RankState, Request, Snapshot};
use super::verdict::{Deadlock, Problem, State, Verdict};
use idlewave_units::Rank;

/// The verdict on a snapshot. A deadlock never names a rank that can still move, if the snapshot
/// was read as its types demand. A suspicion includes a polling rank, which may leave its loop for
/// a reason that no snapshot shows.
pub fn judge(snapshot: &Snapshot) -> Verdict {
    let mut verdict = read(snapshot);
    let polls = |rank: &Rank| {
        let state = snapshot.ranks.get(rank.index());
        state.is_some_and(|state| matches!(state.doing, Doing::Polling { .. }))
    };
    let dead = verdict.state.dead();
    if !dead.is_some_and(|dead| dead.ranks.iter().any(polls)) {
        return verdict;
    }
    // A rank that is dead even if every polling rank continues is certainly dead.
    let blocked = read(&Snapshot {
        polls: u32::MAX,
        ..snapshot.clone()
    });
    if let State::Deadlocked(_) = blocked.state {
        return Verdict {
            moves: verdict.moves,
            ..blocked
        };
    }
    if let State::Deadlocked(deadlock) = verdict.state {
        verdict.state = State::Suspected(deadlock);
    }
    verdict
}

fn read(snapshot: &Snapshot) -> Verdict {
    follow(snapshot).unwrap_or_else(|problem| Verdict {
        state: State::Unknown(problem),
        moves: true,
        mismatches: Vec::new(),
    })
}

fn follow(snapshot: &Snapshot) -> Result<Verdict, Problem> {
    ordered(snapshot)?;
    let mut needs = Needs::new(snapshot)?;
    let (groups, mismatches) = groups(snapshot, &mut needs)?;
    let mut live = Live::new(snapshot, &needs, &groups);
    let moves = live.live.contains(&true);
    live.outside(&groups);
    let of = |keep: &dyn Fn(usize) -> bool| -> Vec<Rank> {
        (0..snapshot.ranks.len())
            .filter(|rank| keep(*rank))
            .map(|rank| Rank::new(rank as u32))
            .collect()
    };
    let dead = of(&|rank| needs.waits[rank] && !live.live[rank]);
    let state = if !dead.is_empty() {
        State::Deadlocked(Deadlock {
            cause: cause(snapshot, &needs, &groups, &live.live, &dead),
            ranks: dead,
        })
    } else if moves {
        State::Progressing
    } else if needs.waits.contains(&true) {
        State::Idle {
            outside: of(&|rank| {
                super::needs::wait_of(snapshot, rank)
                    .is_some_and(|(_, wait)| wait.requests().contains(&Request::Outside))
            }),
        }
    } else {
        State::Terminated
    };
    Ok(Verdict {
        state,
        moves,
        mismatches,
    })
}

/// The searches rely on the order of the counters.
fn ordered(snapshot: &Snapshot) -> Result<(), Problem> {
    let sorted = |rank: &RankState| {
        rank.sent.is_sorted_by_key(|c| (c.communicator, c.peer))
            && rank.received.is_sorted_by_key(|c| (c.communicator, c.peer))
            && rank
                .entered
                .windows(2)
                .all(|w| w[0].communicator < w[1].communicator)
    };
    // The record of a rank that moved may be inconsistent; the rank is live, so nothing is
    // concluded from it.
    match snapshot.ranks.iter().position(|r| !r.moved() && !sorted(r)) {
        None => Ok(()),
        Some(rank) => Err(Problem::Order {
            rank: Rank::new(rank as u32),
        }),
    }
}

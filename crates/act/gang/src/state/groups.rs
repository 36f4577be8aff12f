//! Collectives in which ranks wait, and the ranks that are late for them.
//!
//! A rank that has entered `e` collectives of a communicator is late for all with a higher number.
//! So the waits of one communicator form a chain: a rank that is late for one is late for all later
//! ones. Each member is listed once, at the first one it is late for.

use super::counts;
use super::needs::{Need, Needs};
use super::snapshot::Snapshot;
use super::verdict::{Mismatch, Problem};
use idlewave_units::Rank;

/// The collectives of one communicator in which ranks wait.
pub(super) struct Group {
    pub(super) communicator: u32,
    /// Their numbers, rising.
    pub(super) numbers: Vec<u64>,
    /// By number: the waiting ranks (rank, index of its need).
    pub(super) waiters: Vec<Vec<(u32, usize)>>,
    /// By number: the ranks that are late for it but for none before.
    pub(super) late: Vec<Vec<u32>>,
}

/// All groups, by communicator. Mismatched waits are marked in `needs`.
pub(super) fn groups(
    snapshot: &Snapshot,
    needs: &mut Needs,
) -> Result<(Vec<Group>, Vec<Mismatch>), Problem> {
    let mut waits: Vec<(u32, u64, u32, usize)> = Vec::new();
    for rank in 0..snapshot.ranks.len() {
        let start = needs.offsets[rank];
        for (at, need) in needs.of(rank).iter().enumerate() {
            if let Need::Late {
                communicator,
                number,
            } = need
            {
                waits.push((*communicator, *number, rank as u32, start + at));
            }
        }
    }
    waits.sort_unstable();
    let mut mismatches = mismatches(snapshot)?;
    let mut groups = Vec::new();
    for same in waits.chunk_by(|a, b| a.0 == b.0) {
        let Some(communicator) = same.first().map(|w| w.0) else {
            continue;
        };
        let mut group = Group {
            communicator,
            numbers: Vec::new(),
            waiters: Vec::new(),
            late: Vec::new(),
        };
        for one in same.chunk_by(|a, b| a.1 == b.1) {
            let number = one.first().map_or(0, |w| w.1);
            if let Some(m) = mismatches
                .iter()
                .find(|m| m.communicator == communicator && m.number == number)
            {
                for (_, _, rank, at) in one {
                    let me = Rank::new(*rank);
                    let other = if m.one.0 == me { m.other.0 } else { m.one.0 };
                    needs.needs[*at] = Need::Mismatch(other);
                }
                continue;
            }
            group.numbers.push(number);
            group.waiters.push(one.iter().map(|w| (w.2, w.3)).collect());
            group.late.push(Vec::new());
        }
        for member in &snapshot.communicators[communicator as usize].members {
            let state = rank(snapshot, *member)?;
            let entered = counts::entered(&state.entered, communicator).map_or(0, |e| e.number);
            let first = group.numbers.partition_point(|n| *n <= entered);
            if let Some(late) = group.late.get_mut(first) {
                late.push(member.get());
            }
        }
        groups.push(group);
    }
    mismatches.sort_by_key(|m| (m.communicator, m.number));
    Ok((groups, mismatches))
}

fn rank(snapshot: &Snapshot, member: Rank) -> Result<&super::snapshot::RankState, Problem> {
    snapshot.ranks.get(member.index()).ok_or(Problem::Rank {
        named: member,
        given: snapshot.ranks.len(),
    })
}

/// Members whose last collective has the same number but another kind; one pair for each number.
fn mismatches(snapshot: &Snapshot) -> Result<Vec<Mismatch>, Problem> {
    let mut found = Vec::new();
    let mut at: Vec<(u64, u32)> = Vec::new();
    for (communicator, of) in snapshot.communicators.iter().enumerate() {
        let communicator = communicator as u32;
        at.clear();
        for member in &of.members {
            let state = rank(snapshot, *member)?;
            if state.moved() {
                continue;
            }
            if let Some(e) = counts::entered(&state.entered, communicator) {
                at.push((e.number, member.get()));
            }
        }
        at.sort_unstable();
        let kind = |r: u32| {
            counts::entered(&snapshot.ranks[r as usize].entered, communicator).map(|e| e.kind)
        };
        for same in at.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, first)) = same.first().copied() else {
                continue;
            };
            let Some(one) = kind(first) else { continue };
            for (_, other_rank) in &same[1..] {
                match kind(*other_rank) {
                    Some(other) if other != one => {
                        found.push(Mismatch {
                            communicator,
                            number,
                            one: (Rank::new(first), one),
                            other: (Rank::new(*other_rank), other),
                        });
                        break;
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(found)
}

//! Messages in flight, from the counters at both ends.

use super::snapshot::{Count, Entered, Receive, Snapshot};
use super::verdict::Problem;
use idlewave_units::Rank;

/// The counters to or from one peer.
pub(super) fn of_peer(counts: &[Count], communicator: u32, peer: Rank) -> &[Count] {
    let key = (communicator, peer);
    let start = counts.partition_point(|c| (c.communicator, c.peer) < key);
    let rest = &counts[start..];
    let end = rest.partition_point(|c| (c.communicator, c.peer) <= key);
    &rest[..end]
}

/// Messages with a tag, or with any tag; without recorded tags, those of all tags.
fn total(counts: &[Count], tag: Option<i32>) -> u64 {
    counts
        .iter()
        .filter(|c| tag.is_none() || c.tag == tag)
        .map(|c| c.messages)
        .fold(0, u64::saturating_add)
}

/// Whether every counter has a tag.
pub(super) fn tagged(counts: &[Count]) -> bool {
    counts.iter().all(|c| c.tag.is_some())
}

/// The collective that a rank entered last.
pub(super) fn entered(entered: &[Entered], communicator: u32) -> Option<&Entered> {
    entered
        .binary_search_by_key(&communicator, |e| e.communicator)
        .ok()
        .map(|at| &entered[at])
}

/// Messages from one peer that are sent, not received, and match a receive.
///
/// # Errors
/// More received than sent, while neither side moved during the read.
pub(super) fn under_way(
    snapshot: &Snapshot,
    from: Rank,
    to: Rank,
    receive: &Receive,
) -> Result<u64, Problem> {
    let (Some(sender), Some(receiver)) = (
        snapshot.ranks.get(from.index()),
        snapshot.ranks.get(to.index()),
    ) else {
        return Err(Problem::Rank {
            named: from.max(to),
            given: snapshot.ranks.len(),
        });
    };
    let sent = of_peer(&sender.sent, receive.communicator, to);
    let received = of_peer(&receiver.received, receive.communicator, from);
    let tag = receive.tag.filter(|_| tagged(sent) && tagged(received));
    let (sent, received) = (total(sent, tag), total(received, tag));
    match sent.checked_sub(received) {
        Some(messages) => Ok(messages),
        None if sender.moved() || receiver.moved() => Ok(0),
        None => Err(Problem::Counts {
            from,
            to,
            sent,
            received,
        }),
    }
}

/// Messages received with a tag, or with any tag.
pub(super) fn received(counts: &[Count], tag: Option<i32>) -> u64 {
    total(counts, tag)
}

/// The senders to each rank; needed only for receives from anyone.
pub(super) struct Incoming {
    offsets: Vec<usize>,
    sources: Vec<(u32, Rank)>,
}

impl Incoming {
    /// One pass over all counters of sent messages.
    pub(super) fn new(snapshot: &Snapshot) -> Result<Incoming, Problem> {
        let given = snapshot.ranks.len();
        let mut offsets = vec![0; given + 1];
        let pairs = || {
            snapshot.ranks.iter().enumerate().flat_map(|(from, rank)| {
                rank.sent
                    .chunk_by(|a, b| (a.communicator, a.peer) == (b.communicator, b.peer))
                    .filter_map(move |same| same.first().map(|c| (from as u32, c)))
            })
        };
        for (_, count) in pairs() {
            match offsets.get_mut(count.peer.index()) {
                Some(offset) if count.peer.index() < given => *offset += 1,
                _ => {
                    return Err(Problem::Rank {
                        named: count.peer,
                        given,
                    });
                }
            }
        }
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum - *offset;
        }
        let mut next = offsets.clone();
        let mut sources = vec![(0, Rank::new(0)); sum];
        for (from, count) in pairs() {
            let at = &mut next[count.peer.index()];
            sources[*at] = (count.communicator, Rank::new(from));
            *at += 1;
        }
        Ok(Incoming { offsets, sources })
    }

    /// Messages from anyone that match a receive.
    pub(super) fn under_way(
        &self,
        snapshot: &Snapshot,
        to: Rank,
        receive: &Receive,
    ) -> Result<u64, Problem> {
        let mut sum: u64 = 0;
        for (communicator, from) in
            &self.sources[self.offsets[to.index()]..self.offsets[to.index() + 1]]
        {
            if *communicator == receive.communicator {
                sum = sum.saturating_add(under_way(snapshot, *from, to, receive)?);
            }
        }
        Ok(sum)
    }
}

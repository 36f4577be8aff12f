//! Ranks that can still move: the least fixpoint over their needs.

use super::groups::Group;
use super::needs::{Need, Needs, wait_of};
use super::snapshot::{Doing, Snapshot, Wait};

/// End of a list.
const END: u32 = u32::MAX;

/// The ranks that wait for each rank, as lists in one array.
struct Watchers {
    head: Vec<u32>,
    next: Vec<(u32, u32)>,
}

impl Watchers {
    fn new(of: usize) -> Watchers {
        Watchers {
            head: vec![END; of],
            next: Vec::new(),
        }
    }

    fn push(&mut self, of: usize, rank: u32) {
        self.next.push((rank, self.head[of]));
        self.head[of] = (self.next.len() - 1) as u32;
    }

    fn take(&mut self, of: usize) -> u32 {
        std::mem::replace(&mut self.head[of], END)
    }
}

/// The fixpoint under construction.
pub(super) struct Live {
    /// By rank: it can move.
    pub(super) live: Vec<bool>,
    pending: Vec<u32>,
    ready: Vec<u32>,
    on_rank: Watchers,
    on_anyone: Watchers,
    /// By rank: its communicators in which someone receives from anyone, and its places in
    /// `late_at` (group, number).
    talks: Watchers,
    late: Watchers,
    late_at: Vec<(u32, u32)>,
    /// By group: number of late ranks that are not live, by collective; and the first one that
    /// still waits.
    missing: Vec<Vec<usize>>,
    first: Vec<usize>,
    outside: Vec<u32>,
}

impl Live {
    /// All ranks that move without external events.
    pub(super) fn new(snapshot: &Snapshot, needs: &Needs, groups: &[Group]) -> Live {
        let ranks = snapshot.ranks.len();
        let mut live = Live {
            live: vec![false; ranks],
            pending: vec![0; ranks],
            ready: Vec::new(),
            on_rank: Watchers::new(ranks),
            on_anyone: Watchers::new(snapshot.communicators.len()),
            talks: Watchers::new(ranks),
            late: Watchers::new(ranks),
            late_at: Vec::new(),
            missing: groups
                .iter()
                .map(|g| g.late.iter().map(Vec::len).collect())
                .collect(),
            first: vec![0; groups.len()],
            outside: Vec::new(),
        };
        for rank in 0..ranks {
            live.read(snapshot, needs, rank);
        }
        for (communicator, of) in snapshot.communicators.iter().enumerate() {
            if live.on_anyone.head[communicator] != END {
                for member in &of.members {
                    live.talks.push(member.index(), communicator as u32);
                }
            }
        }
        for (g, group) in groups.iter().enumerate() {
            for (n, members) in group.late.iter().enumerate() {
                for member in members {
                    live.late.push(*member as usize, live.late_at.len() as u32);
                    live.late_at.push((g as u32, n as u32));
                }
            }
            live.enter(groups, g);
        }
        live.spread(groups);
        live
    }

    /// Assumes that external events arrive.
    pub(super) fn outside(&mut self, groups: &[Group]) {
        for rank in std::mem::take(&mut self.outside) {
            self.met(rank);
        }
        self.spread(groups);
    }

    fn read(&mut self, snapshot: &Snapshot, needs: &Needs, rank: usize) {
        let Some((_, wait)) = wait_of(snapshot, rank) else {
            let state = &snapshot.ranks[rank];
            if state.moved() || state.doing != Doing::Exited {
                self.ready.push(rank as u32);
            }
            return;
        };
        let of = needs.of(rank);
        let met = of.iter().filter(|n| **n == Need::Met).count();
        self.pending[rank] = match wait {
            Wait::Any(_) => u32::from(met == 0 && !of.is_empty()),
            Wait::One(_) | Wait::All(_) => (of.len() - met) as u32,
        };
        if self.pending[rank] == 0 {
            self.ready.push(rank as u32);
            return;
        }
        for need in of {
            match need {
                Need::Rank(peer) => self.on_rank.push(peer.index(), rank as u32),
                Need::Anyone(c) => self.on_anyone.push(*c as usize, rank as u32),
                Need::Outside => self.outside.push(rank as u32),
                Need::Met | Need::Late { .. } | Need::Mismatch(_) => {}
            }
        }
    }

    /// One need of a rank is met.
    fn met(&mut self, rank: u32) {
        let pending = &mut self.pending[rank as usize];
        if *pending > 0 {
            *pending -= 1;
            if *pending == 0 {
                self.ready.push(rank);
            }
        }
    }

    /// Completes collectives for which no rank is missing.
    fn enter(&mut self, groups: &[Group], g: usize) {
        while self.missing[g].get(self.first[g]) == Some(&0) {
            let number = self.first[g];
            self.first[g] += 1;
            for (rank, _) in &groups[g].waiters[number] {
                self.met(*rank);
            }
        }
    }

    fn spread(&mut self, groups: &[Group]) {
        while let Some(rank) = self.ready.pop() {
            let at = rank as usize;
            if std::mem::replace(&mut self.live[at], true) {
                continue;
            }
            let mut next = self.on_rank.take(at);
            while next != END {
                let (waiter, then) = self.on_rank.next[next as usize];
                self.met(waiter);
                next = then;
            }
            let mut talk = self.talks.take(at);
            while talk != END {
                let (communicator, then) = self.talks.next[talk as usize];
                let mut next = self.on_anyone.take(communicator as usize);
                while next != END {
                    let (waiter, then) = self.on_anyone.next[next as usize];
                    self.met(waiter);
                    next = then;
                }
                talk = then;
            }
            let mut late = self.late.take(at);
            while late != END {
                let (place, then) = self.late.next[late as usize];
                let (g, n) = self.late_at[place as usize];
                self.missing[g as usize][n as usize] -= 1;
                self.enter(groups, g as usize);
                late = then;
            }
        }
    }
}

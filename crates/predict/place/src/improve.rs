//! Local search: moves ranks for as long as that lowers the objective.
//!
//! A change is a swap of two ranks, a move to a free slot, or the replacement of a node with all of
//! its ranks by a spare one. Small programs try all swaps and all moves to free slots until none
//! helps, then make a few random changes and repeat, keeping the best of all (iterated local
//! search). In large programs, a rank whose messages use the most loaded resource moves to the node
//! of one of its partners, in exchange for a rank there. Both end after a number of trials, not
//! after a time.

use crate::loads::{Loads, Objective};
use crate::random::Random;
use crate::slots::of_domains;
use crate::traffic::Traffic;
use idlewave_network::{NetworkError, Place};
use idlewave_topology::NodeIndex;
use std::collections::HashMap;

/// Sites for ranks, with their free slots.
#[derive(Clone)]
pub(crate) struct Slots {
    /// Nodes in use, and spare ones.
    nodes: Vec<NodeIndex>,
    spare: Vec<NodeIndex>,
    sites: Vec<u32>,
    free: Vec<u32>,
    /// For each site, its index in `sites`.
    place: HashMap<u32, usize>,
}

impl Slots {
    /// This many slots on each of the nodes, less those of the placement's ranks. Nodes in `others`
    /// that are not in `nodes` are spare.
    pub fn new(loads: &Loads, nodes: &[NodeIndex], others: &[NodeIndex], per_node: u32) -> Self {
        let mut used = nodes.to_vec();
        used.sort_unstable();
        let spare = others.iter().filter(|n| used.binary_search(n).is_err());
        let mut slots = Slots {
            nodes: nodes.to_vec(),
            spare: spare.copied().collect(),
            sites: Vec::new(),
            free: Vec::new(),
            place: HashMap::new(),
        };
        for &node in nodes {
            let first = loads.ways.site(Place { node, domain: 0 });
            let domains = of_domains(per_node, loads.ways.cores(node));
            for (site, free) in (first..).zip(domains).filter(|&(_, free)| free > 0) {
                slots.place.insert(site, slots.sites.len());
                slots.sites.push(site);
                slots.free.push(free);
            }
        }
        slots.take(loads.sites());
        slots
    }

    /// The nodes in use, in their original order.
    pub fn nodes(&self) -> &[NodeIndex] {
        &self.nodes
    }

    /// Replaces a node in use by a spare one.
    fn exchange(&mut self, loads: &Loads, used: usize, spare: usize) {
        let (old, new) = (self.nodes[used], self.spare[spare]);
        (self.nodes[used], self.spare[spare]) = (new, old);
        let first = |node| loads.ways.site(Place { node, domain: 0 });
        for domain in 0..loads.ways.cores(old).len() as u32 {
            if let Some(place) = self.place.remove(&(first(old) + domain)) {
                self.sites[place] = first(new) + domain;
                self.place.insert(first(new) + domain, place);
            }
        }
    }

    fn take(&mut self, at: &[u32]) {
        for site in at {
            if let Some(&place) = self.place.get(site) {
                self.free[place] = self.free[place].saturating_sub(1);
            }
        }
    }

    fn give(&mut self, at: &[u32]) {
        for site in at {
            if let Some(&place) = self.place.get(site) {
                self.free[place] += 1;
            }
        }
    }
}

/// A search with its remaining trials of swaps and moves.
pub(crate) struct Search<'s> {
    pub slots: &'s mut Slots,
    pub random: &'s mut Random,
    pub trials: u64,
}

/// A full round of all swaps may take at most this fraction (1 / `ROUNDS`) of the trials; if it
/// would take more, swaps are chosen by load.
const ROUNDS: u64 = 4;

/// Most random changes by which the search leaves a local optimum.
const KICKS: usize = 3;

/// Swaps tried for each spare node, whose trial costs as much as half a swap per rank of a node.
const SWAPS_PER_NODE: usize = 64;

/// Worse than any placement, so every change is kept.
const WORST: Objective = Objective {
    bound: i64::MAX,
    peak: i64::MAX,
    total: i64::MAX,
    latency_ns: i64::MAX,
};

/// Most edges examined to find one that uses a resource.
const LOOKS: usize = 48;

impl Search<'_> {
    /// Improves a placement. The result is never worse than the start.
    pub fn improve(
        &mut self,
        traffic: &Traffic,
        loads: &mut Loads,
    ) -> Result<Objective, NetworkError> {
        let ranks = u64::from(traffic.ranks());
        let start = loads.objective();
        if ranks < 2 {
            return Ok(start);
        }
        let spare = self.slots.spare.len() as u64 * self.slots.nodes.len() as u64;
        let round = ranks * ranks / 2 + ranks * self.slots.sites.len() as u64 + spare;
        match round <= self.trials / ROUNDS {
            true => self.all_swaps(loads, start),
            false => self.guided(traffic, loads, start),
        }
    }

    fn all_swaps(
        &mut self,
        loads: &mut Loads,
        start: Objective,
    ) -> Result<Objective, NetworkError> {
        let (mut best, mut kept) = (start, (loads.sites().to_vec(), self.slots.clone()));
        let mut now = start;
        while self.trials > 0 {
            now = self.descend(loads, now)?;
            if now < best {
                (best, kept) = (now, (loads.sites().to_vec(), self.slots.clone()));
            } else {
                now = loads.assign(&kept.0)?;
                *self.slots = kept.1.clone();
            }
            for _ in 0..1 + self.random.below(KICKS) {
                now = self.kick(loads, now)?;
            }
        }
        *self.slots = kept.1;
        loads.assign(&kept.0)
    }

    /// A random swap, move or spare node, regardless of cost.
    fn kick(&mut self, loads: &mut Loads, now: Objective) -> Result<Objective, NetworkError> {
        self.trials = self.trials.saturating_sub(1);
        let ranks = loads.sites().len();
        let rank = self.random.below(ranks) as u32;
        match self.random.below(4) {
            0 if !self.slots.spare.is_empty() => {
                let used = self.random.below(self.slots.nodes.len());
                let spare = self.random.below(self.slots.spare.len());
                let ranks = self.ranks_on(loads, used);
                Ok(match self.exchange(loads, (used, spare), &ranks, WORST)? {
                    WORST => now,
                    tried => tried,
                })
            }
            1 => {
                let to = self.random.below(self.slots.sites.len());
                Ok(match self.shift(loads, rank, to, WORST)? {
                    WORST => now,
                    tried => tried,
                })
            }
            _ => {
                let other = self.random.below(ranks) as u32;
                if rank == other {
                    return Ok(now);
                }
                let tried = loads.swap(rank, other)?;
                loads.keep();
                Ok(tried)
            }
        }
    }

    /// Ranks on a node in use.
    fn ranks_on(&self, loads: &Loads, used: usize) -> Vec<u32> {
        let node = self.slots.nodes[used].get() as u32;
        let ranks = 0..loads.sites().len() as u32;
        ranks.filter(|&rank| loads.node_of(rank) == node).collect()
    }

    /// Applies every swap and move that helps until none does.
    fn descend(
        &mut self,
        loads: &mut Loads,
        mut now: Objective,
    ) -> Result<Objective, NetworkError> {
        let ranks = loads.sites().len() as u32;
        loop {
            let before = now;
            for a in 0..ranks {
                for b in a + 1..ranks {
                    if loads.sites()[a as usize] != loads.sites()[b as usize] {
                        let tried = loads.swap(a, b)?;
                        now = settle(loads, now, tried).0;
                        self.trials = self.trials.saturating_sub(1);
                    }
                }
                for to in 0..self.slots.sites.len() {
                    now = self.shift(loads, a, to, now)?;
                }
            }
            for used in 0..self.slots.nodes.len() {
                for spare in 0..self.slots.spare.len() {
                    let on_it = self.ranks_on(loads, used);
                    now = self.exchange(loads, (used, spare), &on_it, now)?;
                }
            }
            if now == before || self.trials == 0 {
                return Ok(now);
            }
        }
    }

    fn shift(
        &mut self,
        loads: &mut Loads,
        rank: u32,
        to: usize,
        now: Objective,
    ) -> Result<Objective, NetworkError> {
        let old = loads.sites()[rank as usize];
        if self.slots.free[to] == 0 || self.slots.sites[to] == old {
            return Ok(now);
        }
        self.trials = self.trials.saturating_sub(1);
        let tried = loads.shift(rank, self.slots.sites[to])?;
        let (now, moved) = settle(loads, now, tried);
        if moved {
            self.slots.free[to] -= 1;
            self.slots.give(&[old]);
        }
        Ok(now)
    }

    /// Tries to replace a node with these ranks by a spare one.
    fn exchange(
        &mut self,
        loads: &mut Loads,
        (used, spare): (usize, usize),
        ranks: &[u32],
        now: Objective,
    ) -> Result<Objective, NetworkError> {
        let (old, new) = (self.slots.nodes[used], self.slots.spare[spare]);
        if loads.ways.cores(old) != loads.ways.cores(new) {
            return Ok(now);
        }
        let site = |node| loads.ways.site(Place { node, domain: 0 });
        let (from, to) = (site(old), site(new));
        let moves = ranks
            .iter()
            .map(|&r| (r, loads.sites()[r as usize] - from + to));
        let moves: Vec<(u32, u32)> = moves.collect();
        self.trials = self.trials.saturating_sub(moves.len() as u64 / 2);
        let tried = loads.leave_node(&moves)?;
        let (now, moved) = settle(loads, now, tried);
        if moved {
            self.slots.exchange(loads, used, spare);
        }
        Ok(now)
    }

    fn guided(
        &mut self,
        traffic: &Traffic,
        loads: &mut Loads,
        start: Objective,
    ) -> Result<Objective, NetworkError> {
        let ranks = traffic.ranks();
        let mut residents: HashMap<u32, Vec<u32>> = HashMap::new();
        for rank in 0..ranks {
            residents.entry(loads.node_of(rank)).or_default().push(rank);
        }
        let mut now = start;
        while self.trials > 0 {
            self.trials -= 1;
            if !self.slots.spare.is_empty() && self.random.below(SWAPS_PER_NODE) == 0 {
                let used = self.random.below(self.slots.nodes.len());
                let spare = self.random.below(self.slots.spare.len());
                let (old, new) = (self.slots.nodes[used], self.slots.spare[spare]);
                let before = now;
                let ranks = residents.remove(&(old.get() as u32)).unwrap_or_default();
                now = self.exchange(loads, (used, spare), &ranks, now)?;
                let home = if now < before { new } else { old };
                residents.insert(home.get() as u32, ranks);
                continue;
            }
            let a = self.hot_rank(traffic, loads, &residents);
            let edges = traffic.edges_of(a);
            let b = match (edges.is_empty(), self.random.below(4)) {
                (true, _) | (false, 0) => self.random.below(ranks as usize) as u32,
                _ => {
                    let partner = edges[self.random.below(edges.len())].peer;
                    let beside = &residents[&loads.node_of(partner)];
                    beside[self.random.below(beside.len())]
                }
            };
            let (from, to) = (loads.node_of(a), loads.node_of(b));
            if loads.sites()[a as usize] == loads.sites()[b as usize] {
                continue;
            }
            let tried = loads.swap(a, b)?;
            let moved;
            (now, moved) = settle(loads, now, tried);
            if moved && from != to {
                for (node, old, new) in [(from, a, b), (to, b, a)] {
                    let of = residents.get_mut(&node);
                    let at = of.and_then(|of| of.iter_mut().find(|r| **r == old));
                    if let Some(at) = at {
                        *at = new;
                    }
                }
            }
        }
        Ok(now)
    }

    /// A rank with messages over the most loaded resource; any rank if none is found soon.
    fn hot_rank(
        &mut self,
        traffic: &Traffic,
        loads: &Loads,
        residents: &HashMap<u32, Vec<u32>>,
    ) -> u32 {
        let resource = loads.highest();
        let near = loads
            .node_with(resource)
            .and_then(|node| residents.get(&node));
        let ranks = traffic.ranks() as usize;
        for _ in 0..LOOKS {
            let rank = match near {
                Some(near) => near[self.random.below(near.len())],
                None => self.random.below(ranks) as u32,
            };
            let edges = traffic.edges_of(rank);
            if edges.is_empty() {
                continue;
            }
            let at = self.random.below(edges.len());
            let mirror = edges[at].mirror as usize;
            if loads.uses(rank, traffic.start(rank) + at, resource)
                || loads.uses(edges[at].peer, mirror, resource)
            {
                return rank;
            }
        }
        self.random.below(ranks) as u32
    }
}

/// Keeps an improvement and undoes anything else. Returns the objective, and whether it was kept.
fn settle(loads: &mut Loads, now: Objective, tried: Objective) -> (Objective, bool) {
    if tried < now {
        loads.keep();
        return (tried, true);
    }
    loads.undo();
    (now, false)
}

#[cfg(test)]
#[path = "improve_tests.rs"]
mod tests;

//! The fast objective of all searches: the load of a placement on each resource.
//!
//! The load of a resource is the total time for which its messages keep it busy: the sum of share x
//! bytes over capacity. The load of a rank is its computation, slowed down by the other ranks on
//! its node, the overhead of its messages, and the transfer to or from its heaviest partner at the
//! speed of a single message. The bound is the largest of all loads. No time is below the largest
//! load of a resource; the load of a rank is not a lower bound if it computes while messages flow.
//!
//! Loads are whole numbers of a unit that is 2^-50 of the largest possible load. So sums do not
//! depend on their order, a swap and its reverse leave no trace, and equal placements have equal
//! loads.
//!
//! Cost of a swap: for each partner of the two ranks, two routes are looked up (hash tables, a
//! multiplication each), and their four to ten uses are subtracted and added: 0.7 us for ranks with
//! six partners each on a fat tree (benches/candidates.rs). Nothing is allocated, and no route is
//! computed except for a new pair of nodes.

use crate::peaks::Peaks;
use crate::traffic::Traffic;
use crate::ways::Ways;
use idlewave_network::{Network, NetworkError};

/// The cost of a placement, compared in this order. In units of [`Loads::unit`], except for the
/// last field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Objective {
    /// The largest of all loads.
    pub bound: i64,
    /// The largest load of a resource: it can decrease while a rank's load determines the bound.
    pub peak: i64,
    /// Loads of all resources together.
    pub total: i64,
    /// Latencies of all messages together, nanoseconds.
    pub latency_ns: i64,
}

/// The loads of a placement, updated as ranks move.
pub(crate) struct Loads<'t, 'w, 'n> {
    traffic: &'t Traffic,
    pub ways: &'w mut Ways<'n>,
    /// Site of each rank.
    at: Vec<u32>,
    /// For each edge, the route of its outgoing messages.
    way: Vec<u32>,
    resources: Peaks,
    ranks: Peaks,
    total: i64,
    latency_ns: i64,
    /// Ranks on each node.
    count: Vec<u32>,
    overhead_ns: f64,
    /// Total load and latency before the trial.
    before: (i64, i64),
    moved: Vec<(u32, u32)>,
    changed: Vec<(u32, u32)>,
    stale: Vec<u32>,
}

/// Units per largest possible load.
const PARTS: f64 = (1_u64 << 50) as f64;

/// Seconds per unit, such that no load of the program can overflow.
pub(crate) fn unit(network: &Network, traffic: &Traffic) -> f64 {
    let parameters = network.parameters();
    let slowest = network.capacity().iter().copied();
    let slowest = slowest.fold(parameters.inside.bandwidth.value, f64::min);
    let slowest = slowest.min(parameters.outside.bandwidth.value).max(1e-3);
    let transfer = traffic.bytes() as f64 / slowest;
    let slow = parameters.slow_down.iter().map(|s| s.factor.value);
    let slow = slow.fold(1.0, f64::max) * 2.0;
    let rank = |rank| {
        let overhead = traffic.ends(rank) as f64 * parameters.overhead_ns.value;
        (traffic.work_ns(rank) as f64 * slow + overhead) * 1e-9
    };
    let longest = (0..traffic.ranks()).map(rank).fold(0.0, f64::max);
    (transfer + longest).max(1e-9) / PARTS
}

impl<'t, 'w, 'n> Loads<'t, 'w, 'n> {
    /// The loads with ranks at these sites.
    pub fn new(
        traffic: &'t Traffic,
        ways: &'w mut Ways<'n>,
        at: Vec<u32>,
    ) -> Result<Self, NetworkError> {
        let network = ways.network();
        let mut count = vec![0; network.topology().nodes().len()];
        for &site in &at {
            count[ways.node(site) as usize] += 1;
        }
        let mut loads = Loads {
            overhead_ns: network.parameters().overhead_ns.value.round(),
            resources: Peaks::new(0),
            ranks: Peaks::new(0),
            way: vec![0; traffic.edges()],
            traffic,
            ways,
            at,
            total: 0,
            latency_ns: 0,
            count,
            before: (0, 0),
            moved: Vec::new(),
            changed: Vec::new(),
            stale: Vec::new(),
        };
        loads.add_all(network.resources().len())?;
        Ok(loads)
    }

    fn add_all(&mut self, resources: usize) -> Result<(), NetworkError> {
        let mut load = vec![0; resources];
        for rank in 0..self.traffic.ranks() {
            let from = self.at[rank as usize];
            let start = self.traffic.start(rank);
            for (at, edge) in self.traffic.edges_of(rank).iter().enumerate() {
                let way = self.ways.find(from, self.at[edge.peer as usize])?;
                self.way[start + at] = way;
                let latency = edge.messages * self.ways.latency_ns(way);
                self.latency_ns = self.latency_ns.saturating_add_unsigned(latency);
                if edge.out == 0 {
                    continue;
                }
                let bytes = edge.out as f64;
                for cost in self.ways.head(way, from).iter().chain(self.ways.costs(way)) {
                    let more = whole(bytes, cost.per_byte);
                    load[cost.resource as usize] += more;
                    self.total += more;
                }
            }
            if self.traffic.own(rank) > 0 {
                let way = self.ways.find(from, from)?;
                for cost in self.ways.costs(way) {
                    let more = whole(self.traffic.own(rank) as f64, cost.per_byte);
                    load[cost.resource as usize] += more;
                    self.total += more;
                }
            }
        }
        self.resources = Peaks::of(load);
        let ranks = (0..self.traffic.ranks()).map(|rank| self.rank_load(rank));
        self.ranks = Peaks::of(ranks.collect());
        Ok(())
    }

    /// The load of a rank: computation, overhead, and the transfer with the heaviest partner.
    fn rank_load(&self, rank: u32) -> i64 {
        let node = self.ways.node(self.at[rank as usize]);
        let slow = self.ways.slow_down(self.count[node as usize]);
        let compute = self.traffic.work_ns(rank) as f64 * slow;
        let overhead = self.traffic.ends(rank) as f64 * self.overhead_ns;
        let busy = (compute + overhead) * 1e-9 / self.ways.unit();
        let start = self.traffic.start(rank);
        let mut longest = 0.0_f64;
        for (at, edge) in self.traffic.edges_of(rank).iter().enumerate() {
            // Lighter partners cannot take longer.
            if edge.most() as f64 * self.ways.dearest() <= longest {
                break;
            }
            let out = self.ways.alone(self.way[start + at]);
            let into = self.ways.alone(self.way[edge.mirror as usize]);
            longest = longest
                .max(edge.out as f64 * out)
                .max(edge.into as f64 * into);
        }
        (busy + longest).round() as i64
    }

    /// The objective with the trial's changes.
    pub fn objective(&mut self) -> Objective {
        let peak = self.resources.peak();
        Objective {
            bound: peak.max(self.ranks.peak()),
            peak,
            total: self.total,
            latency_ns: self.latency_ns,
        }
    }

    /// Site of each rank.
    pub fn sites(&self) -> &[u32] {
        &self.at
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.ways.node(self.at[rank as usize])
    }

    /// Ranks on a node.
    pub fn count(&self, node: u32) -> u32 {
        self.count[node as usize]
    }

    /// The resource with the largest load.
    pub fn highest(&self) -> u32 {
        self.resources.highest()
    }

    /// The node that a resource belongs to; `None` between switches.
    pub fn node_with(&self, resource: u32) -> Option<u32> {
        self.ways.owner(resource)
    }

    /// Whether messages of an edge, by its index among all, use a resource.
    pub fn uses(&self, rank: u32, edge: usize, resource: u32) -> bool {
        let way = self.way[edge];
        let head = self.ways.head(way, self.at[rank as usize]).iter();
        head.chain(self.ways.costs(way))
            .any(|c| c.resource == resource)
    }

    /// Tries to swap two ranks.
    pub fn swap(&mut self, a: u32, b: u32) -> Result<Objective, NetworkError> {
        let (site_a, site_b) = (self.at[a as usize], self.at[b as usize]);
        let moves = [(a, site_b), (b, site_a)];
        let differ = self.count(self.ways.node(site_a)) != self.count(self.ways.node(site_b));
        self.apply(&moves, differ)
    }

    /// Tries to move a rank to a site. The caller enforces the limit on ranks per node.
    pub fn shift(&mut self, rank: u32, site: u32) -> Result<Objective, NetworkError> {
        let differ = self.node_of(rank) != self.ways.node(site);
        self.apply(&[(rank, site)], differ)
    }

    /// Tries to move all ranks of a node to the sites of an empty one.
    pub fn leave_node(&mut self, moves: &[(u32, u32)]) -> Result<Objective, NetworkError> {
        self.apply(moves, false)
    }

    /// Moves all ranks.
    pub fn assign(&mut self, sites: &[u32]) -> Result<Objective, NetworkError> {
        let moves: Vec<(u32, u32)> = (0..).zip(sites.iter().copied()).collect();
        let objective = self.apply(&moves, true)?;
        self.keep();
        Ok(objective)
    }

    /// Moves ranks; `uneven` if moved ranks share their new node with another number of ranks.
    fn apply(&mut self, moves: &[(u32, u32)], uneven: bool) -> Result<Objective, NetworkError> {
        self.before = (self.total, self.latency_ns);
        self.moved.clear();
        self.changed.clear();
        self.stale.clear();
        for &(rank, site) in moves {
            let old = std::mem::replace(&mut self.at[rank as usize], site);
            self.moved.push((rank, old));
            self.count[self.ways.node(old) as usize] -= 1;
            self.count[self.ways.node(site) as usize] += 1;
        }
        for index in 0..moves.len() {
            let (rank, old) = self.moved[index];
            self.move_edges(rank, old, index)?;
            if uneven {
                self.stale.push(rank);
            }
        }
        if uneven && moves.len() == 1 {
            self.all_on_both_nodes();
        }
        if uneven && moves.len() > 2 {
            self.stale.extend(0..self.traffic.ranks());
        }
        for index in 0..self.stale.len() {
            let rank = self.stale[index];
            let load = self.rank_load(rank);
            self.ranks.set(rank, load);
        }
        Ok(self.objective())
    }

    fn all_on_both_nodes(&mut self) {
        let (rank, old) = self.moved[0];
        let both = [self.ways.node(old), self.node_of(rank)];
        for other in 0..self.traffic.ranks() {
            if both.contains(&self.node_of(other)) {
                self.stale.push(other);
            }
        }
    }

    /// Moves the messages of a moved rank from their old routes to the new ones.
    fn move_edges(&mut self, rank: u32, old: u32, index: usize) -> Result<(), NetworkError> {
        let traffic = self.traffic;
        let start = traffic.start(rank);
        let site = self.at[rank as usize];
        let mut own_changed = false;
        for (at, edge) in traffic.edges_of(rank).iter().enumerate() {
            let other = self.moved.iter().position(|&(r, _)| r == edge.peer);
            // Messages between two moved ranks were moved with the first one.
            if other.is_some_and(|other| other < index) {
                continue;
            }
            let (peer_now, peer_old) = match other {
                Some(other) => (self.at[edge.peer as usize], self.moved[other].1),
                None => (self.at[edge.peer as usize], self.at[edge.peer as usize]),
            };
            let out = self.ways.find(site, peer_now)?;
            let into = self.ways.find(peer_now, site)?;
            let mirror = edge.mirror as usize;
            let (old_out, old_into) = (self.way[start + at], self.way[mirror]);
            let back = traffic.edge(mirror);
            self.reroute(
                start + at,
                edge.out,
                edge.messages,
                (old, old_out),
                (site, out),
            );
            self.reroute(
                mirror,
                back.out,
                back.messages,
                (peer_old, old_into),
                (peer_now, into),
            );
            let alone = |way| self.ways.alone(way);
            if alone(out) != alone(old_out) || alone(into) != alone(old_into) {
                own_changed = true;
                self.stale.push(edge.peer);
            }
        }
        if own_changed {
            self.stale.push(rank);
        }
        let own = traffic.own(rank);
        if own > 0 {
            let (from, to) = (self.ways.find(old, old)?, self.ways.find(site, site)?);
            self.charge(own, old, from, -1);
            self.charge(own, site, to, 1);
        }
        Ok(())
    }

    #[inline]
    fn reroute(
        &mut self,
        edge: usize,
        bytes: u64,
        messages: u64,
        old: (u32, u32),
        new: (u32, u32),
    ) {
        if old.1 == new.1 && (old.0 == new.0 || self.ways.is_within(new.1)) {
            return;
        }
        if old.1 != new.1 {
            self.changed.push((edge as u32, old.1));
            self.way[edge] = new.1;
            let (before, after) = (self.ways.latency_ns(old.1), self.ways.latency_ns(new.1));
            self.latency_ns += messages as i64 * (after as i64 - before as i64);
        }
        if bytes > 0 {
            self.charge(bytes, old.0, old.1, -1);
            self.charge(bytes, new.0, new.1, 1);
        }
    }

    #[inline]
    fn charge(&mut self, bytes: u64, from: u32, way: u32, sign: i64) {
        let bytes = bytes as f64;
        for cost in self.ways.head(way, from).iter().chain(self.ways.costs(way)) {
            let more = sign * whole(bytes, cost.per_byte);
            self.resources.add(cost.resource, more);
            self.total += more;
        }
    }

    /// Keeps the trial's changes.
    pub fn keep(&mut self) {
        self.resources.keep();
        self.ranks.keep();
    }

    /// Undoes the trial's changes.
    pub fn undo(&mut self) {
        self.resources.undo();
        self.ranks.undo();
        (self.total, self.latency_ns) = self.before;
        // The same edge may be listed twice: the first entry is the oldest.
        for &(edge, way) in self.changed.iter().rev() {
            self.way[edge as usize] = way;
        }
        for index in 0..self.moved.len() {
            let (rank, old) = self.moved[index];
            let new = std::mem::replace(&mut self.at[rank as usize], old);
            self.count[self.ways.node(new) as usize] -= 1;
            self.count[self.ways.node(old) as usize] += 1;
        }
    }

    /// Loads of all resources.
    #[cfg(test)]
    pub fn values(&self) -> (&[i64], &[i64]) {
        (self.resources.values(), self.ranks.values())
    }
}

#[inline]
fn whole(bytes: f64, per_byte: f64) -> i64 {
    (bytes * per_byte + 0.5) as i64
}

#[cfg(test)]
#[path = "loads_tests.rs"]
mod tests;

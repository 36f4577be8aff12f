//! The cause of a deadlock: a mismatch, a cycle, a knot, or an exited rank.
//!
//! In the wait-for graph, waits for all of several targets deadlock in a cycle; waits for any one
//! of several deadlock in a knot, a set that no edge leaves (Chandy, Misra and Haas 1983).
//! Collectives and receives from anyone are nodes of their own, so the number of edges is that of
//! their members, not of pairs.

use super::counts;
use super::graph::Graph;
use super::groups::Group;
use super::needs::{Need, Needs, wait_of};
use super::snapshot::{Communicator, Doing, Snapshot, Wait};
use super::verdict::{Cause, Link};
use idlewave_units::Rank;

/// Edges examined to find a smaller cycle: about ten milliseconds.
const BUDGET: usize = 1 << 21;
/// Ranks listed for each rank of a knot.
const LISTED: usize = 16;
/// Links listed for a knot.
const LINKS: usize = 1024;

struct Search<'a> {
    snapshot: &'a Snapshot,
    needs: &'a Needs,
    groups: &'a [Group],
    live: &'a [bool],
    dead: &'a [Rank],
    /// By communicator: how many members are live and how many are dead.
    talkers: Vec<(usize, usize)>,
}

/// Why these ranks are dead; there is at least one.
pub(super) fn cause(
    snapshot: &Snapshot,
    needs: &Needs,
    groups: &[Group],
    live: &[bool],
    dead: &[Rank],
) -> Cause {
    let talkers = |of: &Communicator| {
        let count =
            |keep: &dyn Fn(usize) -> bool| of.members.iter().filter(|m| keep(m.index())).count();
        (count(&|m| live[m]), count(&|m| needs.waits[m] && !live[m]))
    };
    let search = Search {
        talkers: snapshot.communicators.iter().map(talkers).collect(),
        snapshot,
        needs,
        groups,
        live,
        dead,
    };
    search
        .mismatch()
        .or_else(|| search.cycle())
        .or_else(|| search.knot())
        .unwrap_or_else(|| search.exited())
}

impl Search<'_> {
    /// Unmet needs of a dead rank: (index among its requests, need).
    fn open(&self, rank: Rank) -> impl Iterator<Item = (usize, Need)> + '_ {
        self.needs
            .of(rank.index())
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, need)| match need {
                Need::Met | Need::Outside => false,
                Need::Rank(peer) => !self.live[peer.index()],
                Need::Anyone(c) => self.talkers[*c as usize].0 == 0,
                Need::Late { .. } | Need::Mismatch(_) => true,
            })
    }

    fn members(&self, communicator: u32) -> impl Iterator<Item = Rank> + '_ {
        self.snapshot.communicators[communicator as usize]
            .members
            .iter()
            .copied()
    }

    fn is_dead(&self, rank: Rank) -> bool {
        !self.live[rank.index()] && self.needs.waits[rank.index()]
    }

    fn link(&self, from: Rank, request: usize, to: Option<Rank>) -> Option<Link> {
        let (call, wait) = wait_of(self.snapshot, from.index())?;
        Some(Link {
            from,
            call,
            request: *wait.requests().get(request)?,
            to,
        })
    }

    fn mismatch(&self) -> Option<Cause> {
        self.dead.iter().find_map(|rank| {
            self.open(*rank).find_map(|(at, need)| match need {
                Need::Mismatch(other) => Some(Cause::Mismatch {
                    waits: self.link(*rank, at, Some(other))?,
                }),
                _ => None,
            })
        })
    }

    /// Nodes are ranks, then the collectives of each group, then communicators.
    fn edges(&self, knots: bool) -> (usize, Vec<(u32, u32)>) {
        let ranks = self.live.len();
        let mut first = Vec::with_capacity(self.groups.len());
        let mut nodes = ranks;
        let mut edges = Vec::new();
        for group in self.groups {
            first.push(nodes);
            for (n, late) in group.late.iter().enumerate() {
                let node = nodes as u32;
                if n > 0 {
                    edges.push((node, node - 1));
                }
                edges.extend(
                    late.iter()
                        .filter(|m| self.is_dead(Rank::new(**m)))
                        .map(|m| (node, *m)),
                );
                nodes += 1;
            }
        }
        let talk = nodes;
        nodes += self.snapshot.communicators.len();
        let mut talks = vec![false; self.snapshot.communicators.len()];
        for rank in self.dead {
            let from = rank.get();
            let choice = matches!(
                wait_of(self.snapshot, rank.index()),
                Some((_, Wait::Any(requests))) if requests.len() > 1
            );
            if choice && !knots {
                continue;
            }
            for (_, need) in self.open(*rank) {
                match need {
                    Need::Rank(peer) if self.is_dead(peer) => edges.push((from, peer.get())),
                    Need::Late {
                        communicator,
                        number,
                    } => {
                        if let Some(node) = self.collective(&first, communicator, number) {
                            edges.push((from, node));
                        }
                    }
                    Need::Anyone(c) if knots => {
                        talks[c as usize] = true;
                        edges.push((from, (talk + c as usize) as u32));
                    }
                    Need::Anyone(c) => {
                        let mut others = self.members(c).filter(|m| m != rank);
                        if let (Some(only), None) = (others.next(), others.next()) {
                            if self.is_dead(only) {
                                edges.push((from, only.get()));
                            }
                        }
                    }
                    Need::Rank(_) | Need::Met | Need::Outside | Need::Mismatch(_) => {}
                }
            }
        }
        for (c, used) in talks.iter().enumerate() {
            if *used {
                edges.extend(
                    self.members(c as u32)
                        .filter(|m| self.is_dead(*m))
                        .map(|m| ((talk + c) as u32, m.get())),
                );
            }
        }
        (nodes, edges)
    }

    fn collective(&self, first: &[usize], communicator: u32, number: u64) -> Option<u32> {
        let g = self
            .groups
            .binary_search_by_key(&communicator, |g| g.communicator)
            .ok()?;
        let n = self.groups[g].numbers.binary_search(&number).ok()?;
        Some((first[g] + n) as u32)
    }

    /// The request by which a dead rank waits for another one.
    fn by(&self, from: Rank, to: Rank) -> Option<Link> {
        let direct = self.open(from).find(|(_, need)| *need == Need::Rank(to));
        let among = || {
            self.open(from).find(|(_, need)| match need {
                Need::Anyone(c) => from != to && self.members(*c).any(|m| m == to),
                Need::Late {
                    communicator,
                    number,
                } => {
                    let entered = &self.snapshot.ranks[to.index()].entered;
                    counts::entered(entered, *communicator).map_or(0, |e| e.number) < *number
                        && (self.needs.of(from.index()).len() == 1
                            || self.members(*communicator).any(|m| m == to))
                }
                Need::Rank(_) | Need::Met | Need::Outside | Need::Mismatch(_) => false,
            })
        };
        let (at, _) = direct.or_else(among)?;
        self.link(from, at, Some(to))
    }

    fn cycle(&self) -> Option<Cause> {
        let (nodes, edges) = self.edges(false);
        let (cycle, smallest) =
            Graph::new(nodes, &edges).shortest_cycle(self.live.len(), BUDGET)?;
        let links = (0..cycle.len())
            .map(|at| {
                let to = cycle[(at + 1) % cycle.len()];
                self.by(Rank::new(cycle[at]), Rank::new(to))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Cause::Cycle { links, smallest })
    }

    fn knot(&self) -> Option<Cause> {
        let ranks = self.live.len();
        let (nodes, edges) = self.edges(true);
        let components = Graph::new(nodes, &edges).components();
        let mut sink = vec![true; components.count];
        let mut members = vec![0_usize; components.count];
        for (from, to) in &edges {
            let (a, b) = (components.of[*from as usize], components.of[*to as usize]);
            sink[a as usize] &= a == b;
            // A rank that waits for itself.
            members[a as usize] += usize::from(from == to);
        }
        for rank in self.dead {
            members[components.of[rank.index()] as usize] += 1;
        }
        let knot = (0..components.count).find(|c| sink[*c] && members[*c] > 1)?;
        let inside = |rank: Rank| components.of[rank.index()] as usize == knot;
        let mut links = Vec::new();
        for rank in self.dead.iter().filter(|r| inside(**r)) {
            if links.len() >= LINKS {
                break;
            }
            let start = links.len();
            for (at, need) in self.open(*rank) {
                let room = LISTED.saturating_sub(links.len() - start);
                let mut add = |to: Rank| links.extend(self.link(*rank, at, Some(to)));
                match need {
                    Need::Rank(peer) if inside(peer) && room > 0 => add(peer),
                    Need::Anyone(c) => self
                        .members(c)
                        .filter(|m| m != rank && self.is_dead(*m) && inside(*m))
                        .take(room)
                        .for_each(add),
                    Need::Late {
                        communicator,
                        number,
                    } => self
                        .members(communicator)
                        .filter(|m| {
                            let entered = &self.snapshot.ranks[m.index()].entered;
                            m.index() < ranks
                                && self.is_dead(*m)
                                && inside(*m)
                                && counts::entered(entered, communicator).map_or(0, |e| e.number)
                                    < number
                        })
                        .take(room)
                        .for_each(add),
                    _ => {}
                }
            }
        }
        Some(Cause::Knot { links })
    }

    fn exited(&self) -> Cause {
        let gone = |r: Rank| self.snapshot.ranks[r.index()].doing == Doing::Exited;
        // By group and number: a rank that is late for it and has exited.
        let missing: Vec<Vec<Option<Rank>>> = self
            .groups
            .iter()
            .map(|group| {
                group
                    .late
                    .iter()
                    .scan(None, |found, late| {
                        let here = || late.iter().map(|m| Rank::new(*m)).find(|m| gone(*m));
                        *found = found.or_else(here);
                        Some(*found)
                    })
                    .collect()
            })
            .collect();
        let found = self.dead.iter().find_map(|rank| {
            self.open(*rank).find_map(|(at, need)| {
                let to = match need {
                    Need::Rank(peer) if gone(peer) => Some(peer),
                    // Other dead ranks have their own cause.
                    Need::Anyone(c) if self.talkers[c as usize].1 <= 1 => {
                        self.members(c).find(|m| m != rank && gone(*m))
                    }
                    Need::Late {
                        communicator,
                        number,
                    } => {
                        let g = self
                            .groups
                            .binary_search_by_key(&communicator, |g| g.communicator)
                            .ok()?;
                        let n = self.groups[g].numbers.binary_search(&number).ok()?;
                        Some(missing[g][n]?)
                    }
                    _ => return None,
                };
                self.link(*rank, at, to)
            })
        });
        match found {
            Some(waits) => Cause::Exited { waits },
            None => Cause::Unnamed,
        }
    }
}

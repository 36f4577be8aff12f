//! The search: for each rank count per node, the placement of a batch system and the best ones
//! found.

use crate::error::PlaceError;
use crate::greedy::greedy;
use crate::improve::{Search, Slots};
use crate::job::{Candidate, How, Job, WithCores};
use crate::loads::{Loads, Objective, unit};
use crate::mapped::{map, map_within};
use crate::order::{Layout, Order};
use crate::outside::Mapping;
use crate::random::Random;
use crate::select::{Selection, pack, spread};
use crate::slots::{even_nodes, full_nodes};
use crate::traffic::Traffic;
use crate::ways::Ways;
use idlewave_network::{Network, NetworkError, Program};
use idlewave_stats::random::bits_at;
use idlewave_topology::NodeIndex;

/// Placements returned besides the batch system's, for each rank count per node.
const BEST: usize = 2;

/// Up to this many edge ends, every order is tried on every selection. Beyond, orders are tried
/// only on the best selection, and mapped ones only on the better of the full and the even layout.
const EVERY_ORDER: usize = 4_096;

/// Partners per rank up to which [`Job::trials`] applies in full. With twice as many, a trial takes
/// twice as long, so half as many are made.
const USUAL_PARTNERS: u64 = 16;

/// A placement with its objective.
#[derive(Clone, Debug)]
struct Scored {
    objective: Objective,
    how: How,
    nodes: Vec<NodeIndex>,
    at: Vec<u32>,
}

struct Finder<'t, 'n> {
    traffic: &'t Traffic,
    ways: Ways<'n>,
    /// Orders from outside, by layout.
    outside: &'t [Mapping],
    found: Vec<Scored>,
}

/// A rank count per node to try.
struct Tried {
    per_node: u32,
    /// Nodes with enough cores.
    nodes: Vec<NodeIndex>,
    /// Whether the even layout differs from the full one, and from the layouts of other rank
    /// counts.
    even: bool,
}

/// Candidate placements: for each rank count per node at most three, first that of a batch system
/// (selection [`Selection::First`], [`Order::Block`]), then others by rising bound. The bound does
/// not tell which is fastest: replay them. The same arguments give the same candidates everywhere.
///
/// # Errors
/// No nodes, nodes with unknown cores, more ranks than cores, no rank count per node that fits, or
/// nodes that are not connected.
pub fn candidates(
    network: &Network,
    program: &Program,
    job: &Job,
) -> Result<Vec<Candidate>, PlaceError> {
    candidates_with(network, program, job, &[])
}

/// The same, with orders of ranks from outside ([`Order::Scotch`]), for all or some of [`layouts`].
/// If none of them is among the best for a rank count per node, the best of them is a fourth
/// candidate. Mappings for other layouts are ignored.
///
/// # Errors
/// As for [`candidates`].
pub fn candidates_with(
    network: &Network,
    program: &Program,
    job: &Job,
    outside: &[Mapping],
) -> Result<Vec<Candidate>, PlaceError> {
    let tried = tried(network, program, job)?;
    let traffic = Traffic::new(program);
    let unit = unit(network, &traffic);
    let mut finder = Finder {
        ways: Ways::new(network, unit, program.ranks(), job.measured_with),
        traffic: &traffic,
        outside,
        found: Vec::new(),
    };
    let seed = bits_at(job.seed, 0);
    let partners = traffic.edges() as u64 / u64::from(traffic.ranks()).max(1);
    let trials = job.trials / tried.len() as u64 / (partners / USUAL_PARTNERS).max(1);
    let mut candidates = Vec::new();
    for tried in &tried {
        finder.find(&tried.nodes, tried.per_node, tried.even)?;
        // Each rank count has its own random numbers, whichever others are tried.
        let mut own = Random::new(seed ^ u64::from(tried.per_node) << 32);
        let best = finder.best(&tried.nodes, tried.per_node, trials, &mut own)?;
        candidates.extend(
            best.into_iter()
                .map(|scored| finder.candidate(network, job, scored)),
        );
    }
    Ok(candidates)
}

/// The rank counts by node of all layouts that [`candidates`] tries, each once, for another program
/// to map the communication graph to. Layouts of one node are left out, as there is nothing to map.
///
/// # Errors
/// As for [`candidates`].
pub fn layouts(
    network: &Network,
    program: &Program,
    job: &Job,
) -> Result<Vec<Vec<u32>>, PlaceError> {
    let ranks = program.ranks();
    let mut layouts: Vec<Vec<u32>> = Vec::new();
    for tried in tried(network, program, job)? {
        let even = tried.even.then(|| even_nodes(ranks, tried.per_node));
        for sizes in [Some(full_nodes(ranks, tried.per_node)), even] {
            layouts.extend(sizes.filter(|sizes| sizes.len() > 1));
        }
    }
    layouts.sort_unstable();
    layouts.dedup();
    Ok(layouts)
}

/// The rank counts per node that fit, in rising order.
fn tried(network: &Network, program: &Program, job: &Job) -> Result<Vec<Tried>, PlaceError> {
    let ranks = program.ranks();
    if ranks == 0 {
        return Err(PlaceError::Nothing {
            what: "a program without ranks",
        });
    }
    let allowed = job.allowed(network, ranks)?;
    let numbers = job.numbers(&allowed, ranks)?;
    let most_nodes = job.max_nodes.map_or(usize::MAX, |n| n as usize);
    let fits = |&k: &u32| usable(&allowed, k).len().min(most_nodes) >= ranks.div_ceil(k) as usize;
    let fitting: Vec<u32> = numbers.iter().copied().filter(fits).collect();
    if fitting.is_empty() {
        let within = |&k: &u32| !usable(&allowed, k).is_empty();
        let per_node = numbers.iter().copied().rfind(within).unwrap_or(0);
        let nodes = usable(&allowed, per_node.max(1)).len().min(most_nodes);
        return Err(PlaceError::TooFewNodes {
            ranks,
            per_node,
            nodes,
            parts: network.topology().parts(),
        });
    }
    let tried = |&per_node: &u32| Tried {
        per_node,
        nodes: usable(&allowed, per_node),
        even: ranks % per_node > 0 && {
            let fullest = ranks.div_ceil(ranks.div_ceil(per_node));
            fullest == per_node || !fitting.contains(&fullest)
        },
    };
    Ok(fitting.iter().map(tried).collect())
}

/// Nodes with enough cores.
fn usable(nodes: &[WithCores], per_node: u32) -> Vec<NodeIndex> {
    let enough = nodes.iter().filter(|n| n.1 >= per_node);
    enough.map(|n| n.0).collect()
}

impl Finder<'_, '_> {
    fn score(&mut self, how: How, layout: &Layout) -> Result<(), NetworkError> {
        let at = match how.order {
            Order::Block => layout.block(&self.ways),
            Order::Cyclic => layout.cyclic(&self.ways),
            Order::Mapped => map(self.traffic, &self.ways, layout),
            // Only searched placements are scored.
            Order::Given => return Ok(()),
            Order::Scotch => {
                let own = |mapping: &&Mapping| mapping.sizes() == layout.counts;
                let Some(mapping) = self.outside.iter().find(own) else {
                    return Ok(());
                };
                let node_of = mapping.within_slots(self.traffic);
                map_within(self.traffic, &self.ways, layout, &node_of)
            }
        };
        if self.found.iter().any(|other| other.at == at) {
            return Ok(());
        }
        let mut loads = Loads::new(self.traffic, &mut self.ways, at)?;
        let objective = loads.objective();
        let at = loads.sites().to_vec();
        let nodes = layout.nodes.clone();
        self.found.push(Scored {
            objective,
            how,
            nodes,
            at,
        });
        Ok(())
    }

    /// Scores selections and orders for this rank count per node. The first is the batch system's.
    fn find(&mut self, nodes: &[NodeIndex], per_node: u32, even: bool) -> Result<(), NetworkError> {
        self.found.clear();
        let ranks = self.traffic.ranks();
        let counts = full_nodes(ranks, per_node);
        let count = counts.len();
        let topology = self.ways.network().topology();
        let mut layouts: Vec<(Selection, Layout)> = Vec::new();
        let selections = [
            Selection::First,
            Selection::Pack,
            Selection::Spread,
            Selection::Greedy,
        ];
        for selection in selections {
            let nodes = match selection {
                Selection::First => nodes[..count].to_vec(),
                Selection::Pack => pack(topology, nodes, count),
                Selection::Spread => spread(topology, nodes, count),
                Selection::Greedy => greedy(self.traffic, &mut self.ways, nodes, &counts)?,
            };
            if layouts.iter().all(|known| known.1.nodes != nodes) {
                let counts = counts.clone();
                layouts.push((selection, Layout { nodes, counts }));
            }
        }
        let how = |selection, order, even| How {
            selection,
            order,
            even,
            improved: false,
        };
        for (selection, layout) in &layouts {
            self.score(how(*selection, Order::Block, false), layout)?;
        }
        let few = self.traffic.edges() <= EVERY_ORDER;
        if !few {
            let best = self
                .found
                .iter()
                .min_by_key(|f| f.objective)
                .map(|f| f.how.selection);
            layouts.retain(|known| Some(known.0) == best);
        }
        for (selection, layout) in &mut layouts {
            self.score(how(*selection, Order::Cyclic, false), layout)?;
            let full = layout.clone();
            if even {
                layout.counts = even_nodes(ranks, per_node);
                self.score(how(*selection, Order::Block, true), layout)?;
            }
            // Mapping takes longest: large programs try it only on the better layout.
            let evens = self.found.iter().min_by_key(|f| f.objective);
            let evens = evens.is_some_and(|best| best.how.even);
            for order in [Order::Mapped, Order::Scotch] {
                if few || !evens {
                    self.score(how(*selection, order, false), &full)?;
                }
                if even && (few || evens) {
                    self.score(how(*selection, order, true), layout)?;
                }
            }
        }
        Ok(())
    }

    /// The batch system's placement and the best ones, after local search, with the best order from
    /// outside.
    fn best(
        &mut self,
        nodes: &[NodeIndex],
        per_node: u32,
        trials: u64,
        random: &mut Random,
    ) -> Result<Vec<Scored>, NetworkError> {
        let mut found = std::mem::take(&mut self.found);
        let Some(baseline) = found.first().cloned() else {
            return Ok(found);
        };
        found.sort_by_key(|f| f.objective);
        let mut improved = Vec::new();
        for start in found.iter().take(BEST).filter(|_| trials > 0) {
            let mut loads = Loads::new(self.traffic, &mut self.ways, start.at.clone())?;
            let mut slots = Slots::new(&loads, &start.nodes, nodes, per_node);
            let mut search = Search {
                slots: &mut slots,
                random: &mut *random,
                trials: trials / BEST as u64,
            };
            let objective = search.improve(self.traffic, &mut loads)?;
            if objective < start.objective {
                improved.push(Scored {
                    objective,
                    how: How {
                        improved: true,
                        ..start.how
                    },
                    nodes: search.slots.nodes().to_vec(),
                    at: loads.sites().to_vec(),
                });
            }
        }
        found.extend(improved);
        found.sort_by_key(|f| f.objective);
        let mut best = vec![baseline];
        let asked = |scored: &Scored| scored.how.order == Order::Scotch;
        for other in found {
            // A requested order is always reported, even if it is not among the best.
            let wanted = best.len() <= BEST || asked(&other) && !best.iter().any(asked);
            if wanted && best.iter().all(|known| known.at != other.at) {
                best.push(other);
            }
        }
        Ok(best)
    }

    fn candidate(&self, network: &Network, job: &Job, scored: Scored) -> Candidate {
        let mut ranks = vec![0; network.topology().nodes().len()];
        for &site in &scored.at {
            ranks[self.ways.node(site) as usize] += 1;
        }
        let counts = scored.nodes.iter().map(|&n| (n, ranks[n.get()]));
        let counts: Vec<(NodeIndex, u32)> = counts.filter(|c| c.1 > 0).collect();
        Candidate {
            ranks_per_node: counts.iter().map(|c| c.1).max().unwrap_or(0),
            memory: job.memory(network, &counts),
            nodes: counts.into_iter().map(|c| c.0).collect(),
            places: scored
                .at
                .iter()
                .map(|&site| self.ways.place(site))
                .collect(),
            how: scored.how,
            bound_seconds: scored.objective.bound as f64 * self.ways.unit(),
        }
    }
}

#[cfg(test)]
#[path = "candidates_tests.rs"]
mod tests;

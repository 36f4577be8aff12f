//! Which node of many, and which of its CPUs, differs from its peers, and why.
//!
//! The peers of a CPU are the CPUs with the same number on the other nodes: they serve the same
//! interrupts. The mean over a node's CPUs is compared with that of the other nodes. Shares of stolen
//! time are compared by their square root, which makes the spread of counts equal, and times of the
//! same work by their logarithm. The level of 5 % is shared among all comparisons (Bonferroni); the
//! test itself is that of [`idlewave_stats::peers`].

use crate::catalog::{Catalog, SourceId};
use crate::strikes::Strike;
use idlewave_run::findings::{
    CpuNoise, Estimate, FixedWorkFindings, LengthClass, NodeMeasure, NodeOffender, NodeRank,
    NodeReason, NodesFindings,
};
use idlewave_run::{Manifest, SourceKind};
use idlewave_stats::peers::{self, Measured};
use idlewave_stats::quantiles::median_of;
use idlewave_stats::rates;
use idlewave_units::show::{count_f64, percent, time};
use idlewave_units::{Cpu, Nanos, NodeId};
use std::collections::BTreeMap;

/// Probability of a false alarm among all comparisons of a run with equal nodes.
const LEVEL: f64 = 0.05;
/// Of more CPUs than this, the findings keep only those of the worst nodes.
const MOST_CPUS: usize = 256;
/// How many nodes that is.
const NODES_KEPT: usize = 10;
/// The largest distance told: peers may be equal.
const FARTHEST: f64 = 1e6;

/// What one source took from one loop.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ns: u64,
    events: u64,
}

/// What took time from the detour loops of every CPU. Empty unless the CPUs of several nodes were
/// measured.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<(NodeId, Cpu), BTreeMap<SourceId, Sum>>);

impl Taken {
    /// Adds the strikes on a detour loop.
    pub fn add(&mut self, strikes: &[Strike]) {
        for strike in strikes {
            let of_cpu = self.0.entry((strike.node, strike.cpu)).or_default();
            let sum = of_cpu.entry(strike.source).or_default();
            sum.ns += strike.length;
            sum.events += 1;
        }
    }

    fn from(&self, place: (NodeId, Cpu), source: SourceId) -> Sum {
        let of_cpu = self.0.get(&place);
        of_cpu
            .and_then(|of| of.get(&source))
            .copied()
            .unwrap_or_default()
    }
}

/// The nodes, compared; `None` unless there are several. `cpus` are in order of node and CPU.
pub fn node_ranks(
    manifest: &Manifest,
    cpus: &[CpuNoise],
    taken: &Taken,
    catalog: &Catalog,
) -> Option<NodesFindings> {
    let mut nodes: BTreeMap<NodeId, Vec<&CpuNoise>> = BTreeMap::new();
    for noise in cpus {
        nodes.entry(noise.node).or_default().push(noise);
    }
    if nodes.len() < 2 {
        return None;
    }
    let all = Nodes {
        manifest,
        nodes,
        taken,
        catalog,
    };
    Some(all.compared())
}

/// The CPUs that the findings keep: all, or those of the worst nodes.
pub fn kept(cpus: Vec<CpuNoise>, nodes: Option<&NodesFindings>) -> Vec<CpuNoise> {
    let Some(nodes) = nodes.filter(|_| cpus.len() > MOST_CPUS) else {
        return cpus;
    };
    let worst: Vec<NodeId> = nodes
        .ranked
        .iter()
        .take(NODES_KEPT)
        .map(|n| n.node)
        .collect();
    let is_worst = |c: &CpuNoise| worst.contains(&c.node);
    cpus.into_iter().filter(is_worst).collect()
}

/// What is compared: a measure, of the CPUs with one number or of the mean over a node's CPUs.
type Group = (NodeMeasure, Option<Cpu>);

/// A value among its peers.
struct Candidate {
    group: Group,
    value: Estimate,
    peers: f64,
    distance: f64,
    is_outlier: bool,
}

struct Nodes<'a> {
    manifest: &'a Manifest,
    nodes: BTreeMap<NodeId, Vec<&'a CpuNoise>>,
    taken: &'a Taken,
    catalog: &'a Catalog,
}

impl Nodes<'_> {
    fn compared(&self) -> NodesFindings {
        let groups = self.groups();
        let judged = |n: usize| if n < peers::LEAST { 0 } else { n };
        let comparisons: usize = groups.values().map(|g| judged(g.len())).sum();
        let mut found: BTreeMap<NodeId, Vec<Candidate>> = BTreeMap::new();
        for (group, values) in groups {
            let (to, from) = scale(group.0);
            let measured = values.iter().map(|(_, e)| Measured {
                value: to(e.value),
                low: to(e.low),
                high: to(e.high),
            });
            let measured: Vec<Measured> = measured.collect();
            let level = LEVEL / comparisons.max(1) as f64;
            let Some((median, compared)) = peers::compare(&measured, level) else {
                continue;
            };
            for ((node, value), one) in values.into_iter().zip(compared) {
                found.entry(node).or_default().push(Candidate {
                    group,
                    value,
                    peers: from(median),
                    distance: one.distance.clamp(-FARTHEST, FARTHEST),
                    is_outlier: one.is_outlier,
                });
            }
        }
        let nothing = Vec::new();
        let rank = |node: &NodeId| self.rank(*node, found.get(node).unwrap_or(&nothing));
        let mut ranked: Vec<NodeRank> = self.nodes.keys().map(rank).collect();
        ranked.sort_by(|a, b| {
            let is_outlier = |n: &NodeRank| !n.reasons.is_empty();
            let by_loss = lost(b).total_cmp(&lost(a));
            is_outlier(b).cmp(&is_outlier(a)).then(by_loss)
        });
        let cpus = || self.nodes.values().flatten();
        let taken = cpus().filter_map(|c| {
            let d = c.detours.as_ref()?;
            Some(d.stolen.value * d.watched.as_f64())
        });
        NodesFindings {
            stolen: mean(cpus().filter_map(|c| Some(&c.detours.as_ref()?.stolen))),
            taken: Nanos::from_nanos(taken.sum::<f64>() as u64),
            offender: self.offender(),
            test: match comparisons {
                0 => too_few(&ranked),
                _ => format!(
                    "each CPU is compared with the CPUs of its number on the other nodes, by median \
                     and MAD; outliers lie beyond Student's t for 5 % shared among {comparisons} \
                     comparisons with their whole 95 % interval: of equal nodes, fewer than one run \
                     in 20 names any"
                ),
            },
            comparisons: comparisons as u64,
            ranked,
        }
    }

    /// The values of all nodes, by what is compared.
    fn groups(&self) -> BTreeMap<Group, Vec<(NodeId, Estimate)>> {
        let mut groups: BTreeMap<Group, Vec<(NodeId, Estimate)>> = BTreeMap::new();
        let steps = self.steps();
        for (&node, cpus) in &self.nodes {
            let mut add = |measure, of: &dyn Fn(&CpuNoise) -> Option<Estimate>| {
                let values: Vec<Estimate> = cpus
                    .iter()
                    .filter_map(|c| {
                        let value = of(c)?;
                        let group = groups.entry((measure, Some(c.cpu))).or_default();
                        group.push((node, value.clone()));
                        Some(value)
                    })
                    .collect();
                // The mean of one CPU is that CPU.
                if let Some(mean) = mean(&values).filter(|_| values.len() > 1) {
                    groups
                        .entry((measure, None))
                        .or_default()
                        .push((node, mean));
                }
            };
            add(NodeMeasure::Stolen, &|c| {
                Some(c.detours.as_ref()?.stolen.clone())
            });
            add(NodeMeasure::Work, &|c| {
                Some(work(c.fixed_work.as_ref()?, steps))
            });
        }
        groups
    }

    /// Steps of the quantum to which times are converted.
    fn steps(&self) -> u64 {
        let mut works = self.nodes.values().flatten();
        works
            .find_map(|c| Some(c.fixed_work.as_ref()?.work_steps))
            .unwrap_or(1)
    }

    fn rank(&self, node: NodeId, candidates: &[Candidate]) -> NodeRank {
        let cpus = &self.nodes[&node];
        let detours = || {
            cpus.iter()
                .filter_map(|c| Some((c.cpu, c.detours.as_ref()?)))
        };
        let worst = detours().max_by(|a, b| a.1.stolen.value.total_cmp(&b.1.stolen.value));
        let seen = detours().map(|(_, d)| d.count).sum();
        let watched: Nanos = detours().map(|(_, d)| d.watched).sum();
        let on_cpu = |c: &&Candidate| c.group.0 == NodeMeasure::Work && c.group.1.is_some();
        let slower = |c: &Candidate| Estimate {
            value: c.value.value / c.peers - 1.0,
            low: c.value.low / c.peers - 1.0,
            high: c.value.high / c.peers - 1.0,
            n: c.value.n,
            method: "time of the same work over the median of the peers, minus 1".to_owned(),
        };
        let slowest = candidates.iter().filter(on_cpu).max_by(|a, b| {
            let over = |c: &Candidate| c.value.value / c.peers;
            over(a).total_cmp(&over(b))
        });
        let mut reasons: Vec<NodeReason> = [NodeMeasure::Stolen, NodeMeasure::Work]
            .into_iter()
            .filter_map(|measure| self.reason(node, measure, candidates))
            .collect();
        reasons.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        let sheet = self.manifest.nodes.iter().find(|n| n.node == node);
        NodeRank {
            node,
            name: sheet.map_or_else(|| format!("node {node}"), |n| n.host.name.clone()),
            cpus: cpus.len() as u32,
            stolen: mean(detours().map(|(_, d)| &d.stolen)),
            rate: worst.map(|_| rates::poisson(seen, watched.as_secs_f64())),
            worst_cpu: worst.map(|(cpu, _)| cpu),
            worst_stolen: worst.map(|(_, d)| d.stolen.clone()),
            slowdown: mean(
                cpus.iter()
                    .filter_map(|c| Some(&c.fixed_work.as_ref()?.slowdown)),
            ),
            slowest_cpu: slowest.and_then(|c| c.group.1),
            slower: slowest.map(slower),
            distance: candidates.iter().map(|c| c.distance).reduce(f64::max),
            reasons,
        }
    }

    /// Why a node is an outlier in this measure; `None` if it is not.
    fn reason(
        &self,
        node: NodeId,
        measure: NodeMeasure,
        candidates: &[Candidate],
    ) -> Option<NodeReason> {
        let outliers = || {
            let all = candidates.iter();
            all.filter(|c| c.group.0 == measure && c.is_outlier)
        };
        let farthest = |all: &mut dyn Iterator<Item = &'_ Candidate>| -> Option<usize> {
            let place = |c: &Candidate| candidates.iter().position(|other| std::ptr::eq(other, c));
            all.max_by(|a, b| a.distance.total_cmp(&b.distance))
                .and_then(place)
        };
        let single = outliers().filter(|c| c.group.1.is_some()).count();
        // If most of its CPUs differ, it is the node.
        let of_node = farthest(&mut outliers().filter(|c| c.group.1.is_none()))
            .filter(|_| single == 0 || 2 * single > self.nodes[&node].len());
        let place =
            of_node.or_else(|| farthest(&mut outliers().filter(|c| c.group.1.is_some())))?;
        let found = &candidates[place];
        let because = match measure {
            NodeMeasure::Stolen => self.who(node, found),
            NodeMeasure::Work => self.slow(node, found),
        };
        Some(NodeReason {
            measure,
            cpu: found.group.1,
            value: found.value.clone(),
            peers: found.peers,
            distance: found.distance,
            because,
        })
    }

    /// CPUs of a node that a group is about.
    fn of_group(&self, node: NodeId, group: Group) -> impl Iterator<Item = &CpuNoise> {
        let cpus = self.nodes[&node].iter().copied();
        cpus.filter(move |c| group.1.is_none_or(|cpu| cpu == c.cpu))
    }

    /// What took the time that the peers do not lose.
    fn who(&self, node: NodeId, found: &Candidate) -> String {
        let mut sums: BTreeMap<SourceId, Sum> = BTreeMap::new();
        for noise in self.of_group(node, found.group) {
            for (&source, sum) in self.taken.0.get(&(node, noise.cpu)).into_iter().flatten() {
                let all = sums.entry(source).or_default();
                all.ns += sum.ns;
                all.events += sum.events;
            }
        }
        let share_on = |node: NodeId, source: SourceId| {
            let (mut ns, mut watched) = (0, 0.0);
            for noise in self.of_group(node, found.group) {
                ns += self.taken.from((node, noise.cpu), source).ns;
                watched += noise.detours.as_ref().map_or(0.0, |d| d.watched.as_f64());
            }
            (ns as f64 / f64::max(watched, 1.0), watched)
        };
        let others = |source| {
            let others = self.nodes.keys().filter(|other| **other != node);
            let shares: Vec<f64> = others.map(|other| share_on(*other, source).0).collect();
            median_of(&shares).unwrap_or(0.0)
        };
        let named = sums.into_iter().filter(|(source, _)| {
            let kind = self.catalog.kind(*source);
            kind != SourceKind::Unexplained
        });
        let more = named.map(|(source, sum)| {
            let (here, watched) = share_on(node, source);
            (here - others(source), source, sum, here, watched)
        });
        let most = more.max_by(|a, b| a.0.total_cmp(&b.0));
        // A source that makes less than a third of the difference does not explain it.
        let enough = (found.value.value - found.peers) / 3.0;
        match most.filter(|(more, ..)| *more > enough) {
            Some((_, source, sum, here, watched)) => format!(
                "{}: {} of the time, {}/s of {}",
                self.catalog.name(source),
                percent(here),
                count_f64(sum.events as f64 / (watched / 1e9).max(1e-9)),
                time(sum.ns as f64 / sum.events.max(1) as f64),
            ),
            None => self.lengths(node, found),
        }
    }

    /// The detours that the peers do not have, by length: nobody recorded who they are.
    fn lengths(&self, node: NodeId, found: &Candidate) -> String {
        let share = |c: &CpuNoise, class: usize| {
            let of = c
                .detours
                .as_ref()
                .and_then(|d| Some((d, d.classes.get(class)?)));
            of.map_or(0.0, |(d, class)| d.stolen.value * class.share)
        };
        let by_stolen = |a: &&CpuNoise, b: &&CpuNoise| {
            let of = |c: &CpuNoise| c.detours.as_ref().map_or(0.0, |d| d.stolen.value);
            of(a).total_cmp(&of(b))
        };
        let worst = self.of_group(node, found.group).max_by(by_stolen);
        let Some((worst, detours)) = worst.and_then(|c| Some((c, c.detours.as_ref()?))) else {
            return "not known".to_owned();
        };
        let on_peers = |class: usize| {
            let peers = self.nodes.keys().filter(|other| **other != node);
            let shares = peers.filter_map(|other| {
                let group = (NodeMeasure::Stolen, Some(worst.cpu));
                self.of_group(*other, group).next().map(|c| share(c, class))
            });
            median_of(&shares.collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let classes = detours.classes.iter().enumerate();
        let most = classes
            .map(|(i, class)| (share(worst, i) - on_peers(i), class))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match most {
            Some((_, class)) => format!("{}; who takes the time was not recorded", said(class)),
            None => "who takes the time was not recorded".to_owned(),
        }
    }

    /// Why the same work takes longer.
    fn slow(&self, node: NodeId, found: &Candidate) -> String {
        let steps = self.steps();
        let works = self
            .of_group(node, found.group)
            .filter_map(|c| c.fixed_work.as_ref());
        let slowest = works.max_by(|a, b| work(a, steps).value.total_cmp(&work(b, steps).value));
        let longer = found.value.value / found.peers - 1.0;
        let Some(slowest) = slowest else {
            return "not known".to_owned();
        };
        let slow: f64 = slowest.levels.iter().skip(1).map(|l| l.share).sum();
        match slowest.slowdown_by_level > longer / 2.0 {
            true => format!(
                "slow levels for {} of the time; at its best it takes {}",
                percent(slow),
                slowest.reference
            ),
            false => format!(
                "{} slower at its best too: a lower frequency, or another CPU",
                percent(longer)
            ),
        }
    }

    /// The source that took most from all nodes.
    fn offender(&self) -> Option<NodeOffender> {
        // By source: time on all nodes, and on each.
        let mut all: BTreeMap<SourceId, BTreeMap<NodeId, u64>> = BTreeMap::new();
        for ((node, _), sources) in &self.taken.0 {
            for (&source, sum) in sources {
                *all.entry(source).or_default().entry(*node).or_default() += sum.ns;
            }
        }
        let kind = |source| self.catalog.kind(source);
        let others = all.into_iter().filter(|(source, _)| {
            !matches!(
                kind(*source),
                SourceKind::Unexplained | SourceKind::Recorder
            )
        });
        let (source, of_nodes) = others.max_by_key(|(_, nodes)| nodes.values().sum::<u64>())?;
        let (&node, &there) = of_nodes
            .iter()
            .max_by_key(|&(node, ns)| (ns, std::cmp::Reverse(node)))?;
        Some(NodeOffender {
            kind: kind(source),
            name: self.catalog.name(source).to_owned(),
            taken: Nanos::from_nanos(of_nodes.values().sum()),
            node,
            taken_there: Nanos::from_nanos(there),
        })
    }
}

/// Share of the time that the worst CPU of a node lost.
fn lost(node: &NodeRank) -> f64 {
    let value = |of: &Option<Estimate>| of.as_ref().map_or(0.0, |e| e.value);
    value(&node.worst_stolen) + value(&node.slower).max(0.0)
}

/// A change of scale.
type Scale = fn(f64) -> f64;

/// To the scale on which equal values are about normal, and back.
fn scale(measure: NodeMeasure) -> (Scale, Scale) {
    match measure {
        NodeMeasure::Stolen => (|x| x.max(0.0).sqrt(), |x| x * x),
        NodeMeasure::Work => (|x| x.max(1e-3).ln(), f64::exp),
    }
}

/// Time of a quantum of `steps` on the CPU's speed levels, nanoseconds. The interval is that of the
/// whole slow-down, interruptions included.
fn work(of: &FixedWorkFindings, steps: u64) -> Estimate {
    let by_steps = steps as f64 / of.work_steps.max(1) as f64;
    let value = of.reference.as_f64() * (1.0 + of.slowdown_by_level) * by_steps;
    let half = value * (of.slowdown.high - of.slowdown.low) / 2.0 / (1.0 + of.slowdown.value);
    Estimate {
        value,
        low: value - half,
        high: value + half,
        n: of.count,
        method: "median on the fastest level, and time lost to slower ones".to_owned(),
    }
}

/// The mean of independent estimates.
fn mean<'a>(of: impl IntoIterator<Item = &'a Estimate>) -> Option<Estimate> {
    let (mut sum, mut squares, mut count, mut n) = (0.0, 0.0, 0.0, 0);
    for e in of {
        sum += e.value;
        squares += ((e.high - e.low) / 2.0).powi(2);
        count += 1.0;
        n += e.n;
    }
    let (value, half) = (sum / count, f64::sqrt(squares) / count);
    (count > 0.0).then(|| Estimate {
        value,
        low: (value - half).max(0.0),
        high: value + half,
        n,
        method: "mean over CPUs; 95 % interval from theirs".to_owned(),
    })
}

fn said(class: &LengthClass) -> String {
    let length = class.median.as_ref().map(|m| time(m.value));
    let length = length.unwrap_or_else(|| format!("{} or more", class.from));
    let mut said = format!("detours of {length}, {}/s", count_f64(class.per_second));
    if let Some(period) = &class.period {
        said.push_str(&format!(", every {}", time(period.period.value)));
    }
    said
}

/// What can be said of nodes that are too few to have peers.
fn too_few(ranked: &[NodeRank]) -> String {
    let mut said = format!(
        "{} nodes are too few to say which of them is unusual; at least {} are needed",
        ranked.len(),
        peers::LEAST
    );
    let stolen = |n: &NodeRank| n.worst_stolen.clone();
    if let (Some((first, a)), Some((last, b))) = (
        ranked.first().and_then(|n| Some((n, stolen(n)?))),
        ranked.last().and_then(|n| Some((n, stolen(n)?))),
    ) {
        let differ = match a.low > b.high {
            true => "loses more than",
            false => "does not lose significantly more than",
        };
        said.push_str(&format!(
            "; the worst CPU of {} {differ} that of {} (95 % intervals)",
            first.name, last.name
        ));
    }
    said
}

#[cfg(test)]
#[path = "node_ranks_tests.rs"]
mod tests;

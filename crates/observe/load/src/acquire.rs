//! From counters to the loads of a topology's links.
//!
//! Which adapter is which link: the host is the node of that name, in full or up to the first dot.
//! Its adapters are those that the caller names by patterns; else its InfiniBand ports, else devices
//! of hardware, else virtual ones. Named adapters of a node with one link are added. Otherwise as
//! many adapters as the node has links, in the order of their names, are its links in the order of
//! the topology; if there are more, the fastest count.

use crate::between::{self, Bounds, between};
use crate::dump::{Counts, Device, Port};
use crate::file::{Ends, JobEntry, LoadEntry, LoadFile, Origin, When};
use crate::host::{Adapter, HostCounters, Kind};
use crate::jobs::RunningJob;
use crate::rate::{Rate, Rated, Sample, rate};
use idlewave_topology::{
    LinkIndex, NodeIndex, Topology, Vertex, fold_hostlist, names_in_description,
};
use idlewave_units::foreign::cut;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most nodes that a warning names.
const MOST_NAMES: usize = 1_000;

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Sources {
    /// Counters of adapters, per host.
    pub hosts: Vec<HostCounters>,
    /// Counters of switches.
    pub dumps: Vec<SwitchDump>,
    /// Running jobs; `None` if not known.
    pub jobs: Option<Vec<RunningJob>>,
    /// Patterns of names of adapters, with `*` for anything; all if empty.
    pub adapters: Vec<String>,
    /// Whether links are called by both ends; otherwise by their node alone, because the switch was
    /// assumed.
    pub names_switches: bool,
}

/// Counters of switches at a time.
#[derive(Debug)]
pub struct SwitchDump {
    /// When they were read, seconds since 1970.
    pub at: f64,
    /// The ports.
    pub ports: Vec<Port>,
}

/// The loads of the links of a topology. What could not be used is in the warnings.
pub fn acquire(topology: &Topology, sources: &Sources) -> LoadFile {
    let mut short_names = HashMap::new();
    for node in topology.node_indices() {
        let name = short(topology.name(Vertex::Node(node))).to_owned();
        let same = short_names.entry(name).or_insert(Some(node));
        *same = same.filter(|other| *other == node);
    }
    let mut found = Found {
        topology,
        short: short_names,
        names_switches: sources.names_switches,
        links: BTreeMap::new(),
        warnings: Vec::new(),
    };
    found.hosts(&sources.hosts, &sources.adapters);
    found.dumps(&sources.dumps);
    let jobs = sources.jobs.as_deref().unwrap_or_default();
    found.estimate(jobs);
    found.missing();
    let taken = sources.hosts.iter().map(|host| host.taken as i64).max();
    // What only says where ports lead has no time of its own.
    let counted = |dump: &&SwitchDump| dump.ports.iter().any(|port| port.counts.is_some());
    let dumps = sources.dumps.iter().filter(counted).map(|dump| dump.at);
    let (first, last) = (dumps.clone().reduce(f64::min), dumps.reduce(f64::max));
    let seconds = sources.hosts.iter().filter_map(|host| host.at.last());
    LoadFile {
        taken: taken.or(last.map(|at| at as i64)).and_then(When::of),
        seconds: seconds
            .copied()
            .reduce(f64::max)
            .or_else(|| Some(last? - first?)),
        loads: found.entries(),
        warnings: found.warnings,
        jobs: jobs
            .iter()
            .map(|job| JobEntry {
                id: job.id.clone(),
                nodes: fold_hostlist(job.nodes.iter().map(String::as_str)),
            })
            .collect(),
    }
}

/// A measured or estimated load of a link.
#[derive(Clone, Copy, Debug)]
struct Load {
    rate: Rate,
    origin: Origin,
}

struct Found<'a> {
    topology: &'a Topology,
    names_switches: bool,
    /// Nodes by their names up to the first dot; `None` where several have the same.
    short: HashMap<String, Option<NodeIndex>>,
    links: BTreeMap<LinkIndex, Load>,
    warnings: Vec<String>,
}

/// Rates of independent counters together.
fn sum(a: Rate, b: Rate) -> Rate {
    let value = a.value + b.value;
    let range = a.range.zip(b.range).map(|((_, high), (_, other))| {
        // Lower ends are cut at 0.
        let half = (high - a.value).hypot(other - b.value);
        ((value - half).max(0.0), value + half)
    });
    Rate { value, range }
}

/// The group that a job was joined to in the end.
fn root(joined: &[usize], mut job: usize) -> usize {
    while joined[job] != job {
        job = joined[job];
    }
    job
}

/// A name up to the first dot.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Whether a name has the form of a pattern, in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Found<'_> {
    /// The node of a host, in full or up to the first dot.
    fn node(&self, host: &str) -> Option<NodeIndex> {
        let found = self.topology.node(host);
        found.or_else(|| self.short.get(short(host)).copied().flatten())
    }

    fn hosts(&mut self, hosts: &[HostCounters], patterns: &[String]) {
        let mut strangers = Vec::new();
        for host in hosts {
            let Some(node) = self.node(&host.host) else {
                strangers.push(host.host.as_str());
                continue;
            };
            let links: Vec<LinkIndex> = self.topology.links_from(Vertex::Node(node)).collect();
            let rated = self.chosen(host, &links, patterns);
            for (place, adapter) in rated.iter().enumerate() {
                let single = links.len() == 1 && !patterns.is_empty();
                let Some(link) = links.get(if single { 0 } else { place }) else {
                    break;
                };
                let [out, into] = self.rates(host, adapter);
                self.put(*link, out);
                self.put(link.opposite(), into);
            }
        }
        if !strangers.is_empty() {
            self.warnings.push(format!(
                "not in the topology, and left out: {}",
                cut(&fold_hostlist(strangers.iter().copied()))
            ));
        }
    }

    fn put(&mut self, link: LinkIndex, more: Option<Rate>) {
        let Some(more) = more else { return };
        let rate = match self.links.get(&link) {
            Some(load) => sum(load.rate, more),
            None => more,
        };
        let origin = Origin::Counters;
        self.links.insert(link, Load { rate, origin });
    }

    /// The adapters of a host that are its links, in their order.
    fn chosen<'h>(
        &mut self,
        host: &'h HostCounters,
        links: &[LinkIndex],
        patterns: &[String],
    ) -> Vec<&'h Adapter> {
        let told = |a: &&Adapter| patterns.iter().any(|pattern| fits(pattern, &a.name));
        let mut chosen: Vec<&Adapter> = match patterns.is_empty() {
            false => host.adapters.iter().filter(told).collect(),
            true => {
                let kinds = [Kind::InfiniBand, Kind::Device, Kind::Virtual];
                let of = |kind| host.adapters.iter().filter(move |a| a.kind == kind);
                let kind = kinds.into_iter().find(|kind| of(*kind).next().is_some());
                kind.map_or_else(Vec::new, |kind| of(kind).collect())
            }
        };
        let name = &host.host;
        if chosen.is_empty() {
            let which = if patterns.is_empty() {
                ""
            } else {
                " of these names"
            };
            self.warnings.push(format!(
                "{name} has no adapter{which}: its links are not known"
            ));
        }
        if links.is_empty() && !chosen.is_empty() {
            self.warnings
                .push(format!("{name} has no link in the topology"));
            return Vec::new();
        }
        let added = links.len() == 1 && !patterns.is_empty();
        if chosen.len() > links.len() && !added {
            let all: Vec<&str> = chosen.iter().map(|a| a.name.as_str()).collect();
            let all = all.join(", ");
            let speed = |a: &Adapter| a.bits_per_second.unwrap_or(0.0);
            // Equal ones stay in the order of their names.
            chosen.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
            chosen.truncate(links.len());
            chosen.sort_by(|a, b| a.name.cmp(&b.name));
            let used: Vec<&str> = chosen.iter().map(|a| a.name.as_str()).collect();
            self.warnings.push(format!(
                "{name} has more adapters than links, {}: {} counts; name others with --adapters",
                cut(&all),
                used.join(", ")
            ));
        }
        if !chosen.is_empty() && chosen.len() < links.len() {
            self.warnings.push(format!(
                "{name} has fewer adapters than links: the load of its last links is not known"
            ));
        }
        chosen
    }

    /// The rates of an adapter, out of and into the host.
    fn rates(&mut self, host: &HostCounters, adapter: &Adapter) -> [Option<Rate>; 2] {
        let most = adapter.bits_per_second.map(|bits| bits / 8.0);
        [0, 1].map(|direction| {
            let samples = host.at.iter().zip(&adapter.counts);
            let samples: Vec<Sample> = samples
                .filter_map(|(at, counts)| {
                    let (sent, received) = (*counts)?;
                    Some(Sample {
                        at: *at,
                        count: if direction == 0 { sent } else { received },
                    })
                })
                .collect();
            let rated = rate(&samples, adapter.counter, most);
            let what = ["sent", "received"][direction];
            self.told(&rated, || {
                format!("what {} of {} {what}", adapter.name, host.host)
            });
            rated.rate
        })
    }

    /// Warns about a counter that did not only count.
    fn told(&mut self, rated: &Rated, what: impl Fn() -> String) {
        let lost = match rated.rate {
            Some(_) => "left out",
            None => "its rate is not known",
        };
        if rated.resets > 0 {
            let times = idlewave_units::counted(rated.resets, "time");
            self.warnings.push(format!(
                "the counter of {} was reset {times}: {lost}",
                what()
            ));
        }
        if rated.unclear > 0 {
            let times = idlewave_units::counted(rated.unclear, "time");
            self.warnings.push(format!(
                "the counter of {} has 32 bits and may have wrapped more than once between two readings, {times}: {lost}; walk ifXTable, or read it after fewer seconds",
                what()
            ));
        }
        if rated.stuck {
            self.warnings.push(format!(
                "the counter of {} is at its largest value: {lost}; read it with perfquery -x, or reset it with perfquery -R",
                what()
            ));
        }
    }

    fn dumps(&mut self, dumps: &[SwitchDump]) {
        let devices = Devices::of(dumps);
        let mut ports: BTreeMap<(usize, &str), Series<'_>> = BTreeMap::new();
        let mut order: Vec<&SwitchDump> = dumps.iter().collect();
        order.sort_by(|a, b| a.at.total_cmp(&b.at));
        for dump in order {
            for port in &dump.ports {
                let device = devices.index(&port.of);
                let of = ports.entry((device, &port.port)).or_default();
                of.peer = of.peer.or(port.peer.as_ref());
                of.counts
                    .extend(port.counts.map(|counts| (dump.at, counts)));
            }
        }
        for series in ports.values_mut() {
            series.make_one();
        }
        let (mut unknown, mut once, mut nowhere) = (BTreeSet::new(), 0_u32, 0_u32);
        // What each link carries by the counters of its two ends: sent here, received there.
        let mut ends: BTreeMap<LinkIndex, [Option<Rate>; 2]> = BTreeMap::new();
        for ((device, port), of) in &ports {
            if of.counts.is_empty() {
                continue;
            }
            let device = &devices.all[*device];
            let Some(own) = self.vertex(device, None) else {
                unknown.insert(device.text());
                continue;
            };
            if of.counts.len() < 2 {
                once += 1;
                continue;
            }
            let peer = of.peer.map(|peer| devices.complete(peer));
            let peer = peer.and_then(|peer| self.vertex(&peer, Some(own)));
            let link = peer.and_then(|peer| self.topology.link_between(own, peer));
            let Some(link) = link else {
                nowhere += 1;
                continue;
            };
            let rates = self.of_port(link, port, own, &of.counts);
            let directions = [link, link.opposite()].into_iter().zip(rates);
            for (end, (link, rate)) in directions.enumerate() {
                let Some(rate) = rate else { continue };
                let sums = ends.entry(link).or_default();
                // Parallel cables are one link.
                sums[end] = Some(sums[end].map_or(rate, |before| sum(before, rate)));
            }
        }
        for (link, [sent, received]) in ends {
            if !self.links.contains_key(&link) {
                self.put(link, sent.or(received));
            }
        }
        if !unknown.is_empty() {
            let all = unknown.into_iter().collect::<Vec<_>>().join(", ");
            self.warnings.push(format!(
                "counters of devices that are not in the topology: {}",
                cut(&all)
            ));
        }
        if once > 0 {
            self.warnings.push(format!(
                "counters of {} were given once only, or for one time only: give the same switches at two times, with FILE@TIME if needed",
                idlewave_units::counted(once, "port")
            ));
        }
        if nowhere > 0 {
            self.warnings.push(format!(
                "nothing says where {} of switches lead: give the output of iblinkinfo too, or name the other end in ifAlias",
                idlewave_units::counted(nowhere, "port")
            ));
        }
    }

    /// The rates of a port, sent and received.
    fn of_port(
        &mut self,
        link: LinkIndex,
        port: &str,
        own: Vertex,
        counts: &[(f64, Counts)],
    ) -> [Option<Rate>; 2] {
        let most = self.topology.link(link).and_then(|link| link.capacity);
        let most = most.map(|capacity| capacity.get());
        [0, 1].map(|direction| {
            let samples: Vec<Sample> = counts
                .iter()
                .map(|(at, counts)| Sample {
                    at: *at,
                    count: [counts.sent, counts.received][direction],
                })
                .collect();
            let counter = counts.last().map(|(_, counts)| counts.counter);
            let rated = counter.map(|counter| rate(&samples, counter, most));
            let rated = rated.unwrap_or_default();
            let what = ["sent", "received"][direction];
            let switch = self.topology.name(own).to_owned();
            self.told(&rated, || {
                format!("what port {} of {switch} {what}", cut(port))
            });
            rated.rate
        })
    }

    /// The node or switch that a device is. At the other end of a cable of `beside` it must have a
    /// link to that, and the name may be a word of a text.
    fn vertex(&self, device: &Device, beside: Option<Vertex>) -> Option<Vertex> {
        let joined = |vertex: &Vertex| {
            beside.is_none_or(|own| self.topology.link_between(own, *vertex).is_some())
        };
        let name = device.name.as_deref().unwrap_or_default();
        let mut names: Vec<String> = vec![name.to_owned()];
        names.extend(device.guid.clone());
        names.extend(names_in_description(name));
        let known = |name: &String| match self.topology.vertex(name) {
            Some(vertex) => Some(vertex),
            None => self
                .node(name)
                .map(Vertex::Node)
                .filter(|_| !name.is_empty()),
        };
        if let Some(found) = names.iter().filter_map(known).find(|v| joined(v)) {
            return Some(found);
        }
        beside?;
        let words = name.split(|c: char| c.is_whitespace() || ",;:()[]\"'".contains(c));
        let words = words.filter_map(|word| self.topology.vertex(word));
        let found: BTreeSet<Vertex> = words.filter(|vertex| joined(vertex)).collect();
        match found.len() {
            1 => found.into_iter().next(),
            _ => None,
        }
    }

    /// Estimates links between switches that have no counters.
    fn estimate(&mut self, jobs: &[RunningJob]) {
        let is_between = |at: &usize| {
            let link = &self.topology.links()[*at];
            matches!((link.from, link.to), (Vertex::Switch(_), Vertex::Switch(_)))
        };
        let all = (0..self.topology.links().len()).filter(is_between);
        let missing: BTreeSet<LinkIndex> = all
            .map(LinkIndex::new)
            .filter(|link| !self.links.contains_key(link))
            .collect();
        if missing.is_empty() || self.links.is_empty() {
            return;
        }
        let group_of = self.groups(jobs);
        // Nothing is known of what nodes without counters send.
        let mut is_whole = true;
        let mut groups: BTreeMap<usize, Vec<between::Node>> = BTreeMap::new();
        for node in self.topology.node_indices() {
            let (mut out, mut into, mut is_known) = (Bounds::default(), Bounds::default(), false);
            for link in self.topology.links_from(Vertex::Node(node)) {
                let both = [link, link.opposite()];
                for (sum, link) in [&mut out, &mut into].into_iter().zip(both) {
                    let Some(load) = self.links.get(&link) else {
                        is_whole = false;
                        continue;
                    };
                    let (low, high) = load
                        .rate
                        .range
                        .unwrap_or((load.rate.value, load.rate.value));
                    sum.value += load.rate.value;
                    sum.low += low;
                    sum.high += high;
                    is_known = true;
                }
            }
            if is_known && out.high + into.high > 0.0 {
                // Nodes of no job are a group of their own.
                let group = group_of.get(&node).copied().unwrap_or(jobs.len());
                let node = between::Node { node, out, into };
                groups.entry(group).or_default().push(node);
            }
        }
        let mut sums: BTreeMap<LinkIndex, Bounds> = BTreeMap::new();
        for group in groups.values() {
            if group.len() > between::MOST_NODES {
                self.warnings.push(format!(
                    "links between switches have no counters, and {} nodes that may talk to each other are too many for an estimate: give --switch-counters",
                    group.len()
                ));
                return;
            }
            let Ok(loads) = between(self.topology, group) else {
                is_whole = false;
                continue;
            };
            for (link, load) in loads {
                let sum = sums.entry(link).or_default();
                sum.value += load.value;
                sum.low += load.low;
                sum.high += load.high;
            }
        }
        for link in missing {
            let of = sums.get(&link).copied().unwrap_or_default();
            let rate = Rate {
                value: of.value,
                range: is_whole.then_some((of.low, of.high)),
            };
            let origin = Origin::Estimated;
            self.links.insert(link, Load { rate, origin });
        }
        let without = match is_whole {
            true => "",
            false => ", and without an interval, because what some nodes send is not known",
        };
        self.warnings.push(format!(
            "links between switches without counters are estimated from what nodes send and receive, as if they talked only among themselves or within their job{without}: give --switch-counters to measure them"
        ));
    }

    /// The group of each node with a job. Jobs that share a node are one group: what it sends may
    /// be of either.
    fn groups(&self, jobs: &[RunningJob]) -> BTreeMap<NodeIndex, usize> {
        // The group that each job was joined to, or itself.
        let mut joined: Vec<usize> = (0..jobs.len()).collect();
        let mut first: BTreeMap<NodeIndex, usize> = BTreeMap::new();
        for (job, of) in jobs.iter().enumerate() {
            for node in of.nodes.iter().filter_map(|name| self.node(name)) {
                let other = *first.entry(node).or_insert(job);
                let (a, b) = (root(&joined, job), root(&joined, other));
                joined[a.max(b)] = a.min(b);
            }
        }
        let groups = first.into_iter();
        groups
            .map(|(node, job)| (node, root(&joined, job)))
            .collect()
    }

    /// Warns about nodes without counters: no entry looks like no load.
    fn missing(&mut self) {
        let is_missing = |node: &NodeIndex| {
            let mut links = self.topology.links_from(Vertex::Node(*node));
            links.all(|link| !self.links.contains_key(&link))
        };
        let missing = self.topology.node_indices().filter(is_missing);
        let missing: Vec<NodeIndex> = missing.collect();
        let named = missing.iter().take(MOST_NAMES);
        let names = named.map(|node| self.topology.name(Vertex::Node(*node)));
        let others = match missing.len() > MOST_NAMES {
            true => " and others",
            false => "",
        };
        if !missing.is_empty() {
            self.warnings.push(format!(
                "not measured, and taken as idle: {}, {}{others}",
                idlewave_units::counted(missing.len() as u32, "node"),
                cut(&fold_hostlist(names))
            ));
        }
    }

    fn entries(&self) -> Vec<LoadEntry> {
        let entry = |(link, load): (&LinkIndex, &Load)| {
            let link = self.topology.link(*link)?;
            let name = |vertex| self.topology.name(vertex).to_owned();
            let ends = match (link.from, link.to) {
                (Vertex::Node(_), Vertex::Switch(_)) if !self.names_switches => {
                    Ends::Out(name(link.from))
                }
                (Vertex::Switch(_), Vertex::Node(_)) if !self.names_switches => {
                    Ends::Into(name(link.to))
                }
                (from, to) => Ends::Pair(name(from), name(to)),
            };
            Some(LoadEntry {
                ends,
                rate: load.rate.value,
                range: load.rate.range,
                origin: load.origin,
                line: 0,
            })
        };
        self.links.iter().filter_map(entry).collect()
    }
}

/// The counters of a port at several times.
#[derive(Default)]
struct Series<'a> {
    peer: Option<&'a Device>,
    counts: Vec<(f64, Counts)>,
}

impl Series<'_> {
    /// Leaves the counts of the last one's kind, and one for each time: others do not tell what was
    /// sent in between.
    fn make_one(&mut self) {
        let Some((_, last)) = self.counts.last().copied() else {
            return;
        };
        self.counts
            .retain(|(_, counts)| counts.counter == last.counter);
        self.counts.dedup_by_key(|(at, _)| *at);
    }
}

/// Devices, each with all that any text calls it: `perfquery` knows only its LID, `iblinkinfo` its
/// name too.
#[derive(Default)]
struct Devices {
    all: Vec<Device>,
    by: HashMap<Key, usize>,
}

/// What tells a device from others.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Lid(u32),
    Guid(String),
    /// Only where a text has nothing else: two adapters of a host may have the same description.
    Name(String),
}

fn keys(device: &Device) -> Vec<Key> {
    let mut keys: Vec<Key> = device.lid.map(Key::Lid).into_iter().collect();
    keys.extend(device.guid.clone().map(Key::Guid));
    if keys.is_empty() {
        keys.extend(device.name.clone().map(Key::Name));
    }
    keys
}

impl Devices {
    fn of(dumps: &[SwitchDump]) -> Self {
        let mut devices = Devices::default();
        for port in dumps.iter().flat_map(|dump| &dump.ports) {
            for device in [Some(&port.of), port.peer.as_ref()].into_iter().flatten() {
                devices.add(device);
            }
        }
        devices
    }

    fn place(&self, device: &Device) -> Option<usize> {
        keys(device)
            .iter()
            .find_map(|key| self.by.get(key).copied())
    }

    fn add(&mut self, device: &Device) {
        let place = self.place(device).unwrap_or(self.all.len());
        if place == self.all.len() {
            self.all.push(Device::default());
        }
        let known = &mut self.all[place];
        known.lid = known.lid.or(device.lid);
        known.guid = known.guid.take().or_else(|| device.guid.clone());
        known.name = known.name.take().or_else(|| device.name.clone());
        for key in keys(device) {
            self.by.entry(key).or_insert(place);
        }
    }

    fn index(&self, device: &Device) -> usize {
        self.place(device).unwrap_or(0)
    }

    fn complete(&self, device: &Device) -> Device {
        let known = self.place(device).map(|place| self.all[place].clone());
        known.unwrap_or_else(|| device.clone())
    }
}

impl Device {
    /// How messages call it.
    fn text(&self) -> String {
        let lid = self.lid.map(|lid| format!("LID {lid}"));
        let known = self.name.clone().or_else(|| self.guid.clone()).or(lid);
        known.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

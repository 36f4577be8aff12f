//! Chooses the points to measure and the time for each, and drops points if time is short.

use idlewave_network::{Distance, Probe};
use std::time::Duration;

/// Message lengths of streams; the first is for the overhead of a message.
const STREAMS: [u64; 7] = [8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Lengths of messages of an all-to-all.
const ALL_TO_ALL: [u64; 2] = [64 << 10, 1 << 20];
/// The longest message of the ping-pong.
const MOST_PING_PONG: u64 = 4 << 20;
/// All rank counts up to this are measured, and some above it.
const ALL_UP_TO: u32 = 16;
/// The minimum number of rounds.
pub const LEAST_ROUNDS: u32 = 3;
/// The target number of rounds.
const ROUNDS: f64 = 9.0;
/// With fewer rounds than this, messages are shortened; the first round is for warm-up.
const FEWEST: f64 = 5.0;
/// The target time of a point in one round, even if that leaves fewer rounds: a single short
/// message says little.
const FAIR_SLICE: f64 = 10e-3;
/// The minimum and maximum time of a point in one round, unless a single message takes longer.
const SLICE: [f64; 2] = [2e-3, 0.25];
/// The most messages, round trips, calls or passes of a point in one round.
const MOST_COUNT: f64 = 10_000.0;
/// Messages up to this length are not shortened.
const SHORT: u64 = 1 << 10;

/// Results of a first look: seconds of an empty message and bytes per second, within a node and
/// between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speeds {
    /// Within a node.
    pub inside: Option<(f64, f64)>,
    /// Between nodes.
    pub outside: Option<(f64, f64)>,
}

/// The shape of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of ranks per node.
    pub per_node: u32,
    /// The distances available.
    pub ways: Vec<Distance>,
    /// Bytes that one rank may use.
    pub memory: u64,
}

/// The values of ranks per node to measure: all of them if there are few.
fn numbers(most: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (1..=most.min(ALL_UP_TO)).collect();
    let mut next = ALL_UP_TO;
    while next < most {
        // 24, 32, 48, 64, ...
        next += if next.is_power_of_two() {
            next / 2
        } else {
            next / 3
        };
        all.push(next.min(most));
    }
    all.dedup();
    all
}

/// Lengths of the ping-pong.
pub fn lengths() -> impl Iterator<Item = u64> {
    let powers = (3..64)
        .map(|p| 1_u64 << p)
        .take_while(|&l| l <= MOST_PING_PONG);
    std::iter::once(0).chain(powers)
}

impl Shape {
    /// All points except the ping-pong, each with one message.
    fn all(&self) -> Vec<Probe> {
        let mut all = Vec::new();
        for &way in self.ways.iter().filter(|way| **way != Distance::Across) {
            let most = match way {
                Distance::Inside => self.per_node / 2,
                _ => self.per_node,
            };
            for &bytes in &STREAMS {
                for pairs in numbers(most) {
                    let stream = |both_ways| Probe::Stream {
                        way,
                        pairs,
                        both_ways,
                        bytes,
                        messages: 1,
                    };
                    all.push(stream(false));
                    if bytes >= SHORT {
                        all.push(stream(true));
                    }
                }
            }
        }
        for bytes in ALL_TO_ALL {
            for per_node in numbers(self.per_node) {
                if self.nodes * per_node > 1 {
                    all.push(Probe::AllToAll {
                        nodes: self.nodes,
                        per_node,
                        bytes,
                        calls: 1,
                    });
                }
            }
        }
        for ranks in numbers(self.per_node) {
            all.push(Probe::Memory {
                ranks,
                bytes: (24 << 20).min(self.memory),
                passes: 1,
            });
        }
        all
    }

    /// The bytes that a rank needs for a point.
    fn held(&self, probe: &Probe) -> u64 {
        match *probe {
            Probe::AllToAll {
                nodes,
                per_node,
                bytes,
                ..
            } => 2 * bytes * u64::from(nodes) * u64::from(per_node),
            _ => 0,
        }
    }

    /// The points that fit into `budget` seconds and the memory, and the changes that this
    /// required, one per line. `spent` is the time of one round of ping-pongs.
    pub fn points(&self, speeds: &Speeds, spent: f64, budget: f64) -> (Vec<Probe>, Vec<String>) {
        let mut all = self.all();
        let mut notes = Vec::new();
        let room = budget / FEWEST - spent;
        loop {
            let cost: f64 = all.iter().map(|p| speeds.least_seconds(p)).sum();
            let too_large = all.iter().find(|p| self.held(p) > self.memory).copied();
            let family = match too_large {
                Some(probe) => Some(family(&probe)),
                None if cost > room => dearest(&all, speeds),
                None => None,
            };
            let Some((kind, bytes)) = family.filter(|f| f.1 > SHORT) else {
                return (all, notes);
            };
            let halved = bytes / 2;
            let dropped = all.iter().any(|p| family_of(p) == Some((kind, halved)));
            match dropped {
                true => all.retain(|p| family_of(p) != Some((kind, bytes))),
                false => {
                    for probe in &mut all {
                        if family_of(probe) == Some((kind, bytes)) {
                            set_bytes(probe, halved);
                        }
                    }
                }
            }
            let why = match too_large {
                Some(_) => "memory",
                None => "time",
            };
            let what = if dropped { "left out" } else { "halved" };
            notes.push(format!(
                "{kind} with messages of {bytes} bytes {what}: not enough {why}"
            ));
        }
    }
}

/// Points of one kind and length. They are changed together, so that results for different rank
/// counts stay comparable.
type Family = (&'static str, u64);

fn family_of(probe: &Probe) -> Option<Family> {
    match *probe {
        Probe::Stream { way, bytes, .. } => Some(match way {
            Distance::Inside => ("streams inside a node", bytes),
            _ => ("streams between nodes", bytes),
        }),
        Probe::AllToAll { bytes, .. } => Some(("all-to-all", bytes)),
        Probe::PingPong { .. } | Probe::Memory { .. } => None,
    }
}

fn family(probe: &Probe) -> Family {
    family_of(probe).unwrap_or(("", 0))
}

/// The family that takes the longest, among those that can be shortened.
fn dearest(all: &[Probe], speeds: &Speeds) -> Option<Family> {
    let mut families: Vec<(Family, f64)> = Vec::new();
    for probe in all {
        let Some(own) = family_of(probe).filter(|f| f.1 > SHORT) else {
            continue;
        };
        let seconds = speeds.least_seconds(probe);
        match families.iter_mut().find(|f| f.0 == own) {
            Some(known) => known.1 += seconds,
            None => families.push((own, seconds)),
        }
    }
    families
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|f| f.0)
}

fn set_bytes(probe: &mut Probe, to: u64) {
    match probe {
        Probe::PingPong { bytes, .. }
        | Probe::Stream { bytes, .. }
        | Probe::AllToAll { bytes, .. }
        | Probe::Memory { bytes, .. } => *bytes = to,
    }
}

impl Speeds {
    /// The approximate time of a point with the fewest messages possible.
    fn least_seconds(&self, probe: &Probe) -> f64 {
        least(probe) as f64 * self.seconds(probe)
    }

    /// The approximate time of a point with one message: all ranks of a node share what one pair
    /// gets.
    fn seconds(&self, probe: &Probe) -> f64 {
        let moved = |of: Option<(f64, f64)>, bytes: f64| {
            of.map_or(0.0, |(empty, rate)| 2.0 * empty + bytes / rate)
        };
        match *probe {
            Probe::PingPong { .. } => 0.0,
            Probe::Stream {
                way, pairs, bytes, ..
            } => {
                let of = match way {
                    Distance::Inside => self.inside,
                    _ => self.outside,
                };
                moved(of, f64::from(pairs) * bytes as f64)
            }
            Probe::AllToAll {
                nodes,
                per_node,
                bytes,
                ..
            } => {
                let (n, k, bytes) = (f64::from(nodes), f64::from(per_node), bytes as f64);
                moved(self.outside, k * k * (n - 1.0) * bytes)
                    + moved(self.inside, k * (k - 1.0) * bytes)
            }
            // At 1 GB/s for each node.
            Probe::Memory { ranks, bytes, .. } => f64::from(ranks) * bytes as f64 / 1e9,
        }
    }
}

/// The fewest messages of a stream in a round: with a single one each way, a library may send them
/// one after the other.
fn least(probe: &Probe) -> u64 {
    match *probe {
        Probe::Stream { bytes, .. } if bytes > 256 << 10 => 2,
        Probe::Stream { .. } => 4,
        _ => 1,
    }
}

/// The number of messages, calls or passes of each point in a round, from the time of one.
pub fn counts(probes: &[Probe], units: &[f64], budget: Duration) -> Vec<u64> {
    let goal = budget.as_secs_f64() / ROUNDS;
    let all = || probes.iter().map(least).zip(units);
    let at = |slice: f64| -> f64 { all().map(|(n, unit)| (n as f64 * unit).max(slice)).sum() };
    // Find the longest slice for which a round is not too long.
    let (mut low, mut high) = (SLICE[0], SLICE[1]);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match at(middle) <= goal {
            true => low = middle,
            false => high = middle,
        }
    }
    let low = low.max(FAIR_SLICE.min(goal / units.len().max(1) as f64));
    let fits = |unit: &f64| (low / unit.max(1e-9)).min(MOST_COUNT) as u64;
    all().map(|(n, unit)| fits(unit).max(n)).collect()
}

/// The point with this number of messages, round trips, calls or passes.
pub fn with_count(probe: Probe, count: u64) -> Probe {
    let mut probe = probe;
    match &mut probe {
        Probe::PingPong { rounds, .. } => *rounds = count,
        Probe::Stream { messages, .. } => *messages = count,
        Probe::AllToAll { calls, .. } => *calls = count,
        Probe::Memory { passes, .. } => *passes = count,
    }
    probe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            nodes: 2,
            per_node: 8,
            ways: vec![Distance::Inside, Distance::Outside],
            memory: 1 << 30,
        }
    }

    fn lengths_of(points: &[Probe], all_to_all: bool) -> Vec<u64> {
        let mut lengths: Vec<u64> = points
            .iter()
            .filter(|p| matches!(p, Probe::AllToAll { .. }) == all_to_all)
            .filter_map(family_of)
            .map(|f| f.1)
            .collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    #[test]
    fn few_ranks_are_all_measured_and_many_in_steps() {
        assert_eq!(numbers(4), [1, 2, 3, 4]);
        let many = numbers(100);
        assert_eq!(many[..16], (1..=16).collect::<Vec<u32>>());
        assert_eq!(many[16..], [24, 32, 48, 64, 96, 100]);
    }

    #[test]
    fn a_fast_network_keeps_every_point() {
        let speeds = Speeds {
            inside: Some((1e-6, 5e9)),
            outside: Some((2e-6, 1e10)),
        };
        let (points, notes) = shape().points(&speeds, 0.1, 60.0);
        assert_eq!(points, shape().all());
        assert!(notes.is_empty());
        assert_eq!(lengths_of(&points, true), ALL_TO_ALL);
    }

    #[test]
    fn a_slow_one_gets_shorter_messages_for_all_numbers_of_ranks_alike() {
        let speeds = Speeds {
            inside: Some((1e-6, 5e9)),
            outside: Some((100e-6, 12e6)),
        };
        let (points, notes) = shape().points(&speeds, 1.0, 60.0);
        let cost: f64 = points.iter().map(|p| speeds.least_seconds(p)).sum();
        assert!(cost <= 60.0 / 5.0 - 1.0, "{cost}");
        assert!(!notes.is_empty());
        let lengths = lengths_of(&points, true);
        assert!(lengths.len() == 2 && lengths[1] < 1 << 20, "{lengths:?}");
        for length in lengths {
            let of = |p: &&Probe| family_of(p) == Some(("all-to-all", length));
            assert_eq!(points.iter().filter(of).count(), 8);
        }
    }

    #[test]
    fn what_memory_does_not_hold_is_made_smaller() {
        let small = Shape {
            memory: 2 << 20,
            ..shape()
        };
        let (points, notes) = small.points(&Speeds::default(), 0.0, 60.0);
        assert!(points.iter().all(|p| small.held(p) <= 2 << 20));
        assert!(notes.iter().any(|n| n.contains("memory")));
    }

    #[test]
    fn counts_fill_the_time_with_about_the_same_for_each_point() {
        let stream = |bytes| Probe::Stream {
            way: Distance::Outside,
            pairs: 1,
            both_ways: true,
            bytes,
            messages: 1,
        };
        let probes = [stream(8), stream(1 << 10), stream(1 << 20)];
        let units = [1e-6, 1e-3, 1.0];
        let counts = counts(&probes, &units, Duration::from_secs(27));
        let round: f64 = units.iter().zip(&counts).map(|(u, &n)| u * n as f64).sum();
        assert!((2.0..=3.0).contains(&round), "{counts:?}");
        // At least two, however long they take.
        assert_eq!(counts[2], 2);
        assert_eq!(counts[0], 10_000);
    }
}

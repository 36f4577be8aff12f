//! The parameters of the model, estimated from the times of all points, and its predictions for
//! them.

use super::curves::{Filling, Pieces, filling, pieces};
use super::samples::{CalibrationSamples, Distance, Probe};

/// Messages of at least this length determine the bandwidth of a stream.
pub const LONG: u64 = 32 << 10;

/// Streams of shorter messages serve only to measure the overhead.
const SHORTEST: u64 = 1 << 10;

/// The parameters of one path; seconds and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayNumbers {
    /// The ping-pong, times against bytes.
    pub ping_pong: Pieces,
    /// Latency without the overheads of both ranks.
    pub latency: f64,
    /// Bandwidth of a single message.
    pub bandwidth: f64,
    /// Bandwidth of one streaming pair, and of all together; `None` without streams.
    pub filling: Option<Filling>,
    /// The same if both ranks send: total of both directions.
    pub both: Option<Filling>,
}

impl WayNumbers {
    /// Time of an empty message between ranks.
    fn empty(&self) -> f64 {
        self.ping_pong.short.at
    }

    /// Bandwidth of one pair in one direction, without competing pairs.
    fn alone(&self, both_ways: bool) -> f64 {
        let one = self.filling.map_or(self.bandwidth, |f| f.each);
        let both = self.both.filter(|_| both_ways);
        both.map_or(one, |both| one.min(both.each / 2.0))
    }

    /// Largest total observed, in one direction or in both; `None` without streams.
    pub fn most(&self) -> Option<f64> {
        let full = [self.filling, self.both].into_iter().flatten();
        full.map(|f| f.full).reduce(f64::max)
    }

    /// Share of each of `flows` in one direction. A resource that never saturated sets no limit.
    fn shared(&self, flows: f64, both_ways: bool) -> f64 {
        let part = |filling: Option<Filling>, flows: f64| match filling {
            Some(f) if f.seen => f.full / flows,
            _ => f64::INFINITY,
        };
        let both = self.both.filter(|_| both_ways);
        part(self.filling, flows).min(part(both, 2.0 * flows))
    }
}

/// The parameters of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// CPU seconds of a rank for each message sent or received.
    pub overhead: f64,
    /// Inside a node.
    pub inside: Option<WayNumbers>,
    /// Between nodes.
    pub outside: Option<WayNumbers>,
    /// Ping-pong time of an empty message across leaves, seconds.
    pub across: Option<f64>,
    /// Slow-down by rank count, from 2.
    pub slow_down: Vec<(u32, f64)>,
    /// CPUs of a node.
    pub cpus: u32,
}

/// Estimates all parameters from one time for each point of `samples`.
pub fn numbers(samples: &CalibrationSamples, seconds: &[f64]) -> Numbers {
    let points: Vec<(Probe, f64)> = samples
        .points
        .iter()
        .map(|p| p.probe)
        .zip(seconds.iter().copied())
        .collect();
    let empty = |way| ping_pong(&points, way).map(|p| p.short.at);
    // The model has one overhead. It is largest between nodes, but cannot exceed half of an empty
    // message within a node; the rest is in the latency.
    let ways = [Distance::Outside, Distance::Inside];
    let overhead = ways
        .into_iter()
        .find_map(|way| overhead(&points, way, empty(way)?))
        .unwrap_or(0.0);
    let most = ways.into_iter().filter_map(empty).map(|e| e / 2.0);
    let overhead = most.fold(overhead, f64::min);
    let cpus = samples.cpus_per_node;
    let own_cpus = |(probe, _): &&(Probe, f64)| !is_crowded(probe, cpus);
    let free: Vec<(Probe, f64)> = points.iter().filter(own_cpus).copied().collect();
    let mut found = Numbers {
        overhead,
        inside: way_numbers(&free, Distance::Inside, overhead),
        outside: way_numbers(&points, Distance::Outside, overhead),
        across: empty(Distance::Across),
        slow_down: slow_down(&free),
        cpus,
    };
    settle_both(&mut found, &points);
    found
}

/// Fits the joint capacity of both directions of the adapters, if they affect each other, to the
/// two-way streams and the all-to-alls of long messages. If a transport's acknowledgements queue
/// behind the data of the other direction, a few long streams move less than many short-lived ones,
/// and programs have both.
fn settle_both(found: &mut Numbers, points: &[(Probe, f64)]) {
    /// Steps between the smallest and the largest value tried.
    const STEPS: u32 = 50;
    let Some(outside) = found.outside else {
        return;
    };
    let (Some(one), Some(both)) = (outside.filling, outside.both.filter(|b| b.seen)) else {
        return;
    };
    let together = |probe: &Probe| match *probe {
        Probe::Stream {
            way: Distance::Outside,
            both_ways: true,
            bytes,
            ..
        } => bytes >= LONG,
        Probe::AllToAll { nodes, bytes, .. } => nodes > 1 && bytes >= LONG,
        _ => false,
    };
    let of_both: Vec<&(Probe, f64)> = points.iter().filter(|(probe, _)| together(probe)).collect();
    if !of_both
        .iter()
        .any(|(probe, _)| matches!(probe, Probe::AllToAll { .. }))
    {
        return;
    }
    let (least, most) = (both.full.min(2.0 * one.full), 2.0 * one.full);
    let with = |full: f64| {
        let mut changed = found.clone();
        if let Some(of) = changed.outside.as_mut().and_then(|w| w.both.as_mut()) {
            of.full = full;
            of.each = of.each.max(full.min(2.0 * one.each));
        }
        changed
    };
    let error = |numbers: &Numbers| -> f64 {
        let residuals = of_both
            .iter()
            .filter_map(|(probe, time)| Some((time / numbers.predicted(probe)?).ln().powi(2)));
        residuals.sum()
    };
    let tried = (0..=STEPS).map(|i| with(least + (most - least) * f64::from(i) / f64::from(STEPS)));
    if let Some(best) = tried.min_by(|a, b| error(a).total_cmp(&error(b))) {
        *found = best;
    }
}

fn ping_pong(points: &[(Probe, f64)], of: Distance) -> Option<Pieces> {
    let mut times: Vec<(f64, f64)> = points
        .iter()
        .filter_map(|&(probe, time)| match probe {
            Probe::PingPong { way, bytes, .. } if way == of => Some((bytes as f64, time)),
            _ => None,
        })
        .collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    pieces(&times)
}

/// The least time per message of a one-way stream of one pair: for messages that the link transfers
/// faster, this is the ranks' overhead.
fn overhead(points: &[(Probe, f64)], of: Distance, empty: f64) -> Option<f64> {
    let each = points.iter().filter_map(|&(probe, time)| match probe {
        Probe::Stream {
            way,
            pairs: 1,
            both_ways: false,
            messages,
            ..
        } if way == of => Some(net(time, 2.0 * empty) / messages as f64),
        _ => None,
    });
    each.min_by(f64::total_cmp)
}

/// A time without its latency; at least a tenth of it, as latency varies too.
fn net(time: f64, latency: f64) -> f64 {
    (time - latency).max(0.1 * time)
}

fn way_numbers(points: &[(Probe, f64)], way: Distance, overhead: f64) -> Option<WayNumbers> {
    let ping_pong = ping_pong(points, way)?;
    let slope = [ping_pong.long.per, ping_pong.short.per];
    let slope = slope.into_iter().find(|&per| per > 0.0)?;
    let empty = ping_pong.short.at;
    Some(WayNumbers {
        ping_pong,
        latency: (empty - 2.0 * overhead).max(0.0),
        bandwidth: 1.0 / slope,
        filling: filling(&totals(points, way, false, empty)),
        both: filling(&totals(points, way, true, empty)),
    })
}

/// Bytes per second of all pairs together, by number of pairs, for the longest messages.
fn totals(points: &[(Probe, f64)], of: Distance, both: bool, empty: f64) -> Vec<(f64, f64)> {
    let streams = points.iter().filter_map(|&(probe, time)| match probe {
        Probe::Stream {
            way,
            pairs,
            both_ways,
            bytes,
            messages,
        } if way == of && both_ways == both && bytes >= LONG => {
            let flows = f64::from(pairs) * if both { 2.0 } else { 1.0 };
            let moved = bytes as f64 * messages as f64 * flows;
            // Latency of the first message and, one way, of the acknowledgement.
            let latency = empty * if both { 1.0 } else { 2.0 };
            Some((bytes, f64::from(pairs), moved / net(time, latency)))
        }
        _ => None,
    });
    let streams: Vec<_> = streams.collect();
    let longest = streams.iter().map(|s| s.0).max();
    let mut totals: Vec<(f64, f64)> = streams
        .into_iter()
        .filter(|s| Some(s.0) == longest)
        .map(|s| (s.1, s.2))
        .collect();
    totals.sort_by(|a, b| a.0.total_cmp(&b.0));
    totals
}

/// Whether a point on one node has more ranks than CPUs: its time then includes waits for a CPU,
/// which say nothing about memory.
fn is_crowded(probe: &Probe, cpus: u32) -> bool {
    let ranks = match *probe {
        Probe::Stream {
            way: Distance::Inside,
            pairs,
            ..
        } => 2 * u64::from(pairs),
        Probe::Memory { ranks, .. } => u64::from(ranks),
        _ => 0,
    };
    ranks > u64::from(cpus).max(2)
}

fn slow_down(points: &[(Probe, f64)]) -> Vec<(u32, f64)> {
    let mut times: Vec<(u32, f64)> = points
        .iter()
        .filter_map(|&(probe, time)| match probe {
            Probe::Memory { ranks, .. } => Some((ranks, time)),
            _ => None,
        })
        .collect();
    times.sort_by_key(|t| t.0);
    match times.split_first() {
        Some((&(1, alone), others)) => others.iter().map(|&(k, t)| (k, t / alone)).collect(),
        _ => Vec::new(),
    }
}

impl Numbers {
    /// The model's time for a point, in seconds; `None` if it has none.
    pub fn predicted(&self, probe: &Probe) -> Option<f64> {
        let o = self.overhead;
        match *probe {
            Probe::PingPong { way, bytes, .. } => {
                let numbers = self.way(way)?;
                let more = match (way, self.across) {
                    (Distance::Across, Some(across)) => (across - numbers.empty()).max(0.0),
                    _ => 0.0,
                };
                Some(2.0 * o + numbers.latency + more + bytes as f64 / numbers.bandwidth)
            }
            Probe::Stream {
                way,
                pairs,
                both_ways,
                bytes,
                messages,
            } => {
                // Short messages only determine the overhead, which all paths share; waits for a
                // CPU are not modelled.
                if bytes < SHORTEST || is_crowded(probe, self.cpus) {
                    return None;
                }
                let numbers = self.way(way)?;
                let rate = numbers
                    .alone(both_ways)
                    .min(numbers.shared(f64::from(pairs), both_ways));
                let busy = if both_ways { 2.0 * o } else { o };
                let each = (bytes as f64 / rate).max(busy);
                let empty = 2.0 * o + numbers.latency;
                let ends = if both_ways { empty } else { 2.0 * empty };
                Some(ends + messages as f64 * each)
            }
            Probe::AllToAll {
                nodes,
                per_node,
                bytes,
                ..
            } => self.all_to_all(f64::from(nodes), f64::from(per_node), bytes as f64),
            Probe::Memory { .. } => None,
        }
    }

    fn way(&self, way: Distance) -> Option<&WayNumbers> {
        match way {
            Distance::Inside => self.inside.as_ref(),
            Distance::Outside | Distance::Across => self.outside.as_ref(),
        }
    }

    /// Each node sends k k (N - 1) messages through its adapter while k (k - 1) go through its
    /// memory. A rank moves no more than one streaming pair does, however many messages it has.
    fn all_to_all(&self, nodes: f64, k: f64, bytes: f64) -> Option<f64> {
        let peers = nodes * k - 1.0;
        let (mut longest, mut latency) = (0.0_f64, 0.0_f64);
        let mut part = |numbers: &WayNumbers, of_rank: f64| {
            let shared = bytes / numbers.shared(k * of_rank, true);
            let alone = of_rank * bytes / numbers.alone(true);
            longest = longest.max(shared).max(alone);
            latency = latency.max(numbers.latency);
        };
        if nodes > 1.0 {
            part(self.outside.as_ref()?, k * (nodes - 1.0));
        }
        if k > 1.0 {
            part(self.inside.as_ref()?, k - 1.0);
        }
        Some(latency + 2.0 * self.overhead * peers + longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::curves::Line;

    #[test]
    fn what_both_directions_move_together_was_moved() {
        let line = Line {
            at: 1e-6,
            per: 1e-9,
        };
        let filling = |full| Filling {
            each: full,
            full,
            seen: false,
        };
        let mut way = WayNumbers {
            ping_pong: Pieces {
                short: line,
                long: line,
                last_short: None,
            },
            latency: 1e-6,
            bandwidth: 1e9,
            filling: Some(filling(5e9)),
            both: Some(filling(10e9)),
        };
        assert_eq!(way.most(), Some(10e9));
        way.both = Some(filling(4e9));
        assert_eq!(way.most(), Some(5e9));
        (way.filling, way.both) = (None, None);
        assert_eq!(way.most(), None);
    }
}

//! Clocks of several nodes: from message exchanges to corrected times.
//!
//! In an exchange a node reads its own clock, sends, gets the other node's clock back, and reads
//! its own clock again. The other clock was read in between, so half of the round trip bounds the
//! error (Cristian 1989). Two exchanges some time apart also give the drift; between them the
//! offset is interpolated linearly (Hunold and Carpen-Amarie 2018 measure how well a line fits).

use idlewave_run::{Alignment, AlignmentPoint, Ledger};
use idlewave_units::Nanos;

/// Assumed drift between two clocks, in parts per million, where no second exchange shows it: two
/// quartz oscillators of 50 ppm each, the usual tolerance.
pub const DRIFT_PPM: u64 = 100;

/// One exchange between two nodes, by their indices in the list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The node that asked.
    pub node: usize,
    /// The node that answered.
    pub peer: usize,
    /// Own clock when the request was sent, CLOCK_MONOTONIC nanoseconds like the others.
    pub sent_ns: u64,
    /// Own clock when the answer arrived.
    pub received_ns: u64,
    /// The peer's clock in between.
    pub peer_ns: u64,
}

impl Exchange {
    /// As a point on the asking node's clock.
    fn point(&self) -> Option<AlignmentPoint> {
        let round_trip = self.received_ns.checked_sub(self.sent_ns)?;
        let middle = self.sent_ns + round_trip / 2;
        Some(AlignmentPoint {
            time_ns: middle,
            offset_ns: difference(self.peer_ns, middle),
            round_trip: Nanos::from_nanos(round_trip),
        })
    }

    /// As a point on the answering node's clock.
    fn point_of_peer(&self) -> Option<AlignmentPoint> {
        let point = self.point()?;
        Some(AlignmentPoint {
            time_ns: self.peer_ns,
            offset_ns: -point.offset_ns,
            ..point
        })
    }
}

fn difference(a: u64, b: u64) -> i64 {
    // Clocks of running machines differ by years at most, far less than the 292 years that fit.
    a.wrapping_sub(b) as i64
}

/// The conversion of a node's clock to that of the first node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// In rising order of time, at least one. `i128` holds every product below.
    points: Vec<AlignmentPoint>,
    /// Whether to use the drift between the points; otherwise the offset of the best point holds
    /// throughout.
    drift: bool,
}

impl Correction {
    /// No correction, for the first node's own clock.
    pub fn none() -> Self {
        Self::constant(AlignmentPoint {
            time_ns: 0,
            offset_ns: 0,
            round_trip: Nanos::ZERO,
        })
    }

    fn constant(point: AlignmentPoint) -> Self {
        Self {
            points: vec![point],
            drift: false,
        }
    }

    /// The correction with the smaller error bound for times from `from` to `to`; the line if the
    /// points show more drift than a constant offset assumes. `None` without points.
    pub fn fit(mut points: Vec<AlignmentPoint>, from: u64, to: u64) -> Option<Self> {
        points.sort_by_key(|p| (p.time_ns, p.round_trip));
        points.dedup_by_key(|p| p.time_ns);
        let best = *points.iter().min_by_key(|p| p.round_trip)?;
        let line = Self {
            points,
            drift: true,
        };
        let constant = Self::constant(best);
        let usable = line.points.len() > 1 && line.is_monotone();
        let better = || line.worst(from, to) <= constant.worst(from, to);
        Some(if usable && (!constant.agrees(&line.points) || better()) {
            line
        } else {
            constant
        })
    }

    /// Whether the offset at each of `points` can be the true one, given the error bounds of both.
    fn agrees(&self, points: &[AlignmentPoint]) -> bool {
        points.iter().all(|p| {
            let bound = self.error(p.time_ns).get().saturating_add(half(p));
            self.offset(p.time_ns).abs_diff(p.offset_ns) <= bound
        })
    }

    /// The offset to add to the node's clock at its time `at`, in nanoseconds.
    pub fn offset(&self, at: u64) -> i64 {
        let (a, b) = self.segment(at);
        line(a, b, at)
    }

    /// The first node's time at the node's time `at`; 0 if it would be before the first node's
    /// start.
    pub fn apply(&self, at: u64) -> u64 {
        at.saturating_add_signed(self.offset(at))
    }

    /// Bound of the error of [`apply`](Self::apply) at `at`.
    pub fn error(&self, at: u64) -> Nanos {
        let (a, b) = self.segment(at);
        let half = |p| u128::from(half(p));
        let ns = if a.time_ns == b.time_ns {
            let away = u128::from(at.abs_diff(a.time_ns));
            half(a) + (away * u128::from(DRIFT_PPM)).div_ceil(1_000_000)
        } else {
            // The errors of both ends, with their weights in the line; outside the points, one
            // weight exceeds 1.
            let (to_a, to_b) = (at.abs_diff(a.time_ns), at.abs_diff(b.time_ns));
            let weighted = half(a) * u128::from(to_b) + half(b) * u128::from(to_a);
            weighted.div_ceil(u128::from(b.time_ns - a.time_ns))
        };
        // Add one for rounding down.
        Nanos::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(1))
    }

    /// The two points whose line holds at `at`; the same point twice if the offset is constant.
    fn segment(&self, at: u64) -> (&AlignmentPoint, &AlignmentPoint) {
        let last = self.points.len() - 1;
        if !self.drift {
            return (&self.points[0], &self.points[0]);
        }
        // Outside the points, use the line through the outermost ones: the longest base for the
        // drift.
        if at <= self.points[0].time_ns || at >= self.points[last].time_ns {
            return (&self.points[0], &self.points[last]);
        }
        let next = self.points.partition_point(|p| p.time_ns <= at);
        (&self.points[next - 1], &self.points[next.min(last)])
    }

    /// Whether corrected times never run backwards.
    fn is_monotone(&self) -> bool {
        self.points
            .windows(2)
            .all(|w| w[0].offset_ns.abs_diff(w[1].offset_ns) < w[1].time_ns - w[0].time_ns)
    }

    /// The largest error from `from` to `to`. The error is piecewise linear, so the maximum is at
    /// an end or at a point.
    fn worst(&self, from: u64, to: u64) -> Nanos {
        let inside = self
            .points
            .iter()
            .map(|p| p.time_ns)
            .filter(|t| (from..=to).contains(t));
        [from, to]
            .into_iter()
            .chain(inside)
            .map(|at| self.error(at))
            .max()
            .unwrap_or(Nanos::ZERO)
    }

    /// For the manifest; `from` and `to` are the node's first and last time.
    pub fn sheet(&self, from: u64, to: u64) -> Alignment {
        let method = if self.drift {
            "quickest of several exchanges of messages per point; linear interpolation between the points; a drift that \
             changes between them is not seen"
                .to_owned()
        } else {
            format!(
                "quickest of several exchanges of messages; constant offset, drift assumed to be within {DRIFT_PPM} ppm"
            )
        };
        Alignment {
            points: self.points.clone(),
            error: self.worst(from, to),
            method,
        }
    }
}

/// Bound of the error of a point's offset: half of the round trip, rounded up.
fn half(point: &AlignmentPoint) -> u64 {
    point.round_trip.get().div_ceil(2)
}

/// The line through `a` and `b` at `at`, rounded down.
fn line(a: &AlignmentPoint, b: &AlignmentPoint, at: u64) -> i64 {
    if a.time_ns == b.time_ns {
        return a.offset_ns;
    }
    let rise = i128::from(b.offset_ns) - i128::from(a.offset_ns);
    let along = i128::from(at) - i128::from(a.time_ns);
    let run = i128::from(b.time_ns) - i128::from(a.time_ns);
    let offset = i128::from(a.offset_ns) + (rise * along).div_euclid(run);
    offset.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// How a node's times were corrected in two parts of a run.
pub fn joined(first: Alignment, second: Alignment) -> Alignment {
    let mut points = first.points;
    points.extend(second.points);
    points.sort_by_key(|p| (p.time_ns, p.round_trip));
    points.dedup_by_key(|p| p.time_ns);
    let method = if first.method.contains(&second.method) {
        first.method
    } else {
        format!("{}; in a part of the run: {}", first.method, second.method)
    };
    Alignment {
        points,
        error: first.error.max(second.error),
        method,
    }
}

/// First and last time of a node, on its own clock.
pub type Span = (u64, u64);

/// Corrections of all nodes to the clock of node 0. `None` for a node that no chain of exchanges
/// reaches.
///
/// Exchanges need not involve node 0: offsets and errors add up along the chain.
pub fn corrections(nodes: &[Span], exchanges: &[Exchange]) -> Vec<Option<Correction>> {
    let mut found: Vec<Option<Correction>> = vec![None; nodes.len()];
    let Some(first) = found.first_mut() else {
        return found;
    };
    *first = Some(Correction::none());
    // Work outwards from node 0 in rings, so that each node is reached by a shortest chain.
    let mut ring = vec![0];
    while !ring.is_empty() {
        let mut next = Vec::new();
        for (node, &(from, to)) in nodes.iter().enumerate() {
            if found[node].is_some() {
                continue;
            }
            let points: Vec<AlignmentPoint> = ring
                .iter()
                .flat_map(|&known| points(node, known, exchanges, found[known].as_ref()))
                .collect();
            if let Some(correction) = Correction::fit(points, from, to) {
                next.push((node, correction));
            }
        }
        ring = next.iter().map(|(node, _)| *node).collect();
        for (node, correction) in next {
            found[node] = Some(correction);
        }
    }
    found
}

/// Points of `node` against node 0, through `known`.
fn points(
    node: usize,
    known: usize,
    exchanges: &[Exchange],
    correction: Option<&Correction>,
) -> Vec<AlignmentPoint> {
    let Some(correction) = correction else {
        return Vec::new();
    };
    let direct = exchanges.iter().filter_map(|e| {
        if (e.node, e.peer) == (node, known) {
            e.point()
        } else if (e.peer, e.node) == (node, known) {
            e.point_of_peer()
        } else {
            None
        }
    });
    direct
        .map(|p| {
            let there = p.time_ns.saturating_add_signed(p.offset_ns);
            let error = correction.error(there).get();
            let own = known == 0;
            AlignmentPoint {
                time_ns: p.time_ns,
                offset_ns: p.offset_ns.saturating_add(correction.offset(there)),
                round_trip: if own {
                    p.round_trip
                } else {
                    Nanos::from_nanos(p.round_trip.get().saturating_add(2 * error))
                },
            }
        })
        .collect()
}

/// For a node that shares the first node's clock
/// ([`NodeFacts::shares_clock`](crate::NodeFacts::shares_clock)): no correction if the messages
/// agree within their error; otherwise the messages are trusted, and the ledger gets an entry.
pub fn shared_clock(
    measured: Option<&Correction>,
    (from, to): Span,
    host: &str,
    losses: &mut Ledger,
) -> (Correction, Option<Alignment>) {
    let Some(measured) = measured else {
        return (Correction::none(), None);
    };
    let agrees = [from, to]
        .iter()
        .all(|&at| measured.offset(at).unsigned_abs() <= measured.error(at).get());
    if agrees {
        return (Correction::none(), None);
    }
    losses.enter(
        format!("agreement of the clock of node {host} with that of the first node, although they share a kernel"),
        1,
        "its times are corrected by the message exchanges",
        "report it as a defect of idlewave",
    );
    (measured.clone(), Some(measured.sheet(from, to)))
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;

//! What messages cost, from the messages of a run themselves.
//!
//! Of messages whose receiver waited before they were sent, the shortest time of each class of lengths (a power of two) is one that
//! nothing else disturbed: L + 2 o + (n - 1) G. A straight line through these, each weighted by the inverse square of its time so
//! that all lengths count alike relatively, gives G and L + 2 o; the shortest calls that start a send give o and O. The minimum of few messages
//! is too long, never too short but for the clocks: n is told.
//!
//! It cannot tell g, which is set to 0 (a CPU sends no faster than o), nor S, which is set so that no sender waits.

use crate::ReplayError;
use crate::script::Script;
use idlewave_explain::program::Instance;
use idlewave_run::tables::operation_class as class;
use idlewave_simulate::goal::{Parameters, PerByte};
use idlewave_stats::distributions::student_quantile;
use idlewave_units::{Bytes, Nanos};

/// A cost in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The estimate.
    pub value: f64,
    /// Its 95 % interval, the error of the clocks included; `None` of messages of fewer than three classes of lengths, about
    /// whose scatter nothing is known.
    pub interval: Option<(f64, f64)>,
    /// Messages or collectives that it was made of.
    pub n: u64,
    /// How it was made.
    pub method: &'static str,
}

/// What messages of a run cost.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageCosts {
    /// For the engines.
    pub parameters: Parameters,
    /// L + 2 o, in nanoseconds: the shortest message of one byte.
    pub shortest: Cost,
    /// G, in nanoseconds per byte; `None` where all messages were of one class of lengths.
    pub per_byte: Option<Cost>,
    /// Bound of the error between the clocks of sender and receiver.
    pub clock_error: Nanos,
}

/// Classes of lengths: 0, 1, 2 to 3, 4 to 7, and so on.
const CLASSES: usize = 65;

/// The shortest time of each class of lengths.
struct Shortest {
    /// Bytes after the first and nanoseconds.
    best: [Option<(u64, u64)>; CLASSES],
    seen: u64,
}

impl Shortest {
    fn new() -> Self {
        Shortest {
            best: [None; CLASSES],
            seen: 0,
        }
    }

    fn add(&mut self, bytes: u64, ns: u64) {
        self.seen += 1;
        let best = &mut self.best[(u64::BITS - bytes.leading_zeros()) as usize];
        let this = (bytes.saturating_sub(1), ns);
        if best.is_none_or(|(_, least)| ns < least) {
            *best = Some(this);
        }
    }

    fn line(&self) -> Option<Line> {
        let points: Vec<(f64, f64)> = self
            .best
            .iter()
            .flatten()
            .map(|&(bytes, ns)| (bytes as f64, ns.max(1) as f64))
            .collect();
        Line::through(&points)
    }
}

/// A weighted straight line, y = base + slope x.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    base: f64,
    /// Not below 0.
    slope: Option<f64>,
    /// Half widths of 95 % intervals; unknown with two points, which a line always meets.
    base_half: Option<f64>,
    slope_half: Option<f64>,
}

impl Line {
    /// Weights are 1 / y^2. `None` without points; no slope with one abscissa, or one that falls.
    fn through(points: &[(f64, f64)]) -> Option<Line> {
        let least = points.iter().map(|p| p.1).min_by(f64::total_cmp)?;
        let flat = Line {
            base: least,
            slope: None,
            base_half: None,
            slope_half: None,
        };
        let weighted = |f: &dyn Fn(&(f64, f64)) -> f64| -> f64 {
            points.iter().map(|p| f(p) / (p.1 * p.1)).sum()
        };
        let w = weighted(&|_| 1.0);
        let (x, y) = (weighted(&|p| p.0) / w, weighted(&|p| p.1) / w);
        let xx = weighted(&|p| (p.0 - x).powi(2));
        if points.len() < 2 || xx <= 0.0 {
            return Some(flat);
        }
        let slope = weighted(&|p| (p.0 - x) * (p.1 - y)) / xx;
        let base = y - slope * x;
        if slope <= 0.0 || base <= 0.0 {
            return Some(flat);
        }
        let free = points.len() as f64 - 2.0;
        let t = (points.len() > 2).then(|| {
            let off = weighted(&|p| (p.1 - base - slope * p.0).powi(2));
            (off / free).sqrt() * student_quantile(0.975, free)
        });
        Some(Line {
            base,
            slope: Some(slope),
            base_half: t.map(|t| t * (1.0 / w + x * x / xx).sqrt()),
            slope_half: t.map(|t| t / xx.sqrt()),
        })
    }
}

/// What messages of a run cost; from its collectives if it has no messages.
///
/// # Errors
/// As [`schedule_of`](crate::schedule_of); and if nobody ever waited for a message.
pub fn message_costs(run: &idlewave_run::RunReader) -> Result<MessageCosts, ReplayError> {
    of_script(&Script::read(run, crate::Taken::Removed)?)
}

pub(crate) fn of_script(script: &Script) -> Result<MessageCosts, ReplayError> {
    let (mut messages, mut sends) = (Shortest::new(), Shortest::new());
    let mut clock_error = 0;
    for pair in 0..script.recorded.matched.pairs.len() {
        let Some(message) = script.message(pair).filter(|m| !m.to_itself) else {
            continue;
        };
        if let Some(ns) = message.send_took {
            sends.add(message.bytes, ns);
        }
        if message.waited <= message.sent && message.sent < message.received {
            messages.add(message.bytes, message.received - message.sent);
            clock_error = clock_error.max(message.clock_error);
        }
    }
    match (messages.line(), sends.line()) {
        (Some(line), send) => Ok(of_lines(line, send, messages.seen, clock_error)),
        (None, _) => of_collectives(script).ok_or(ReplayError::NoCosts),
    }
}

fn of_lines(line: Line, send: Option<Line>, seen: u64, clock_error: u64) -> MessageCosts {
    // A message costs its sender no more than all of its time.
    let overhead = send.map_or(0.0, |s| s.base).min(line.base / 2.0).floor();
    let slope = line.slope.unwrap_or(0.0);
    let send_slope = send.and_then(|s| s.slope).unwrap_or(0.0).min(slope);
    let half = line.base_half.map(|half| half + clock_error as f64);
    let cost = |value: f64, half: Option<f64>| Cost {
        value,
        interval: half.map(|half| ((value - half).max(0.0), value + half)),
        n: seen,
        method: "shortest message of each class of lengths, weighted line, Student's t, 95 %, and the error of the clocks",
    };
    MessageCosts {
        parameters: Parameters {
            latency: Nanos::from_nanos((line.base - 2.0 * overhead).round().max(0.0) as u64),
            overhead: Nanos::from_nanos(overhead as u64),
            gap: Nanos::ZERO,
            gap_per_byte: per_byte(slope),
            overhead_per_byte: per_byte(send_slope),
            rendezvous: Bytes::new(u64::MAX),
        },
        shortest: cost(line.base, half),
        per_byte: line.slope.map(|slope| cost(slope, line.slope_half)),
        clock_error: Nanos::from_nanos(clock_error),
    }
}

/// With six decimals: a picosecond per kilobyte.
fn per_byte(ns: f64) -> PerByte {
    format!("{ns:.6}").parse().unwrap_or(PerByte::ZERO)
}

/// From the last member entered to the last one left, by the rounds that a small one has: all of it latency.
fn of_collectives(script: &Script) -> Option<MessageCosts> {
    let program = &script.recorded.program;
    let (mut best, mut seen, mut error): (Option<f64>, u64, u64) = (None, 0, 0);
    let together = |i: &&Instance| i.class == class::ALL_TO_ALL && i.members.len() > 1;
    for instance in program.instances.iter().filter(together) {
        let members = program.members_of(instance);
        let left = members.iter().map(|m| program.call(m.0, m.1).end).max()?;
        let rounds = members.len().next_power_of_two().trailing_zeros();
        let ns = left.saturating_sub(instance.last_enter) as f64 / f64::from(rounds);
        best = Some(best.map_or(ns, |b| b.min(ns)));
        let errors = members
            .iter()
            .map(|m| program.clock_error(m.0, instance.last));
        error = error.max(errors.max().unwrap_or(0));
        seen += 1;
    }
    let shortest = best?;
    Some(MessageCosts {
        parameters: Parameters {
            latency: Nanos::from_nanos(shortest.round() as u64),
            ..Parameters::FREE
        },
        shortest: Cost {
            value: shortest,
            interval: None,
            n: seen,
            method: "shortest collective from its last member's entry, by its rounds",
        },
        per_byte: None,
        clock_error: Nanos::from_nanos(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_a_line_give_it_back_and_leave_no_doubt() {
        let points: Vec<(f64, f64)> = [0.0, 7.0, 1_023.0, 65_535.0]
            .map(|x| (x, 1_000.0 + 0.25 * x))
            .to_vec();
        let line = Line::through(&points).unwrap();
        assert!((line.base - 1_000.0).abs() < 1e-6);
        assert!((line.slope.unwrap() - 0.25).abs() < 1e-9);
        assert!(line.base_half.unwrap() < 1e-6 && line.slope_half.unwrap() < 1e-9);
        // Two points are met by every line: nothing is known of the scatter.
        let line = Line::through(&points[..2]).unwrap();
        assert_eq!((line.base_half, line.slope_half), (None, None));
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Near-equal times: weights alike. Residuals of (0,10),(1,12),(2,11) times 1e6: slope 0.5, base 10.5, sum 1.5.
        let points = [(0.0, 1e6 + 10.0), (1.0, 1e6 + 12.0), (2.0, 1e6 + 11.0)];
        let line = Line::through(&points).unwrap();
        assert!((line.slope.unwrap() - 0.5).abs() < 1e-3);
        let t = student_quantile(0.975, 1.0);
        assert!((line.slope_half.unwrap() / (t * (1.5_f64 / 2.0).sqrt()) - 1.0).abs() < 1e-3);
        let base = t * (1.5_f64 * (1.0 / 3.0 + 1.0 / 2.0)).sqrt();
        assert!((line.base_half.unwrap() / base - 1.0).abs() < 1e-3);
    }

    #[test]
    fn all_lengths_count_alike_relatively() {
        let points = [
            (0.0, 1_000.0),
            (1_000.0, 2_100.0),
            (1e6, 9.5e5),
            (2e6, 2.2e6),
        ];
        let line = Line::through(&points).unwrap();
        let slope = line.slope.unwrap();
        // The normal equations of the relative residuals.
        let sum = |f: &dyn Fn(f64) -> f64| -> f64 {
            points
                .iter()
                .map(|&(x, y)| f(x) * (y - line.base - slope * x) / (y * y))
                .sum()
        };
        assert!(
            sum(&|_| 1.0).abs() < 1e-9 && sum(&|x| x).abs() < 1e-6,
            "{line:?}"
        );
    }

    #[test]
    fn one_length_or_longer_messages_that_are_faster_give_no_slope() {
        assert_eq!(Line::through(&[]), None);
        for points in [&[(4.0, 50.0)][..], &[(0.0, 90.0), (9.0, 50.0)]] {
            let line = Line::through(points).unwrap();
            assert_eq!((line.base, line.slope), (50.0, None));
        }
    }

    #[test]
    fn of_a_class_of_lengths_the_shortest_time_stays() {
        let mut all = Shortest::new();
        for (bytes, ns) in [(5, 70), (6, 60), (7, 65), (0, 9), (1, 8)] {
            all.add(bytes, ns);
        }
        let found: Vec<(u64, u64)> = all.best.iter().copied().flatten().collect();
        assert_eq!(found, [(0, 9), (0, 8), (5, 60)]);
        assert_eq!(all.seen, 5);
    }
}

//! Estimates what messages cost, from the messages of a run.
//!
//! The estimate uses only messages whose receiver was already waiting when they were sent. In each
//! length class (a power of two), the shortest time is undisturbed: L + 2 o + (n - 1) G. A straight
//! line through these times gives G and L + 2 o; each time is weighted by its inverse square, so
//! that the relative errors of all lengths count alike. The shortest calls that start a send give o
//! and O. The minimum of a few messages tends to be too long; it can be too short only by the clock
//! error. n is reported.
//!
//! A line through similar lengths says nothing about other lengths: G is then only a bound. Every
//! message bounds both values from above, whether its receiver waited or not: none takes less than
//! L + 2 o + (n - 1) G. If no receiver waited for a message, the fastest collectives stand in for
//! messages, with the rounds and bytes of their algorithms.
//!
//! A run shows neither g nor S. g is set to 0 (o already limits how fast a CPU sends), and S is set
//! so that no sender waits.

use crate::ReplayError;
use crate::line::Line;
use crate::script::{Played, Script};
use idlewave_explain::program::Instance;
use idlewave_run::tables::OperationClass as Class;
use idlewave_simulate::collectives::{Algorithms, Call, Kind, Step};
use idlewave_simulate::goal::{Parameters, PerByte};
use idlewave_units::{Bytes, Nanos, counted};

/// From this length on, the bytes of a message take long enough to be distinguished from its
/// latency: at 10 GB/s, 1 KiB takes 0.1 us, a fifth of the latency of shared memory.
const TELLING_BYTES: u64 = 1_024;
/// A line holds between and near its points if the longest length is at least this many times the
/// shortest.
const TELLING_RANGE: u64 = 16;
/// If all lengths are similar, all of their time counts as the cost of bytes from this length on,
/// and as latency below it.
const BYTES_DOMINATE: u64 = 65_536;
/// How to measure what a run does not show.
const NEXT: &str =
    "`idlewave measure pingpong` measures both, --latency and --gap-per-byte take them";

/// A cost in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The estimate.
    pub value: f64,
    /// Its 95 % interval; `None` with fewer than three length classes, whose scatter is unknown.
    /// For the shortest message it includes the clock error; for an upper bound it goes from 0 to
    /// the value.
    pub interval: Option<(f64, f64)>,
    /// Number of messages or collectives behind it.
    pub n: u64,
    /// How it was estimated.
    pub method: &'static str,
}

/// What the messages of a run cost.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageCosts {
    /// Parameters for the engines.
    pub parameters: Parameters,
    /// L + 2 o, in nanoseconds: the shortest time of a one-byte message.
    pub shortest: Cost,
    /// G, in nanoseconds per byte; `None` if no message was long enough to show it.
    pub per_byte: Option<Cost>,
    /// Bound on the clock error between sender and receiver.
    pub clock_error: Nanos,
    /// What these costs do not show and how to find out, one sentence each.
    pub doubts: Vec<String>,
}

/// Number of length classes: 0, 1, 2 to 3, 4 to 7, and so on.
const CLASSES: usize = 65;

fn class_of(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// The shortest time of each length class.
struct Shortest {
    /// Bytes and nanoseconds.
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
        let best = &mut self.best[class_of(bytes)];
        if best.is_none_or(|(_, least)| ns < least) {
            *best = Some((bytes, ns));
        }
    }

    fn line(&self) -> Option<Line> {
        let found = self.best.iter().flatten();
        let points = found.map(|&(bytes, ns)| (after_first(bytes), ns.max(1) as f64));
        Line::through(&points.collect::<Vec<_>>())
    }

    /// The shortest time, in nanoseconds.
    fn least(&self) -> f64 {
        let times = self.best.iter().flatten().map(|b| b.1);
        times.min().unwrap_or(0) as f64
    }

    /// Shortest and longest length.
    fn lengths(&self) -> Option<(u64, u64)> {
        let lengths = || self.best.iter().flatten().map(|b| b.0);
        lengths().min().zip(lengths().max())
    }
}

/// Number of bytes that cost G: all but the first.
fn after_first(bytes: u64) -> f64 {
    bytes.saturating_sub(1) as f64
}

/// Upper bounds on what messages cost: the times of the fastest, plus the clock error.
struct Bounds {
    /// The shortest time of each length class.
    least: [Option<u64>; CLASSES],
    /// In each length class, the message that took the least time per byte: bytes and nanoseconds.
    fastest: [Option<(u64, u64)>; CLASSES],
}

impl Bounds {
    fn new() -> Self {
        Bounds {
            least: [None; CLASSES],
            fastest: [None; CLASSES],
        }
    }

    fn add(&mut self, bytes: u64, ns: u64) {
        let least = &mut self.least[class_of(bytes)];
        *least = Some(least.map_or(ns, |least| least.min(ns)));
        let fastest = &mut self.fastest[class_of(bytes)];
        let slower =
            |(b, t): (u64, u64)| u128::from(ns) * u128::from(b) < u128::from(t) * u128::from(bytes);
        if fastest.is_none_or(slower) {
            *fastest = Some((bytes, ns));
        }
    }

    fn add_all(&mut self, times: &Shortest, clock_error: u64) {
        for &(bytes, ns) in times.best.iter().flatten() {
            self.add(bytes, ns.saturating_add(clock_error));
        }
    }

    /// Adds only the long ones: they bound what a byte costs, whatever they say about the latency.
    fn add_long(&mut self, times: &Shortest, clock_error: u64) {
        for &(bytes, ns) in times.best.iter().flatten() {
            if bytes >= TELLING_BYTES {
                self.fastest[class_of(bytes)] = Some((bytes, ns.saturating_add(clock_error)));
            }
        }
    }

    /// The shortest time of all messages of up to about this many bytes.
    fn least(&self, bytes: u64) -> Option<f64> {
        let classes = self.least[..=class_of(bytes)].iter().flatten();
        classes.min().map(|&ns| ns as f64)
    }

    /// The most that a byte can cost if an empty message costs `base`, and the length that gives
    /// this bound. Only long messages count.
    fn per_byte(&self, base: f64) -> Option<(f64, u64)> {
        let long = self.fastest.iter().flatten();
        long.filter(|f| f.0 >= TELLING_BYTES)
            .map(|&(bytes, ns)| ((ns as f64 - base).max(0.0) / after_first(bytes), bytes))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// What the messages of a run cost; estimated from its collectives if no receiver waited for a
/// message.
///
/// # Errors
/// Like [`schedule_of`](crate::schedule_of), and runs with neither messages nor collectives.
pub fn message_costs(run: &idlewave_run::RunReader) -> Result<MessageCosts, ReplayError> {
    of_script(&Script::read(run, crate::Taken::Removed)?)
}

pub(crate) fn of_script(script: &Script) -> Result<MessageCosts, ReplayError> {
    let (mut waited, mut any, mut sends) = (Shortest::new(), Shortest::new(), Shortest::new());
    let mut bounds = Bounds::new();
    let mut clock_error = 0;
    for pair in 0..script.recorded.matched.pairs.len() {
        let Some(message) = script.message(pair).filter(|m| !m.to_itself) else {
            continue;
        };
        if let Some(ns) = message.send_took {
            sends.add(message.bytes, ns);
        }
        let Some(took) = message.received.checked_sub(message.sent) else {
            continue;
        };
        if took == 0 {
            continue;
        }
        let error = message.clock_error;
        bounds.add(message.bytes, took.saturating_add(error));
        any.add(message.bytes, took);
        if message.waited <= message.sent {
            waited.add(message.bytes, took);
            clock_error = clock_error.max(error);
        }
    }
    let sends = sends.line();
    let (collectives, error) = of_collectives(script);
    if waited.seen > 0 {
        // Where no message is long, the collectives may be.
        if bounds.per_byte(0.0).is_none() {
            bounds.add_long(&collectives, error);
        }
        return Ok(estimated(&waited, &bounds, sends, clock_error, Of::Waited));
    }
    if collectives.seen > 0 {
        bounds.add_all(&collectives, error);
        return Ok(estimated(
            &collectives,
            &bounds,
            None,
            error,
            Of::Collectives,
        ));
    }
    match any.seen {
        0 => Err(ReplayError::NoCosts),
        _ => Ok(estimated(&any, &bounds, sends, clock_error, Of::Any)),
    }
}

/// What the times were taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Messages whose receiver waited.
    Waited,
    /// Rounds of collectives.
    Collectives,
    /// Messages whose receiver came later.
    Any,
}

impl Of {
    fn method(self) -> &'static str {
        match self {
            Of::Waited => {
                "shortest message of each class of lengths, weighted line, Student's t, 95 %, and the error of the clocks"
            }
            Of::Collectives => {
                "shortest collective of each class of lengths from its last member's entry, by its rounds, weighted line"
            }
            Of::Any => "shortest message of each class of lengths, though its receiver came later",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Of::Waited => "the messages whose receiver waited",
            Of::Collectives => "the rounds of the collectives",
            Of::Any => "the messages",
        }
    }

    fn doubt(self) -> Option<&'static str> {
        match self {
            Of::Waited => None,
            Of::Collectives => Some(
                "no receiver waited for a message: what one costs is what the fastest collectives took, by the rounds of \
                 the algorithms assumed",
            ),
            Of::Any => Some(
                "no receiver waited for a message: what one costs is at most what the fastest took until it was received",
            ),
        }
    }
}

const BOUND: &str = "upper bound: the fastest long message";

/// Estimates L + 2 o and G from `times`, within `bounds`.
fn estimated(
    times: &Shortest,
    bounds: &Bounds,
    sends: Option<Line>,
    clock_error: u64,
    of: Of,
) -> MessageCosts {
    let mut doubts: Vec<String> = of.doubt().map(str::to_owned).into_iter().collect();
    let line = times.line().unwrap_or(Line::flat(0.0));
    let (shortest, longest) = times.lengths().unwrap_or((0, 0));
    let ranged = longest / TELLING_RANGE >= shortest.max(1);
    let wide = ranged && longest >= TELLING_BYTES;
    let least = times.least();
    let told = match (ranged, longest < TELLING_BYTES) {
        (true, false) => line,
        (true, true) => Line {
            slope: None,
            slope_half: None,
            ..line
        },
        (false, true) => Line::flat(least),
        // All have about the same length: what is not latency is the cost of bytes.
        (false, false) => {
            let brief = bounds
                .least(shortest / TELLING_RANGE)
                .filter(|&b| b < least);
            if brief.is_none() {
                let all = match shortest >= BYTES_DOMINATE {
                    true => "of their bytes",
                    false => "latency",
                };
                doubts.push(format!(
                    "{} have {shortest} to {longest} bytes: latency and cost per byte cannot be told apart, and all of \
                     their time counts as {all}; {NEXT}",
                    of.subject()
                ));
            }
            let base = brief.unwrap_or(if shortest >= BYTES_DOMINATE {
                0.0
            } else {
                least
            });
            let slope = (least - base) / after_first(longest).max(1.0);
            Line {
                slope: Some(slope).filter(|&s| s > 0.0),
                ..Line::flat(base)
            }
        }
    };
    let base = bounds
        .least(u64::MAX)
        .map_or(told.base, |b| told.base.min(b));
    let mut slope = told.slope.map(|slope| Cost {
        value: slope,
        interval: told
            .slope_half
            .map(|half| ((slope - half).max(0.0), slope + half)),
        n: times.seen,
        method: of.method(),
    });
    let bound = bounds.per_byte(base);
    if let Some((most, bytes)) = bound.filter(|b| slope.as_ref().is_none_or(|s| s.value > b.0)) {
        if !wide {
            doubts.push(format!(
                "{} have {shortest} to {longest} bytes, which says nothing of longer ones: the cost per byte is at most \
                 that of the fastest {bytes}; {NEXT}",
                of.subject(), bytes = counted(bytes, "byte")));
        }
        slope = Some(Cost {
            value: most,
            interval: Some((0.0, most)),
            n: times.seen,
            method: BOUND,
        });
    }
    // Sender and receiver both pay the overhead: it is at most half of a message's time.
    let overhead = sends.map_or(0.0, |s| s.base).min(base / 2.0).floor();
    let per = slope.as_ref().map_or(0.0, |s| s.value);
    let send_slope = sends.and_then(|s| s.slope).unwrap_or(0.0).min(per);
    let half = told.base_half.map(|half| half + clock_error as f64);
    MessageCosts {
        parameters: Parameters {
            latency: Nanos::from_nanos((base - 2.0 * overhead).round().max(0.0) as u64),
            overhead: Nanos::from_nanos(overhead as u64),
            gap: Nanos::ZERO,
            gap_per_byte: per_byte(per),
            overhead_per_byte: per_byte(send_slope),
            rendezvous: Bytes::new(u64::MAX),
        },
        shortest: Cost {
            value: base,
            interval: half.map(|half| ((base - half).max(0.0), base + half)),
            n: times.seen,
            method: of.method(),
        },
        per_byte: slope,
        clock_error: Nanos::from_nanos(clock_error),
        doubts,
    }
}

/// Times of the rounds of collectives, by the longest message of a round, and the clock error. An
/// all-to-all collective lasts from when its last member enters until the first one leaves. A value
/// from or for the root takes one message per hop between the root and the member.
fn of_collectives(script: &Script) -> (Shortest, u64) {
    let program = &script.recorded.program;
    let (mut times, mut error) = (Shortest::new(), 0);
    let mut known: Vec<(Call, (u64, u64))> = Vec::new();
    for (index, instance) in program.instances.iter().enumerate() {
        let Some(played) = script.collective_of(index).filter(|p| p.call.members > 1) else {
            continue;
        };
        let errors = program.members_of(instance).iter();
        let errors = errors
            .map(|m| program.clock_error(m.0, instance.last))
            .max();
        let mut add = |rounds: u64, bytes: u64, from: u64, to: u64| {
            if let Some(ns) = to.checked_sub(from).filter(|&ns| ns > 0 && rounds > 0) {
                times.add(bytes / rounds, ns / rounds);
                error = error.max(errors.unwrap_or(0));
            }
        };
        if instance.class == Class::AllToAll {
            let found = known.iter().find(|k| k.0 == played.call).map(|k| k.1);
            let (rounds, bytes) = found.unwrap_or_else(|| {
                let found = rounds_of(&played.call);
                known.push((played.call, found));
                found
            });
            let ends = program.members_of(instance).iter();
            let left = ends.map(|m| program.call(m.0, m.1).end).min();
            add(rounds, bytes, instance.last_enter, left.unwrap_or(0));
        } else if let Some((hops, from, to)) = along_the_tree(script, instance, played) {
            add(hops, hops.saturating_mul(played.call.piece), from, to);
        }
    }
    (times, error)
}

/// Number of rounds of a collective, and the bytes of the longest message of each round, added up,
/// for the member that has the most.
fn rounds_of(call: &Call) -> (u64, u64) {
    let algorithms = Algorithms::default();
    // In the engines' collectives all members do the same, except in trees, where the first member
    // does the most.
    let steps = call.steps(0, &algorithms);
    let longest = |s: &Step| s.from.iter().chain(&s.to).map(|m| m.1).max();
    let all = || steps.iter().filter_map(longest);
    (all().count() as u64, all().sum())
}

/// Number of messages between the root and the last member, and when they began and ended.
fn along_the_tree(
    script: &Script,
    instance: &Instance,
    played: &Played,
) -> Option<(u64, u64, u64)> {
    let program = &script.recorded.program;
    let members = &script.members[played.comm as usize];
    let calls = program.members_of(instance);
    let number = |lane: u32| {
        let rank = program.lanes[lane as usize].rank.get();
        let member = members.iter().position(|&m| m == rank)? as u32;
        Some((member + played.call.members - played.call.root) % played.call.members)
    };
    let root = calls.iter().find(|c| number(c.0) == Some(0))?;
    let root = program.call(root.0, root.1);
    // In a binomial tree, one message for each bit set in the member's number relative to the root.
    let hops = |lane: u32| Some(u64::from(number(lane)?.count_ones()));
    match played.call.kind {
        Kind::Reduce => Some((hops(instance.last)?, instance.last_enter, root.end)),
        Kind::Broadcast => {
            let waiting = calls
                .iter()
                .filter(|c| program.call(c.0, c.1).begin <= root.begin);
            let last = waiting.max_by_key(|c| program.call(c.0, c.1).end)?;
            Some((hops(last.0)?, root.begin, program.call(last.0, last.1).end))
        }
        _ => None,
    }
}

/// With six decimals: a picosecond per kilobyte.
fn per_byte(ns: f64) -> PerByte {
    format!("{ns:.6}").parse().unwrap_or(PerByte::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_class_of_lengths_the_shortest_time_stays() {
        let mut all = Shortest::new();
        for (bytes, ns) in [(5, 70), (6, 60), (7, 65), (0, 9), (1, 8)] {
            all.add(bytes, ns);
        }
        let found: Vec<(u64, u64)> = all.best.iter().copied().flatten().collect();
        assert_eq!(found, [(0, 9), (1, 8), (6, 60)]);
        assert_eq!(all.seen, 5);
    }
}

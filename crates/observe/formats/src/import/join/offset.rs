//! What to add to the program's times to get the kernel's.
//!
//! A thread that enters or leaves a call has a CPU at that moment. So each moment of a thread
//! allows only those offsets that put it into one of the thread's bursts. The offsets that all
//! moments allow give the result and its bound. Nothing else is assumed: neither that calls sleep
//! nor that they spin. The more often a thread loses its CPU, the narrower the bound.

use super::people::People;
use crate::import::error::ImportError;
use idlewave_run::tables::{Bursts, Calls, Marks};
use idlewave_run::{ClockSheet, Ledger, Manifest, RunReader};
use idlewave_units::{Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Moments of each thread that are used, spread over the trace.
const MOMENTS: usize = 2_048;
/// With fewer moments than this, nothing is estimated.
const FEWEST: usize = 8;
/// One moment in this many may contradict the others: traces have holes.
const ONE_IN: usize = 100;
/// Orders in which the moments are tried.
const STARTS: usize = 8;
/// How far a moment may lie outside its burst: the two clocks drift apart during the trace.
const SLACKS_NS: [i64; 4] = [0, 1_000, 10_000, 100_000];
/// An offset known less precisely than this is of no use: most delays are shorter.
const WORST_NS: i64 = 1_000_000;
/// Limit on the stretches of allowed offsets in memory.
const MOST_STRETCHES: usize = 1 << 23;
/// Limit on comparisons of stretches; so many take seconds.
const MOST_COMPARED: usize = 1 << 32;

/// What to add to the program's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    pub ns: i64,
    /// Bound of its error; `None` if the user gave it.
    pub error: Option<Nanos>,
    /// Moments at which a thread must have had a CPU.
    pub moments: u64,
    /// Moments at which the thread had none.
    pub contradict: u64,
    /// When a thread of a rank last had a CPU, on the kernel's clock.
    pub ran_until_ns: u64,
}

/// A stretch of offsets, both ends allowed.
type Stretch = (i64, i64);

impl Offset {
    /// The offset that the user gave, checked against both traces.
    pub(super) fn given(
        run: &RunReader,
        app: &RunReader,
        people: &People,
        ns: i64,
    ) -> Result<Self, ImportError> {
        let threads = Threads::read(run, app, people)?;
        let slack = threads.resolution;
        let (mut moments, mut contradict) = (0, 0);
        for thread in threads.all.values() {
            for &moment in &thread.moments {
                let at = moment.saturating_add(ns);
                let after = thread.bursts.partition_point(|burst| burst.1 + slack < at);
                let fits = thread
                    .bursts
                    .get(after)
                    .is_some_and(|burst| burst.0 - slack <= at);
                moments += 1;
                contradict += u64::from(!fits);
            }
        }
        Ok(Self {
            ns,
            error: None,
            moments,
            contradict,
            ran_until_ns: threads.ran_until_ns(),
        })
    }

    /// Estimates the offset.
    ///
    /// # Errors
    /// The traces share too few moments, contradict each other, or allow offsets that differ by too
    /// much.
    pub(super) fn estimate(
        run: &RunReader,
        app: &RunReader,
        people: &People,
        path: &Path,
    ) -> Result<Self, ImportError> {
        let threads = Threads::read(run, app, people)?;
        let refused = |what: String| ImportError::Lacks {
            path: path.to_owned(),
            what,
            next:
                "give --app-offset NS: what to add to the program's times to get the kernel's; or \
                   record both on one clock, see docs/import.md"
                    .to_owned(),
        };
        let moments = threads.all.values().map(|t| t.moments.len()).sum::<usize>();
        if moments < FEWEST {
            let what = format!("it has {moments} calls and regions of threads of the kernel trace");
            return Err(refused(format!("{what}, too few to align the clocks")));
        }
        let mut left = MOST_COMPARED;
        let fitting = SLACKS_NS.iter().find_map(|slack| {
            let slack = slack.max(&threads.resolution);
            threads.fit(*slack, &mut left).map(|fit| (*slack, fit))
        });
        let Some((slack, (stretches, contradict))) = fitting else {
            let what = match left {
                0 => {
                    "too many offsets of its clock from the kernel's are possible to compare them all"
                }
                _ => {
                    "its clock fits the kernel's at no offset: not the same run, or clocks that drift"
                }
            };
            return Err(refused(what.to_owned()));
        };
        let (least, most) = (stretches[0].0, stretches[stretches.len() - 1].1);
        if most - least > WORST_NS {
            let width = Nanos::from_nanos((most - least).unsigned_abs());
            let what = format!(
                "the offset of its clock from the kernel's is not known better than {width}"
            );
            return Err(refused(what));
        }
        let ns = chosen(&stretches);
        let error = (ns - least).max(most - ns) + slack;
        Ok(Self {
            ns,
            error: Some(Nanos::from_nanos(error.unsigned_abs())),
            moments: moments as u64,
            contradict: contradict as u64,
            ran_until_ns: threads.ran_until_ns(),
        })
    }

    /// A time of the program on the kernel's clock; `None` before its zero.
    pub(super) fn apply(&self, ns: u64) -> Option<u64> {
        ns.checked_add_signed(self.ns)
    }

    pub(super) fn enter(&self, losses: &mut Ledger) {
        if let Some(error) = self.error {
            losses.enter(
                format!("the offset between the clocks of both traces: it is known to {error}"),
                1,
                "delays shorter than that may be charged to what ran just before or after them",
                "give --app-offset if you know it, or record both on one clock",
            );
        }
        losses.enter(
            "starts and ends of calls and regions at which the kernel has their thread off its CPU",
            self.contradict,
            "the offset may be wrong, or the kernel trace has holes there",
            "check --app-offset, and whether both traces are of one run",
        );
    }
}

/// One of the allowed offsets: 0 if it is one of them, because clocks of different kinds do not
/// agree by chance; else the middle of the longest stretch.
fn chosen(stretches: &[Stretch]) -> i64 {
    if stretches
        .iter()
        .any(|stretch| stretch.0 <= 0 && 0 <= stretch.1)
    {
        return 0;
    }
    let longest = stretches
        .iter()
        .max_by_key(|s| (s.1 - s.0, std::cmp::Reverse(s.0)));
    longest.map_or(0, |&(from, to)| from + (to - from) / 2)
}

/// A thread in both traces.
#[derive(Default)]
struct Thread {
    /// When it had a CPU, on the kernel's clock, in order.
    bursts: Vec<Stretch>,
    /// When it must have had one, on the program's clock.
    moments: Vec<i64>,
}

/// The threads in both traces, by the kernel's number.
struct Threads {
    all: BTreeMap<Pid, Thread>,
    /// The steps of both clocks together, ns.
    resolution: i64,
}

impl Threads {
    fn read(run: &RunReader, app: &RunReader, people: &People) -> Result<Self, ImportError> {
        let of: BTreeMap<Pid, Pid> = people.pairs().collect();
        let mut all: BTreeMap<Pid, Thread> =
            of.values().map(|pid| (*pid, Thread::default())).collect();
        let mut uncertain: BTreeSet<(Pid, i64)> = BTreeSet::new();
        run.for_each::<Bursts>(|burst| {
            if let Some(thread) = all.get_mut(&burst.pid) {
                let stretch = (signed(burst.begin_ns), signed(burst.end_ns));
                thread.bursts.push(stretch);
                if !burst.certain {
                    uncertain.insert((burst.pid, stretch.0));
                }
            }
        })?;
        let mut moment = |pid: Pid, ns: u64| {
            let thread = of.get(&pid).and_then(|pid| all.get_mut(pid));
            if let Some(thread) = thread {
                thread.moments.push(signed(ns));
            }
        };
        // A profiler learns the end of a collective from another thread.
        let clock = app
            .manifest()
            .nodes
            .first()
            .map(|node| node.clock.counter.as_str());
        let ends_of_calls = clock != Some(ClockSheet::KINETO);
        app.for_each::<Calls>(|call| {
            moment(call.thread, call.begin_ns);
            if ends_of_calls {
                moment(call.thread, call.end_ns);
            }
        })?;
        app.for_each::<Marks>(|mark| {
            moment(mark.thread, mark.begin_ns);
            if let Some(end) = mark.end_ns {
                moment(mark.thread, end);
            }
        })?;
        // If the program's trace has bursts, they come from the kernel too.
        app.for_each::<Bursts>(|burst| {
            if burst.certain && burst.end_ns > burst.begin_ns {
                moment(burst.pid, burst.begin_ns);
                moment(burst.pid, burst.end_ns);
            }
        })?;
        for (pid, thread) in &mut all {
            thread.bursts.sort_unstable();
            widened(&mut thread.bursts, |begin| {
                uncertain.contains(&(*pid, begin))
            });
            joined(&mut thread.bursts);
            thread.moments.sort_unstable();
            thin(&mut thread.moments);
        }
        all.retain(|_, thread| !thread.bursts.is_empty());
        Ok(Self {
            all,
            resolution: resolution(run.manifest()) + resolution(app.manifest()),
        })
    }

    fn ran_until_ns(&self) -> u64 {
        let last = self.all.values().filter_map(|thread| thread.bursts.last());
        last.map(|burst| burst.1.unsigned_abs()).max().unwrap_or(0)
    }

    /// The offsets that all but a few moments allow, and how many moments contradict them; `None`
    /// if too many do, or if no comparisons are `left`.
    fn fit(&self, slack: i64, left: &mut usize) -> Option<(Vec<Stretch>, usize)> {
        let threads = self.all.values();
        let wider: Vec<(Vec<Stretch>, &[i64])> = threads
            .map(|thread| (wider(&thread.bursts, slack), &thread.moments[..]))
            .collect();
        let all: Vec<(&[Stretch], i64)> = wider
            .iter()
            .flat_map(|(bursts, moments)| moments.iter().map(|moment| (&bursts[..], *moment)))
            .collect();
        // A wrong moment among the first ones misleads the search; a later one only contradicts.
        let starts = (0..STARTS).map(|at| at * all.len() / STARTS);
        let mut tried = starts.map(|start| {
            let order = all[start..].iter().chain(&all[..start]);
            fit(order.copied(), left)
        });
        tried.find_map(|fitted| {
            let (allowed, contradict) = fitted?;
            (contradict * ONE_IN <= all.len()).then_some((allowed, contradict))
        })
    }
}

/// Intersects the offsets that the moments allow, each with the bursts of its thread, and counts
/// the moments that would leave none. `None` if no comparisons are `left`.
fn fit<'t>(
    moments: impl Iterator<Item = (&'t [Stretch], i64)>,
    left: &mut usize,
) -> Option<(Vec<Stretch>, usize)> {
    let mut allowed: Option<Vec<Stretch>> = None;
    let mut contradict = 0;
    for (bursts, moment) in moments {
        let next = match &allowed {
            None => offsets(bursts, moment, (i64::MIN / 4, i64::MAX / 4)).collect(),
            Some(before) => both(before, bursts, moment, left),
        };
        if next.len() > MOST_STRETCHES {
            *left = 0;
        }
        if *left == 0 {
            return None;
        }
        match next.len() {
            0 => contradict += 1,
            _ => allowed = Some(next),
        }
    }
    Some((allowed?, contradict))
}

/// Extends bursts whose start or end was inferred to their neighbours.
fn widened(bursts: &mut [Stretch], is_uncertain: impl Fn(i64) -> bool) {
    let before: Vec<Stretch> = bursts.to_vec();
    for (at, burst) in bursts
        .iter_mut()
        .enumerate()
        .filter(|(_, b)| is_uncertain(b.0))
    {
        if let Some(last) = at.checked_sub(1).map(|at| before[at]) {
            burst.0 = burst.0.min(last.1);
        }
        if let Some(next) = before.get(at + 1) {
            burst.1 = burst.1.max(next.0);
        }
    }
}

/// Bursts with `slack` before and after them.
fn wider(bursts: &[Stretch], slack: i64) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = bursts.iter().map(|b| (b.0 - slack, b.1 + slack)).collect();
    joined(&mut out);
    out
}

/// The offsets within `range` that put a moment into a burst.
fn offsets(bursts: &[Stretch], moment: i64, range: Stretch) -> impl Iterator<Item = Stretch> + '_ {
    let from = bursts.partition_point(move |b| b.1 - moment < range.0);
    let rest = bursts[from..].iter();
    rest.map(move |b| (b.0 - moment, b.1 - moment))
        .take_while(move |stretch| stretch.0 <= range.1)
}

/// The part of `before` that also puts a moment into a burst. The comparisons made are taken from
/// those `left`.
fn both(before: &[Stretch], bursts: &[Stretch], moment: i64, left: &mut usize) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    let range = (before[0].0, before[before.len() - 1].1);
    let (mut at, mut compared) = (0, 0);
    for (from, to) in offsets(bursts, moment, range) {
        while at < before.len() && before[at].1 < from {
            at += 1;
        }
        // The last of them may reach into the next burst's offsets.
        for stretch in before[at..].iter().take_while(|stretch| stretch.0 <= to) {
            out.push((stretch.0.max(from), stretch.1.min(to)));
        }
        compared += 1;
    }
    *left = left.saturating_sub(compared + at + out.len());
    out
}

/// Joins stretches in order that touch or overlap.
fn joined(stretches: &mut Vec<Stretch>) {
    stretches.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

/// Keeps [`MOMENTS`] of them, evenly spaced.
fn thin(moments: &mut Vec<i64>) {
    moments.dedup();
    let length = moments.len();
    if length > MOMENTS {
        *moments = (0..MOMENTS)
            .map(|at| moments[at * length / MOMENTS])
            .collect();
    }
}

/// The steps of a clock, in nanoseconds.
fn resolution(manifest: &Manifest) -> i64 {
    let step = manifest
        .nodes
        .first()
        .map_or(1.0, |node| node.clock.quantum_ns);
    // A step of 1 ns is exact.
    if step > 1.0 { step.min(1e6) as i64 } else { 0 }
}

/// A time of a trace as a signed number, capped at 73 years so that sums do not overflow.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(all: &[(&[Stretch], &[i64])]) -> Threads {
        let thread = |(bursts, moments): &(&[Stretch], &[i64])| Thread {
            bursts: bursts.to_vec(),
            moments: moments.to_vec(),
        };
        let numbered = all.iter().map(thread).zip(1..);
        Threads {
            all: numbered
                .map(|(thread, pid)| (Pid::new(pid), thread))
                .collect(),
            resolution: 0,
        }
    }

    #[test]
    fn the_offset_puts_every_moment_into_a_burst_of_its_thread() {
        // Moment 0 allows 100 to 110 and 200 to 230, moment 25 allows 75 to 85 and 175 to 205.
        let one = threads(&[(&[(100, 110), (200, 230)], &[0, 25])]);
        assert_eq!(one.fit(0, &mut 10_000), Some((vec![(200, 205)], 0)));
        // Moment 3 of a second thread allows 203 and 204.
        let two = threads(&[(&[(100, 110), (200, 230)], &[0, 25]), (&[(206, 207)], &[3])]);
        assert_eq!(two.fit(0, &mut 10_000), Some((vec![(203, 204)], 0)));
        assert_eq!(two.fit(2, &mut 10_000), Some((vec![(201, 206)], 0)));
    }

    #[test]
    fn equal_clocks_are_left_as_they_are() {
        assert_eq!(chosen(&[(-40, -30), (-2, 9)]), 0);
        assert_eq!(chosen(&[(-40, -30), (3, 9)]), -35);
        assert_eq!(chosen(&[(3, 9)]), 6);
    }

    #[test]
    fn a_wrong_first_moment_does_not_lead_astray() {
        let bursts: Vec<Stretch> = (0..40).map(|n| (n * n * 100, n * n * 100 + 20)).collect();
        let mut moments: Vec<i64> = bursts.iter().flat_map(|b| [b.0, b.1]).collect();
        moments.extend(moments.clone());
        // It fits a burst at many offsets, but not at 0.
        moments[0] = 50;
        let found = threads(&[(&bursts, &moments)]).fit(0, &mut 10_000);
        assert_eq!(found, Some((vec![(0, 0)], 1)));
    }

    #[test]
    fn a_burst_with_an_inferred_edge_reaches_to_its_neighbours() {
        let mut bursts = [(0, 10), (20, 30), (50, 60)];
        widened(&mut bursts, |begin| begin == 20);
        assert_eq!(bursts, [(0, 10), (10, 50), (50, 60)]);
    }

    #[test]
    fn slack_between_bursts_is_not_counted_twice() {
        assert_eq!(
            wider(&[(0, 10), (14, 20), (40, 50)], 3),
            [(-3, 23), (37, 53)]
        );
    }

    #[test]
    fn comparisons_end_where_none_are_left() {
        // Half a million bursts of growing length: a long trace that few offsets fit.
        let bursts: Vec<Stretch> = (0..500_000).map(|n| (n * n, n * n + n / 2)).collect();
        let moments: Vec<i64> = bursts.iter().step_by(9_973).map(|b| b.1).collect();
        let long = threads(&[(&bursts, &moments)]);
        let (allowed, contradict) = long.fit(0, &mut (1 << 32)).unwrap();
        assert!(allowed.iter().any(|a| (a.0..=a.1).contains(&0)));
        assert_eq!(contradict, 0);
        let mut left = 1_000_000;
        assert_eq!((long.fit(0, &mut left), left), (None, 0));
    }

    #[test]
    fn one_moment_in_a_hundred_may_contradict() {
        let mut moments: Vec<i64> = (0..100).collect();
        moments.push(500);
        let bursts: &[Stretch] = &[(1_000, 1_099)];
        assert_eq!(
            threads(&[(bursts, &moments)]).fit(0, &mut 10_000),
            Some((vec![(1_000, 1_000)], 1))
        );
        moments.push(600);
        assert_eq!(threads(&[(bursts, &moments)]).fit(0, &mut 10_000), None);
    }
}

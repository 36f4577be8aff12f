//! The detour loop (selfish) reads the counter as fast as it can; a gap between two readings is
//! time during which the thread did not run.
//!
//! Floor: a turn is one counter reading and two comparisons, with the deadline and with the
//! threshold. The deadline is checked in the loop, in counts, so the loop ends without help. After
//! writing a record it reads the counter again: writing is not a detour.

use crate::affinity::Settled;
use crate::crew::{self, Feed, Member, pass_all};
use crate::recorder::{Recorder, channel};
use crate::{Sink, WorkloadError};
use bytemuck::{Pod, Zeroable};
use idlewave_clock::{Calibration, Readings, Source, with_source};
use idlewave_run::DetourLoop;
use idlewave_run::spill::RecordKind;
use idlewave_units::{Cpu, Nanos, Rank};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Turns from which the undisturbed turn and the floor are determined.
const TRIAL_TURNS: usize = 20_000;
/// The threshold is never below this many clock quanta.
const LEAST_QUANTA: u64 = 5;
/// The longest time between two checks of the halt flag.
const SLICE: Duration = Duration::from_millis(20);
/// Gaps per chunk, and chunks per thread: room for one second at 30,000 gaps per second. A killed
/// process loses the gaps of its last chunk.
pub(crate) const CHUNK: usize = 64;
pub(crate) const CHUNKS: usize = 512;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Params {
    /// One thread on each.
    pub cpus: Vec<Cpu>,
    /// How long.
    pub duration: Duration,
    /// Records gaps that exceed an undisturbed turn by more than this; raised to the floor if
    /// lower.
    pub threshold: Nanos,
    /// Priority of the threads under SCHED_FIFO; `None` for the ordinary policy.
    pub realtime: Option<u8>,
    /// Index of the phase, for the table.
    pub phase: u32,
}

/// What the loops saw; the detours themselves went to the sink.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The smallest threshold the clock allows here, over all CPUs.
    pub floor: Nanos,
    /// The threshold used.
    pub threshold: Nanos,
    /// Per CPU.
    pub loops: Vec<DetourLoop>,
}

/// A gap in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Gap {
    /// Last reading before it.
    pub begin: u64,
    /// Time beyond that of an undisturbed turn.
    pub length: u64,
}

/// The undisturbed turn and the 99.9th percentile of turns, in counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    median: u64,
    high: u64,
}

/// Measures turns that each end with a record, without the time of writing it.
fn trial(source: impl Source) -> Turn {
    let mut turns = vec![0_u64; TRIAL_TURNS];
    let mut previous = source.now();
    for turn in &mut turns {
        let now = source.now();
        *turn = now.wrapping_sub(previous);
        previous = source.now();
    }
    turns.sort_unstable();
    Turn {
        median: turns[TRIAL_TURNS / 2],
        high: turns[TRIAL_TURNS - TRIAL_TURNS / 1_000 - 1],
    }
}

/// What one loop counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    begin: u64,
    end: u64,
    turns: u64,
    recording: u64,
    stolen: u64,
}

/// The loop itself. `threshold` is the longest gap that is not a detour; `turn` is an undisturbed
/// turn.
fn watch(
    source: impl Source,
    deadline: u64,
    slice: u64,
    threshold: u64,
    turn: u64,
    halt: &AtomicBool,
    mut record: impl FnMut(Gap),
) -> Counts {
    let begin = source.now();
    let mut counts = Counts {
        begin,
        end: begin,
        ..Counts::default()
    };
    let mut previous = begin;
    while previous < deadline && !halt.load(Ordering::Relaxed) {
        let slice_end = deadline.min(previous.saturating_add(slice));
        let mut turns = 0_u64;
        while previous < slice_end {
            let now = source.now();
            turns += 1;
            let gap = now.wrapping_sub(previous);
            if gap > threshold {
                // After a migration, the counters of the two CPUs may differ by a few counts: such
                // a gap may be negative.
                if gap <= u64::MAX / 2 {
                    let length = gap - turn.min(gap);
                    counts.stolen += length;
                    record(Gap {
                        begin: previous,
                        length,
                    });
                }
                let after = source.now();
                counts.recording += after.wrapping_sub(now);
                previous = after;
            } else {
                previous = now;
            }
        }
        counts.turns += turns;
    }
    counts.end = previous;
    counts
}

/// Runs one loop per CPU, all at once. `halt` ends them early and cleanly.
///
/// # Errors
/// A CPU is not allowed, or the sink cannot take the rows.
pub fn run(
    params: &Params,
    readings: Readings,
    calibration: &mut Calibration,
    halt: &AtomicBool,
    sink: &mut dyn Sink,
) -> Result<Outcome, WorkloadError> {
    let counter = calibration.counter();
    let rate = calibration.counts_per_second();
    let to_counts = |d: Duration| (d.as_secs_f64() * rate) as u64;
    let wanted = (params.threshold.as_secs_f64() * rate) as u64;
    let quanta_floor = LEAST_QUANTA * readings.quantum_counts;
    let (duration, slice) = (to_counts(params.duration), to_counts(SLICE));

    let mut feeds = Vec::new();
    let mut bodies = Vec::new();
    for &cpu in &params.cpus {
        let (recorder, collector) = channel::<Gap>(CHUNKS, CHUNK);
        feeds.push(Feed {
            collector,
            kind: RecordKind::Detour,
            phase: params.phase,
            cpu,
            rank: Rank::new(0),
        });
        let mut recorder: Recorder<Gap> = recorder;
        bodies.push(move || {
            let settled = Settled::begin(cpu);
            let (turn, counts) = with_source!(counter, s => {
                let turn = trial(s);
                let floor = quanta_floor.max(turn.high);
                let threshold = turn.median + wanted.max(floor);
                let deadline = s.now().saturating_add(duration);
                (turn, watch(s, deadline, slice, threshold, turn.median, halt, |gap| recorder.push(gap)))
            });
            recorder.finish();
            (cpu, turn, counts, recorder.lost(), settled.end())
        });
    }
    let results = crew::run(
        &Member::on_each(&params.cpus, "iw-detour", params.realtime),
        bodies,
        halt,
        calibration,
        sink,
        |pair, sink| pass_all(&feeds, pair, sink),
    )?;

    let nanos = |counts: u64| Nanos::from_nanos(calibration.length_ns(counts).round() as u64);
    let floor = results
        .iter()
        .map(|(_, turn, ..)| quanta_floor.max(turn.high))
        .max()
        .unwrap_or(quanta_floor);
    let loops = results
        .iter()
        .map(|(cpu, _, counts, lost, (switches, moved))| {
            let watched =
                counts.end - counts.begin - counts.recording.min(counts.end - counts.begin);
            let undisturbed =
                (watched - counts.stolen.min(watched)) as f64 / counts.turns.max(1) as f64;
            DetourLoop {
                cpu: *cpu,
                begin_ns: calibration.to_ns(counts.begin),
                end_ns: calibration.to_ns(counts.end),
                turns: counts.turns,
                turn_quanta: undisturbed / readings.quantum_counts as f64,
                recording: nanos(counts.recording),
                not_kept: *lost,
                stolen: nanos(counts.stolen),
                involuntary_switches: *switches,
                moved: *moved,
            }
        });
    Ok(Outcome {
        floor: nanos(floor),
        threshold: params.threshold.max(nanos(floor)),
        loops: loops.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// A counter that advances by a fixed time per reading, in quanta, and jumps at chosen
    /// readings.
    #[derive(Clone, Copy)]
    struct Synthetic {
        readings: &'static AtomicU64,
        per_reading: u64,
        step: u64,
        jump_every: u64,
        jump: u64,
    }

    impl Source for Synthetic {
        fn now(self) -> u64 {
            let n = self.readings.fetch_add(1, Ordering::Relaxed);
            let jumps = n.checked_div(self.jump_every).unwrap_or(0);
            (n * self.per_reading + jumps * self.jump) / self.step * self.step
        }
    }

    fn synthetic(per_reading: u64, step: u64, jump_every: u64, jump: u64) -> Synthetic {
        let readings = Box::leak(Box::new(AtomicU64::new(0)));
        Synthetic {
            readings,
            per_reading,
            step,
            jump_every,
            jump,
        }
    }

    fn watched(source: Synthetic, duration: u64, threshold: u64) -> (Counts, Vec<Gap>) {
        let mut gaps = Vec::new();
        let halt = AtomicBool::new(false);
        let counts = watch(
            source,
            duration,
            duration / 7,
            threshold,
            source.per_reading,
            &halt,
            |g| gaps.push(g),
        );
        (counts, gaps)
    }

    #[test]
    fn injected_gaps_are_found_with_their_lengths() {
        let (counts, gaps) = watched(synthetic(10, 1, 10_000, 5_000), 1_000_000, 1_000);
        assert_eq!(
            gaps.len(),
            9,
            "10,000 readings take 100,000 counts and the jump 5,000"
        );
        assert!(gaps.iter().all(|g| g.length == 5_000), "{gaps:?}");
        assert_eq!(counts.stolen, 9 * 5_000);
    }

    #[test]
    fn a_clock_of_coarse_steps_makes_no_noise() {
        // 26 counts per quantum and 30 per reading: differences are 26 or 52, never noise.
        let source = synthetic(30, 26, 0, 0);
        let turn = trial(source);
        let threshold = turn.median + (LEAST_QUANTA * 26).max(turn.high);
        let (counts, gaps) = watched(source, 10_000_000, threshold);
        assert!(gaps.is_empty(), "{gaps:?}");
        assert_eq!(counts.stolen, 0);
        assert!(
            counts.turns > 290_000,
            "the trial took the first 1.2 million counts"
        );
    }

    #[test]
    fn the_halt_flag_ends_the_loop_before_its_deadline() {
        let halt = AtomicBool::new(true);
        let counts = watch(
            synthetic(10, 1, 0, 0),
            u64::MAX,
            1_000,
            100,
            10,
            &halt,
            |_| (),
        );
        assert_eq!(counts.turns, 0);
    }
}

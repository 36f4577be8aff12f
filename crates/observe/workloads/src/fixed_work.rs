//! The fixed work quantum (FWQ): the same work over and over, keeping every duration.
//!
//! It sees what the detour loop sees, and also a CPU that runs slower.

use crate::crew::{self, Feed, Member, pass_all};
use crate::kernel::Kernel;
use crate::recorder::channel;
use crate::{Sink, WorkloadError};
use bytemuck::{Pod, Zeroable};
use idlewave_clock::{Calibration, Source, with_source};
use idlewave_run::WorkKernel;
use idlewave_run::spill::RecordKind;
use idlewave_units::{Bytes, Cpu, Rank};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Chunks per thread. Each holds a `SHARE`-th of the records of one collection, so together they
/// hold two collections.
pub(crate) const CHUNKS: usize = 9;
const SHARE: u64 = 4;
/// Least and most quanta per chunk.
const CHUNK: std::ops::RangeInclusive<u64> = 64..=65_536;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Params {
    /// One thread on each.
    pub cpus: Vec<Cpu>,
    /// How long.
    pub duration: Duration,
    /// What is repeated.
    pub kernel: WorkKernel,
    /// Size of its arrays, of each CPU.
    pub array: Option<Bytes>,
    /// Its steps in one quantum.
    pub work_steps: u64,
    /// Expected time of one quantum, to size the buffers.
    pub expected: Duration,
    /// Quanta per CPU, if they are not as many as fit into the duration.
    pub runs: Option<u64>,
    /// Priority of the threads under SCHED_FIFO; `None` for the ordinary policy.
    pub realtime: Option<u8>,
    /// Index of the phase, for the table.
    pub phase: u32,
}

/// Start and end of one quantum in counts.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Span {
    pub begin: u64,
    pub end: u64,
}

/// A [`SHARE`]-th of the records of one collection, within [`CHUNK`].
pub(crate) fn chunk_items(expected: Duration) -> usize {
    let per_pace = (crew::PACE.as_nanos() / expected.as_nanos().max(1) + 1) as u64;
    (per_pace / SHARE).clamp(*CHUNK.start(), *CHUNK.end()) as usize
}

/// Repeats the quantum on all CPUs at once; returns the number of quanta whose records found no
/// room.
///
/// # Errors
/// A CPU is not allowed, or the sink cannot take the rows.
pub fn run(
    params: &Params,
    calibration: &mut Calibration,
    halt: &AtomicBool,
    sink: &mut dyn Sink,
) -> Result<u64, WorkloadError> {
    let counter = calibration.counter();
    let duration = (params.duration.as_secs_f64() * calibration.counts_per_second()) as u64;
    let (kernel, array, steps) = (params.kernel, params.array, params.work_steps);
    let runs = params.runs.unwrap_or(u64::MAX);
    let mut feeds = Vec::new();
    let mut bodies = Vec::new();
    for &cpu in &params.cpus {
        let (mut recorder, collector) = channel::<Span>(CHUNKS, chunk_items(params.expected));
        feeds.push(Feed {
            collector,
            kind: RecordKind::Quantum,
            phase: params.phase,
            cpu,
            rank: Rank::new(0),
        });
        bodies.push(move || {
            with_source!(counter, s => {
                let mut work = Kernel::new(kernel, array);
                let mut begin = s.now_ordered();
                let deadline = begin.saturating_add(duration);
                let mut left = runs;
                while left > 0 && begin < deadline && !halt.load(Ordering::Relaxed) {
                    left -= 1;
                    work.advance(steps);
                    let end = s.now_ordered();
                    recorder.push(Span { begin, end });
                    begin = s.now_ordered();
                }
                std::hint::black_box(work);
            });
            recorder.finish();
            recorder.lost()
        });
    }
    let lost = crew::run(
        &Member::on_each(&params.cpus, "iw-work", params.realtime),
        bodies,
        halt,
        calibration,
        sink,
        |pair, sink| pass_all(&feeds, pair, sink),
    )?;
    Ok(lost.into_iter().sum())
}

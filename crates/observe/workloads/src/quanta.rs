//! What the fixed work quantum and the fixed time quantum have in common: a thread on each CPU that
//! repeats work and records.

use crate::crew::{self, Feed, Member, pass_all};
use crate::kernel::Kernel;
use crate::recorder::{Recorder, channel};
use crate::{Sink, WorkloadError};
use bytemuck::Pod;
use idlewave_clock::Calibration;
use idlewave_run::WorkKernel;
use idlewave_run::spill::RecordKind;
use idlewave_units::{Bytes, Cpu, Rank};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Chunks per thread. Each holds a `SHARE`-th of the records of one collection, so together they
/// hold two collections.
pub(crate) const CHUNKS: usize = 9;
const SHARE: u64 = 4;
/// Least and most records per chunk.
const CHUNK: std::ops::RangeInclusive<u64> = 64..=65_536;

/// What is repeated, where, and for how long.
#[derive(Clone, Debug)]
pub struct Quanta {
    /// One thread on each.
    pub cpus: Vec<Cpu>,
    /// How long.
    pub duration: Duration,
    /// What is repeated.
    pub kernel: WorkKernel,
    /// Size of its arrays, of each CPU.
    pub array: Option<Bytes>,
    /// Its steps at a time.
    pub work_steps: u64,
    /// Priority of the threads under SCHED_FIFO; `None` for the ordinary policy.
    pub realtime: Option<u8>,
    /// Index of the phase, for the table.
    pub phase: u32,
}

/// A [`SHARE`]-th of the records of one collection, within [`CHUNK`].
pub(crate) fn chunk_items(expected: Duration) -> usize {
    let per_pace = (crew::PACE.as_nanos() / expected.as_nanos().max(1) + 1) as u64;
    (per_pace / SHARE).clamp(*CHUNK.start(), *CHUNK.end()) as usize
}

impl Quanta {
    /// Runs `body` on all CPUs at once, in threads of this name; a record takes about the `expected`
    /// time. Returns the number of records that found no room.
    pub(crate) fn run<T: Pod + Default + Send>(
        &self,
        (name, kind, expected): (&str, RecordKind, Duration),
        body: impl Fn(&mut Kernel, &mut Recorder<T>) + Copy + Send,
        calibration: &mut Calibration,
        halt: &AtomicBool,
        sink: &mut dyn Sink,
    ) -> Result<u64, WorkloadError> {
        let (kernel, array) = (self.kernel, self.array);
        let mut feeds = Vec::new();
        let mut bodies = Vec::new();
        for &cpu in &self.cpus {
            let (mut recorder, collector) = channel::<T>(CHUNKS, chunk_items(expected));
            feeds.push(Feed {
                collector,
                kind,
                phase: self.phase,
                cpu,
                rank: Rank::new(0),
            });
            bodies.push(move || {
                let mut work = Kernel::new(kernel, array);
                body(&mut work, &mut recorder);
                std::hint::black_box(work);
                recorder.finish();
                recorder.lost()
            });
        }
        let lost = crew::run(
            &Member::on_each(&self.cpus, name, self.realtime),
            bodies,
            halt,
            calibration,
            sink,
            |pair, sink| pass_all(&feeds, pair, sink),
        )?;
        Ok(lost.into_iter().sum())
    }
}

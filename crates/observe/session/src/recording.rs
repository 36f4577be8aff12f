//! The bundle during the recording: spill, manifest, and the kernel's view.

use crate::gather::gather;
use crate::kernel_view::KernelView;
use crate::{Progress, SessionError, Stop, ended_after, without_tables};
use idlewave_clock::Calibration;
use idlewave_run::spill::{self, Block, RecordKind, SpillWriter};
use idlewave_run::{Incomplete, RunError, RunWriter};
use idlewave_units::{Bytes, Pid};
use idlewave_workloads::{Member, Sink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of the tables per iteration of a rank: two rows of `regions` of 13 bytes each
/// (docs/design/0002-run-bundle.md).
pub const ITERATION_BYTES: u64 = 26;
/// Bytes of the table per fixed work quantum.
pub const QUANTUM_BYTES: u64 = 9;

/// The current phase.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Whether the measuring threads are ranks.
    pub ranks: bool,
    /// Its planned time.
    pub duration: Duration,
    /// Its limit on disk; the phase ends early when it is reached.
    pub most: Bytes,
}

/// The bundle while it is written.
pub struct Recording<'a> {
    /// The bundle; its manifest may be changed freely.
    pub out: RunWriter,
    /// What is being recorded.
    pub current: Current,
    /// Stops the current workload.
    pub halt: Arc<AtomicBool>,
    view: KernelView,
    spill: SpillWriter,
    begun: Instant,
    stop: &'a Stop,
    progress: &'a dyn Progress,
    /// The tracer's error; returned when the phase has ended.
    refused: Option<SessionError>,
    /// Bytes of the tables that the records so far will make.
    tables: u64,
    /// Recorded before the current part started.
    before: Bytes,
    /// Whether its size limit stopped it.
    cut: bool,
}

impl<'a> Recording<'a> {
    /// Starts a spill in the bundle.
    ///
    /// # Errors
    /// The spill cannot be created.
    pub fn new(
        out: RunWriter,
        view: KernelView,
        stop: &'a Stop,
        progress: &'a dyn Progress,
    ) -> Result<Self, SessionError> {
        Ok(Self {
            current: Current::default(),
            halt: Arc::default(),
            view,
            spill: SpillWriter::create(out.path())?,
            out,
            begun: Instant::now(),
            stop,
            progress,
            refused: None,
            tables: 0,
            before: Bytes::new(0),
            cut: false,
        })
    }

    /// Records the mode of the kernel's view, in case this process is killed.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn note_mode(&mut self) -> Result<(), SessionError> {
        self.out.manifest.nodes[0].trace.mode = self.view.mode();
        Ok(self.out.save()?)
    }

    /// Announces a part of the work.
    pub fn part(&mut self, what: &str, current: Current) {
        self.progress.part(what);
        self.current = current;
        self.before = self.size();
        self.cut = false;
        self.halt.store(false, Ordering::Relaxed);
    }

    /// Whether to skip the rest of the plan.
    pub fn is_over(&self) -> bool {
        self.stop.is_requested() || self.view.has_failed()
    }

    /// Disk space of everything recorded, as tables and kernel trace.
    fn size(&self) -> Bytes {
        // The trace is kept, and its tables take a fifth of it.
        let trace = self.view.copied() / 5 * 6;
        Bytes::new(self.tables + trace)
    }

    /// Whether the current part has used its share of the disk.
    fn is_full(&self) -> bool {
        self.size().get() - self.before.get() >= self.current.most.get()
    }

    /// Ends a phase.
    ///
    /// # Errors
    /// The tracer rejected its threads, or their bursts cannot be written.
    pub fn phase_ended(&mut self) -> Result<(), SessionError> {
        if self.cut {
            self.out.manifest.losses.enter(
                "parts that ended early because their share of the run's size was used up",
                1,
                "they rest on fewer samples",
                "raise --max-size, or use a shorter --duration",
            );
        }
        self.view.unwatch(&self.out)?;
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Ends the kernel's view and builds the tables; the bundle is complete afterwards.
    ///
    /// # Errors
    /// The kernel's view or a table could not be written.
    pub fn close(
        mut self,
        root: &Path,
        calibration: &Calibration,
        incomplete: Option<Incomplete>,
    ) -> Result<(), SessionError> {
        let elapsed = self.begun.elapsed();
        let mut incomplete = incomplete;
        let viewed = match self.view.stop(root, &mut self.out) {
            Ok(sheet) => {
                self.out.manifest.nodes[0].trace = sheet;
                Ok(())
            }
            Err(error) => {
                incomplete = Some(ended_after(elapsed, &error));
                Err(error)
            }
        };
        if let Some(why @ Incomplete::Error(_)) = &incomplete {
            // Write this before anything that takes more space. If it fails too, the cause is the
            // same.
            let _ = self.out.note(why.clone());
        }
        if let Err(error) = gather(&mut self.out, calibration, |_| ()) {
            let error = error.into();
            let _ = self.out.note(without_tables(&error));
            return Err(error);
        }
        self.out.close(incomplete)?;
        spill::remove(self.out.path())?;
        viewed
    }
}

impl Sink for Recording<'_> {
    fn ready(&mut self, members: &[Member], threads: &[Pid]) -> Result<(), RunError> {
        let watched = self.view.watch(members, threads, self.current.ranks);
        match watched.and_then(|()| self.view.numbers(threads)) {
            Ok(traced) if self.current.ranks => {
                for ((rank, traced), &thread) in
                    self.out.manifest.ranks.iter_mut().zip(traced).zip(threads)
                {
                    rank.threads.push(traced.unwrap_or(thread));
                }
            }
            Ok(_) => {}
            Err(error) => {
                self.refused = Some(error);
                self.halt.store(true, Ordering::Relaxed);
            }
        }
        // Save before the phase starts, so that its threads are known after a kill.
        self.out.save()
    }

    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        // Other tables take no more per word than those of iterations.
        let each = match block.kind {
            RecordKind::Quantum => QUANTUM_BYTES,
            _ => ITERATION_BYTES,
        };
        self.tables += each * words.len() as u64 / RecordKind::Iteration.words() as u64;
        self.spill.write(block, words)
    }

    fn tick(&mut self, elapsed: Duration) {
        self.progress
            .at(elapsed.as_secs_f64() / self.current.duration.as_secs_f64().max(1e-3));
        self.cut |= self.is_full();
        if self.is_over() || self.cut {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use idlewave_run::spill::RecordKind;
    use idlewave_run::testing::empty_manifest;
    use idlewave_units::{Cpu, Rank};

    /// The iterations, at most `limit`, that are recorded before a part with room for `most` bytes
    /// of tables is told to stop.
    fn iterations_until_full(most: u64, limit: u64) -> (u64, usize) {
        let dir = tempfile::tempdir().expect("a directory");
        let out = RunWriter::create(dir.path(), empty_manifest()).expect("a bundle");
        let view = KernelView::off("idlewave study");
        let stop = Stop::default();
        let mut recording = Recording::new(out, view, &stop, &Quiet).expect("a recording");
        let current = || Current {
            most: Bytes::new(most),
            ..Current::default()
        };
        // The size of an earlier part does not count.
        recording.part("before", current());
        let block = Block {
            kind: RecordKind::Iteration,
            phase: 0,
            cpu: Cpu::new(0),
            rank: Rank::new(0),
            counts: 0,
            ns: 0,
        };
        recording.records(&block, &[0; 2_000]).expect("room");
        recording.part("this", current());
        let mut done = 0;
        while done < limit && !recording.halt.load(Ordering::Relaxed) {
            recording.records(&block, &[0; 2]).expect("room");
            recording.tick(Duration::ZERO);
            done += 1;
        }
        recording.phase_ended().expect("no tracer to fail");
        (done, recording.out.manifest.losses.entries().len())
    }

    #[test]
    fn a_part_ends_where_its_share_of_the_disk_is_used_up() {
        assert_eq!(iterations_until_full(2_600, 1_000), (100, 1));
        assert_eq!(iterations_until_full(1 << 30, 1_000), (1_000, 0));
    }
}

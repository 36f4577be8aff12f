//! The bundle while it is written: spill, manifest, and the kernel's view beside them.

use crate::gather::gather;
use crate::kernel_view::KernelView;
use crate::{Progress, RecordingError, Stop};
use idlewave_clock::Calibration;
use idlewave_run::spill::{self, Block, SpillWriter};
use idlewave_run::{Incomplete, RunError, RunWriter};
use idlewave_units::Pid;
use idlewave_workloads::{Member, Sink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the phase under way is about.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Whether they are ranks.
    pub ranks: bool,
    /// Its planned time.
    pub duration: Duration,
}

/// The bundle while it is written.
pub struct Recording<'a> {
    /// The bundle; its manifest may be changed freely.
    pub out: RunWriter,
    /// What is being recorded.
    pub current: Current,
    /// Ends the workload under way.
    pub halt: Arc<AtomicBool>,
    view: KernelView,
    spill: SpillWriter,
    stop: &'a Stop,
    progress: &'a dyn Progress,
    /// What the tracer refused; given out when the phase has ended.
    refused: Option<RecordingError>,
}

impl<'a> Recording<'a> {
    /// Begins a spill in the bundle.
    ///
    /// # Errors
    /// The spill cannot be made.
    pub fn new(
        out: RunWriter,
        view: KernelView,
        stop: &'a Stop,
        progress: &'a dyn Progress,
    ) -> Result<Self, RecordingError> {
        Ok(Self {
            current: Current::default(),
            halt: Arc::default(),
            view,
            spill: SpillWriter::create(out.path())?,
            out,
            stop,
            progress,
            refused: None,
        })
    }

    /// Writes down how the kernel's view is recorded, for the case that this process is killed.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn note_mode(&mut self) -> Result<(), RecordingError> {
        self.out.manifest.nodes[0].trace.mode = self.view.mode();
        Ok(self.out.save()?)
    }

    /// Announces a part of the work.
    pub fn part(&mut self, what: &str, current: Current) {
        self.progress.part(what);
        self.current = current;
    }

    /// Whether the rest of the plan is to be left out.
    pub fn is_over(&self) -> bool {
        self.stop.is_requested() || self.view.has_failed()
    }

    /// A phase has ended.
    ///
    /// # Errors
    /// The tracer refused its threads, or their bursts cannot be written.
    pub fn phase_ended(&mut self) -> Result<(), RecordingError> {
        self.view.unwatch(&self.out)?;
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Ends the kernel's view and makes the tables; the bundle is whole afterwards.
    ///
    /// # Errors
    /// The kernel's view or a table could not be written.
    pub fn close(
        mut self,
        root: &Path,
        calibration: &Calibration,
        incomplete: Option<Incomplete>,
    ) -> Result<(), RecordingError> {
        let viewed = self.view.stop(root, &mut self.out);
        gather(&mut self.out, calibration, |_| ())?;
        let closed = match viewed {
            Ok(sheet) => {
                self.out.manifest.nodes[0].trace = sheet;
                self.out.close(incomplete)?;
                Ok(())
            }
            Err(error) => {
                self.out.close(Some(Incomplete::Error(error.to_string())))?;
                Err(error)
            }
        };
        spill::remove(self.out.path())?;
        closed
    }
}

impl Sink for Recording<'_> {
    fn ready(&mut self, members: &[Member], threads: &[Pid]) -> Result<(), RunError> {
        if let Err(error) = self.view.watch(members, threads, self.current.ranks) {
            self.refused = Some(error);
            self.halt.store(true, Ordering::Relaxed);
        }
        if self.current.ranks {
            for (rank, &thread) in self.out.manifest.ranks.iter_mut().zip(threads) {
                rank.threads.push(thread);
            }
        }
        // On disk before the phase begins: after a kill its threads are known.
        self.out.save()
    }

    fn records(&mut self, block: &Block, words: &[u64]) -> Result<(), RunError> {
        self.spill.write(block, words)
    }

    fn tick(&mut self, elapsed: Duration) {
        self.progress
            .at(elapsed.as_secs_f64() / self.current.duration.as_secs_f64().max(1e-3));
        if self.is_over() {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

//! The bundle while it is written: tables, manifest, and the kernel's view beside them.

use crate::kernel_view::KernelView;
use crate::{Progress, Stop, StudyError};
use idlewave_run::tables::{Detours, Quanta, Regions, Table};
use idlewave_run::{Incomplete, RunError, RunWriter, TableWriter};
use idlewave_units::{Pid, Rank};
use idlewave_workloads::Sink;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the phase under way is about.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Names of its threads, in the order in which they will report.
    pub names: Vec<String>,
    /// Whether they are ranks.
    pub ranks: bool,
    /// Its planned time.
    pub duration: Duration,
    /// First begin and last end of the regions of each rank.
    pub spans: BTreeMap<Rank, (u64, u64)>,
}

/// The bundle while it is written.
pub struct Recording<'a> {
    pub out: RunWriter,
    pub current: Current,
    /// Ends the workload under way.
    pub halt: Arc<AtomicBool>,
    view: KernelView,
    detours: TableWriter<Detours>,
    quanta: TableWriter<Quanta>,
    regions: TableWriter<Regions>,
    stop: &'a Stop,
    progress: &'a dyn Progress,
    /// What the tracer refused; given out when the phase has ended.
    refused: Option<StudyError>,
}

impl<'a> Recording<'a> {
    pub fn new(
        out: RunWriter,
        view: KernelView,
        stop: &'a Stop,
        progress: &'a dyn Progress,
    ) -> Result<Self, StudyError> {
        Ok(Self {
            current: Current::default(),
            halt: Arc::default(),
            view,
            detours: out.table()?,
            quanta: out.table()?,
            regions: out.table()?,
            out,
            stop,
            progress,
            refused: None,
        })
    }

    /// Writes down how the kernel's view is recorded, for the case that this process is killed.
    pub fn note_mode(&mut self) -> Result<(), StudyError> {
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
    pub fn phase_ended(&mut self) -> Result<(), StudyError> {
        self.view.unwatch(&self.out)?;
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Ends the kernel's view and the tables; the bundle is whole afterwards.
    pub fn close(mut self, root: &Path, incomplete: Option<Incomplete>) -> Result<(), StudyError> {
        let viewed = self.view.stop(root, &mut self.out);
        self.out.finish_table(self.detours)?;
        self.out.finish_table(self.quanta)?;
        self.out.finish_table(self.regions)?;
        match viewed {
            Ok(sheet) => {
                self.out.manifest.nodes[0].trace = sheet;
                Ok(self.out.close(incomplete)?)
            }
            Err(error) => {
                self.out.close(Some(Incomplete::Error(error.to_string())))?;
                Err(error)
            }
        }
    }
}

impl Sink for Recording<'_> {
    fn ready(&mut self, threads: &[Pid]) -> Result<(), RunError> {
        if let Err(error) = self
            .view
            .watch(threads, &self.current.names, self.current.ranks)
        {
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

    fn detours(&mut self, rows: &Detours) -> Result<(), RunError> {
        if rows.is_empty() {
            Ok(())
        } else {
            self.detours.extend(rows)
        }
    }

    fn quanta(&mut self, rows: &Quanta) -> Result<(), RunError> {
        if rows.is_empty() {
            Ok(())
        } else {
            self.quanta.extend(rows)
        }
    }

    fn regions(&mut self, rows: &Regions) -> Result<(), RunError> {
        if rows.is_empty() {
            return Ok(());
        }
        for (&rank, (&begin, &end)) in rows.rank.iter().zip(rows.begin_ns.iter().zip(&rows.end_ns))
        {
            self.current.spans.entry(rank).or_insert((begin, end)).1 = end;
        }
        self.regions.extend(rows)
    }

    fn tick(&mut self, elapsed: Duration) {
        self.progress
            .at(elapsed.as_secs_f64() / self.current.duration.as_secs_f64().max(1e-3));
        let flushed = self
            .detours
            .flush()
            .and_then(|()| self.quanta.flush())
            .and_then(|()| self.regions.flush());
        if let Err(error) = flushed {
            self.refused.get_or_insert(error.into());
            self.halt.store(true, Ordering::Relaxed);
        }
        if self.is_over() {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

//! What took the CPU from threads of the program, as records: other threads while one was
//! preempted, and interrupts.

use super::gathered::Gathered;
use super::record::{Record, class, kind};
use super::regions::RegionKind;
use crate::export::kernel::{self, Happened, Place, What, enter_inferred};
use crate::export::names::{Names, of_class};
use crate::export::{ExportError, Job};
use idlewave_run::SourceKind;
use idlewave_run::tables::{EndReason, TaskKind};
use idlewave_units::{NodeId, Pid};

/// Maximum number of threads followed while they wait for a CPU. Only threads that have gone on
/// elsewhere exceed it.
const MOST_WAITING: usize = 8;

/// The CPU in progress.
struct Lost<'a> {
    names: &'a Names,
    place: Option<Place>,
    /// Locations that were preempted on it.
    waiting: Vec<u32>,
    /// Whether something has the CPU that they wait for.
    taken: bool,
    others: u64,
}

pub(super) fn gather(job: &Job<'_>, names: &Names, to: &mut Gathered) -> Result<(), ExportError> {
    let mut lost = Lost {
        names,
        place: None,
        waiting: Vec::new(),
        taken: false,
        others: 0,
    };
    let mut number = 0_u64;
    let uncertain = kernel::for_each(job.run, &mut |happened| {
        if number % 4096 == 0 {
            job.go_on()?;
        }
        number += 1;
        lost.take(&happened, to)
    })?;
    to.losses.enter(
        "switches and interrupts beside the threads of the program",
        lost.others,
        "the archive has no CPUs: it shows them only where they took one from the program",
        "export to paraver or perfetto",
    );
    enter_inferred(&mut to.losses, "bursts and interrupts", uncertain);
    Ok(())
}

impl Lost<'_> {
    fn take(&mut self, happened: &Happened, to: &mut Gathered) -> Result<(), ExportError> {
        let (place, time) = (happened.place, happened.time_ns);
        if self.place != Some(place) {
            self.place = Some(place);
            self.waiting.clear();
            self.taken = false;
        }
        match happened.what {
            What::Switch { prev, next } => self.switch(place, time, prev, next, to),
            What::Enter { source, ends_ns } => {
                let thread = happened.by.and_then(|pid| to.survey.object(place.0, pid));
                let Some(object) = thread else {
                    self.others += 1;
                    return Ok(());
                };
                let name = match self.names.source(source) {
                    Some(source) => of_class(&source.name, source.kind.label()),
                    None => "interrupt".to_owned(),
                };
                let region = to.regions.id(&name, RegionKind::Taken);
                let at_once = ends_ns <= time;
                let leaves = match at_once {
                    true => class::KERNEL_ENTERS,
                    false => class::KERNEL_LEAVES,
                };
                for (time, class, kind) in [
                    (time, class::KERNEL_ENTERS, kind::INTERRUPTED),
                    (ends_ns.max(time), leaves, kind::RESUMED),
                ] {
                    to.records.push(Record {
                        what: region,
                        ..Record::new(object, time, class, kind)
                    })?;
                }
                Ok(())
            }
            What::Leave { .. }
            | What::Wake { .. }
            | What::Migrate { .. }
            | What::Syscall { .. } => Ok(()),
        }
    }

    fn switch(
        &mut self,
        (node, cpu): Place,
        time: u64,
        prev: Option<(Pid, EndReason)>,
        next: Option<Pid>,
        to: &mut Gathered,
    ) -> Result<(), ExportError> {
        let cpu = cpu.get();
        if self.taken {
            for &object in &self.waiting {
                let given = Record::new(object, time, class::KERNEL_LEAVES, kind::GIVEN);
                to.records.push(Record { tag: cpu, ..given })?;
            }
            self.taken = false;
        }
        let thread = |pid: Option<Pid>| pid.and_then(|pid| to.survey.object(node, pid));
        let left = prev.filter(|(_, reason)| *reason == EndReason::Preempted);
        if let Some(object) = thread(left.map(|(pid, _)| pid)) {
            self.waiting.retain(|waiting| *waiting != object);
            if self.waiting.len() == MOST_WAITING {
                self.waiting.remove(0);
            }
            self.waiting.push(object);
            let lost = Record::new(object, time, class::PREEMPTED, kind::PREEMPTED);
            to.records.push(Record { tag: cpu, ..lost })?;
        }
        match thread(next) {
            Some(object) => {
                self.waiting.retain(|waiting| *waiting != object);
                let runs = Record::new(object, time, class::RUNS, kind::RUNS);
                to.records.push(runs)?;
            }
            None => self.others += 1,
        }
        let Some(pid) = next.filter(|_| !self.waiting.is_empty()) else {
            return Ok(());
        };
        let Some(name) = self.thread(node, pid) else {
            return Ok(());
        };
        let region = to.regions.id(&name, RegionKind::Taken);
        self.taken = true;
        for &object in &self.waiting {
            let taken = Record::new(object, time, class::KERNEL_ENTERS, kind::TAKEN);
            to.records.push(Record {
                what: region,
                tag: cpu,
                ..taken
            })?;
        }
        Ok(())
    }

    /// What to call a thread that has a CPU; `None` for the idle thread.
    fn thread(&self, node: NodeId, pid: Pid) -> Option<String> {
        let name = self.names.task(node, pid);
        let kind = self.names.tasks.get(&(node, pid)).map(|task| task.kind);
        Some(match kind {
            _ if pid == Pid::IDLE => return None,
            Some(TaskKind::Idle) => return None,
            Some(TaskKind::Kernel) => of_class(name, SourceKind::KernelThread.label()),
            Some(TaskKind::Rank) => of_class(name, SourceKind::Rank.label()),
            Some(TaskKind::Own) => of_class(name, SourceKind::Recorder.label()),
            _ if name.is_empty() => format!("thread {pid}"),
            _ => of_class(name, SourceKind::Task.label()),
        })
    }
}

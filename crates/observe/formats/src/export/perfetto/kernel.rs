//! The kernel's view as bundles of the tracer's events, CPU by CPU.

use super::ftrace::{self, Event, NOT_RECORDED, Thread, UNKNOWN_STATE};
use super::tracks::Tracks;
use crate::export::kernel::{Happened, Place, What, enter_inferred, for_each};
use crate::export::names::Names;
use crate::export::view::{Canvas, Slice, Track};
use crate::export::{ExportError, Job};
use crate::wire::Encoder;
use idlewave_run::tables::EndReason;
use idlewave_run::{Ledger, SourceKind};
use idlewave_units::{NodeId, Pid};

/// Maximum number of events in a bundle.
const EVENTS: u32 = 2000;
/// Softirqs by vector (`include/linux/interrupt.h`).
pub(crate) const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// How a source is shown.
#[derive(Clone, Copy)]
enum Shown {
    Irq,
    Softirq(u32),
    Timer,
    /// On a track of its own: the tracer has no message for it.
    Track,
}

/// Writes all bundles.
pub(super) fn write(
    job: &Job<'_>,
    names: &Names,
    canvas: &mut Tracks<'_>,
    losses: &mut Ledger,
) -> Result<(), ExportError> {
    let shown: Vec<Shown> = names
        .sources
        .iter()
        .map(|s| shown(s.kind, &s.name))
        .collect();
    let mut kernel = Kernel {
        names,
        shown,
        canvas,
        bundle: Encoder::default(),
        events: 0,
        place: None,
        counts: Counts::default(),
    };
    let mut seen = 0_u64;
    let uncertain = for_each(job.run, &mut |happened| {
        seen += 1;
        if seen % 4096 == 0 {
            job.go_on()?;
        }
        kernel.take(happened)
    })?;
    kernel.flush()?;
    let Counts {
        switches,
        irqs,
        migrations,
        ends,
        syscalls,
    } = kernel.counts;
    enter_inferred(losses, "bursts and interrupts", uncertain);
    losses.enter(
        "priorities of threads",
        switches,
        "the run does not have them: switches carry none",
        "none needed",
    );
    losses.enter(
        "numbers of interrupts",
        irqs,
        "the run has their names only: the number of the source stands for them",
        "none needed",
    );
    losses.enter(
        "CPUs on which migrations were recorded",
        migrations,
        "they are shown on the CPU that the thread left",
        "none needed",
    );
    losses.enter(
        "arguments and results of system calls",
        syscalls,
        "the run does not have them: the calls carry their numbers only",
        "none needed",
    );
    losses.enter(
        "unknown reasons for leaving a CPU",
        ends,
        "the state after them is shown as unknown",
        "none needed",
    );
    Ok(())
}

#[derive(Default)]
struct Counts {
    switches: u64,
    irqs: u64,
    migrations: u64,
    ends: u64,
    syscalls: u64,
}

struct Kernel<'a, 'b> {
    names: &'a Names,
    /// By row of `sources`.
    shown: Vec<Shown>,
    canvas: &'a mut Tracks<'b>,
    /// The bundle under construction: events of one CPU.
    bundle: Encoder,
    events: u32,
    place: Option<Place>,
    counts: Counts,
}

impl<'a> Kernel<'a, '_> {
    fn take(&mut self, happened: Happened) -> Result<(), ExportError> {
        let Happened {
            place,
            time_ns,
            by,
            what,
        } = happened;
        let (node, cpu) = place;
        if self.place.is_some_and(|before| before != place) || self.events >= EVENTS {
            self.flush()?;
        }
        self.place = Some(place);
        let event = match what {
            What::Switch { prev, next } => {
                self.counts.switches += 1;
                let unknown = prev.is_some_and(|(_, reason)| reason == EndReason::Unknown);
                self.counts.ends += u64::from(unknown);
                Event::Switch {
                    prev: self.thread(node, prev.map(|(pid, _)| pid)),
                    state: prev.map_or(UNKNOWN_STATE, |(_, reason)| state(reason)),
                    next: self.thread(node, next),
                }
            }
            What::Wake { pid, target } => Event::Waking {
                woken: self.thread(node, Some(pid)),
                cpu: target.get(),
            },
            What::Migrate { pid, to } => {
                self.counts.migrations += 1;
                Event::Migrate {
                    moved: self.thread(node, Some(pid)),
                    from: cpu.get(),
                    to: to.get(),
                }
            }
            What::Syscall { number, returned } => {
                self.counts.syscalls += 1;
                Event::Syscall { number, returned }
            }
            What::Enter { source, ends_ns } => match self.shown(source) {
                Shown::Irq => {
                    self.counts.irqs += 1;
                    let name = self.names.source(source).map_or("", |s| &s.name);
                    Event::IrqEntry { irq: source, name }
                }
                Shown::Softirq(vector) => Event::SoftirqEntry { vector },
                Shown::Timer => Event::TimerEntry,
                Shown::Track => {
                    let track = Track::Source(source, place);
                    let name = self.names.source(source).map_or("", |s| &s.name);
                    return self
                        .canvas
                        .slice(&Slice::new(track, time_ns, ends_ns, name));
                }
            },
            What::Leave { source, .. } => match self.shown(source) {
                Shown::Irq => Event::IrqExit { irq: source },
                Shown::Softirq(vector) => Event::SoftirqExit { vector },
                Shown::Timer => Event::TimerExit,
                Shown::Track => return Ok(()),
            },
        };
        ftrace::event(&mut self.bundle, time_ns, by.map(Pid::get), event);
        self.events += 1;
        Ok(())
    }

    fn shown(&self, source: u32) -> Shown {
        let at = self.names.sources.binary_search_by_key(&source, |s| s.id);
        at.ok()
            .and_then(|at| self.shown.get(at))
            .map_or(Shown::Track, |shown| *shown)
    }

    fn thread(&self, node: NodeId, pid: Option<Pid>) -> Thread<'a> {
        match pid {
            Some(pid) => Thread {
                pid: pid.get(),
                name: self.names.task(node, pid),
            },
            None => Thread {
                pid: NOT_RECORDED,
                name: "not recorded",
            },
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if let Some((node, cpu)) = self.place.filter(|_| self.events > 0) {
            let events = self.bundle.bytes();
            self.canvas.bundle(node, cpu, events, self.events)?;
        }
        self.bundle.clear();
        self.events = 0;
        Ok(())
    }
}

fn shown(kind: SourceKind, name: &str) -> Shown {
    match kind {
        SourceKind::Irq => Shown::Irq,
        SourceKind::TimerTick => Shown::Timer,
        SourceKind::Softirq => {
            let known = SOFTIRQS.iter().position(|known| *known == name);
            let number = || name.strip_prefix("softirq ")?.parse().ok();
            let vector = known.map(|at| at as u32).or_else(number);
            vector.map_or(Shown::Track, Shown::Softirq)
        }
        _ => Shown::Track,
    }
}

/// Bits of `prev_state` (`include/linux/sched.h`): those that mean the same on every kernel.
fn state(reason: EndReason) -> u64 {
    match reason {
        EndReason::Preempted => 0,
        EndReason::Sleeping => 0x01,
        EndReason::Uninterruptible => 0x02,
        EndReason::Stopped => 0x04,
        EndReason::Exited => 0x10,
        EndReason::Unknown => UNKNOWN_STATE,
    }
}

//! Events of the kernel's tracer: `FtraceEvent`.

use crate::wire::Encoder;

/// Thread number that stands for "no record says who had the CPU": larger than any of Linux.
pub(crate) const NOT_RECORDED: u32 = i32::MAX as u32;
/// State of a thread that left a CPU for an unknown reason: no state of any kernel.
pub(crate) const UNKNOWN_STATE: u64 = 0x8000;
/// Fields of `FtraceEventBundle`.
pub(crate) const CPU: u32 = 1;
pub(crate) const EVENT: u32 = 2;
/// Fields of `FtraceEvent`: time, thread, and one of the events.
pub(crate) const TIMESTAMP: u32 = 1;
pub(crate) const PID: u32 = 2;
pub(crate) const SWITCH: u32 = 4;
pub(crate) const WAKING: u32 = 20;
pub(crate) const SOFTIRQ_ENTRY: u32 = 24;
pub(crate) const SOFTIRQ_EXIT: u32 = 25;
pub(crate) const IRQ_ENTRY: u32 = 36;
pub(crate) const IRQ_EXIT: u32 = 37;
pub(crate) const SYS_ENTER: u32 = 329;
pub(crate) const SYS_EXIT: u32 = 330;
pub(crate) const MIGRATE: u32 = 491;
pub(crate) const TIMER_ENTRY: u32 = 559;
pub(crate) const TIMER_EXIT: u32 = 560;

/// `LOCAL_TIMER_VECTOR` of x86 (`arch/x86/include/asm/irq_vectors.h`).
const TIMER_VECTOR: u64 = 0xec;

/// A thread with its name; empty if unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread<'a> {
    pub(super) pid: u32,
    pub(super) name: &'a str,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    Switch {
        prev: Thread<'a>,
        state: u64,
        next: Thread<'a>,
    },
    Waking {
        woken: Thread<'a>,
        cpu: u32,
    },
    Migrate {
        moved: Thread<'a>,
        from: u32,
        to: u32,
    },
    IrqEntry {
        irq: u32,
        name: &'a str,
    },
    IrqExit {
        irq: u32,
    },
    SoftirqEntry {
        vector: u32,
    },
    SoftirqExit {
        vector: u32,
    },
    TimerEntry,
    TimerExit,
    Syscall {
        number: Option<u32>,
        returned: bool,
    },
}

/// Appends an event that was recorded while `by` ran.
pub(super) fn event(out: &mut Encoder, time_ns: u64, by: Option<u32>, event: Event<'_>) {
    out.message(EVENT, |out| {
        out.uint(TIMESTAMP, time_ns);
        if let Some(by) = by {
            out.uint(PID, by.into());
        }
        match event {
            Event::Switch { prev, state, next } => out.message(SWITCH, |out| {
                out.text(1, prev.name);
                out.uint(2, prev.pid.into());
                out.uint(4, state);
                out.text(5, next.name);
                out.uint(6, next.pid.into());
            }),
            Event::Waking { woken, cpu } => out.message(WAKING, |out| {
                out.text(1, woken.name);
                out.uint(2, woken.pid.into());
                out.uint(4, 1);
                out.uint(5, cpu.into());
            }),
            Event::Migrate { moved, from, to } => out.message(MIGRATE, |out| {
                out.text(1, moved.name);
                out.uint(2, moved.pid.into());
                out.uint(4, from.into());
                out.uint(5, to.into());
            }),
            Event::IrqEntry { irq, name } => out.message(IRQ_ENTRY, |out| {
                out.uint(1, irq.into());
                out.text(2, name);
            }),
            // 1: IRQ_HANDLED.
            Event::IrqExit { irq } => out.message(IRQ_EXIT, |out| {
                out.uint(1, irq.into());
                out.uint(2, 1);
            }),
            Event::SoftirqEntry { vector } => {
                out.message(SOFTIRQ_ENTRY, |out| out.uint(1, vector.into()));
            }
            Event::SoftirqExit { vector } => {
                out.message(SOFTIRQ_EXIT, |out| out.uint(1, vector.into()));
            }
            Event::TimerEntry => out.message(TIMER_ENTRY, |out| out.uint(1, TIMER_VECTOR)),
            Event::TimerExit => out.message(TIMER_EXIT, |out| out.uint(1, TIMER_VECTOR)),
            Event::Syscall { number, returned } => {
                let kind = if returned { SYS_EXIT } else { SYS_ENTER };
                // -1 for a call that a tracer has cancelled.
                out.message(kind, |out| out.uint(1, number.map_or(u64::MAX, u64::from)));
            }
        }
    });
}

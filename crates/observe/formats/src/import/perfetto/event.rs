//! One event of the kernel's tracer: `FtraceEvent`.

use crate::export::perfetto::ftrace;
use crate::wire::{Fields, Value, WireError};
use idlewave_ftrace::event::{Comm, Event, Handler};
use idlewave_units::{Cpu, Pid};

/// Kinds of events that recorders write, but the exporter does not.
const IPI_ENTRY: u32 = 21;
const IPI_EXIT: u32 = 22;
const WAKEUP: u32 = 17;
const WAKEUP_NEW: u32 = 114;
const NEW_TASK: u32 = 235;
const FORK: u32 = 239;

/// An event with its time and the thread that ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed<'a> {
    pub(super) time_ns: u64,
    pub(super) by: Option<Pid>,
    pub(super) event: Event<'a>,
}

/// Reads an event; `None` if it is of a kind that is not used.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Timed<'_>>, WireError> {
    let (mut time_ns, mut by, mut event) = (0, None, None);
    for field in Fields::of(bytes) {
        match field? {
            (ftrace::TIMESTAMP, Value::Uint(time)) => time_ns = time,
            (ftrace::PID, Value::Uint(pid)) => by = Some(pid_of(pid)),
            (kind, Value::Bytes(found)) => event = event.or(Some((kind, found))),
            _ => {}
        }
    }
    let Some((kind, inside)) = event else {
        return Ok(None);
    };
    let event = of_kind(kind, inside, by)?;
    Ok(event.map(|event| Timed { time_ns, by, event }))
}

/// The first fields of an event, by number; absent ones are 0 and empty, as the format says.
struct Inside<'a> {
    numbers: [u64; 8],
    texts: [&'a [u8]; 8],
}

impl<'a> Inside<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut inside = Self {
            numbers: [0; 8],
            texts: [&[]; 8],
        };
        for field in Fields::of(bytes) {
            let (number, value) = field?;
            let at = number as usize;
            match value {
                Value::Uint(number) if at < 8 => inside.numbers[at] = number,
                Value::Bytes(text) if at < 8 => inside.texts[at] = text,
                _ => {}
            }
        }
        Ok(inside)
    }

    fn pid(&self, field: usize) -> Pid {
        pid_of(self.numbers[field])
    }

    fn cpu(&self, field: usize) -> Cpu {
        Cpu::new(self.numbers[field] as u32)
    }

    fn comm(&self, field: usize) -> Option<Comm> {
        comm(self.texts[field])
    }
}

fn of_kind(kind: u32, bytes: &[u8], by: Option<Pid>) -> Result<Option<Event<'_>>, WireError> {
    let inside = || Inside::of(bytes);
    let enter = |handler| Event::Enter { handler, name: &[] };
    let leave = |handler| Event::Leave { handler };
    Ok(Some(match kind {
        ftrace::SWITCH => {
            let of = inside()?;
            Event::Switch {
                prev: of.pid(2),
                prev_comm: of.comm(1),
                prev_state: state(of.numbers[4]),
                next: of.pid(6),
                next_comm: of.comm(5),
            }
        }
        ftrace::WAKING => {
            let of = inside()?;
            Event::Wake {
                pid: of.pid(2),
                comm: of.comm(1),
                cpu: of.cpu(5),
            }
        }
        WAKEUP | WAKEUP_NEW => {
            let of = inside()?;
            Event::Woken {
                pid: of.pid(2),
                comm: of.comm(1),
                cpu: of.cpu(5),
                new: kind == WAKEUP_NEW,
            }
        }
        ftrace::MIGRATE => {
            let of = inside()?;
            Event::Migrate {
                pid: of.pid(2),
                from: of.cpu(4),
                to: of.cpu(5),
            }
        }
        FORK => {
            let of = inside()?;
            Event::Fork {
                parent: of.pid(2),
                child: of.pid(4),
                comm: of.comm(3),
            }
        }
        NEW_TASK => {
            let of = inside()?;
            // Recorded in the thread that creates the new one.
            let Some(parent) = by else {
                return Ok(None);
            };
            Event::Fork {
                parent,
                child: of.pid(1),
                comm: of.comm(2),
            }
        }
        ftrace::IRQ_ENTRY => {
            let of = inside()?;
            Event::Enter {
                handler: Handler::Irq(of.numbers[1] as u32),
                name: of.texts[2],
            }
        }
        ftrace::IRQ_EXIT => leave(Handler::Irq(inside()?.numbers[1] as u32)),
        ftrace::SOFTIRQ_ENTRY => enter(Handler::Softirq(inside()?.numbers[1] as u32)),
        ftrace::SOFTIRQ_EXIT => leave(Handler::Softirq(inside()?.numbers[1] as u32)),
        ftrace::SYS_ENTER | ftrace::SYS_EXIT => Event::Syscall {
            // Negative if a tracer cancelled the call.
            number: u32::try_from(inside()?.numbers[1]).ok(),
            returned: kind == ftrace::SYS_EXIT,
        },
        ftrace::TIMER_ENTRY => return Ok(Handler::of_vector(b"local_timer").map(enter)),
        ftrace::TIMER_EXIT => return Ok(Handler::of_vector(b"local_timer").map(leave)),
        IPI_ENTRY => return Ok(Handler::of_vector(b"ipi").map(enter)),
        IPI_EXIT => return Ok(Handler::of_vector(b"ipi").map(leave)),
        _ => return Ok(None),
    }))
}

/// Thread numbers are never negative.
pub(super) fn pid_of(number: u64) -> Pid {
    Pid::new(number as u32)
}

/// The kernel's bits; `None` if the exporter did not know them.
pub(super) fn state(bits: u64) -> Option<u64> {
    (bits != ftrace::UNKNOWN_STATE).then_some(bits)
}

/// A name as the kernel has it; `None` if it is empty.
pub(super) fn comm(name: &[u8]) -> Option<Comm> {
    let mut comm = [0; 16];
    let length = name.len().min(comm.len() - 1);
    comm[..length].copy_from_slice(&name[..length]);
    (length > 0).then_some(comm)
}

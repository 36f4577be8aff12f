//! Typed trace events, whose fields are where the kernel's `format` files say.

use crate::format::{EventFormat, Field, FieldKind};
use crate::page::{read_u16, read_u32, read_u64};
use crate::wakes::KnownBy;
use idlewave_run::SourceKind;
use idlewave_units::{Cpu, Pid};

/// What handles an interruption: entries and exits of the same handler belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    /// A device's interrupt handler, by interrupt number. Several devices may share one.
    Irq(u32),
    /// A softirq, by vector.
    Softirq(u32),
    /// A vector that bypasses the interrupt handlers: index into [`VECTORS`].
    Vector(u8),
    /// A page fault whose end is recorded too; [`Event::Fault`] is one without.
    Trap,
}

/// Vectors with entry and exit events of their own: stem of the event, class, name of the source.
pub const VECTORS: &[(&str, SourceKind, &str)] = &[
    ("local_timer", SourceKind::TimerTick, "timer tick"),
    ("reschedule", SourceKind::Ipi, "reschedule"),
    ("call_function", SourceKind::Ipi, "call_function"),
    (
        "call_function_single",
        SourceKind::Ipi,
        "call_function_single",
    ),
    ("irq_work", SourceKind::Ipi, "irq_work"),
    ("x86_platform_ipi", SourceKind::Ipi, "x86_platform_ipi"),
    ("thermal_apic", SourceKind::Irq, "thermal_apic"),
    ("threshold_apic", SourceKind::Irq, "threshold_apic"),
    (
        "deferred_error_apic",
        SourceKind::Irq,
        "deferred_error_apic",
    ),
    ("error_apic", SourceKind::Irq, "error_apic"),
    ("spurious_apic", SourceKind::Irq, "spurious_apic"),
    // The reason is an address in the recorded kernel, so these share one name.
    ("ipi", SourceKind::Ipi, "ipi"),
];

impl Handler {
    /// The vector whose events begin with this stem.
    pub fn of_vector(stem: &[u8]) -> Option<Self> {
        let place = VECTORS.iter().position(|v| v.0.as_bytes() == stem)?;
        u8::try_from(place).ok().map(Self::Vector)
    }

    /// The result of `enter` or `leave`, if an event of this name marks the entry or exit of a
    /// vector.
    pub fn vector_event<T>(
        name: &[u8],
        enter: impl FnOnce(Self) -> T,
        leave: impl FnOnce(Self) -> T,
    ) -> Option<T> {
        match name.strip_suffix(b"_entry") {
            Some(stem) => Self::of_vector(stem).map(enter),
            None => Self::of_vector(name.strip_suffix(b"_exit")?).map(leave),
        }
    }
}

/// A name as the kernel records it for a thread: 16 bytes, the text ends at the first zero.
pub type Comm = [u8; 16];

/// The name as the kernel records it, cut if it is too long.
pub fn comm(name: &[u8]) -> Comm {
    let mut comm = [0; 16];
    let length = name.len().min(comm.len());
    comm[..length].copy_from_slice(&name[..length]);
    comm
}

/// An event of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A CPU passes from one thread to another.
    Switch {
        /// The thread that leaves it.
        prev: Pid,
        /// Its name, if recorded.
        prev_comm: Option<Comm>,
        /// Its state in the bits of `task_struct.__state`, if recorded; 0 or bit 8: still runnable.
        prev_state: Option<u64>,
        /// The thread that gets it.
        next: Pid,
        /// Its name, if recorded.
        next_comm: Option<Comm>,
    },
    /// The thread that runs here begins to wake another: `sched_waking`.
    Wake {
        /// The thread.
        pid: Pid,
        /// Its name, if recorded.
        comm: Option<Comm>,
        /// The CPU it was last on, or the one that a new thread begins on.
        cpu: Cpu,
    },
    /// A thread has become runnable: `sched_wakeup_new`, or `sched_wakeup`, which says something
    /// new only where a trace lacks `sched_waking`.
    Woken {
        /// The thread.
        pid: Pid,
        /// Its name, if recorded.
        comm: Option<Comm>,
        /// The CPU that it is to run on.
        cpu: Cpu,
        /// Whether it is a new thread, which nobody has woken before.
        new: bool,
    },
    /// A thread is moved.
    Migrate {
        /// The thread.
        pid: Pid,
        /// The CPU it leaves.
        from: Cpu,
        /// The CPU it goes to.
        to: Cpu,
    },
    /// A thread is created.
    Fork {
        /// Its parent.
        parent: Pid,
        /// The new thread.
        child: Pid,
        /// Its name, if recorded.
        comm: Option<Comm>,
    },
    /// A handler begins.
    Enter {
        /// The handler.
        handler: Handler,
        /// Name of the device for [`Handler::Irq`], if recorded; may end with zeros.
        name: &'a [u8],
    },
    /// A handler ends.
    Leave {
        /// The handler.
        handler: Handler,
    },
    /// A non-maskable interrupt's handler has ended.
    Nmi {
        /// Nanoseconds it took; `None` if not recorded.
        duration: Option<u64>,
    },
    /// A page fault begins; nothing is recorded when it ends.
    Fault,
    /// The thread that runs here enters the kernel by a system call, or returns from it.
    Syscall {
        /// Number of the call; `None` if a tracer had cancelled it.
        number: Option<u32>,
        /// Whether it returned.
        returned: bool,
    },
}

/// What a payload turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// An event, with the thread that ran when it was recorded, if recorded.
    Event(Option<Pid>, Event<'a>),
    /// An event of another kind.
    Unknown,
    /// A payload too short for its own format.
    Short,
}

/// An integer field.
#[derive(Clone, Copy, Debug)]
struct Int {
    offset: usize,
    size: u32,
}

impl Int {
    fn of(format: &EventFormat, name: &str) -> Option<Self> {
        let field = format.field(name)?;
        let fits = field.kind == FieldKind::Fixed && matches!(field.size, 1 | 2 | 4 | 8);
        fits.then_some(Self {
            offset: field.offset as usize,
            size: field.size,
        })
    }
    #[inline]
    fn u64<const LE: bool>(self, payload: &[u8]) -> Option<u64> {
        match self.size {
            4 => read_u32::<LE>(payload, self.offset).map(u64::from),
            8 => read_u64::<LE>(payload, self.offset),
            2 => read_u16::<LE>(payload, self.offset).map(u64::from),
            _ => payload.get(self.offset).map(|b| u64::from(*b)),
        }
    }
    /// A signed number; the inner `None` if it is negative.
    #[inline]
    fn count<const LE: bool>(self, payload: &[u8]) -> Option<Option<u32>> {
        let number = self.u64::<LE>(payload)?;
        let negative = number >> (8 * self.size - 1) != 0;
        Some(u32::try_from(number).ok().filter(|_| !negative))
    }
    /// Thread and CPU numbers are C `int`s that are never negative.
    #[inline]
    fn u32<const LE: bool>(self, payload: &[u8]) -> Option<u32> {
        self.u64::<LE>(payload).map(|n| n as u32)
    }
    #[inline]
    fn pid<const LE: bool>(self, payload: &[u8]) -> Option<Pid> {
        self.u32::<LE>(payload).map(Pid::new)
    }
    #[inline]
    fn cpu<const LE: bool>(self, payload: &[u8]) -> Option<Cpu> {
        self.u32::<LE>(payload).map(Cpu::new)
    }
}

/// A text field.
#[derive(Clone, Copy, Debug)]
struct Text {
    offset: usize,
    size: usize,
    kind: FieldKind,
}

impl Text {
    fn of(format: &EventFormat, name: &str) -> Option<Self> {
        let &Field {
            offset, size, kind, ..
        } = format.field(name)?;
        Some(Self {
            offset: offset as usize,
            size: size as usize,
            kind,
        })
    }
    #[inline]
    fn bytes<const LE: bool>(self, payload: &[u8]) -> Option<&[u8]> {
        if self.kind == FieldKind::Fixed {
            return payload.get(self.offset..)?.get(..self.size);
        }
        let loc = read_u32::<LE>(payload, self.offset)?;
        let (offset, size) = (loc as usize & 0xffff, loc as usize >> 16);
        let begin = match self.kind {
            FieldKind::RelLoc => self.offset + 4 + offset,
            _ => offset,
        };
        payload.get(begin..)?.get(..size)
    }
    #[inline]
    fn comm<const LE: bool>(self, payload: &[u8]) -> Option<Comm> {
        let bytes = self.bytes::<LE>(payload)?;
        Some(match bytes.first_chunk::<16>() {
            Some(all) => *all,
            None => comm(bytes),
        })
    }
}

/// One kind of event, with the locations of its fields.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Switch {
        prev: Int,
        next: Int,
        state: Option<Int>,
        prev_comm: Option<Text>,
        next_comm: Option<Text>,
    },
    Wake {
        pid: Int,
        cpu: Int,
        comm: Option<Text>,
        by: KnownBy,
    },
    Migrate {
        pid: Int,
        from: Int,
        to: Int,
    },
    Fork {
        parent: Int,
        child: Int,
        comm: Option<Text>,
    },
    IrqEnter {
        irq: Int,
        name: Option<Text>,
    },
    IrqLeave(Int),
    SoftirqEnter(Int),
    SoftirqLeave(Int),
    Enter(Handler),
    Leave(Handler),
    Nmi(Option<Int>),
    Fault,
    Syscall {
        number: Int,
        returned: bool,
    },
}

impl Shape {
    /// `None` if the event is not one of ours or lacks a required field.
    fn of(format: &EventFormat) -> Option<Self> {
        let int = |name| Int::of(format, name);
        let text = |name| Text::of(format, name);
        Some(match format.name.as_str() {
            "sched_switch" => Shape::Switch {
                prev: int("prev_pid")?,
                next: int("next_pid")?,
                state: int("prev_state"),
                prev_comm: text("prev_comm"),
                next_comm: text("next_comm"),
            },
            name @ ("sched_waking" | "sched_wakeup_new" | "sched_wakeup") => Shape::Wake {
                pid: int("pid")?,
                cpu: int("target_cpu")?,
                comm: text("comm"),
                by: match name {
                    "sched_waking" => KnownBy::Waking,
                    "sched_wakeup_new" => KnownBy::New,
                    _ => KnownBy::Wakeup,
                },
            },
            "sched_migrate_task" => Shape::Migrate {
                pid: int("pid")?,
                from: int("orig_cpu")?,
                to: int("dest_cpu")?,
            },
            "sched_process_fork" => Shape::Fork {
                parent: int("parent_pid")?,
                child: int("child_pid")?,
                comm: text("child_comm"),
            },
            "irq_handler_entry" => Shape::IrqEnter {
                irq: int("irq")?,
                name: text("name"),
            },
            "irq_handler_exit" => Shape::IrqLeave(int("irq")?),
            "softirq_entry" => Shape::SoftirqEnter(int("vec")?),
            "softirq_exit" => Shape::SoftirqLeave(int("vec")?),
            "nmi_handler" => Shape::Nmi(int("delta_ns")),
            "page_fault_user" | "page_fault_kernel" => Shape::Fault,
            name @ ("sys_enter" | "sys_exit") => Shape::Syscall {
                number: int("id")?,
                returned: name == "sys_exit",
            },
            name => Handler::vector_event(name.as_bytes(), Shape::Enter, Shape::Leave)?,
        })
    }

    #[inline]
    fn read<'a, const LE: bool>(&self, payload: &'a [u8]) -> Option<Event<'a>> {
        let enter = |handler| Event::Enter { handler, name: &[] };
        let leave = |handler| Event::Leave { handler };
        Some(match *self {
            Shape::Switch {
                prev,
                next,
                state,
                prev_comm,
                next_comm,
            } => Event::Switch {
                prev: prev.pid::<LE>(payload)?,
                prev_comm: prev_comm.and_then(|t| t.comm::<LE>(payload)),
                prev_state: state.and_then(|i| i.u64::<LE>(payload)),
                next: next.pid::<LE>(payload)?,
                next_comm: next_comm.and_then(|t| t.comm::<LE>(payload)),
            },
            Shape::Wake { pid, cpu, comm, by } => {
                let pid = pid.pid::<LE>(payload)?;
                let comm = comm.and_then(|t| t.comm::<LE>(payload));
                let cpu = cpu.cpu::<LE>(payload)?;
                let new = by == KnownBy::New;
                match by {
                    KnownBy::Waking => Event::Wake { pid, comm, cpu },
                    _ => Event::Woken {
                        pid,
                        comm,
                        cpu,
                        new,
                    },
                }
            }
            Shape::Migrate { pid, from, to } => Event::Migrate {
                pid: pid.pid::<LE>(payload)?,
                from: from.cpu::<LE>(payload)?,
                to: to.cpu::<LE>(payload)?,
            },
            Shape::Fork {
                parent,
                child,
                comm,
            } => Event::Fork {
                parent: parent.pid::<LE>(payload)?,
                child: child.pid::<LE>(payload)?,
                comm: comm.and_then(|t| t.comm::<LE>(payload)),
            },
            Shape::IrqEnter { irq, name } => Event::Enter {
                handler: Handler::Irq(irq.u32::<LE>(payload)?),
                name: name.and_then(|t| t.bytes::<LE>(payload)).unwrap_or(&[]),
            },
            Shape::IrqLeave(irq) => leave(Handler::Irq(irq.u32::<LE>(payload)?)),
            Shape::SoftirqEnter(vec) => enter(Handler::Softirq(vec.u32::<LE>(payload)?)),
            Shape::SoftirqLeave(vec) => leave(Handler::Softirq(vec.u32::<LE>(payload)?)),
            Shape::Enter(handler) => enter(handler),
            Shape::Leave(handler) => leave(handler),
            Shape::Nmi(duration) => Event::Nmi {
                duration: duration.and_then(|i| i.u64::<LE>(payload)),
            },
            Shape::Fault => Event::Fault,
            Shape::Syscall { number, returned } => Event::Syscall {
                number: number.count::<LE>(payload)?,
                returned,
            },
        })
    }
}

/// Turns payloads into events, using the formats of one kernel.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// By event number: index into `shapes`, or [`NO_SHAPE`].
    by_id: Vec<u8>,
    shapes: Vec<(Option<Int>, Shape)>,
}

/// Marks an event without a shape; larger than any index into the shapes.
const NO_SHAPE: u8 = u8::MAX;
/// `trace_entry` begins with the event's number on every kernel.
const TYPE_OFFSET: usize = 0;

impl Decoder {
    /// Takes the formats of the recorded kernel. Also returns the names of events that lack a field
    /// that the timeline needs: such events are skipped.
    pub fn new(formats: &[EventFormat]) -> (Self, Vec<String>) {
        let mut decoder = Self {
            by_id: Vec::new(),
            shapes: Vec::new(),
        };
        let mut unusable = Vec::new();
        for format in formats {
            let kind = format.field("common_type");
            let regular = kind.is_some_and(|f| f.offset as usize == TYPE_OFFSET && f.size == 2);
            let index = decoder.shapes.len() as u8;
            match Shape::of(format) {
                Some(shape) if regular && index < NO_SHAPE => {
                    let id = usize::from(format.id);
                    if decoder.by_id.len() <= id {
                        decoder.by_id.resize(id + 1, NO_SHAPE);
                    }
                    decoder.by_id[id] = index;
                    decoder.shapes.push((Int::of(format, "common_pid"), shape));
                }
                _ => unusable.push(format.name.clone()),
            }
        }
        (decoder, unusable)
    }

    /// Reads one payload.
    #[inline]
    pub fn decode<'a, const LE: bool>(&self, payload: &'a [u8]) -> Decoded<'a> {
        let Some(id) = read_u16::<LE>(payload, TYPE_OFFSET) else {
            return Decoded::Short;
        };
        let index = self.by_id.get(usize::from(id)).copied().unwrap_or(NO_SHAPE);
        let Some((pid, shape)) = self.shapes.get(usize::from(index)) else {
            return Decoded::Unknown;
        };
        match shape.read::<LE>(payload) {
            Some(event) => Decoded::Event(pid.and_then(|i| i.pid::<LE>(payload)), event),
            None => Decoded::Short,
        }
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;

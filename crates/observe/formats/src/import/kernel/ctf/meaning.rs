//! What an event says about the kernel, from the names of the event and of its fields.
//!
//! LTTng puts the subsystem before some names (`irq_softirq_entry`, `x86_irq_vectors_..`). perf
//! puts it before all names, with a colon. LTTng calls threads `tid`, and processes `pid`.

use super::code::{Chars, Number, State};
use super::compile::{Compiler, Scope, field};
use super::syscalls::{self, Numbers};
use idlewave_ftrace::event::{self, Comm, Event, Handler};
use idlewave_units::{Cpu, Pid};
use std::rc::Rc;

/// An event with the places of its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    Switch {
        prev: Number,
        prev_comm: Option<Chars>,
        state: Option<Number>,
        next: Number,
        next_comm: Option<Chars>,
    },
    Wake {
        kind: WakeKind,
        pid: Number,
        comm: Option<Chars>,
        cpu: Number,
    },
    Migrate {
        pid: Number,
        from: Number,
        to: Number,
    },
    Fork {
        parent: Number,
        child: Number,
        comm: Option<Chars>,
        process: Option<Number>,
    },
    IrqEnter {
        irq: Number,
        name: Option<Chars>,
    },
    IrqLeave(Number),
    SoftirqEnter(Number),
    SoftirqLeave(Number),
    Enter(Handler),
    Leave(Handler),
    Nmi(Option<Number>),
    Fault,
    Syscall {
        number: Called,
        returned: bool,
    },
    /// A thread that existed when the recording began.
    Thread {
        pid: Number,
        process: Option<Number>,
        parent: Option<Number>,
        name: Option<Chars>,
        kind: Option<Number>,
    },
}

/// What gives the number of a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Called {
    /// The name of the event.
    Named(u32),
    /// A field; negative if a tracer cancelled the call.
    Field(Number),
}

/// How far a wake-up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeKind {
    Begun,
    Done,
    New,
}

/// Why an event says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mute {
    /// It lacks a field.
    Lacking,
    /// It is of another kind.
    Other,
}

/// The kernel's name of an event.
pub(crate) fn kernel_name(name: &str) -> &str {
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let prefixes = ["x86_irq_vectors_", "x86_exceptions_"];
    let rest = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    rest.unwrap_or(name)
}

/// Finds the places of fields.
pub(crate) struct Finder<'a> {
    compiler: &'a mut Compiler,
    fields: Rc<Scope>,
}

impl<'a> Finder<'a> {
    /// Finds fields of a known type.
    pub(crate) fn of(compiler: &'a mut Compiler, root: &str) -> Self {
        let fields = compiler.fields_of(root);
        Self { compiler, fields }
    }

    /// The first of these fields that exists.
    pub(crate) fn number(&mut self, names: &[&str]) -> Option<Number> {
        let found = names.iter().find_map(|name| field(&self.fields, name))?;
        self.compiler.number(found).map(|(place, _)| place)
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<Chars> {
        let found = field(&self.fields, name)?;
        self.compiler.text(found)
    }

    /// The same for a field without which the event is of no use.
    fn need(&mut self, names: &[&str]) -> Result<Number, Mute> {
        self.number(names).ok_or(Mute::Lacking)
    }

    /// What an event with these fields says, given the kernel's name for it.
    pub(crate) fn meaning(&mut self, name: &str, numbers: &Numbers) -> Result<Meaning, Mute> {
        if let Some((function, returned)) = syscalls::function(name) {
            let number = match numbers.number(function) {
                Some(number) => Called::Named(number),
                None if function == "unknown" => Called::Field(self.need(&["id"])?),
                None => return Err(Mute::Other),
            };
            return Ok(Meaning::Syscall { number, returned });
        }
        Ok(match name {
            "sched_switch" => Meaning::Switch {
                prev: self.need(&["prev_tid", "prev_pid"])?,
                prev_comm: self.text("prev_comm"),
                state: self.number(&["prev_state"]),
                next: self.need(&["next_tid", "next_pid"])?,
                next_comm: self.text("next_comm"),
            },
            "sched_waking" => self.wake(WakeKind::Begun)?,
            "sched_wakeup" => self.wake(WakeKind::Done)?,
            "sched_wakeup_new" => self.wake(WakeKind::New)?,
            "sched_migrate_task" => Meaning::Migrate {
                pid: self.need(&["tid", "pid"])?,
                from: self.need(&["orig_cpu"])?,
                to: self.need(&["dest_cpu"])?,
            },
            "sched_process_fork" => Meaning::Fork {
                parent: self.need(&["parent_tid", "parent_pid"])?,
                child: self.need(&["child_tid", "child_pid"])?,
                comm: self.text("child_comm"),
                process: match field(&self.fields, "child_tid") {
                    Some(_) => self.number(&["child_pid"]),
                    None => None,
                },
            },
            "irq_handler_entry" => Meaning::IrqEnter {
                irq: self.need(&["irq"])?,
                name: self.text("name"),
            },
            "irq_handler_exit" => Meaning::IrqLeave(self.need(&["irq"])?),
            "softirq_entry" | "irq_softirq_entry" => Meaning::SoftirqEnter(self.need(&["vec"])?),
            "softirq_exit" | "irq_softirq_exit" => Meaning::SoftirqLeave(self.need(&["vec"])?),
            "nmi_handler" => Meaning::Nmi(self.number(&["delta_ns"])),
            "page_fault_user" | "page_fault_kernel" => Meaning::Fault,
            "sys_enter" | "sys_exit" => Meaning::Syscall {
                number: Called::Field(self.need(&["id"])?),
                returned: name == "sys_exit",
            },
            "lttng_statedump_process_state" => Meaning::Thread {
                pid: self.need(&["tid"])?,
                process: self.number(&["pid"]),
                parent: self.number(&["ppid"]),
                name: self.text("name"),
                kind: self.number(&["type"]),
            },
            name => Handler::vector_event(name.as_bytes(), Meaning::Enter, Meaning::Leave)
                .ok_or(Mute::Other)?,
        })
    }

    fn wake(&mut self, kind: WakeKind) -> Result<Meaning, Mute> {
        Ok(Meaning::Wake {
            kind,
            pid: self.need(&["tid", "pid"])?,
            comm: self.text("comm"),
            cpu: self.need(&["target_cpu"])?,
        })
    }
}

/// The fields of an event that was read.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) state: &'a State,
    /// The bytes that the texts are in.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn number(&self, place: Number) -> u64 {
        self.state.numbers[place as usize]
    }

    /// Thread and CPU numbers are never negative.
    pub(crate) fn pid(&self, place: Number) -> Pid {
        Pid::new(self.number(place) as u32)
    }

    fn cpu(&self, place: Number) -> Cpu {
        Cpu::new(self.number(place) as u32)
    }

    /// A text up to its first zero.
    pub(crate) fn text(&self, place: Chars) -> &'a [u8] {
        let (begin, length) = self.state.texts[place as usize];
        let text = self.bytes.get(begin..begin + length).unwrap_or_default();
        text.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn comm(&self, place: Option<Chars>) -> Option<Comm> {
        Some(event::comm(self.text(place?)))
    }

    /// The event for the timeline; `None` if it only describes a thread.
    pub(crate) fn event(&self, meaning: &Meaning) -> Option<Event<'a>> {
        let enter = |handler| Event::Enter { handler, name: &[] };
        let leave = |handler| Event::Leave { handler };
        let small = |place| self.number(place) as u32;
        Some(match *meaning {
            Meaning::Switch {
                prev,
                prev_comm,
                state,
                next,
                next_comm,
            } => Event::Switch {
                prev: self.pid(prev),
                prev_comm: self.comm(prev_comm),
                prev_state: state.map(|place| self.number(place)),
                next: self.pid(next),
                next_comm: self.comm(next_comm),
            },
            Meaning::Wake {
                kind,
                pid,
                comm,
                cpu,
            } => self.wake(kind, self.pid(pid), self.comm(comm), self.cpu(cpu)),
            Meaning::Migrate { pid, from, to } => Event::Migrate {
                pid: self.pid(pid),
                from: self.cpu(from),
                to: self.cpu(to),
            },
            Meaning::Fork {
                parent,
                child,
                comm,
                ..
            } => Event::Fork {
                parent: self.pid(parent),
                child: self.pid(child),
                comm: self.comm(comm),
            },
            Meaning::IrqEnter { irq, name } => Event::Enter {
                handler: Handler::Irq(small(irq)),
                name: name.map_or(&[], |place| self.text(place)),
            },
            Meaning::IrqLeave(irq) => leave(Handler::Irq(small(irq))),
            Meaning::SoftirqEnter(vec) => enter(Handler::Softirq(small(vec))),
            Meaning::SoftirqLeave(vec) => leave(Handler::Softirq(small(vec))),
            Meaning::Enter(handler) => enter(handler),
            Meaning::Leave(handler) => leave(handler),
            Meaning::Nmi(duration) => Event::Nmi {
                duration: duration.map(|place| self.number(place)),
            },
            Meaning::Fault => Event::Fault,
            Meaning::Syscall { number, returned } => Event::Syscall {
                number: match number {
                    Called::Named(number) => Some(number),
                    Called::Field(place) => u32::try_from(self.number(place)).ok(),
                },
                returned,
            },
            Meaning::Thread { .. } => return None,
        })
    }

    fn wake(&self, kind: WakeKind, pid: Pid, comm: Option<Comm>, cpu: Cpu) -> Event<'a> {
        match kind {
            WakeKind::Begun => Event::Wake { pid, comm, cpu },
            WakeKind::Done | WakeKind::New => Event::Woken {
                pid,
                comm,
                cpu,
                new: kind == WakeKind::New,
            },
        }
    }
}

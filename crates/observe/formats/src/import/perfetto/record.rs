//! What reading a trace yields.

use idlewave_ftrace::event::{Comm, Event};
use idlewave_run::Ledger;
use idlewave_units::{Cpu, Pid};

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record<'a> {
    /// An event.
    Event {
        /// Number of the machine: 0 is the one on which the trace was recorded.
        machine: u32,
        /// The CPU.
        cpu: Cpu,
        /// Nanoseconds of the trace's clock.
        time_ns: u64,
        /// The thread that ran, if recorded.
        by: Option<Pid>,
        /// The event.
        event: Event<'a>,
    },
    /// A thread leaves a CPU, and the trace does not say who gets it.
    Leaves {
        /// Number of the machine.
        machine: u32,
        /// The CPU.
        cpu: Cpu,
        /// Nanoseconds of the trace's clock.
        time_ns: u64,
        /// The thread.
        prev: Pid,
        /// Its state, as in [`Event::Switch`].
        prev_state: Option<u64>,
    },
    /// A thread gets a CPU, and the trace does not say who had it.
    Gets {
        /// Number of the machine.
        machine: u32,
        /// The CPU.
        cpu: Cpu,
        /// Nanoseconds of the trace's clock.
        time_ns: u64,
        /// The thread.
        next: Pid,
        /// Its name, if recorded.
        next_comm: Option<Comm>,
    },
    /// Events of this CPU are missing here.
    Lost {
        /// Number of the machine.
        machine: u32,
        /// The CPU.
        cpu: Cpu,
    },
    /// The description of a machine.
    System {
        /// Number of the machine.
        machine: u32,
        /// The machine.
        system: System<'a>,
    },
    /// A process that the recorder saw.
    Process {
        /// Number of the machine.
        machine: u32,
        /// Its first thread.
        pid: Pid,
        /// The process that started it, if recorded.
        parent: Option<Pid>,
        /// Its name as the kernel has it, or the first word of its command line; may be empty.
        name: &'a [u8],
        /// Whether it is a thread of the kernel, if recorded.
        kernel: Option<bool>,
    },
    /// A thread that the recorder saw.
    Thread {
        /// Number of the machine.
        machine: u32,
        /// The thread.
        pid: Pid,
        /// Its process, if recorded.
        process: Option<Pid>,
        /// Its name; may be empty.
        name: &'a [u8],
    },
}

/// A machine; what is not recorded is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct System<'a> {
    /// Name of the machine.
    pub name: &'a [u8],
    /// Release of its kernel.
    pub release: &'a [u8],
    /// Build of its kernel.
    pub build: &'a [u8],
    /// Its architecture, as in `uname -m`.
    pub architecture: &'a [u8],
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets, those within compressed ones included.
    pub packets: u64,
    /// Bundles of the kernel's events.
    pub bundles: u64,
    /// Events passed on.
    pub events: u64,
    /// Kernel events of other kinds.
    pub other_events: u64,
    /// Slices, counters and other events of programs: packets that say nothing about the kernel,
    /// threads or the machine.
    pub other_packets: u64,
    /// Bundles before which events were lost, as they say; each is a [`Record::Lost`] too.
    pub gaps: u64,
    /// Bundles whose times are from another clock than the trace's.
    pub other_clocks: u64,
    /// Where the last packet begins, if it was cut short: bytes from the start.
    pub cut: Option<u64>,
}

impl Summary {
    /// Enters what was not read. Whoever takes the records enters the losses between them.
    pub fn enter(&self, losses: &mut Ledger) {
        losses.enter(
            "events of the kernel of other kinds in the Perfetto trace",
            self.other_events,
            "they are not used",
            "none needed",
        );
        losses.enter(
            "packets of the Perfetto trace about other things than the kernel",
            self.other_packets,
            "they are not used",
            "none needed",
        );
        losses.enter(
            "bundles of the Perfetto trace with another clock",
            self.other_clocks,
            "their times are taken as those of the trace's clock",
            "record with the clock `boot`, which Perfetto takes where it can",
        );
        losses.enter(
            "end of the Perfetto trace cut short",
            u64::from(self.cut.is_some()),
            "the last packet is missing",
            "the recorder was killed: record again if the end matters",
        );
    }
}

//! What a trace gives.

use idlewave_ftrace::event::{Comm, Event};
use idlewave_run::Ledger;
use idlewave_units::{Cpu, Pid};

/// What a trace holds about a CPU.
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
    /// Events of the kernel of other kinds.
    pub other_events: u64,
    /// Slices, counters and other events of programs: packets without events of the kernel.
    pub other_packets: u64,
    /// Bundles that say that events before them were lost; each is a [`Record::Lost`] too.
    pub gaps: u64,
    /// Bundles whose times are of another clock than the trace's.
    pub other_clocks: u64,
    /// Where the last packet begins, if it was cut short: bytes from the start.
    pub cut: Option<u64>,
}

impl Summary {
    /// Enters what was not read. Whoever takes the records enters what was lost between them.
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

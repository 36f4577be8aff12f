//! Enters what is missing from a decoded capture into the loss ledger.

use crate::CpuStats;
use crate::page::PageError;
use crate::timeline::Misfits;
use idlewave_run::Ledger;
use idlewave_units::Cpu;

/// What went missing on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) cpu: Cpu,
    stats: Option<CpuStats>,
    /// The capture has no sub-buffers of this CPU.
    pub(crate) absent: bool,
    /// Its last sub-buffer is cut short.
    pub(crate) cut: bool,
    /// Lost events, as counted in the sub-buffers.
    pub(crate) counted: u64,
    /// Sub-buffers before which events were lost without a count.
    pub(crate) uncounted: u64,
    /// Damaged sub-buffers, and the first damage.
    damaged: u64,
    first_damage: Option<PageError>,
    /// Events of unknown kind.
    pub(crate) unknown: u64,
    /// Events shorter than their format.
    pub(crate) short: u64,
    pub(crate) misfits: Misfits,
}

impl Account {
    pub(crate) fn new(cpu: Cpu, stats: Option<&CpuStats>) -> Self {
        Self {
            cpu,
            stats: stats.copied(),
            absent: false,
            cut: false,
            counted: 0,
            uncounted: 0,
            damaged: 0,
            first_damage: None,
            unknown: 0,
            short: 0,
            misfits: Misfits::default(),
        }
    }

    /// Events lost. The final statistics include those lost after the last sub-buffer.
    pub(crate) fn missed(&self) -> u64 {
        self.counted.max(self.stats.map_or(0, |s| s.lost()))
    }

    /// Whether events may be missing after the last one.
    pub(crate) fn tail_lost(&self) -> bool {
        self.uncounted == 0 && self.missed() > self.counted
    }

    /// Notes damage in a sub-buffer; in one that was cut short it is expected.
    pub(crate) fn damage(&mut self, cut: bool, error: PageError) {
        if cut {
            self.cut = true;
        } else {
            self.damaged += 1;
            self.first_damage.get_or_insert(error);
        }
    }
}

const UNCERTAIN: &str = "bursts and interrupts around each gap are marked as not certain; the time inside belongs to nobody, unless a measuring thread saw itself run";
const BIGGER: &str = "record with a larger trace buffer, or for a shorter time";

/// What the losses of a whole trace depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overall<'a> {
    /// Number of CPUs that the trace covers.
    pub(crate) cpus: usize,
    /// Whether it is known when the recording ended.
    pub(crate) end_known: bool,
    /// Whether another tool recorded it.
    pub(crate) foreign: bool,
    /// Whether it has task switches.
    pub(crate) switches: bool,
    /// Events that lack a field that the timeline needs.
    pub(crate) unusable: &'a [String],
}

/// Enters what is missing. `stopped`: decoding ended early.
pub(crate) fn enter_losses(
    losses: &mut Ledger,
    overall: &Overall<'_>,
    accounts: &[Account],
    stopped: bool,
) {
    for account in accounts {
        let cpu = account.cpu;
        losses.enter(
            format!("kernel trace events lost on CPU {cpu}"),
            account.missed(),
            UNCERTAIN,
            BIGGER,
        );
        if account.missed() == 0 {
            losses.enter(
                format!("gaps of unknown size in the kernel trace of CPU {cpu}"),
                account.uncounted,
                UNCERTAIN,
                BIGGER,
            );
        }
        if let Some(damage) = account.first_damage {
            losses.enter(
                format!("damaged sub-buffers of CPU {cpu} (the first: {damage})"),
                account.damaged,
                UNCERTAIN,
                "the files of the capture were altered or the disk is failing: record again",
            );
        }
        losses.enter(
            format!("end of the kernel trace of CPU {cpu} cut short"),
            u64::from(account.cut),
            "the last events of this CPU are missing",
            "the recorder was killed: record again if the end matters",
        );
        losses.enter(
            format!("no kernel trace of CPU {cpu}"),
            u64::from(account.absent),
            "nothing on this CPU can be explained",
            "the recorder was killed, or a file of the capture is missing: record again",
        );
    }
    let sum = |part: fn(&Account) -> u64| accounts.iter().map(part).sum::<u64>();
    losses.enter(
        "switches missing from the kernel trace without reported loss",
        sum(|a| a.misfits.holes),
        UNCERTAIN,
        "none needed unless they are many",
    );
    losses.enter(
        "interrupts entered but not left in the kernel trace",
        sum(|a| a.misfits.unmatched_entries),
        "their end is inferred and they are marked as not certain",
        "none needed unless they are many",
    );
    losses.enter(
        "interrupts left but not entered in the kernel trace",
        sum(|a| a.misfits.unmatched_exits),
        "their time is charged to what they interrupted",
        "none needed unless they are many",
    );
    losses.enter(
        "kernel trace events earlier than the one before them",
        sum(|a| a.misfits.backwards),
        "they are taken as simultaneous with it",
        "the trace clock of this machine is not monotonic: check its clock source",
    );
    losses.enter(
        "kernel trace events of unknown kind",
        sum(|a| a.unknown),
        "they are not used",
        "none needed: other events than idlewave's own were enabled",
    );
    losses.enter(
        "kernel trace events shorter than their format",
        sum(|a| a.short),
        "they are not used",
        "the format files may be of another kernel: record again",
    );
    losses.enter(
        "CPUs whose kernel trace was not decoded",
        overall.cpus.saturating_sub(accounts.len()) as u64,
        "nothing on these CPUs can be explained",
        "decoding was stopped: let it run to its end",
    );
    losses.enter(
        "end of the kernel trace not decoded",
        u64::from(stopped),
        "bursts and interrupts end early",
        "decoding was stopped: let it run to its end",
    );
    losses.enter(
        "end of the recording not known",
        u64::from(!overall.end_known),
        "what ran last on each CPU ends with that CPU's last event",
        match overall.foreign {
            false => "the recorder was killed: record again if the end matters",
            true => "none needed: the format does not hold it",
        },
    );
    for name in overall.unusable {
        losses.enter(
            format!("kernel trace event {name} lacks fields that idlewave needs"),
            1,
            "it is not used",
            "report the kernel version to the developers of idlewave",
        );
    }
    losses.enter(
        "task switches not recorded",
        u64::from(!overall.switches),
        "who had which CPU is not known",
        match overall.foreign {
            false => {
                "this kernel lacks the event sched:sched_switch: use a kernel with CONFIG_TRACING"
            }
            true => "record with the event sched:sched_switch",
        },
    );
}

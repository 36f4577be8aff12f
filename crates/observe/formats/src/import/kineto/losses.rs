//! What is missing or uncertain in the traces, for the ledger.

use crate::import::kineto::collectives::Doubts;
use crate::import::kineto::trace::LeftOut;
use idlewave_run::Ledger;

/// What is missing or uncertain, by the reason.
#[derive(Default)]
pub(super) struct Lost {
    /// Files that are cut short.
    pub cut: u64,
    pub left_out: LeftOut,
    pub doubts: Doubts,
    /// Files that do not say their rank.
    pub unranked: u64,
    /// Files that do not name their host.
    pub hostless: u64,
    /// Files whose times have no base.
    pub coarse: u64,
    /// Calls and annotations before the base of the first file.
    pub outside: u64,
    /// Sends and receives.
    pub messages: u64,
    /// Collectives of unknown size.
    pub typeless: u64,
    pub unseen_ranks: u64,
    pub uncompared_hosts: u64,
}

impl LeftOut {
    pub(super) fn add(&mut self, other: &LeftOut) {
        self.operators += other.operators;
        self.kernels += other.kernels;
        self.others += other.others;
        self.untimed += other.untimed;
        self.foreign += other.foreign;
        self.disordered += other.disordered;
        self.beyond += other.beyond;
    }
}

impl Doubts {
    pub(super) fn add(&mut self, other: &Doubts) {
        self.ungrouped += other.ungrouped;
        self.by_thread += other.by_thread;
        self.rootless += other.rootless;
        self.blocking += other.blocking;
        self.beside += other.beside;
        self.unseen += other.unseen;
    }
}

impl Lost {
    pub(super) fn ledger(&self) -> Ledger {
        let mut losses = Ledger::default();
        self.of_files(&mut losses);
        self.of_calls(&mut losses);
        self.of_events(&mut losses);
        losses
    }

    fn of_files(&self, losses: &mut Ledger) {
        losses.enter(
            "files that are cut short",
            self.cut,
            "what their ranks did afterwards is missing",
            "copy them again from where they were recorded",
        );
        losses.enter(
            "files that do not say their rank",
            self.unranked,
            "ranks follow from the names of the files, or from their order",
            "profile after torch.distributed is initialised",
        );
        losses.enter(
            "ranks without a trace",
            self.unseen_ranks,
            "collectives with them are not explained",
            "give the traces of all ranks",
        );
        losses.enter(
            "files that do not name their host",
            self.hostless,
            "their ranks count as of one host, with one clock",
            "profile with a newer PyTorch: 2.15 writes it",
        );
        losses.enter(
            "hosts whose clocks could not be compared with that of the first",
            self.uncompared_hosts,
            "no all-reduce or the like connects them: waits between them are wrong by the difference of their clocks",
            "synchronise the clocks, or import the ranks of one host",
        );
        losses.enter(
            "files whose times have no base",
            self.coarse,
            "times are exact to 256 ns only",
            "profile with a newer PyTorch: 2.15 writes it",
        );
    }

    fn of_calls(&self, losses: &mut Ledger) {
        let unexplained = "waits in them are not explained";
        losses.enter(
            "collectives whose process group the trace does not name",
            self.doubts.ungrouped,
            unexplained,
            "none: gloo does not record it where a rank is in several groups",
        );
        losses.enter(
            "collectives whose process group follows from their threads",
            self.doubts.by_thread,
            "they may be of another group",
            "none needed: gloo starts two threads for each group, in order",
        );
        losses.enter(
            "collectives whose root the trace does not name",
            self.doubts.rootless,
            unexplained,
            "profile with record_shapes=True",
        );
        losses.enter(
            "collectives whose thread seems to have waited for them",
            self.doubts.blocking,
            "the thread did nothing for at least half of the time from launch to end, so all of it \
             counts as the thread's call",
            "none: the trace does not say when a thread waits",
        );
        losses.enter(
            "collectives that ran beside other work of their thread",
            self.doubts.beside,
            "the thread did something for more than half of the time from launch to end, so they \
             count as calls of the thread that carried them out",
            "none: the trace does not say when a thread waits",
        );
        losses.enter(
            "collectives on a GPU whose kernels are not in the trace",
            self.doubts.unseen,
            unexplained,
            "profile with ProfilerActivity.CUDA too",
        );
        losses.enter(
            "sends and receives without a partner",
            self.messages,
            unexplained,
            "none: the trace does not say which send belongs to which receive",
        );
        losses.enter(
            "collectives whose bytes the trace does not say",
            self.typeless,
            "their bytes are empty",
            "none: only traces of NCCL say them",
        );
    }

    fn of_events(&self, losses: &mut Ledger) {
        let lacks = "the run lacks them";
        let out = &self.left_out;
        losses.enter(
            "operators that are no collectives",
            out.operators,
            "their time counts as computation",
            "look at them in Perfetto",
        );
        losses.enter(
            "kernels that are no collectives",
            out.kernels,
            "their time counts as computation",
            "look at them in Perfetto",
        );
        losses.enter(
            "events of kinds that a run has no table for",
            out.others,
            lacks,
            "look at them in Perfetto",
        );
        losses.enter(
            "events without a time",
            out.untimed + self.outside,
            lacks,
            "see whether the trace was copied whole",
        );
        losses.enter(
            "events beyond the memory for a file",
            out.beyond,
            lacks,
            "profile fewer steps: 1 GiB is kept of a file",
        );
        losses.enter(
            "events of a second process in the file of a rank",
            out.foreign,
            lacks,
            "give each process a file of its own",
        );
        losses.enter(
            "events out of order",
            out.disordered,
            "a collective may be taken for one that ran beside other work",
            "give the file as the profiler wrote it",
        );
    }
}

//! What an archive lacks, and which parts of it have no place in a run.

use idlewave_run::Ledger;

/// What an archive lacks of the kernel, and a kernel trace joined with it has.
pub(in crate::import) const OF_ITS_KERNEL: &str = "who had the CPUs, interrupts and wake-ups";

/// What was lost, how often, what that means, and what to do.
type Entry = (&'static str, u64, &'static str, &'static str);

const LACKS: &str = "the run lacks them";
pub(super) const COPY: &str = "copy the whole archive: NAME.otf2, NAME.def and the directory NAME";
const WHOLE: &str = "trace the whole program";
const VIEWER: &str = "look at them in a viewer of OTF2";
const RECORD: &str = "record with `idlewave record`";

/// What has no place in the run, or is missing from the archive.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Locations whose file of events was read, and those without one.
    pub files: u64,
    pub missing_files: u64,
    /// Events that the definitions announce and the files lack.
    missing_events: u64,
    /// Files that end within a record.
    pub cut: u64,
    /// Locations with local definitions, and without.
    with_local: u64,
    without_local: u64,
    /// Locations that are no threads.
    pub no_threads: u64,
    /// Times earlier than the previous one.
    pub backwards: u64,
    pub metrics: u64,
    pub others: u64,
    pub flushes: u64,
    /// Regions of the recorder.
    pub artificial: u64,
    /// Regions within a call of MPI.
    pub within: u64,
    pub too_deep: u64,
    /// Ends of regions that are not open.
    pub unmatched: u64,
    pub open_calls: u64,
    pub open_receives: u64,
    pub cancelled: u64,
    pub nonblocking: u64,
    /// Completions of operations whose start is not in the archive.
    pub not_started: u64,
    /// Ends of messages whose other rank is not in the communicator.
    pub no_peer: u64,
    /// Calls and messages of locations that belong to no rank.
    pub foreign: u64,
    /// Threads that were read after others of their process.
    pub later_threads: u64,
}

impl Losses {
    /// Counts a location with or without local definitions.
    pub(super) fn local(&mut self, has: bool) {
        match has {
            true => self.with_local += 1,
            false => self.without_local += 1,
        }
    }

    /// Counts events that the definitions announce and the files lack.
    pub(super) fn missing_events(&mut self, count: u64) {
        self.missing_events = self.missing_events.saturating_add(count);
    }

    /// All losses, and what no archive has.
    pub(super) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let parts = [&self.incomplete()[..], &self.of_mpi(), &self.unused()].concat();
        for (what, count, consequence, advice) in parts {
            ledger.enter(what, count, consequence, advice);
        }
        ledger.enter(
            OF_ITS_KERNEL,
            1,
            "late ranks are named, but not what took their CPUs",
            "record with `sudo idlewave record -- mpirun ./program`",
        );
        ledger
    }

    /// What is missing from the archive, or wrong in it.
    fn incomplete(&self) -> [Entry; 6] {
        let without = match self.with_local {
            0 => 0,
            _ => self.without_local,
        };
        [
            (
                "files of events that are missing",
                self.missing_files,
                LACKS,
                COPY,
            ),
            (
                "files of events that are cut short",
                self.cut,
                "what came later is missing",
                COPY,
            ),
            (
                "events that the definitions announce and the files lack",
                self.missing_events,
                LACKS,
                COPY,
            ),
            (
                "locations without local definitions",
                without,
                "their clocks are not corrected, and their regions may have wrong names",
                COPY,
            ),
            (
                "times that run backwards",
                self.backwards,
                "the time before stands in for each",
                "check the synchronisation of the clocks in the recorder",
            ),
            (
                "flushes of the recorder's buffer",
                self.flushes,
                "they took time from the program",
                "give the recorder more memory",
            ),
        ]
    }

    /// What is not known about calls and messages.
    fn of_mpi(&self) -> [Entry; 8] {
        [
            (
                "calls of MPI that do not end",
                self.open_calls,
                LACKS,
                WHOLE,
            ),
            (
                "receives that never completed",
                self.open_receives,
                "the archive has neither their senders nor their tags",
                RECORD,
            ),
            (
                "operations of MPI that were cancelled",
                self.cancelled,
                LACKS,
                "none needed",
            ),
            (
                "collectives that do not block",
                self.nonblocking,
                "waits for their members are not explained: the archive has their communicators at their ends only",
                RECORD,
            ),
            (
                "completions of operations that were not started",
                self.not_started,
                "receives count as posted when they complete",
                WHOLE,
            ),
            (
                "messages to or from ranks that their communicators lack",
                self.no_peer,
                "they belong to no message",
                COPY,
            ),
            (
                "calls and messages of threads that belong to no rank",
                self.foreign,
                LACKS,
                "trace all ranks",
            ),
            (
                "threads beyond those of their process that could be read together",
                self.later_threads,
                "requests and communicators that they share with the others may be assigned wrongly",
                RECORD,
            ),
        ]
    }

    /// What has no place in a run.
    fn unused(&self) -> [Entry; 7] {
        [
            (
                "locations that are not threads, such as streams of accelerators",
                self.no_threads,
                LACKS,
                VIEWER,
            ),
            (
                "regions of the recorder, such as what took a CPU in an export of idlewave",
                self.artificial,
                LACKS,
                VIEWER,
            ),
            ("regions within calls of MPI", self.within, LACKS, VIEWER),
            (
                "regions that lie too deep in others",
                self.too_deep,
                LACKS,
                "record fewer regions",
            ),
            (
                "ends of regions that were not entered",
                self.unmatched,
                LACKS,
                WHOLE,
            ),
            ("metrics", self.metrics, LACKS, VIEWER),
            (
                "events of kinds that a run has no table for",
                self.others,
                LACKS,
                VIEWER,
            ),
        ]
    }
}

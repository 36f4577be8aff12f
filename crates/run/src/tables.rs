//! The tables of a run: columns of typed cells. Times (`*_ns` of type `u64`) are nanoseconds of the
//! node's CLOCK_MONOTONIC; durations are [`Nanos`].

use crate::Cell;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::Arc;

/// Typed columns that can be written to, and read from, a bundle.
pub trait Table: Default {
    /// One row of the table.
    type Row;
    /// Name of the table, and of its file without the extension.
    const NAME: &'static str;
    /// What a row is, for the schema's metadata.
    const DOC: &'static str;
    /// Columns with their documentation.
    fn schema() -> Schema;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds a row.
    fn push(&mut self, row: Self::Row);
    /// The row at `index`, which must be below `len`.
    fn row(&self, index: usize) -> Self::Row;
    /// The columns as one record batch.
    fn to_batch(&self) -> RecordBatch;
    /// Appends a record batch; the error names the column that does not fit.
    fn append_batch(&mut self, batch: &RecordBatch) -> Result<(), String>;
    /// Drops all rows and keeps the memory.
    fn clear(&mut self);
    /// All rows, in order.
    fn rows(&self) -> impl Iterator<Item = Self::Row> + '_ {
        (0..self.len()).map(|i| self.row(i))
    }
}

macro_rules! tables {
    ($(
        $(#[doc = $doc:literal])+
        $table:ident of $row:ident = $name:literal {
            $( $(#[doc = $col_doc:literal])+ $col:ident : $ty:ty, )+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $( $(#[doc = $col_doc])+ pub $col: $ty, )+ }

        #[doc = concat!("Columns of [`", stringify!($row), "`]: table `", $name, "`.")]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $table { $( $(#[doc = $col_doc])+ pub $col: Vec<$ty>, )+ }

        impl Table for $table {
            type Row = $row;
            const NAME: &'static str = $name;
            const DOC: &'static str = concat!($($doc),+);
            fn schema() -> Schema {
                Schema::new(vec![$(
                    Field::new(stringify!($col), <$ty as Cell>::data_type(), <$ty as Cell>::NULLABLE)
                        .with_metadata([("doc".to_owned(), concat!($($col_doc),+).trim().to_owned())].into()),
                )+])
                .with_metadata([("doc".to_owned(), Self::DOC.trim().to_owned())].into())
            }
            fn len(&self) -> usize {
                [$( self.$col.len() ),+].into_iter().min().unwrap_or(0)
            }
            fn push(&mut self, row: $row) {
                $( self.$col.push(row.$col); )+
            }
            fn row(&self, index: usize) -> $row {
                $row { $( $col: self.$col[index].clone(), )+ }
            }
            fn to_batch(&self) -> RecordBatch {
                let columns: Vec<ArrayRef> = vec![$( <$ty as Cell>::to_array(&self.$col) ),+];
                RecordBatch::try_new(Arc::new(Self::schema()), columns)
                    .expect("columns are built from the schema's own types")
            }
            fn append_batch(&mut self, batch: &RecordBatch) -> Result<(), String> {
                $(
                    let array = batch
                        .column_by_name(stringify!($col))
                        .ok_or_else(|| missing(stringify!($col)))?;
                    <$ty as Cell>::extend_from(array.as_ref(), &mut self.$col)
                        .ok_or_else(|| misfit(stringify!($col), array.data_type(), array.null_count()))?;
                )+
                Ok(())
            }
            fn clear(&mut self) {
                $( self.$col.clear(); )+
            }
        }
    )+

        /// Name, documentation and columns of every table, for docs/run-bundle.md.
        pub fn all_schemas() -> Vec<(&'static str, &'static str, Schema)> {
            vec![$( ($name, $table::DOC, $table::schema()) ),+]
        }
    };
}

fn missing(column: &str) -> String {
    format!("column `{column}` is missing")
}

fn misfit(column: &str, found: &DataType, nulls: usize) -> String {
    format!("column `{column}` has type {found} with {nulls} empty cells, which does not fit")
}

tables! {
    /// A thread that was seen in the run.
    Tasks of Task = "tasks" {
        /// Node on which it ran.
        node: NodeId,
        /// Thread number; 0 is the idle task of every CPU.
        pid: Pid,
        /// Process (thread group) if known.
        process: Option<Pid>,
        /// Name as the kernel knows it, at most 15 bytes; the last one if it changed.
        name: String,
        /// 0 idle, 1 kernel thread, 2 user thread, 3 rank of the run, 4 idlewave itself (recorder and others), 5 not known.
        kind: u8,
    }

    /// A name under which time is taken: what the columns called `source` refer to.
    Sources of Source = "sources" {
        /// Number, dense from 0, in the order of the rows.
        id: u32,
        /// Class, see `SourceKind`.
        kind: u8,
        /// Name: task, interrupt, softirq vector, IPI.
        name: String,
    }

    /// A stretch of time for which one thread had one CPU.
    Bursts of Burst = "bursts" {
        /// Node.
        node: NodeId,
        /// CPU.
        cpu: Cpu,
        /// Thread that ran; 0 is the idle task.
        pid: Pid,
        /// Switched in at.
        begin_ns: u64,
        /// Switched out at.
        end_ns: u64,
        /// Why it stopped: 0 preempted (still runnable), 1 sleeping, 2 uninterruptible, 3 stopped or traced, 4 exited, 5 not known (end of trace or hole).
        end_reason: u8,
        /// False where begin or end was not seen itself but inferred (hole in the trace, begin or end of recording).
        certain: bool,
    }

    /// A stretch of time in which the kernel handled an interrupt, softirq, IPI or fault on one CPU. Nested ones have a greater depth.
    Interrupts of Interrupt = "interrupts" {
        /// Node.
        node: NodeId,
        /// CPU.
        cpu: Cpu,
        /// Row of `sources`.
        source: u32,
        /// Thread that was interrupted.
        pid: Pid,
        /// Entered at.
        begin_ns: u64,
        /// Left at.
        end_ns: u64,
        /// 0 outermost.
        depth: u8,
        /// False where begin or end was inferred.
        certain: bool,
    }

    /// A thread was made runnable.
    Wakeups of Wakeup = "wakeups" {
        /// Node.
        node: NodeId,
        /// When.
        time_ns: u64,
        /// CPU on which the waker ran.
        cpu: Cpu,
        /// Thread that was running there (the waker, or whom the waking interrupt interrupted).
        waker: Pid,
        /// Thread that was woken.
        pid: Pid,
        /// CPU it was put on.
        target_cpu: Cpu,
    }

    /// A thread was moved from one CPU to another.
    Migrations of Migration = "migrations" {
        /// Node.
        node: NodeId,
        /// When.
        time_ns: u64,
        /// Thread.
        pid: Pid,
        /// From.
        from: Cpu,
        /// To.
        to: Cpu,
    }

    /// A stretch of a rank's time: one iteration has one `compute` and one `wait`.
    Regions of Region = "regions" {
        /// Rank.
        rank: Rank,
        /// Index of the phase in the manifest.
        phase: u32,
        /// Iteration, from 0 in each phase.
        iteration: u64,
        /// 0 compute, 1 exchange with neighbours, 2 barrier.
        kind: u8,
        /// Begin.
        begin_ns: u64,
        /// End.
        end_ns: u64,
        /// Bytes received in it, if it communicates.
        bytes: Option<Bytes>,
    }

    /// A gap seen from user space: the thread did not run, or ran nothing of its own, for this long.
    Detours of Detour = "detours" {
        /// Index of the phase in the manifest.
        phase: u32,
        /// CPU the thread was bound to.
        cpu: Cpu,
        /// Rank, in a lockstep phase.
        rank: Option<Rank>,
        /// Last reading before the gap.
        begin_ns: u64,
        /// Gap less the time of an undisturbed turn.
        length: Nanos,
    }

    /// One repetition of the fixed work quantum.
    Quanta of Quantum = "quanta" {
        /// Index of the phase in the manifest.
        phase: u32,
        /// CPU.
        cpu: Cpu,
        /// Begin.
        begin_ns: u64,
        /// Time the quantum took.
        duration: Nanos,
    }

    /// CPU time that a thread took between two readings of its counters (`/proc/PID/task/TID/schedstat`).
    TaskTimes of TaskTime = "task_times" {
        /// Node.
        node: NodeId,
        /// Thread.
        pid: Pid,
        /// Its name.
        name: String,
        /// First reading.
        begin_ns: u64,
        /// Second reading.
        end_ns: u64,
        /// Time on a CPU in between.
        ran: Nanos,
        /// Time runnable but waiting for a CPU in between.
        waited: Nanos,
        /// Times it was put on a CPU in between.
        slices: u64,
    }

    /// A counter of the system between two readings: interrupts, softirqs and steal per CPU.
    Counters of Counter = "counters" {
        /// Node.
        node: NodeId,
        /// CPU.
        cpu: Cpu,
        /// Row of `sources`.
        source: u32,
        /// First reading.
        begin_ns: u64,
        /// Second reading.
        end_ns: u64,
        /// Increase in between: events, or for steal the stolen nanoseconds.
        increase: u64,
    }

    /// One late step of a lockstep run: written by the analysis.
    LateSteps of LateStep = "late_steps" {
        /// Index of the phase in the manifest.
        phase: u32,
        /// Iteration.
        iteration: u64,
        /// The rank that arrived last and so set the pace.
        rank: Rank,
        /// Where the step begins: the arrival that released the last rank.
        begin_ns: u64,
        /// Where it ends: the last rank's arrival.
        end_ns: u64,
        /// What exceeds the undisturbed step. Its parts are in `late_parts`.
        lateness: Nanos,
    }

    /// A part of the lateness of one late step. The parts of a step add up to its lateness exactly.
    LateParts of LatePart = "late_parts" {
        /// Row of `late_steps`.
        step: u32,
        /// Index into the `sources` of findings.json.
        finding: u32,
        /// Time charged to it.
        time: Nanos,
    }
}

/// Class of a source of delay. The discriminant is what the column `kind` of `sources` holds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum SourceKind {
    /// A user process: a daemon or another program.
    Task = 0,
    /// A kernel thread.
    KernelThread = 1,
    /// A device interrupt, by name.
    Irq = 2,
    /// A softirq, by vector.
    Softirq = 3,
    /// The local timer interrupt.
    TimerTick = 4,
    /// An interrupt sent by another CPU (reschedule, function call, irq_work).
    Ipi = 5,
    /// A non-maskable interrupt.
    Nmi = 6,
    /// The rank was runnable and its CPU idle or on its way: wake-up latency.
    RunQueueWait = 7,
    /// The rank was moved to another CPU.
    Migration = 8,
    /// The rank touched a page that was not mapped.
    PageFault = 9,
    /// The rank slept of its own accord (a futex, a voluntary switch).
    Blocked = 10,
    /// The CPU ran, but slower: frequency, hardware thread on the same core, memory.
    SlowLevel = 11,
    /// The clock jumped while the kernel recorded nothing: hypervisor or firmware, inferred by rule.
    Hypervisor = 12,
    /// The recorder of idlewave itself: its reader thread.
    Recorder = 13,
    /// Writing of trace events, by measured cost per event.
    Tracing = 14,
    /// Not named by any record.
    Unexplained = 15,
    /// Off the CPU for a reason this recording could not see (only own switches were visible).
    OtherTask = 16,
    /// Another rank of the same run, on the same CPU.
    Rank = 17,
    /// The group's CPU bandwidth limit stopped the rank.
    Throttled = 18,
}

impl SourceKind {
    /// All kinds, in order of their numbers.
    pub const ALL: [SourceKind; 19] = [
        SourceKind::Task,
        SourceKind::KernelThread,
        SourceKind::Irq,
        SourceKind::Softirq,
        SourceKind::TimerTick,
        SourceKind::Ipi,
        SourceKind::Nmi,
        SourceKind::RunQueueWait,
        SourceKind::Migration,
        SourceKind::PageFault,
        SourceKind::Blocked,
        SourceKind::SlowLevel,
        SourceKind::Hypervisor,
        SourceKind::Recorder,
        SourceKind::Tracing,
        SourceKind::Unexplained,
        SourceKind::OtherTask,
        SourceKind::Rank,
        SourceKind::Throttled,
    ];

    /// The number written in tables.
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// The kind of a number read from a table; `None` for numbers of a newer schema.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
    /// Short name for tables: "task", "irq", "timer tick".
    pub const fn label(self) -> &'static str {
        match self {
            SourceKind::Task => "task",
            SourceKind::KernelThread => "kernel thread",
            SourceKind::Irq => "irq",
            SourceKind::Softirq => "softirq",
            SourceKind::TimerTick => "timer tick",
            SourceKind::Ipi => "ipi",
            SourceKind::Nmi => "nmi",
            SourceKind::RunQueueWait => "run-queue wait",
            SourceKind::Migration => "migration",
            SourceKind::PageFault => "page fault",
            SourceKind::Blocked => "blocked",
            SourceKind::SlowLevel => "slow level",
            SourceKind::Hypervisor => "hypervisor gap",
            SourceKind::Recorder => "recorder",
            SourceKind::Tracing => "tracing",
            SourceKind::Unexplained => "unexplained",
            SourceKind::OtherTask => "other task",
            SourceKind::Rank => "rank",
            SourceKind::Throttled => "throttled",
        }
    }
}

/// Values of the column `kind` of [`Tasks`].
pub mod task_kind {
    /// The idle task of a CPU.
    pub const IDLE: u8 = 0;
    /// A kernel thread.
    pub const KERNEL: u8 = 1;
    /// A thread of a user process.
    pub const USER: u8 = 2;
    /// A rank of the run.
    pub const RANK: u8 = 3;
    /// A thread of idlewave that is no rank.
    pub const OWN: u8 = 4;
    /// Gone before its kind could be read.
    pub const UNKNOWN: u8 = 5;
}

/// Values of the column `end_reason` of [`Bursts`].
pub mod end_reason {
    /// Still runnable: another thread was preferred.
    pub const PREEMPTED: u8 = 0;
    /// Interruptible sleep.
    pub const SLEEPING: u8 = 1;
    /// Uninterruptible sleep.
    pub const UNINTERRUPTIBLE: u8 = 2;
    /// Stopped, traced or parked.
    pub const STOPPED: u8 = 3;
    /// The thread ended.
    pub const EXITED: u8 = 4;
    /// Not seen.
    pub const UNKNOWN: u8 = 5;
}

/// Values of the column `kind` of [`Regions`].
pub mod region_kind {
    /// The fixed work quantum.
    pub const COMPUTE: u8 = 0;
    /// Send to, receive from and wait for both neighbours.
    pub const EXCHANGE: u8 = 1;
    /// Wait for all ranks.
    pub const BARRIER: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_numbers_are_inverse() {
        for (number, kind) in SourceKind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.code()), number);
            assert_eq!(SourceKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(SourceKind::from_code(200), None);
    }

    #[test]
    fn a_table_survives_the_way_through_arrow() {
        let mut table = Detours::default();
        for (length, rank) in [(1_234, None), (5, Some(Rank::new(7)))] {
            table.push(Detour {
                phase: 1,
                cpu: Cpu::new(3),
                rank,
                begin_ns: u64::MAX,
                length: Nanos::from_nanos(length),
            });
        }
        let mut back = Detours::default();
        back.append_batch(&table.to_batch()).unwrap();
        assert_eq!(back, table);
        assert_eq!(back.rows().count(), 2);
    }

    #[test]
    fn a_table_of_another_shape_is_named() {
        let batch = Detours::default().to_batch();
        let error = Quanta::default().append_batch(&batch).unwrap_err();
        assert_eq!(error, "column `duration` is missing");
    }
}

//! The tables of a run: columns of typed cells. Times (`*_ns` of type `u64`) are nanoseconds of the
//! node's CLOCK_MONOTONIC; durations are [`Nanos`].

use crate::Cell;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{Field, Schema};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::Arc;

pub use crate::codes::*;

/// Typed columns that can be written to and read from a bundle.
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
    /// Whether there are no rows.
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
                    let array = column::<$ty>(batch, stringify!($col))?;
                    <$ty as Cell>::extend_from(array.as_ref(), &mut self.$col)
                        .ok_or_else(|| misfit::<$ty>(stringify!($col), array.as_ref()))?;
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

/// A column of a batch; one that may be empty is so where an older version did not write it.
fn column<T: Cell>(batch: &RecordBatch, name: &str) -> Result<ArrayRef, String> {
    match batch.column_by_name(name) {
        Some(array) => Ok(Arc::clone(array)),
        None if T::NULLABLE => Ok(new_null_array(&T::data_type(), batch.num_rows())),
        None => Err(format!("column `{name}` is missing")),
    }
}

fn misfit<T: Cell>(column: &str, array: &dyn Array) -> String {
    let (found, nulls) = (array.data_type(), array.null_count());
    if *found == T::data_type() && nulls == 0 {
        return format!(
            "column `{column}` holds numbers that this version of idlewave does not know"
        );
    }
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
        /// 0 idle, 1 kernel thread, 2 user thread, 3 rank of the run, 4 idlewave itself (recorder
        /// and others), 5 unknown, 6 a thread of the recorded program that is not a rank.
        kind: TaskKind,
    }

    /// A name to which delay is charged; columns called `source` refer to it.
    Sources of Source = "sources" {
        /// Number, dense from 0, in the order of the rows.
        id: u32,
        /// Class, see [Classes of sources](#classes-of-sources).
        kind: SourceKind,
        /// Name: task, interrupt, softirq vector, IPI.
        name: String,
    }

    /// A stretch of time during which one thread had one CPU.
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
        /// Why it stopped: 0 preempted (still runnable), 1 sleeping, 2 uninterruptible, 3 stopped
        /// or traced, 4 exited, 5 unknown (the trace ended or has a hole).
        end_reason: EndReason,
        /// False where start or end was inferred, not recorded (hole in the trace, start or end of
        /// the recording).
        certain: bool,
    }

    /// A stretch of time during which the kernel handled an interrupt, softirq, IPI or fault on one
    /// CPU. Nested ones are deeper.
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
        /// False where start or end was inferred.
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
        /// Thread that was running there: the waker, or the thread that the waking interrupt
        /// interrupted.
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

    /// A thread entered the kernel by a system call, or returned from one. Only recorded on request
    /// (`record --syscalls`).
    Syscalls of Syscall = "syscalls" {
        /// Node.
        node: NodeId,
        /// When.
        time_ns: u64,
        /// CPU on which the thread ran then.
        cpu: Cpu,
        /// Thread.
        pid: Pid,
        /// Number of the call on this architecture. Empty if a tracer had cancelled the call.
        number: Option<u32>,
        /// Whether it returned; false: it entered.
        returned: bool,
    }

    /// A stretch of a rank's time: one iteration of a lockstep run has one `compute` and one wait;
    /// one of the Lennard-Jones run has `update`, `exchange`, perhaps `rebuild`, and `force`; one of a
    /// benchmark has `compute` and `communication` in turn; a round of a ping-pong has one row.
    Regions of Region = "regions" {
        /// Rank.
        rank: Rank,
        /// Index of the phase in the manifest.
        phase: u32,
        /// Iteration, from 0 in each phase.
        iteration: u64,
        /// 0 compute, 1 exchange with neighbours, 2 barrier; of the Lennard-Jones run: 3 forces, 4
        /// rebuild of the list, 5 update; 6 allreduce, 7 reduce, 8 all-to-all, 9 calls of a
        /// benchmark, 10 round trip.
        kind: RegionKind,
        /// Start.
        begin_ns: u64,
        /// End.
        end_ns: u64,
        /// Bytes received in it, if it communicates.
        bytes: Option<Bytes>,
    }

    /// A gap seen from user space, during which the thread did not run, or did not run its own
    /// code.
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

    /// One repetition of the fixed work quantum, or one fixed time quantum.
    Quanta of Quantum = "quanta" {
        /// Index of the phase in the manifest.
        phase: u32,
        /// CPU.
        cpu: Cpu,
        /// Start.
        begin_ns: u64,
        /// Time the quantum took.
        duration: Nanos,
        /// Units of work that ended in it, of a fixed time quantum.
        units: Option<u64>,
    }

    /// CPU time that a thread took between two readings of its counters
    /// (`/proc/PID/task/TID/schedstat`).
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

    /// A call of a recorded MPI program, one row per call and thread.
    Calls of Call = "calls" {
        /// Rank in MPI_COMM_WORLD.
        rank: Rank,
        /// Thread that called.
        thread: Pid,
        /// Row of `operations`.
        operation: u32,
        /// Entered at.
        begin_ns: u64,
        /// Left at.
        end_ns: u64,
        /// Row of `communicators` by its `comm`, if the call has one.
        comm: Option<u32>,
        /// Number of the collective in its communicator, from 0; equal on all members. Empty unless
        /// collective.
        sequence: Option<u32>,
        /// Root of a rooted collective, in MPI_COMM_WORLD.
        root: Option<Rank>,
        /// Bytes this rank contributed to a collective, self included. Empty unless collective.
        sent: Option<Bytes>,
        /// Bytes this rank received from a collective, self included. Empty unless collective.
        received: Option<Bytes>,
        /// Request that the call started, numbered per rank from 0.
        request: Option<u64>,
    }

    /// One end of a point-to-point message of a recorded MPI program: one row per send and per
    /// receive.
    Transfers of Transfer = "transfers" {
        /// Rank in MPI_COMM_WORLD.
        rank: Rank,
        /// Thread that started it.
        thread: Pid,
        /// 0 send, 1 receive.
        direction: Direction,
        /// `comm` of `communicators`.
        comm: u32,
        /// The other rank, in MPI_COMM_WORLD; the actual sender for receives from any source. Empty
        /// where it never completed.
        peer: Option<Rank>,
        /// Tag; the actual one for receives of any tag.
        tag: i32,
        /// Bytes actually transferred (receives: from the status). Empty where it never completed.
        bytes: Option<Bytes>,
        /// Start of the call that started it.
        posted_ns: u64,
        /// Start of the call that completed it: the same call for blocking operations. Empty where
        /// none did.
        wait_ns: Option<u64>,
        /// End of the call that completed it. Empty where none did.
        completed_ns: Option<u64>,
    }

    /// A member of a communicator of a recorded MPI program.
    Communicators of Communicator = "communicators" {
        /// Number of the communicator in this run, dense from 0; 0 is MPI_COMM_WORLD.
        comm: u32,
        /// Rank in it. In an intercommunicator the ranks of the second group follow those of the
        /// first.
        member: u32,
        /// The same process in MPI_COMM_WORLD.
        rank: Rank,
        /// Number that identifies it to all members, including those on other nodes.
        key: u64,
    }

    /// An MPI function that was called; the column `operation` of `calls` refers to it.
    Operations of Operation = "operations" {
        /// Number, dense from 0.
        id: u32,
        /// Name in C: MPI_Allreduce.
        name: String,
        /// 0 other; 1 send, 2 receive, 3 both, 4 completes or tests requests; collectives: 5 all
        /// wait for all, 6 members wait for the root, 7 the root waits for members, 8 members wait
        /// for those before them, 12 for their neighbours, 9 starts one without waiting; 10 makes
        /// or frees a communicator; 11 MPI_Init, MPI_Finalize, MPI_Abort.
        class: OperationClass,
    }

    /// A region or point that the recorded program marked.
    Marks of Mark = "marks" {
        /// Rank in MPI_COMM_WORLD; empty if the thread's process is not a rank.
        rank: Option<Rank>,
        /// Node.
        node: NodeId,
        /// Thread.
        thread: Pid,
        /// The program's name for it.
        name: String,
        /// Start.
        begin_ns: u64,
        /// End; empty where it was never left, equal to the start for a point.
        end_ns: Option<u64>,
    }

    /// A message of a recorded MPI program with both ends matched; written by the analysis.
    Messages of Message = "messages" {
        /// Sender, in MPI_COMM_WORLD.
        from: Rank,
        /// Receiver, in MPI_COMM_WORLD; may be the sender itself.
        to: Rank,
        /// `comm` of `communicators`.
        comm: u32,
        /// Tag.
        tag: i32,
        /// Bytes received.
        bytes: Bytes,
        /// Start of the call that started the send.
        sent_ns: u64,
        /// Start of the call that started the receive.
        posted_ns: u64,
        /// Start of the call that completed the receive.
        wait_ns: u64,
        /// End of the call that completed the receive.
        completed_ns: u64,
    }

    /// A wait of a rank of a recorded MPI program for another rank; written by the analysis.
    Waits of Wait = "waits" {
        /// The rank that waited.
        rank: Rank,
        /// Row of `calls` in which it waited.
        call: u32,
        /// 0 for a late sender, 1 for a late receiver, 2 in a collective for its last member.
        kind: WaitKind,
        /// When it started to wait.
        begin_ns: u64,
        /// When the awaited rank arrived.
        end_ns: u64,
        /// The awaited rank: the last to enter, or the sender.
        culprit: Rank,
        /// Wait of `culprit` that caused most of this one: row of `waits`. Empty where the delay
        /// began on `culprit` itself.
        parent: Option<u32>,
        /// Hops back to the rank where the delay began; 0 if that is `culprit`.
        hops: u32,
    }

    /// A part of a wait. The parts of a wait add up to its length exactly.
    WaitParts of WaitPart = "wait_parts" {
        /// Row of `waits`.
        wait: u32,
        /// The rank from which the time was taken: where the delay began.
        origin: Rank,
        /// Index into the `sources` of findings.json.
        finding: u32,
        /// Time charged to it.
        time: Nanos,
    }

    /// One late step of a lockstep run; written by the analysis.
    LateSteps of LateStep = "late_steps" {
        /// Index of the phase in the manifest.
        phase: u32,
        /// Iteration.
        iteration: u64,
        /// The rank that arrived last and so determined the length of the step.
        rank: Rank,
        /// Start of the step: the arrival that released the last rank.
        begin_ns: u64,
        /// End of the step: the last rank's arrival.
        end_ns: u64,
        /// Time beyond the undisturbed step. Its parts are in `late_parts`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_numbers_are_inverse() {
        for (number, kind) in SourceKind::ALL.iter().enumerate() {
            assert_eq!(usize::from(kind.code()), number);
            assert_eq!(SourceKind::from_code(kind.code()), Some(*kind));
        }
        // Of a newer version: what cannot be said otherwise is refused.
        assert_eq!(SourceKind::from_code(200), Some(SourceKind::Unexplained));
        assert_eq!(Direction::from_code(2), None);
    }

    #[test]
    fn a_number_of_a_newer_version_is_told_where_it_means_nothing_here() {
        let batch = |kind: u8| {
            let mut batch = Regions::default();
            batch.push(Region {
                rank: Rank::new(0),
                phase: 0,
                iteration: 0,
                kind: RegionKind::Compute,
                begin_ns: 0,
                end_ns: 1,
                bytes: None,
            });
            let batch = batch.to_batch();
            let at = batch.schema().index_of("kind").unwrap();
            let mut columns = batch.columns().to_vec();
            columns[at] = u8::to_array(&[kind]);
            RecordBatch::try_new(batch.schema(), columns).unwrap()
        };
        let read = |kind| Regions::default().append_batch(&batch(kind));
        assert_eq!(read(10), Ok(()));
        let why = read(11).unwrap_err();
        assert!(why.contains("`kind`") && why.contains("not know"), "{why}");
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
    fn a_column_that_older_versions_did_not_write_is_empty() {
        let mut table = Quanta::default();
        for units in [Some(7), None] {
            table.push(Quantum {
                phase: 0,
                cpu: Cpu::new(1),
                begin_ns: 5,
                duration: Nanos::from_nanos(3),
                units,
            });
        }
        let batch = table.to_batch();
        let older = batch.project(&[0, 1, 2, 3]).unwrap();
        let mut back = Quanta::default();
        back.append_batch(&older).unwrap();
        assert_eq!(back.units, [None, None]);
        back.append_batch(&batch).unwrap();
        assert_eq!(back.units, [None, None, Some(7), None]);
    }

    #[test]
    fn a_table_of_another_shape_is_named() {
        let batch = Detours::default().to_batch();
        let error = Quanta::default().append_batch(&batch).unwrap_err();
        assert_eq!(error, "column `duration` is missing");
    }
}

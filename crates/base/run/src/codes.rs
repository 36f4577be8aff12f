//! The meaning of the numbers in code columns.

/// Class of a source of delay. Column `kind` of `sources` holds the discriminant.
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
    /// The rank was runnable, but its CPU was idle or on its way to it: wake-up latency.
    RunQueueWait = 7,
    /// The rank was moved to another CPU.
    Migration = 8,
    /// The rank touched a page that was not mapped.
    PageFault = 9,
    /// The rank slept voluntarily (a futex, a voluntary switch).
    Blocked = 10,
    /// The CPU ran, but slower: frequency, hardware thread on the same core, memory.
    SlowLevel = 11,
    /// The clock jumped while the kernel recorded nothing: hypervisor or firmware, inferred by
    /// rule.
    Hypervisor = 12,
    /// idlewave's own recorder: its reader thread.
    Recorder = 13,
    /// Writing of trace events, by measured cost per event.
    Tracing = 14,
    /// Not explained by any record.
    Unexplained = 15,
    /// Off the CPU for a reason this recording could not see: only the thread's own switches were
    /// visible.
    OtherTask = 16,
    /// Another rank of the same run, on the same CPU.
    Rank = 17,
    /// The CPU bandwidth limit of the cgroup stopped the rank.
    Throttled = 18,
    /// The rank has more work in every step than the rank that waits for it.
    Imbalance = 19,
    /// Messages or collectives took longer than usual although all ranks had arrived.
    Network = 20,
    /// The same with all ranks on one node: a transfer through shared memory.
    SharedMemory = 21,
}

impl SourceKind {
    /// All kinds, in order of their numbers.
    pub const ALL: [SourceKind; 22] = [
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
        SourceKind::Imbalance,
        SourceKind::Network,
        SourceKind::SharedMemory,
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
            SourceKind::Imbalance => "imbalance",
            SourceKind::Network => "network",
            SourceKind::SharedMemory => "shared-memory transfer",
        }
    }
}

/// Values of the column `kind` of [`Tasks`](crate::tables::Tasks).
pub mod task_kind {
    /// The idle task of a CPU.
    pub const IDLE: u8 = 0;
    /// A kernel thread.
    pub const KERNEL: u8 = 1;
    /// A thread of a user process.
    pub const USER: u8 = 2;
    /// A rank of the run.
    pub const RANK: u8 = 3;
    /// A thread of idlewave that is not a rank.
    pub const OWN: u8 = 4;
    /// Gone before its kind could be read.
    pub const UNKNOWN: u8 = 5;
    /// A thread of the recorded program that called no MPI function. All descendants of the command
    /// count, including the launcher.
    pub const PROGRAM: u8 = 6;
}

/// Values of the column `end_reason` of [`Bursts`](crate::tables::Bursts).
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
    /// Not recorded.
    pub const UNKNOWN: u8 = 5;
}

/// Values of the column `kind` of [`Regions`](crate::tables::Regions).
pub mod region_kind {
    /// The fixed work quantum.
    pub const COMPUTE: u8 = 0;
    /// Sends to, receives from and waits for both neighbours.
    pub const EXCHANGE: u8 = 1;
    /// Wait for all ranks.
    pub const BARRIER: u8 = 2;
    /// Forces of the Lennard-Jones run: the computation alone.
    pub const FORCE: u8 = 3;
    /// Rebuild of the lists of close pairs, in the Lennard-Jones run.
    pub const REBUILD: u8 = 4;
    /// Update of positions and velocities, in the Lennard-Jones run.
    pub const UPDATE: u8 = 5;
    /// Combines values of all ranks, result on all.
    pub const ALLREDUCE: u8 = 6;
    /// Combines values of all ranks, result on rank 0.
    pub const REDUCE: u8 = 7;
    /// A message from every rank to every rank.
    pub const ALLTOALL: u8 = 8;

    /// The wait of a lockstep run with this coupling.
    pub const fn wait_of(coupling: crate::Coupling) -> u8 {
        match coupling {
            crate::Coupling::Neighbours => EXCHANGE,
            crate::Coupling::Barrier => BARRIER,
            crate::Coupling::Allreduce => ALLREDUCE,
            crate::Coupling::Reduce => REDUCE,
            crate::Coupling::Alltoall => ALLTOALL,
        }
    }
}

/// Values of the column `class` of [`Operations`](crate::tables::Operations).
pub mod operation_class {
    /// Neither communicates nor waits.
    pub const OTHER: u8 = 0;
    /// Starts a send, and completes it if it blocks.
    pub const SEND: u8 = 1;
    /// Starts a receive, and completes it if it blocks.
    pub const RECEIVE: u8 = 2;
    /// Sends and receives: MPI_Sendrecv.
    pub const SEND_RECEIVE: u8 = 3;
    /// Completes or tests requests: the families of MPI_Wait and MPI_Test.
    pub const COMPLETE: u8 = 4;
    /// A blocking collective in which every member waits for every other: barrier, allreduce,
    /// alltoall, allgather.
    pub const ALL_TO_ALL: u8 = 5;
    /// A blocking collective in which members wait for the root: bcast, scatter.
    pub const FROM_ROOT: u8 = 6;
    /// A blocking collective in which the root waits for the other members: reduce, gather.
    pub const TO_ROOT: u8 = 7;
    /// A blocking collective in which members wait for those before them: scan.
    pub const PREFIX: u8 = 8;
    /// Starts a collective without waiting.
    pub const START_COLLECTIVE: u8 = 9;
    /// Makes or frees a communicator.
    pub const COMMUNICATOR: u8 = 10;
    /// MPI_Init, MPI_Init_thread, MPI_Finalize, MPI_Abort.
    pub const LIFE: u8 = 11;
    /// A blocking collective in which members wait for their neighbours only:
    /// MPI_Neighbor_alltoall.
    pub const NEIGHBOUR: u8 = 12;
}

/// Values of the column `direction` of [`Transfers`](crate::tables::Transfers).
pub mod direction {
    /// The rank sends.
    pub const SEND: u8 = 0;
    /// The rank receives.
    pub const RECEIVE: u8 = 1;
}

/// Values of the column `kind` of [`Waits`](crate::tables::Waits).
pub mod wait_kind {
    /// The receiver waited for the sender.
    pub const LATE_SENDER: u8 = 0;
    /// The sender of an unbuffered message waited for the receiver.
    pub const LATE_RECEIVER: u8 = 1;
    /// A wait in a collective, until its last member entered.
    pub const COLLECTIVE: u8 = 2;
}

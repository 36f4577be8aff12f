//! The meaning of the numbers in code columns.

use crate::{Cell, Coupling};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// Makes enums of which a column of bytes holds the discriminants. Numbers that this version does
/// not know are read as the variant after `others`; without one, their table is refused.
macro_rules! codes {
    ($(
        $(#[$attribute:meta])+
        $name:ident $(, others $others:ident)? {
            $( $(#[doc = $of:literal])+ $variant:ident = $code:literal, )+
        }
    )+) => {$(
        $(#[$attribute])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $( $(#[doc = $of])+ $variant = $code, )+
        }

        impl $name {
            /// All, in order of their numbers.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];

            /// The number written in tables.
            pub const fn code(self) -> u8 {
                self as u8
            }
            /// What a number read from a table stands for.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$variant), )+
                    _ => codes!(@unknown $($others)?),
                }
            }
        }

        impl Cell for $name {
            const NULLABLE: bool = false;
            fn data_type() -> DataType {
                u8::data_type()
            }
            fn to_array(values: &[Self]) -> ArrayRef {
                let codes: Vec<u8> = values.iter().map(|v| v.code()).collect();
                u8::to_array(&codes)
            }
            fn extend_from(array: &dyn Array, out: &mut Vec<Self>) -> Option<()> {
                let mut codes = Vec::new();
                u8::extend_from(array, &mut codes)?;
                for code in codes {
                    out.push(Self::from_code(code)?);
                }
                Some(())
            }
        }
    )+};
    (@unknown) => { None };
    (@unknown $others:ident) => { Some(Self::$others) };
}

codes! {
    /// Class of a source of delay: column `kind` of [`Sources`](crate::tables::Sources).
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    SourceKind, others Unexplained {
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

    /// What a thread was: column `kind` of [`Tasks`](crate::tables::Tasks).
    TaskKind, others Unknown {
        /// The idle task of a CPU.
        Idle = 0,
        /// A kernel thread.
        Kernel = 1,
        /// A thread of a user process.
        User = 2,
        /// A rank of the run.
        Rank = 3,
        /// A thread of idlewave that is not a rank.
        Own = 4,
        /// Gone before its kind could be read.
        Unknown = 5,
        /// A thread of the recorded program that called no MPI function. All descendants of the
        /// command count, including the launcher.
        Program = 6,
    }

    /// Why a thread left the CPU: column `end_reason` of [`Bursts`](crate::tables::Bursts).
    EndReason, others Unknown {
        /// Still runnable: another thread was preferred.
        Preempted = 0,
        /// Interruptible sleep.
        Sleeping = 1,
        /// Uninterruptible sleep.
        Uninterruptible = 2,
        /// Stopped, traced or parked.
        Stopped = 3,
        /// The thread ended.
        Exited = 4,
        /// Not recorded.
        Unknown = 5,
    }

    /// What a rank did: column `kind` of [`Regions`](crate::tables::Regions).
    RegionKind {
        /// The fixed work quantum.
        Compute = 0,
        /// Sends to, receives from and waits for both neighbours.
        Exchange = 1,
        /// Wait for all ranks.
        Barrier = 2,
        /// Forces of the Lennard-Jones run: the computation alone.
        Force = 3,
        /// Rebuild of the lists of close pairs, in the Lennard-Jones run.
        Rebuild = 4,
        /// Update of positions and velocities, in the Lennard-Jones run.
        Update = 5,
        /// Combines values of all ranks, result on all.
        Allreduce = 6,
        /// Combines values of all ranks, result on rank 0.
        Reduce = 7,
        /// A message from every rank to every rank.
        Alltoall = 8,
        /// Calls of a benchmark, one or several in a row.
        Communication = 9,
        /// A round trip of a ping-pong.
        RoundTrip = 10,
    }

    /// What an MPI function does: column `class` of [`Operations`](crate::tables::Operations).
    OperationClass, others Other {
        /// Neither communicates nor waits.
        Other = 0,
        /// Starts a send, and completes it if it blocks.
        Send = 1,
        /// Starts a receive, and completes it if it blocks.
        Receive = 2,
        /// Sends and receives: MPI_Sendrecv.
        SendReceive = 3,
        /// Completes or tests requests: the families of MPI_Wait and MPI_Test.
        Complete = 4,
        /// A blocking collective in which every member waits for every other: barrier, allreduce,
        /// alltoall, allgather.
        AllToAll = 5,
        /// A blocking collective in which members wait for the root: bcast, scatter.
        FromRoot = 6,
        /// A blocking collective in which the root waits for the other members: reduce, gather.
        ToRoot = 7,
        /// A blocking collective in which members wait for those before them: scan.
        Prefix = 8,
        /// Starts a collective without waiting.
        StartCollective = 9,
        /// Makes or frees a communicator.
        Communicator = 10,
        /// MPI_Init, MPI_Init_thread, MPI_Finalize, MPI_Abort.
        Life = 11,
        /// A blocking collective in which members wait for their neighbours only:
        /// MPI_Neighbor_alltoall.
        Neighbour = 12,
    }

    /// Which end of a message: column `direction` of [`Transfers`](crate::tables::Transfers).
    Direction {
        /// The rank sends.
        Send = 0,
        /// The rank receives.
        Receive = 1,
    }

    /// Why a rank waited: column `kind` of [`Waits`](crate::tables::Waits).
    WaitKind {
        /// The receiver waited for the sender.
        LateSender = 0,
        /// The sender of an unbuffered message waited for the receiver.
        LateReceiver = 1,
        /// A wait in a collective, until its last member entered.
        Collective = 2,
    }
}

impl RegionKind {
    /// The wait of a lockstep run with this coupling.
    pub const fn wait_of(coupling: Coupling) -> Self {
        match coupling {
            Coupling::Neighbours => Self::Exchange,
            Coupling::Barrier => Self::Barrier,
            Coupling::Allreduce => Self::Allreduce,
            Coupling::Reduce => Self::Reduce,
            Coupling::Alltoall => Self::Alltoall,
        }
    }
}

impl SourceKind {
    /// Short name for tables: "task", "irq", "timer tick".
    pub const fn label(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::KernelThread => "kernel thread",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::TimerTick => "timer tick",
            Self::Ipi => "ipi",
            Self::Nmi => "nmi",
            Self::RunQueueWait => "run-queue wait",
            Self::Migration => "migration",
            Self::PageFault => "page fault",
            Self::Blocked => "blocked",
            Self::SlowLevel => "slow level",
            Self::Hypervisor => "hypervisor gap",
            Self::Recorder => "recorder",
            Self::Tracing => "tracing",
            Self::Unexplained => "unexplained",
            Self::OtherTask => "other task",
            Self::Rank => "rank",
            Self::Throttled => "throttled",
            Self::Imbalance => "imbalance",
            Self::Network => "network",
            Self::SharedMemory => "shared-memory transfer",
        }
    }
}

//! Numbers of Paraver traces that the writer and the reader share.
//!
//! Types and values of MPI calls, and states as far as they exist there, are those of Extrae
//! (src/merger/paraver/mpi_prv_events.h and states.h of Extrae 4). The types from 60000001 on and 61000000 on are
//! idlewave's own and named in every .pcf.

/// CPU of the thread: the number of the CPU in the trace, 0 off the CPUs.
pub(crate) const CPU: u32 = 60_000_001;
/// Region of a lockstep or molecular-dynamics run: its kind + 1, 0 at the end.
pub(crate) const REGION: u32 = 60_000_010;
/// Iteration of the region that begins, + 1.
pub(crate) const ITERATION: u32 = 60_000_011;
/// Region that the program marked: its name's number, 0 at the end.
pub(crate) const MARK: u32 = 60_000_019;
/// Point that the program marked.
pub(crate) const POINT: u32 = 60_000_020;
/// Late step: its lateness in ns, 0 at the end.
pub(crate) const LATE: u32 = 60_000_030;
/// What most of the lateness is charged to: index into the sources of the findings + 1.
pub(crate) const LATE_BECAUSE: u32 = 60_000_031;
/// Ran on the CPU of a rank while that was late: the rank + 1, 0 at the end.
pub(crate) const WHILE_LATE: u32 = 60_000_032;
/// Wait for a rank: the awaited rank + 1, 0 at the end.
pub(crate) const WAIT: u32 = 60_000_040;
/// Kind of that wait, + 1.
pub(crate) const WAIT_KIND: u32 = 60_000_041;
/// Interrupt at nesting depth 0, those nested in it in the following types: row of `sources` + 1, 0 at the end.
pub(crate) const INTERRUPT: u32 = 61_000_000;

/// Point-to-point calls of MPI.
pub(crate) const POINT_TO_POINT: u32 = 50_000_001;
/// Collective calls.
pub(crate) const COLLECTIVE: u32 = 50_000_002;
/// Other calls.
pub(crate) const OTHER: u32 = 50_000_003;
/// Bytes that the caller gives to a collective.
pub(crate) const BYTES_SENT: u32 = 50_100_001;
/// Bytes that the caller gets from a collective.
pub(crate) const BYTES_RECEIVED: u32 = 50_100_002;
/// Whether the caller is the root of the collective.
pub(crate) const ROOT: u32 = 50_100_003;
/// Communicator of the collective.
pub(crate) const COMMUNICATOR: u32 = 50_100_004;

/// Labels of applications: what follows is the name of the program, or of a node.
pub(crate) const RANKS_OF: &str = "ranks of ";
/// The same for a program without MPI.
pub(crate) const PROCESSES_OF: &str = "processes of ";
/// All other processes of a node.
pub(crate) const ELSE_ON: &str = "everything else on ";

/// Functions that Extrae has no number for get this and their row in `operations`.
pub(crate) const FIRST_OWN_CALL: u64 = 1_000;

/// State: the CPU is idle.
pub(crate) const IDLE: u64 = 0;
/// State: has a CPU.
pub(crate) const RUNNING: u64 = 1;
/// State: runnable, waits for a CPU.
pub(crate) const READY: u64 = 7;
/// State: sleeps.
pub(crate) const BLOCKED: u64 = 9;
/// State: sleeps uninterruptibly, usually for a device.
pub(crate) const UNINTERRUPTIBLE: u64 = 12;
/// State: stopped or traced.
pub(crate) const STOPPED: u64 = 14;
/// State: off the CPU for an unknown reason.
pub(crate) const UNKNOWN: u64 = 15;

/// All states with their names and colours.
pub(crate) const STATES: [(u64, &str, [u8; 3]); 7] = [
    (IDLE, "Idle", [117, 195, 255]),
    (RUNNING, "Running", [0, 0, 255]),
    (READY, "Ready: waits for a CPU", [255, 0, 0]),
    (BLOCKED, "Blocked: sleeps", [179, 179, 179]),
    (UNINTERRUPTIBLE, "Uninterruptible sleep", [235, 177, 36]),
    (STOPPED, "Stopped", [120, 60, 120]),
    (UNKNOWN, "Off the CPU, reason unknown", [90, 90, 90]),
];

/// Functions with their types and values.
#[rustfmt::skip]
const CALLS: [(&str, u32, u64); 44] = [
    ("MPI_Send", POINT_TO_POINT, 1), ("MPI_Recv", POINT_TO_POINT, 2), ("MPI_Isend", POINT_TO_POINT, 3), ("MPI_Irecv", POINT_TO_POINT, 4),
    ("MPI_Wait", POINT_TO_POINT, 5), ("MPI_Waitall", POINT_TO_POINT, 6), ("MPI_Bcast", COLLECTIVE, 7), ("MPI_Barrier", COLLECTIVE, 8),
    ("MPI_Reduce", COLLECTIVE, 9), ("MPI_Allreduce", COLLECTIVE, 10), ("MPI_Alltoall", COLLECTIVE, 11), ("MPI_Alltoallv", COLLECTIVE, 12),
    ("MPI_Gather", COLLECTIVE, 13), ("MPI_Gatherv", COLLECTIVE, 14), ("MPI_Scatter", COLLECTIVE, 15), ("MPI_Scatterv", COLLECTIVE, 16),
    ("MPI_Allgather", COLLECTIVE, 17), ("MPI_Allgatherv", COLLECTIVE, 18), ("MPI_Comm_rank", OTHER, 19), ("MPI_Comm_size", OTHER, 20),
    ("MPI_Comm_create", OTHER, 21), ("MPI_Comm_dup", OTHER, 22), ("MPI_Comm_split", OTHER, 23), ("MPI_Comm_group", OTHER, 24),
    ("MPI_Comm_free", OTHER, 25), ("MPI_Comm_remote_group", OTHER, 26), ("MPI_Comm_remote_size", OTHER, 27), ("MPI_Comm_test_inter", OTHER, 28),
    ("MPI_Comm_compare", OTHER, 29), ("MPI_Scan", COLLECTIVE, 30), ("MPI_Init", OTHER, 31), ("MPI_Finalize", OTHER, 32),
    ("MPI_Bsend", POINT_TO_POINT, 33), ("MPI_Ssend", POINT_TO_POINT, 34), ("MPI_Rsend", POINT_TO_POINT, 35), ("MPI_Ibsend", POINT_TO_POINT, 36),
    ("MPI_Issend", POINT_TO_POINT, 37), ("MPI_Irsend", POINT_TO_POINT, 38), ("MPI_Test", POINT_TO_POINT, 39), ("MPI_Cancel", POINT_TO_POINT, 40),
    ("MPI_Sendrecv", POINT_TO_POINT, 41), ("MPI_Sendrecv_replace", POINT_TO_POINT, 42), ("MPI_Cart_create", OTHER, 43), ("MPI_Cart_sub", OTHER, 49),
];

/// Type and value of a function of MPI; `None` if Extrae has none that is known here.
pub(crate) fn call(name: &str) -> Option<(u32, u64)> {
    let mut all = CALLS.iter();
    all.find(|(known, ..)| *known == name)
        .map(|&(_, kind, value)| (kind, value))
}

/// The function with this type and value.
pub(crate) fn call_name(kind: u32, value: u64) -> Option<&'static str> {
    let mut all = CALLS.iter();
    all.find(|&&(_, k, v)| (k, v) == (kind, value))
        .map(|&(name, ..)| name)
}

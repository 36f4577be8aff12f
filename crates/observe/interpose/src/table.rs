//! The MPI functions that the preloaded library wraps, and how it treats each of them.
//!
//! One row per function of C: its name without `MPI_`, its class, whether MPI 4 has a large-count
//! variant (`_c`), how it is followed, and the number of its arguments in C. Sources: MPI 3.1 and
//! MPI 4.1, appendix A.2. The build script, the preloaded library and the reader are all compiled
//! from this file; it uses only the standard library.

/// Classes of functions; the numbers are those of `idlewave_run::tables::OperationClass`, where
/// they are described.
#[allow(missing_docs)]
pub mod class {
    pub const OTHER: u8 = 0;
    pub const SEND: u8 = 1;
    pub const RECEIVE: u8 = 2;
    pub const SEND_RECEIVE: u8 = 3;
    pub const COMPLETE: u8 = 4;
    pub const ALL_TO_ALL: u8 = 5;
    pub const FROM_ROOT: u8 = 6;
    pub const TO_ROOT: u8 = 7;
    pub const PREFIX: u8 = 8;
    pub const START_COLLECTIVE: u8 = 9;
    pub const COMMUNICATOR: u8 = 10;
    pub const LIFE: u8 = 11;
    pub const NEIGHBOUR: u8 = 12;
}
use class as c;

/// Shape of a collective: where its arguments are, and what its members send and get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shape {
    /// Nothing is moved.
    Barrier,
    /// The root sends `count` elements, the others get them.
    Bcast,
    /// Everybody sends `sendcount`, the root gets `recvcount` from each.
    Gather,
    /// The same with a count per member at the root.
    Gatherv,
    /// The root sends `sendcount` to each, everybody gets `recvcount`.
    Scatter,
    /// The same with a count per member at the root.
    Scatterv,
    /// Everybody sends `sendcount` and gets `recvcount` from each.
    Allgather,
    /// The same with a count per member.
    Allgatherv,
    /// Everybody sends `sendcount` to each and gets `recvcount` from each.
    Alltoall,
    /// The same with counts per member.
    Alltoallv,
    /// The same with types per member.
    Alltoallw,
    /// Everybody sends `count`, the root gets `count`.
    Reduce,
    /// Everybody sends and gets `count`.
    Allreduce,
    /// Everybody sends the sum of `recvcounts` and gets its own.
    ReduceScatter,
    /// Everybody sends `recvcount` for each and gets `recvcount`.
    ReduceScatterBlock,
    /// As allreduce.
    Scan,
    /// As allreduce; the first member gets nothing.
    Exscan,
    /// Everybody sends the same data to each neighbour and gets data from each.
    NeighborAllgather,
    /// The same with a count per neighbour.
    NeighborAllgatherv,
    /// Different data for each neighbour.
    NeighborAlltoall,
    /// The same with counts per neighbour.
    NeighborAlltoallv,
    /// The same with types per neighbour.
    NeighborAlltoallw,
}

/// How a function is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Counted by its name as a loss.
    Loss,
    /// Recorded as a call, and processes outside MPI_COMM_WORLD counted as a loss.
    Outside,
    /// MPI_Init.
    Init,
    /// MPI_Init_thread.
    InitThread,
    /// MPI_Finalize.
    Finalize,
    /// MPI_Abort.
    Abort,
    /// A blocking send; true: synchronous.
    Send(bool),
    /// A send that returns a request; true: synchronous.
    StartSend(bool),
    /// A persistent send; true: synchronous.
    InitSend(bool),
    /// MPI_Recv.
    Receive,
    /// MPI_Irecv.
    StartReceive,
    /// MPI_Recv_init.
    InitReceive,
    /// MPI_Sendrecv.
    SendReceive,
    /// MPI_Sendrecv_replace.
    SendReceiveReplace,
    /// MPI_Probe.
    Probe,
    /// MPI_Iprobe.
    Iprobe,
    /// MPI_Mprobe.
    Mprobe,
    /// MPI_Improbe.
    Improbe,
    /// MPI_Mrecv.
    Mreceive,
    /// MPI_Imrecv.
    StartMreceive,
    /// MPI_Start.
    Start,
    /// MPI_Startall.
    Startall,
    /// MPI_Wait.
    Wait,
    /// MPI_Waitall.
    Waitall,
    /// MPI_Waitany.
    Waitany,
    /// MPI_Waitsome.
    Waitsome,
    /// MPI_Test.
    Test,
    /// MPI_Testall.
    Testall,
    /// MPI_Testany.
    Testany,
    /// MPI_Testsome.
    Testsome,
    /// MPI_Request_get_status.
    GetStatus,
    /// MPI_Cancel.
    Cancel,
    /// MPI_Request_free.
    RequestFree,
    /// A blocking collective.
    Collective(Shape),
    /// A non-blocking collective.
    StartCollective(Shape),
    /// Makes a communicator out of the one in argument 0; the new one is at this argument.
    Make(u8),
    /// The same, completed by the request that is the last argument.
    StartMake(u8),
    /// MPI_Comm_create_group.
    MakeGroup,
    /// MPI_Intercomm_create.
    MakeInter,
    /// MPI_Comm_free, MPI_Comm_disconnect.
    Free,
}

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name without `MPI_`.
    pub name: &'static str,
    /// Its [`class`].
    pub class: u8,
    /// Whether there is a variant `_c`.
    pub large: bool,
    /// How it is followed.
    pub how: How,
    /// Arguments in C.
    pub arguments: u8,
}

const fn row(name: &'static str, class: u8, large: u8, how: How, arguments: u8) -> Row {
    Row {
        name,
        class,
        large: large != 0,
        how,
        arguments,
    }
}

const fn collective(name: &'static str, class: u8, shape: Shape, arguments: u8) -> Row {
    row(
        name,
        class,
        !matches!(shape, Shape::Barrier) as u8,
        How::Collective(shape),
        arguments,
    )
}

const fn start(name: &'static str, shape: Shape, arguments: u8) -> Row {
    let large = !matches!(shape, Shape::Barrier) as u8;
    row(
        name,
        c::START_COLLECTIVE,
        large,
        How::StartCollective(shape),
        arguments,
    )
}

const fn lost(name: &'static str, large: u8, arguments: u8) -> Row {
    row(name, c::OTHER, large, How::Loss, arguments)
}

use How::*;
use Shape as S;

/// All functions. The order is free: numbers in a ring are valid with the library that wrote it.
#[rustfmt::skip]
pub static TABLE: &[Row] = &[
    // Start and end
    row("Init", c::LIFE, 0, Init, 2),
    row("Init_thread", c::LIFE, 0, InitThread, 4),
    row("Finalize", c::LIFE, 0, Finalize, 0),
    row("Abort", c::LIFE, 0, Abort, 2),
    // Point to point: buffer, count, type, rank, tag, communicator, request or status
    row("Send", c::SEND, 1, Send(false), 6),
    row("Bsend", c::SEND, 1, Send(false), 6),
    row("Ssend", c::SEND, 1, Send(true), 6),
    row("Rsend", c::SEND, 1, Send(false), 6),
    row("Isend", c::SEND, 1, StartSend(false), 7),
    row("Ibsend", c::SEND, 1, StartSend(false), 7),
    row("Issend", c::SEND, 1, StartSend(true), 7),
    row("Irsend", c::SEND, 1, StartSend(false), 7),
    row("Send_init", c::OTHER, 1, InitSend(false), 7),
    row("Bsend_init", c::OTHER, 1, InitSend(false), 7),
    row("Ssend_init", c::OTHER, 1, InitSend(true), 7),
    row("Rsend_init", c::OTHER, 1, InitSend(false), 7),
    row("Recv", c::RECEIVE, 1, Receive, 7),
    row("Irecv", c::RECEIVE, 1, StartReceive, 7),
    row("Recv_init", c::OTHER, 1, InitReceive, 7),
    row("Sendrecv", c::SEND_RECEIVE, 1, SendReceive, 12),
    row("Sendrecv_replace", c::SEND_RECEIVE, 1, SendReceiveReplace, 9),
    row("Probe", c::COMPLETE, 0, Probe, 4),
    row("Iprobe", c::COMPLETE, 0, Iprobe, 5),
    row("Mprobe", c::COMPLETE, 0, Mprobe, 5),
    row("Improbe", c::COMPLETE, 0, Improbe, 6),
    row("Mrecv", c::RECEIVE, 1, Mreceive, 5),
    row("Imrecv", c::RECEIVE, 1, StartMreceive, 5),
    // Requests
    row("Start", c::SEND_RECEIVE, 0, Start, 1),
    row("Startall", c::SEND_RECEIVE, 0, Startall, 2),
    row("Wait", c::COMPLETE, 0, Wait, 2),
    row("Waitall", c::COMPLETE, 0, Waitall, 3),
    row("Waitany", c::COMPLETE, 0, Waitany, 4),
    row("Waitsome", c::COMPLETE, 0, Waitsome, 5),
    row("Test", c::COMPLETE, 0, Test, 3),
    row("Testall", c::COMPLETE, 0, Testall, 4),
    row("Testany", c::COMPLETE, 0, Testany, 5),
    row("Testsome", c::COMPLETE, 0, Testsome, 5),
    row("Request_get_status", c::COMPLETE, 0, GetStatus, 3),
    row("Cancel", c::OTHER, 0, Cancel, 1),
    row("Request_free", c::OTHER, 0, RequestFree, 1),
    // Collectives
    collective("Barrier", c::ALL_TO_ALL, S::Barrier, 1),
    collective("Bcast", c::FROM_ROOT, S::Bcast, 5),
    collective("Gather", c::TO_ROOT, S::Gather, 8),
    collective("Gatherv", c::TO_ROOT, S::Gatherv, 9),
    collective("Scatter", c::FROM_ROOT, S::Scatter, 8),
    collective("Scatterv", c::FROM_ROOT, S::Scatterv, 9),
    collective("Allgather", c::ALL_TO_ALL, S::Allgather, 7),
    collective("Allgatherv", c::ALL_TO_ALL, S::Allgatherv, 8),
    collective("Alltoall", c::ALL_TO_ALL, S::Alltoall, 7),
    collective("Alltoallv", c::ALL_TO_ALL, S::Alltoallv, 9),
    collective("Alltoallw", c::ALL_TO_ALL, S::Alltoallw, 9),
    collective("Reduce", c::TO_ROOT, S::Reduce, 7),
    collective("Allreduce", c::ALL_TO_ALL, S::Allreduce, 6),
    collective("Reduce_scatter", c::ALL_TO_ALL, S::ReduceScatter, 6),
    collective("Reduce_scatter_block", c::ALL_TO_ALL, S::ReduceScatterBlock, 6),
    collective("Scan", c::PREFIX, S::Scan, 6),
    collective("Exscan", c::PREFIX, S::Exscan, 6),
    collective("Neighbor_allgather", c::NEIGHBOUR, S::NeighborAllgather, 7),
    collective("Neighbor_allgatherv", c::NEIGHBOUR, S::NeighborAllgatherv, 8),
    collective("Neighbor_alltoall", c::NEIGHBOUR, S::NeighborAlltoall, 7),
    collective("Neighbor_alltoallv", c::NEIGHBOUR, S::NeighborAlltoallv, 9),
    collective("Neighbor_alltoallw", c::NEIGHBOUR, S::NeighborAlltoallw, 9),
    start("Ibarrier", S::Barrier, 2),
    start("Ibcast", S::Bcast, 6),
    start("Igather", S::Gather, 9),
    start("Igatherv", S::Gatherv, 10),
    start("Iscatter", S::Scatter, 9),
    start("Iscatterv", S::Scatterv, 10),
    start("Iallgather", S::Allgather, 8),
    start("Iallgatherv", S::Allgatherv, 9),
    start("Ialltoall", S::Alltoall, 8),
    start("Ialltoallv", S::Alltoallv, 10),
    start("Ialltoallw", S::Alltoallw, 10),
    start("Ireduce", S::Reduce, 8),
    start("Iallreduce", S::Allreduce, 7),
    start("Ireduce_scatter", S::ReduceScatter, 7),
    start("Ireduce_scatter_block", S::ReduceScatterBlock, 7),
    start("Iscan", S::Scan, 7),
    start("Iexscan", S::Exscan, 7),
    start("Ineighbor_allgather", S::NeighborAllgather, 8),
    start("Ineighbor_allgatherv", S::NeighborAllgatherv, 9),
    start("Ineighbor_alltoall", S::NeighborAlltoall, 8),
    start("Ineighbor_alltoallv", S::NeighborAlltoallv, 10),
    start("Ineighbor_alltoallw", S::NeighborAlltoallw, 10),
    // Communicators
    row("Comm_dup", c::COMMUNICATOR, 0, Make(1), 2),
    row("Comm_dup_with_info", c::COMMUNICATOR, 0, Make(2), 3),
    row("Comm_idup", c::COMMUNICATOR, 0, StartMake(1), 3),
    row("Comm_idup_with_info", c::COMMUNICATOR, 0, StartMake(2), 4),
    row("Comm_create", c::COMMUNICATOR, 0, Make(2), 3),
    row("Comm_create_group", c::COMMUNICATOR, 0, MakeGroup, 4),
    row("Comm_split", c::COMMUNICATOR, 0, Make(3), 4),
    row("Comm_split_type", c::COMMUNICATOR, 0, Make(4), 5),
    row("Cart_create", c::COMMUNICATOR, 0, Make(5), 6),
    row("Cart_sub", c::COMMUNICATOR, 0, Make(2), 3),
    row("Graph_create", c::COMMUNICATOR, 0, Make(5), 6),
    row("Dist_graph_create", c::COMMUNICATOR, 0, Make(8), 9),
    row("Dist_graph_create_adjacent", c::COMMUNICATOR, 0, Make(9), 10),
    row("Intercomm_create", c::COMMUNICATOR, 0, MakeInter, 6),
    row("Intercomm_merge", c::COMMUNICATOR, 0, Make(2), 3),
    row("Comm_free", c::COMMUNICATOR, 0, Free, 1),
    row("Comm_disconnect", c::COMMUNICATOR, 0, Free, 1),
    row("Comm_spawn", c::COMMUNICATOR, 0, Outside, 8),
    row("Comm_spawn_multiple", c::COMMUNICATOR, 0, Outside, 9),
    row("Comm_accept", c::COMMUNICATOR, 0, Outside, 5),
    row("Comm_connect", c::COMMUNICATOR, 0, Outside, 5),
    row("Comm_join", c::COMMUNICATOR, 0, Outside, 2),
    // Not followed: sessions
    lost("Session_init", 0, 3),
    lost("Session_finalize", 0, 1),
    lost("Comm_create_from_group", 0, 5),
    lost("Intercomm_create_from_groups", 0, 8),
    // Not followed: send and receive in one request
    lost("Isendrecv", 1, 12),
    lost("Isendrecv_replace", 1, 9),
    // Not followed: partitioned
    lost("Psend_init", 0, 9),
    lost("Precv_init", 0, 9),
    lost("Pready", 0, 2),
    lost("Pready_range", 0, 3),
    lost("Pready_list", 0, 3),
    // Not followed: persistent collectives
    lost("Barrier_init", 0, 3),
    lost("Bcast_init", 1, 7),
    lost("Gather_init", 1, 10),
    lost("Gatherv_init", 1, 11),
    lost("Scatter_init", 1, 10),
    lost("Scatterv_init", 1, 11),
    lost("Allgather_init", 1, 9),
    lost("Allgatherv_init", 1, 10),
    lost("Alltoall_init", 1, 9),
    lost("Alltoallv_init", 1, 11),
    lost("Alltoallw_init", 1, 11),
    lost("Reduce_init", 1, 9),
    lost("Allreduce_init", 1, 8),
    lost("Reduce_scatter_init", 1, 8),
    lost("Reduce_scatter_block_init", 1, 8),
    lost("Scan_init", 1, 8),
    lost("Exscan_init", 1, 8),
    lost("Neighbor_allgather_init", 1, 9),
    lost("Neighbor_allgatherv_init", 1, 10),
    lost("Neighbor_alltoall_init", 1, 9),
    lost("Neighbor_alltoallv_init", 1, 11),
    lost("Neighbor_alltoallw_init", 1, 11),
    // Not followed: several requests asked for at once (MPI 4.1), generalised requests
    lost("Request_get_status_all", 0, 4),
    lost("Request_get_status_any", 0, 5),
    lost("Request_get_status_some", 0, 5),
    lost("Grequest_start", 0, 5),
    // Not followed: one-sided
    lost("Put", 1, 8),
    lost("Get", 1, 8),
    lost("Accumulate", 1, 9),
    lost("Get_accumulate", 1, 12),
    lost("Fetch_and_op", 0, 7),
    lost("Compare_and_swap", 0, 7),
    lost("Rput", 1, 9),
    lost("Rget", 1, 9),
    lost("Raccumulate", 1, 10),
    lost("Rget_accumulate", 1, 13),
    lost("Win_fence", 0, 2),
    lost("Win_start", 0, 3),
    lost("Win_complete", 0, 1),
    lost("Win_post", 0, 3),
    lost("Win_wait", 0, 1),
    lost("Win_test", 0, 2),
    lost("Win_lock", 0, 4),
    lost("Win_unlock", 0, 2),
    lost("Win_lock_all", 0, 2),
    lost("Win_unlock_all", 0, 1),
    lost("Win_flush", 0, 2),
    lost("Win_flush_all", 0, 1),
    lost("Win_flush_local", 0, 2),
    lost("Win_flush_local_all", 0, 1),
    // Not followed: files
    lost("File_open", 0, 5),
    lost("File_close", 0, 1),
    lost("File_sync", 0, 1),
    lost("File_set_view", 0, 6),
    lost("File_set_size", 0, 2),
    lost("File_read", 1, 5),
    lost("File_read_all", 1, 5),
    lost("File_read_at", 1, 6),
    lost("File_read_at_all", 1, 6),
    lost("File_read_shared", 1, 5),
    lost("File_read_ordered", 1, 5),
    lost("File_write", 1, 5),
    lost("File_write_all", 1, 5),
    lost("File_write_at", 1, 6),
    lost("File_write_at_all", 1, 6),
    lost("File_write_shared", 1, 5),
    lost("File_write_ordered", 1, 5),
    lost("File_iread", 1, 5),
    lost("File_iread_all", 1, 5),
    lost("File_iread_at", 1, 6),
    lost("File_iread_at_all", 1, 6),
    lost("File_iread_shared", 1, 5),
    lost("File_iwrite", 1, 5),
    lost("File_iwrite_all", 1, 5),
    lost("File_iwrite_at", 1, 6),
    lost("File_iwrite_at_all", 1, 6),
    lost("File_iwrite_shared", 1, 5),
    lost("File_read_all_begin", 1, 4),
    lost("File_read_all_end", 0, 3),
    lost("File_read_at_all_begin", 1, 5),
    lost("File_read_at_all_end", 0, 3),
    lost("File_read_ordered_begin", 1, 4),
    lost("File_read_ordered_end", 0, 3),
    lost("File_write_all_begin", 1, 4),
    lost("File_write_all_end", 0, 3),
    lost("File_write_at_all_begin", 1, 5),
    lost("File_write_at_all_end", 0, 3),
    lost("File_write_ordered_begin", 1, 4),
    lost("File_write_ordered_end", 0, 3),
];

//! What a recorded MPI program called and sent: by function and communicator, and between ranks.
//!
//! Bytes of point-to-point messages are those of the sends. For a collective, only what each member
//! gave and received is recorded, not the way through the others: what the root sends or receives
//! counts between the root and the member; what a member receives from a collective without a root
//! is divided evenly among all members, itself included.

use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use crate::ExplainError;
use crate::program::is_of_mpi;
use idlewave_run::RunReader;
use idlewave_run::findings::{Findings, WaitClass};
use idlewave_run::tables::{
    Call, Calls, Communicators, Direction, OperationClass, Operations, Table, Transfers,
};
use idlewave_units::{Bytes, Nanos, NodeId, Pid, Rank};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of ranks for a matrix of collectives, which has a cell for every pair.
const MATRIX_RANKS: usize = 512;
/// Maximum number of uncompleted transfers that are listed.
const OPEN_LISTED: usize = 20;

/// What a recorded MPI program called and sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mpi {
    /// Ranks of the run.
    pub ranks: u32,
    /// By function and communicator, most time first.
    pub calls: Vec<CallRow>,
    /// By communicator.
    pub communicators: Vec<CommunicatorRow>,
    /// Messages between ranks, in order of sender and receiver.
    pub point_to_point: Vec<Traffic>,
    /// Bytes of collectives between ranks, in order of sender and receiver; `None` with more than
    /// 512 ranks.
    pub collective: Option<Vec<Traffic>>,
    /// Waits by kind, most time first, of the whole run.
    pub waits: Vec<WaitClass>,
    /// Ranks that never entered MPI_Finalize, with their last recorded call.
    pub unfinished: Vec<UnfinishedRank>,
    /// Sends and receives that no call completed.
    pub open: u64,
    /// The first of them.
    pub open_transfers: Vec<OpenTransfer>,
}

/// Calls of one function in one communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRow {
    /// Name in C.
    pub function: String,
    /// The communicator; `None` if the call has none.
    pub communicator: Option<u32>,
    /// Time in the calls, all ranks together.
    pub calls: LengthSummary,
    /// Bytes given to collectives.
    pub sent: Bytes,
    /// Bytes received from collectives.
    pub received: Bytes,
}

/// What went through one communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommunicatorRow {
    /// Its number; 0 is MPI_COMM_WORLD.
    pub communicator: u32,
    /// Members.
    pub members: u32,
    /// Calls of all members.
    pub calls: u64,
    /// Time in them.
    pub time: Nanos,
    /// Point-to-point messages sent.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: Bytes,
    /// Bytes given to collectives.
    pub collective_bytes: Bytes,
}

/// What one rank sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Sender.
    pub from: Rank,
    /// Receiver.
    pub to: Rank,
    /// Messages; 0 for collectives, whose messages are not recorded.
    pub messages: u64,
    /// Bytes.
    pub bytes: f64,
}

/// A rank that never entered MPI_Finalize.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnfinishedRank {
    /// The rank.
    pub rank: Rank,
    /// The last call that it left.
    pub last: String,
    /// When it left that call, after the start of the run.
    pub left: Nanos,
}

/// A send or receive that no call completed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenTransfer {
    /// The rank that started it.
    pub rank: Rank,
    /// Whether it is a receive.
    pub receives: bool,
    /// The other rank, if it is known.
    pub peer: Option<Rank>,
    /// The communicator.
    pub communicator: u32,
    /// Tag.
    pub tag: i32,
    /// When it was started, after the start of the run.
    pub posted: Nanos,
}

#[derive(Debug, Default)]
struct Function {
    calls: Lengths,
    sent: u64,
    received: u64,
}

/// Sums of one pass.
#[derive(Default)]
struct Sums {
    functions: BTreeMap<(u32, Option<u32>), Function>,
    /// Bytes of rooted collectives.
    rooted: BTreeMap<(Rank, Rank), u64>,
    /// Bytes that a member received from collectives without a root.
    even: BTreeMap<(u32, Rank), u64>,
    /// Last call of every rank: end and operation; and whether it finalized.
    last: BTreeMap<Rank, (u64, u32, bool)>,
}

/// Name and class of every function.
type OperationsById = BTreeMap<u32, (String, OperationClass)>;

/// The view; everything empty if the run recorded no MPI program.
pub fn mpi(
    run: &RunReader,
    findings: &Findings,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Mpi, ExplainError> {
    let manifest = run.manifest();
    let mut operations = OperationsById::new();
    run.for_each::<Operations>(|o| {
        operations.insert(o.id, (o.name, o.class));
    })?;
    let mut members: BTreeMap<u32, Vec<Rank>> = BTreeMap::new();
    run.for_each::<Communicators>(|c| members.entry(c.comm).or_default().push(c.rank))?;
    let nodes: BTreeMap<Rank, NodeId> = manifest.ranks.iter().map(|r| (r.rank, r.node)).collect();
    let asked = |rank: Rank, thread: Pid| {
        let node = nodes.get(&rank).copied().unwrap_or(NodeId::new(0));
        scope.has_thread(node, thread)
    };
    let sums = sum_calls(run, scope, &asked, &operations, stop)?;
    let sent = sum_transfers(run, scope, &asked)?;

    let name = |id: u32| {
        let found = operations.get(&id);
        found.map_or_else(|| format!("operation {id}"), |o| o.0.clone())
    };
    // Other libraries have no finalizing call.
    let of_mpi = operations.values().any(|o| is_of_mpi(&o.0));
    let unfinished = sums.last.iter().filter(|(_, last)| of_mpi && !last.2);
    let unfinished = unfinished
        .map(|(&rank, &(left, operation, _))| UnfinishedRank {
            rank,
            last: name(operation),
            left: after(scope, left),
        })
        .collect();
    Ok(Mpi {
        ranks: manifest.ranks.len() as u32,
        communicators: communicators(&sums, &members, &sent.by_comm),
        collective: collective(&sums, &members, manifest.ranks.len()),
        calls: call_rows(&sums, &name),
        point_to_point: sent
            .by_pair
            .into_iter()
            .map(|((from, to), (messages, bytes))| Traffic {
                from,
                to,
                messages,
                bytes: bytes as f64,
            })
            .collect(),
        waits: findings
            .program
            .as_ref()
            .map_or_else(Vec::new, |p| p.waits.clone()),
        unfinished,
        open: sent.open,
        open_transfers: sent.open_transfers,
    })
}

/// Sums up the calls of the requested threads.
fn sum_calls(
    run: &RunReader,
    scope: &Scope,
    asked: &dyn Fn(Rank, Pid) -> bool,
    operations: &OperationsById,
    stop: &AtomicBool,
) -> Result<Sums, ExplainError> {
    let mut sums = Sums::default();
    let mut reader = run.table_if_present::<Calls>()?;
    let mut batch = Calls::default();
    while let Some(reader) = &mut reader {
        if stop.load(Ordering::Relaxed) {
            return Err(ExplainError::Interrupted);
        }
        if !reader.next_into(&mut batch)? {
            break;
        }
        for call in batch.rows() {
            let class = operations.get(&call.operation);
            let finalizes = class.is_some_and(|o| o.0 == "MPI_Finalize");
            if asked(call.rank, call.thread) {
                let last = sums.last.entry(call.rank).or_default();
                let finalized = last.2 || finalizes;
                *last = match call.end_ns >= last.0 {
                    true => (call.end_ns, call.operation, finalized),
                    false => (last.0, last.1, finalized),
                };
                if scope.has_time(call.begin_ns) {
                    let class = class.map_or(OperationClass::Other, |o| o.1);
                    add(&mut sums, &call, class);
                }
            }
        }
        batch.clear();
    }
    Ok(sums)
}

/// Messages and bytes.
type Volume = (u64, u64);

/// The transfers of the requested threads.
#[derive(Default)]
struct Sent {
    by_pair: BTreeMap<(Rank, Rank), Volume>,
    by_comm: BTreeMap<u32, Volume>,
    /// Transfers that never ended.
    open: u64,
    /// The first of them.
    open_transfers: Vec<OpenTransfer>,
}

fn sum_transfers(
    run: &RunReader,
    scope: &Scope,
    asked: &dyn Fn(Rank, Pid) -> bool,
) -> Result<Sent, ExplainError> {
    let mut out = Sent::default();
    run.for_each::<Transfers>(|t| {
        if !asked(t.rank, t.thread) || !scope.has_time(t.posted_ns) {
            return;
        }
        if t.completed_ns.is_none() {
            out.open += 1;
            if out.open_transfers.len() < OPEN_LISTED {
                out.open_transfers.push(OpenTransfer {
                    rank: t.rank,
                    receives: t.direction == Direction::Receive,
                    peer: t.peer,
                    communicator: t.comm,
                    tag: t.tag,
                    posted: after(scope, t.posted_ns),
                });
            }
        }
        if let (Direction::Send, Some(peer)) = (t.direction, t.peer) {
            let bytes = t.bytes.map_or(0, Bytes::get);
            let cell = out.by_pair.entry((t.rank, peer)).or_default();
            *cell = (cell.0 + 1, cell.1 + bytes);
            let cell = out.by_comm.entry(t.comm).or_default();
            *cell = (cell.0 + 1, cell.1 + bytes);
        }
    })?;
    Ok(out)
}

/// Time since the start of the run.
fn after(scope: &Scope, time: u64) -> Nanos {
    Nanos::from_nanos(time.saturating_sub(scope.start))
}

fn add(sums: &mut Sums, call: &Call, class: OperationClass) {
    let function = sums
        .functions
        .entry((call.operation, call.comm))
        .or_default();
    function
        .calls
        .add(call.end_ns.saturating_sub(call.begin_ns));
    let (sent, received) = (
        call.sent.map_or(0, Bytes::get),
        call.received.map_or(0, Bytes::get),
    );
    function.sent += sent;
    function.received += received;
    let Some(comm) = call.comm.filter(|_| call.sequence.is_some()) else {
        return;
    };
    match call.root {
        Some(root) if root != call.rank => {
            // A non-blocking collective does not say which way it goes; one of the two is empty.
            if class != OperationClass::ToRoot && received > 0 {
                *sums.rooted.entry((root, call.rank)).or_default() += received;
            }
            if class != OperationClass::FromRoot && sent > 0 {
                *sums.rooted.entry((call.rank, root)).or_default() += sent;
            }
        }
        Some(_) => {}
        None if received > 0 => *sums.even.entry((comm, call.rank)).or_default() += received,
        None => {}
    }
}

fn call_rows(sums: &Sums, name: &dyn Fn(u32) -> String) -> Vec<CallRow> {
    let functions = sums.functions.iter();
    let mut rows: Vec<CallRow> = functions
        .map(|(&(operation, communicator), f)| CallRow {
            function: name(operation),
            communicator,
            calls: f.calls.summary(),
            sent: Bytes::new(f.sent),
            received: Bytes::new(f.received),
        })
        .collect();
    rows.sort_by(|a, b| {
        let key = |r: &CallRow| (Reverse(r.calls.total), r.communicator);
        key(a)
            .cmp(&key(b))
            .then_with(|| a.function.cmp(&b.function))
    });
    rows
}

fn communicators(
    sums: &Sums,
    members: &BTreeMap<u32, Vec<Rank>>,
    sent: &BTreeMap<u32, (u64, u64)>,
) -> Vec<CommunicatorRow> {
    let row = |(&communicator, members): (&u32, &Vec<Rank>)| {
        let of = |key: &(u32, Option<u32>)| key.1 == Some(communicator);
        let functions = sums.functions.iter().filter(|(key, _)| of(key));
        let (calls, time, given) = functions.fold((0, 0, 0), |all, (_, f)| {
            (
                all.0 + f.calls.count(),
                all.1 + f.calls.total(),
                all.2 + f.sent,
            )
        });
        let (messages, bytes) = sent.get(&communicator).copied().unwrap_or_default();
        CommunicatorRow {
            communicator,
            members: members.len() as u32,
            calls,
            time: Nanos::from_nanos(time),
            messages,
            message_bytes: Bytes::new(bytes),
            collective_bytes: Bytes::new(given),
        }
    };
    let rows = members.iter().map(row);
    rows.filter(|r| r.calls > 0 || r.messages > 0).collect()
}

fn collective(
    sums: &Sums,
    members: &BTreeMap<u32, Vec<Rank>>,
    ranks: usize,
) -> Option<Vec<Traffic>> {
    if ranks > MATRIX_RANKS {
        return None;
    }
    let mut cells: BTreeMap<(Rank, Rank), f64> = BTreeMap::new();
    for (&pair, &bytes) in &sums.rooted {
        *cells.entry(pair).or_default() += bytes as f64;
    }
    for (&(comm, to), &bytes) in &sums.even {
        let all = members.get(&comm).map_or(&[][..], Vec::as_slice);
        for &from in all {
            *cells.entry((from, to)).or_default() += bytes as f64 / all.len() as f64;
        }
    }
    let cells = cells.into_iter();
    let traffic = |((from, to), bytes)| Traffic {
        from,
        to,
        messages: 0,
        bytes,
    };
    Some(cells.map(traffic).collect())
}

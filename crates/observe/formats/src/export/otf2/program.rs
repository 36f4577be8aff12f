//! What the program did: steps, calls of MPI, messages and marks, as records.

use super::gathered::Gathered;
use super::record::{CALL, Record, class, kind};
use super::regions::RegionKind;
use crate::export::kernel::Stream;
use crate::export::names::Names;
use crate::export::view;
use crate::export::{ExportError, Job};
use crate::otf2;
use idlewave_run::Table;
use idlewave_run::tables::*;
use idlewave_units::{Bytes, Rank};
use std::collections::HashMap;

/// Collectives that OTF2 has a number for (OTF2_CollectiveOp).
const COLLECTIVES: [(&str, u32); 17] = [
    ("MPI_Barrier", 0),
    ("MPI_Bcast", 1),
    ("MPI_Gather", 2),
    ("MPI_Gatherv", 3),
    ("MPI_Scatter", 4),
    ("MPI_Scatterv", 5),
    ("MPI_Allgather", 6),
    ("MPI_Allgatherv", 7),
    ("MPI_Alltoall", 8),
    ("MPI_Alltoallv", 9),
    ("MPI_Alltoallw", 10),
    ("MPI_Allreduce", 11),
    ("MPI_Reduce", 12),
    ("MPI_Reduce_scatter", 13),
    ("MPI_Scan", 14),
    ("MPI_Exscan", 15),
    ("MPI_Reduce_scatter_block", 16),
];

/// What was left out.
#[derive(Default)]
struct Lost {
    /// Rows of ranks that the run does not list.
    unknown: u64,
    collectives: u64,
    unlisted: u64,
    nonblocking: u64,
    comms: u64,
    iterations: u64,
    peers: u64,
    freed: u64,
}

pub(super) fn gather(job: &Job<'_>, names: &Names, to: &mut Gathered) -> Result<(), ExportError> {
    let mut lost = Lost::default();
    steps(job, to, &mut lost)?;
    calls(job, names, to, &mut lost)?;
    messages(job, to, &mut lost)?;
    marks(job, to, &mut lost)?;
    let csv = "export to csv";
    let without = "the archive has the calls without root, bytes and communicator";
    for (what, count, consequence, advice) in [
        (
            "rows of ranks that the run does not list",
            lost.unknown,
            "the archive lacks them",
            csv,
        ),
        (
            "collectives that OTF2 has no number for",
            lost.collectives,
            without,
            csv,
        ),
        (
            "collectives whose communicator has no list of members",
            lost.unlisted,
            without,
            csv,
        ),
        (
            "ends of collectives that do not block",
            lost.nonblocking,
            "the archive has their starts: the run does not say when they ended",
            "none",
        ),
        (
            "communicators of calls that neither communicate nor wait",
            lost.comms,
            "the archive has the calls without them",
            "export to csv: column `comm` of table `calls`",
        ),
        (
            "numbers of iterations, and bytes of their parts",
            lost.iterations,
            "the archive has the parts of steps by name",
            "export to csv: table `regions`",
        ),
        (
            "messages whose other rank is not known",
            lost.peers,
            "the archive lacks the sends, and the ends of the receives",
            "export to csv: table `transfers`",
        ),
        (
            "messages without an end",
            lost.freed,
            "the archive has their starts only",
            "none: the program freed their requests, or ended first",
        ),
    ] {
        to.losses.enter(what, count, consequence, advice);
    }
    Ok(())
}

/// Calls `visit` with every row of a table; stops if the user asked to.
fn each<T: Table>(
    job: &Job<'_>,
    mut visit: impl FnMut(T::Row) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    for (number, row) in (0_u64..).zip(Stream::<T>::of(job.run)?) {
        if number % 4096 == 0 {
            job.go_on()?;
        }
        visit(row?)?;
    }
    Ok(())
}

fn steps(job: &Job<'_>, to: &mut Gathered, lost: &mut Lost) -> Result<(), ExportError> {
    each::<Regions>(job, |row| {
        let Some(object) = to.survey.first(row.rank) else {
            lost.unknown += 1;
            return Ok(());
        };
        lost.iterations += 1;
        let region = to.regions.id(view::region(row.kind), RegionKind::Marked);
        let both = Record::region(object, region, row.begin_ns, row.end_ns);
        both.into_iter()
            .try_for_each(|record| to.records.push(record))
    })
}

fn calls(
    job: &Job<'_>,
    names: &Names,
    to: &mut Gathered,
    lost: &mut Lost,
) -> Result<(), ExportError> {
    let classes = job.run.read::<Operations>()?.class;
    each::<Calls>(job, |row| {
        let Some(object) = to.survey.of_rank(row.rank, row.thread) else {
            lost.unknown += 1;
            return Ok(());
        };
        let name = names.operation(row.operation);
        let known = classes.get(row.operation as usize).copied();
        let class = known.unwrap_or(OperationClass::Other);
        let region = to.regions.id(name, RegionKind::Mpi(class));
        let [enter, leave] = Record::region(object, region, row.begin_ns, row.end_ns);
        to.records.push(Record { tag: CALL, ..enter })?;
        let within = Within::of(&enter, &leave);
        if row.sequence.is_some() {
            let comms = &to.comms.members;
            let listed = row.comm.is_some_and(|comm| comms.contains_key(&comm));
            match collective(&row, name, to).filter(|_| listed) {
                Some(end) => {
                    to.records.push(within.start(kind::COLLECTIVE_BEGIN))?;
                    let at = within.end(kind::COLLECTIVE_END);
                    to.records.push(Record {
                        time: at.time,
                        class: at.class,
                        ..end
                    })?;
                }
                None if class == OperationClass::StartCollective => {}
                None if !listed => lost.unlisted += 1,
                None => lost.collectives += 1,
            }
        } else {
            let silent = !matches!(
                class,
                OperationClass::Send | OperationClass::Receive | OperationClass::SendReceive
            );
            lost.comms += u64::from(silent && row.comm.is_some());
        }
        let starts = matches!(
            class,
            OperationClass::StartCollective | OperationClass::Communicator
        );
        if let Some(request) = row.request.filter(|_| starts) {
            lost.nonblocking += 1;
            // Request numbers of messages are even.
            to.records.push(Record {
                request: request << 1 | 1,
                ..within.start(kind::COLLECTIVE_REQUEST)
            })?;
        }
        to.records.push(leave)
    })
}

/// Start and end of a call, as templates for the records that belong to it.
struct Within {
    start: Record,
    end: Record,
}

impl Within {
    fn of(enter: &Record, leave: &Record) -> Self {
        let class = |class, record: &Record| match record.class {
            class::AT_ONCE => class::AT_ONCE,
            _ => class,
        };
        let object = enter.object;
        Self {
            start: Record::new(object, enter.time, class(class::STARTS, enter), 0),
            end: Record::new(object, leave.time, class(class::COMPLETES, leave), 0),
        }
    }

    fn start(&self, kind: u32) -> Record {
        Record { kind, ..self.start }
    }

    fn end(&self, kind: u32) -> Record {
        Record { kind, ..self.end }
    }
}

/// The end of a blocking collective, without its time.
fn collective(row: &Call, name: &str, to: &Gathered) -> Option<Record> {
    let name = name.strip_suffix("_c").unwrap_or(name);
    let known = COLLECTIVES.iter().find(|(known, _)| *known == name);
    let (comm, &(_, operation)) = (row.comm?, known?);
    let root = row.root.and_then(|root| to.comms.place(comm, root));
    let object = to.survey.of_rank(row.rank, row.thread)?;
    Some(Record {
        what: root.unwrap_or(otf2::NONE),
        comm,
        tag: operation,
        bytes: row.sent.map_or(0, Bytes::get),
        request: row.received.map_or(0, Bytes::get),
        ..Record::new(object, 0, 0, kind::COLLECTIVE_END)
    })
}

fn messages(job: &Job<'_>, to: &mut Gathered, lost: &mut Lost) -> Result<(), ExportError> {
    let mut requests: HashMap<Rank, u64> = HashMap::new();
    each::<Transfers>(job, |row| {
        let Some(object) = to.survey.of_rank(row.rank, row.thread) else {
            lost.unknown += 1;
            return Ok(());
        };
        let peer = row.peer.and_then(|peer| to.comms.place(row.comm, peer));
        let sends = row.direction == Direction::Send;
        let ended = row.completed_ns.is_some();
        lost.peers += u64::from(peer.is_none() && (sends || ended));
        if sends && peer.is_none() {
            return Ok(());
        }
        lost.freed += u64::from(!ended);
        let next = requests.entry(row.rank).or_insert(0);
        *next += 1;
        let message = |time, class, kind| Record {
            what: peer.unwrap_or(otf2::NONE),
            comm: row.comm,
            tag: row.tag as u32,
            bytes: row.bytes.map_or(0, Bytes::get),
            request: 2 * *next,
            ..Record::new(object, time, class, kind)
        };
        let completed = row.completed_ns.filter(|_| peer.is_some());
        match (sends, completed) {
            // One call starts and completes it.
            (true, Some(_)) if row.wait_ns == Some(row.posted_ns) => {
                to.records
                    .push(message(row.posted_ns, class::STARTS, kind::SEND))
            }
            (false, Some(time)) if row.wait_ns == Some(row.posted_ns) => {
                to.records.push(message(time, class::COMPLETES, kind::RECV))
            }
            (true, completed) => {
                to.records
                    .push(message(row.posted_ns, class::STARTS, kind::ISEND))?;
                completed.map_or(Ok(()), |time| {
                    to.records
                        .push(message(time, class::COMPLETES, kind::ISEND_COMPLETE))
                })
            }
            (false, completed) => {
                let posted = message(row.posted_ns, class::STARTS, kind::IRECV_REQUEST);
                to.records.push(posted)?;
                completed.map_or(Ok(()), |time| {
                    to.records
                        .push(message(time, class::COMPLETES, kind::IRECV))
                })
            }
        }
    })
}

fn marks(job: &Job<'_>, to: &mut Gathered, lost: &mut Lost) -> Result<(), ExportError> {
    each::<Marks>(job, |row| {
        let thread = to.survey.object(row.node, row.thread);
        let rank = || row.rank.and_then(|rank| to.survey.first(rank));
        let Some(object) = thread.or_else(rank) else {
            lost.unknown += 1;
            return Ok(());
        };
        let region = to.regions.id(&row.name, RegionKind::Marked);
        let end = row.end_ns.unwrap_or(u64::MAX);
        let [enter, leave] = Record::region(object, region, row.begin_ns, end);
        to.records.push(enter)?;
        match row.end_ns {
            Some(_) => to.records.push(leave),
            None => Ok(()),
        }
    })
}

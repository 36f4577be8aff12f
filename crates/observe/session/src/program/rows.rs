//! Turns the records of rings into rows of tables.

use super::clocks::ClockExchange;
use super::communicators::Book;
use super::join::{Completion, Join};
use super::marks::{Marks, Stretch};
use super::state::ProgramRing;
use idlewave_clock::Calibration;
use idlewave_interpose::ring::{ANY_TAG, WORDS, flags};
use idlewave_interpose::{Loss, Record, decode};
use idlewave_run::tables::{
    Call, Calls, Direction, Mark, Marks as MarkTable, Operation, OperationClass, Operations, Table,
    Transfer, Transfers,
};
use idlewave_run::{RunError, RunWriter, TableWriter};
use idlewave_units::{Bytes, NodeId, Pid, Rank};
use std::collections::{BTreeMap, HashMap};

const NODE: NodeId = NodeId::new(0);

/// The tables of a recorded program under construction.
pub(super) struct Rows<'a> {
    calibration: &'a Calibration,
    /// Whether counts can be converted to times.
    counts: bool,
    calls: TableWriter<Calls>,
    transfers: TableWriter<Transfers>,
    marks: TableWriter<MarkTable>,
    pub communicators: Book,
    operations: Operations,
    /// The row of `operations` for each function number.
    numbers: HashMap<u16, u32>,
    joins: BTreeMap<Pid, Join>,
    pub seen: SeenInRecords,
}

/// What the records showed besides rows.
#[derive(Debug, Default)]
pub(super) struct SeenInRecords {
    /// When the first MPI_Init returned.
    pub first_init_ns: Option<u64>,
    /// The latest time of any record.
    pub last_ns: u64,
    pub calls: u64,
    pub exchanges: Vec<ClockExchange>,
    /// Calls that returned an error, by function.
    pub failed: BTreeMap<u16, u64>,
    /// Named by [`loss_name`].
    pub losses: BTreeMap<[String; 3], u64>,
    pub unpaired_marks: u64,
    /// Calls and messages of processes that are not ranks.
    pub no_rank: u64,
    /// Records of an unknown kind, or with an unknown clock.
    pub unknown: u64,
    pub bytes_unknown: u64,
    pub cancelled: u64,
    pub freed: u64,
    pub early: u64,
}

/// State kept for one ring.
#[derive(Default)]
pub(super) struct Thread {
    /// Start and end of the last call.
    last: (u64, u64),
    marks: Marks,
}

impl<'a> Rows<'a> {
    pub fn new(out: &RunWriter, calibration: &'a Calibration) -> Result<Self, RunError> {
        Ok(Self {
            calibration,
            counts: calibration.pairs().iter().any(|p| p.counts != p.ns),
            calls: out.table()?,
            transfers: out.table()?,
            marks: out.table()?,
            communicators: Book::new(out.table()?),
            operations: Operations::default(),
            numbers: HashMap::new(),
            joins: BTreeMap::new(),
            seen: SeenInRecords::default(),
        })
    }

    /// Adds records of a ring, in order. `rank` is that of its process.
    pub fn add(
        &mut self,
        ring: &ProgramRing,
        rank: Option<Rank>,
        thread: &mut Thread,
        words: &[u64],
    ) -> Result<(), RunError> {
        if !ring.monotonic && !self.counts {
            self.seen.unknown += (words.len() / WORDS) as u64;
            return Ok(());
        }
        for record in words.chunks_exact(WORDS) {
            let Ok(record) = <&[u64; WORDS]>::try_from(record) else {
                continue;
            };
            self.record(ring, rank, thread, record)?;
        }
        if let Some(join) = self.joins.get_mut(&ring.process) {
            let transfers = &mut self.transfers;
            join.flush(|row| transfers.push(row))?;
        }
        Ok(())
    }

    fn ns(&mut self, ring: &ProgramRing, time: u64) -> u64 {
        let ns = if ring.monotonic {
            time
        } else {
            self.calibration.to_ns(time)
        };
        self.seen.last_ns = self.seen.last_ns.max(ns);
        ns
    }

    fn record(
        &mut self,
        ring: &ProgramRing,
        rank: Option<Rank>,
        thread: &mut Thread,
        record: &[u64; WORDS],
    ) -> Result<(), RunError> {
        let Ok(record) = decode(record) else {
            self.seen.unknown += 1;
            return Ok(());
        };
        match (record, rank) {
            (Record::MarkName { number, name }, _) => thread.marks.name(number, name),
            (Record::Mark { what, time, number }, _) => {
                if let Some(stretch) = thread.marks.add(what, number, time) {
                    self.mark(ring, rank, &stretch)?;
                }
            }
            (Record::Loss { reason, many }, _) => {
                let count = self.seen.losses.entry(loss_name(reason)).or_default();
                *count = count.saturating_add(many);
            }
            (Record::Polls { .. }, _) => {}
            (Record::Call { .. } | Record::Transfer { .. }, None) => self.seen.no_rank += 1,
            (_, None) => {}
            (record, Some(rank)) => self.of_rank(ring, rank, thread, record)?,
        }
        Ok(())
    }

    fn of_rank(
        &mut self,
        ring: &ProgramRing,
        rank: Rank,
        thread: &mut Thread,
        record: Record,
    ) -> Result<(), RunError> {
        match record {
            Record::Members {
                communicator,
                total,
                first,
                ranks,
                ..
            } => {
                return self
                    .communicators
                    .members(communicator, total, first, &ranks);
            }
            Record::Completion {
                begin,
                end,
                flags,
                tag,
                peer,
                bytes,
                request,
            } => {
                let end = Completion {
                    wait_ns: self.ns(ring, begin),
                    completed_ns: self.ns(ring, end),
                    peer: peer.map(Rank::new),
                    tag,
                    bytes: self.bytes(flags, bytes),
                    cancelled: flags & flags::CANCELLED != 0,
                    freed: flags & flags::FREED != 0,
                };
                self.joins
                    .entry(ring.process)
                    .or_default()
                    .complete(request, end);
            }
            Record::Clock {
                sent,
                received,
                peer,
                theirs,
                ..
            } => {
                let exchange = ClockExchange {
                    rank,
                    peer: Rank::new(peer),
                    sent_ns: self.ns(ring, sent),
                    received_ns: self.ns(ring, received),
                    peer_ns: theirs,
                };
                self.seen.exchanges.push(exchange);
            }
            Record::Call { .. } => return self.call(ring, rank, thread, &record),
            Record::Transfer { .. } => self.transfer(ring, rank, thread, &record),
            // Handled above: they need no rank.
            Record::MarkName { .. }
            | Record::Mark { .. }
            | Record::Loss { .. }
            | Record::Polls { .. } => {}
        }
        Ok(())
    }

    /// Bytes, unless unknown.
    fn bytes(&mut self, flags: u8, bytes: u64) -> Option<Bytes> {
        let known = flags & flags::BYTES_UNKNOWN == 0;
        self.seen.bytes_unknown += u64::from(!known);
        known.then(|| Bytes::new(bytes))
    }

    fn call(
        &mut self,
        ring: &ProgramRing,
        rank: Rank,
        thread: &mut Thread,
        record: &Record,
    ) -> Result<(), RunError> {
        let Record::Call {
            begin,
            end,
            function,
            flags,
            communicator,
            sequence,
            root,
            sent,
            received,
            request,
        } = *record
        else {
            return Ok(());
        };
        let begin_ns = self.ns(ring, begin);
        let end_ns = self.ns(ring, end).max(begin_ns);
        thread.last = (begin_ns, end_ns);
        let (operation, class) = self.operation(function);
        if flags & flags::FAILED != 0 {
            *self.seen.failed.entry(function).or_default() += 1;
        }
        if class == OperationClass::Life && self.name(operation).starts_with("MPI_Init") {
            let first = self.seen.first_init_ns.get_or_insert(end_ns);
            *first = (*first).min(end_ns);
        }
        let started = starts_request(class).then_some(request).flatten();
        if let Some(request) = started.filter(|_| !is_point_to_point(class)) {
            let join = self.joins.entry(ring.process).or_default();
            join.start_other(request);
        }
        let collective = is_collective(class) && communicator.is_some();
        let (sent, received) = if collective {
            let sent = self.bytes(flags, sent);
            let known = sent.is_some();
            (sent, known.then(|| Bytes::new(received)))
        } else {
            (None, None)
        };
        let comm = communicator.map(|key| self.communicators.number(key));
        self.seen.calls += 1;
        self.calls.push(Call {
            rank,
            thread: ring.thread,
            operation,
            begin_ns,
            end_ns,
            comm,
            sequence: collective.then_some(sequence),
            root: root.map(Rank::new).filter(|_| collective),
            sent,
            received,
            request: started,
        })
    }

    fn operation(&mut self, function: u16) -> (u32, OperationClass) {
        if let Some(&id) = self.numbers.get(&function) {
            return (id, self.operations.class[id as usize]);
        }
        let id = self.operations.len() as u32;
        let known = idlewave_interpose::functions().get(usize::from(function));
        let name = known.map_or_else(|| format!("function {function}"), |k| k.name.to_owned());
        let class = known.and_then(|k| OperationClass::from_code(k.class));
        let class = class.unwrap_or(OperationClass::Other);
        self.operations.push(Operation { id, name, class });
        self.numbers.insert(function, id);
        (id, class)
    }

    fn name(&self, operation: u32) -> &str {
        &self.operations.name[operation as usize]
    }

    fn transfer(&mut self, ring: &ProgramRing, rank: Rank, thread: &Thread, record: &Record) {
        let Record::Transfer {
            send,
            posted,
            flags,
            tag,
            communicator,
            peer,
            bytes,
            request,
        } = *record
        else {
            return;
        };
        let whole = request.is_none();
        let bytes = (send || whole).then(|| self.bytes(flags, bytes)).flatten();
        let (wait_ns, completed_ns) = thread.last;
        let row = Transfer {
            rank,
            thread: ring.thread,
            direction: if send {
                Direction::Send
            } else {
                Direction::Receive
            },
            comm: self.communicators.number(communicator),
            peer: peer.map(Rank::new),
            tag: tag.unwrap_or(ANY_TAG),
            bytes,
            posted_ns: self.ns(ring, posted),
            wait_ns: whole.then_some(wait_ns),
            completed_ns: whole.then_some(completed_ns),
        };
        let join = self.joins.entry(ring.process).or_default();
        match request {
            None if flags & flags::CANCELLED != 0 => join.cancelled += 1,
            None => join.whole(row),
            Some(request) => join.start(request, row),
        }
    }

    fn mark(
        &mut self,
        ring: &ProgramRing,
        rank: Option<Rank>,
        stretch: &Stretch,
    ) -> Result<(), RunError> {
        let begin_ns = self.ns(ring, stretch.begin);
        let end_ns = stretch.end.map(|end| self.ns(ring, end));
        self.marks.push(Mark {
            rank,
            node: NODE,
            thread: ring.thread,
            name: stretch.name.clone(),
            begin_ns,
            end_ns,
        })
    }

    /// Emits what is still open and ends the tables.
    pub fn finish<'t>(
        mut self,
        threads: impl Iterator<Item = (&'t ProgramRing, Option<Rank>, &'t mut Thread)>,
        out: &mut RunWriter,
    ) -> Result<SeenInRecords, RunError> {
        for (ring, rank, thread) in threads {
            for stretch in thread.marks.finish() {
                self.mark(ring, rank, &stretch)?;
            }
            self.seen.unpaired_marks += thread.marks.unpaired;
        }
        let transfers = &mut self.transfers;
        for join in self.joins.values_mut() {
            join.finish(|row| transfers.push(row))?;
            self.seen.cancelled += join.cancelled;
            self.seen.freed += join.freed;
            self.seen.early += join.unknown;
        }
        out.finish_table(self.calls)?;
        out.finish_table(self.transfers)?;
        out.finish_table(self.communicators.into_table())?;
        out.write_table(&self.operations)?;
        out.finish_table(self.marks)?;
        self.seen.exchanges.sort_by_key(|e| (e.sent_ns, e.rank));
        Ok(self.seen)
    }
}

fn is_collective(class: OperationClass) -> bool {
    use OperationClass as Class;
    let blocking = matches!(
        class,
        Class::AllToAll | Class::FromRoot | Class::ToRoot | Class::Prefix | Class::Neighbour
    );
    blocking || class == Class::StartCollective
}

fn is_point_to_point(class: OperationClass) -> bool {
    use OperationClass as Class;
    matches!(class, Class::Send | Class::Receive | Class::SendReceive)
}

/// Whether the request of a call is one that it starts; otherwise it completes it.
fn starts_request(class: OperationClass) -> bool {
    use OperationClass as Class;
    is_point_to_point(class) || matches!(class, Class::StartCollective | Class::Communicator)
}

/// Entry of the ledger for a loss: what, consequence, advice.
pub(super) fn loss_name(reason: Loss) -> [String; 3] {
    const SEE: &str = "see docs/recording-mpi.md, \"What is missed\"";
    let (what, consequence, advice) = match reason {
        Loss::NotFollowed(function) => {
            let name = name_of(function);
            return [
                format!("calls of {name}, which is not supported"),
                "they are only counted, and their time counts as computation".to_owned(),
                SEE.to_owned(),
            ];
        }
        Loss::OutsideWorld => (
            "calls with processes outside MPI_COMM_WORLD",
            "messages with them are left out",
            "start all processes with the launcher",
        ),
        Loss::UnknownRequest => (
            "starts of unknown persistent requests",
            "their messages are missing",
            SEE,
        ),
        Loss::Mark => (
            "marks without a usable name",
            "they are left out",
            "mark with fewer than 4096 different names",
        ),
        Loss::NotInitialised => (
            "calls before MPI_Init or after MPI_Finalize",
            "they are left out",
            "nothing, if the program does this on purpose",
        ),
    };
    [what, consequence, advice].map(str::to_owned)
}

/// Name of a function by its number in records.
pub(super) fn name_of(function: u16) -> String {
    idlewave_interpose::functions()
        .get(usize::from(function))
        .map_or_else(|| format!("function {function}"), |f| f.name.to_owned())
}

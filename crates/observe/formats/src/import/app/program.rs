//! The tables of a program, and the end of its run.

use super::comms::Comms;
use super::functions::{Functions, is_collective};
use super::skew::{Shifts, Skew};
use super::threads::{Thread, ThreadId, Threads};
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::{Imported, Subject};
use crate::import::kernel::Program;
use idlewave_run::tables::{Calls, Mark, Marks, OperationClass, TaskKind, Transfer, Transfers};
use idlewave_run::{Ledger, PhaseKind, RunWriter, TableWriter, tables};
use idlewave_units::{Bytes, Nanos, NodeId, Pid, Rank};
use std::collections::{HashMap, HashSet};

/// A program whose run is being built. Memory grows with threads, functions and communicators, not
/// with calls and messages.
pub(in crate::import) struct App {
    /// The run, for tables that only some formats fill.
    pub run: RunWriter,
    pub comms: Comms,
    threads: Threads,
    functions: Functions,
    /// Collectives so far, by rank and communicator.
    sequences: HashMap<(Rank, u32), u32>,
    /// What collectives reveal about the clocks, if the reader asks for it.
    pub skew: Option<Skew>,
    calls: TableWriter<Calls>,
    transfers: TableWriter<Transfers>,
    marks: TableWriter<Marks>,
    called: u64,
    /// Ranks of the program, as far as the trace says.
    expected: u32,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::import) struct Call {
    pub operation: u32,
    pub class: OperationClass,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// The number in the run, see [`Comms::of`].
    pub comm: Option<u32>,
    pub root: Option<Rank>,
    /// Bytes given to a collective, and received from it.
    pub sent: Option<Bytes>,
    pub received: Option<Bytes>,
    /// The request that it started, numbered per rank from 0.
    pub request: Option<u64>,
}

/// What the trace says about itself, at its end.
pub(in crate::import) struct Told {
    /// The format, in words.
    pub format: &'static str,
    /// The name of the program.
    pub name: String,
    /// Records that were read.
    pub events: u64,
    /// Records that the recorder lost, by its own count.
    pub missed: Option<u64>,
    pub cpus: u32,
    pub span: Nanos,
    /// The MPI library, in words.
    pub library: Option<String>,
    pub losses: Ledger,
}

impl App {
    pub(in crate::import) fn begin(run: RunWriter) -> Result<Self, ImportError> {
        Ok(Self {
            calls: run.table()?,
            transfers: run.table()?,
            marks: run.table()?,
            run,
            comms: Comms::default(),
            threads: Threads::default(),
            functions: Functions::default(),
            sequences: HashMap::new(),
            skew: None,
            called: 0,
            expected: 0,
        })
    }

    /// Sets the program's name. A trace holds one program, so no other can be asked for.
    ///
    /// # Errors
    /// Another one was asked for.
    pub(in crate::import) fn named(
        &mut self,
        ask: &Ask<'_>,
        name: &str,
    ) -> Result<(), ImportError> {
        match ask.program {
            // So that the manifest names the program and the command reproduces the run.
            Program::Busiest => {
                let option = ["--program", name].map(str::to_owned);
                self.run.manifest.command.extend(option);
                Ok(())
            }
            Program::Named(asked) if asked == name => Ok(()),
            asked => Err(ImportError::NoProgram {
                asked: asked.to_string(),
                busiest: vec![name.to_owned()],
            }),
        }
    }

    /// A number for a thread: the given one, unless another thread of the node has it.
    pub(in crate::import) fn pid(&mut self, node: NodeId, given: Option<Pid>) -> Pid {
        self.threads.pid(node, given)
    }

    pub(in crate::import) fn add(&mut self, thread: Thread) -> ThreadId {
        self.threads.all.push(thread);
        self.threads.all.len() - 1
    }

    pub(in crate::import) fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads.all[id]
    }

    /// Calls of MPI so far.
    pub(in crate::import) fn called(&self) -> u64 {
        self.called
    }

    /// Ranks so far.
    pub(in crate::import) fn ranks(&self) -> u64 {
        let ranks: HashSet<Rank> = self.threads.all.iter().filter_map(|t| t.rank).collect();
        ranks.len() as u64
    }

    /// The row in `operations` of a function, and its class. `collective` is what the trace says.
    pub(in crate::import) fn function(
        &mut self,
        name: &str,
        collective: bool,
    ) -> (u32, OperationClass) {
        self.functions.id(name, collective)
    }

    /// The row in `operations` of a non-MPI function. `waits_for_all` is whether nobody returns
    /// from it before all have called it.
    pub(in crate::import) fn function_of_class(
        &mut self,
        name: &str,
        class: OperationClass,
        waits_for_all: bool,
    ) -> u32 {
        self.functions.id_of(name, class, waits_for_all)
    }

    /// The shifts that make the clocks agree; none if the clocks were not compared.
    pub(in crate::import) fn shifts(&mut self) -> Shifts {
        let skew = self.skew.take();
        skew.map_or_else(Shifts::default, |skew| skew.shifts())
    }

    /// Sets how many ranks the program had: those without a trace get an empty sheet.
    pub(in crate::import) fn expect_ranks(&mut self, count: u32) {
        self.expected = count;
    }

    /// Adds a call; false if the thread belongs to no rank. Collectives are numbered in the order
    /// in which they are added.
    pub(in crate::import) fn call(
        &mut self,
        thread: ThreadId,
        call: Call,
    ) -> Result<bool, ImportError> {
        let thread = &self.threads.all[thread];
        let node = thread.node;
        let Some(rank) = thread.rank else {
            return Ok(false);
        };
        let collective = is_collective(call.class);
        let sequence = call.comm.filter(|_| collective).map(|comm| {
            let next = self.sequences.entry((rank, comm)).or_insert(0);
            *next += 1;
            *next - 1
        });
        if let (Some(skew), Some(comm), Some(number)) = (&mut self.skew, call.comm, sequence) {
            if self.functions.wait_for_all(call.operation, call.sent) {
                let collective = (comm, number, call.operation);
                skew.add(collective, (rank, node), (call.begin_ns, call.end_ns));
            }
        }
        self.called += 1;
        self.calls.push(tables::Call {
            rank,
            thread: thread.pid,
            operation: call.operation,
            begin_ns: call.begin_ns,
            end_ns: call.end_ns,
            comm: call.comm,
            sequence,
            root: call.root.filter(|_| collective),
            sent: call.sent.filter(|_| collective),
            received: call.received.filter(|_| collective),
            request: call.request,
        })?;
        Ok(true)
    }

    pub(in crate::import) fn transfer(&mut self, end: Transfer) -> Result<(), ImportError> {
        self.transfers.push(end)?;
        Ok(())
    }

    /// Adds a marked region, or a point that ends where it begins.
    pub(in crate::import) fn mark(
        &mut self,
        thread: ThreadId,
        name: String,
        begin_ns: u64,
        end_ns: Option<u64>,
    ) -> Result<(), ImportError> {
        let thread = &self.threads.all[thread];
        self.marks.push(Mark {
            rank: thread.rank,
            node: thread.node,
            thread: thread.pid,
            name,
            begin_ns,
            end_ns,
        })?;
        Ok(())
    }

    /// Removes the tables of the program, so that another one can write them.
    pub(in crate::import) fn discard(self) -> Result<RunWriter, ImportError> {
        self.run.discard_table(self.marks)?;
        self.run.discard_table(self.calls)?;
        self.run.discard_table(self.transfers)?;
        Ok(self.run)
    }

    /// Writes the tables of the program and closes the run.
    pub(in crate::import) fn finish(self, told: Told) -> Result<Imported, ImportError> {
        let mut run = self.run;
        let mut losses = told.losses;
        losses.enter(
            "communicators without a list of members",
            self.comms.unlisted,
            "waits at their collectives are not explained",
            "record with `idlewave record`",
        );
        let (tasks, ranks) = self.threads.finish(self.expected);
        let communicators = self.comms.finish(ranks.iter().map(|sheet| sheet.rank));
        let is_program = |kind: &&TaskKind| matches!(kind, TaskKind::Rank | TaskKind::Program);
        let subject = Subject::Told {
            name: told.name,
            ranks: ranks.len() as u64,
            threads: tasks.kind.iter().filter(is_program).count() as u64,
        };
        run.manifest.ranks = ranks;
        run.manifest.losses = losses.clone();
        if let Some(phase) = run.manifest.phases.first_mut() {
            phase.kind = PhaseKind::Recorded {
                library: told.library,
                exit_code: None,
            };
        }
        if let Some(first) = run.manifest.nodes.first_mut() {
            first.trace.cost.events = told.events;
        }
        run.finish_table(self.marks)?;
        run.finish_table(self.calls)?;
        run.finish_table(self.transfers)?;
        run.write_table(&self.functions.rows)?;
        run.write_table(&communicators)?;
        run.write_table(&tasks)?;
        run.close(None)?;
        Ok(Imported {
            format: told.format.to_owned(),
            events: told.events,
            missed: told.missed,
            cpus: told.cpus,
            span: told.span,
            program: subject,
            losses,
            joined: None,
        })
    }
}

//! The kernel's view of the measurement: the best that this machine allows, and what it lacks.

use crate::{NewThread, SessionError};
use idlewave_capture::capabilities::capabilities;
use idlewave_capture::perf::{PerfError, SwitchRecorder};
use idlewave_capture::proc::{ProcSnapshot, tasks};
use idlewave_capture::tracefs::{TraceConfig, TraceSession};
use idlewave_clock::monotonic_ns;
use idlewave_run::tables::{Bursts, Sources, Table, Task, TaskKind, Tasks};
use idlewave_run::{
    RunError, RunWriter, TableWriter, TraceCost, TraceMode, TraceSheet, Unavailable,
};
use idlewave_units::{CpuSet, NodeId, Pid};
use idlewave_workloads::Member;
use std::collections::BTreeMap;
use std::path::Path;

const NODE: NodeId = NodeId::new(0);

fn no_syscalls(why: &str) -> Unavailable {
    Unavailable {
        what: "system calls of the ranks".to_owned(),
        why: why.to_owned(),
        allow: None,
    }
}

/// A recording of the kernel's view.
pub struct KernelView {
    way: Way,
    unavailable: Vec<Unavailable>,
}

enum Way {
    Tracefs(Box<TraceSession>),
    /// Switches of own threads if perf is permitted, and counters of /proc.
    Proc(Box<ProcView>),
    Off,
}

struct ProcView {
    cpus: CpuSet,
    begin_ns: u64,
    before: ProcSnapshot,
    /// Recorders of the current phase.
    switches: Vec<SwitchRecorder>,
    /// Opened with the first switches.
    bursts: Option<TableWriter<Bursts>>,
    may_record_switches: bool,
    lost: u64,
    /// Name, kind and process of named threads.
    names: BTreeMap<Pid, (String, TaskKind, Pid)>,
}

impl KernelView {
    /// Records nothing, as requested. `command` is the one that would record it: "idlewave study".
    pub fn off(command: &str) -> Self {
        let unavailable = Unavailable {
            what: "names of what took the CPU".to_owned(),
            why: "switched off by --no-trace".to_owned(),
            allow: Some(command.to_owned()),
        };
        Self {
            way: Way::Off,
            unavailable: vec![unavailable],
        }
    }

    /// Starts the best recording that is permitted, with the system calls of the ranks if
    /// `syscalls`.
    ///
    /// # Errors
    /// The tracer is available and permitted, but fails (full disk).
    pub fn start(
        root: &Path,
        bundle: &Path,
        cpus: &CpuSet,
        syscalls: bool,
    ) -> Result<Self, SessionError> {
        let config = TraceConfig {
            raw_dir: bundle.join("raw"),
            cpus: cpus.clone(),
            syscalls,
        };
        let refused = match TraceSession::start(root, &config) {
            Ok(session) => {
                let lacks = syscalls && !session.has_syscalls();
                let why = "this kernel has no trace events for them (CONFIG_FTRACE_SYSCALLS)";
                return Ok(Self {
                    way: Way::Tracefs(Box::new(session)),
                    unavailable: lacks.then(|| no_syscalls(why)).into_iter().collect(),
                });
            }
            Err(error) => match error.unavailable() {
                Some(refused) => refused,
                None => return Err(error.into()),
            },
        };
        let capabilities = capabilities(root);
        let mut unavailable = capabilities.unavailable;
        if capabilities.tracing {
            // The check passed, but starting the trace failed.
            unavailable.insert(0, refused);
        }
        if syscalls {
            unavailable.push(no_syscalls("they need the kernel trace"));
        }
        let view = ProcView {
            cpus: cpus.clone(),
            begin_ns: monotonic_ns(),
            before: ProcSnapshot::take(root, cpus),
            switches: Vec::new(),
            bursts: None,
            may_record_switches: capabilities.switches,
            lost: 0,
            names: BTreeMap::new(),
        };
        Ok(Self {
            way: Way::Proc(Box::new(view)),
            unavailable,
        })
    }

    /// The recording mode.
    pub fn mode(&self) -> TraceMode {
        match &self.way {
            Way::Tracefs(_) => TraceMode::Tracefs,
            Way::Proc(view) if view.may_record_switches => TraceMode::PerfSwitch,
            Way::Proc(_) => TraceMode::Counters,
            Way::Off => TraceMode::Off,
        }
    }

    /// Names the measuring threads, and watches them more closely from now on.
    ///
    /// # Errors
    /// The tracer fails.
    pub fn watch(
        &mut self,
        members: &[Member],
        threads: &[Pid],
        ranks: bool,
    ) -> Result<(), SessionError> {
        let kind = if ranks { TaskKind::Rank } else { TaskKind::Own };
        match &mut self.way {
            Way::Tracefs(session) => {
                for (&pid, member) in threads.iter().zip(members) {
                    session.note(pid, &member.name, ranks);
                }
                if ranks {
                    session.watch_ranks(threads)?;
                }
            }
            Way::Proc(view) => {
                let own = Pid::new(std::process::id());
                for (&pid, member) in threads.iter().zip(members) {
                    view.names.insert(pid, (member.name.clone(), kind, own));
                }
                self.unavailable.extend(view.record_switches(threads));
            }
            Way::Off => {}
        }
        Ok(())
    }

    /// The thread numbers in the kernel's view. They differ if there is a kernel trace and this is
    /// not the initial PID namespace; `None` for a thread that has ended.
    ///
    /// # Errors
    /// The tracer fails.
    pub fn numbers(&mut self, threads: &[Pid]) -> Result<Vec<Option<Pid>>, SessionError> {
        Ok(match &mut self.way {
            Way::Tracefs(session) => session.traced(threads)?,
            Way::Proc(_) | Way::Off => threads.iter().copied().map(Some).collect(),
        })
    }

    /// Marks a process that was started, with its descendants, as part of the recorded program.
    pub fn note_program(&mut self, process: Pid, name: &str) {
        match &mut self.way {
            Way::Tracefs(session) => session.note_program(process, name),
            Way::Proc(view) => {
                let noted = (name.to_owned(), TaskKind::Program, process);
                view.names.insert(process, noted);
            }
            Way::Off => {}
        }
    }

    /// Watches threads of the recorded program that call MPI more closely from now on. `all` are
    /// these and the earlier ones.
    ///
    /// # Errors
    /// The tracer fails.
    pub fn watch_program(&mut self, new: &[NewThread], all: &[Pid]) -> Result<(), SessionError> {
        match &mut self.way {
            Way::Tracefs(session) => {
                for thread in new {
                    session.note_rank(thread.thread, thread.process, &thread.name);
                }
                session.watch_ranks(all)?;
            }
            Way::Proc(view) => {
                for thread in new {
                    let noted = (thread.name.clone(), TaskKind::Rank, thread.process);
                    view.names.insert(thread.thread, noted);
                }
                let threads: Vec<Pid> = new.iter().map(|thread| thread.thread).collect();
                self.unavailable.extend(view.record_switches(&threads));
            }
            Way::Off => {}
        }
        Ok(())
    }

    /// Stops watching; the measuring threads have ended.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn unwatch(&mut self, out: &RunWriter) -> Result<(), RunError> {
        let Way::Proc(view) = &mut self.way else {
            return Ok(());
        };
        for recorder in std::mem::take(&mut view.switches) {
            let records = recorder.stop(NODE);
            view.lost += records.lost;
            let bursts = match &mut view.bursts {
                Some(bursts) => bursts,
                none => none.insert(out.table::<Bursts>()?),
            };
            bursts.extend(&records.bursts)?;
        }
        Ok(())
    }

    /// Bytes of kernel trace copied to the bundle.
    pub fn copied(&self) -> u64 {
        match &self.way {
            Way::Tracefs(session) => session.copied(),
            Way::Proc(_) | Way::Off => 0,
        }
    }

    /// Whether recording failed; [`stop`](Self::stop) then returns the error.
    pub fn has_failed(&self) -> bool {
        matches!(&self.way, Way::Tracefs(session) if session.has_failed())
    }

    /// Ends the recording and writes what is in memory.
    ///
    /// # Errors
    /// The kernel's view could not be written completely.
    pub fn stop(self, root: &Path, out: &mut RunWriter) -> Result<TraceSheet, SessionError> {
        let mode = self.mode();
        let mut cost = TraceCost::default();
        match self.way {
            Way::Tracefs(session) => {
                let summary = session.stop()?;
                cost = summary.cost;
                out.manifest.losses.enter(
                    "threads of the run that ended before their numbers in the kernel trace were known",
                    summary.unknown,
                    "their time is charged to another task of the same name",
                    "record outside the PID namespace, as with docker run --pid host",
                );
            }
            Way::Proc(view) => view.write(root, out)?,
            Way::Off => {}
        }
        Ok(TraceSheet {
            mode,
            unavailable: self.unavailable,
            cost,
        })
    }
}

fn refused(error: &PerfError) -> Unavailable {
    Unavailable {
        what: "when the measuring threads were off their CPU".to_owned(),
        why: error.to_string(),
        allow: error.allow().map(str::to_owned),
    }
}

impl ProcView {
    /// Records the switches of threads if permitted; otherwise returns what is missing.
    fn record_switches(&mut self, threads: &[Pid]) -> Option<Unavailable> {
        if !self.may_record_switches {
            return None;
        }
        match SwitchRecorder::open(threads) {
            Ok(recorder) => {
                let own = Pid::new(std::process::id());
                let noted = ("idlewave-perf".to_owned(), TaskKind::Own, own);
                self.names.insert(recorder.reader(), noted);
                self.switches.push(recorder);
                None
            }
            Err(error) => {
                self.may_record_switches = false;
                Some(refused(&error))
            }
        }
    }

    fn write(self, root: &Path, out: &mut RunWriter) -> Result<(), RunError> {
        let after = ProcSnapshot::take(root, &self.cpus);
        let mut sources = Sources::default();
        let (times, counters) =
            self.before
                .difference(&after, NODE, self.begin_ns, monotonic_ns(), &mut sources);
        let own = Pid::new(std::process::id());
        let mut rows: BTreeMap<Pid, Task> = BTreeMap::new();
        for task in tasks(root) {
            let kind = match task.kernel {
                true => TaskKind::Kernel,
                false if task.process == own => TaskKind::Own,
                false => TaskKind::User,
            };
            let process = Some(task.process);
            rows.insert(
                task.pid,
                Task {
                    node: NODE,
                    pid: task.pid,
                    process,
                    name: task.name,
                    kind,
                },
            );
        }
        for (pid, (name, kind, process)) in self.names {
            rows.insert(
                pid,
                Task {
                    node: NODE,
                    pid,
                    process: Some(process),
                    name,
                    kind,
                },
            );
        }
        let mut tasks = Tasks::default();
        for task in rows.into_values() {
            tasks.push(task);
        }
        if let Some(bursts) = self.bursts {
            out.finish_table(bursts)?;
        }
        out.manifest.losses.enter(
            "switch records of measuring threads",
            self.lost,
            "some of the time off the CPU is missing and counts as unexplained",
            "let fewer things wake up on the measured CPUs, or record with root's rights",
        );
        out.write_table(&tasks)?;
        out.write_table(&sources)?;
        out.write_table(&times)?;
        out.write_table(&counters)
    }
}

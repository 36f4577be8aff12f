//! The numbers that this PID namespace's threads have in the kernel's trace.
//!
//! Events carry the numbers of the initial namespace. A process in another one, as in most
//! containers, cannot look them up: /proc and system calls know only the numbers of its own
//! namespace. But the event `sched_process_wait` holds the trace's number of the thread that is
//! waited for, whatever number was passed (`do_wait` of kernel/exit.c,
//! `TRACE_EVENT(sched_process_wait)` of include/trace/events/sched.h), and a wait for a process
//! that is not a child, or a non-blocking wait, returns at once and changes nothing. So this module
//! waits for each thread, and a small instance records the number.

use super::{Instance, TraceError, Tracefs};
use idlewave_sys::pid_namespace::PidNamespace;
use idlewave_sys::process::{has_ended, own_thread};
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::path::PathBuf;

const EVENT: &str = "events/sched/sched_process_wait";
/// Threads per query: their events fit into the buffer of one CPU.
const BATCH: usize = 256;
/// Buffer of one CPU: an event takes about 40 bytes.
const BUFFER_KIB: &str = "64";

/// Translates numbers of this PID namespace to those of the kernel's trace.
#[derive(Debug)]
pub struct Numbers {
    way: Way,
    /// Answers so far; a reused number is queried again.
    known: BTreeMap<Pid, Pid>,
}

#[derive(Debug)]
enum Way {
    /// This is the initial namespace.
    Same,
    /// The kernel is queried.
    Ask(Asking),
}

#[derive(Debug)]
struct Asking {
    instance: Instance,
    /// Queries so far.
    asked: u64,
    /// The thread whose events the instance takes, by its number here.
    asker: Option<Pid>,
}

impl Numbers {
    /// Translates from the namespace of this process.
    ///
    /// # Errors
    /// This is not the initial namespace, and the kernel does not answer:
    /// [`TraceError::Namespace`].
    pub fn new(tracefs: &Tracefs) -> Result<Self, TraceError> {
        let own = PathBuf::from("/proc/self/ns/pid");
        let namespace = PidNamespace::current().map_err(TraceError::io("read", &own))?;
        let way = match namespace.is_initial() {
            true => Way::Same,
            false => Way::Ask(Asking::new(tracefs).map_err(of_namespace)?),
        };
        let mut numbers = Self {
            way,
            known: BTreeMap::new(),
        };
        // Test the method with a thread that certainly exists.
        let own = Pid::new(std::process::id());
        match numbers.ask(&[own]).map_err(of_namespace)?.as_slice() {
            [Some(_)] => Ok(numbers),
            _ => Err(refused("it does not know this process")),
        }
    }

    /// Whether the trace has the same numbers.
    pub fn are_same(&self) -> bool {
        matches!(self.way, Way::Same)
    }

    /// The trace's numbers of these threads; `None` for one that has ended.
    ///
    /// # Errors
    /// The kernel no longer answers.
    pub fn ask(&mut self, threads: &[Pid]) -> Result<Vec<Option<Pid>>, TraceError> {
        let Way::Ask(asking) = &mut self.way else {
            return Ok(threads.iter().copied().map(Some).collect());
        };
        let mut all = Vec::with_capacity(threads.len());
        for batch in threads.chunks(BATCH) {
            all.extend(asking.ask(batch)?);
        }
        for (thread, number) in threads.iter().zip(&all) {
            if let Some(number) = number {
                self.known.insert(*thread, *number);
            }
        }
        Ok(all)
    }

    /// The last known number, or a new query; `None` for a thread that ended before the query.
    pub fn of(&mut self, thread: Pid) -> Option<Pid> {
        if let Some(known) = self.known.get(&thread) {
            return Some(*known);
        }
        let told = self.ask(&[thread]).ok()?;
        told.first().copied().flatten()
    }
}

fn refused(why: impl std::fmt::Display) -> TraceError {
    TraceError::Namespace(why.to_string())
}

/// Classifies the error of a kernel without the event; missing rights stay missing rights.
fn of_namespace(error: TraceError) -> TraceError {
    match error {
        TraceError::Io { .. } => refused(error),
        other => other,
    }
}

impl Asking {
    fn new(tracefs: &Tracefs) -> Result<Self, TraceError> {
        let instance = Instance::create(tracefs)?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        instance.write("tracing_on", "1")?;
        Ok(Self {
            instance,
            asked: 0,
            asker: None,
        })
    }

    /// Makes the instance record events of this thread only: otherwise those of the whole machine
    /// would overwrite them.
    fn listen(&mut self) -> Result<(), TraceError> {
        let own = own_thread();
        if self.asker == Some(own) {
            return Ok(());
        }
        let line = format!("idlewave thread {own}");
        self.instance.write("trace_marker", &line)?;
        let text = self.instance.read("trace")?;
        let wrote = |line_of: &str| {
            let (by, event) = by(line_of)?;
            (event == format!("tracing_mark_write: {line}")).then_some(by)
        };
        let traced = text.lines().rev().find_map(wrote);
        let traced = traced.ok_or_else(|| refused("its own line is not in the trace"))?;
        self.instance.write(
            &format!("{EVENT}/filter"),
            &format!("common_pid == {traced}"),
        )?;
        self.instance.write(&format!("{EVENT}/enable"), "1")?;
        self.asker = Some(own);
        Ok(())
    }

    /// Queries a few threads between two marker lines of the instance, which identify the asking
    /// thread.
    fn ask(&mut self, threads: &[Pid]) -> Result<Vec<Option<Pid>>, TraceError> {
        self.listen()?;
        self.asked += 1;
        let mark = |what: &str| format!("idlewave {what} {}", self.asked);
        self.instance.write("trace_marker", &mark("asks"))?;
        for thread in threads {
            // This neither blocks nor reaps a child. Its result, mostly that this is not a child,
            // does not matter: the event comes first.
            let _ = has_ended(*thread);
        }
        self.instance.write("trace_marker", &mark("asked"))?;
        let text = self.instance.read("trace")?;
        answers(&text, &mark("asks"), &mark("asked"))
            .filter(|told| told.len() == threads.len())
            .ok_or_else(|| refused("its events were lost"))
    }
}

/// The threads that the writer of both marks waited for in between; 0 means none.
fn answers(text: &str, begin: &str, end: &str) -> Option<Vec<Option<Pid>>> {
    let mut asker = None;
    let mut told = Vec::new();
    for line in text.lines() {
        let Some((by, event)) = by(line) else {
            continue;
        };
        if event == format!("tracing_mark_write: {begin}") {
            (asker, told) = (Some(by), Vec::new());
        } else if asker == Some(by) {
            if event == format!("tracing_mark_write: {end}") {
                return Some(told);
            }
            if let Some((_, rest)) = event
                .strip_prefix("sched_process_wait: comm=")
                .and_then(|rest| rest.rsplit_once(" pid="))
            {
                let number = rest.split(' ').next()?.parse().ok()?;
                told.push(Some(Pid::new(number)).filter(|&pid| pid != Pid::IDLE));
            }
        }
    }
    None
}

/// The recording thread and the event, from a line such as `name-4711  [001] .....  12.345678:
/// event: text`.
fn by(line: &str) -> Option<(u32, &str)> {
    let (at, _) = line.match_indices(" [").find(|(at, _)| {
        let cpu = line[at + 2..].split(']').next().unwrap_or_default();
        let who = line[..*at].trim_end().rsplit_once('-');
        cpu.parse::<u32>().is_ok() && who.is_some_and(|(_, pid)| pid.parse::<u32>().is_ok())
    })?;
    let (_, pid) = line[..at].trim_end().rsplit_once('-')?;
    let (_, event) = line[at..].split_once(": ")?;
    Some((pid.parse().ok()?, event.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the initial namespace the answers are known: every number translates to itself.
    #[test]
    fn the_kernel_tells_the_numbers_of_threads_that_are_there() {
        let asking = Tracefs::find(std::path::Path::new("/")).and_then(|tracefs| {
            let asking = Asking::new(&tracefs)?;
            Ok((tracefs, asking))
        });
        let (_tracefs, mut asking) = match asking {
            Ok(asking) => asking,
            Err(error) => return println!("skipped: {error}"),
        };
        if !PidNamespace::current().expect("/proc").is_initial() {
            return println!("skipped: this is a PID namespace, where the answers are not known");
        }
        let own = Pid::new(std::process::id());
        let nobody = Pid::new(u32::MAX >> 1);
        let threads = [own, Pid::new(1), nobody, own];
        for _ in 0..2 {
            let told = asking.ask(&threads).expect("answers");
            assert_eq!(told, [Some(own), Some(Pid::new(1)), None, Some(own)]);
        }
        // Another thread asks: from then on, its events are recorded.
        let told = std::thread::scope(|scope| {
            let ask = scope.spawn(|| asking.ask(&[own]));
            ask.join().expect("no panic").expect("an answer")
        });
        assert_eq!(told, [Some(own)]);
    }

    const TRACE: &str = "\
# tracer: nop
           <...>-3428    [000] ...1.  1315.541360: tracing_mark_write: idlewave asks 1
           <...>-3428    [000] .....  1315.541425: sched_process_wait: comm=a pid=7 pid=9 prio=120
           <...>-3428    [000] .....  1315.541426: tracing_mark_write: idlewave asked 1
           <...>-3428    [000] ...1.  1315.541460: tracing_mark_write: idlewave asks 2
            bash-99      [001] .....  1315.541461: sched_process_wait: comm=bash pid=100 prio=120
       odd [1] x-3428    [001] .....  1315.541465: sched_process_wait: comm=odd [1] x pid=3426 prio=120
           <...>-3428    [000] .....  1315.541489: sched_process_wait: comm=a pid=0 prio=120
           <...>-3428    [000] ...1.  1315.541499: tracing_mark_write: idlewave asked 2
           <...>-3428    [000] .....  1315.541520: sched_process_wait: comm=a pid=1 prio=120
";

    #[test]
    fn the_events_of_the_thread_that_asked_are_its_answers() {
        let told = answers(TRACE, "idlewave asks 2", "idlewave asked 2").expect("both marks");
        assert_eq!(told, [Some(Pid::new(3426)), None]);
    }

    #[test]
    fn without_both_marks_there_is_no_answer() {
        assert_eq!(answers(TRACE, "idlewave asks 3", "idlewave asked 3"), None);
        assert_eq!(answers(TRACE, "idlewave asks 2", "idlewave asked 3"), None);
        assert_eq!(answers("", "", ""), None);
        for length in 0..TRACE.len() {
            answers(&TRACE[..length], "idlewave asks 2", "idlewave asked 2");
        }
    }
}

//! Gathers what the file of a rank says.
//!
//! Memory grows with collectives and annotations, by some 60 bytes for each, up to [`MOST_KEPT`].
//! It does not grow with operators and kernels, which are nearly all events.

use crate::import::error::ImportError;
use crate::import::kineto::event::{Event, whole};
use crate::import::kineto::head::Head;
use crate::import::kineto::json;
use crate::import::kineto::names;
use idlewave_run::tables::OperationClass;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::mem::size_of;
use std::path::Path;

/// Limit on the bytes kept of a file: gzip packs a thousand bytes into one.
const MOST_KEPT: usize = 1 << 30;

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// A thread, by its number.
    Thread(u32),
    /// A stream of a GPU, both by number.
    Stream(u32, u32),
}

/// A collective that a CPU has launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// Its plain name.
    pub name: Name,
    pub thread: u32,
    pub begin: u64,
    pub end: u64,
    /// When the thread next did something.
    pub next: Option<u64>,
    /// Its root, as a rank of the group.
    pub root: Option<u32>,
    /// The process group.
    pub group: Option<Name>,
    pub by: By,
}

/// The event that reports a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// An operator `c10d::..`.
    Operator,
    /// The operator `record_param_comms`.
    Parameters,
}

/// A collective, or a message, that a backend ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The backend, and the name of the collective.
    pub label: Name,
    pub plain: Name,
    pub lane: Lane,
    pub begin: u64,
    pub end: u64,
    pub group: Option<Name>,
    pub sent: Option<u64>,
    pub received: Option<u64>,
}

/// An annotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub name: Name,
    pub thread: u32,
    pub begin: u64,
    pub end: u64,
}

/// A text, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(u32);

/// Texts that occur often, once each.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<String, Name>,
    texts: Vec<String>,
    /// Bytes that they take, entries of the tables included.
    bytes: usize,
}

impl Names {
    fn number(&mut self, text: &str) -> Name {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = Name(self.texts.len() as u32);
        // Each text is stored twice.
        self.bytes += 2 * (text.len() + size_of::<(String, Name)>());
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }

    pub(super) fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }
}

/// Events that are left out, by kind or reason.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub operators: u64,
    pub kernels: u64,
    pub others: u64,
    /// Without a start, or with one that is no time.
    pub untimed: u64,
    /// Of a process other than the first.
    pub foreign: u64,
    /// Earlier than the previous event of the same thread.
    pub disordered: u64,
    /// Beyond the limit on what is kept.
    pub beyond: u64,
}

/// What a thread is doing.
#[derive(Debug, Default)]
struct Doing {
    /// Launches after which it has done nothing yet, the earliest end on top: their ends, and their
    /// places among all launches.
    open: BinaryHeap<Reverse<(u64, usize)>>,
    /// The start of its last event.
    last: u64,
}

/// What the file of a rank says.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub head: Head,
    pub events: u64,
    /// The process.
    pub process: Option<u32>,
    pub process_name: String,
    /// Names of its threads.
    pub threads: BTreeMap<u32, String>,
    pub names: Names,
    pub launches: Vec<Launch>,
    pub runs: Vec<Run>,
    pub marks: Vec<Mark>,
    /// Members of process groups, from the arguments of events.
    pub members: BTreeMap<Name, Vec<u32>>,
    /// The first start and the last end.
    pub span: Option<(u64, u64)>,
    pub left_out: LeftOut,
    /// Launches by annotations of backends whose collectives run on a GPU.
    pub on_gpu: u64,
    /// By thread.
    doing: HashMap<u32, Doing>,
    /// Bytes of members and of names of threads.
    listed: usize,
    /// Limit on the bytes kept.
    most: usize,
}

impl Trace {
    /// Reads a file. `look` is called for each event with the share read so far.
    ///
    /// # Errors
    /// See [`json::read`]; `look` fails.
    pub(super) fn read(
        path: &Path,
        look: &mut dyn FnMut(f64) -> Result<(), ImportError>,
    ) -> Result<Self, ImportError> {
        let mut trace = Self {
            most: MOST_KEPT,
            ..Self::default()
        };
        let head = json::read(path, &mut |event, share| {
            trace.take(event);
            look(share)
        })?;
        trace.head = head;
        trace.doing.clear();
        Ok(trace)
    }

    /// Whether no more events are kept.
    fn is_full(&self) -> bool {
        let kept = self.launches.len() * size_of::<Launch>()
            + self.runs.len() * size_of::<Run>()
            + self.marks.len() * size_of::<Mark>()
            + self.doing.len() * size_of::<(u32, Doing)>()
            + self.names.bytes
            + self.listed;
        kept > self.most
    }

    fn take(&mut self, event: &Event) {
        self.events += 1;
        if self.is_full() {
            self.left_out.beyond += 1;
            return;
        }
        match event.phase.as_str() {
            "M" => return self.metadata(event),
            "X" => {}
            _ => {
                self.left_out.others += 1;
                return;
            }
        }
        let is_cpu = matches!(event.category.as_str(), "cpu_op" | "user_annotation");
        if !is_cpu && event.category != "kernel" {
            self.left_out.others += 1;
            return;
        }
        let Some((begin, end)) = event.times() else {
            self.left_out.untimed += 1;
            return;
        };
        let (Some(pid), Some(tid)) = (whole(event.pid), whole(event.tid)) else {
            self.left_out.others += 1;
            return;
        };
        if is_cpu && *self.process.get_or_insert(pid) != pid {
            self.left_out.foreign += 1;
            return;
        }
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
        if !is_cpu {
            self.kernel(event, Lane::Stream(pid, tid), begin, end);
            return;
        }
        self.settle(tid, begin);
        match event.category.as_str() {
            "cpu_op" => self.operator(event, tid, begin, end),
            _ => self.annotation(event, tid, begin, end),
        }
    }

    fn metadata(&mut self, event: &Event) {
        let Some(pid) = whole(event.pid).filter(|_| !event.args.name.is_empty()) else {
            return;
        };
        // A GPU has a process name too, but it comes after that of the process, whose number comes
        // first.
        match (event.name.as_str(), whole(event.tid)) {
            ("process_name", _) if self.process_name.is_empty() => {
                self.process_name.clone_from(&event.args.name);
            }
            ("thread_name", Some(tid)) if *self.process.get_or_insert(pid) == pid => {
                let name = thread_name(&event.args.name);
                self.listed += name.len() + size_of::<(u32, String)>();
                self.threads.insert(tid, name.to_owned());
            }
            _ => {}
        }
    }

    /// Notes that the thread does something now, and that this follows its launches that have
    /// ended.
    fn settle(&mut self, thread: u32, now: u64) {
        let doing = self.doing.entry(thread).or_default();
        self.left_out.disordered += u64::from(now < doing.last);
        doing.last = now;
        while let Some(&Reverse((end, at))) = doing.open.peek() {
            if end > now {
                break;
            }
            self.launches[at].next = Some(now);
            doing.open.pop();
        }
    }

    fn operator(&mut self, event: &Event, thread: u32, begin: u64, end: u64) {
        let by = match event.name.as_str() {
            "record_param_comms" if !event.args.collective.is_empty() => By::Parameters,
            name if name.starts_with("c10d::") => By::Operator,
            _ => {
                self.left_out.operators += 1;
                return;
            }
        };
        let plain = match by {
            By::Parameters => names::plain(&event.args.collective),
            By::Operator => names::plain(&event.name),
        };
        // Where the root is: broadcast(tensors, group, root, ..), reduce(tensors, group, op, root,
        // ..).
        let place = match plain.as_str() {
            "broadcast" | "gather" | "scatter" => Some(2),
            "reduce" => Some(3),
            _ => None,
        };
        let root = place.and_then(|place: usize| *event.args.inputs.get(place)?);
        let launch = Launch {
            name: self.names.number(&plain),
            thread,
            begin,
            end,
            next: None,
            root: whole(root).filter(|_| by == By::Operator),
            group: self.group(event),
            by,
        };
        self.launches.push(launch);
        if by == By::Operator {
            let doing = self.doing.entry(thread).or_default();
            doing.open.push(Reverse((end, self.launches.len() - 1)));
        }
    }

    fn annotation(&mut self, event: &Event, thread: u32, begin: u64, end: u64) {
        let name = event.name.as_str();
        match name.split_once(':') {
            // With these backends, a CPU thread carries out the collective.
            Some(("gloo" | "mpi", collective)) => {
                let plain = names::plain(collective);
                let run = Run {
                    label: self.names.number(name),
                    plain: self.names.number(&plain),
                    lane: Lane::Thread(thread),
                    begin,
                    end,
                    group: None,
                    sent: None,
                    received: None,
                };
                self.runs.push(run);
            }
            Some(("nccl" | "ucc" | "xccl" | "hccl", _)) => self.on_gpu += 1,
            _ => {
                let is_step = name.starts_with("ProfilerStep#");
                let name = self
                    .names
                    .number(if is_step { "ProfilerStep" } else { name });
                self.marks.push(Mark {
                    name,
                    thread,
                    begin,
                    end,
                });
            }
        }
    }

    fn kernel(&mut self, event: &Event, lane: Lane, begin: u64, end: u64) {
        let args = &event.args;
        let of_name = names::of_kernel(&event.name);
        let named = (!args.collective.is_empty()).then_some(args.collective.as_str());
        let Some(name) = named.or(of_name) else {
            self.left_out.kernels += 1;
            return;
        };
        let plain = names::plain(name);
        let element = names::element_bytes(&args.dtype);
        let bytes = |count: Option<f64>| {
            let count = count.filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n))?;
            (count as u64).checked_mul(element?)
        };
        let (sent, received) = (bytes(args.elements_in), bytes(args.elements_out));
        let label = format!("nccl:{}", names::spelled(&plain));
        let run = Run {
            label: self.names.number(&label),
            plain: self.names.number(&plain),
            lane,
            begin,
            end,
            group: self.group(event),
            sent,
            received,
        };
        self.runs.push(run);
    }

    /// The process group that an event names, with the members that it lists.
    fn group(&mut self, event: &Event) -> Option<Name> {
        let args = &event.args;
        if args.group.is_empty() {
            return None;
        }
        let name = self.names.number(&args.group);
        if let Entry::Vacant(place) = self.members.entry(name) {
            if let Some(members) = args.members.all() {
                self.listed += members.len() * size_of::<u32>();
                place.insert(members);
            }
        }
        Some(name)
    }

    /// The class of a collective.
    pub(super) fn class(&self, plain: Name) -> OperationClass {
        names::class(self.names.text(plain))
    }
}

/// The name of the thread in a label like `thread 18517 (pt_gloo_runloop)`.
fn thread_name(label: &str) -> &str {
    let inner = label.strip_suffix(')').and_then(|l| l.split_once(" ("));
    match inner {
        Some((before, name)) if before.starts_with("thread ") => name,
        _ => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_file_is_bounded() {
        let mut trace = Trace {
            most: 10_000,
            ..Trace::default()
        };
        for n in 0..1_000 {
            trace.take(&Event {
                phase: "X".to_owned(),
                category: "user_annotation".to_owned(),
                name: format!("region {n}"),
                pid: Some(7.0),
                tid: Some(7.0),
                ts: Some(f64::from(n)),
                ..Event::default()
            });
        }
        assert!((30..200).contains(&trace.marks.len()));
        assert_eq!(trace.left_out.beyond, 1_000 - trace.marks.len() as u64);
        assert_eq!(trace.events, 1_000);
    }

    #[test]
    fn a_launch_is_followed_by_the_next_event_of_its_thread_after_its_end() {
        let mut trace = Trace {
            most: MOST_KEPT,
            ..Trace::default()
        };
        let mut at = |name: &str, tid: f64, ts: f64, dur: f64| {
            trace.take(&Event {
                phase: "X".to_owned(),
                category: "cpu_op".to_owned(),
                name: name.to_owned(),
                pid: Some(7.0),
                tid: Some(tid),
                ts: Some(ts),
                dur: Some(dur),
                ..Event::default()
            });
        };
        at("c10d::barrier", 7.0, 1.0, 10.0);
        at("c10d::barrier", 7.0, 2.0, 3.0);
        at("aten::add", 8.0, 6.0, 1.0);
        at("aten::add", 7.0, 7.0, 1.0);
        at("c10d::barrier", 7.0, 12.0, 1.0);
        let next: Vec<Option<u64>> = trace.launches.iter().map(|launch| launch.next).collect();
        assert_eq!(next, [Some(12_000), Some(7_000), None]);
        assert_eq!(trace.left_out.disordered, 0);
    }
}

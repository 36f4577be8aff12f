//! Turns the files of a program's ranks into a run.

use crate::import::app::{self, App, Clocks, NodeFacts, Shifts, Skew, Thread, Told};
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::kineto::MOST_RANKS;
use crate::import::kineto::collectives::{Found, calls, is_message};
use crate::import::kineto::head::Group;
use crate::import::kineto::losses::Lost;
use crate::import::kineto::trace::{Lane, Trace};
use idlewave_run::tables::TaskKind;
use idlewave_run::{ClockSheet, NodeSheet, Phase, PhaseKind, RunWriter, TraceMode, Unavailable};
use idlewave_units::{Bytes, CpuSet, Nanos, NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Key of the group of all ranks.
const WORLD: u64 = 0;

/// Events between two checks of the stop flag.
const LOOK: u64 = 1 << 14;

/// Fills a run from the files of all ranks and closes it. If the clocks of the hosts disagree, the
/// files are read twice.
pub(crate) fn read(
    ask: &Ask<'_>,
    files: &[PathBuf],
    run: RunWriter,
) -> Result<Imported, ImportError> {
    let mut build = Build::begin(run)?;
    build.app.skew = Some(Skew::of(Clocks::OfNodes));
    build.add_all(ask, files)?;
    build.shifts = build.app.shifts();
    if build.shifts.moved > 0 {
        let mut again = Build::begin(build.app.discard()?)?;
        again.shifts = build.shifts;
        again.add_all(ask, files)?;
        build = again;
    }
    build.finish(ask)
}

/// A run that is being built.
struct Build {
    app: App,
    /// The files, by rank.
    files: BTreeMap<u32, PathBuf>,
    world: u32,
    /// All process groups, the place of each, and its key; that of the whole program is [`WORLD`].
    groups: Vec<Group>,
    places: HashMap<Group, usize>,
    keys: Vec<u64>,
    /// Names, empty where unknown.
    hosts: Vec<String>,
    /// What the times count from, in nanoseconds since the epoch.
    base_ns: Option<u64>,
    span: Option<(u64, u64)>,
    name: String,
    /// Empty if none is named.
    backend: String,
    events: u64,
    lost: Lost,
    /// The shifts that make the hosts' clocks agree.
    shifts: Shifts,
}

impl Build {
    fn begin(run: RunWriter) -> Result<Self, ImportError> {
        let mut app = App::begin(run)?;
        app.comms.declare_world(WORLD);
        Ok(Self {
            app,
            files: BTreeMap::new(),
            world: 0,
            groups: Vec::new(),
            places: HashMap::new(),
            keys: Vec::new(),
            hosts: Vec::new(),
            base_ns: None,
            span: None,
            name: String::new(),
            backend: String::new(),
            events: 0,
            lost: Lost::default(),
            shifts: Shifts::default(),
        })
    }

    fn add_all(&mut self, ask: &Ask<'_>, files: &[PathBuf]) -> Result<(), ImportError> {
        for (at, file) in files.iter().enumerate() {
            let mut events = 0_u64;
            let trace = Trace::read(file, &mut |share| {
                events += 1;
                if events % LOOK == 0 {
                    (ask.progress)((at as f64 + share) / files.len() as f64);
                    // The flag carries no data, so no ordering is needed.
                    if ask.stop.load(Ordering::Relaxed) {
                        return Err(ImportError::Interrupted);
                    }
                }
                Ok(())
            })?;
            self.add(file, at, trace)?;
        }
        Ok(())
    }

    /// Adds the file of a rank, the `at`-th file.
    fn add(&mut self, file: &Path, at: usize, trace: Trace) -> Result<(), ImportError> {
        let Some(span) = trace.span else {
            return Err(empty(file, trace.head.cut));
        };
        let rank = self.rank(file, at, &trace)?;
        let own = self.groups_of(&trace, rank);
        let node = self.node(&trace);
        self.note(&trace);
        let base = trace.head.base_ns.unwrap_or(0);
        let first = *self.base_ns.get_or_insert(base);
        let shift = self.shifts.of(Some(Rank::new(rank)), node).get();
        // Times of the run count from the base of the first file.
        let moved = |ns: u64| {
            let ns = ns.checked_add(base)?.checked_add(shift)?;
            ns.checked_sub(first)
        };
        if let Some(end) = moved(span.1) {
            let begin = moved(span.0).unwrap_or(0);
            let (from, to) = self.span.unwrap_or((begin, end));
            self.span = Some((from.min(begin), to.max(end)));
        }
        let (found, doubts) = calls(&trace, &self.groups, &own);
        self.lost.doubts.add(&doubts);
        let lanes = self.threads(&trace, &found, node, rank);
        for call in &found {
            let (Some(begin), Some(end)) = (moved(call.begin), moved(call.end)) else {
                self.lost.outside += 1;
                continue;
            };
            self.call(lanes[&call.lane], call, begin, end)?;
        }
        for mark in &trace.marks {
            let (Some(begin), Some(end)) = (moved(mark.begin), moved(mark.end)) else {
                self.lost.outside += 1;
                continue;
            };
            let name = trace.names.text(mark.name).to_owned();
            let thread = lanes[&Lane::Thread(mark.thread)];
            self.app.mark(thread, name, begin, Some(end))?;
        }
        Ok(())
    }

    /// The rank of a file: from its content, else from its name, else its place in the list.
    fn rank(&mut self, file: &Path, at: usize, trace: &Trace) -> Result<u32, ImportError> {
        let told = trace.head.distributed.as_ref();
        let world = told.and_then(|told| told.ranks).unwrap_or(0);
        let rank = match told.and_then(|told| told.rank) {
            Some(rank) => rank,
            None => {
                self.lost.unranked += 1;
                rank_in_name(file).unwrap_or(at as u64)
            }
        };
        if rank >= MOST_RANKS || world > MOST_RANKS {
            return Err(ImportError::Format {
                path: file.to_owned(),
                reason: format!("no program has a rank {rank} of {world}"),
                next: "give traces of torch.profiler".to_owned(),
            });
        }
        self.world = self.world.max(world as u32).max(rank as u32 + 1);
        match self.files.insert(rank as u32, file.to_owned()) {
            Some(other) => Err(ImportError::Together {
                path: file.to_owned(),
                reason: format!("rank {rank} is in {} too", other.display()),
                next: "give one trace for each rank, all of the same cycle of the profiler"
                    .to_owned(),
            }),
            None => Ok(rank as u32),
        }
    }

    /// The groups that a rank is in, as places among all groups.
    fn groups_of(&mut self, trace: &Trace, rank: u32) -> Vec<usize> {
        let told = trace.head.distributed.iter();
        let mut listed: Vec<Group> = told.flat_map(|told| &told.groups).cloned().collect();
        let named: BTreeSet<&str> = listed.iter().map(|group| group.name.as_str()).collect();
        let others = trace.members.iter().filter_map(|(name, members)| {
            let name = trace.names.text(*name);
            let members = members.clone();
            (!named.contains(name)).then(|| Group {
                name: name.to_owned(),
                members,
            })
        });
        let others: Vec<Group> = others.collect();
        listed.extend(others);
        if listed.is_empty() && trace.head.distributed.is_some() {
            listed.push(Group {
                name: "0".to_owned(),
                members: (0..self.world).collect(),
            });
        }
        let is_valid = |member: &u32| u64::from(*member) < MOST_RANKS;
        listed.retain(|group| group.members.contains(&rank) && group.members.iter().all(is_valid));
        listed.into_iter().map(|group| self.place(group)).collect()
    }

    /// The place of a group among all groups; adds the group if it is new.
    fn place(&mut self, group: Group) -> usize {
        if let Some(&place) = self.places.get(&group) {
            return place;
        }
        let is_whole = group.members.iter().copied().eq(0..self.world);
        let key = match is_whole && !self.keys.contains(&WORLD) {
            true => WORLD,
            false => self.groups.len() as u64 + 1,
        };
        let members = group.members.iter().copied().map(Rank::new);
        self.app
            .comms
            .declare(key, members.filter(|_| key != WORLD));
        self.keys.push(key);
        self.places.insert(group.clone(), self.groups.len());
        self.groups.push(group);
        self.groups.len() - 1
    }

    fn node(&mut self, trace: &Trace) -> NodeId {
        let host = &trace.head.host;
        self.lost.hostless += u64::from(host.is_empty());
        let known = self.hosts.iter().position(|known| known == host);
        let at = known.unwrap_or_else(|| {
            self.hosts.push(host.clone());
            self.hosts.len() - 1
        });
        NodeId::new(at as u32)
    }

    fn note(&mut self, trace: &Trace) {
        self.events += trace.events;
        if self.name.is_empty() {
            self.name.clone_from(&trace.process_name);
        }
        if let Some(told) = trace
            .head
            .distributed
            .as_ref()
            .filter(|_| self.backend.is_empty())
        {
            self.backend.clone_from(&told.backend);
        }
        let lost = &mut self.lost;
        lost.cut += u64::from(trace.head.cut);
        lost.coarse += u64::from(trace.head.base_ns.is_none());
        lost.left_out.add(&trace.left_out);
    }

    /// Adds the threads of a rank that do something, the one that launches most first.
    fn threads(
        &mut self,
        trace: &Trace,
        found: &[Found],
        node: NodeId,
        rank: u32,
    ) -> BTreeMap<Lane, app::ThreadId> {
        let mut use_of: BTreeMap<u32, usize> = BTreeMap::new();
        for launch in &trace.launches {
            *use_of.entry(launch.thread).or_default() += 1;
        }
        let busiest = use_of
            .iter()
            .max_by_key(|(thread, n)| (**n, std::cmp::Reverse(**thread)));
        // The first thread of a process has the process's number.
        let main = busiest.map(|(thread, _)| *thread).or(trace.process);
        let process = trace.process.map(Pid::new);
        let mut lanes: BTreeSet<Lane> = found.iter().map(|call| call.lane).collect();
        lanes.extend(trace.marks.iter().map(|mark| Lane::Thread(mark.thread)));
        lanes.extend(main.map(Lane::Thread));
        let mut ids = BTreeMap::new();
        let mut process_pid = None;
        let order = |lane: &Lane| (main.map(Lane::Thread) != Some(*lane), *lane);
        let mut lanes: Vec<Lane> = lanes.into_iter().collect();
        lanes.sort_by_key(order);
        for (at, lane) in lanes.into_iter().enumerate() {
            let (given, name) = match lane {
                Lane::Thread(thread) => {
                    let name = trace.threads.get(&thread);
                    let name = name.cloned().unwrap_or_else(|| format!("thread {thread}"));
                    (Some(Pid::new(thread)), name)
                }
                Lane::Stream(gpu, stream) => (None, format!("GPU {gpu} stream {stream}")),
            };
            let pid = self.app.pid(node, given.filter(|pid| *pid != Pid::IDLE));
            let process = *process_pid.get_or_insert(process.unwrap_or(pid));
            let id = self.app.add(Thread {
                place: [rank, at as u32, 0],
                node,
                pid,
                process,
                name,
                rank: Some(Rank::new(rank)),
                kind: TaskKind::Rank,
            });
            ids.insert(lane, id);
        }
        ids
    }

    fn call(
        &mut self,
        thread: app::ThreadId,
        call: &Found,
        begin_ns: u64,
        end_ns: u64,
    ) -> Result<(), ImportError> {
        let operation = self
            .app
            .function_of_class(&call.name, call.class, call.waits_for_all);
        let is_collective = app::is_collective(call.class);
        let comm = call
            .group
            .and_then(|group| self.app.comms.of(self.keys[group]));
        self.lost.typeless += u64::from(is_collective && call.sent.is_none());
        self.lost.messages += u64::from(is_message(call.class));
        self.app.call(
            thread,
            app::Call {
                operation,
                class: call.class,
                begin_ns,
                end_ns,
                comm,
                root: call.root.map(Rank::new),
                sent: call.sent.map(Bytes::new),
                received: call.received.map(Bytes::new),
                request: None,
            },
        )?;
        Ok(())
    }

    /// Finishes the tables and the run.
    fn finish(mut self, ask: &Ask<'_>) -> Result<Imported, ImportError> {
        let name = match self.name.as_str() {
            "" => ask
                .input
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            name => name.to_owned(),
        };
        self.app.named(ask, &name)?;
        let (begin_ns, end_ns) = self.span.unwrap_or((0, 0));
        let wall = Nanos::from_nanos(end_ns.saturating_sub(begin_ns));
        let hosts = self.hosts.iter().enumerate();
        let mut method = format!(
            "CLOCK_REALTIME as the profiler converts it, from {} ns of the epoch",
            self.base_ns.unwrap_or(0)
        );
        if self.shifts.moved > 0 {
            method += ", and the clocks of hosts aligned by collectives that wait for all";
        }
        let nodes = hosts.map(|(at, host)| node(at, host, wall, &method));
        self.app.run.manifest.nodes = nodes.collect();
        self.app.run.manifest.phases = vec![Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: None,
            },
            begin_ns,
            end_ns,
        }];
        self.app.expect_ranks(self.world);
        self.lost.unseen_ranks = u64::from(self.world) - self.files.len() as u64;
        let hosts = self.hosts.len() as u64;
        self.lost.uncompared_hosts = hosts.saturating_sub(self.shifts.compared.max(1));
        let library = match self.backend.as_str() {
            "" => "torch.distributed".to_owned(),
            _ => self.backend,
        };
        let library = (self.app.called() > 0).then_some(library);
        let mut losses = self.lost.ledger();
        self.shifts.enter(&mut losses);
        self.app.finish(Told {
            format: "traces of PyTorch's profiler",
            name,
            events: self.events,
            missed: None,
            cpus: 0,
            span: wall,
            library,
            losses,
        })
    }
}

/// What the manifest says about a host.
fn node(at: usize, host: &str, wall: Nanos, method: &str) -> NodeSheet {
    let name = match host {
        "" => format!("node {at}"),
        host => host.to_owned(),
    };
    let facts = NodeFacts {
        node: NodeId::new(at as u32),
        host: name,
        cpus: CpuSet::default(),
        traced_cpus: 0,
        clock: ClockSheet::KINETO,
        counts_per_second: 1e9,
        method: method.to_owned(),
        wall,
        mode: TraceMode::Off,
        unavailable: vec![Unavailable {
            what: "which thread had which CPU".to_owned(),
            why: "PyTorch's profiler does not see the kernel".to_owned(),
            allow: Some("idlewave import KERNEL_TRACE --app TRACE... -o RUN".to_owned()),
        }],
    };
    facts.sheet()
}

/// Why a file without events is refused.
fn empty(file: &Path, cut: bool) -> ImportError {
    let (what, next) = match cut {
        true => (
            "it is cut short before its first operator, annotation or kernel",
            "copy the file again from where it was recorded",
        ),
        false => (
            "it holds no operators, annotations or kernels",
            "record with torch.profiler, and export_chrome_trace within its schedule",
        ),
    };
    ImportError::Lacks {
        path: file.to_owned(),
        what: what.to_owned(),
        next: next.to_owned(),
    }
}

/// The number after `rank` in the name of a file.
fn rank_in_name(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let (_, rest) = name.rsplit_once("rank")?;
    let digits = rest.trim_start_matches(['_', '-', '.', '=']);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

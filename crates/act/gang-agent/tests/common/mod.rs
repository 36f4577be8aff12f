//! A service on one or more "nodes" of this machine, as threads of the test, and jobs of processes
//! that note when they run.

use idlewave_freeze::{Freezer, clock};
use idlewave_gang::policy;
use idlewave_gang::protocol::{ControllerSettings, Peer};
use idlewave_gang_agent::control::{Reply, Request, Status};
use idlewave_gang_agent::{
    Center, CenterSettings, Clients, Control, Courier, DeskSettings, Gangs, Mark, Node, NodeNote,
    NodeSettings, Place,
};
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From and to, in ns.
type Stretches = Vec<(u64, u64)>;

/// Far above what anything takes: no test passes or fails on a timing.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Datagrams between sockets in the test's own directory; the name of its socket identifies the
/// sender.
pub struct Letters {
    socket: UnixDatagram,
    directory: PathBuf,
}

fn name(peer: Peer) -> String {
    match peer {
        Peer::Controller => "controller".to_owned(),
        Peer::Agent(node) => format!("node{node}"),
    }
}

impl Letters {
    pub fn new(directory: &Path, me: Peer) -> Self {
        let path = directory.join(name(me));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let directory = directory.to_owned();
        Self { socket, directory }
    }
}

impl Courier for Letters {
    fn send(&mut self, _: Nanos, to: Peer, payload: &[u8]) {
        let _ = self.socket.send_to(payload, self.directory.join(name(to)));
    }
    fn receive(&mut self, _: Nanos) -> Option<(Peer, Vec<u8>)> {
        let mut bytes = vec![0; 1 << 16];
        let (n, from) = self.socket.recv_from(&mut bytes).ok()?;
        bytes.truncate(n);
        let from = from.as_pathname()?.file_name()?.to_str()?.to_owned();
        let peer = match from.strip_prefix("node") {
            Some(node) => Peer::Agent(NodeId::new(node.parse().ok()?)),
            None => Peer::Controller,
        };
        Some((peer, bytes))
    }
    fn due(&self) -> Option<Nanos> {
        None
    }
    fn know(&mut self, _: Peer, _: &Place) {}
    fn trouble(&mut self) -> Option<String> {
        None
    }
    fn place(&self, peer: Peer) -> Option<Place> {
        Some(Place::Unix(self.directory.join(name(peer))))
    }
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

pub struct Service {
    pub directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    /// How often a node let everything run because it got no CPU for longer than its lease.
    stalls: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

pub fn settings(slice: Nanos) -> CenterSettings {
    let policy = policy::Settings {
        shortest: slice,
        longest: slice,
        ..policy::Settings::default()
    };
    CenterSettings {
        protocol: ControllerSettings {
            arity: 2,
            lease: Nanos::from_millis(600),
            margin: Nanos::from_millis(50),
            repeat: Nanos::from_millis(5),
            limit: Nanos::from_millis(300),
            hop: Nanos::ZERO,
            beat: Nanos::from_millis(100),
        },
        desk: DeskSettings {
            policy,
            rows: 8,
            settle: Nanos::from_millis(200),
            yielding: true,
            copying: idlewave_gang_agent::Copying::Pointer,
        },
        always: false,
        owner: Uid::own(),
        operators: Vec::new(),
        start: 1,
    }
}

impl Service {
    pub fn start(nodes: u32, settings: CenterSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stalls = Arc::new(AtomicU64::new(0));
        let clients = Clients::listen(&directory.path().join("control"), false).unwrap();
        let letters = Letters::new(directory.path(), Peer::Controller);
        let mut center = Center::new(settings, letters, clients).unwrap();
        let mut threads = Vec::new();
        for node in (0..nodes).map(NodeId::new) {
            let letters = Letters::new(directory.path(), Peer::Agent(node));
            let freezer = Freezer::choose().freezer;
            let settings = NodeSettings {
                node,
                host: format!("host{node}"),
                cpus: 2,
                freezer: freezer.kind().to_string(),
                limits: Vec::new(),
                repeat: Nanos::from_millis(5),
                join: Nanos::from_millis(50),
            };
            let gangs = Gangs::new(freezer, None, Nanos::from_millis(50)).unwrap();
            let mut node = Node::new(settings, letters, gangs).unwrap();
            let (stop, stalls) = (Arc::clone(&stop), Arc::clone(&stalls));
            let note = move |note: &NodeNote| {
                if matches!(note, NodeNote::Uncoordinated(_) | NodeNote::StoodStill) {
                    stalls.fetch_add(1, Ordering::Relaxed);
                }
            };
            threads.push(std::thread::spawn(move || {
                node.run(&stop, note).unwrap();
            }));
        }
        let stopped = Arc::clone(&stop);
        threads.push(std::thread::spawn(move || {
            center.run(&stopped, |_| ()).unwrap();
        }));
        Self {
            directory,
            stop,
            stalls,
            threads,
        }
    }

    pub fn control(&self) -> Control {
        self.connect().unwrap()
    }

    /// `None`: the service has ended.
    pub fn connect(&self) -> Option<Control> {
        Control::connect(&self.directory.path().join("control")).ok()
    }

    pub fn status(&self) -> Status {
        match self.control().ask(&Request::Status).unwrap() {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the status is as wanted.
    #[track_caller]
    pub fn await_status(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        let begin = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(begin.elapsed() < LIMIT, "{status:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asserts that these never run together in the next `least`; once more if a node let
    /// everything run meanwhile.
    #[track_caller]
    pub fn assert_turns(&self, jobs: [&Job; 2], all: bool, least: Duration) {
        loop {
            let stalls = self.stalls.load(Ordering::Relaxed);
            let ran = await_runs(&jobs, all, clock::now().get(), least);
            let together = overlap(&ran[0], &ran[1]);
            if together == 0 {
                return;
            }
            // A node notices only when it gets a CPU.
            let begin = Instant::now();
            while self.stalls.load(Ordering::Relaxed) == stalls {
                assert!(begin.elapsed() < LIMIT, "together for {together} ns");
                std::thread::sleep(Duration::from_millis(50));
            }
            let before = self.status().switches.switched;
            self.await_status(|s| s.switches.switched > before);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there shows in the test itself.
            let _ = thread.join();
        }
    }
}

/// Marked processes, each of which records in a file of its own when it runs.
pub struct Job {
    pub children: Vec<Child>,
    pub files: Vec<PathBuf>,
    pub _control: Control,
    pub gang: u32,
}

const PROGRAM: &str = "
import time,sys
out=open(sys.argv[1],'w')
begin=last=time.monotonic_ns()
while True:
    now=time.monotonic_ns()
    if now-last>2_000_000:
        out.write(f'{begin} {last}\\n'); out.flush(); begin=now
    last=now
    if now-begin>1_000_000:
        out.write(f'{begin} {now}\\n'); out.flush(); begin=now
";

impl Job {
    pub fn start(service: &Service, token: &str, ranks: u32) -> Self {
        let token = format!("{token}-{}", std::process::id());
        let mut control = service.control();
        let request = Request::Submit {
            name: token.clone(),
            mark: Mark::Token(token.clone()),
            user: Uid::own().get(),
            interactive: false,
            weight: 1,
            keep: false,
            contexts: None,
        };
        let Reply::Submitted { gang } = control.ask(&request).unwrap() else {
            panic!("not submitted");
        };
        let files: Vec<PathBuf> = (0..ranks)
            .map(|rank| service.directory.path().join(format!("{token}.{rank}")))
            .collect();
        let children = (0..).zip(&files).map(|(rank, file): (u32, _)| {
            Command::new("python3")
                .args(["-c", PROGRAM])
                .arg(file)
                .env("IDLEWAVE_GANG", &token)
                .env("PMI_RANK", rank.to_string())
                .env("PMI_SIZE", ranks.to_string())
                .spawn()
                .unwrap()
        });
        Self {
            children: children.collect(),
            files,
            _control: control,
            gang,
        }
    }

    /// Periods in which any rank ran, after `begin`.
    fn ran(&self, begin: u64) -> Stretches {
        let mut all = Vec::new();
        for file in &self.files {
            // A process that was frozen at once has made no file.
            let text = std::fs::read_to_string(file).unwrap_or_default();
            for line in text.lines() {
                let mut numbers = line.split(' ').filter_map(|n| n.parse::<u64>().ok());
                if let (Some(from), Some(to)) = (numbers.next(), numbers.next()) {
                    if from >= begin {
                        all.push((from, to));
                    }
                }
            }
        }
        all.sort_unstable();
        all
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// Waits for `least`, then until all of these, or any, have run after `begin`; returns when.
#[track_caller]
pub fn await_runs(jobs: &[&Job], all: bool, begin: u64, least: Duration) -> Vec<Stretches> {
    let since = Instant::now();
    std::thread::sleep(least);
    loop {
        let ran: Vec<_> = jobs.iter().map(|job| job.ran(begin)).collect();
        let mut has = ran.iter().map(|ran| !ran.is_empty());
        if if all {
            has.all(|has| has)
        } else {
            has.any(|has| has)
        } {
            return ran;
        }
        assert!(since.elapsed() < LIMIT, "{ran:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Time in which both ran, in ns.
fn overlap(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let mut edges: BTreeMap<u64, [i64; 2]> = BTreeMap::new();
    for (which, stretches) in [one, other].into_iter().enumerate() {
        for (from, to) in stretches {
            edges.entry(*from).or_default()[which] += 1;
            edges.entry(*to).or_default()[which] -= 1;
        }
    }
    let (mut sum, mut last, mut open) = (0, 0, [0, 0]);
    for (at, change) in edges {
        if open[0] > 0 && open[1] > 0 {
            sum += at - last;
        }
        last = at;
        open = [open[0] + change[0], open[1] + change[1]];
    }
    sum
}

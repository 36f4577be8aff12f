//! Runs programs that hang, or only look as if they did, and watches them.

use idlewave_hangs::{Look, Settings, Watch};
use idlewave_interpose::state::DIRECTORY_VARIABLE;
use idlewave_interpose::write_library;
use idlewave_mpi::testing::{Installation, skip};
use idlewave_sys::process::Signal;
use idlewave_units::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// One job at a time: ranks wait by polling.
static JOB: Mutex<()> = Mutex::new(());
/// What all tests that are running share.
static SHARED: Mutex<Weak<Place>> = Mutex::new(Weak::new());

/// A directory for the library and the programs.
pub struct Place {
    directory: tempfile::TempDir,
    library: PathBuf,
}

/// A running job.
pub struct Running<'a> {
    pub watch: Watch,
    child: Child,
    begun: Receiver<u64>,
    pages: tempfile::TempDir,
    _one: MutexGuard<'a, ()>,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let library = write_library(directory.path()).expect("the library can be written");
        Self { directory, library }
    }

    /// The place that the other tests use, so that each program is compiled only once.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let place = Arc::new(Self::new());
            *shared = Arc::downgrade(&place);
            place
        })
    }

    /// Compiles the program; `None` if there is no compiler. Only one call at a time.
    fn compile(&self, mpi: &Installation) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hangs.c");
        let to = self.directory.path().join(format!("hangs.{}", mpi.name));
        if !to.exists() && mpi.compile_c(&source, &to).is_none() {
            skip(&format!("{} has no C compiler", mpi.name));
            return None;
        }
        Some(to)
    }

    /// Starts the program.
    pub fn start(
        &self,
        mpi: &Installation,
        ranks: u32,
        arguments: &[&str],
        settings: Settings,
    ) -> Option<Running<'static>> {
        self.start_on(1, mpi, ranks, arguments, settings)
    }

    /// Starts the program and deals the pages of its ranks out to `nodes` directories, as if the
    /// ranks were on as many nodes: `0` to `nodes - 1` in the job's directory. The first one is
    /// watched.
    pub fn start_on(
        &self,
        nodes: u32,
        mpi: &Installation,
        ranks: u32,
        arguments: &[&str],
        settings: Settings,
    ) -> Option<Running<'static>> {
        let one = JOB.lock().unwrap_or_else(PoisonError::into_inner);
        let program = self.compile(mpi)?;
        let memory = Path::new("/dev/shm");
        let pages = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let pages = pages.expect("a temporary directory");
        let mut launch = mpi.launch(ranks);
        Installation::kill_at_once(&mut launch);
        for node in 0..nodes {
            std::fs::create_dir(pages.path().join(node.to_string())).expect("a directory");
        }
        let deal = format!(
            "{DIRECTORY_VARIABLE}=$0/$((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} % {nodes})); \
             LD_PRELOAD=$1; export {DIRECTORY_VARIABLE} LD_PRELOAD; shift; exec \"$@\""
        );
        launch.args(["sh", "-c", &deal]);
        launch.args([pages.path(), &self.library]);
        launch.arg(program).args(arguments);
        let mut child = launch
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the launcher can be started");
        let lines = child.stdout.take().expect("a pipe");
        let (tell, begun) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if let Some(at) = line.strip_prefix("begin ").and_then(|at| at.parse().ok()) {
                    let _ = tell.send(at);
                }
            }
        });
        Some(Running {
            watch: Watch::with(&pages.path().join("0"), settings),
            child,
            begun,
            pages,
            _one: one,
        })
    }
}

impl Running<'_> {
    /// When the program was about to hang, in ns of CLOCK_MONOTONIC.
    pub fn begun(&self, limit: Duration) -> Option<u64> {
        self.begun.recv_timeout(limit).ok()
    }

    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Looks repeatedly until `enough` is true, the job has ended, or the time limit is reached.
    /// Returns the last look.
    pub fn until(
        &mut self,
        interval: Duration,
        limit: Duration,
        mut enough: impl FnMut(&Look) -> bool,
    ) -> Option<Look> {
        let begin = Instant::now();
        let mut last = None;
        while begin.elapsed() < limit {
            let look = self.watch.look().expect("a look");
            if enough(&look) {
                return Some(look);
            }
            last = Some(look);
            if self.ended() {
                break;
            }
            std::thread::sleep(interval);
        }
        last
    }

    /// Where the ranks' pages are.
    pub fn pages(&self) -> PathBuf {
        self.pages_of(0)
    }

    /// Where the pages of a node's ranks are.
    pub fn pages_of(&self, node: u32) -> PathBuf {
        self.pages.path().join(node.to_string())
    }

    /// Waits until the looks of another watch show a deadlock: what `watch` has seen so far does
    /// not change.
    pub fn hangs(&self, interval: Duration, limit: Duration) -> bool {
        let mut other = Watch::new(&self.pages());
        let begin = Instant::now();
        while begin.elapsed() < limit {
            if other.look().expect("a look").stuck().is_some() {
                return true;
            }
            std::thread::sleep(interval);
        }
        false
    }

    /// Stops all ranks, and waits until they are.
    pub fn stop(&self) {
        let pids = self.pids();
        pids.iter().for_each(|pid| send(*pid, Signal::STOP));
        let runs = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit(") ").next().unwrap_or_default();
            !state.starts_with(['T', 'Z'])
        };
        while pids.iter().any(runs) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Pids of the ranks.
    pub fn pids(&self) -> Vec<u32> {
        self.watch
            .processes()
            .into_iter()
            .map(|of| of.pid)
            .collect()
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    idlewave_sys::clock::now().get()
}

/// Sends a signal to a process of a job that this test has started; the process may have ended.
pub fn send(pid: u32, signal: Signal) {
    let _ = idlewave_sys::process::send(Pid::new(pid), signal);
}

impl Drop for Running<'_> {
    /// Ends the job: `timeout`, which is the child, passes the signal on, and kills after five
    /// seconds.
    fn drop(&mut self) {
        for pid in self.pids() {
            send(pid, Signal::CONT);
        }
        send(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// The ranks that wait for each other forever, according to a look.
pub fn stuck_ranks(look: &Look) -> Vec<u32> {
    let ranks = look.stuck().map(|found| found.ranks.iter());
    ranks.into_iter().flatten().map(|rank| rank.get()).collect()
}

//! For tests: a gang service, and jobs that count while they run. All are real processes of the
//! command.

// Each test program uses only a part of it.
#![allow(dead_code)]

use idlewave_gang_agent::Control;
use idlewave_gang_agent::control::{Reply, Request, Status};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine: far above what it really takes.
pub const LIMIT: Duration = Duration::from_secs(300);

pub fn kill(pid: u32, signal: i32) {
    Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// A process that ends with the test, cleanly if possible.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            kill(self.0.id(), 15);
        }
        let end = Instant::now() + LIMIT;
        while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls every few milliseconds until it returns something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Name, parent and state of all processes.
pub fn processes() -> Vec<(u32, u32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut after = stat.rsplit_once(") ")?.1.split(' ');
        if after.next()? == "Z" {
            return None;
        }
        let parent = after.next()?.parse().ok()?;
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        Some((pid, parent, words.replace('\0', " ")))
    })
    .collect()
}

pub struct Service {
    pub socket: PathBuf,
    pub fault: PathBuf,
    log: PathBuf,
    more: Vec<String>,
    child: Child,
}

impl Service {
    pub fn start(directory: &Path, more: &[&str]) -> Self {
        let socket = directory.join("gang.sock");
        let fault = directory.join("fault");
        let log = directory.join("log");
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let child = launch(&socket, &fault, &log, &more);
        let service = Self {
            socket,
            fault,
            log,
            more,
            child,
        };
        service.answers();
        service
    }

    fn answers(&self) {
        let nodes = usize::from(!self.more.contains(&"--no-local".to_owned()));
        until("the service answers", || {
            self.try_status().filter(|s| s.nodes.len() >= nodes)
        });
    }

    /// Restarts the service, as a service manager does when it has ended.
    pub fn again(&mut self) {
        let _ = self.child.wait();
        self.child = launch(&self.socket, &self.fault, &self.log, &self.more);
        self.answers();
    }

    pub fn controller(&self) -> u32 {
        self.child.id()
    }

    /// The agent of this node and its watchdog.
    pub fn agent(&self) -> Option<(u32, u32)> {
        let all = processes();
        let of = |parent: u32, word: &str| {
            let mut found = all.iter().filter(|p| p.1 == parent && p.2.contains(word));
            found.next().map(|p| p.0)
        };
        let agent = of(self.child.id(), " agent ")?;
        Some((agent, of(agent, " watchdog")?))
    }

    /// The watchdogs of an agent.
    pub fn watchdogs(&self, agent: u32) -> Vec<u32> {
        let all = processes().into_iter();
        all.filter(|p| p.1 == agent && p.2.contains(" watchdog"))
            .map(|p| p.0)
            .collect()
    }

    pub fn control(&self) -> Control {
        Control::connect(&self.socket).unwrap()
    }

    pub fn try_status(&self) -> Option<Status> {
        match Control::connect(&self.socket).ok()?.ask(&Request::Status) {
            Ok(Reply::Status(status)) => Some(*status),
            _ => None,
        }
    }

    #[track_caller]
    pub fn await_status(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let end = Instant::now() + LIMIT;
        loop {
            let status = self.try_status();
            if let Some(status) = status.filter(|status| wanted(status)) {
                return status;
            }
            if Instant::now() > end {
                let answer =
                    Control::connect(&self.socket).and_then(|mut c| c.ask(&Request::Status));
                let process = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
                panic!("{what}: {answer:#?}\n{process:?}\n{}", self.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        kill(self.child.id(), 15);
        let end = Instant::now() + LIMIT;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(socket: &Path, fault: &Path, log: &Path, more: &[String]) -> Child {
    let file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log)
        .unwrap();
    Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args(["gang", "start", "--socket"])
        .arg(socket)
        .args(["--settle", "100ms"])
        .args(more)
        .env("IDLEWAVE_GANG_FAULT", fault)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()
        .unwrap()
}

/// Every two milliseconds, each rank writes its number and its count to a file. This costs next to
/// nothing, and stops while the rank is frozen. A rank that is not ended exits after some minutes.
const RANK: &str = "
import os,sys,time,struct
f=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT,0o644)
n=0
while n<200000:
    n+=1
    os.pwrite(f,struct.pack('<QQ',os.getpid(),n),0)
    time.sleep(0.002)
";

/// A job of several ranks, submitted by the command.
pub struct Job {
    submit: Child,
    pub ranks: Vec<Rank>,
    /// Processes of the ranks; their files may be gone first.
    pids: Vec<u32>,
}

/// A rank's file.
pub struct Rank(pub PathBuf);

impl Rank {
    /// Its process and how far it has counted.
    pub fn read(&self) -> Option<(u32, u64)> {
        let mut bytes = [0; 16];
        let file = std::fs::File::open(&self.0).ok()?;
        file.read_exact_at(&mut bytes, 0).ok()?;
        let pid = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let count = u64::from_le_bytes(bytes[8..].try_into().unwrap());
        Some((pid as u32, count))
    }
    pub fn count(&self) -> u64 {
        self.read().map_or(0, |(_, count)| count)
    }
    pub fn pid(&self) -> u32 {
        until("the rank runs", || self.read()).0
    }
}

impl Job {
    pub fn start(service: &Service, name: &str, ranks: u32) -> Self {
        let directory = service.socket.parent().unwrap();
        let program = directory.join("rank.py");
        std::fs::write(&program, RANK).unwrap();
        let ranks: Vec<Rank> = (0..ranks)
            .map(|rank| Rank(directory.join(format!("{name}.{rank}"))))
            .collect();
        for rank in &ranks {
            let _ = std::fs::remove_file(&rank.0);
        }
        let mut script = format!("export PMI_SIZE={}\n", ranks.len());
        for (n, rank) in ranks.iter().enumerate() {
            script += &format!(
                "PMI_RANK={n} python3 {} {} &\n",
                program.display(),
                rank.0.display()
            );
        }
        script += "wait\n";
        let said = std::fs::File::create(directory.join(format!("{name}.said"))).unwrap();
        let submit = Command::new(env!("CARGO_BIN_EXE_idlewave"))
            .args(["gang", "submit", "--verbose", "--socket"])
            .arg(&service.socket)
            .args(["--name", name, "--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap();
        let pids = ranks.iter().map(Rank::pid).collect();
        Self {
            submit,
            ranks,
            pids,
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.pids.iter().for_each(|pid| kill(*pid, 9));
        // Its shell ends with its last rank.
        let end = Instant::now() + LIMIT;
        while Instant::now() < end && matches!(self.submit.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.submit.kill();
        let _ = self.submit.wait();
    }
}

/// Existing control groups of agents with these numbers.
pub fn groups_of(agents: &[u32]) -> Vec<String> {
    let freezer = idlewave_freeze::Freezer::choose().freezer;
    let Some(parent) = freezer.parent() else {
        return Vec::new();
    };
    let names = std::fs::read_dir(parent).unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| {
            let owner = name.strip_prefix("idlewave-freeze.");
            let owner = owner.and_then(|rest| rest.split('.').nth(1)?.parse().ok());
            owner.is_some_and(|owner| agents.contains(&owner))
        })
        .collect()
}

/// Files in which these agents list stopped processes.
pub fn journals_of(agents: &[u32]) -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let owner = |name: &String| {
        let rest = name.strip_prefix("idlewave-stopped.")?;
        rest.split('.').nth(1)?.parse().ok()
    };
    names
        .filter(|name| owner(name).is_some_and(|owner| agents.contains(&owner)))
        .collect()
}

/// Existing devices and tickets of this agent.
pub fn left_of(agent: u32) -> Vec<PathBuf> {
    let own = format!("idlewave-devices.{agent}.");
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ticket = name.starts_with("idlewave-netctx-");
        let text = || std::fs::read_to_string(path).unwrap_or_default();
        name.starts_with(&own) || ticket && text().contains(&own)
    };
    entries.map(|entry| entry.path()).filter(ours).collect()
}

//! A program with a known name, period and length that takes CPUs away, and its own record of when
//! it did.

// Each test program uses only a part of it.
#![allow(dead_code, clippy::unwrap_used)]

use idlewave_run::tables::{Bursts, TaskKind, Tasks};
use idlewave_run::{RunReader, Table};
use idlewave_sys::process::{Signal, send};
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A CPU, start and end in nanoseconds.
pub type Stretch = (Cpu, u64, u64);

/// What the culprit did by its own account.
pub struct Done {
    /// Median CPU time of a run, if there was one.
    pub ran_ns: Option<f64>,
    /// Every run.
    pub runs: Vec<Stretch>,
}

/// How long a culprit may take to begin.
const LIMIT: Duration = Duration::from_secs(300);

/// A culprit at work; ends when it is dropped.
pub struct Culprit(Child);

impl Drop for Culprit {
    fn drop(&mut self) {
        // Both fail only if it has been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Culprit {
    /// Starts a culprit that runs for `length_us` every `period_us` on `cpus` in turn, and waits
    /// until it has its name.
    pub fn start(name: &str, length_us: u32, period_us: u32, seconds: u32, cpus: &[Cpu]) -> Self {
        let cpus: Vec<String> = cpus.iter().map(Cpu::to_string).collect();
        let child = Command::new(culprit_program())
            .arg(name)
            .arg(format!("{length_us}us"))
            .arg(format!("{period_us}us"))
            .arg(format!("{seconds}s"))
            .arg(cpus.join(","))
            .stdout(Stdio::piped())
            .spawn();
        let mut culprit = Self(child.unwrap());
        let comm = format!("/proc/{}/comm", culprit.0.id());
        let begin = Instant::now();
        while std::fs::read_to_string(&comm).unwrap().trim_end() != name {
            assert!(culprit.0.try_wait().unwrap().is_none(), "{name} has ended");
            assert!(begin.elapsed() < LIMIT, "{name} does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        culprit
    }

    /// Ends it before its time.
    pub fn end(self) -> Done {
        send(Pid::new(self.0.id()), Signal::TERM).unwrap();
        self.finish()
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Done {
        let mut line = Vec::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_end(&mut line).unwrap();
        Done::read(&line)
    }
}

impl Done {
    fn read(stdout: &[u8]) -> Self {
        let line: serde_json::Value = serde_json::from_slice(stdout).unwrap();
        let runs = line["runs"].as_array().unwrap();
        Self {
            ran_ns: line["ran_ns"]["median"].as_f64(),
            runs: runs
                .iter()
                .map(|r| {
                    let cpu = Cpu::new(r[0].as_u64().unwrap() as u32);
                    (cpu, r[1].as_u64().unwrap(), r[2].as_u64().unwrap())
                })
                .collect(),
        }
    }
}

/// Whether any of `list`, in order and without overlaps, lies on the CPU and in the time of `step`.
pub fn overlaps(list: &[Stretch], step: &Stretch) -> bool {
    let &(cpu, begin, end) = step;
    let first = list.partition_point(|r| r.2 <= begin);
    list[first..]
        .iter()
        .take_while(|r| r.1 < end)
        .any(|r| r.0 == cpu)
}

/// The example `culprit` of this package. It has been built when the tests of the whole package
/// run.
fn culprit_program() -> PathBuf {
    let idlewave = Path::new(env!("CARGO_BIN_EXE_idlewave"));
    let program = idlewave.with_file_name("examples").join("culprit");
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--offline",
                "-p",
                "idlewave",
                "--example",
                "culprit",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(
            built.success() && program.exists(),
            "no {}",
            program.display()
        );
    }
    program
}

/// The first two CPUs this process may use.
pub fn two_cpus() -> Option<[Cpu; 2]> {
    let allowed = idlewave_sys::affinity::allowed().ok()?;
    let mut allowed = allowed.iter();
    Some([allowed.next()?, allowed.next()?])
}

/// Nanoseconds of `list`, in order and without overlaps, on the CPU and in the time of `stretch`.
pub fn overlap(list: &[Stretch], stretch: &Stretch) -> u64 {
    let &(cpu, begin, end) = stretch;
    let first = list.partition_point(|r| r.2 <= begin);
    list[first..]
        .iter()
        .take_while(|r| r.1 < end)
        .filter(|r| r.0 == cpu)
        .map(|r| r.2.min(end) - r.1.max(begin))
        .sum()
}

/// Bursts of programs that are neither ranks nor the culprit, by CPU.
pub struct Strangers(BTreeMap<Cpu, Vec<Stretch>>);

impl Strangers {
    /// By the trace of this node.
    pub fn of(run: &RunReader, node: NodeId, culprit: &str) -> Self {
        let tasks = run.read::<Tasks>().unwrap();
        let known = [TaskKind::Idle, TaskKind::Kernel, TaskKind::Rank];
        let strange: BTreeSet<Pid> = tasks
            .rows()
            .filter(|t| t.node == node && !known.contains(&t.kind) && t.name != culprit)
            .map(|t| t.pid)
            .collect();
        let mut bursts: BTreeMap<Cpu, Vec<Stretch>> = BTreeMap::new();
        for b in run.read::<Bursts>().unwrap().rows() {
            if b.node == node && strange.contains(&b.pid) {
                let stretch = (b.cpu, b.begin_ns, b.end_ns);
                bursts.entry(b.cpu).or_default().push(stretch);
            }
        }
        for list in bursts.values_mut() {
            list.sort_by_key(|b| b.1);
        }
        Self(bursts)
    }

    pub fn ran_in(&self, step: &Stretch) -> bool {
        self.0.get(&step.0).is_some_and(|b| overlaps(b, step))
    }
}

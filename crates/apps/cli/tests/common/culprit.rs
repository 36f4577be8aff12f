//! A program with a known name, period and length that takes CPUs away, and its own record of when
//! it did.

// Each test program uses only a part of it.
#![allow(dead_code, clippy::unwrap_used)]

use idlewave_units::Cpu;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A CPU, start and end in nanoseconds.
pub type Stretch = (Cpu, u64, u64);

/// What the culprit did by its own account.
pub struct Done {
    /// Median CPU time of a run.
    pub ran_ns: f64,
    /// Every run.
    pub runs: Vec<Stretch>,
}

/// A culprit at work.
pub struct Culprit(Child);

impl Culprit {
    /// Starts a culprit that runs for `length_us` every `period_us` on `cpus` in turn.
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
        Self(child.unwrap())
    }

    /// Waits for its end.
    pub fn finish(self) -> Done {
        Done::read(&self.0.wait_with_output().unwrap().stdout)
    }
}

impl Done {
    fn read(stdout: &[u8]) -> Self {
        let line: serde_json::Value = serde_json::from_slice(stdout).unwrap();
        let runs = line["runs"].as_array().unwrap();
        Self {
            ran_ns: line["ran_ns"]["median"].as_f64().unwrap(),
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

//! Recordings that a signal ends: it reaches the program, or kills the recorder.

use super::*;

/// Waits for something to be done.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether all ranks have finished everything but sleeping.
fn all_sleep(dir: &Path) -> bool {
    (0..RANKS).all(|rank| dir.join(format!("sleeps.{rank}")).exists())
}

fn spill_bytes(run: &Path) -> u64 {
    fs::metadata(run.join("spill")).map_or(0, |meta| meta.len())
}

/// Starts a recording, and waits until its records are there and its ranks sleep. Starts it again if
/// the launcher fails by itself, as on a busy machine.
fn sleeping(mpi: &Installation, dir: &Path, path: &Path) -> Child {
    let end = ["300", "sleep", dir.to_str().unwrap()];
    let sleeps = || spill_bytes(path) > 100_000 && all_sleep(dir);
    let launch = || {
        let mut child = started(&mut record(mpi, path, &known(mpi), &end));
        until(&format!("records of {}", mpi.name), || {
            sleeps() || child.try_wait().unwrap().is_some()
        });
        if sleeps() {
            return Some(child);
        }
        let done = wait(child);
        assert!(launcher_failed(&done.stderr), "{done:?}");
        let _ = fs::remove_dir_all(path);
        None
    };
    let child = (0..5).find_map(|_| launch());
    child.expect("a launcher that works")
}

fn signal(pid: u32) {
    send(Pid::new(pid), Signal::TERM).unwrap();
}

#[test]
fn a_signal_is_passed_on_and_the_run_says_so() {
    for mpi in with_compilers() {
        let dir = scratch();
        let path = dir.path().join("run");
        let child = sleeping(&mpi, dir.path(), &path);
        let pid = child.id();
        signal(pid);
        let done = wait(child);
        assert_clean(pid);
        // The launcher's exit code is its own affair.
        let run = open(&path);
        assert_eq!(
            run.manifest().incomplete,
            Some(Incomplete::Signal(Signal::TERM.as_raw()))
        );
        assert_eq!(exit_code(&run), done.code, "{}: {done:?}", mpi.name);
        assert_eq!(of(&calls(&run), 0, "MPI_Allreduce"), ITERATIONS);
    }
}

#[test]
fn the_second_signal_kills_a_program_that_ignores_the_first() {
    let dir = scratch();
    let path = dir.path().join("run");
    let mut command = idlewave();
    command
        .args(["record", "--no-report", "-o"])
        .arg(&path)
        .arg("--");
    let ready = dir.path().join("ready");
    let script = "trap '' INT TERM; : >\"$0\"; sleep 600 & wait; sleep 600";
    let child = started(command.args(["sh", "-c", script]).arg(&ready));
    let pid = child.id();
    until("the program", || ready.exists());
    signal(pid);
    common::await_delivery(pid, Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    signal(pid);
    let done = wait(child);
    assert_clean(pid);
    assert_eq!(done.code, Some(128 + Signal::KILL.as_raw()), "{done:?}");
    assert_eq!(
        open(&path).manifest().incomplete,
        Some(Incomplete::Signal(Signal::TERM.as_raw()))
    );
}

#[test]
fn a_recorder_that_was_killed_leaves_a_run_that_is_made_whole() {
    for mpi in with_compilers() {
        let dir = scratch();
        let path = dir.path().join("run");
        let mut child = sleeping(&mpi, dir.path(), &path);
        // The program must not outlive the test.
        let below = descendants(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        for pid in below {
            // A process that has ended is not an error.
            let _ = send(Pid::new(pid), Signal::KILL);
        }
        assert_eq!(open(&path).manifest().state, RunState::Recording);
        // Another recording removes the kernel trace but leaves the rings alone.
        let place = dir.path().join("next");
        let mut next = idlewave();
        next.args(["record", "--no-report", "-o"]).arg(&place);
        ended(next.args(["--", "true"])).succeeded();
        let explained = common::again("explain", &path);
        explained.succeeded();
        let run = open(&path);
        assert_eq!(run.manifest().incomplete, Some(Incomplete::Killed));
        assert_eq!(exit_code(&run), None);
        for rank in 0..RANKS {
            assert_eq!(
                of(&calls(&run), rank, "MPI_Allreduce"),
                ITERATIONS,
                "{}",
                mpi.name
            );
        }
        assert!(!path.join("spill").exists() && !path.join("rings").exists());
        assert_clean(child.id());
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = children
        .split_whitespace()
        .filter_map(|p| p.parse().ok())
        .collect();
    children
        .iter()
        .flat_map(|&child| descendants(child).into_iter().chain([child]))
        .collect()
}

//! `idlewave gang submit`: what it observes of ranks that take turns, and what follows from it.
//! Services that cannot be started, and an interrupted study.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run, wait};
use idlewave_mpi::testing::{Installation, installation, skip};
use idlewave_sys::process::{Signal, send};
use idlewave_units::Pid;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Far above any expected duration: no test passes or fails on timing.
const LIMIT: Duration = Duration::from_secs(300);

/// A separate service for the test; ends with it.
struct Service {
    directory: tempfile::TempDir,
}

impl Service {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let service = Self { directory };
        run(service
            .ask("start")
            .args(["--background", "--slice", "10ms"]))
        .succeeded();
        service
    }

    fn ask(&self, what: &str) -> std::process::Command {
        let mut command = idlewave();
        command.args(["gang", what, "--socket"]);
        command.arg(self.directory.path().join("socket"));
        command
    }

    /// A command with two ranks, whose outputs are read.
    fn submit(&self, mpi: &Installation, options: &[&str], program: &Path, what: &[&str]) -> Job {
        let mut command = self.ask("submit");
        mpi.prepare(&mut command);
        // Ranks that yield their CPUs get none next to other load, and seem idle.
        command.env("OMPI_MCA_mpi_yield_when_idle", "0");
        command.args(options).arg("--").arg(&mpi.mpirun);
        command.args(&mpi.options).args(["-n", "2"]);
        command.arg(program).args(what);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Job(Some(piped.spawn().unwrap()))
    }

    fn gangs(&self) -> Vec<Value> {
        let done = run(self.ask("list").arg("--json"));
        done.succeeded();
        let document: Value = serde_json::from_str(&done.stdout).unwrap();
        document["gangs"].as_array().unwrap().clone()
    }

    /// Waits until the gang of that program is as wanted; returns it.
    #[track_caller]
    fn until(&self, program: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let gangs = self.gangs();
            let own = |gang: &&Value| gang["name"].as_str().unwrap().contains(program);
            if let Some(gang) = gangs.iter().find(own).filter(|gang| wanted(gang)) {
                return gang.clone();
            }
            assert!(begin.elapsed() < LIMIT, "{program}: {gangs:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Service {
    /// Ends a gang that would continue; nothing else was reported about it.
    fn end(&self, program: &str, job: Job) {
        let gang = self.until(program, switched)["gang"].to_string();
        run(self.ask("cancel").arg(gang)).succeeded();
        let done = job.wait();
        assert!(!done.stderr.contains("deadlock"), "{done:?}");
    }
}

/// A submitted command; ended if a test fails.
struct Job(Option<Child>);

impl Job {
    fn runs(&mut self) -> bool {
        let child = self.0.as_mut().unwrap();
        child.try_wait().unwrap().is_none()
    }

    fn wait(mut self) -> Ended {
        wait(self.0.take().unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = send(Pid::new(child.id()), Signal::TERM);
            let _ = child.wait();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.ask("stop").output();
    }
}

/// The program of the tests of `idlewave-hangs`.
fn program() -> Option<(tempfile::TempDir, Installation, PathBuf)> {
    let mpi = installation("openmpi4").or_else(|| installation("mpich4"))?;
    let directory = tempfile::tempdir().unwrap();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../act/hangs/tests/programs/hangs.c");
    let program = directory.path().join("hangs");
    if mpi.compile_c(&source, &program).is_none() {
        skip(&format!("{} has no C compiler", mpi.name));
        return None;
    }
    Some((directory, mpi, program))
}

fn switched(gang: &Value) -> bool {
    gang["stage"] == "running"
}

#[test]
fn gangs_that_work_in_turns_are_never_seen_to_do_anything_else() {
    let Some((_directory, mpi, program)) = program() else {
        return;
    };
    let service = Service::start();
    let (mut looks, mut idle, mut rounds) = (0, 0, 0);
    // On a busy machine, jobs may end after only a few looks.
    while looks <= 20 {
        rounds += 1;
        assert!(rounds < 50, "{looks}");
        let mut jobs =
            ["pingpong", "mixed"].map(|what| service.submit(&mpi, &["-v"], &program, &[what, "5"]));
        while jobs.iter_mut().all(Job::runs) {
            for gang in service.gangs().iter().filter(|gang| switched(gang)) {
                looks += 1;
                idle += u32::from(gang["idle"] == true);
                let observed = gang["observed"].as_str();
                // A rank that was frozen between two looks seems idle, which does not count. Ranks that
                // take long to start are admitted before they are seen.
                assert!(
                    matches!(observed, None | Some("progressing" | "idle" | "terminated")),
                    "{gang:#?}"
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for job in jobs {
            let done = job.wait();
            done.succeeded();
            assert!(done.stderr.contains("no deadlock was seen"), "{done:?}");
        }
    }
    // A gang that others keep off the CPUs for two turns uses neither turn.
    assert!(2 * idle < looks, "idle at {idle} of {looks} looks");
}

#[test]
fn a_deadlocked_gang_leaves_its_turns_to_the_other_and_is_ended_if_that_is_asked_for() {
    leaves_its_turns(&[]);
}

#[test]
fn a_deadlocked_gang_with_contexts_leaves_its_turns_too() {
    leaves_its_turns(&["--context", "1MiB"]);
}

/// A gang that works and then two that are deadlocked, submitted with these options.
fn leaves_its_turns(options: &[&str]) {
    let Some((_directory, mpi, program)) = program() else {
        return;
    };
    let service = Service::start();
    let works = service.submit(&mpi, options, &program, &["pingpong", "900"]);
    service.until("pingpong", switched);
    let killed = [options, &["--kill", "-v"]].concat();
    let hangs = service.submit(&mpi, &killed, &program, &["receive"]);
    let done = hangs.wait();
    assert_eq!(done.code, Some(6), "{done:?}");
    let cycle = "rank 0 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)";
    assert_eq!(done.stderr.matches(cycle).count(), 1, "{done:?}");

    let hangs = service.submit(&mpi, options, &program, &["mismatch"]);
    let dead = |gang: &Value| gang["observed"]["deadlocked"]["ranks"] == 2 && switched(gang);
    let before = service.until("mismatch", dead);
    let list = run(&mut service.ask("list"));
    assert!(list.stdout.contains(" deadlocked "), "{list:?}");
    let of = |what: &str| service.until(what, switched)["turns"].as_u64().unwrap();
    // A working gang that others keep from the CPUs counts as idle, and the dead one gets its turn.
    let frozen = (0..20).any(|_| {
        let (dead, other) = (of("mismatch"), of("pingpong"));
        std::thread::sleep(Duration::from_millis(500));
        service.until("pingpong", |gang| {
            switched(gang) && gang["turns"].as_u64().unwrap() > other
        });
        of("mismatch") == dead
    });
    assert!(frozen, "the deadlocked gang still gets turns");
    let metrics = run(&mut service.ask("metrics"));
    let told = metrics
        .stdout
        .lines()
        .find(|line| line.starts_with("idlewave_gang_deadlocked{") && line.contains("mismatch"));
    assert!(told.is_some_and(|line| line.ends_with(" 1")), "{metrics:?}");
    let forged = "\nidlewave_gang_forged_frames_total{node=\"0\"} 0\n";
    assert!(metrics.stdout.contains(forged), "{metrics:?}");
    let gang = before["gang"].to_string();
    run(service.ask("cancel").arg(gang)).succeeded();
    let done = hangs.wait();
    assert_ne!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stderr.matches("idlewave: deadlock: 2 of 2").count(), 1);
    service.end("pingpong", works);
}

#[test]
fn a_gang_that_sleeps_between_its_phases_is_idle_and_comes_back() {
    let Some((_directory, mpi, program)) = program() else {
        return;
    };
    let service = Service::start();
    let works = service.submit(&mpi, &[], &program, &["pingpong", "900"]);
    service.until("pingpong", switched);
    let seen = service.directory.path().join("seen");
    let what = ["phases", seen.to_str().unwrap()];
    let sleeps = service.submit(&mpi, &[], &program, &what);
    service.until("phases", |gang| gang["idle"] == true);
    let before = service.until("phases", |gang| {
        gang["idle"] == true && gang["observed"] == "idle"
    });
    let back = |gang: &Value| gang["idle"] == false && gang["observed"] == "progressing";
    let after = service.until("phases", back);
    assert!(after["turns"].as_u64() > before["turns"].as_u64());
    service.until("phases", |gang| gang["idle"] == true);
    std::fs::write(seen, "").unwrap();
    let done = sleeps.wait();
    done.succeeded();
    assert!(!done.stderr.contains("deadlock"), "{done:?}");
    service.end("pingpong", works);
}

#[test]
fn what_is_no_mpi_program_or_is_not_to_be_watched_runs_as_ever() {
    let service = Service::start();
    let mut plain = service.ask("submit");
    let done = run(plain.args(["--", "sh", "-c", "echo out; test -n \"$LD_PRELOAD\""]));
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "out\n"),
        "{done:?}"
    );
    let mut unwatched = service.ask("submit");
    let words = ["--no-watch", "--", "sh", "-c", "exit 7${IDLEWAVE_STATE}"];
    let done = run(unwatched.env_remove("IDLEWAVE_STATE").args(words));
    assert_eq!(done.code, Some(7), "{done:?}");
    let mut both = service.ask("submit");
    let done = run(both.args(["--no-watch", "--kill", "--", "true"]));
    assert_eq!(done.code, Some(2), "{done:?}");
}

#[test]
fn a_second_service_at_a_socket_is_refused_and_leaves_what_the_first_has() {
    let service = Service::start();
    let beside = || {
        let read = |name| std::fs::read(service.directory.path().join(name)).unwrap();
        ["socket.key", "socket.log"].map(read)
    };
    let before = beside();
    for options in [&["--background"][..], &[]] {
        let second = run(service.ask("start").args(options));
        let [what, next] = second.failed(3);
        assert!(what.ends_with("a gang service is already running there"));
        assert!(next.contains("idlewave gang stop"), "{next}");
        assert_eq!(beside(), before);
    }
    service.gangs();
}

#[test]
fn a_service_makes_no_directory_for_a_socket_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let mut start = idlewave();
    start.args(["gang", "start", "--background", "--socket"]);
    let done = run(start.arg(absent.join("socket")));
    let [what, next] = done.failed(2);
    assert!(what.contains("there is no directory"), "{what}");
    assert!(next.starts_with("create it"), "{next}");
    assert!(!absent.exists());
}

#[test]
fn a_study_whose_processes_are_all_told_to_end_says_that_it_was_interrupted() {
    use std::os::unix::process::CommandExt as _;
    let mut study = idlewave();
    study.args(["gang", "study", "--slices", "20ms", "--repeats", "1"]);
    // Short alone, long if a service switches both.
    let program =
        "test -e \"$TMPDIR\"/*/3/gang.sock || exec sleep 0.5; : >\"$BEGUN\"; exec sleep 600";
    study.args(["--", "sh", "-c", program]);
    study.args([":::", "sh", "-c", program]);
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let begun = other.path().join("begun");
    study.env("TMPDIR", directory.path()).process_group(0);
    study.env("BEGUN", &begun);
    let piped = study.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.spawn().unwrap();
    let begin = Instant::now();
    while !begun.exists() {
        assert!(begin.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", child.id());
    let killed = std::process::Command::new("kill")
        .args(["-TERM", "--", &group])
        .status();
    assert!(killed.unwrap().success());
    let done = wait(child);
    assert_ne!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("interrupted"), "{done:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

//! Tests the real tracer of this machine. Where it may not be used, the tests say so and end.

#![allow(clippy::unwrap_used)]

use idlewave_capture::tracefs::{Instance, TraceConfig, TraceSession, Tracefs, clean_stale};
use idlewave_ftrace::{RawCapture, decode_capture, pages_path};
use idlewave_run::RunWriter;
use idlewave_run::testing::empty_manifest;
use idlewave_sys::process::own_thread;
use idlewave_units::{CpuSet, NodeId, Pid};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

/// Set for the process that is killed while it records.
const RECORD_UNTIL_KILLED: &str = "IDLEWAVE_TEST_RECORD_INTO";

/// One test at a time looks at the list of instances.
static INSTANCES: Mutex<()> = Mutex::new(());

fn tracefs() -> Option<Tracefs> {
    let found = Tracefs::find(Path::new("/")).and_then(|t| Instance::create(&t).map(|_| t));
    match found {
        Ok(tracefs) => Some(tracefs),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn instances_of(tracefs: &Tracefs, pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tracefs.root().join("instances"))
        .unwrap()
        .flatten();
    let ours = |name: &str| {
        name.starts_with("idlewave-") && name.split('-').nth(2) == Some(&pid.to_string())
    };
    entries
        .filter(|e| ours(&e.file_name().to_string_lossy()))
        .map(|e| e.path())
        .collect()
}

fn config(dir: &Path) -> TraceConfig {
    let mut cpus = CpuSet::new();
    cpus.insert(idlewave_sys::affinity::current());
    TraceConfig {
        raw_dir: dir.join("raw"),
        cpus,
        syscalls: false,
    }
}

#[test]
fn a_recording_leaves_pages_formats_and_no_instance() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let mut session = TraceSession::start(Path::new("/"), &config).unwrap();
    session.note(Pid::new(7), "iw-rank-0", true);
    session.watch_ranks(&[own_thread()]).unwrap();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(instances_of(&tracefs, std::process::id()).len(), 1);
    let summary = session.stop().unwrap();
    assert!(instances_of(&tracefs, std::process::id()).is_empty());
    assert!(
        summary.cost.events > 0 && summary.cost.wall.get() > 90_000_000,
        "{summary:?}"
    );
    let raw = config.raw_dir;
    let capture = RawCapture::load(&raw).unwrap();
    assert!(capture.off_ns.is_some_and(|off| off > capture.on_ns));
    assert!(
        capture
            .tasks
            .iter()
            .any(|t| t.rank && t.name == "iw-rank-0")
    );
    assert!(
        capture
            .tasks
            .iter()
            .any(|t| t.own && t.name == "idlewave-reader")
    );
    for cpu in &capture.cpus {
        let bytes = std::fs::metadata(pages_path(&raw, *cpu)).unwrap().len();
        assert!(
            bytes > 0 && bytes % u64::from(capture.page_size) == 0,
            "{bytes}"
        );
        assert_eq!(capture.stats_of(*cpu).unwrap().bytes, bytes);
    }
    let header = std::fs::read_to_string(raw.join("header_page")).unwrap();
    assert!(header.contains("timestamp") && header.contains("commit") && header.contains("data"));
    let format = std::fs::read_to_string(raw.join("formats/sched/sched_switch")).unwrap();
    assert!(format.contains("prev_pid"));
}

#[test]
fn a_recording_that_is_dropped_leaves_no_instance() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    drop(TraceSession::start(Path::new("/"), &config(dir.path())).unwrap());
    assert!(instances_of(&tracefs, std::process::id()).is_empty());
}

/// Lets another process record into `dir`, and kills it meanwhile.
fn killed_recording(dir: &Path) -> u32 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "helper_that_records_until_it_is_killed",
            "--ignored",
        ])
        .env(RECORD_UNTIL_KILLED, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..15_000 {
        if RawCapture::load(&dir.join("raw")).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(400));
    child.kill().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn what_a_killed_recording_leaves_is_removed_by_the_next_one() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    // A recording of another process may remove it before this one does.
    let removed_here = (0..5).any(|_| {
        let dir = tempfile::tempdir().unwrap();
        let pid = killed_recording(dir.path());
        let left = instances_of(&tracefs, pid).len();
        let removed = clean_stale(&tracefs).unwrap();
        assert!(instances_of(&tracefs, pid).is_empty());
        let capture = RawCapture::load(&dir.path().join("raw")).unwrap();
        assert!(capture.off_ns.is_none(), "what was recorded can be read");
        left == 1 && removed >= 1
    });
    assert!(removed_here, "SIGKILL leaves the instance");
}

#[test]
#[ignore = "run by another test as a process of its own"]
fn helper_that_records_until_it_is_killed() {
    let Some(dir) = std::env::var_os(RECORD_UNTIL_KILLED) else {
        return;
    };
    let _session = TraceSession::start(Path::new("/"), &config(Path::new(&dir))).unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn the_instance_of_a_living_process_is_left_alone() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let instance = Instance::create(&tracefs).unwrap();
    clean_stale(&tracefs).unwrap();
    assert_eq!(instances_of(&tracefs, std::process::id()).len(), 1);
    instance.remove().unwrap();
}

#[test]
fn tracing_works_where_tracefs_is_not_mounted() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    if tracefs().is_none() {
        return;
    }
    match Tracefs::detached() {
        Err(error) => println!("skipped: {error}"),
        Ok(detached) => {
            let instance = Instance::create(&detached).unwrap();
            instance.write("trace_clock", "mono").unwrap();
            assert!(instance.read("trace_clock").unwrap().contains("[mono]"));
            instance.remove().unwrap();
        }
    }
}

fn can_be_written(marker: &Path) -> bool {
    let written = std::fs::write(marker, "before");
    if let Err(error) = &written {
        println!("skipped: nothing can be written to trace_marker: {error}");
    }
    written.is_ok()
}

#[test]
fn a_recording_that_begins_or_ends_refuses_no_line_of_a_program() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let marker = tracefs.root().join("trace_marker");
    if !can_be_written(&marker) {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    std::thread::scope(|scope| {
        // The sender is dropped at the end, or when a session fails.
        let (tracing, traced) = channel::<()>();
        let (write, written) = channel();
        let writer = scope.spawn(move || {
            let refused = || std::fs::write(&marker, "a line").err();
            let mut lines = 0;
            while traced.try_recv() == Err(TryRecvError::Empty) {
                if let Some(error) = refused() {
                    return Err(error);
                }
                lines += 1;
                if lines == 1 {
                    let _ = write.send(());
                }
            }
            Ok(lines)
        });
        // Until the first line is written, or refused.
        let _ = written.recv();
        for _ in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            let config = TraceConfig {
                raw_dir: dir.path().join("raw"),
                cpus: online.trim().parse().unwrap(),
                syscalls: false,
            };
            let session = TraceSession::start(Path::new("/"), &config).unwrap();
            session.stop().unwrap();
        }
        drop(tracing);
        let lines = writer.join().unwrap();
        assert!(lines.as_ref().is_ok_and(|lines| *lines > 0), "{lines:?}");
    });
}

#[test]
fn a_recording_of_one_cpu_refuses_no_line_on_another_and_copies_none() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let marker = tracefs.root().join("trace_marker");
    if !can_be_written(&marker) {
        return;
    }
    let allowed = idlewave_sys::affinity::allowed().unwrap();
    for recorded in allowed.iter() {
        let dir = tempfile::tempdir().unwrap();
        let one = TraceConfig {
            cpus: [recorded].into_iter().collect(),
            ..config(dir.path())
        };
        let session = TraceSession::start(Path::new("/"), &one).unwrap();
        for cpu in allowed.iter() {
            let write = || {
                idlewave_sys::affinity::bind(&[cpu].into_iter().collect()).unwrap();
                std::fs::write(&marker, "a line")
            };
            let written = std::thread::scope(|scope| scope.spawn(write).join().unwrap());
            assert!(
                written.is_ok(),
                "on {cpu}, recorded: {recorded}: {written:?}"
            );
        }
        session.stop().unwrap();
        let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
        let (raw, node, stop) = (&one.raw_dir, NodeId::new(0), AtomicBool::new(false));
        let summary = decode_capture(raw, node, &mut out, &stop, &|_| {}).unwrap();
        let lines = summary.lines;
        assert!(allowed.len() == 1 || lines.is_none(), "{lines:?}");
    }
}

#[test]
fn lines_written_to_the_top_level_trace_marker_are_recorded_where_the_kernel_copies_them() {
    let _one = INSTANCES.lock().unwrap_or_else(|e| e.into_inner());
    let Some(tracefs) = tracefs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let config = TraceConfig {
        raw_dir: out.path().join("raw"),
        cpus: online.trim().parse().unwrap(),
        syscalls: false,
    };
    let session = TraceSession::start(Path::new("/"), &config).unwrap();
    let own = format!("step of process {}", std::process::id());
    std::fs::write(tracefs.root().join("trace_marker"), &own).unwrap();
    session.stop().unwrap();
    let thread = own_thread();
    let stop = AtomicBool::new(false);
    let summary =
        decode_capture(&config.raw_dir, NodeId::new(0), &mut out, &stop, &|_| {}).unwrap();
    let Some(lines) = summary.lines else {
        println!("skipped: this kernel copies no lines (Linux 6.15 does)");
        return;
    };
    let mine: Vec<_> = lines.iter().filter(|line| line.text == own).collect();
    assert_eq!(mine.len(), 1, "{lines:?}");
    assert_eq!(mine[0].thread, Some(thread));
}

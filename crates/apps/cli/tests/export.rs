//! `idlewave export`: what it writes and prints, and what it refuses.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, bundle, idlewave, run, signal, wait};
use idlewave_fit::Selfish;
use idlewave_formats::import::{Ask, import};
use idlewave_mpi::testing::skip;
use idlewave_run::tables::*;
use idlewave_run::{Phase, PhaseKind, RunReader};
use idlewave_sys::process::Signal;
use idlewave_units::{Cpu, Nanos, Pid};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

fn export(dir: &TempDir, options: &[&str]) -> Ended {
    run(idlewave()
        .arg("export")
        .arg(bundle())
        .args(options)
        .current_dir(dir))
}

#[test]
fn a_run_becomes_a_paraver_trace_and_every_loss_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "paraver", "-o", "before.prv"]);
    ended.succeeded();
    for part in [
        "EXPORT to paraver\n",
        "  before.prv: ",
        " records, ",
        "before.cfgs/",
        "\nLOST\n",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    for name in [
        "before.prv",
        "before.pcf",
        "before.row",
        "before.cfgs/who_ran_while_late.cfg",
    ] {
        assert!(fs::metadata(dir.path().join(name)).unwrap().len() > 0);
    }
    assert_eq!(
        fs::read_dir(&dir).unwrap().count(),
        4,
        "nothing is left beside"
    );
    // The same run gives the same bytes.
    export(&dir, &["--to", "paraver", "-o", "again.prv"]).succeeded();
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("before.prv"), bytes("again.prv"));
    assert_eq!(bytes("before.pcf"), bytes("again.pcf"));
    export(&dir, &["--to", "paraver", "-o", "again.prv"]).failed(4);
}

#[test]
fn json_says_the_same_below_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "csv", "-o", "tables", "--json"]);
    ended.succeeded();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(document["header"].is_object());
    assert_eq!(document["format"], "csv");
    let files = document["files"].as_array().unwrap();
    assert_eq!(
        fs::read_dir(dir.path().join("tables")).unwrap().count(),
        files.len()
    );
    for file in files {
        let path = dir.path().join(file["path"].as_str().unwrap());
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.len() as u64, file["bytes"].as_u64().unwrap());
        assert_eq!(
            text.lines().count() as u64,
            file["records"].as_u64().unwrap() + 1
        );
    }
    assert_eq!(document["losses"], Value::Array(Vec::new()));
}

/// Start, from the first detour of the CPU, and length in nanoseconds.
type Detour = (u64, u64);

#[test]
fn exported_noise_is_read_as_the_detours_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir, &["--to", "selfish", "-o", "noise"]).succeeded();
    let run_before = RunReader::open(bundle()).unwrap();
    let is_detour = |phase: &Phase| matches!(phase.kind, PhaseKind::Detour { .. });
    let phase = run_before.manifest().phases.iter().position(is_detour);
    let mut measured: BTreeMap<u32, Vec<Detour>> = BTreeMap::new();
    run_before
        .for_each::<Detours>(|row| {
            if Some(row.phase as usize) == phase {
                let of_cpu = measured.entry(row.cpu.get()).or_default();
                of_cpu.push((row.begin_ns, row.length.get()));
            }
        })
        .unwrap();
    assert!(!measured.is_empty());
    for (cpu, mut detours) in measured {
        detours.sort_unstable();
        // Merge detours that touch.
        detours.dedup_by(|next, before| {
            let touch = next.0 <= before.0 + before.1;
            if touch {
                before.1 = before.1.max(next.0 + next.1 - before.0);
            }
            touch
        });
        let first = detours[0].0;
        detours.iter_mut().for_each(|detour| detour.0 -= first);
        let file = dir.path().join(format!("noise/cpu{cpu}.selfish"));
        let read = Selfish::read(&fs::read(file).unwrap()).unwrap();
        let read: Vec<Detour> = read.events.into_iter().collect();
        assert_eq!(read, detours);
    }
}

#[test]
fn what_is_no_format_or_no_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "otf9"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("paraver"), "{}", ended.stderr);
    let none = run(idlewave()
        .args(["export", "none", "--to", "csv"])
        .current_dir(&dir));
    none.failed(5);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    for there in ["a.prv", "a.pcf", "a.row", "a.cfgs"] {
        let there = dir.path().join(there);
        fs::write(&there, "mine").unwrap();
        let [what, next] = export(&dir, &["--to", "paraver", "-o", "a.prv"]).failed(4);
        assert!(what.contains("it already exists"), "{what}");
        assert!(next.contains("another name with -o"), "{next}");
        assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
        fs::remove_file(&there).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }
    let [_, next] = export(&dir, &["--to", "paraver", "-o", "a.pcf"]).failed(2);
    assert!(next.contains("-o a.pcf.prv"), "{next}");
    // Anything that is not a file stays what it is.
    for (there, leads_to) in [("full", "/dev/full"), ("link", "nowhere")] {
        let link = dir.path().join(there);
        symlink(leads_to, &link).unwrap();
        let [_, next] = export(&dir, &["--to", "chrome", "-o", there]).failed(4);
        assert!(next.contains("a new name with -o"), "{next}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(leads_to));
    }
}

/// A trace of many events, so that reading and writing it takes a while.
fn large_trace(path: &Path) {
    let mut text = String::from("# tracer: nop\n");
    for second in 0..150 {
        for ms in 0..1_000 {
            let (from, to) = [("solver", "crond"), ("crond", "solver")][ms % 2];
            let (prev, next) = [(7, 8), (8, 7)][ms % 2];
            text += &format!(
                "{from}-{prev} [000] d..2. {second}.{ms:03}000: sched_switch: prev_comm={from} \
                 prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm={to} next_pid={next} \
                 next_prio=120\n"
            );
        }
    }
    fs::write(path, text).unwrap();
}

/// Starts a command, interrupts it once it has begun to write into `dir`, and asserts that it ends
/// as it should and leaves what was there. Starts it again if it had done its work before: on a busy
/// machine this process may not run meanwhile.
fn interrupted(dir: &TempDir, arguments: &[&str]) {
    let names = || {
        let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
        entries.collect::<BTreeSet<_>>()
    };
    let before = names();
    let mut command = idlewave();
    command.args(arguments).current_dir(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    for _ in 0..10 {
        let mut child = command.spawn().unwrap();
        while names() == before && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_none() {
            signal(&child, Signal::INT);
        }
        let ended = wait(child);
        // It tells what it has written only when that is complete.
        if ended.stdout.is_empty() {
            assert_eq!(ended.code, Some(130), "{arguments:?}: {}", ended.stderr);
            assert_eq!(names(), before, "{arguments:?}");
            return;
        }
        for made in names().difference(&before) {
            let made = dir.path().join(made);
            let removed = fs::remove_file(&made).or_else(|_| fs::remove_dir_all(&made));
            removed.unwrap();
        }
    }
    panic!("{arguments:?} is too short");
}

#[test]
fn an_import_and_an_export_that_are_interrupted_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    large_trace(&dir.path().join("large.txt"));
    interrupted(&dir, &["import", "large.txt", "-o", "large"]);
    let import = ["import", "large.txt", "-o", "large"];
    run(idlewave().args(import).current_dir(&dir)).succeeded();
    for to in ["paraver", "perfetto", "chrome", "csv"] {
        interrupted(&dir, &["export", "large", "--to", to]);
    }
}

/// Time and number of bursts by thread and CPU.
fn matrix(run: &RunReader) -> BTreeMap<(u32, u32), (u64, u64)> {
    let mut matrix = BTreeMap::new();
    run.for_each::<Bursts>(|row| {
        let cell: &mut (u64, u64) = matrix.entry((row.pid.get(), row.cpu.get())).or_default();
        cell.0 += row.end_ns - row.begin_ns;
        cell.1 += 1;
    })
    .unwrap();
    matrix
}

/// Number of interrupts, and all their time.
fn interrupts(run: &RunReader) -> (u64, Nanos) {
    let (mut count, mut time) = (0, 0);
    run.for_each::<Interrupts>(|row| {
        count += 1;
        time += row.end_ns - row.begin_ns;
    })
    .unwrap();
    (count, Nanos::from_nanos(time))
}

#[test]
fn a_measured_run_read_back_from_its_trace_has_equal_matrices() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir, &["--to", "paraver", "-o", "before.prv"]).succeeded();
    let prv = dir.path().join("before.prv");
    let to = dir.path().join("again");
    import(&Ask::new(&prv, &to)).unwrap();
    let (run, again) = (
        RunReader::open(bundle()).unwrap(),
        RunReader::open(&to).unwrap(),
    );
    let expected = matrix(&run);
    assert_eq!(matrix(&again), expected);
    assert_eq!(interrupts(&again), interrupts(&run));

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../observe/formats/tests/prv.py");
    let Ok(output) = Command::new("python3").arg(script).arg(&prv).output() else {
        return skip("no python3");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = found["matrix"].as_object().unwrap().values();
    let cells = cells.flat_map(|row| row.as_object().unwrap().values());
    let sum = cells.fold((0, 0), |sum, cell| {
        (
            sum.0 + cell[0].as_u64().unwrap(),
            sum.1 + cell[1].as_u64().unwrap(),
        )
    });
    let all = expected
        .values()
        .fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    assert_eq!(sum, all);
}

/// A slice of Chrome's format: its row, its name, start and end in nanoseconds of the run, details.
struct Shown {
    row: String,
    name: String,
    span: (u64, u64),
    args: Value,
}

/// The slices of an export. Times go through floating point, as in any viewer.
fn slices(file: &Value) -> Vec<Shown> {
    let events = file["traceEvents"].as_array().unwrap();
    let origin = file["otherData"]["origin_ns"].as_str().unwrap();
    let origin: u64 = origin.parse().unwrap();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as u64;
    let mut rows = BTreeMap::new();
    for event in events.iter().filter(|e| e["name"] == "thread_name") {
        let name = event["args"]["name"].as_str().unwrap().to_owned();
        rows.insert((event["pid"].as_u64(), event["tid"].as_u64()), name);
    }
    let slice = |event: &Value| {
        let begin = origin + ns(&event["ts"]);
        Shown {
            row: rows[&(event["pid"].as_u64(), event["tid"].as_u64())].clone(),
            name: event["name"].as_str().unwrap().to_owned(),
            span: (begin, begin + ns(&event["dur"])),
            args: event["args"].clone(),
        }
    };
    let all = events.iter().filter(|e| e["ph"] == "X");
    all.map(slice).collect()
}

/// Rows of a table, or slices, in order: times, place, and whom they are about.
fn sorted<T>(rows: impl Iterator<Item = T>, of: impl Fn(T) -> Option<Row>) -> Vec<Row> {
    let mut rows: Vec<Row> = rows.filter_map(of).collect();
    rows.sort();
    rows
}

type Row = ((u64, u64), String, u64);

#[test]
fn every_row_of_a_measured_run_is_a_slice_of_chromes_with_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let ended = export(&dir, &["--to", "chrome", "-o", "before.json", "--json"]);
    ended.succeeded();
    let file: Value =
        serde_json::from_slice(&fs::read(dir.path().join("before.json")).unwrap()).unwrap();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        document["files"][0]["records"].as_u64().unwrap(),
        file["traceEvents"].as_array().unwrap().len() as u64
    );
    let run = RunReader::open(bundle()).unwrap();
    let shown = slices(&file);
    let is_on = |s: &Shown, row: &str| s.row == row || s.row.starts_with(&format!("{row} "));
    // Slices with this detail, on rows of this name.
    let of = |row: &str, detail: &str| {
        sorted(shown.iter(), |s| {
            let number = s.args[detail].as_u64().filter(|_| is_on(s, row))?;
            Some((s.span, s.row.clone(), number))
        })
    };
    let cpu = |cpu: Cpu| format!("CPU {cpu}");

    let bursts = run.read::<Bursts>().unwrap();
    let bursts = sorted(bursts.rows(), |b| {
        let row = ((b.begin_ns, b.end_ns), cpu(b.cpu), b.pid.get().into());
        (b.pid != Pid::IDLE).then_some(row)
    });
    let wakeups = run.read::<Wakeups>().unwrap();
    let wakeups = sorted(wakeups.rows(), |w| {
        Some(((w.time_ns, w.time_ns), cpu(w.cpu), w.pid.get().into()))
    });
    let migrations = run.read::<Migrations>().unwrap();
    let migrations = sorted(migrations.rows(), |m| {
        Some(((m.time_ns, m.time_ns), cpu(m.from), m.pid.get().into()))
    });
    let on_cpus = |is: &dyn Fn(&Shown) -> bool| {
        sorted(shown.iter().filter(|s| is(s)), |s| {
            let thread = s.args["thread"].as_u64().filter(|_| is_on(s, "CPU"))?;
            Some((s.span, s.row.clone(), thread))
        })
    };
    assert!(!bursts.is_empty());
    assert_eq!(on_cpus(&|s| s.args["then"].is_string()), bursts);
    assert_eq!(on_cpus(&|s| s.args["waker"].is_u64()), wakeups);
    assert_eq!(on_cpus(&|s| s.name.ends_with(" moves away")), migrations);

    let interrupts = run.read::<Interrupts>().unwrap();
    let interrupts = sorted(interrupts.rows(), |i| {
        let row = format!("interrupts of {}", cpu(i.cpu));
        Some(((i.begin_ns, i.end_ns), row, i.pid.get().into()))
    });
    assert!(!interrupts.is_empty());
    assert_eq!(of("interrupts", "interrupted"), interrupts);
    let regions = run.read::<Regions>().unwrap();
    let regions = sorted(regions.rows(), |r| {
        Some(((r.begin_ns, r.end_ns), "steps".to_owned(), r.iteration))
    });
    assert!(!regions.is_empty());
    assert_eq!(of("steps", "iteration"), regions);
    let late = run.read::<LateSteps>().unwrap();
    let late = sorted(late.rows(), |l| {
        Some(((l.begin_ns, l.end_ns), "late steps".to_owned(), l.iteration))
    });
    assert_eq!(of("late steps", "iteration"), late);

    // The program itself measured these, so their slices have no details.
    let plain = |row: &str| {
        sorted(shown.iter().filter(|s| is_on(s, row)), |s| {
            Some((s.span, String::new(), 0))
        })
    };
    let detours = run.read::<Detours>().unwrap();
    let detours = sorted(detours.rows(), |d| {
        let span = (d.begin_ns, d.begin_ns + d.length.get());
        Some((span, String::new(), 0))
    });
    assert!(!detours.is_empty());
    assert_eq!(plain("gaps"), detours);
    let quanta = run.read::<Quanta>().unwrap();
    let quanta = sorted(quanta.rows(), |q| {
        let span = (q.begin_ns, q.begin_ns + q.duration.get());
        Some((span, String::new(), 0))
    });
    assert_eq!(plain("fixed work"), quanta);
}

//! Requests that cannot be carried out end with one clear line, a next step and the documented exit
//! code (docs/exit-codes.md), and leave nothing that could be taken for a run.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Mount, again, bundle, copy, files, idlewave, instances_of, is_root, run, study, study_with,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs `study` with these options in its own directory, where it leaves nothing.
#[track_caller]
fn refused(options: &[&str], code: i32) -> [String; 2] {
    let dir = tempfile::tempdir().unwrap();
    let ended = run(idlewave().arg("study").args(options).current_dir(&dir));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{options:?}");
    assert_eq!(ended.stdout, "", "{options:?}");
    ended.failed(code)
}

/// Asserts that the line names the option and the next step contains this.
#[track_caller]
fn refused_option(options: &[&str], next_step: &str) {
    let [what, next] = refused(options, 2);
    let option = options[0].split('=').next().unwrap();
    assert!(what.contains(option), "{options:?}: {what}");
    assert!(next.contains(next_step), "{options:?}: {next}");
}

#[test]
fn cpus_that_are_not_there_are_refused_with_those_that_are() {
    refused_option(&["--cpus", "4000"], "choose from ");
    refused_option(&["--cpus", "0-4000"], "choose from ");
    refused_option(&["--cpus", ","], "--cpus 0");
    for garbage in [
        "garbage",
        "3-1",
        "0-",
        "-1",
        "0x1",
        "0-99999999999999999999",
    ] {
        refused_option(&[&format!("--cpus={garbage}")], "as in 0-3,8");
    }
}

#[test]
fn absurd_times_are_refused_with_the_range() {
    for time in ["0", "0s", "1ns", "1999ms", "61min", "100000000s"] {
        refused_option(&["--duration", time], "2.00 s to 3600 s");
    }
    for garbage in [
        "-5s", "1000d", "garbage", "5", "", "NaN", "infs", "1e3s", "1.2.3s",
    ] {
        refused_option(&["--duration", garbage], "from 2s to 60min");
    }
    for time in ["0", "1ns", "1999ns", "1001ms", "60min"] {
        refused_option(&["--work", time], "2.00 us to 1.00 s");
    }
    for garbage in ["-20us", "garbage", "20"] {
        refused_option(&["--work", garbage], "from 2us to 1s");
    }
    refused_option(&["--work", "1s", "--duration", "2s"], "--duration 72s");
}

#[test]
fn absurd_numbers_of_ranks_are_refused_with_the_range() {
    for ranks in ["0", "4097", "4294967295"] {
        refused_option(&["--ranks", ranks], "1 to 4096");
    }
    for garbage in ["-1", "garbage", "1.5", "99999999999999999999"] {
        refused_option(&["--ranks", garbage], "from 1 to 4096");
    }
}

#[test]
fn options_that_are_not_there_are_refused_with_a_hint() {
    let [what, next] = refused(&["--bogus"], 2);
    assert!(what.contains("--bogus"), "{what}");
    assert!(next.contains("idlewave study --help"), "{next}");
    let [_, next] = refused(&["--cpu", "0"], 2);
    assert!(next.contains("--cpus"), "{next}");
    let [_, next] = run(idlewave().arg("studi")).failed(2);
    assert!(next.contains("'study'"), "{next}");
    let args = ["measure", "exchange", "--duration", "1"];
    let [_, next] = run(idlewave().args(args)).failed(2);
    assert!(next.contains("100ms to 60min"), "not that of study: {next}");
    let [_, next] = run(idlewave().args(["measure", "md", "--bogus"])).failed(2);
    assert!(next.contains("idlewave measure md --help"), "{next}");
    let [what, next] = run(idlewave().arg("explain")).failed(2);
    assert!(what.contains("<RUN>") && next.contains("idlewave explain --help"));
}

#[test]
fn a_program_without_an_mpi_library_is_refused_with_what_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    fs::write(&script, "#!/bin/sh\nmpirun ./app\n").unwrap();
    for (program, said) in [
        (
            Path::new(env!("CARGO_BIN_EXE_idlewave")),
            "is not linked with one",
        ),
        (&script, "as an ELF file"),
        (Path::new("./missing"), "No such file"),
        (Path::new("/proc"), "as an ELF file"),
    ] {
        let mut command = idlewave();
        command.args(["measure", "barrier", "-o", "run", "--mpi-of"]);
        let [what, next] = run(command.arg(program).current_dir(&dir)).failed(2);
        let named = what.contains(program.to_str().unwrap());
        assert!(named && what.contains(said), "{what}");
        assert!(next.contains("--mpi-lib FILE"), "{next}");
    }
    let both = [
        "measure",
        "md",
        "--mpi-of",
        "./app",
        "--mpi-lib",
        "libmpi.so",
    ];
    let [what, _] = run(idlewave().args(both)).failed(2);
    assert!(
        what.contains("--mpi-of") && what.contains("--mpi-lib"),
        "{what}"
    );
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn an_argument_that_is_no_text_is_no_reason_to_fail() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"/nonexistent/\xff/run");
    let [what, _] = run(&mut study(Path::new(odd))).failed(4);
    assert!(what.starts_with("create /nonexistent/"), "{what}");
}

#[test]
fn only_cpus_of_the_own_affinity_are_allowed() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" {
        return println!("skipped: one CPU only");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        "0",
        env!("CARGO_BIN_EXE_idlewave"),
        "study",
        "--cpus",
        "1",
    ]);
    command.current_dir(&dir);
    if !common::has("taskset") {
        return println!("skipped: no taskset");
    }
    let [what, next] = run(&mut command).failed(2);
    assert!(what.contains("may not use CPU 1"), "{what}");
    assert_eq!(next, "choose from 0");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();

    let [what, next] = refused(&["-o", "no/such/place"], 4);
    assert!(what.starts_with("create no/such/place"), "{what}");
    assert!(next.contains("create its parent directory"), "{next}");
    for taken in [
        file.as_path(),
        &file.join("below"),
        dir.path(),
        Path::new("/proc/run"),
    ] {
        let text = taken.to_str().unwrap();
        let [what, next] = refused(&["-o", text], 4);
        assert!(what.starts_with(&format!("create {text}")), "{what}");
        assert!(next.contains("-o"), "{next}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_without_write_permission_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let _mount = if is_root() {
        match Mount::new(&["-t", "tmpfs", "-o", "ro", "idlewave-test"], dir.path()) {
            Ok(mount) => Some(mount),
            Err(why) => return println!("skipped: no read-only mount: {why}"),
        }
    } else {
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o555);
        fs::set_permissions(dir.path(), closed).unwrap();
        None
    };
    let output = dir.path().join("run");
    let [what, next] = run(&mut study(&output)).failed(4);
    assert!(what.starts_with("create "), "{what}");
    assert!(next.contains("that you may write"), "{next}");
    assert!(!output.exists());
}

#[test]
fn what_is_no_bundle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for what in ["explain", "report"] {
        let [said, next] = again(what, &missing).failed(5);
        assert!(said.contains("not a run bundle"), "{said}");
        assert!(next.contains("no such directory"), "{next}");
        for other in [dir.path(), Path::new("/etc/passwd")] {
            let [said, next] = again(what, other).failed(5);
            assert!(said.contains("not a run bundle"), "{said}");
            assert!(next.contains("idlewave study"), "{next}");
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_manifest_that_cannot_be_read_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = dir.path().join("run.json");
    let good = fs::read_to_string(bundle().join("run.json")).unwrap();
    let bad = [
        "",
        "{",
        "[]",
        "null",
        "{\"schema\":1}",
        &good[..good.len() / 2],
    ];
    for text in bad {
        fs::write(&manifest, text).unwrap();
        let [what, _] = again("explain", dir.path()).failed(5);
        assert!(what.contains("run.json"), "{what}");
    }
    let newer = good.replacen("\"major\": 2", "\"major\": 3", 1);
    assert_ne!(newer, good);
    fs::write(&manifest, newer).unwrap();
    for command in ["explain", "report"] {
        let [what, next] = again(command, dir.path()).failed(5);
        assert!(what.contains("schema is 3."), "{what}");
        assert!(next.contains("newer"), "{next}");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("run");
    copy(bundle(), &here);
    for options in [&["explain"][..], &["explain", "--json"], &["report"]] {
        let mut child = idlewave()
            .args(options)
            .arg(&here)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = common::wait(child);
        ended.succeeded();
        assert_eq!(ended.stderr, "", "{options:?}");
    }
    let mut child = idlewave()
        .arg("--help")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    common::wait(child).succeeded();
}

#[test]
fn a_run_without_a_program_is_not_placed_and_the_next_step_is_another_one() {
    let nodes = ["--nodes", "2", "--cores", "2"];
    let ended = run(idlewave()
        .args(["place", "--run"])
        .arg(bundle())
        .args(nodes));
    let [what, next] = ended.failed(5);
    assert!(
        what.contains("no calls of a recorded MPI program"),
        "{what}"
    );
    assert!(next.contains("linked with its MPI library"), "{next}");
}

#[test]
fn output_that_goes_nowhere_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("run");
    copy(bundle(), &here);
    let topology = dir.path().join("topology.conf");
    fs::write(&topology, "SwitchName=s Nodes=n1\n").unwrap();
    for (options, file, in_bundle) in [
        (&["explain"][..], &here, true),
        (&["explain", "--json"], &here, true),
        (&["report"], &here, true),
        (&["place", "topology"], &topology, false),
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let child = idlewave()
            .args(options)
            .arg(file)
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let [what, next] = common::wait(child).failed(4);
        assert!(what.contains("standard output"), "{what}");
        assert_eq!(next.contains("bundle is not affected"), in_bundle, "{next}");
    }
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = idlewave()
        .args(["explain", "/"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(5));
}

/// A study, or an analysis, on a file system of its own with this `size`.
fn on_small_disk(size: &str, work: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let options = format!("size={size}");
    match Mount::new(
        &["-t", "tmpfs", "-o", &options, "idlewave-test"],
        dir.path(),
    ) {
        Ok(_mount) => work(dir.path()),
        Err(why) => println!("skipped: no small disk: {why}"),
    }
}

#[test]
fn a_disk_too_full_for_the_manifest_holds_no_run_afterwards() {
    on_small_disk("16k", |disk| {
        fs::write(disk.join("filler"), vec![0; 64 << 10]).unwrap_err();
        let [what, next] = run(&mut study(&disk.join("run"))).failed(4);
        assert!(what.contains("No space left"), "{what}");
        assert!(next.contains("free some space"), "{next}");
        assert!(!disk.join("run").exists());
    });
}

#[test]
fn a_disk_that_fills_up_while_recording_leaves_what_was_recorded() {
    for trace in [true, false] {
        on_small_disk("16M", |disk| {
            let bundle = disk.join("run");
            let mut command = study_with(&["--duration=10s", "--work=20us"], &bundle);
            command.args((!trace).then_some("--no-trace"));
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The first records still fit.
            let spilled = || fs::metadata(bundle.join("spill")).map_or(0, |file| file.len());
            while spilled() < 64 << 10 && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            fill(disk);
            let ended = common::wait(child);
            let [what, next] = ended.failed_at_last(4);
            assert!(what.contains("No space left"), "{what}");
            assert!(next.contains("free some space"), "{next}");
            assert!(!bundle.join("findings.json").exists());
            assert_eq!(instances_of(ended.pid), Vec::<PathBuf>::new());

            // There is space elsewhere, and here once something has been removed.
            let dir = tempfile::tempdir().unwrap();
            let saved = dir.path().join("saved");
            copy(&bundle, &saved);
            let explained = again("explain", &saved);
            explained.succeeded();
            assert!(explained.stdout.contains("No space left"), "{explained:?}");
            assert!(!explained.stdout.contains("was killed"), "{explained:?}");
            assert!(rows(&saved) > 100, "trace {trace}: {}", rows(&saved));
            assert!(saved.join("findings.json").exists());
        });
    }
}

#[test]
fn a_disk_that_is_full_when_explaining_again_leaves_the_bundle_as_it_was() {
    // On a busy machine the run has tens of megabytes.
    let bytes: usize = files(bundle()).values().map(Vec::len).sum();
    on_small_disk(&format!("{}M", 16 + (bytes >> 19)), |disk| {
        let here = disk.join("run");
        copy(bundle(), &here);
        let before = files(&here);
        fill(disk);
        let [what, next] = again("explain", &here).failed(4);
        assert!(what.contains("No space left"), "{what}");
        assert!(next.contains("free some space"), "{next}");
        again("report", &here).failed(4);
        fs::remove_file(disk.join("filler")).unwrap();
        assert!(files(&here) == before);
        again("explain", &here).succeeded();
        again("report", &here).succeeded();
        assert!(files(&here) == before);
    });
}

/// However full the disk is, a run remains only if it holds measurements.
#[test]
fn a_study_that_fails_before_anything_was_measured_leaves_no_run() {
    let mut none = 0;
    let sizes = [44, 56, 80];
    for (size, trace) in sizes
        .into_iter()
        .flat_map(|kib| [(kib, false), (kib, true)])
    {
        on_small_disk(&format!("{size}k"), |disk| {
            let bundle = disk.join("run");
            let mut command = study_with(&["--duration=2s", "--work=20us"], &bundle);
            command.args((!trace).then_some("--no-trace"));
            let [what, next] = run(&mut command).failed_at_last(4);
            assert!(what.contains("No space left"), "{what}");
            assert!(next.contains("free some space"), "{next}");
            if bundle.exists() {
                let dir = tempfile::tempdir().unwrap();
                let saved = dir.path().join("saved");
                copy(&bundle, &saved);
                again("explain", &saved).succeeded();
                assert!(rows(&saved) > 0, "{size} KiB, trace {trace}");
                assert!(next.contains("explain RUN"), "{next}");
            } else {
                none += 1;
                assert!(!next.contains("explain"), "{size} KiB: {next}");
            }
        });
    }
    println!("{none} studies left no run");
}

/// Fills a file system to the last byte.
fn fill(disk: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(disk.join("filler")).unwrap();
    for size in [1 << 20, 4 << 10, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Rows of all tables in the manifest.
fn rows(bundle: &Path) -> u64 {
    let text = fs::read_to_string(bundle.join("run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tables = json["tables"].as_array().unwrap();
    tables.iter().map(|t| t["rows"].as_u64().unwrap()).sum()
}

#[test]
fn a_command_to_be_run_without_dashes_before_it_is_told_where_they_go() {
    for (words, wanted) in [
        (
            "record ls -l",
            "put -- before the command: idlewave record -- ls -l",
        ),
        (
            "record -o run mpirun -n 2 ./app",
            "put -- before the command: idlewave record -o run -- mpirun -n 2 ./app",
        ),
        (
            "gang watch ./app",
            "put -- before the command: idlewave gang watch -- ./app",
        ),
        (
            "record",
            "give the command behind --, as in idlewave record -- ./app",
        ),
        ("place study", "read idlewave place study --help"),
        (
            "place study --hosts n1",
            "give the command behind --, as in idlewave place study -- ./app",
        ),
    ] {
        let done = run(idlewave().args(words.split(' ')));
        let [_, next] = done.failed(2);
        assert_eq!(next, wanted, "{words}");
    }
}

#[test]
fn options_of_measurements_that_would_do_nothing_are_refused() {
    for (words, code, what, next) in [
        (
            "detour --work 1ms",
            2,
            "--work",
            "idlewave measure fwq --work",
        ),
        ("barrier --bytes 8", 2, "--bytes 8", "allreduce"),
        (
            "barrier --no-trace",
            2,
            "--output",
            "idlewave measure barrier",
        ),
        ("md --no-trace", 2, "--output", "idlewave measure md"),
        (
            "exchange --fabric threads --mpi-lib x",
            2,
            "--mpi-lib",
            "--fabric mpi",
        ),
    ] {
        let done = run(idlewave().arg("measure").args(words.split(' ')));
        let [said, then] = done.failed(code);
        assert!(said.contains(what), "{words}: {said}");
        assert!(then.contains(next), "{words}: {then}");
    }
}

#[test]
fn a_size_that_no_study_can_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let [what, next] = run(&mut common::study_with(&["--max-size=100"], &path)).failed(2);
    assert!(what.contains("--max-size 100 B"), "{what}");
    assert!(next.contains("1 MiB"), "{next}");
    assert!(!path.exists());
}

#[test]
fn options_that_do_not_go_together_are_refused_with_what_to_leave_out() {
    for (options, next_step) in [
        (
            &["gang", "status", "--watch", "--json"][..],
            "leave out --watch or --json",
        ),
        (
            &["place", "--goal", "a", "--work", "1ms", "--nodes", "1"],
            "leave out --goal or --work",
        ),
        (
            &["study", "--work", "1ms", "--work", "2ms"],
            "give --work once",
        ),
    ] {
        let [what, next] = run(idlewave().args(options)).failed(2);
        assert!(what.contains("cannot be used"), "{what}");
        assert_eq!(next, next_step);
    }
}

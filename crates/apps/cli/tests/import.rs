//! `idlewave import`: what it prints and refuses, and that its run goes through the other commands.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A solver on two CPUs with a tick every 4 ms; collectd has CPU 1 five times, for 300 to 380 us.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/ftrace.txt")
}

fn import(dir: &TempDir, file: &Path, options: &[&str]) -> Ended {
    run(idlewave()
        .arg("import")
        .arg(file)
        .args(options)
        .current_dir(dir))
}

/// Imports a trace into `to`, which must print this; returns what `explain` says about it, as one
/// line.
fn explained(dir: &TempDir, trace: &Path, to: &str, said: &[&str]) -> String {
    let imported = import(dir, trace, &["-o", to]);
    imported.succeeded();
    fits(&imported.stdout);
    has(&flat(&imported.stdout), said);
    let explained = run(idlewave().args(["explain", to]).current_dir(dir));
    explained.succeeded();
    fits(&explained.stdout);
    flat(&explained.stdout)
}

/// A text without its line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that no line is wider than the terminal.
#[track_caller]
fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn a_trace_becomes_a_run_that_the_other_commands_take() {
    let dir = tempfile::tempdir().unwrap();
    let imported = import(&dir, &example(), &["-o", "site"]);
    imported.succeeded();
    fits(&imported.stdout);
    let parts = [
        "ftrace text: 83 events on 2 CPUs in 50.0 ms, 0 lost",
        "program under study: solver, 2 threads, the user program with the most CPU time",
        "another one: --program NAME or PID; next in CPU time: collectd",
        "not in such a trace: ranks, MPI calls",
        "times rounded to a microsecond or more (83)",
        "idlewave explain site",
    ];
    let text: Vec<&str> = imported.stdout.split_whitespace().collect();
    has(&text.join(" "), &parts);

    let explained = run(idlewave().args(["explain", "site"]).current_dir(&dir));
    explained.succeeded();
    fits(&explained.stdout);
    let parts = [
        "PROGRAM solver",
        "from an imported kernel trace: no ranks, no MPI calls, traced for 50.0 ms",
        "collectd (task)  1.70 ms        5   340 us",
        "timer tick        144 us       24  6.00 us  4.00 ms",
        "SCHED (softirq)  40.0 us        8  5.00 us",
        "off the CPUs of the program",
        "kernel trace: imported, 83 events, 0 lost",
    ];
    has(&explained.stdout, &parts);
    assert!(!explained.stdout.contains("of the ranks"));

    for command in [&["report", "site"][..], &["fit", "site"]] {
        run(idlewave().args(command).current_dir(&dir)).succeeded();
    }
    let page = fs::read_to_string(dir.path().join("site/report.html")).unwrap();
    assert!(page.contains("from an imported kernel trace"));
    for wrong in ["none found", "one reading", ">0 ns<"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    let model = fs::read_to_string(dir.path().join("noise.toml")).unwrap();
    assert!(model.contains("collectd"));
}

#[test]
fn a_link_that_is_named_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("latest");
    symlink(example().canonicalize().unwrap(), &link).unwrap();
    import(&dir, &link, &["-o", "site"]).succeeded();
}

#[test]
fn another_program_is_chosen_by_name_or_number() {
    let dir = tempfile::tempdir().unwrap();
    for (asked, run) in [("collectd", "by-name"), ("812", "by-number")] {
        let imported = import(&dir, &example(), &["-o", run, "--program", asked]);
        imported.succeeded();
        has(
            &imported.stdout,
            &["program under study: collectd, 1 thread, as asked"],
        );
    }
}

#[test]
fn what_cannot_be_imported_is_refused_with_the_next_step_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "hello\n").unwrap();
    let perf = dir.path().join("perf.data");
    fs::write(&perf, b"PERFFILE").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let pipe = dir.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let dangling = dir.path().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    let cut = dir.path().join("cut.prv");
    fs::write(&cut, "#Paraver (01/02/2026 at 10:20):2000_ns:2(1,").unwrap();
    import(&dir, &example(), &["-o", "site"]).succeeded();
    let cases: [(&Path, &[&str], i32, &str); 9] = [
        (&text, &["-o", "run"], 5, "docs/import.md"),
        (&perf, &["-o", "run"], 5, "perf script --ns"),
        (&dir.path().join("empty"), &["-o", "run"], 5, "raw/"),
        (
            &dir.path().join("missing"),
            &["-o", "run"],
            4,
            "no such file",
        ),
        (&pipe, &["-o", "run"], 4, "save what a pipe"),
        (&dangling, &["-o", "run"], 4, "check where it leads to"),
        (&cut, &["-o", "run"], 5, "copy the file again"),
        (
            &dir.path().join("site"),
            &["-o", "run"],
            5,
            "idlewave explain",
        ),
        (
            &example(),
            &["-o", "run", "--program", "x"],
            2,
            "solver, collectd",
        ),
    ];
    for (file, options, code, next) in cases {
        let ended = import(&dir, file, options);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        has(&ended.stderr, &["next step: ", next]);
        assert!(!dir.path().join("run").exists());
    }
    let ended = import(&dir, &example(), &["-o", "text"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    has(
        &ended.stderr,
        &["it already exists", "another name with -o"],
    );
    assert_eq!(fs::read_to_string(&text).unwrap(), "hello\n");
    fs::create_dir(dir.path().join("there")).unwrap();
    fs::write(dir.path().join("there/file"), "mine").unwrap();
    let ended = import(&dir, &example(), &["-o", "there"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert_eq!(
        fs::read_to_string(dir.path().join("there/file")).unwrap(),
        "mine"
    );
    let two = import(
        &dir,
        &example(),
        &[example().to_str().unwrap(), "-o", "run"],
    );
    assert_eq!(two.code, Some(2), "{}", two.stderr);
}

#[test]
fn a_program_without_mpi_stays_one_on_its_way_through_paraver() {
    let dir = tempfile::tempdir().unwrap();
    import(&dir, &example(), &["-o", "site"]).succeeded();
    let there = ["export", "site", "--to", "paraver"];
    run(idlewave().args(there).current_dir(&dir)).succeeded();
    let imported = import(&dir, &dir.path().join("site.prv"), &["-o", "again"]);
    imported.succeeded();
    fits(&imported.stdout);
    let parts = [
        "Paraver trace: ",
        " on 2 CPUs in 50.0 ms\n",
        "program under study: solver, no ranks, 2 threads, as the trace says",
    ];
    has(&imported.stdout, &parts);
    let explained = run(idlewave().args(["explain", "again"]).current_dir(&dir));
    explained.succeeded();
    let parts = [
        "PROGRAM solver\n",
        "from an imported Paraver trace: no ranks, no MPI calls, traced for 50.0 ms",
        "collectd (task)  1.70 ms        5   340 us",
        "trace: imported from Paraver; what recording it cost is not known",
    ];
    has(&explained.stdout, &parts);
    run(idlewave().args(["report", "again"]).current_dir(&dir)).succeeded();
    let page = fs::read_to_string(dir.path().join("again/report.html")).unwrap();
    has(
        &page,
        &[
            "from an imported Paraver trace",
            "a Paraver trace holds none",
        ],
    );
    // Values that nobody looked up or measured are not shown as none or as zero.
    for wrong in [
        "none found",
        "one reading",
        "<dd>0 ns",
        "Everything that was asked for",
    ] {
        assert!(!page.contains(wrong), "{wrong}");
    }
    // The user may ask for the name in the trace, as the manifest has it, but for no other.
    let options = ["-o", "named", "--program", "solver"];
    import(&dir, &dir.path().join("site.prv"), &options).succeeded();
    let options = ["-o", "other", "--program", "collectd"];
    let refused = import(&dir, &dir.path().join("site.prv"), &options);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    has(&refused.stderr, &["next step: ", "--program: solver"]);
    assert!(!dir.path().join("other").exists());
}

#[test]
fn what_names_no_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (asked, why) in [
        ("", "a name or a process number is missing"),
        ("0", "process 0 is the idle CPU, not a program"),
        ("99999999999", "no process has such a large number"),
    ] {
        let refused = import(&dir, &example(), &["-o", "run", "--program", asked]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        has(&refused.stderr, &[why]);
        assert!(!dir.path().join("run").exists());
    }
}

#[test]
fn a_report_of_aix_becomes_a_run_that_names_the_daemon_and_its_own_limits() {
    let dir = tempfile::tempdir().unwrap();
    let report = example().with_file_name("trcrpt.txt");
    let parts = [
        "report of AIX's trcrpt: ",
        "on 4 CPUs",
        "program under study: solver, 5 threads",
        "whose form is known from IBM's documentation alone",
    ];
    has(&explained(&dir, &report, "aix", &parts), &["syncd"]);
}

#[test]
fn an_archive_of_otf2_becomes_a_run_of_ranks_that_the_other_commands_take() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/otf2/halo");
    let parts = [
        "OTF2 archive: 796 events in 632 ms",
        "program under study: halo, 2 ranks, 2 threads, as the trace says",
        "who had the CPUs, interrupts and wake-ups (1)",
    ];
    let text = explained(&dir, &archive, "site", &parts);
    let parts = [
        "PROGRAM halo",
        "WHAT RANKS WAITED FOR",
        "wait at MPI_Allreduce",
        "50 point-to-point messages",
        "trace: imported from OTF2; what recording it cost is not known",
    ];
    has(&text, &parts);
    for command in [
        &["report", "site"][..],
        &["fit", "site"],
        &["simulate", "like", "site"],
    ] {
        run(idlewave().args(command).current_dir(&dir)).succeeded();
    }
    let page = fs::read_to_string(dir.path().join("site/report.html")).unwrap();
    has(
        &page,
        &["The imported OTF2 trace does not tell who had the CPUs."],
    );
    let other = import(&dir, &archive, &["-o", "other", "--program", "app"]);
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    has(&other.stderr, &["give one of these with --program: halo"]);
}

#[test]
fn traces_of_pytorchs_profiler_name_the_late_rank_of_each_collective() {
    let dir = tempfile::tempdir().unwrap();
    let directory = example().with_file_name("kineto");
    let parts = [
        "traces of PyTorch's profiler: 1,237 events in 77.2 ms",
        "program under study: python, 3 ranks, 3 threads, as the trace says",
        "operators that are no collectives (960)",
    ];
    let text = explained(&dir, &directory, "training", &parts);
    let parts = [
        "3 ranks, 1 node, gloo, 67.7 ms from when all ranks were seen to the last call",
        "ranks 0 and 1 waited up to 7.99 ms in gloo:all_reduce for rank 2",
        "idlewave import KERNEL_TRACE --app TRACE... -o RUN",
        "does not see the kernel",
    ];
    has(&text, &parts);
    assert!(!text.contains("MPI"), "{text}");
    let view = run(idlewave()
        .args(["explain", "training", "--view", "mpi"])
        .current_dir(&dir));
    view.succeeded();
    assert!(!view.stdout.contains("MPI"), "{}", view.stdout);
    run(idlewave().args(["report", "training"]).current_dir(&dir)).succeeded();
    let page = fs::read_to_string(dir.path().join("training/report.html")).unwrap();
    let (words, _scripts) = page.split_once("<script").unwrap();
    assert!(!words.contains("MPI"));
}

#[test]
fn traces_that_do_not_go_together_are_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let (kernel, halo) = (example(), example().with_file_name("halo.prv"));
    let (kernel_name, halo_name) = (kernel.to_str().unwrap(), halo.to_str().unwrap());
    let cases: [(&Path, &[&str], i32, &str); 4] = [
        (&halo, &["--app", kernel_name], 2, "the kernel trace first"),
        (&kernel, &["--app", kernel_name], 2, "OTF2 archive"),
        (&kernel, &["--app-offset", "-5"], 2, "--help"),
        // A trace of another run.
        (
            &kernel,
            &["--app", halo_name],
            5,
            "record both traces of the same run",
        ),
    ];
    for (file, options, code, next) in cases {
        let ended = import(&dir, file, &[&["-o", "run"][..], options].concat());
        let [_, said] = ended.failed(code);
        assert!(said.contains(next), "{said}");
        assert!(!dir.path().join("run").exists());
    }
}

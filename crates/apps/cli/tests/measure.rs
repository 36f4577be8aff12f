//! `idlewave measure` under real launchers. No assertion depends on speed.

mod common;

use idlewave_mpi::testing::{self, installations, long, skip, some_installations};
use idlewave_sys::process::Signal;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const IDLEWAVE: &str = env!("CARGO_BIN_EXE_idlewave");

fn json(output: &Output) -> serde_json::Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("one document: only rank 0 prints")
}

#[test]
fn every_measurement_runs_under_every_launcher() {
    const ALL: &[&str] = &["exchange", "barrier", "allreduce", "reduce", "alltoall"];
    for mpi in installations() {
        // Four ranks on two CPUs take a long time if the library does not yield while it waits.
        let jobs = match mpi.name {
            "openmpi4" if long() => [(2, ALL), (4, ALL)],
            "openmpi4" => [(2, &ALL[1..3]), (4, &ALL[..1])],
            "mpich4" if long() => [(2, ALL), (4, &[][..])],
            "mpich4" => [(2, &ALL[3..]), (4, &[][..])],
            _ => [(2, &ALL[..1]), (4, &[][..])],
        };
        for (ranks, measurements) in jobs {
            for &what in measurements {
                let mut command = mpi.launch(ranks);
                command.args([IDLEWAVE, "measure", what, "--duration", "100ms", "--json"]);
                let output = testing::output(&mut command);
                let found = json(&output);
                let series = &found["results"]["series"][0];
                assert_eq!(series["ranks"], ranks, "{} {what}", mpi.name);
                assert!(series["iterations"].as_u64() > Some(0));
            }
        }
    }
}

#[test]
fn the_library_of_a_program_carries_the_messages() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("least.c");
    let text = "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n";
    std::fs::write(&source, text).expect("a program");
    for mpi in installations() {
        let program = directory.path().join(mpi.name);
        if mpi.compile_c(&source, &program).is_none() {
            skip(&format!("{} has no mpicc", mpi.name));
            continue;
        }
        // Run without a launcher, which would set its own library.
        let mut command = Command::new(IDLEWAVE);
        mpi.prepare(&mut command);
        command
            .args("measure barrier --duration 100ms --json --mpi-of".split(' '))
            .arg(&program);
        let output = testing::output(&mut command);
        let found = json(&output);
        let fabric = found["place"]["fabric"]
            .as_str()
            .expect("who carries the messages");
        let file = fabric.split(['(', ')']).nth(1).expect(fabric);
        let same = [Path::new(file), &mpi.libraries[0]].map(|f| f.canonicalize().expect(fabric));
        assert_eq!(same[0], same[1], "{}: {fabric}", mpi.name);
    }
}

#[test]
fn ways_to_exchange_take_turns() {
    let run = |json: &[&str]| {
        let mut command = Command::new(IDLEWAVE);
        command.args("measure exchange --wait blocking,nonblocking --duration 240ms".split(' '));
        testing::output(command.args(["--ranks", "2"]).args(json))
    };
    let found = json(&run(&["--json"]));
    let results = &found["results"];
    assert_eq!(results["ways"]["rounds"], 12);
    assert_eq!(results["series"].as_array().map(Vec::len), Some(24));
    let ways = results["ways"]["ways"].as_array().expect("two");
    assert_eq!(ways[0]["longer"], serde_json::Value::Null);
    assert_eq!(ways[1]["variant"], "non_blocking");
    assert_eq!(ways[1]["longer"]["n"], 12);
    let text = String::from_utf8(run(&[]).stdout).expect("text");
    assert!(text.contains("step against blocking"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn ways_that_took_turns_are_kept_in_a_run_and_compared_by_explain() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run");
    let mut command = Command::new(IDLEWAVE);
    command.args("measure exchange --wait blocking,nonblocking --duration 480ms".split(' '));
    command.args(["--ranks", "2", "--no-trace", "--json", "-o"]);
    let measured = json(&testing::output(command.arg(&path)));
    let mut command = Command::new(IDLEWAVE);
    command.env("IDLEWAVE_EFFORT", "0.0001").arg("explain");
    let explained = testing::output(command.arg(&path).arg("--json"));
    let findings = json(&explained);
    // The same rounds, read again, give the same comparison.
    let (ways, live) = (&findings["ways"], &measured["results"]["ways"]);
    assert_eq!(ways["rounds"], 12);
    for (kept, live) in [0, 1].map(|i| (&ways["ways"][i], &live["ways"][i])) {
        for field in ["variant", "step", "exchange", "noise", "longer"] {
            assert_eq!(kept[field], live[field], "{field}");
        }
        assert_eq!(kept["phases"].as_array().map(Vec::len), Some(12));
    }
    assert_eq!(findings["lockstep"].as_array().map(Vec::len), Some(24));
    let names = findings["jitter"].as_array().expect("two ways").iter();
    let names: Vec<_> = names.map(|jitter| jitter["name"].as_str()).collect();
    let wanted = ["computation (blocking)", "computation (nonblocking)"];
    assert_eq!(names, wanted.map(Some));
    let mut command = Command::new(IDLEWAVE);
    command.env("IDLEWAVE_EFFORT", "0.0001").arg("explain");
    let text = testing::output(command.arg(&path));
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.contains("WAYS TO EXCHANGE, 2 ranks, in turn over 12 rounds"),
        "{text}"
    );
    assert!(text.contains("step against blocking (95 %)"), "{text}");
}

#[test]
fn a_series_over_threads_has_a_row_for_each_number_of_ranks() {
    let args = [
        "measure",
        "exchange",
        "--scaling",
        "strong",
        "--ranks",
        "1,2,3",
        "--duration",
        "100ms",
        "--json",
    ];
    let output = Command::new(IDLEWAVE)
        .args(args)
        .output()
        .expect("idlewave");
    let found = json(&output);
    let series = found["results"]["series"].as_array().expect("a list");
    let ranks: Vec<_> = series.iter().filter_map(|s| s["ranks"].as_u64()).collect();
    assert_eq!(ranks, [1, 2, 3]);
    assert_eq!(series[0]["efficiency"]["value"], 1.0);
}

#[test]
fn options_that_cannot_be_carried_out_are_told_with_the_next_step() {
    for args in [
        &["exchange", "--dims", "4"][..],
        &["exchange", "--bytes", "8"],
        &["barrier", "--ranks", "2,4"],
        &["pingpong", "--pairs", "0"],
        &["md", "--particles", "10"],
        &["md", "--steps", "1"],
        &["md", "--steps", "100", "--duration", "1s"],
        &["pingpong", "--ranks", "2", "--pairs", "2"],
        &["halo", "--dims", "4"],
        &["halo", "--steps", "0"],
        &["halo", "--scaling", "strong", "--ranks", "1,3"],
        &["npb", "xy"],
        &["npb", "is", "--class", "D"],
        &["npb", "ep", "--scaling", "weak", "--ranks", "1,2"],
        &["npb", "all", "--scaling", "strong"],
        &["npb", "ep", "--repeats", "3"],
    ] {
        let mut command = Command::new(IDLEWAVE);
        let output = command
            .arg("measure")
            .args(args)
            .output()
            .expect("idlewave");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains("next step:"), "{args:?}: {error}");
    }
}

/// Explains and reports a bundle; returns its findings.
fn explained(run: &Path) -> serde_json::Value {
    for command in ["explain", "report"] {
        let output = Command::new(IDLEWAVE)
            .env("IDLEWAVE_EFFORT", "0.0001")
            .arg(command)
            .arg(run)
            .output();
        let output = output.expect("idlewave");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {error}");
    }
    let text = std::fs::read(run.join("findings.json")).expect("explained");
    serde_json::from_slice(&text).expect("findings")
}

/// Runs molecular dynamics with `command`, and compares the output with the bundle.
fn molecular_dynamics(command: &mut Command, ranks: u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let args = "measure md --ranks 2 --particles 500 --steps 200 --energy-every 50 --json -o";
    command.args(args.split(' ')).arg(&run);
    let output = testing::output_of_cleared(command, || {
        let _ = std::fs::remove_dir_all(&run);
    });
    let found = json(&output);
    let printed = &found["results"];
    assert_eq!(printed["kind"], "molecular_dynamics");
    assert_eq!(printed["steps"], 200);
    assert_eq!(printed["jitter"]["ranks"], ranks);
    assert!(printed["energy_drift"].as_f64().expect("added up") < 1e-3);
    let findings = explained(&run);
    let jitter = &findings["jitter"][0];
    for part in ["name", "steps", "core", "slowest", "efficiency", "map"] {
        assert_eq!(jitter[part], printed["jitter"][part], "{part}");
    }
}

#[test]
fn molecular_dynamics_prints_what_its_bundle_explains() {
    let mut command = Command::new(IDLEWAVE);
    molecular_dynamics(&mut command, 2);
}

#[test]
fn molecular_dynamics_over_mpi_prints_what_its_bundle_explains() {
    for mpi in some_installations("molecular dynamics") {
        let mut command = mpi.launch(2);
        molecular_dynamics(command.arg(IDLEWAVE), 2);
    }
}

/// Runs a benchmark whose result must be correct, on all ranks or on fewer.
fn benchmark(command: &mut Command, args: &str, ranks: usize) -> serde_json::Value {
    command.arg("measure").args(args.split(' ')).arg("--json");
    let output = testing::output(command);
    let mut found = json(&output);
    let found = found["results"].take();
    assert_eq!(found["kind"], "benchmark", "{args}");
    assert_eq!(found["verified"], true, "{args}");
    let rows = found["ranks"].as_array().expect("a row for each rank");
    assert_eq!(rows.len(), ranks, "{args}");
    for row in rows {
        let part = |name: &str| row[name].as_u64().expect("nanoseconds");
        let sum = part("collective") + part("point_to_point") + part("computation");
        assert_eq!(sum, part("total"), "{args}");
        assert!(part("computation") > 0, "{args}");
    }
    found
}

#[test]
fn benchmarks_have_the_same_result_over_threads_and_under_every_launcher() {
    let halo = "halo --cells 8x8x16 --steps 40 --residual-every 8";
    let alone = benchmark(&mut Command::new(IDLEWAVE), &format!("{halo} --ranks 2"), 2);
    let sort = benchmark(&mut Command::new(IDLEWAVE), "is --class S --ranks 3", 3);
    assert_eq!(sort["operations"], 655_360);
    for mpi in some_installations("benchmark") {
        // Ranks that share a CPU wait a long time if the library does not yield.
        let ranks = if mpi.name == "openmpi4" { 4 } else { 2 };
        let launched = |args: &str, used: usize| {
            let mut command = mpi.launch(ranks);
            benchmark(command.arg(IDLEWAVE), args, used)
        };
        launched("is --class S", ranks as usize);
        let fewer = launched(&format!("{halo} --ranks 2"), 2);
        assert_eq!(fewer["checksum"], alone["checksum"], "{}", mpi.name);
    }
}

#[test]
fn a_benchmark_too_large_for_the_memory_is_refused_beforehand() {
    let output = Command::new(IDLEWAVE)
        .args([
            "measure",
            "halo",
            "--cells",
            "2048x1024x1024",
            "--ranks",
            "64",
        ])
        .output()
        .expect("idlewave");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    for part in [
        "halo:2048x1024x1024",
        "for each of 64 ranks",
        "available",
        "next step:",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// The output of a command that gets SIGINT after some seconds, or later if a busy machine has
/// measured nothing by then.
fn interrupted(mut command: impl FnMut() -> Command) -> serde_json::Value {
    let mut said = String::new();
    for seconds in [3, 12, 48, 192] {
        let mut command = command();
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("idlewave");
        // Without a handler, the signal may be ignored.
        common::await_handler(&mut child, Signal::INT);
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        common::signal(&child, Signal::INT);
        let ended = common::wait(child);
        match serde_json::from_str(&ended.stdout) {
            Ok(found) => return found,
            Err(error) => said += &format!("{error}: {}\n", ended.stderr),
        }
    }
    panic!("{said}");
}

#[test]
fn an_interrupted_benchmark_prints_what_was_measured_until_then() {
    let found = interrupted(|| {
        let mut command = Command::new(IDLEWAVE);
        command.args("measure halo --cells 16 --steps 100000000 --ranks 2 --json".split(' '));
        command
    });
    assert_eq!(found["interrupted"], true);
    assert_eq!(found["results"]["verified"], true);
    let steps = found["results"]["iterations"].as_u64().expect("steps");
    assert!((1..100_000_000).contains(&steps), "{steps}");
}

/// Measures with `-o`, and returns what was printed, the manifest and the findings.
fn kept(args: &str) -> [serde_json::Value; 3] {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let mut command = Command::new(IDLEWAVE);
    command.arg("measure").args(args.split(' ')).arg("--json");
    let mut found = json(&command.arg("-o").arg(&run).output().expect("idlewave"));
    let findings = explained(&run);
    let text = std::fs::read(run.join("run.json")).expect("a manifest");
    let manifest = serde_json::from_slice(&text).expect("a manifest");
    [found["results"].take(), manifest, findings]
}

#[test]
fn a_run_of_a_benchmark_keeps_what_was_printed_and_its_computations_are_analysed() {
    for (args, iterations) in [
        ("npb EP --ranks 2", 64),
        ("npb is --ranks 2", 10),
        ("halo --cells 8 --steps 50 --ranks 2", 50),
    ] {
        let [printed, manifest, findings] = kept(args);
        let sheet = &findings["benchmarks"][0]["sheet"];
        for part in ["benchmark", "verified", "operations", "rate", "ranks"] {
            assert_eq!(sheet[part], printed[part], "{args}: {part}");
            assert_eq!(
                manifest["phases"][0]["kind"][part], printed[part],
                "{args}: {part}"
            );
        }
        let jitter = &findings["jitter"][0];
        assert_eq!(jitter["steps"], iterations, "{args}");
        let counts = jitter["slowest_counts"].as_array().expect("by rank");
        let slowest = |rank: usize| &printed["ranks"][rank]["iterations"]["slowest"];
        assert_eq!(counts, &[slowest(0).clone(), slowest(1).clone()], "{args}");
        let regions = printed["ranks"][0]["regions"].as_array();
        assert!(regions.is_some_and(|all| all.len() > 1), "{args}");
    }
}

#[test]
fn a_run_of_a_ping_pong_keeps_the_round_trips_of_both_ranks() {
    let [printed, manifest, findings] = kept("pingpong --ranks 2 --bytes 1024 --duration 200ms");
    let phases = manifest["phases"].as_array().expect("one per size");
    assert_eq!(
        phases.len(),
        printed["sizes"].as_array().map_or(0, Vec::len)
    );
    assert_eq!(phases[0]["kind"]["latency"], printed["sizes"][0]["latency"]);
    let rows = manifest["tables"].as_array().expect("tables");
    let regions = rows.iter().find(|table| table["name"] == "regions");
    let rounds = phases
        .iter()
        .filter_map(|phase| phase["kind"]["rounds"].as_u64());
    let rows = regions.and_then(|table| table["rows"].as_u64());
    assert_eq!(rows, Some(2 * rounds.sum::<u64>()));
    let analysed = findings["jitter"].as_array().expect("a list");
    let names: Vec<_> = analysed
        .iter()
        .map(|found| found["name"].as_str())
        .collect();
    let wanted = ["round trips of 0 bytes", "round trips of 1,024 bytes"];
    assert_eq!(names, wanted.map(Some));
}

#[test]
fn all_benchmarks_have_a_row_each() {
    let mut command = Command::new(IDLEWAVE);
    command.args("measure npb all --class S --ranks 3 --json".split(' '));
    let found = json(&testing::output(&mut command));
    let rows = found["results"]["rows"].as_array().expect("a list");
    for row in rows {
        match row["ended"].as_str() {
            Some("done") => assert_eq!(row["sheet"]["verified"], true, "{row}"),
            Some("refused") => {
                let reason = row["reason"].as_str().expect("a reason");
                assert!(reason.contains("not on 3; try "), "{row}");
            }
            _ => panic!("{row}"),
        }
    }
    let done = |name: &str| {
        rows.iter()
            .any(|r| r["benchmark"] == name && r["ended"] == "done")
    };
    assert!(done("ep:S") && done("is:S"), "{rows:?}");
}

#[test]
fn a_series_of_a_benchmark_takes_turns_and_is_kept() {
    let [printed, manifest, _] =
        kept("halo --cells 8 --steps 20 --scaling weak --ranks 1,2 --repeats 2");
    let points = printed["points"].as_array().expect("a point per number");
    let ranks: Vec<_> = points.iter().filter_map(|p| p["ranks"].as_u64()).collect();
    assert_eq!(ranks, [1, 2]);
    assert_eq!(points[0]["efficiency"]["value"], 1.0);
    assert_eq!(points[1]["times"].as_array().map(Vec::len), Some(2));
    assert_eq!(manifest["phases"][0]["kind"]["points"], printed["points"]);
    let [printed, ..] =
        kept("md --particles 2000 --steps 20 --scaling strong --ranks 1,2 --repeats 1");
    assert_eq!(printed["points"][1]["program"], "md:864");
}

#[test]
fn a_bundle_of_an_exchange_is_explained_with_all_ranks_of_every_series() {
    let directory = tempfile::tempdir().expect("a directory");
    // Two iterations are needed; on a busy machine they may take longer than a short run.
    for duration in ["200ms", "2s", "8s", "32s"] {
        let run = directory.path().join(duration);
        let args = "measure exchange --scaling weak --ranks 1,2,3 --json --duration";
        let mut command = Command::new(IDLEWAVE);
        command.args(args.split(' ')).args([duration, "-o"]);
        let found = json(&command.arg(&run).output().expect("idlewave"));
        assert_eq!(found["results"]["series"].as_array().map(Vec::len), Some(3));
        let findings = explained(&run);
        if findings["lockstep"].as_array().map(Vec::len) != Some(3) {
            println!("{}", findings["lockstep"]);
            continue;
        }
        let text = std::fs::read(run.join("run.json")).expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_slice(&text).expect("a manifest");
        for rank in manifest["ranks"].as_array().expect("ranks") {
            let threads = rank["threads"].as_array().expect("a thread per phase");
            assert_eq!(threads.len(), 3);
        }
        return;
    }
    panic!("a series is not explained");
}

#[test]
fn an_interrupted_measurement_prints_what_was_measured_until_then() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut runs = 0;
    let found = interrupted(|| {
        runs += 1;
        let run = directory.path().join(runs.to_string());
        let mut command = Command::new(IDLEWAVE);
        command.args("measure barrier --duration 600s --no-trace --json -o".split(' '));
        command.arg(run);
        command
    });
    assert_eq!(found["interrupted"], true);
    assert!(found["results"]["series"][0]["iterations"].as_u64() > Some(0));
}

/// Findings of `measure WHAT --json` with these further words, and what it left in the directory for
/// temporary files.
fn of_cpus(words: &str, output: Option<&Path>) -> (serde_json::Value, usize) {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(IDLEWAVE);
    command.env("TMPDIR", scratch.path());
    command.arg("measure").args(words.split(' ')).arg("--json");
    if let Some(run) = output {
        command.arg("-o").arg(run);
    }
    let found = json(&command.output().expect("idlewave"));
    let left = std::fs::read_dir(&scratch).expect("it is there").count();
    (found, left)
}

#[test]
fn detours_of_every_cpu_are_kept_if_asked_for_and_leave_nothing_otherwise() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let (found, left) = of_cpus("detour --duration 300ms", Some(&run));
    assert_eq!(left, 0);
    let kept = explained(&run);
    assert_eq!(kept["cpus"], found["cpus"]);
    let cpus = found["cpus"].as_array().expect("a list");
    assert!(!cpus.is_empty());
    for cpu in cpus {
        assert_eq!(cpu["fixed_work"], serde_json::Value::Null);
        assert!(cpu["detours"]["watched"].as_u64() > Some(0), "{cpu}");
    }
    assert!(run.join("detours.arrow").is_file());
    let (found, left) = of_cpus("detour --duration 100ms --no-trace", None);
    assert_eq!((left, &found["trace"]["mode"]), (0, &"off".into()));
}

#[test]
fn as_much_fixed_work_is_measured_as_asked_for() {
    let cpu = idlewave_sys::affinity::allowed().expect("CPUs");
    let cpu = cpu.iter().next().expect("a CPU");
    let words = format!("fwq --cpus {cpu} --work 50000 --runs 1000 --no-trace");
    let (found, left) = of_cpus(&words, None);
    assert_eq!((left, found["cpus"].as_array().map(Vec::len)), (0, Some(1)));
    let work = &found["cpus"][0]["fixed_work"];
    assert_eq!(
        (&work["work_steps"], &work["count"]),
        (&50_000.into(), &1_000.into())
    );
}

#[test]
fn work_is_counted_in_equal_times_and_its_kind_is_kept() {
    let cpu = idlewave_sys::affinity::allowed().expect("CPUs");
    let cpu = cpu.iter().next().expect("a CPU");
    let words = format!(
        "ftq --cpus {cpu} --every 200us --kernel integer --duration 100ms --one-at-a-time --no-trace"
    );
    let (found, left) = of_cpus(&words, None);
    assert_eq!((left, found["cpus"].as_array().map(Vec::len)), (0, Some(1)));
    assert_eq!(found["conditions"]["one_at_a_time"], true);
    let work = &found["cpus"][0]["fixed_time"];
    assert_eq!(
        (&work["interval"], &work["kernel"]),
        (&200_000.into(), &"integer".into())
    );
    assert!(work["count"].as_u64() > Some(0), "{work}");
    assert!(work["lost"]["value"].as_f64() >= Some(0.0), "{work}");
}

#[test]
fn interrupted_fixed_work_is_explained_as_far_as_it_went() {
    let found = interrupted(|| {
        let mut command = Command::new(IDLEWAVE);
        command.args("measure fwq --duration 600s --no-trace --json".split(' '));
        command
    });
    assert_eq!(found["header"]["measured"]["state"], "incomplete");
    assert!(found["cpus"][0]["fixed_work"]["count"].as_u64() > Some(0));
}

#[test]
fn several_starts_after_idleness_are_compared() {
    // On a busy machine, a short start has too few windows for a verdict.
    for duration in ["150ms", "1s", "8s"] {
        let words = format!("warmup --starts 6 --idle 20ms --no-trace --duration {duration}");
        let (found, left) = of_cpus(&words, None);
        assert_eq!(left, 0);
        let starts = &found["cpus"][0]["starts"];
        if starts.is_null() {
            println!("{duration}: {}", found["cpus"]);
            continue;
        }
        assert_eq!(starts["starts"], 6);
        assert!(starts["slower"]["low"].as_f64() <= starts["slower"]["high"].as_f64());
        return;
    }
    panic!("no start is long enough");
}

#[test]
fn a_load_sweep_measures_one_cpu_and_then_more() {
    let allowed = idlewave_sys::affinity::allowed().expect("CPUs");
    let two: Vec<String> = allowed.iter().take(2).map(|c| c.to_string()).collect();
    if two.len() < 2 {
        skip("a load sweep needs two CPUs");
        return;
    }
    let words = format!(
        "load-sweep --cpus {} --no-trace --duration 200ms",
        two.join(",")
    );
    let (found, _) = of_cpus(&words, None);
    let points = found["load_sweep"]["points"].as_array().expect("points");
    let busy: Vec<_> = points.iter().map(|p| p["busy"].as_u64()).collect();
    assert_eq!(busy, [Some(1), Some(2)]);
    for point in points {
        assert!(point["work"]["value"].as_f64() > Some(0.0), "{point}");
    }
}

#[test]
fn smt_is_measured_or_refused_with_what_to_do_instead() {
    let ended = common::run(common::idlewave().args(["measure", "smt", "--duration", "100ms"]));
    match ended.code {
        Some(0) => assert!(ended.stdout.contains("FROM A = idle TO B = busy")),
        _ => {
            let [what, next] = ended.failed(3);
            assert!(what.contains("measure this machine: "), "{what}");
            assert!(!next.is_empty());
        }
    }
}

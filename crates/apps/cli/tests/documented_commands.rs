//! Runs the commands that README, docs and help texts tell a user to type.
//!
//! Convention: in a block marked `console`, lines that begin with `$ ` are commands and the others
//! are their output, abridged. The commands `$ idlewave ...`, with or without `sudo`, and
//! `$ cargo run --release -- ...` are run, all in one directory, README first, with a short
//! duration, few steps or ranks, and on CPUs that this process may use. No command is run twice, so
//! two commands that write the same run must be identical. All other commands must be in `NOT_RUN`.
//! `./app` is a small MPI program; `app.goal` and `ring.iw` come from docs/examples, which is there
//! too.

#![allow(clippy::unwrap_used)]

mod common;

use common::commands_of_page;
use idlewave_mpi::testing::{installation, launcher_failed, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Commands of other programs. This test may be running as part of them.
const NOT_RUN: [&str; 2] = ["./check", "./check --long"];
/// Commands that launch idlewave in parallel: crates/apps/cli/tests/measure.rs runs these
/// measurements under every launcher, slow_links.rs the calibration, placement_measured.rs the
/// study of placements, place_program.rs that of programs, nodes.rs that of nodes, place.rs that of the load, gang_contexts.rs the study
/// with benchmarks.
const LAUNCHED: [&str; 11] = [
    "sudo idlewave gang study --npb",
    "mpirun -n 64 --map-by ppr:1:node idlewave study",
    "srun -N 64 --ntasks-per-node=1 idlewave study",
    "mpirun -n 4 idlewave measure ",
    "mpirun -n 16 --map-by ppr:4:node idlewave place study",
    "mpirun -n 8 --map-by ppr:2:node idlewave place study",
    "idlewave place study -- ./app",
    "idlewave place study --hosts node[1-4] ",
    "mpirun -n 8 --map-by ppr:4:node idlewave place calibrate",
    "mpirun -n 16 --map-by ppr:1:node idlewave place load",
    "srun -N 16 --ntasks-per-node=1 idlewave place load",
];
/// The run that `study` records on the pages.
const STUDIED: &str = "before";
/// These replace the documented durations: the shortest of a study, one for a calibration, which
/// needs several messages of each length, and one for all other commands.
const STUDY: &str = "2s";
const CALIBRATION: &str = "4s";
const DURATION: &str = "300ms";
/// If others keep the CPUs busy, the ranks of a calibration get too few turns.
const LONGER_CALIBRATIONS: [&str; 2] = ["12s", "60s"];
/// If others keep the CPUs even busier, a study has no model, and says so.
const OVERLOADED: &str = "they must leave at least 1 % to ranks";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// CHANGELOG, README, and everything below docs, in this order.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("CHANGELOG.md"), root().join("README.md")];
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages[2..].sort();
    pages
}

/// Commands below "Examples:" of a help text.
fn examples(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|l| *l != "Examples:")
        .skip(1)
        .take_while(|l| l.starts_with("  "))
        .map(|l| l.trim().to_owned())
        .collect()
}

fn idlewave(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "idlewave {}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// Subcommands, from the help.
fn subcommands() -> Vec<String> {
    commands_of(&idlewave(&["--help"]))
}

/// Commands that a help text lists.
fn commands_of(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|l| *l != "Commands:")
        .skip(1)
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .map(|l| l.split_whitespace().next().unwrap().to_owned())
        .filter(|name| name != "help")
        .collect()
}

/// Commands with their subcommands, as in `measure exchange`: their words.
fn all_commands() -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = subcommands().into_iter().map(|name| vec![name]).collect();
    for name in subcommands() {
        let below = commands_of(&idlewave(&[&name, "--help"]));
        all.extend(below.into_iter().map(|below| vec![name.clone(), below]));
    }
    all
}

/// The command as it is run here; `None` if it is not idlewave's.
fn runnable(command: &str, allowed: &str) -> Option<String> {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let arguments = command
        .strip_prefix("idlewave ")
        .or_else(|| command.strip_prefix("cargo run --release -- "))?;
    let mut words: Vec<&str> = arguments.split_whitespace().collect();
    let duration = match words.as_slice() {
        ["study", ..] => STUDY,
        ["place", "calibrate", ..] => CALIBRATION,
        _ => DURATION,
    };
    for (option, value) in [("--duration", duration), ("--cpus", allowed)] {
        if let Some(at) = words.iter().position(|w| *w == option) {
            words[at + 1] = value;
        }
    }
    let untimed = ["is", "halo", "npb", "list", "step"];
    let place = match words[0] {
        "study" => Some(1),
        // The size of a benchmark determines its duration, and `step` reads times of others.
        "measure" if words.get(1).is_some_and(|w| untimed.contains(w)) => None,
        // After the name of the measurement.
        "measure" => Some(2),
        _ => None,
    };
    if let Some(at) = place.filter(|_| !words.contains(&"--duration")) {
        words.splice(at..at, ["--duration", duration]);
    }
    if words.get(1) == Some(&"warmup") {
        words.extend(["--idle", "10ms"]);
    }
    if words[0] == "measure" && words.get(1) == Some(&"npb") {
        // measure.rs runs all of them.
        words
            .iter_mut()
            .filter(|w| **w == "all")
            .for_each(|w| *w = "is");
    }
    if words[0] == "gang" {
        adapt_gang(&mut words);
    }
    let simulated = ["stencil", "collective", "like"];
    if words[0] == "simulate" && words.get(1).is_some_and(|w| simulated.contains(w)) {
        // A recorded program has its own number of steps; a study has none.
        let few = if words[1] == "like" { "4" } else { "20" };
        let steps = [("--steps", few)]
            .into_iter()
            .filter(|_| words[1] != "like" || words[2] == STUDIED);
        for (option, value) in steps.chain([("--replications", "2")]).collect::<Vec<_>>() {
            if !words.contains(&option) {
                words.extend([option, value]);
            }
        }
        // Ten thousand ranks under all sources of a study take too long in unoptimised builds.
        if let Some(at) = words.iter().position(|w| w.contains("1e4")) {
            words[at] = "10..100";
        }
    }
    Some(format!("idlewave {}", words.join(" ")))
}

/// A separate service for this test, a view that ends, and a short study.
fn adapt_gang(words: &mut Vec<&str>) {
    words.retain(|word| *word != "--watch");
    let before = words.iter().position(|w| *w == "--").unwrap_or(words.len());
    match words.get(1).copied().unwrap_or_default() {
        "start" | "submit" | "list" | "status" | "cancel" | "drain" | "stop" | "metrics" => {
            words.splice(before..before, ["--socket", "gang/gang.sock"]);
        }
        "study" => {
            let short = "--slices 20ms --repeats 1 --length 100ms --switches 2";
            words.splice(2..before, short.split(' '));
        }
        _ => {}
    }
}

/// CPUs of this process, as in `0-3,8`.
fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

#[test]
fn every_documented_command_works() {
    let binaries = Path::new(env!("CARGO_BIN_EXE_idlewave")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(binaries.to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(places).unwrap();
    let allowed = allowed_cpus();

    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        groups.push((page.display().to_string(), commands_of_page(&text)));
    }
    for words in all_commands() {
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        groups.push((words.join(" "), examples(&idlewave(&words))));
    }

    // One directory, and no command twice: a run recorded by one page may be explained by another.
    let dir = tempfile::tempdir().unwrap();
    let schedules = root().join("docs/examples");
    fs::create_dir(dir.path().join("docs")).unwrap();
    fs::create_dir(dir.path().join("gang")).unwrap();
    std::os::unix::fs::symlink(&schedules, dir.path().join("docs/examples")).unwrap();
    fs::copy(schedules.join("pingpong.goal"), dir.path().join("app.goal")).unwrap();
    fs::copy(schedules.join("ring.iw"), dir.path().join("ring.iw")).unwrap();
    let mpi = installation("openmpi4");
    if let Some(mpi) = &mpi {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/known.c");
        mpi.compile_c(&source, &dir.path().join("app"));
        // `mpirun` is a stub, whatever else is installed.
        std::os::unix::fs::symlink(&mpi.mpirun, dir.path().join("mpirun")).unwrap();
    }
    let path = std::env::join_paths(
        std::iter::once(dir.path().to_owned()).chain(std::env::split_paths(&path)),
    )
    .unwrap();
    let mut done = BTreeSet::new();
    let mut failures = Vec::new();
    for (place, commands) in groups {
        for command in commands {
            if NOT_RUN.contains(&command.as_str())
                || LAUNCHED.iter().any(|begin| command.starts_with(begin))
            {
                continue;
            }
            let line = runnable(&command, &allowed)
                .unwrap_or_else(|| panic!("{place}: `{command}` is not known to this test"));
            if !done.insert(line.clone()) {
                continue;
            }
            if line.contains("./app") && mpi.is_none() {
                skip("no MPI library for ./app");
                continue;
            }
            if line.contains("--scotch") && Command::new("scotch_gmap").arg("-V").output().is_err()
            {
                skip("no gmap of Scotch (package scotch)");
                continue;
            }
            let shell = |line: &str| {
                let mut shell = Command::new("sh");
                if let Some(mpi) = &mpi {
                    mpi.prepare(&mut shell);
                }
                shell
                    .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
                    .env("OMPI_MCA_mpi_yield_when_idle", "1")
                    .args(["-c", line])
                    .current_dir(dir.path())
                    .env("PATH", &path)
                    // Other tests check the results of the full prediction.
                    .env("IDLEWAVE_EFFORT", "0.0001")
                    .output()
                    .unwrap()
            };
            let begun = Instant::now();
            let mut output = shell(&line);
            if launcher_failed(&String::from_utf8_lossy(&output.stderr)) {
                output = shell(&line);
            }
            for longer in LONGER_CALIBRATIONS {
                if output.status.success() || !line.starts_with("idlewave place calibrate ") {
                    break;
                }
                if line.contains("--samples") {
                    // The failed calibration keeps what it measured, so that it can be fitted
                    // again.
                    let _ = fs::remove_file(dir.path().join("samples.json"));
                }
                output = shell(&line.replace(CALIBRATION, longer));
            }
            // Shown if the test fails.
            println!("{:5.1} s {line}", begun.elapsed().as_secs_f64());
            let refused = String::from_utf8_lossy(&output.stderr);
            let may_refuse = refused.contains(OVERLOADED);
            if may_refuse || line.starts_with("idlewave fit ") {
                // Later commands simulate this noise: simulating that of a busy machine takes
                // minutes.
                fs::copy(schedules.join("noise.toml"), dir.path().join("noise.toml")).unwrap();
            }
            // Whether this machine keeps a limit is not the question.
            let judged = line.contains("--limit") || line.contains("--profile");
            let is_verdict = judged && matches!(output.status.code(), Some(7 | 8));
            if !may_refuse && !is_verdict && !output.status.success() {
                failures.push(format!(
                    "{place}: `{line}` ended with {}: {}",
                    output.status, refused
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let ran = done.len();
    assert!(
        ran >= 4,
        "only {ran} commands found: has the convention changed?"
    );
}

#[test]
fn commands_in_running_text_exist() {
    let mut known = subcommands();
    // Commands that idlewave starts itself are not in the help.
    known.extend(["node-run", "node-send", "node-record"].map(str::to_owned));
    // The examples of the command and of its subcommands.
    let help: Vec<String> = known
        .iter()
        .map(|name| {
            let own = idlewave(&[name, "--help"]);
            let below = commands_of(&own).into_iter();
            let below = below.map(|below| idlewave(&[name, &below, "--help"]));
            below.fold(own.clone(), |all, one| all + &one)
        })
        .collect();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        // Outside of blocks; every second piece between single backticks is code.
        let prose: String = text.split("```").step_by(2).collect();
        for code in prose.split('`').skip(1).step_by(2) {
            let Some(arguments) = code.strip_prefix("idlewave ") else {
                continue;
            };
            let mut words = arguments.split_whitespace();
            let name = words.next().unwrap();
            let place = known.iter().position(|k| k == name);
            let place = place.unwrap_or_else(|| panic!("{}: `{code}`", page.display()));
            for option in words.filter(|w| w.starts_with("--")) {
                assert!(help[place].contains(option), "{}: `{code}`", page.display());
            }
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets {
            if target.contains("://") {
                continue;
            }
            let file = target.split('#').next().unwrap();
            let full = page.parent().unwrap().join(file);
            assert!(full.exists(), "{}: {target}", page.display());
        }
        // Files of the repository that are named in code.
        for code in text.split('`').skip(1).step_by(2) {
            if code.starts_with("crates/") && !code.contains(char::is_whitespace) {
                assert!(root().join(code).exists(), "{}: {code}", page.display());
            }
        }
    }
}

#[test]
fn help_fits_eighty_columns_and_names_every_command() {
    let names = all_commands();
    assert!(names.len() >= 10, "{names:?}");
    for words in std::iter::once(Vec::new()).chain(names) {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        for line in idlewave(&arguments).lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

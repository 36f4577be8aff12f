//! What reaches a terminal: text from outside cannot control it, lines fit its width, and colours
//! are optional.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, bundle, copy, idlewave, lockstep, run};
use idlewave_units::foreign::is_hidden;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sets the window title, clears the screen, sets colours, forges a line and reverses the order of
/// letters.
const HOSTILE: &str =
    "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31m\u{9b}1m\r\n\tforged\u{202e}\u{2066}\u{2028}";

/// Asserts that no output could control a terminal, and that the hostile text was in it, on one
/// line.
#[track_caller]
fn harmless(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(|c| is_hidden(c) && c != '\n'), "{text:?}");
        assert!(
            !text
                .lines()
                .any(|line| line.trim_start().starts_with("forged")),
            "{text}"
        );
    }
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        said.contains("]0;owned"),
        "the hostile text is not said: {ended:?}"
    );
}

/// A copy of a run, with hostile names for its directory and its host.
fn hostile_run(run: &Path, dir: &Path) -> PathBuf {
    let path = dir.join(HOSTILE);
    copy(run, &path);
    let file = path.join("run.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    manifest["nodes"][0]["host"]["name"] = HOSTILE.into();
    fs::write(&file, manifest.to_string()).unwrap();
    path
}

fn hostile_noise(dir: &Path) -> PathBuf {
    let file = dir.join("noise.toml");
    // TOML escapes such characters like JSON.
    let name = Value::from(HOSTILE);
    let text = format!(
        "schema = 1\nabout = {name}\ncpus_per_node = 4\n[[source]]\nkind = \"task\"\nname = {name}\n\
         arrivals = {{ process = \"poisson\", rate_per_s = 100.0 }}\nlength = {{ law = \"exponential\", mean_ns = 250000.0 }}\n"
    );
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn names_in_bundles_and_models_cannot_control_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let path = hostile_run(bundle(), dir.path());
    let (lockstep, below) = (lockstep(), tempfile::tempdir().unwrap());
    let simulated = hostile_run(&lockstep.path().join("run"), below.path());
    let noise = hostile_noise(dir.path());
    let model = dir.path().join("fitted.toml");
    let quick = ["--steps", "100", "--replications", "4"];
    for (words, files, options) in [
        (
            &["fit"][..],
            vec![&simulated],
            vec!["-o", model.to_str().unwrap()],
        ),
        (&["explain"], vec![&path], vec![]),
        (&["report"], vec![&path], vec![]),
        (
            &["simulate", "like"],
            vec![&simulated],
            vec!["--replications", "4"],
        ),
        (
            &["simulate", "stencil", "--ranks", "16", "--noise"],
            vec![&noise],
            quick.to_vec(),
        ),
    ] {
        let ended = run(idlewave().args(words).args(files).args(options));
        ended.succeeded();
        harmless(&ended);
    }
    assert!(model.exists());
}

#[test]
fn json_with_hidden_characters_stays_json_with_the_same_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let lockstep = lockstep();
    let path = hostile_run(&lockstep.path().join("run"), dir.path());
    let model = dir.path().join("fitted.toml");
    let ended = run(idlewave()
        .arg("fit")
        .arg(&path)
        .arg("--json")
        .arg("-o")
        .arg(model));
    ended.succeeded();
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(said["about"].as_str().unwrap().contains(HOSTILE), "{said}");
    assert!(
        !ended.stdout.contains(|c| is_hidden(c) && c != '\n'),
        "{ended:?}"
    );
    // The model itself, which is for programs, keeps the text too.
    let ended = run(idlewave().arg("fit").arg(&path).args(["-o", "-"]));
    ended.succeeded();
    let model: toml::Value = toml::from_str(&ended.stdout).unwrap();
    assert!(
        model["about"].as_str().unwrap().contains(HOSTILE),
        "{model}"
    );
    assert!(
        !ended.stdout.contains(|c| is_hidden(c) && c != '\n'),
        "it has hidden characters"
    );
}

#[test]
fn failures_and_notes_cannot_control_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join(HOSTILE);
    let quoted = dir.path().join("quoted.toml");
    fs::write(
        &quoted,
        format!("schema = 1\n\"{}\" = 2\n", "x\\u001b]0;owned\\u009b\\u202e"),
    )
    .unwrap();
    let recorded = dir.path().join(format!("r{HOSTILE}"));
    let noise = ["simulate", "stencil", "--ranks", "2", "--noise"];
    for command in [
        idlewave().arg("explain").arg(&missing),
        idlewave().arg("fit").arg(&missing),
        idlewave().arg("x\u{9b}]0;owned"),
        idlewave().args(noise).arg(&quoted),
        idlewave().args(["place", "topology"]).arg(&missing),
        idlewave()
            .args(["record", "-o"])
            .arg(&recorded)
            .args(["--", "true"]),
        idlewave()
            .args(["record", "-o"])
            .arg(dir.path().join("r"))
            .arg("--")
            .arg(HOSTILE),
    ] {
        harmless(&run(command));
    }
    assert!(recorded.exists());
}

/// Sends this to every client of that socket.
fn answers(socket: &Path, reply: Value) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(format!("{reply}\n").as_bytes()).unwrap();
        }
    });
}

#[test]
fn a_service_cannot_control_the_terminal_of_who_asks_it() {
    let dir = tempfile::tempdir().unwrap();
    let quantiles = json!({ "n": 1, "median": 1, "p90": 1, "p99": 1, "longest": 1 });
    let gang = json!({
        "gang": 1, "name": HOSTILE, "user": 0, "stage": "running", "interactive": false, "weight": 1, "ranks": 1,
        "size": 1, "processes": 1, "nodes": [0], "row": 0, "cpu": 1, "turns": 1, "age": 1, "idle": false,
        "context": null, "observed": null, "waits": [HOSTILE], "ending": false, "trouble": HOSTILE,
    });
    let node = json!({
        "node": 0, "host": HOSTILE, "cpus": 1, "freezer": HOSTILE, "coordinated": true, "limits": [HOSTILE],
    });
    let switches = json!({
        "switched": 1, "aborted": [[HOSTILE, 1]], "missing": 0, "cost": quantiles, "skew": quantiles,
        "phases": [[HOSTILE, quantiles]], "total": 1, "histogram": [],
    });
    let status = json!({
        "age": 1, "open": false, "draining": false, "running": null, "slice": 1, "slice_for": null, "overhead": 0.01,
        "contexts": "all", "nodes": [node], "rows": [], "gangs": [gang], "switches": switches, "epoch": HOSTILE,
    });
    let (stands, fails) = (dir.path().join("stands"), dir.path().join("fails"));
    answers(&stands, json!({ "status": status }));
    answers(&fails, json!({ "failed": HOSTILE }));
    let ask = |words: &[&str], socket: &Path| {
        let ended = run(idlewave()
            .arg("gang")
            .args(words)
            .arg("--socket")
            .arg(socket));
        harmless(&ended);
        ended
    };
    for words in [
        &["list"][..],
        &["status"],
        &["metrics"],
        &["list", "--json"],
        &["status", "--json"],
    ] {
        ask(words, &stands).succeeded();
        assert_eq!(ask(words, &fails).code, Some(2));
    }
    ask(&["cancel", "1"], &fails);
    let submit = [
        "gang",
        "submit",
        "--socket",
        fails.to_str().unwrap(),
        "--",
        "true",
    ];
    harmless(&run(idlewave().args(submit)));
}

/// The command's output on a terminal with this many columns.
fn on_terminal(columns: u16, command: &mut Command) -> String {
    let size = libc::winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: both numbers and the size outlive the call; the other pointers may be null.
    let made = unsafe {
        libc::openpty(
            &mut ours,
            &mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &size,
        )
    };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were opened just now and belong to nobody else.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut child = command
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    // Once this process has closed the other end, only the command has it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    // EIO is the end of a terminal.
    let _ = fs::File::from(ours).read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

/// Uses a separate run: one that another test is reading is busy.
fn explain(dir: &Path) -> Command {
    let run = dir.join("run");
    if !run.exists() {
        copy(bundle(), &run);
    }
    let mut command = idlewave();
    command.arg("explain").arg(run).env("TERM", "xterm");
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

/// The width of the widest line, and whether the output says that columns of tables are missing.
fn shown(text: &str) -> (usize, bool) {
    let widest = text.lines().map(|line| line.chars().count()).max();
    (widest.unwrap(), text.contains("left out at this width"))
}

#[test]
fn the_summary_is_as_wide_as_the_terminal_and_says_what_it_leaves_out() {
    let dir = tempfile::tempdir().unwrap();
    for columns in [40, 60, 80, 100, 120, 200] {
        // Without progress bars, which are drawn and removed.
        let mut plain = explain(dir.path());
        plain.env("TERM", "dumb").env("COLUMNS", "70");
        let text = on_terminal(columns, &mut plain);
        let (widest, left_out) = shown(&text);
        let most = usize::from(columns).min(120);
        assert!(widest <= most, "{columns} columns, {widest} wide:\n{text}");
        assert!(
            columns < 100 || widest > 80,
            "{columns} columns, {widest} wide:\n{text}"
        );
        assert!(columns > 40 || left_out, "{columns} columns:\n{text}");
        assert!(columns < 80 || !left_out, "{columns} columns:\n{text}");
    }
    // Without a terminal, the variable sets the width.
    for (variable, widths) in [
        (None, 70..=80),
        (Some("50"), 45..=50),
        (Some("wide"), 70..=80),
    ] {
        let mut command = explain(dir.path());
        command.envs(variable.map(|columns| ("COLUMNS", columns)));
        let ended = run(&mut command);
        ended.succeeded();
        let (widest, _) = shown(&ended.stdout);
        assert!(widths.contains(&widest), "{variable:?}: {widest} wide");
    }
}

#[test]
fn colours_are_for_terminals_that_know_them_and_for_those_who_want_them() {
    const BOLD: &str = "\u{1b}[1m";
    let dir = tempfile::tempdir().unwrap();
    assert!(on_terminal(80, &mut explain(dir.path())).contains(BOLD));
    assert!(on_terminal(80, explain(dir.path()).env("NO_COLOR", "")).contains(BOLD));
    let forced = run(explain(dir.path()).env("CLICOLOR_FORCE", "1"));
    assert!(forced.stdout.contains(BOLD), "{forced:?}");
    assert!(!run(&mut explain(dir.path())).stdout.contains('\u{1b}'));
    // Other control sequences, such as those of progress bars, may still move the cursor if the
    // terminal supports it.
    assert!(!on_terminal(80, explain(dir.path()).env("NO_COLOR", "1")).contains(BOLD));
    // A terminal without capabilities gets none.
    assert!(!on_terminal(80, explain(dir.path()).env("TERM", "dumb")).contains('\u{1b}'));
    let mut recorded = idlewave();
    recorded
        .args(["record", "-o"])
        .arg(dir.path().join("r"))
        .args(["--", "true"]);
    let said = on_terminal(80, recorded.env("TERM", "dumb"));
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

/// Finds plural words after a 1.
fn wrong_plurals(text: &str) -> Vec<String> {
    const PLURALS: [&str; 12] = [
        "ranks",
        "nodes",
        "CPUs",
        "cores",
        "messages",
        "steps",
        "times",
        "runs",
        "sources",
        "pairs",
        "operations",
        "neighbours",
    ];
    // Drop the brackets of markup.
    let text = text.replace(['<', '>', '\n'], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let two = words
        .windows(2)
        .filter(|two| two[0].trim_start_matches('(') == "1");
    let plural = |word: &str| PLURALS.contains(&word.trim_matches(|c: char| !c.is_alphabetic()));
    two.filter(|two| plural(two[1]))
        .map(|two| two.join(" "))
        .collect()
}

#[test]
fn one_of_anything_is_singular() {
    assert_eq!(
        wrong_plurals("on 1 nodes, 11 ranks\n(1 steps)"),
        ["1 nodes,", "(1 steps)"]
    );
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let page = page.to_str().unwrap();
    let noise = "poisson:10ms:50us";
    let goal = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/pingpong.goal");
    let commands: [&[&str]; 6] = [
        &[
            "simulate", "stencil", "--ranks", "1", "--noise", noise, "--steps", "20", "--delay",
            "3,0,1ms",
        ],
        &[
            "simulate",
            "collective",
            "--ranks",
            "1",
            "--noise",
            noise,
            "--html",
            page,
        ],
        &["simulate", "goal", goal.to_str().unwrap()],
        &[
            "place",
            "--pattern",
            "halo",
            "-n",
            "1",
            "--nodes",
            "1",
            "--cores",
            "1",
            "--work",
            "1ms",
            "--steps",
            "1",
        ],
        &["measure", "exchange", "--ranks", "1", "--duration", "300ms"],
        &["gang", "study", "--help"],
    ];
    for words in commands {
        let ended = run(idlewave().args(words));
        let shown = fs::read_to_string(page).unwrap_or_default();
        let wrong = [&ended.stdout, &ended.stderr, &shown].map(|text| wrong_plurals(text));
        assert!(wrong.iter().all(Vec::is_empty), "{words:?}: {wrong:?}");
        let _ = fs::remove_file(page);
    }
}

//! `idlewave simulate goal`: what it prints, what it refuses, and how it ends.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run};
use idlewave_simulate::goal::Schedule;
use idlewave_sys::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/pingpong.goal")
}

fn simulated(file: &Path, options: &[&str]) -> Ended {
    run(idlewave()
        .args(["simulate", "goal"])
        .arg(file)
        .args(options))
}

fn json(ended: &Ended) -> Value {
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The failure for a file with this content: it is refused with code 5.
#[track_caller]
fn refused(content: impl AsRef<[u8]>) -> [String; 2] {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.goal");
    fs::write(&file, content).unwrap();
    let ended = simulated(&file, &[]);
    assert_eq!(ended.stdout, "");
    let [what, next] = ended.failed(5);
    assert!(what.contains(file.to_str().unwrap()), "{what}");
    [what, next]
}

#[test]
fn the_documented_example_has_the_documented_times() {
    let seen = json(&simulated(&example(), &["--json"]));
    assert_eq!(seen["finish_ns"], serde_json::json!([35_776, 25_138]));
    assert_eq!(seen["makespan_ns"], 35_776);
    assert_eq!(seen["schedule"]["operations"], 7);
    assert_eq!(seen["schedule"]["messages"], 2);
    assert_eq!(seen["parameters"]["gap_per_byte_ns"], 6.0);
    let ended = simulated(&example(), &[]);
    ended.succeeded();
    for part in [
        "35.8 us (35776 ns), set by rank 0",
        "25138",
        "10638",
        "6 ns",
        "NOT MODELLED",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}

#[test]
fn every_option_reaches_the_model() {
    // Calculated by hand for the ping-pong: rank 0 ends after 12500 of work, two messages and their
    // costs; see crates/predict/simulate.
    let finish = |options: &[&str]| {
        let mut all = vec!["--json"];
        all.extend(options);
        json(&simulated(&example(), &all))["finish_ns"][0]
            .as_u64()
            .unwrap()
    };
    assert_eq!(finish(&["--latency", "500"]), 35_776 - 2 * 2_000);
    assert_eq!(finish(&["--latency=0.5us"]), 35_776 - 2 * 2_000);
    assert_eq!(finish(&["--overhead", "500"]), 35_776 - 4 * 1_000);
    // No rank sends twice: only a gap that lasts until the answer would show.
    assert_eq!(finish(&["--gap", "5000"]), 35_776);
    // 1023 * 0.04 = 40.92
    assert_eq!(
        finish(&["--gap-per-byte", "0.04"]),
        35_776 - 2 * (6_138 - 41)
    );
    // More than the bytes on the NIC: 1023 * 7 at the receiver; the sender's own part is over when
    // the answer arrives.
    assert_eq!(finish(&["--overhead-per-byte", "7"]), 35_776 + 2 * 1_023);
    // As before, the answer's receive is posted once the message has been received.
    assert_eq!(finish(&["--rendezvous", "1023"]), 35_776);
    let seen = json(&simulated(
        &example(),
        &["--json", "--rendezvous", "1023", "--gap", "7"],
    ));
    assert_eq!(seen["parameters"]["rendezvous_bytes"], 1_023);
    assert_eq!(seen["parameters"]["gap_ns"], 7);
}

#[test]
fn both_forms_are_read_from_files_and_from_standard_input() {
    let schedule: Schedule = fs::read_to_string(example()).unwrap().parse().unwrap();
    let mut binary = Vec::new();
    schedule.write_binary(&mut binary).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.bin");
    fs::write(&file, &binary).unwrap();
    let expected = json(&simulated(&example(), &["--json"]));
    assert_eq!(json(&simulated(&file, &["--json"])), expected);
    for input in [file, example()] {
        let mut command = idlewave();
        command.args(["simulate", "goal", "-", "--json"]);
        command.stdin(fs::File::open(input).unwrap());
        assert_eq!(json(&run(&mut command)), expected);
    }
}

#[test]
fn the_text_fits_eighty_columns() {
    let ranks = 200;
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        text += &format!("rank {rank} {{\ncalc {}\n}}\n", 1_u64 << (rank % 60));
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("many.goal"), text).unwrap();
    let mut command = idlewave();
    command
        .args(["simulate", "goal", "many.goal"])
        .current_dir(&dir);
    let ended = run(&mut command);
    ended.succeeded();
    for line in ended.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(ended.stdout.contains("and 192 more"), "{}", ended.stdout);
}

#[test]
fn what_is_no_schedule_is_refused_with_its_place() {
    let [what, next] = refused("num_ranks 2\nrank 0 {\nsend 8b to 5\n}\nrank 1 {\n}\n");
    assert!(what.contains("line 3: rank 5 does not exist"), "{what}");
    assert!(next.contains("docs/simulate.md"), "{next}");
    let [what, _] = refused("");
    assert!(what.contains("line 1: expected `num_ranks`"), "{what}");
    let [what, _] = refused([127, 16, 0, 0, 0, 0, 0, 0, 9]);
    assert!(
        what.contains("byte 8: the header ends at byte 12"),
        "{what}"
    );
    let [what, _] = refused([0xff; 64]);
    assert!(what.contains("line 1: "), "{what}");
}

#[test]
fn a_schedule_that_cannot_finish_is_an_error_and_has_no_times() {
    let [what, next] = refused(
        "num_ranks 2\nrank 0 {\nr: recv 8b from 1 tag 3\ns: send 8b to 1\ns requires r\n}\n\
         rank 1 {\nrecv 8b from 0\n}\n",
    );
    assert!(what.starts_with("finish the schedule "), "{what}");
    let parts = "2 receives get no message: rank 0 line 3 (recv 8b from 1 tag 3), rank 1 line 8 (recv 8b from 0 tag 0); \
                 1 operation never started";
    assert!(what.ends_with(parts), "{what}");
    assert!(next.contains("tags"), "{next}");
    let [what, _] = refused("num_ranks 1\nrank 0 {\ncalc 1\ncalc 18446744073709551615\n}\n");
    assert!(what.contains("rank 0, line 4: a time exceeds"), "{what}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for file in [dir.path().join("missing"), dir.path().to_owned()] {
        let [what, next] = simulated(&file, &[]).failed(4);
        assert!(
            what.starts_with(&format!("read {}: ", file.display())),
            "{what}"
        );
        assert!(next.contains("file's name"), "{next}");
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_their_help() {
    for option in ["--latency", "--overhead", "--gap"] {
        for value in ["-1", "1.5", "x", "", "18446744073709551616"] {
            let [what, next] = simulated(&example(), &[option, value]).failed(2);
            assert!(what.contains(option), "{what}");
            assert!(next.contains("in ns"), "{next}");
        }
    }
    for option in ["--gap-per-byte", "--overhead-per-byte"] {
        for value in ["-1", "1e3", "x", ".5"] {
            let [what, next] = simulated(&example(), &[option, value]).failed(2);
            assert!(what.contains(option), "{what}");
            assert!(next.contains("a decimal number"), "{next}");
        }
    }
    let [what, _] = simulated(&example(), &["--rendezvous", "-1"]).failed(2);
    assert!(what.contains("--rendezvous"), "{what}");
    let [what, next] = run(idlewave().args(["simulate", "goal"])).failed(2);
    assert!(what.contains("<FILE>") && next.contains("idlewave simulate goal --help"));
}

#[test]
fn a_signal_ends_it_at_once_even_while_it_waits_for_its_input() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = idlewave()
            .args(["simulate", "goal", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"num_ranks 1\nrank 0 {\n").unwrap();
        common::await_handler(&mut child, signal);
        common::signal(&child, signal);
        let ended = common::wait(child);
        assert_eq!(ended.code, Some(128 + signal.as_raw()), "{ended:?}");
        assert_eq!(ended.stdout, "");
        drop(input);
    }
}

#[test]
fn output_that_goes_nowhere_is_a_failure_and_a_closed_pipe_is_none() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = idlewave();
    command.args(["simulate", "goal"]).arg(example());
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let [what, next] = common::wait(child).failed(4);
    assert!(what.contains("standard output"), "{what}");
    assert_eq!(next, "send the output elsewhere");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    common::wait(child).succeeded();
}

fn ring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples/ring.iw")
}

/// Runs a program from a file with these options; returns the output.
fn program(text: &str, options: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.iw");
    fs::write(&file, text).unwrap();
    simulated(&file, options)
}

#[test]
fn the_documented_program_has_the_documented_times() {
    let seen = json(&simulated(&ring(), &["--json"]));
    assert_eq!(
        seen["finish_ns"],
        serde_json::json!([44_276, 43_276, 43_276, 44_276])
    );
    assert_eq!(seen["schedule"]["operations"], 24);
    assert_eq!(seen["schedule"]["messages"], 8);
    assert_eq!(seen["schedule"]["dependencies"], Value::Null);
    let set = serde_json::json!({ "steps": 2, "work": 10_000 });
    assert_eq!(seen["schedule"]["program_parameters"], set);
    let ended = simulated(&ring(), &[]);
    ended.succeeded();
    for part in ["Program ", "44276 ns", "steps         2", "NOT MODELLED"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/simulate.md");
    let page = fs::read_to_string(page).unwrap();
    let example = fs::read_to_string(ring()).unwrap();
    let example = example.lines().filter(|line| !line.starts_with('#'));
    let example: Vec<&str> = example.collect();
    assert!(page.contains(&example.join("\n")));
}

#[test]
fn ranks_and_parameters_of_a_program_are_set_by_options() {
    let finish = |options: &[&str]| {
        let all = [&["--json"], options].concat();
        json(&simulated(&ring(), &all))["finish_ns"].clone()
    };
    let one = finish(&["--ranks", "6", "--set", "steps=1"]);
    let (early, late) = (21_638, 22_638);
    assert_eq!(
        one,
        serde_json::json!([early, early, early, late, early, early])
    );
    let two = finish(&["--set", "work=0", "--set=steps=5", "--set", "steps=1"]);
    assert_eq!(two, serde_json::json!([11_638, 11_638, 11_638, 12_638]));
    let mut command = idlewave();
    command.args(["simulate", "goal", "-", "--json"]);
    command.stdin(fs::File::open(ring()).unwrap());
    assert_eq!(json(&run(&mut command))["finish_ns"], finish(&[]));
}

#[test]
fn a_program_is_written_as_the_schedule_that_it_stands_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ring.goal");
    let written = file.to_str().unwrap();
    let seen = json(&simulated(&ring(), &["--json", "--write-goal", written]));
    let again = json(&simulated(&file, &["--json"]));
    assert_eq!(again["finish_ns"], seen["finish_ns"]);
    assert_eq!(again["schedule"]["operations"], 24);
    // Of the 3 operations in each step, 2 require the first, and the next step requires those.
    assert_eq!(again["schedule"]["dependencies"], 4 * 6);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    // Existing files stay, even the source itself; devices are written to.
    let before = fs::read(&file).unwrap();
    for of in [&example(), &file] {
        let [what, next] = simulated(of, &["--write-goal", written]).failed(4);
        assert!(what.contains("it already exists"), "{what}");
        assert!(next.contains("--write-goal"), "{next}");
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    let [what, _] = simulated(&ring(), &["--write-goal", "/dev/full"]).failed(4);
    assert!(what.contains("No space left"), "{what}");
    simulated(&ring(), &["--write-goal", "/dev/null"]).succeeded();
    for device in ["/dev/full", "/dev/null"] {
        assert!(!fs::metadata(device).unwrap().is_file(), "{device}");
    }
    let nowhere = dir.path().join("missing/x.goal");
    let ended = simulated(&ring(), &["--write-goal", nowhere.to_str().unwrap()]);
    let [what, _] = ended.failed(4);
    assert!(what.contains("missing/x.goal"), "{what}");
}

#[test]
fn programs_that_cannot_be_are_refused_with_their_place() {
    for (text, options, code, said) in [
        (
            "program 1 ranks 2\ncalc x",
            &[][..],
            5,
            "line 2: `x` is not defined here",
        ),
        ("program 2", &[], 5, "line 1: version 2"),
        (
            "program 1\ncalc 1",
            &[],
            2,
            "the number of ranks is not given",
        ),
        (
            "program 1 ranks 2",
            &["--set", "a=1"],
            2,
            "there is no parameter `a`",
        ),
        (
            "program 1 ranks 2",
            &["--ranks", "0"],
            2,
            "number of ranks 0",
        ),
        (
            "program 1 ranks 2 param a = 1\nparam b = 1 / a",
            &["--set", "a=0"],
            5,
            "line 2: 1 / 0",
        ),
        (
            "program 1 ranks 2\nsend 1 to rank + 1",
            &[],
            5,
            "rank 1, line 2: rank 2 is out of range",
        ),
        (
            "program 1 ranks 2\nloop i 2 {\nloop j 2 {\nif rank == 0 and i == 1 { send 1 to j }\n}\n}",
            &[],
            5,
            "rank 0 line 4 i = 1 j = 0 (send 1b to 0 tag 0)",
        ),
        (
            "program 1 ranks 2\nrecv 8b from 1 - rank\nsend 8b to 1 - rank",
            &[],
            5,
            "2 ranks did not come to their end",
        ),
        (
            "program 1 ranks 1 calc 1\ncalc 9223372036854775807\ncalc 9223372036854775807\ncalc 2",
            &[],
            5,
            "rank 0, line 4: a time exceeds",
        ),
    ] {
        let ended = program(text, options);
        assert_eq!(ended.stdout, "");
        let [what, _] = ended.failed(code);
        assert!(what.contains(said), "{text}: {what}");
    }
    for option in [["--ranks", "2"], ["--set", "a=1"]] {
        let [what, _] = simulated(&example(), &option).failed(2);
        assert!(
            what.contains(option[0]) && what.contains("this is a schedule"),
            "{what}"
        );
    }
    for value in [
        "a",
        "a=",
        "=1",
        "a=1.5",
        "a=x",
        "a=+1",
        "a=9223372036854775808",
    ] {
        let [what, _] = simulated(&ring(), &["--set", value]).failed(2);
        assert!(what.contains("--set"), "{value}: {what}");
    }
    for value in ["-1", "x", "4294967296"] {
        let [what, _] = simulated(&ring(), &["--ranks", value]).failed(2);
        assert!(what.contains("--ranks"), "{value}: {what}");
    }
    json(&program(
        "program 1 ranks 1 param a = 5 calc a + 2",
        &["--json", "--set", "a=-2"],
    ));
}

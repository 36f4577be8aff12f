//! Traces in CTF: the story of tests/kernel.rs as LTTng writes it, and recorded traces compared
//! with what babeltrace2 lists of them.

#![allow(clippy::unwrap_used)]

use crate::ctf_trace;
use crate::perf_file;

use crate::ctf_trace::listed::{Listed, listed, lost, text, written_again};
use crate::ctf_trace::{Lttng, unpack, written};
use crate::story::{clock_advice, import_file, lines, losses, story_lines};
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_run::RunReader;
use idlewave_run::tables::{Burst, Bursts, Table};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn import(trace: &Path) -> Result<(Imported, RunReader), ImportError> {
    import_file(trace, &Program::Busiest)
}

/// All kinds of headers, byte orders and alignments.
fn all_layouts() -> impl Iterator<Item = Lttng> {
    (0..16).map(|n| Lttng {
        compact: n & 1 == 0,
        big: n & 2 != 0,
        aligned: n & 4 != 0,
        packets: n & 8 == 0,
        contexts: n % 3 == 0,
        ..Lttng::default()
    })
}

#[test]
fn the_story_is_the_same_in_every_layout_of_lttng() {
    for lttng in all_layouts() {
        let (_dir, result) = written(&lttng);
        let (imported, run) = result.unwrap();
        assert_eq!(lines(&run), story_lines());
        assert_eq!((imported.events, imported.missed), (12, Some(0)));
        assert_eq!(imported.format, "CTF trace of lttng-modules 2.13.9");
        let node = &run.manifest().nodes[0];
        let host = &node.host;
        assert_eq!((host.name.as_str(), host.kernel.as_str()), ("n17", "6.1.0"));
        assert_eq!(host.kernel_build, "#1 SMP PREEMPT_DYNAMIC");
        assert_eq!(run.manifest().started, "2026-11-25T19:18:57+00:00");
        assert_eq!(
            (node.clock.counter.as_str(), node.clock.quantum_counts),
            ("mono", 1)
        );
        let expected = [
            ("end of the recording not known", 1),
            (
                "threads whose kind is inferred from their names and parents",
                4,
            ),
        ];
        assert_eq!(losses(&run), expected.map(|(what, n)| (what.to_owned(), n)));
    }
}

/// Compares field by field with what babeltrace2 lists.
#[test]
fn babeltrace2_reads_what_these_tests_write() {
    for lttng in all_layouts() {
        let dir = tempfile::tempdir().unwrap();
        lttng.write(dir.path());
        let Some(found) = listed(dir.path()) else {
            return;
        };
        let expected = ctf_trace::story_events();
        assert_eq!(found.len(), expected.len());
        for (found, (time, cpu, name, _)) in found.iter().zip(expected) {
            assert_eq!(
                (found.time, found.cpu, found.name.as_str()),
                (time, cpu, name)
            );
        }
        let path = dir.path().join("listed.txt");
        fs::write(&path, text(&found)).unwrap();
        let (_, run) = import_file(&path, &Program::Busiest).unwrap();
        assert_eq!(lines(&run), story_lines());
    }
}

/// Headers hold only the low bits of the time, unless too much time has passed.
#[test]
fn times_are_told_by_their_last_bits_and_whole_after_a_pause() {
    for compact in [true, false] {
        // 27 or 32 bits, which wrap around within the pauses.
        let range = 1_u64 << if compact { 27 } else { 32 };
        let times = [range - 10, range + 5, 2 * range, 5 * range, 5 * range + 1];
        let switches = times.iter().zip([70, 0, 70, 0, 70]).map(|(time, next)| {
            let prev = 70 - next;
            ctf_trace::switch(*time, 0, (prev, "a"), 1, (next, "b"))
        });
        let lttng = Lttng {
            compact,
            events: 100,
            more: switches.collect(),
            ..Lttng::default()
        };
        let (dir, result) = written(&lttng);
        let (_, run) = result.unwrap();
        let bursts = tables(&run);
        for pair in times.windows(2) {
            let burst = format!("burst 0 {} {} ", pair[0], pair[1]);
            assert!(
                bursts.iter().any(|b| b.starts_with(&burst)),
                "{burst} {bursts:#?}"
            );
        }
        let Some(found) = listed(&dir.path().join("session")) else {
            return;
        };
        let (_dir, expected) = of_listed(&found);
        assert_eq!(tables(&run), tables(&expected));
    }
}

/// LTTng starts a new file when one has reached its size.
#[test]
fn a_stream_goes_on_in_its_next_file() {
    let lttng = Lttng {
        events: 1,
        discarded: vec![vec![], vec![0, 0, 2, 2, 2, 2]],
        bytes: 4096,
        ..Lttng::default()
    };
    let (_whole, result) = written(&lttng);
    let (whole, run) = result.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    lttng.write(&session);
    let path = session.join("kernel/channel0_1");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    // Packets are of equal size. By name, the second file sorts before the first.
    let (first, second) = bytes.split_at(2 * bytes.len() / 6);
    fs::write(session.join("kernel/channel0_1_1"), first).unwrap();
    fs::write(session.join("kernel/channel0_1_0"), second).unwrap();
    let (split, split_run) = import(&session).unwrap();
    assert_eq!((whole.missed, split.missed), (Some(2), Some(2)));
    assert_eq!(lines(&split_run), lines(&run));
    assert_eq!(losses(&split_run), losses(&run));
}

/// Imports the text of what babeltrace2 lists.
fn of_listed(found: &[Listed]) -> (TempDir, RunReader) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("listed.txt");
    fs::write(&path, text(found)).unwrap();
    let (_, run) = import_file(&path, &Program::Busiest).unwrap();
    (dir, run)
}

#[test]
fn recorded_traces_become_what_babeltrace2_lists() {
    for name in ["plain", "beside", "perf/file", "perf/packed"] {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        unpack(name, &trace, true);
        let (imported, run) = import(&trace).unwrap();
        let Some(found) = listed(&trace) else {
            return;
        };
        assert_eq!(imported.events, found.len() as u64, "{name}");
        let (_dir, expected) = of_listed(&found);
        assert_eq!(tables(&run), tables(&expected), "{name}");
        assert!(tables(&run).len() > 100, "{name}");
    }
}

#[test]
fn what_babeltrace2_writes_again_is_the_same_trace() {
    for name in ["plain", "beside", "perf/file"] {
        let dir = tempfile::tempdir().unwrap();
        let (trace, again) = (dir.path().join("trace"), dir.path().join("again"));
        unpack(name, &trace, true);
        if !written_again(&trace, &again) {
            return;
        }
        let ((first, run), (second, run_again)) =
            (import(&trace).unwrap(), import(&again).unwrap());
        assert_eq!((second.events, second.missed), (first.events, first.missed));
        assert_eq!(lines(&run_again), lines(&run), "{name}");
    }
}

/// All tables but the threads.
fn tables(run: &RunReader) -> Vec<String> {
    let lines = lines(run).into_iter();
    lines.filter(|line| !line.starts_with("task ")).collect()
}

#[test]
fn what_perf_converts_gives_the_tables_of_its_own_file() {
    let files = perf_file::recorded();
    for name in ["file", "packed"] {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        unpack(&format!("perf/{name}"), &trace, false);
        let (imported, run) = import(&trace).unwrap();
        let (of_data, data) = perf_file::imported::import(&files[&format!("{name}.data")]).unwrap();
        assert_eq!(tables(&run), tables(&data), "{name}");
        assert_eq!(
            (imported.events, imported.span),
            (of_data.events, of_data.span)
        );
        assert_eq!(imported.format, "CTF trace of perf 6.1.187");
        let node = &run.manifest().nodes[0];
        assert_eq!(node.host.name, "vm");
        assert_eq!(node.host.kernel, "6.18.44-generic");
        // perf's converter drops lost events.
        let loss = (
            "lost events, which perf data convert leaves out".to_owned(),
            1,
        );
        assert!(imported.missed.is_none() && losses(&run).contains(&loss));
        // perf does not say which clock it used.
        assert_eq!(node.clock.counter, "perf_clock");
        // perf lists no threads in this format, so less is known about them.
        let (found, expected) = (
            perf_file::imported::tasks(&run),
            perf_file::imported::tasks(&data),
        );
        assert!(found.keys().eq(expected.keys()));
        let members = found.values().filter(|task| task.process.is_some());
        assert!(members.count() > 5, "{found:?}");
        for (pid, task) in &expected {
            let found = &found[pid];
            assert!(
                found.name.is_empty() || found.name == task.name,
                "{task:?} {found:?}"
            );
            assert!(found.process.is_none() || found.process == task.process);
        }
    }
}

#[test]
fn lost_events_of_a_recorded_trace_are_gaps_where_babeltrace2_sees_them() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    unpack("lost", &trace, true);
    let (imported, run) = import(&trace).unwrap();
    let (Some(stretches), Some(found)) = (lost(&trace), listed(&trace)) else {
        return;
    };
    let count: u64 = stretches.iter().map(|stretch| stretch.3).sum();
    assert_eq!((count, imported.missed), (11_215, Some(11_215)));
    for cpu in [0, 1] {
        let of_cpu = stretches.iter().filter(|stretch| stretch.0 == cpu);
        let count = of_cpu.map(|stretch| stretch.3).sum();
        let loss = (format!("kernel trace events lost on CPU {cpu}"), count);
        assert!(losses(&run).contains(&loss), "{loss:?}");
    }
    let bursts: Vec<_> = run.read::<Bursts>().unwrap().rows().collect();
    for cpu in [0, 1] {
        let of_cpu: Vec<&Listed> = found.iter().filter(|event| event.cpu == cpu).collect();
        for pair in of_cpu.windows(2).filter(|pair| !follow(pair[0], pair[1])) {
            let across = |b: &Burst| b.begin_ns < pair[1].time && b.end_ns > pair[0].time;
            let across = bursts.iter().find(|b| b.cpu.get() == cpu && across(b));
            assert_eq!(across, None, "{pair:?}");
        }
    }
    // Little is cut except at the gaps and the ends.
    let cut = bursts.iter().filter(|burst| !burst.certain).count();
    assert!(
        cut <= 10 * (stretches.len() + 2),
        "{cut} {}",
        stretches.len()
    );
    assert!(
        !losses(&run)
            .iter()
            .any(|(what, _)| what.contains("without reported loss"))
    );
}

/// Whether the program of lttng/story.c emitted these events in succession, as far as their kinds
/// say.
fn follow(before: &Listed, after: &Listed) -> bool {
    let story: [&str; 5] = match before.cpu {
        0 => [
            "sched_switch 0",
            "irq_handler_entry",
            "irq_handler_exit",
            "sched_process_fork",
            "sched_switch 70",
        ],
        _ => [
            "sched_switch 0",
            "sched_waking",
            "sched_migrate_task",
            "sched_switch 71",
            "sched_switch 9",
        ],
    };
    let place = |event: &Listed| {
        let name = event.name.trim_start_matches("sched:");
        let name = match event.get("prev_tid") {
            Some(tid) => format!("{name} {tid}"),
            None => name.to_owned(),
        };
        story.iter().position(|known| *known == name).unwrap()
    };
    (place(before) + 1) % 5 == place(after)
}

#[test]
fn discarded_events_are_lost_at_the_end_of_their_packet() {
    // CPU 1: the first packet ends with the switch to the daemon at 1.604 ms.
    let lttng = Lttng {
        bytes: 4096,
        discarded: vec![vec![0, 0], vec![7, 7]],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (imported, run) = result.unwrap();
    assert_eq!(imported.missed, Some(7));
    let loss = ("kernel trace events lost on CPU 1".to_owned(), 7);
    assert!(losses(&run).contains(&loss));
    let (found, whole) = (lines(&run), story_lines());
    // The daemon ran when the first packet of CPU 1 ended, at its last event. Nothing else is
    // affected.
    let touched: Vec<_> = whole.iter().filter(|line| !found.contains(line)).collect();
    assert_eq!(touched, ["burst 1 1604000 1704000 9 r1 true"], "{found:#?}");
    // A full packet had no room before its last events either, so each of them may follow a gap.
    let full = Lttng {
        bytes: 0,
        ..lttng.clone()
    };
    let (_dir, result) = written(&full);
    let (imported, run) = result.unwrap();
    assert_eq!(imported.missed, Some(7));
    let before = "burst 1 1002000 1604000 71 r0 true".to_owned();
    assert!(found.contains(&before) && !lines(&run).contains(&before));
    // With another tracer, the loss may be before the first event as well.
    let other = |text: String| text.replace("lttng-modules", "another");
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    lttng.write(&session);
    let path = session.join("kernel/metadata");
    let plain = Lttng {
        packets: false,
        ..lttng
    };
    fs::write(&path, other(plain.metadata())).unwrap();
    let (imported, run) = import(&session).unwrap();
    assert_eq!(imported.missed, Some(7));
    assert!(!lines(&run).contains(&"burst 1 1604000 1704000 9 r1 true".to_owned()));
}

#[test]
fn missing_packets_are_gaps_of_unknown_size() {
    let lttng = Lttng {
        events: 1,
        missing: vec![(1, 2)],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (imported, run) = result.unwrap();
    assert_eq!(imported.missed, Some(0));
    let loss = (
        "gaps of unknown size in the kernel trace of CPU 1".to_owned(),
        1,
    );
    assert!(losses(&run).contains(&loss), "{:?}", losses(&run));
}

#[test]
fn what_a_snapshot_lost_before_it_is_not_lost_in_it() {
    let lttng = Lttng {
        events: 1,
        missing: vec![(1, 0)],
        discarded: vec![vec![], vec![5; 20]],
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    assert_eq!(result.unwrap().0.missed, Some(0));
}

#[test]
fn counts_of_a_clock_become_nanoseconds_and_only_lttngs_is_that_of_programs() {
    let lttng = Lttng {
        clock: (500_000_000, "monotonic"),
        ..Lttng::default()
    };
    let (_dir, result) = written(&lttng);
    let (_, run) = result.unwrap();
    assert!(lines(&run).contains(&"burst 1 3208000 3408000 9 r1 true".to_owned()));
    let clock = &run.manifest().nodes[0].clock;
    assert_eq!(
        (clock.counter.as_str(), clock.quantum_counts),
        ("monotonic", 2)
    );
    let advice = clock_advice(&run).unwrap();
    assert!(advice.contains("LTTng's own clock"), "{advice}");
}

#[test]
fn a_trace_cut_short_keeps_what_is_there() {
    let lttng = Lttng {
        events: 1,
        ..Lttng::default()
    };
    let stream = lttng.files()["channel0_1"].clone();
    let (mut cut, mut whole) = (0, 0);
    for length in (0..stream.len()).step_by(41) {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session");
        lttng.write(&session);
        fs::write(session.join("kernel/channel0_1"), &stream[..length]).unwrap();
        let (imported, run) = import(&session).unwrap();
        assert!((6..=12).contains(&imported.events), "{length}");
        let loss = ("files of the CTF trace cut short".to_owned(), 1);
        match losses(&run).contains(&loss) {
            true => cut += 1,
            false => whole += 1,
        }
    }
    // Whole if the cut is between two packets, or in the padding of one.
    assert!(cut > whole && whole > 0, "{cut} {whole}");
}

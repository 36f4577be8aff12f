//! The exporter for Chrome's trace event format, read back as JSON.

#![allow(clippy::unwrap_used)]

use crate::common::entries;
use crate::small_run::{export, run};
use idlewave_formats::export::Format;
use serde_json::Value;

/// The events of the exported file as lines: names of process and thread, times as written.
fn lines(text: &str) -> Vec<String> {
    let file: Value = serde_json::from_str(text).unwrap();
    assert_eq!(file["displayTimeUnit"], "ns");
    assert_eq!(file["otherData"]["origin_ns"], "1000");
    let events = file["traceEvents"].as_array().unwrap();
    let name = |what: &str, id: &str, of: &Value| {
        let named = |e: &&Value| e["ph"] == "M" && e["name"] == what && e[id] == of[id];
        let mut found = events.iter().filter(named);
        let name = found.next().unwrap()["args"]["name"].as_str().unwrap();
        assert!(found.next().is_none(), "{name} is named once");
        name.to_owned()
    };
    // Numbers as written in the file, not as floating point.
    let raw = |line: &str, key: &str| -> String {
        let rest = line.split(&format!("\"{key}\":")).nth(1).unwrap();
        rest.split([',', '}']).next().unwrap().to_owned()
    };
    let written: Vec<&str> = text.lines().filter(|l| l.starts_with("{\"ph\"")).collect();
    assert_eq!(written.len(), events.len());
    let mut out = Vec::new();
    for (event, line) in events.iter().zip(written) {
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            continue;
        }
        let place = format!(
            "{} / {}",
            name("process_name", "pid", event),
            name("thread_name", "tid", event)
        );
        let time = raw(line, "ts");
        match phase {
            "X" => {
                let what = event["name"].as_str().unwrap();
                out.push(format!("{place}: {time} + {} {what}", raw(line, "dur")));
            }
            _ => out.push(format!("{place}: {time} {phase}{}", event["id"])),
        }
    }
    out
}

#[test]
fn an_interrupt_of_300_ns_stays_one_and_all_else_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (file, losses) = export(&run(dir.path()), "trace.json", Format::Chrome).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let expected = [
        "node node0 / CPU 0: 0.000 + 4.000 app",
        "node node0 / CPU 0: 4.000 + 1.500 cr\"ond",
        "node node0 / CPU 0: 5.500 + 2.500 app",
        "node node0 / CPU 1: 0.000 + 3.000 app",
        "node node0 / interrupts of CPU 0: 1.000 + 0.300 timer tick",
        "node node0 / interrupts of CPU 0: 2.000 + 0.900 virtio3-tx",
        // Nested: the viewer would pair ends by nesting, so it has a row of its own.
        "node node0 / interrupts of CPU 0: 2.100 + 0.300 RCU",
        "node node0 / interrupts of CPU 0: 6.000 + 0.200 reschedule",
        "node node0 / CPU 0: 3.900 + 0.000 wakes cr\"ond",
        "node node0 / CPU 1: 3.950 + 0.000 cr\"ond moves away",
        "rank 0, CPU 0 / steps: 0.000 + 5.000 compute",
        "rank 0, CPU 0 / steps: 5.000 + 0.100 barrier",
        "rank 1, CPU 1 / steps: 0.000 + 2.000 compute",
        "rank 1, CPU 1 / steps: 2.000 + 3.100 barrier",
        "rank 0, CPU 0 / MPI calls of thread 10: 5.000 + 0.100 MPI_Barrier",
        "rank 1, CPU 1 / MPI calls of thread 11: 2.000 + 3.100 MPI_Barrier",
        "rank 1, CPU 1 / marks of thread 11: 0.100 + 0.000 solve",
        "rank 1, CPU 1 / messages: 0.200 + 0.000 to rank 0",
        "rank 1, CPU 1 / messages: 0.200 s1",
        "rank 0, CPU 0 / messages: 0.500 + 0.000 from rank 1",
        "rank 0, CPU 0 / messages: 0.500 f1",
        "rank 1, CPU 1 / waits: 2.000 + 3.000 wait at a collective",
        "rank 0, CPU 0 / waits: 5.000 + 0.000 awaited by rank 1",
        "rank 0, CPU 0 / waits: 5.000 s2",
        "rank 1, CPU 1 / waits: 5.000 + 0.000 released by rank 0",
        "rank 1, CPU 1 / waits: 5.000 f2",
        "rank 0, CPU 0 / late steps: 0.000 + 5.000 late step",
        "charged with late steps / cr\"ond (task) in rank 0, CPU 0: 4.000 + 1.000 cr\"ond (task)",
        "charged with late steps / cr\"ond (task) in rank 0, CPU 0: 4.000 s3",
        "rank 0, CPU 0 / taken in late steps: 4.000 + 1.000 taken by cr\"ond (task)",
        "rank 0, CPU 0 / taken in late steps: 4.000 t3",
        "rank 0, CPU 0 / late steps: 5.000 + 0.000 late by 1500 ns",
        "rank 0, CPU 0 / late steps: 5.000 f3",
    ];
    assert_eq!(lines(&text), expected);
    assert_eq!(
        entries(&losses),
        [
            "stretches in which a CPU was idle x1",
            "bursts and interrupts whose start or end was inferred x2",
            "entries into system calls and returns x5",
            "marked regions that were never left x1",
        ]
    );
}

//! The exporter for trace-cmd and KernelShark, read back by trace-cmd.

#![allow(clippy::unwrap_used)]

use crate::common::{entries, skip};
use crate::small_run::export;
use idlewave_formats::export::{ExportError, Format};
use idlewave_ftrace::testing::{Payload, pages, task, write_capture};
use idlewave_run::RunWriter;
use idlewave_run::testing::empty_manifest;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Events of CPU 0: thread 7 is interrupted for 300 ns, then preempted by thread 8.
fn events() -> Vec<(u64, Payload)> {
    let switch = |time, prev, prev_name: &str, state, next, next_name: &str| {
        let payload = Payload::new("sched_switch", prev)
            .comm(prev_name)
            .u32(prev)
            .u32(120);
        (time, payload.u64(state).comm(next_name).u32(next).u32(120))
    };
    vec![
        (5_000_000_100, Payload::new("local_timer_entry", 7).u32(236)),
        (5_000_000_400, Payload::new("local_timer_exit", 7).u32(236)),
        switch(5_000_001_000, 7, "app", 0, 8, "crond"),
        switch(5_000_002_001, 8, "crond", 1, 7, "app"),
    ]
}

fn run(directory: &Path, cut: usize) -> PathBuf {
    let path = directory.join("run");
    let mut manifest = empty_manifest();
    manifest.nodes[0].host.kernel = "6.18.5".to_owned();
    let mut out = RunWriter::create(&path, manifest).unwrap();
    out.close(None).unwrap();
    let raw = path.join("raw");
    std::fs::create_dir(&raw).unwrap();
    let mut bytes = pages(4096, &events());
    bytes.truncate(bytes.len() - cut);
    let tasks = vec![task(7, "app"), task(8, "crond")];
    write_capture(
        &raw,
        (5_000_000_000, Some(5_000_003_000)),
        &[bytes, Vec::new()],
        tasks,
    );
    path
}

#[test]
fn trace_cmd_reports_every_event_with_its_time_and_thread() {
    if Command::new("trace-cmd").arg("--version").output().is_err() {
        return skip("there is no trace-cmd");
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, losses) = export(&run(dir.path(), 0), "trace.dat", Format::TraceDat).unwrap();
    // -t: whole nanoseconds; -R: fields as they are, whatever plugins are there.
    let output = Command::new("trace-cmd")
        .args(["report", "-t", "-R", "-i"])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text
        .lines()
        .filter(|l| l.contains("[000]"))
        .map(words)
        .collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.len(), 4, "{text}{errors}");
    assert!(
        lines[0].starts_with("app-7 [000] 5.000000100: local_timer_entry: vector=236"),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].starts_with("app-7 [000] 5.000000400: local_timer_exit:"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].starts_with("app-7 [000] 5.000001000: sched_switch:"),
        "{}",
        lines[2]
    );
    assert!(
        lines[3].starts_with("crond-8 [000] 5.000002001: sched_switch:"),
        "{}",
        lines[3]
    );
    assert_eq!(entries(&losses), ["symbols of the kernel x1"]);
}

/// A number at an offset in the file.
fn number<const N: usize>(file: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&file[at..at + N]);
    u64::from_le_bytes(bytes)
}

#[test]
fn the_sub_buffers_are_copied_to_the_places_that_the_options_name() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = export(&run(dir.path(), 0), "trace.dat", Format::TraceDat).unwrap();
    let file = std::fs::read(file).unwrap();
    // Magic, version, little endian, 8 bytes per long, sub-buffers of 4096 bytes, not compressed.
    assert_eq!(
        &file[..24],
        b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0none\0\0"
    );
    let mut at = number::<8>(&file, 24) as usize;
    assert_eq!((at, number::<2>(&file, at)), (32, 0));
    at += 16;
    let mut sections = Vec::new();
    loop {
        let (id, size) = (number::<2>(&file, at), number::<4>(&file, at + 2) as usize);
        let data = at + 6;
        match id {
            0 => break,
            3 => {
                // Offset of the section, no name, the clock, and two CPUs.
                let section = number::<8>(&file, data) as usize;
                assert_eq!(number::<2>(&file, section), 3);
                assert_eq!(&file[data + 8..data + 14], b"\0mono\0");
                let cpu = |n: usize| {
                    let at = data + 22 + n * 20;
                    (
                        number::<4>(&file, at),
                        number::<8>(&file, at + 4),
                        number::<8>(&file, at + 12),
                    )
                };
                let (first, second) = (cpu(0), cpu(1));
                assert_eq!((first.0, first.2), (0, 4096));
                assert_eq!((second.0, second.1, second.2), (1, first.1 + 4096, 0));
                assert_eq!(first.1 % 4096, 0);
                let pages = &file[first.1 as usize..][..4096];
                assert_eq!(pages, idlewave_ftrace::testing::pages(4096, &events()));
                assert_eq!(file.len() as u64, first.1 + 4096);
            }
            16.. => {
                let section = number::<8>(&file, data) as usize;
                assert_eq!(number::<2>(&file, section), id);
                sections.push(id);
            }
            _ => {}
        }
        at = data + size;
    }
    assert_eq!(sections, [16, 17, 18, 19, 20, 21]);
}

#[test]
fn a_sub_buffer_that_is_cut_short_is_left_out_and_entered() {
    let dir = tempfile::tempdir().unwrap();
    let (file, losses) = export(&run(dir.path(), 1), "trace.dat", Format::TraceDat).unwrap();
    assert_eq!(
        entries(&losses),
        ["sub-buffers cut short x1", "symbols of the kernel x1"]
    );
    assert_eq!(std::fs::metadata(file).unwrap().len() % 4096, 0);
}

#[test]
fn a_run_without_the_recorded_pages_is_refused_in_words_and_no_file_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path(), 0);
    std::fs::remove_dir_all(run.join("raw")).unwrap();
    let error = export(&run, "trace.dat", Format::TraceDat).unwrap_err();
    assert!(matches!(
        error,
        ExportError::Lacks {
            format: "trace.dat",
            ..
        }
    ));
    assert!(error.to_string().contains("no directory raw/"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

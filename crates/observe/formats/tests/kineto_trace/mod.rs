//! Traces of PyTorch's profiler, made for tests.

#![allow(clippy::unwrap_used)]

use idlewave_formats::import::{Ask, ImportError, Imported, import};
use idlewave_run::RunReader;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

pub fn import_all(files: &[PathBuf], to: &Path) -> Result<Imported, ImportError> {
    let command = ["idlewave", "import"].map(str::to_owned);
    import(&Ask {
        command: &command,
        more: &files[1..],
        progress: &|share| assert!((0.0..=1.0).contains(&share), "{share}"),
        ..Ask::new(&files[0], to)
    })
}

/// The count in the ledger for this loss.
pub fn lost(imported: &Imported, what: &str) -> u64 {
    let entries = imported.losses.entries().iter();
    entries
        .filter(|loss| loss.what == what)
        .map(|loss| loss.count)
        .sum()
}

/// A trace of rank `rank` of two, with these events, as the profiler writes it.
pub fn trace(rank: u32, events: &[Value]) -> Value {
    json!({
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {
            "backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}],
        },
        "host_name": "node1",
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1_700_000_000_000_000_000_u64,
        "traceEvents": events,
        "traceName": "rank.json",
    })
}

/// An event with a length.
pub fn event(category: &str, name: &str, tid: u32, ts: f64, dur: f64, args: &Value) -> Value {
    // A kernel's process is its GPU.
    let pid = if category.contains("kernel") { 0 } else { 70 };
    json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": args})
}

/// An operator of the thread that launches collectives.
pub fn operator(name: &str, ts: f64, dur: f64) -> Value {
    event("cpu_op", name, 70, ts, dur, &json!({}))
}

/// An operator that is no collective.
pub fn addition(ts: f64) -> Value {
    operator("aten::add", ts, 1.0)
}

pub fn annotation(name: &str, tid: u32, ts: f64, dur: f64) -> Value {
    event("user_annotation", name, tid, ts, dur, &json!({}))
}

pub fn write_all(dir: &Path, traces: &[String]) -> Vec<PathBuf> {
    let all = traces.iter().enumerate().map(|(at, text)| {
        let file = dir.join(format!("{at}.json"));
        fs::write(&file, text).unwrap();
        file
    });
    all.collect()
}

pub fn imported(
    traces: &[String],
) -> Result<(Imported, RunReader, tempfile::TempDir), ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let files = write_all(dir.path(), traces);
    let run = dir.path().join("run");
    let imported = import_all(&files, &run)?;
    Ok((imported, RunReader::open(&run).unwrap(), dir))
}

/// The message and the next step for a refused trace, which leaves nothing behind.
#[track_caller]
pub fn refused(traces: &[String]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let files = write_all(dir.path(), traces);
    let run = dir.path().join("run");
    let error = import_all(&files, &run).unwrap_err();
    assert!(!run.exists());
    let text = error
        .to_string()
        .replace(&dir.path().display().to_string(), "");
    assert!(!text.contains('\n'), "{text}");
    (text, error.next_step())
}

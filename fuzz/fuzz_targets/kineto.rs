//! Traces of PyTorch's profiler: no panic and no hang; what is read is a run whose rows are in the
//! trace's time.
//!
//! Input: the files of the ranks, with a zero byte between them. One that does not begin as such a
//! trace does is put behind the start of one, so that it is a list of events.
#![no_main]

use idlewave_formats::import::{Ask, import};
use idlewave_run::RunReader;
use idlewave_run::tables::{Calls, Communicators, Marks, Tasks};
use libfuzzer_sys::fuzz_target;
use std::fs;

/// Longest input: one that unpacks to more takes too long.
const LONGEST: usize = 1 << 16;
/// Files of one trace.
const MOST: usize = 4;

fuzz_target!(|input: &[u8]| {
    if input.len() > LONGEST {
        return;
    }
    // In `TMPDIR`, which the check sets to a place in memory.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut files = Vec::new();
    for (rank, part) in input.split(|b| *b == 0).take(MOST).enumerate() {
        let file = dir.path().join(format!("rank{rank}.json"));
        let whole = match part.first() {
            Some(b'{' | 0x1f) => part.to_vec(),
            _ => [start(rank).as_bytes(), part, b"]}"].concat(),
        };
        fs::write(&file, whole).expect("a temporary file can be written");
        files.push(file);
    }
    let Some((first, more)) = files.split_first() else {
        return;
    };
    let to = dir.path().join("run");
    let ask = Ask {
        more,
        ..Ask::new(first, &to)
    };
    // What does not begin as such a trace does goes to other readers, which have targets of their own.
    if import(&ask).is_err() || !fs::read(first).is_ok_and(|start| start.starts_with(b"{")) {
        return;
    }
    let run = RunReader::open(&to).expect("a run was written");
    let phase = &run.manifest().phases[0];
    let calls = run.read::<Calls>().expect("a whole table");
    assert!(calls.begin_ns.iter().all(|ns| *ns >= phase.begin_ns));
    assert!(calls.end_ns.iter().all(|ns| *ns <= phase.end_ns));
    run.read::<Marks>().expect("a whole table");
    run.read::<Communicators>().expect("a whole table");
    run.read::<Tasks>().expect("a whole table");
});

fn start(rank: usize) -> String {
    format!(
        "{{\"schemaVersion\":1,\"distributedInfo\":{{\"backend\":\"gloo\",\"rank\":{rank},\
         \"world_size\":2,\"pg_config\":[{{\"pg_name\":\"0\",\"ranks\":[0,1]}}]}},\
         \"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":["
    )
}

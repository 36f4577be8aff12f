//! Foreign Paraver traces: no panic and no hang; what is read is a run whose rows are in the trace's time.
//!
//! Input: the .prv, the .pcf and the .row, with a zero byte between them.
#![no_main]

use idlewave_formats::import::{Ask, import};
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Calls, Interrupts, Transfers};
use libfuzzer_sys::fuzz_target;
use std::fs;

fuzz_target!(|input: &[u8]| {
    // In `TMPDIR`, which the check sets to a place in memory.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut parts = input.splitn(3, |b| *b == 0);
    for ending in ["prv", "pcf", "row"] {
        if let Some(part) = parts.next() {
            fs::write(dir.path().join("a").with_extension(ending), part).expect("it is ours");
        }
    }
    let to = dir.path().join("run");
    let imported = import(&Ask::new(&dir.path().join("a.prv"), &to));
    // What does not begin as a Paraver trace does goes to other readers, which have targets of their own.
    if imported.is_err() || !input.starts_with(b"#Paraver") {
        return;
    }
    let run = RunReader::open(&to).expect("a run was written");
    let end = run.manifest().phases[0].end_ns;
    let bursts = run.read::<Bursts>().expect("a whole table");
    assert!(bursts.end_ns.iter().all(|ns| *ns <= end));
    let interrupts = run.read::<Interrupts>().expect("a whole table");
    assert!(interrupts.end_ns.iter().all(|ns| *ns <= end));
    let calls = run.read::<Calls>().expect("a whole table");
    assert!(calls.end_ns.iter().all(|ns| *ns <= end));
    run.read::<Transfers>().expect("a whole table");
});

//! Foreign bundles: `run.json`, `findings.json`, a table in any state and a spill. No panic, no hang, and no
//! file outside the bundle.
//!
//! Input: one byte that says which parts are taken from the input (bit 0 `run.json`, bit 1
//! `findings.json`; else valid ones), text of both with a zero byte behind each, bytes of the tables and of the spill.
#![no_main]

use idlewave_run::spill::SpillReader;
use idlewave_run::tables::{Bursts, Detours, Sources};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, RunState, Table};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A directory, made once: its files are replaced by every input. In `TMPDIR` if that is set, else in memory
/// where there is such a place. Whoever starts the fuzzer removes it.
fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let memory = std::path::Path::new("/dev/shm");
        let base = if memory.is_dir() && std::env::var_os("TMPDIR").is_none() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let made = tempfile::Builder::new()
            .prefix("idlewave-fuzz-")
            .tempdir_in(base);
        made.expect("a temporary directory").keep()
    })
}

// The reader catches panics of the Arrow library and calls them damage, so the fuzzer's own hook, which
// ends the process at every panic, must not come first. A panic that gets here ends it all the same.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |input: &[u8]| {
    let Some((flags, rest)) = input.split_first() else {
        return;
    };
    let mut parts = rest.splitn(3, |b| *b == 0);
    let (Some(run), Some(findings), Some(table)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let dir = directory();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).expect("it is ours");
    if flags & 1 == 1 {
        write("run.json", run);
    } else {
        let mut manifest = empty_manifest();
        manifest.state = RunState::Recording;
        let text = serde_json::to_vec(&manifest).expect("a manifest is JSON");
        write("run.json", &text);
    }
    if flags & 2 == 2 {
        write("findings.json", findings);
    } else {
        let _ = fs::remove_file(dir.join("findings.json"));
    }
    for name in ["bursts.arrow", "detours.arrow", "sources.arrow", "spill"] {
        write(name, table);
    }
    let mut words = Vec::new();
    if let Ok(Some(mut spill)) = SpillReader::open(dir) {
        while let Ok(Some(block)) = spill.next(Some(&mut words)) {
            assert!(8 * words.len() <= table.len() && words.len() % block.kind.words() == 0);
        }
    }
    let Ok(run) = RunReader::open(dir) else {
        return;
    };
    let _ = run.findings();
    read::<Bursts>(&run);
    read::<Detours>(&run);
    read::<Sources>(&run);
});

fn read<T: Table>(run: &RunReader) {
    if let Ok(table) = run.read::<T>() {
        if !table.is_empty() {
            let _ = table.row(table.len() - 1);
        }
    }
}

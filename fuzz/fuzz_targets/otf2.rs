//! OTF2 archives: no panic and no hang; what is read is a run whose rows lie in its time.
//!
//! The first byte says which file of a small archive, of either byte order, the rest of the input
//! replaces or follows: the anchor, the global or the local definitions, or events.
#![no_main]

use idlewave_formats::import::{Ask, import};
use idlewave_run::RunReader;
use idlewave_run::tables::{Calls, Marks, Transfers};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[path = "../../crates/observe/formats/tests/otf2_file/mod.rs"]
#[expect(dead_code, reason = "the tests change more of an archive")]
mod otf2_file;

use otf2_file::Archive;

static ARCHIVES: LazyLock<[Archive; 2]> = LazyLock::new(|| [false, true].map(Archive::new));

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let mut archive = ARCHIVES[usize::from(kind & 1)].clone();
    let names = ["a.otf2", "a.def", "a/11.def", "a/11.evt"];
    let file = archive.file(names[usize::from(kind >> 1 & 3)]);
    match kind & 8 {
        0 => *file = rest.to_vec(),
        _ => {
            // In place of the mark of the end.
            file.pop();
            file.extend(rest);
        }
    }
    // In `TMPDIR`, which the check sets to a place in memory.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let anchor = archive.write(dir.path());
    let to = dir.path().join("run");
    if import(&Ask::new(&anchor, &to)).is_err() || kind >> 1 & 3 == 0 {
        return;
    }
    let run = RunReader::open(&to).expect("a run was written");
    let end = run.manifest().phases[0].end_ns;
    let calls = run.read::<Calls>().expect("a whole table");
    assert!(calls.end_ns.iter().all(|ns| *ns <= end));
    run.read::<Transfers>().expect("a whole table");
    run.read::<Marks>().expect("a whole table");
});

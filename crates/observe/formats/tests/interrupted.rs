//! An export that the user ends leaves nothing behind, and the file that was there stays.

#![allow(clippy::unwrap_used)]

mod common;
mod small_run;

use idlewave_formats::export::{ExportError, Format, Job};
use idlewave_run::RunReader;
use std::sync::atomic::AtomicBool;

#[test]
fn an_export_that_is_ended_leaves_the_old_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = small_run::run(dir.path());
    let run = RunReader::open(&path).unwrap();
    let output = dir.path().join("trace");
    std::fs::write(&output, "old").unwrap();
    for format in [Format::Perfetto, Format::Chrome, Format::Paraver] {
        let ended = format.write(&Job {
            run: &run,
            output: &output,
            stop: &AtomicBool::new(true),
            progress: &|_| (),
        });
        assert!(matches!(ended, Err(ExportError::Interrupted)));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}

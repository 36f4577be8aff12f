//! Foreign times of steps: as text, and as an Arrow file. No panic; what is read is whole steps of all ranks.
//!
//! Input: one byte (bit 0: Arrow; bit 1: times have a unit of their own or none), then the file.
#![no_main]

use idlewave_formats::steps::{StepFile, Unit, read_arrow, read_csv};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A file, made once, whose content is replaced by every input. Whoever starts the fuzzer removes it.
fn file() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let made = tempfile::Builder::new().prefix("idlewave-fuzz-").tempdir();
        made.expect("a temporary directory")
            .keep()
            .join("steps.arrow")
    })
}

// The reader catches panics of the Arrow library and calls them damage, so the fuzzer's own hook, which
// ends the process at every panic, must not come first. A panic that gets here ends it all the same.
fuzz_target!(init: std::panic::set_hook(Box::new(|_| {})), |input: &[u8]| {
    let Some((flags, bytes)) = input.split_first() else {
        return;
    };
    let unit = (flags & 2 == 0).then_some(Unit::Microseconds);
    let read = if flags & 1 == 1 {
        fs::write(file(), bytes).expect("it is ours");
        read_arrow(file(), unit)
    } else {
        read_csv(bytes, unit)
    };
    let Ok(StepFile { ranks, durations, begins, .. }) = read else {
        return;
    };
    assert_eq!(durations.len(), begins.len());
    assert!(ranks > 0 && durations.len() % ranks == 0 && durations.len() >= 2 * ranks);
    for step in durations.chunks(ranks) {
        assert!(step.iter().try_fold(0_u64, |sum, d| sum.checked_add(*d)).is_some());
    }
});

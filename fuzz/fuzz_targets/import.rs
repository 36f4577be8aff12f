//! Foreign kernel traces: no panic, and nothing is allocated for a length that the file does not have.
//!
//! The input is read as lines of text, as a report of AIX's trcrpt, and as a trace.dat up to its sub-buffers, which the target `page` reads.
#![no_main]

use idlewave_formats::import::detect;
use idlewave_formats::import::kernel::{read_dat_head, read_report_lines, read_text_line};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static FILE: RefCell<tempfile::NamedTempFile> =
        RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
}

fuzz_target!(|input: &[u8]| {
    for line in input.split(|byte| *byte == b'\n') {
        read_text_line(line);
    }
    read_report_lines(input);
    FILE.with_borrow_mut(|file| {
        std::fs::write(file.path(), input).expect("a temporary file can be written");
        let _ = detect(file.path());
        let _ = read_dat_head(file.path());
    });
});

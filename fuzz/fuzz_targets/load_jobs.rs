//! Lists of jobs of Slurm in every form: no panic, no hang.
#![no_main]

use idlewave_load::jobs::read_jobs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = read_jobs(text);
    }
});

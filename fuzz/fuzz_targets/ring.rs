//! Records of a ring: no panic.
//!
//! Input: records of eight little-endian words.
#![no_main]

use idlewave_interpose::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for record in input.chunks_exact(64) {
        let mut words = [0_u64; 8];
        for (word, bytes) in words.iter_mut().zip(record.chunks_exact(8)) {
            *word = bytes
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        let _ = decode(&words);
    }
});

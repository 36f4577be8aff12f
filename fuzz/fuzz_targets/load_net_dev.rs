//! /proc/net/dev: no panic, no hang; a device per line at most.
#![no_main]

use idlewave_load::host::read_net_dev;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Ok(devices) = read_net_dev(text) {
            assert!(devices.len() <= text.lines().count());
        }
    }
});

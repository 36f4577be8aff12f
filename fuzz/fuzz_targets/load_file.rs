//! Files of loads: no panic, no hang; what is read is written and read the same again.
#![no_main]

use idlewave_load::LoadFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(file) = LoadFile::read(text) else {
        return;
    };
    let written = file.write();
    // Rates are rounded when they are written, lines differ.
    let again = LoadFile::read(&written).expect("what was written");
    assert_eq!(again.write(), written);
});

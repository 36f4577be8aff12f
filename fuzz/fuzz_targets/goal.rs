//! Foreign schedules, text and binary: no panic, no hang; what is read survives both forms and can be played.
#![no_main]

use idlewave_simulate::goal::{Parameters, Schedule, simulate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(schedule) = Schedule::read(input) else {
        return;
    };
    let _ = simulate(&schedule, &Parameters::default());
    let (mut text, mut binary) = (Vec::new(), Vec::new());
    schedule.write_text(&mut text).expect("memory takes it");
    schedule.write_binary(&mut binary).expect("memory takes it");
    for form in [text, binary] {
        let again = Schedule::read(form.as_slice()).expect("it was just written");
        assert!(again == schedule);
    }
});

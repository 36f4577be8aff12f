//! Foreign programs: no panic, no hang; what is read is written and read again the same; both engines agree.
#![no_main]

use idlewave_simulate::goal::{self, Parameters};
use idlewave_simulate::program::{self, Bindings, Program};
use libfuzzer_sys::fuzz_target;

/// Ranks and operations of what is played.
const RANKS: u32 = 5;
const OPERATIONS: u64 = 20_000;

fuzz_target!(|input: &str| {
    let Ok(program) = input.parse::<Program>() else {
        return;
    };
    let again: Program = program.to_string().parse().expect("it was just written");
    assert!(again == program);
    let bindings = Bindings {
        ranks: Some(RANKS),
        ..Bindings::default()
    };
    let Ok(bound) = program.bind(&bindings) else {
        return;
    };
    // Whatever has more operations would take its time.
    let Ok(schedule) = bound.expand(OPERATIONS) else {
        return;
    };
    let plain = goal::simulate(&schedule, &Parameters::default());
    let lazy = program::simulate(&bound, &Parameters::default());
    match (plain, lazy) {
        (Ok(plain), Ok(lazy)) => assert!(plain == lazy),
        (plain, lazy) => assert!(plain.is_err() && lazy.is_err()),
    }
});

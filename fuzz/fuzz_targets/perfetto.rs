//! Foreign Perfetto traces: no panic, no more events than bytes, and damage is named with its offset.
#![no_main]

use idlewave_formats::import::perfetto::{PerfettoError, read};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

/// A compressed packet of a few bytes may hold very many events.
const ENOUGH: usize = 100_000;

fuzz_target!(|input: &[u8]| {
    let mut events = 0;
    let outcome = read(&mut &input[..], &mut |_| {
        events += 1;
        match events < ENOUGH {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    match outcome {
        Ok(summary) => assert!(summary.cut.is_none_or(|at| at < input.len() as u64)),
        Err(PerfettoError::Io(error)) => panic!("{error}"),
        Err(error) => assert!(error.to_string().contains("offset")),
    }
});

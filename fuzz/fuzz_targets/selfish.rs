//! Foreign lists of detours: no panic; what is read is in order, and a model can be fitted to it that reads back.
#![no_main]

use idlewave_fit::{Selfish, fit_selfish};
use idlewave_noise::NoiseModel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(read) = Selfish::read(input) else {
        return;
    };
    assert!(read.events.windows(2).all(|w| w[0].0 <= w[1].0));
    let last = read
        .events
        .last()
        .expect("a file without detours is refused");
    assert!(read.watched_ns() > last.0);
    if let Ok(fitted) = fit_selfish(&[read], String::new(), 1) {
        assert!(NoiseModel::read(&fitted.model.write()) == Ok(fitted.model));
    }
});

//! What lookouts of other nodes might say, as bytes and as lines of JSON: no panic, what is read is written and read the same again, and whatever
//! is said is judged.
#![no_main]

use idlewave_hangs::{Ask, Settings, Told, Watch};
use idlewave_units::NodeId;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A directory without pages.
fn nothing() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().expect("a directory").keep())
}

fuzz_target!(|input: &[u8]| {
    let _ = Ask::decode(input);
    let settings = Settings {
        apart: Duration::ZERO,
        ..Settings::default()
    };
    let mut watch = Watch::with(nothing(), settings);
    let now = Instant::now();
    let _ = watch.far.hear(now, NodeId::new(0), input);
    for (number, line) in input.split(|byte| *byte == b'\n').take(16).enumerate() {
        if let Ok(ask) = serde_json::from_slice::<Ask>(line) {
            assert_eq!(Ask::decode(&ask.encode()).expect("what was written"), ask);
        }
        let Ok(told) = serde_json::from_slice::<Told>(line) else {
            continue;
        };
        let bytes = told.encode();
        assert_eq!(Told::decode(&bytes).expect("what was written"), told);
        watch.far.ask(now, number % 2 == 0);
        // Of one node, or of another one: the same ranks on both are no job.
        let node = NodeId::new(u32::from(line.starts_with(b" ")));
        watch.far.hear(now, node, &bytes).expect("what was written");
        watch.far.ask_again(now);
        if let Ok(look) = watch.look() {
            let _ = look.report();
        }
        watch.far.take();
    }
});

//! Output of tools for counters of switches: no panic, no hang; whatever is read gives loads of a topology that are possible.
#![no_main]

use idlewave_load::dump::read_dump;
use idlewave_load::{Sources, SwitchDump, acquire};
use idlewave_topology::Topology;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (Ok(first), Ok(second)) = (read_dump(text), read_dump(text)) else {
        return;
    };
    let dumps = [(0.0, first), (1.0, second)];
    let sources = Sources {
        dumps: dumps.map(|(at, ports)| SwitchDump { at, ports }).into(),
        names_switches: true,
        ..Sources::default()
    };
    let topology = Topology::star(3).expect("three nodes");
    let file = acquire(&topology, &sources);
    // The same counters twice: nothing was sent.
    assert!(file.loads.iter().all(|load| load.rate == 0.0));
});

//! Foreign descriptions of clusters in every format: no panic, no hang; what is read is lawful, and what is written of
//! it reads back as the same.
//!
//! Input: one byte that says which format the rest is read as (from 8 on the one that it looks like), the text.
#![no_main]

use idlewave_topology::{
    Format, NodeIndex, Routing, combine, read_as, write_toml, write_topology_conf,
};
use libfuzzer_sys::fuzz_target;

/// Beyond that an input is a test of the memory allocator.
const MOST_NODES: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else {
        return;
    };
    let format = Format::ALL.get(usize::from(*which)).copied();
    let Ok(combined) = read_as(text, format, None).and_then(|read| combine(vec![read])) else {
        return;
    };
    let topology = combined.topology;
    let nodes = topology.nodes().len();
    assert!(nodes > 0);
    if nodes > MOST_NODES || topology.links().len() > 4 * MOST_NODES {
        return;
    }
    let (first, last) = (NodeIndex::new(0), NodeIndex::new(nodes - 1));
    for routing in [Routing::Deterministic, Routing::Multipath] {
        if let Ok(route) = topology.routes(first, last, routing) {
            assert!(route.shares.iter().all(|(_, s)| *s > 0.0 && *s <= 1.0));
        }
    }
    let _ = topology.levels();
    let again = read_as(write_toml(&topology).as_bytes(), Some(Format::Toml), None);
    let again = again
        .and_then(|read| combine(vec![read]))
        .expect("it was just written")
        .topology;
    assert!(again.nodes() == topology.nodes() && again.switches() == topology.switches());
    assert!(again.links().len() == topology.links().len());
    if let Ok(text) = write_topology_conf(&topology) {
        let read = read_as(text.as_bytes(), Some(Format::TopologyConf), None);
        let again = read.and_then(|read| combine(vec![read]));
        // Hosts that run no jobs are left out there.
        let nodes = topology.nodes().iter().filter(|n| n.compute).count();
        assert!(again.expect("it was just written").topology.nodes().len() == nodes);
    }
});

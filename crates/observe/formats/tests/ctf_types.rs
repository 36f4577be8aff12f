//! What the metadata of a CTF trace can say: every type compared with babeltrace2.

#![allow(clippy::unwrap_used)]

use crate::ctf_trace::listed::listed;
use crate::ctf_trace::own::{
    METADATA, NUMBER, Switch, TEXT, import, packet, stream, switches, trace,
};
use crate::ctf_trace::writer::Bits;
use crate::story::losses;
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Table};

/// CPU, start, end and thread of all bursts.
fn bursts(run: &RunReader) -> Vec<(u32, u64, u64, u32)> {
    let bursts = run.read::<Bursts>().unwrap();
    let rows = bursts
        .rows()
        .map(|b| (b.cpu.get(), b.begin_ns, b.end_ns, b.pid.get()));
    rows.collect()
}

#[test]
fn every_type_takes_the_bits_that_babeltrace2_gives_it() {
    let dir = trace(METADATA, &stream());
    let (imported, run) = import(&dir).unwrap();
    assert_eq!(imported.events, 8);
    let found = bursts(&run);
    let switches = switches();
    for pair in switches.windows(2) {
        let (begin, end, pid) = (pair[0].0, pair[1].0, pair[0].3);
        assert!(found.contains(&(2, begin, end, pid)), "{begin} {found:?}");
    }
    let Some(listed) = listed(&dir.path().join("trace")) else {
        return;
    };
    assert_eq!(listed.len(), switches.len());
    for (listed, Switch(time, comm, prev, next, (_, _, count))) in listed.iter().zip(switches) {
        assert_eq!((listed.time, listed.cpu), (time, 2));
        assert_eq!(listed.get("prev_comm"), Some(comm));
        let expected = [
            ("prev_tid", prev),
            ("next_tid", next),
            ("count", count as u32),
        ];
        for (name, value) in expected {
            let found = listed.get(name).unwrap();
            // Numbers of base 16 are listed in hexadecimal.
            let found = found.strip_prefix("0x").map_or_else(
                || found.parse().unwrap(),
                |digits| u32::from_str_radix(digits, 16).unwrap(),
            );
            assert_eq!(found, value, "{name}");
        }
    }
}

#[test]
fn a_trace_without_heads_of_packets_is_one_packet() {
    let metadata = METADATA
        .replace(
            "    id = 3;
",
            "",
        )
        .replace(" stream_id = 3;", "")
        .replace(
            "packet.header := struct { uint32_t magic; uint8_t stream_id; };",
            "",
        )
        .replace(
            "uint16_t cpu_id; uint32_t content_size; uint32_t packet_size;",
            "uint16_t cpu_id;",
        );
    let mut out = Bits::default();
    out.number(2, 16, 8);
    switches().iter().for_each(|switch| switch.write(&mut out));
    let dir = trace(&metadata, &out.bytes);
    let (imported, _) = import(&dir).unwrap();
    assert_eq!(imported.events, 8);
    if let Some(listed) = listed(&dir.path().join("trace")) {
        assert_eq!(listed.len(), 8);
    }
}

/// babeltrace2 2.0 does not read such paths, although the specification has them.
#[test]
fn fields_are_found_outwards_and_by_their_whole_path_too() {
    let metadata = METADATA
        .replace("<tint>", "<event.context.shade>")
        .replace("<tag>", "<event.fields.tag>")
        .replace("[stream.event.context.count]", "[count]");
    let (changed, usual) = (trace(&metadata, &stream()), trace(METADATA, &stream()));
    let of = |dir| bursts(&import(dir).unwrap().1);
    assert_eq!(of(&changed), of(&usual));
}

#[test]
fn the_cpu_may_be_in_the_context_of_each_event() {
    let stream = packet(&[
        Switch(1000, "x", 0, 70, (NUMBER, 0, 1)),
        Switch(2000, "x", 0, 71, (NUMBER, 0, 3)),
        Switch(3000, "a", 70, 0, (TEXT, 5, 1)),
        Switch(5000, "b", 71, 0, (7, 6, 3)),
    ]);
    let metadata = METADATA
        .replace(
            "uint16_t cpu_id; uint32",
            "uint16_t events_discarded; uint32",
        )
        .replace("uint8_t count;", "uint8_t cpu_id;")
        .replace("stream.event.context.count", "stream.event.context.cpu_id");
    let dir = trace(&metadata, &stream);
    let (imported, run) = import(&dir).unwrap();
    assert_eq!((imported.events, imported.cpus), (4, 2));
    // It is not known which CPU's events a packet lost.
    assert_eq!(imported.missed, Some(2));
    let gaps = "gaps in the CTF trace whose CPU is not known".to_owned();
    assert!(losses(&run).contains(&(gaps, 2)), "{:?}", losses(&run));
    let found = bursts(&run);
    for burst in [(1, 1000, 3000, 70), (3, 2000, 5000, 71)] {
        assert!(found.contains(&burst), "{found:?}");
    }
    // Or it may be nowhere.
    let metadata = METADATA.replace("uint16_t cpu_id; uint32", "uint16_t other; uint32");
    let error = import(&trace(&metadata, &stream)).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("holds no task switches"),
        "{error}"
    );
}

#[test]
fn fields_that_are_missing_leave_an_event_out() {
    let metadata = METADATA.replace("int irq;", "int other;");
    let (_, run) = import(&trace(&metadata, &stream())).unwrap();
    let loss = "kernel trace event irq_handler_exit lacks fields that idlewave needs".to_owned();
    assert!(losses(&run).contains(&(loss, 1)));
}

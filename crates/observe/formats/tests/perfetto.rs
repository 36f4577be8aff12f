//! The Perfetto exporter, read back by a decoder that shares nothing with it, and with Perfetto's
//! own description of the format.

#![allow(clippy::unwrap_used)]

#[path = "record_lines/mod.rs"]
mod record_lines;

use crate::common::{entries, skip};
use crate::small_run::{export, kernel_run, run};
use idlewave_formats::export::Format;
use idlewave_formats::import;
use idlewave_formats::import::perfetto::{Record, Summary};
use idlewave_ftrace::event::Event;
use idlewave_run::tables::{Burst, EndReason, Interrupt};
use idlewave_units::{Cpu, NodeId, Pid};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

/// The trace of the run in `small_run`, worked out by hand.
const EXPECTED: &[&str] = &[
    "system Linux 6.18.5 node0",
    "process 10 app 0",
    "process 20 cr\"ond 0",
    "process 30 kworker/0:1 1",
    "thread 10 app 10",
    "thread 11 app 10",
    "thread 20 cr\"ond 20",
    "thread 30 kworker/0:1 30",
    // The interrupt for which the tracer's messages have no name comes before the bundle around it.
    "track 1 in 0 reschedule (ipi)",
    "track 2 in 1 CPU 0",
    "7000 begin 2 reschedule",
    "7200 end 2",
    "CPU 0 1000 - sched_switch not recorded,2147483647,32768,app,10",
    "CPU 0 1200 10 sys_enter 24",
    "CPU 0 1250 10 sys_exit 24",
    "CPU 0 2000 10 local_timer_entry 236",
    "CPU 0 2300 10 local_timer_exit 236",
    "CPU 0 3000 10 irq_handler_entry 1,virtio3-tx",
    "CPU 0 3100 10 softirq_entry 9",
    "CPU 0 3400 10 softirq_exit 9",
    "CPU 0 3900 10 irq_handler_exit 1,1",
    "CPU 0 4900 10 sched_waking cr\"ond,20,1,0",
    "CPU 0 5000 10 sched_switch app,10,0,cr\"ond,20",
    "CPU 0 6500 20 sched_switch cr\"ond,20,2,app,10",
    "CPU 0 6500 10 sys_enter -1",
    "CPU 0 6600 10 sys_exit -1",
    "CPU 0 9000 10 sched_switch app,10,32768,not recorded,2147483647",
    "CPU 1 1000 - sched_switch not recorded,2147483647,32768,app,11",
    "CPU 1 4000 11 sys_enter 0",
    "CPU 1 4000 11 sched_switch app,11,1,not recorded,2147483647",
    "CPU 1 4500 - sched_switch not recorded,2147483647,32768,swapper,0",
    "CPU 1 4950 - sched_migrate_task cr\"ond,20,1,0",
    "CPU 1 9000 0 sched_switch swapper,0,32768,not recorded,2147483647",
    "track 3 in 0 rank 0, CPU 0",
    "track 4 in 3 steps",
    "1000 begin 4 compute iteration=4",
    "6000 end 4",
    "6000 begin 4 barrier iteration=4 bytes=8",
    "6100 end 4",
    "track 5 in 0 rank 1, CPU 1",
    "track 6 in 5 steps",
    "1000 begin 6 compute iteration=4",
    "3000 end 6",
    "3000 begin 6 barrier iteration=4 bytes=8",
    "6100 end 6",
    "track 7 in 3 MPI calls of thread 10",
    "6000 begin 7 MPI_Barrier communicator=0",
    "6100 end 7",
    "track 8 in 5 MPI calls of thread 11",
    "3000 begin 8 MPI_Barrier communicator=0",
    "6100 end 8",
    "track 9 in 5 marks of thread 11",
    "1100 point 9 solve end=never left",
    "track 10 in 5 messages",
    "1200 point 10 to rank 0 bytes=64 communicator=0 >1",
    "track 11 in 3 messages",
    "1500 point 11 from rank 1 bytes=64 communicator=0 x1",
    "track 12 in 5 waits",
    "3000 begin 12 wait at a collective awaited rank=0 hops=0 charged to=3000 ns cr\"ond (task)",
    "6000 end 12",
    "track 13 in 3 waits",
    "6000 point 13 awaited by rank 1 >2",
    "6000 point 12 released by rank 0 x2",
    "track 14 in 3 late steps",
    "1000 begin 14 late step iteration=4 late by ns=1500 charged to=1000 ns cr\"ond (task), 500 ns timer tick",
    "6000 end 14",
    // From what struck to the rank that was struck, and to the end of the step.
    "track 15 in 0 charged with late steps",
    "track 16 in 15 cr\"ond (task) in rank 0, CPU 0",
    "5000 begin 16 cr\"ond (task) >3",
    "6000 end 16",
    "track 17 in 3 taken in late steps",
    "5000 begin 17 taken by cr\"ond (task) >3",
    "6000 end 17",
    "6000 point 14 late by 1500 ns x3",
];

#[test]
fn every_event_of_the_run_is_in_the_trace_to_the_nanosecond() {
    let dir = tempfile::tempdir().unwrap();
    let (file, losses) = export(&run(dir.path()), "trace", Format::Perfetto).unwrap();
    let trace = std::fs::read(&file).unwrap();
    assert_eq!(dump::lines(&trace), EXPECTED);
    assert_eq!(
        entries(&losses),
        [
            "bursts and interrupts whose start or end was inferred x2",
            "priorities of threads x8",
            "numbers of interrupts x1",
            "CPUs on which migrations were recorded x1",
            "arguments and results of system calls x5",
            "unknown reasons for leaving a CPU x2",
            "marked regions that were never left x1",
        ]
    );
}

#[test]
fn perfettos_own_description_reads_the_same() {
    let python =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/test-perfetto/bin/python");
    if !python.exists() {
        return skip("Perfetto's description is not there: tests/perfetto/install");
    }
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = export(&run(dir.path()), "trace", Format::Perfetto).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/perfetto/dump.py");
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), EXPECTED);
}

/// What reading a trace yields: a line per record.
fn read_back(trace: &[u8]) -> (Vec<String>, Summary) {
    let mut seen = Vec::new();
    let summary = import::perfetto::read(&mut &trace[..], &mut |record| {
        seen.push(record_lines::line(record));
        ControlFlow::Continue(())
    });
    (seen, summary.unwrap())
}

#[test]
fn the_kernels_events_read_back_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = export(&run(dir.path()), "trace", Format::Perfetto).unwrap();
    let (seen, summary) = read_back(&std::fs::read(file).unwrap());
    let expected = [
        "system node0 6.18.5 x86_64",
        "process 10 app of None, kernel: Some(false)",
        "thread 10 app of Some(Pid(10))",
        "thread 11 app of Some(Pid(10))",
        "process 20 cr\"ond of None, kernel: Some(false)",
        "thread 20 cr\"ond of Some(Pid(20))",
        "process 30 kworker/0:1 of None, kernel: Some(true)",
        "thread 30 kworker/0:1 of Some(Pid(30))",
        "0 1000 10 app gets it",
        "0 1200 10 calls Some(24)",
        "0 1250 10 returns Some(24)",
        "0 2000 10 enter Vector(0)",
        "0 2300 10 leave Vector(0)",
        "0 3000 10 enter irq 1 virtio3-tx",
        "0 3100 10 enter Softirq(9)",
        "0 3400 10 leave Softirq(9)",
        "0 3900 10 leave Irq(1)",
        "0 4900 10 wake 20 on 0",
        "0 5000 10 10 -> 20 cr\"ond Some(0)",
        "0 6500 20 20 -> 10 app Some(2)",
        "0 6500 10 calls None",
        "0 6600 10 returns None",
        "0 9000 10 leaves None",
        "1 1000 11 app gets it",
        "1 4000 11 calls Some(0)",
        "1 4000 11 leaves Some(1)",
        "1 4500 0 swapper gets it",
        "1 4950 - move 20 1 -> 0",
        "1 9000 0 leaves None",
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        (summary.bundles, summary.events, summary.other_events),
        (2, 21, 0)
    );
    assert_eq!(summary.cut, None);
}

#[test]
fn a_trace_that_is_cut_or_damaged_is_read_or_refused_with_the_offset() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = export(&run(dir.path()), "trace", Format::Perfetto).unwrap();
    let trace = std::fs::read(file).unwrap();
    let read =
        |bytes: &[u8]| import::perfetto::read(&mut &bytes[..], &mut |_| ControlFlow::Continue(()));
    let whole = read(&trace).unwrap();
    for end in 0..trace.len() {
        let cut = read(&trace[..end]).unwrap();
        assert!(cut.packets < whole.packets && cut.events <= whole.events);
        assert!(cut.cut.is_none_or(|at| at < end as u64));
    }
    for at in 0..trace.len() {
        for bit in 0..8 {
            let mut flipped = trace.clone();
            flipped[at] ^= 1 << bit;
            if let Err(error) = read(&flipped) {
                assert!(error.to_string().contains("offset"), "{error}");
            }
        }
    }
    let error = read(b"\x0a\x02\x08\x01{\"traceEvents\"")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("offset 4"), "{error}");
    // A packet that claims 2^60 bytes.
    let error = read(b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x10")
        .unwrap_err()
        .to_string();
    assert!(error.contains("1152921504606846976 bytes"), "{error}");
}

/// A burst of a CPU of a node.
fn burst(
    node: u32,
    cpu: u32,
    pid: u32,
    (begin_ns, end_ns): (u64, u64),
    reason: EndReason,
) -> Burst {
    Burst {
        node: NodeId::new(node),
        cpu: Cpu::new(cpu),
        pid: Pid::new(pid),
        begin_ns,
        end_ns,
        end_reason: reason,
        certain: true,
    }
}

#[test]
fn the_nodes_of_a_run_are_machines() {
    let dir = tempfile::tempdir().unwrap();
    let bursts = (0..2).map(|node| burst(node, 0, 1, (10, 20), EndReason::Exited));
    let run = kernel_run(dir.path(), 2, bursts.collect(), Vec::new());
    let (file, _) = export(&run, "trace", Format::Perfetto).unwrap();
    let expected = [
        "system Linux  node0",
        "machine 1 system Linux  node1",
        "process 1 app 0",
        "thread 1 app 1",
        "machine 1 process 1 app 0",
        "machine 1 thread 1 app 1",
        "CPU 0 10 - sched_switch not recorded,2147483647,32768,app,1",
        "CPU 0 20 1 sched_switch app,1,16,not recorded,2147483647",
        "machine 1 CPU 0 10 - sched_switch not recorded,2147483647,32768,app,1",
        "machine 1 CPU 0 20 1 sched_switch app,1,16,not recorded,2147483647",
    ];
    assert_eq!(dump::lines(&std::fs::read(file).unwrap()), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bursts_and_interrupts_survive_the_way_through_the_format(
        stretches in prop::collection::vec((0_u64..3, 1_u64..400, 0_u32..4, 0_u8..6), 0..60),
        nodes in 1_u32..3,
    ) {
        let mut bursts = Vec::new();
        let mut interrupts = Vec::new();
        for node in 0..nodes {
            for cpu in 0..2 {
                let mut at = 1000;
                for &(gap, length, pid, reason) in &stretches {
                    at += gap;
                    let reason = EndReason::from_code(reason).unwrap();
                    bursts.push(burst(node, cpu, pid, (at, at + length), reason));
                    // A tick in the middle of the burst, if that is long enough.
                    if length >= 300 {
                        interrupts.push(Interrupt {
                            node: NodeId::new(node),
                            cpu: Cpu::new(cpu),
                            source: 0,
                            pid: Pid::new(pid),
                            begin_ns: at + 1,
                            end_ns: at + length - 1,
                            depth: 0,
                            certain: true,
                        });
                    }
                    at += length;
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let run = kernel_run(dir.path(), nodes, bursts.clone(), interrupts.clone());
        let (file, _) = export(&run, "trace", Format::Perfetto).unwrap();
        let trace = std::fs::read(file).unwrap();
        let (mut running, mut open) = (BTreeMap::new(), BTreeMap::new());
        let (mut bursts_back, mut interrupts_back) = (Vec::new(), Vec::new());
        import::perfetto::read(&mut &trace[..], &mut |record| {
            let mut switch = |machine, cpu, time_ns, prev: Option<(Pid, Option<u64>)>, next| {
                if let Some((pid, begin)) = running.remove(&(machine, cpu)) {
                    let (prev, state) = prev.unwrap();
                    assert_eq!(pid, prev);
                    bursts_back.push((machine, cpu, prev, begin, time_ns, state));
                }
                if let Some(next) = next {
                    running.insert((machine, cpu), (next, time_ns));
                }
            };
            match record {
                Record::Gets { machine, cpu, time_ns, next, .. } => {
                    switch(machine, cpu, time_ns, None, Some(next));
                }
                Record::Leaves { machine, cpu, time_ns, prev, prev_state } => {
                    switch(machine, cpu, time_ns, Some((prev, prev_state)), None);
                }
                Record::Event { machine, cpu, time_ns, by, event } => match event {
                    Event::Switch { prev, prev_state, next, .. } => {
                        switch(machine, cpu, time_ns, Some((prev, prev_state)), Some(next));
                    }
                    Event::Enter { .. } => {
                        assert_eq!(open.insert((machine, cpu), (by, time_ns)), None);
                    }
                    Event::Leave { .. } => {
                        let (pid, begin) = open.remove(&(machine, cpu)).unwrap();
                        interrupts_back.push((machine, cpu, pid.unwrap(), begin, time_ns));
                    }
                    other => panic!("{other:?}"),
                },
                Record::Lost { .. } => panic!("nothing was lost"),
                Record::System { .. } | Record::Process { .. } | Record::Thread { .. } => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        let states = [Some(0), Some(1), Some(2), Some(4), Some(16), None];
        let expected = bursts.iter().map(|b| {
            let state = states[usize::from(b.end_reason.code())];
            (b.node.get(), b.cpu, b.pid, b.begin_ns, b.end_ns, state)
        });
        prop_assert_eq!(bursts_back, expected.collect::<Vec<_>>());
        let expected = interrupts.iter().map(|i| (i.node.get(), i.cpu, i.pid, i.begin_ns, i.end_ns));
        prop_assert_eq!(interrupts_back, expected.collect::<Vec<_>>());
    }
}

/// A decoder of what the exporter writes, by the field numbers of Perfetto's `.proto` files.
mod dump {
    enum Field<'a> {
        Number(u64),
        Bytes(&'a [u8]),
    }

    impl Field<'_> {
        fn show(&self) -> String {
            match self {
                // System call numbers are signed.
                Self::Number(u64::MAX) => "-1".to_owned(),
                Self::Number(number) => number.to_string(),
                Self::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            }
        }
    }

    fn varint(rest: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }

    fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let field = match key % 8 {
                0 => Field::Number(varint(&mut rest)),
                1 => {
                    let (word, after) = rest.split_at(8);
                    rest = after;
                    Field::Number(u64::from_le_bytes(word.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut rest) as usize;
                    let (bytes, after) = rest.split_at(length);
                    rest = after;
                    Field::Bytes(bytes)
                }
                other => panic!("type {other}"),
            };
            fields.push((key / 8, field));
        }
        fields
    }

    fn inside<'a>(fields: &[(u64, Field<'a>)], number: u64) -> Vec<&'a [u8]> {
        let bytes = |(n, field): &(u64, Field<'a>)| match field {
            Field::Bytes(bytes) if *n == number => Some(*bytes),
            _ => None,
        };
        fields.iter().filter_map(bytes).collect()
    }

    fn text(fields: &[(u64, Field<'_>)], number: u64) -> String {
        let all = fields.iter().filter(|(n, _)| *n == number);
        all.map(|(_, field)| field.show()).collect()
    }

    fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
        if text.is_empty() { default } else { text }
    }

    const EVENTS: [(u64, &str); 11] = [
        (4, "sched_switch"),
        (20, "sched_waking"),
        (24, "softirq_entry"),
        (25, "softirq_exit"),
        (36, "irq_handler_entry"),
        (37, "irq_handler_exit"),
        (329, "sys_enter"),
        (330, "sys_exit"),
        (491, "sched_migrate_task"),
        (559, "local_timer_entry"),
        (560, "local_timer_exit"),
    ];

    pub fn lines(trace: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        for (number, packet) in fields(trace) {
            let Field::Bytes(packet) = packet else {
                panic!()
            };
            assert_eq!(number, 1);
            packet_lines(&fields(packet), &mut out);
        }
        out
    }

    fn packet_lines(packet: &[(u64, Field<'_>)], out: &mut Vec<String>) {
        let machine = match text(packet, 98).as_str() {
            "" => String::new(),
            number => format!("machine {number} "),
        };
        for system in inside(packet, 45) {
            let system = fields(system);
            let name = fields(inside(&system, 1)[0]);
            let (sysname, release) = (text(&name, 1), text(&name, 3));
            out.push(format!(
                "{machine}system {sysname} {release} {}",
                text(&system, 17)
            ));
        }
        for tree in inside(packet, 2) {
            let tree = fields(tree);
            for process in inside(&tree, 1) {
                let p = fields(process);
                out.push(format!(
                    "{machine}process {} {} {}",
                    text(&p, 1),
                    text(&p, 3),
                    text(&p, 8)
                ));
            }
            for thread in inside(&tree, 2) {
                let t = fields(thread);
                out.push(format!(
                    "{machine}thread {} {} {}",
                    text(&t, 1),
                    text(&t, 2),
                    text(&t, 3)
                ));
            }
        }
        for bundle in inside(packet, 1) {
            let bundle = fields(bundle);
            let cpu = text(&bundle, 1);
            for event in inside(&bundle, 2) {
                let event = fields(event);
                let (time, by) = (text(&event, 1), text(&event, 2));
                let by = or(&by, "-");
                for (number, name) in EVENTS {
                    for values in inside(&event, number) {
                        let values: Vec<String> = fields(values)
                            .iter()
                            .map(|(_, field)| field.show())
                            .collect();
                        out.push(format!(
                            "{machine}CPU {cpu} {time} {by} {name} {}",
                            values.join(",")
                        ));
                    }
                }
            }
        }
        for track in inside(packet, 60) {
            let track = fields(track);
            let parent = text(&track, 5);
            out.push(format!(
                "track {} in {} {}",
                text(&track, 1),
                or(&parent, "0"),
                text(&track, 2)
            ));
        }
        for event in inside(packet, 11) {
            assert_eq!(text(packet, 10), "1");
            let event = fields(event);
            let kind = ["", "begin", "end", "point"][text(&event, 9).parse::<usize>().unwrap()];
            let mut line = format!(
                "{} {kind} {} {}",
                text(packet, 8),
                text(&event, 11),
                text(&event, 23)
            );
            for detail in inside(&event, 4) {
                let detail = fields(detail);
                line += &format!(
                    " {}={}{}",
                    text(&detail, 10),
                    text(&detail, 3),
                    text(&detail, 6)
                );
            }
            for (number, sign) in [(47, '>'), (48, 'x')] {
                for (_, flow) in event.iter().filter(|(n, _)| *n == number) {
                    line += &format!(" {sign}{}", flow.show());
                }
            }
            out.push(line.trim_end().to_owned());
        }
    }
}

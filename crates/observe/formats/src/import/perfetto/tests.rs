#![allow(clippy::unwrap_used)]

use super::*;
use crate::wire::Encoder;
use flate2::{Compression, write::ZlibEncoder};
use record_lines::line;
use std::io::Write;

#[path = "../../../tests/record_lines/mod.rs"]
mod record_lines;

/// Packs numbers into a field.
fn column(out: &mut Encoder, field: u32, numbers: &[u64]) {
    let mut packed = Encoder::default();
    for number in numbers {
        packed.uint(1, *number);
    }
    // Without the keys, which take a byte each.
    let mut bytes = Vec::new();
    let mut rest = packed.bytes();
    for _ in numbers {
        let (_, length) = varint(&rest[1..]).unwrap();
        bytes.extend(&rest[1..=length]);
        rest = &rest[1 + length..];
    }
    out.raw(field, &bytes);
}

/// A bundle of CPU 3 as Perfetto's recorder writes it: switches and wake-ups in columns, a timer tick
/// beside them.
fn compact(packet: &mut Encoder) {
    packet.message(packet::FTRACE_EVENTS, |bundle| {
        bundle.uint(1, 3);
        bundle.message(2, |event| {
            event.uint(1, 150);
            event.uint(2, 8);
            event.message(559, |timer| timer.uint(1, 236));
        });
        bundle.message(4, |columns| {
            column(columns, 1, &[100, 100]);
            column(columns, 2, &[1, 0x8000]);
            column(columns, 3, &[8, 9]);
            column(columns, 4, &[120, 120]);
            columns.text(5, "crond");
            columns.text(5, "app");
            column(columns, 6, &[0, 1]);
            column(columns, 7, &[99, 101]);
            column(columns, 8, &[8, 9]);
            column(columns, 9, &[3, 4]);
            column(columns, 10, &[120, 120]);
            column(columns, 11, &[0, 1]);
        });
    });
}

fn trace(packets: &[&dyn Fn(&mut Encoder)]) -> Vec<u8> {
    let mut out = Encoder::default();
    for packet in packets {
        out.message(packet::PACKET, |inside| packet(inside));
    }
    out.bytes().to_vec()
}

fn lines(trace: &[u8]) -> (Vec<String>, Result<Summary, PerfettoError>) {
    let mut seen = Vec::new();
    let summary = read(&mut &trace[..], &mut |record| {
        seen.push(line(record));
        ControlFlow::Continue(())
    });
    (seen, summary)
}

#[test]
fn columns_are_read_beside_events_in_order_of_time() {
    let (seen, summary) = lines(&trace(&[&compact]));
    let expected = [
        "3 99 - wake 8 on 3",
        "3 100 8 crond gets it",
        "3 150 8 enter Vector(0)",
        "3 200 - wake 9 on 4",
        "3 200 8 8 -> 9 app None",
    ];
    assert_eq!(seen, expected);
    assert_eq!(summary.unwrap().events, 5);
}

#[test]
fn the_name_of_a_process_is_the_program_of_its_command_line() {
    let tree = |packet: &mut Encoder| {
        packet.message(packet::PROCESS_TREE, |tree| {
            tree.message(1, |process| {
                process.uint(1, 7);
                process.uint(2, 1);
                process.text(3, "/usr/sbin/crond");
                process.text(3, "-n");
            });
            // Older recorders mark kernel threads by their parent alone.
            tree.message(1, |process| {
                process.uint(1, 8);
                process.uint(2, 2);
                process.text(3, "kworker/0:1");
                process.uint(9, 1);
            });
            tree.message(2, |thread| {
                thread.uint(1, 9);
                thread.text(2, "worker");
                thread.uint(3, 7);
            });
        });
        packet.uint(packet::MACHINE_ID, 3);
    };
    let (seen, summary) = lines(&trace(&[&tree]));
    let expected = [
        "process 7 crond of Some(Pid(1)), kernel: None",
        "process 8 kworker/0:1 of Some(Pid(2)), kernel: None",
        "thread 9 worker of Some(Pid(7))",
    ];
    assert_eq!(seen, expected);
    let summary = summary.unwrap();
    assert_eq!((summary.events, summary.other_packets), (0, 0));
}

#[test]
fn wake_ups_are_told_apart_by_their_event() {
    let bundle = |packet: &mut Encoder| {
        packet.message(packet::FTRACE_EVENTS, |bundle| {
            bundle.uint(1, 3);
            for (time, kind) in [(10, 20), (11, 17), (12, 114)] {
                bundle.message(2, |event| {
                    event.uint(1, time);
                    event.uint(2, 8);
                    event.message(kind, |wake| {
                        wake.text(1, "crond");
                        wake.uint(2, 9);
                        wake.uint(5, 4);
                    });
                });
            }
        });
    };
    let (seen, summary) = lines(&trace(&[&bundle]));
    let expected = [
        "3 10 8 wake 9 on 4",
        "3 11 8 woken 9 on 4, new: false",
        "3 12 8 woken 9 on 4, new: true",
    ];
    assert_eq!(seen, expected);
    assert_eq!(summary.unwrap().other_events, 0);
}

#[test]
fn who_leaves_a_cpu_is_known_from_the_bundle_before_unless_events_were_lost() {
    let lost = |packet: &mut Encoder| {
        packet.message(packet::FTRACE_EVENTS, |bundle| {
            bundle.uint(1, 3);
            bundle.uint(3, 1);
        });
    };
    let switch = |seen: &[String], at: usize| seen[at].split(' ').nth(3).map(str::to_owned);
    let (seen, _) = lines(&trace(&[&compact, &compact]));
    assert_eq!(switch(&seen, 6).unwrap(), "9");
    let (seen, summary) = lines(&trace(&[&compact, &lost, &compact]));
    assert_eq!(
        (seen[5].as_str(), seen[7].as_str()),
        ("3 lost", "3 100 8 crond gets it")
    );
    assert_eq!(summary.unwrap().gaps, 1);
}

#[test]
fn compressed_packets_are_read_like_others_and_not_within_each_other() {
    let inner = trace(&[&compact]);
    let deflate = |bytes: &[u8]| {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(bytes).unwrap();
        zlib.finish().unwrap()
    };
    let packed = deflate(&inner);
    let outer = trace(&[&|packet| packet.raw(packet::COMPRESSED, &packed)]);
    assert_eq!(lines(&outer).0, lines(&inner).0);
    let packed = deflate(&outer);
    let nested = trace(&[&|packet| packet.raw(packet::COMPRESSED, &packed)]);
    let error = lines(&nested).1.unwrap_err().to_string();
    assert!(error.contains("within a compressed one"), "{error}");
    let damaged = trace(&[&|packet| packet.raw(packet::COMPRESSED, b"no zlib")]);
    let error = lines(&damaged).1.unwrap_err().to_string();
    assert!(error.starts_with("packet at offset 0"), "{error}");
}

#[test]
fn reading_ends_when_told_to() {
    let mut seen = 0;
    let bytes = trace(&[&compact, &compact]);
    let summary = read(&mut &bytes[..], &mut |_| {
        seen += 1;
        ControlFlow::Break(())
    });
    assert_eq!((seen, summary.unwrap().events), (1, 1));
}

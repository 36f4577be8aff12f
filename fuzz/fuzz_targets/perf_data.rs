//! perf.data: no panic, and nothing is allocated for a length that the file does not have.
//!
//! The first byte says what stands before the rest: nothing, or the start of a pipe of a
//! little-endian or a big-endian machine, with one tracepoint and its description, so that the rest is
//! records.
#![no_main]

use idlewave_formats::import::{Ask, import};
use idlewave_ftrace::testing::{format_text, header_page_text};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::sync::LazyLock;

/// Longest input: one that unpacks to more takes too long.
const LONGEST: usize = 1 << 16;
/// What perf records of tracepoints: the bits IP, TID, TIME, CPU, PERIOD, RAW and IDENTIFIER.
const SAMPLE_TYPE: u64 = 0x1_0587;

static STARTS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [start(true), start(false)]);

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first().filter(|_| input.len() < LONGEST) else {
        return;
    };
    let before = match kind % 3 {
        0 => &[][..],
        n => &STARTS[usize::from(n) - 1],
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("perf.data");
    fs::write(&file, [before, rest].concat()).expect("a temporary file can be written");
    let _ = import(&Ask::new(&file, &dir.path().join("run")));
});

fn start(little: bool) -> Vec<u8> {
    let number = |value: u64, size: usize| match little {
        true => value.to_le_bytes()[..size].to_vec(),
        false => value.to_be_bytes()[8 - size..].to_vec(),
    };
    let head = |kind, size: usize| [number(kind, 4), number(0, 2), number(size as u64, 2)].concat();
    let mut out = if little { b"PERFILE2" } else { b"2ELIFREP" }.to_vec();
    out.extend(number(16, 8));
    // A tracepoint, and the numbers 1 and 2 of its events.
    let flags = if little { 1 << 18 } else { 1 << (63 - 18) };
    let mut attr = [number(2, 4), number(64, 4)].concat();
    for word in [0, 0, SAMPLE_TYPE, 0, flags, 0, 0, 1, 2] {
        attr.extend(number(word, 8));
    }
    out.extend([head(64, 8 + attr.len()), attr].concat());
    let mut tracing = tracing();
    out.extend([head(66, 12), number(tracing.len() as u64, 4)].concat());
    tracing.resize(tracing.len().next_multiple_of(8), 0);
    out.extend(tracing);
    out
}

/// Descriptions have a byte order of their own.
fn tracing() -> Vec<u8> {
    let sized = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut out = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
    out.extend(4096_u32.to_le_bytes());
    out.extend([b"header_page\0", &sized(&header_page_text(4096))[..]].concat());
    out.extend([b"header_event\0", &sized("")[..]].concat());
    out.extend([0_u32, 1].map(u32::to_le_bytes).concat());
    out.extend(b"sched\0");
    let events = ["sched_switch", "sched_waking", "sched_process_fork"];
    out.extend((events.len() as u32).to_le_bytes());
    for event in events {
        out.extend(sized(&format_text(event)));
    }
    out.extend([0; 16]);
    out
}

//! A trace with every type that the metadata can declare.

use super::writer::Bits;
use crate::story::import_file;
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_run::RunReader;
use std::fs;
use tempfile::TempDir;

/// Types, headers, and a switch whose other fields are of every type.
pub const METADATA: &str = include_str!("types.tsdl");

/// The tags that choose a number and a text: -2 and -1.
pub const NUMBER: u64 = u64::MAX - 1;
pub const TEXT: u64 = u64::MAX;

/// One switch: time, name and thread that leaves, thread that gets the CPU; the chosen option, the
/// shade, and the number of elements.
pub struct Switch(
    pub u64,
    pub &'static str,
    pub u32,
    pub u32,
    pub (u64, u64, u64),
);

impl Switch {
    pub fn write(&self, out: &mut Bits) {
        let Switch(time, comm, prev, next, (tag, shade, count)) = *self;
        let number = |out: &mut Bits, value: u64, size| out.number(value, size, 8);
        let int = |out: &mut Bits, value: u64| out.number(value, 32, 32);
        number(out, 7, 8);
        number(out, time, 64);
        number(out, count, 8);
        number(out, shade, 8);
        // The fields together are aligned as the largest of them.
        out.align(64);
        out.number(5, 3, 1);
        out.number(0x7f, 7, 1);
        out.number(0x1_2345_6789, 33, 1);
        out.number(0x3f80_0000, 32, 32);
        number(out, 0x3ff0 << 48, 64);
        out.number(0x5000, 16, 16);
        (1..=3).for_each(|n| int(out, n));
        for n in 0..2 {
            out.align(64);
            int(out, n);
            int(out, n);
        }
        for n in [count, 0] {
            number(out, n, 8);
            (0..n).for_each(|_| out.text("one", 4));
        }
        number(out, tag, 8);
        match tag {
            NUMBER => int(out, 1),
            TEXT => out.text("text", 5),
            _ => {
                out.align(64);
                int(out, 1);
                int(out, 2);
            }
        }
        number(out, shade, 8);
        match shade {
            0 | 6 => int(out, 9),
            5 => number(out, 9, 8),
            _ => out.number(0x900, 16, 16),
        }
        (0..count).for_each(|n| number(out, n, 8));
        (0..6).for_each(|n| int(out, n));
        out.align(32);
        (0..2 * count).for_each(|n| int(out, n));
        (0..4).for_each(|n| out.number(n, 12, 8));
        (0..3).for_each(|n| out.number(n, 5, 1));
        // Empty rows are aligned too.
        out.align(8);
        (0..count).for_each(|n| out.number(n, 12, 8));
        for (size, align) in [(17, 1), (8, 8), (1, 1), (16, 8)] {
            out.number(1, size, align);
        }
        int(out, 3);
        (0..count).for_each(|n| number(out, n, 8));
        int(out, 4);
        out.text(comm, comm.len() + 1);
        int(out, 5);
        out.align(16);
        out.text(comm, comm.len() + 1);
        int(out, u64::from(prev));
        int(out, 120);
        number(out, 1, 64);
        out.text("next", 16);
        int(out, u64::from(next));
    }
}

pub fn switches() -> Vec<Switch> {
    let mut all = Vec::new();
    let mut running = 0;
    for (n, tag) in [NUMBER, TEXT, 7, TEXT, NUMBER, 7, 7, TEXT]
        .into_iter()
        .enumerate()
    {
        let (n, next) = (n as u64, 70 + n as u32 % 3);
        let shade = [0, 5, 6, 10, 20, 15][n as usize % 6];
        // With many elements, each is read by steps of its own.
        let count = [0, 1, 2, 3, 4, 0, 255, 2][n as usize];
        let comm = ["a", "solver", "x y, z", ""][n as usize % 4];
        all.push(Switch(
            1_000_000 + n * 1000,
            comm,
            running,
            next,
            (tag, shade, count),
        ));
        running = next;
    }
    all
}

/// A packet of these switches.
pub fn packet(switches: &[Switch]) -> Vec<u8> {
    let mut content = 0;
    loop {
        let mut out = Bits::default();
        out.number(0xC1FC_1FC1, 32, 8);
        out.number(3, 8, 8);
        out.number(2, 16, 8);
        out.number(content, 32, 8);
        out.number(content.next_multiple_of(8) + 16, 32, 8);
        switches.iter().for_each(|switch| switch.write(&mut out));
        if out.at == content {
            out.align(8);
            out.bytes.extend([0; 2]);
            return out.bytes;
        }
        content = out.at;
    }
}

pub fn stream() -> Vec<u8> {
    let switches = switches();
    let (first, second) = switches.split_at(3);
    [packet(first), packet(second)].concat()
}

/// A trace of these files.
pub fn trace(metadata: &str, stream: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(trace.join("metadata"), metadata).unwrap();
    fs::write(trace.join("stream"), stream).unwrap();
    dir
}

pub fn import(dir: &TempDir) -> Result<(Imported, RunReader), ImportError> {
    import_file(&dir.path().join("trace"), &Program::Busiest)
}

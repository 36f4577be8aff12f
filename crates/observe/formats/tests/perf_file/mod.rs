//! Files of perf: recorded ones, ones written by hand, and the same in the other byte order.

pub mod imported;
pub mod swap;

use crate::common::unpacked;
use idlewave_ftrace::EVENTS;
use idlewave_ftrace::testing::{Payload, format_text, header_page_text};
use std::collections::BTreeMap;

/// The recorded files and what `perf script` printed of them, by name.
///
/// Recorded by perf 6.1 on a virtual machine with two CPUs and Linux 6.18, with
/// `perf record --synth=no --no-bpf-event -a -k CLOCK_MONOTONIC -e EVENTS`; `packed` with `-z` and
/// `--synth=task`, `piped` with `-o -`, `lost` with `-m 1` and perf stopped for 60 ms. The texts are from
/// `perf script --ns -F comm,pid,tid,cpu,time,event,trace`. The kernel's release was overwritten.
pub fn recorded() -> BTreeMap<String, Vec<u8>> {
    unpacked(include_bytes!("../perf_data.tar.zst"))
}

/// Bits of `sample_type`.
pub const IP: u64 = 1;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const ADDR: u64 = 1 << 3;
pub const READ: u64 = 1 << 4;
pub const CALLCHAIN: u64 = 1 << 5;
pub const ID: u64 = 1 << 6;
pub const CPU: u64 = 1 << 7;
pub const PERIOD: u64 = 1 << 8;
pub const STREAM_ID: u64 = 1 << 9;
pub const RAW: u64 = 1 << 10;
pub const IDENTIFIER: u64 = 1 << 16;
/// What perf records of tracepoints.
pub const USUAL: u64 = IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER;

/// Bits of `read_format`.
pub const ALL_COUNTS: u64 = 0b1_0111;
pub const GROUP: u64 = 1 << 3;

/// Size of a record of lost samples, with the fields that perf usually has at its end.
pub const SIZE_OF_LOST_SAMPLES: usize = 8 + 8 + 32;

/// A perf.data of a little-endian machine with two CPUs, written by hand.
pub struct PerfFile {
    pub pipe: bool,
    pub sample_type: u64,
    pub read_format: u64,
    pub clock: Option<u32>,
    /// How many CPUs the machine may have, and how many are online.
    pub cpus: [u32; 2],
    /// Bytes per compressed record, if records are compressed.
    pub packed: Option<usize>,
    /// Whether compressed records give the size of their data, as those of newer perf do.
    pub sized: bool,
    /// Whether the descriptions of events are left out.
    pub undescribed: bool,
    /// Records of the current round.
    pub records: Vec<u8>,
    /// The records of the rounds that have ended, in order.
    pub rounds: Vec<Vec<u8>>,
}

impl Default for PerfFile {
    fn default() -> Self {
        Self {
            pipe: false,
            sample_type: USUAL,
            read_format: 0,
            clock: Some(1),
            cpus: [4, 4],
            packed: None,
            sized: false,
            undescribed: false,
            records: Vec::new(),
            rounds: Vec::new(),
        }
    }
}

pub fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0, 0]);
    out.extend((8 + body.len() as u16).to_le_bytes());
    out.extend(body);
    out
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn sized32(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// ID of an event: tracepoints have 10 plus the CPU, the other event has 20 plus the CPU.
fn id(cpu: u32) -> u64 {
    10 + u64::from(cpu)
}

impl PerfFile {
    /// Adds a sample of a tracepoint.
    pub fn sample(
        &mut self,
        time: u64,
        cpu: u32,
        (process, thread): (u32, u32),
        payload: &Payload,
    ) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let fields = [
            (IDENTIFIER, id(cpu)),
            (IP, 0xffff_ffff_8100_0000),
            (TID, pair(process, thread)),
            (TIME, time),
            (ADDR, 7),
            (ID, id(cpu)),
            (STREAM_ID, 99),
            (CPU, pair(cpu, 0)),
            (PERIOD, 1),
        ];
        let there = fields.iter().filter(|(bit, _)| self.sample_type & bit != 0);
        let mut body = words(&there.map(|(_, word)| *word).collect::<Vec<_>>());
        if self.sample_type & READ != 0 {
            let once = (self.read_format & 3).count_ones() as usize;
            let each = 1 + (self.read_format & 0b1_0100).count_ones() as usize;
            let counts = match self.read_format & GROUP != 0 {
                true => [vec![3; 1 + once], vec![5; 3 * each]].concat(),
                false => vec![5; once + each],
            };
            body.extend(words(&counts));
        }
        if self.sample_type & CALLCHAIN != 0 {
            body.extend(words(&[2, 0x1234, 0x5678]));
        }
        // Raw data and its size fill whole words.
        let size = (payload.bytes().len() + 4).next_multiple_of(8) - 4;
        body.extend((size as u32).to_le_bytes());
        body.extend(payload.bytes());
        body.resize(body.len() + size - payload.bytes().len(), 0);
        self.records.extend(record(9, &body));
    }

    /// Adds any record.
    pub fn record(&mut self, kind: u32, body: &[u8]) {
        self.records.extend(record(kind, body));
    }

    /// Adds a record of the kernel that is no sample, with the fields at its end.
    pub fn other(&mut self, kind: u32, body: &[u8], time: u64, cpu: u32) {
        let fields = [
            (TID, 0),
            (TIME, time),
            (ID, id(cpu)),
            (STREAM_ID, 99),
            (CPU, u64::from(cpu)),
            (IDENTIFIER, id(cpu)),
        ];
        let there = fields.iter().filter(|(bit, _)| self.sample_type & bit != 0);
        let end = words(&there.map(|(_, word)| *word).collect::<Vec<_>>());
        self.record(kind, &[body, &end].concat());
    }

    /// Adds a loss of this many events on a CPU, before its next one.
    pub fn lost(&mut self, cpu: u32, count: u64, time: u64) {
        self.other(2, &words(&[id(cpu), count]), time, cpu);
    }

    /// Adds which CPU and which thread the event IDs belong to.
    pub fn index(&mut self, thread: i64) {
        let entry = |cpu| [id(cpu), 0, u64::from(cpu), thread as u64];
        let index = [&[2][..], &entry(0), &entry(1)].concat();
        self.record(69, &words(&index));
    }

    /// Ends a round.
    pub fn round(&mut self) {
        self.rounds.push(std::mem::take(&mut self.records));
    }

    fn attr(&self, tracepoint: bool) -> Vec<u8> {
        let mut attr = vec![0; 96];
        let sample_type = match tracepoint {
            true => self.sample_type,
            false => self.sample_type & !(RAW | PERIOD | READ | CALLCHAIN),
        };
        attr[..8].copy_from_slice(&words(&[u64::from(1 + u32::from(tracepoint)) | 96 << 32]));
        let flags = 1 << 18 | u64::from(self.clock.is_some()) << 25;
        attr[24..48].copy_from_slice(&words(&[sample_type, self.read_format, flags]));
        attr[92..].copy_from_slice(&self.clock.unwrap_or(0).to_le_bytes());
        attr
    }

    fn tracing() -> Vec<u8> {
        let sized = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let mut out = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
        out.extend(4096_u32.to_le_bytes());
        out.extend([&b"header_page\0"[..], &sized(&header_page_text(4096))].concat());
        out.extend([&b"header_event\0"[..], &sized("x")].concat());
        out.extend(0_u32.to_le_bytes());
        let mut systems: Vec<&str> = EVENTS.iter().map(|e| e.0).collect();
        systems.dedup();
        out.extend((systems.len() as u32).to_le_bytes());
        for system in systems {
            out.extend([system.as_bytes(), b"\0"].concat());
            let of: Vec<_> = EVENTS.iter().filter(|e| e.0 == system).collect();
            out.extend((of.len() as u32).to_le_bytes());
            of.iter().for_each(|e| out.extend(sized(&format_text(e.1))));
        }
        out.extend([0; 8]);
        out.extend(sized("6 saved name\n"));
        out
    }

    /// Header features other than the descriptions: number and data.
    fn features(&self) -> Vec<(u32, Vec<u8>)> {
        vec![
            (3, sized32(b"n17\0\0\0\0\0")),
            (4, sized32(b"6.1.0\0\0\0")),
            (7, self.cpus.map(u32::to_le_bytes).concat()),
            (10, words(&[1 << 20])),
            (13, self.topology()),
            // The clock of the time of day.
            (29, [&[1, 0, 0, 0], &[0; 20][..]].concat()),
        ]
    }

    /// Four CPUs on two cores in two packages.
    fn topology(&self) -> Vec<u8> {
        let list =
            |of: [&[u8]; 2]| [&2_u32.to_le_bytes()[..], &sized32(of[0]), &sized32(of[1])].concat();
        let places = [[0_u32, 0], [0, 0], [0, 1], [0, 1]].concat();
        let places: Vec<u8> = places.iter().flat_map(|n| n.to_le_bytes()).collect();
        [
            list([b"0-1\0", b"2-3\0"]),
            list([b"0-1\0", b"2-3\0"]),
            places,
        ]
        .concat()
    }

    /// The records, with the ends of rounds, compressed if asked.
    fn data(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut begun = false;
        for (n, round) in self.rounds.iter().chain([&self.records]).enumerate() {
            match self.packed {
                None => out.extend(round),
                Some(size) => {
                    // A frame of raw blocks with a window of 1 KiB, which is never ended.
                    let mut frame = Vec::new();
                    if !std::mem::replace(&mut begun, true) {
                        frame.extend(b"\x28\xb5\x2f\xfd\0\0");
                    }
                    for block in round.chunks(1000) {
                        frame.extend(&((block.len() as u32) << 3).to_le_bytes()[..3]);
                        frame.extend(block);
                    }
                    for piece in frame.chunks(size) {
                        let mut body = words(&[piece.len() as u64]);
                        body.extend(piece);
                        body.resize(body.len().next_multiple_of(8), 0xff);
                        out.extend(match self.sized {
                            true => record(83, &body),
                            false => record(81, piece),
                        });
                    }
                }
            }
            if n < self.rounds.len() {
                out.extend(record(68, &[]));
            }
        }
        out
    }

    /// The file.
    pub fn write(&self) -> Vec<u8> {
        match self.pipe {
            true => self.as_pipe(),
            false => self.as_file(),
        }
    }

    fn as_pipe(&self) -> Vec<u8> {
        let mut out = [b"PERFILE2".to_vec(), words(&[16])].concat();
        for (tracepoint, first) in [(true, 10), (false, 20)] {
            let ids = words(&[first, first + 1]);
            out.extend(record(64, &[self.attr(tracepoint), ids].concat()));
        }
        for (number, data) in self.features() {
            let body = [words(&[u64::from(number)]), data].concat();
            out.extend(record(80, &body));
        }
        if !self.undescribed {
            let tracing = Self::tracing();
            out.extend(record(66, &(tracing.len() as u32).to_le_bytes()));
            out.extend(&tracing);
            out.resize(
                out.len() + tracing.len().next_multiple_of(8) - tracing.len(),
                0,
            );
        }
        out.extend(self.data());
        out
    }

    fn as_file(&self) -> Vec<u8> {
        let ids = words(&[10, 11, 20, 21]);
        let data = self.data();
        let attrs = 104 + ids.len() as u64;
        let begin = attrs + 2 * (96 + 16);
        let mut features = self.features();
        if !self.undescribed {
            features.insert(0, (1, Self::tracing()));
        }
        let bits = features
            .iter()
            .fold(0, |bits, (number, _)| bits | 1 << number);
        let header = [
            104,
            96 + 16,
            attrs,
            2 * (96 + 16),
            begin,
            data.len() as u64,
            0,
            0,
            bits,
            0,
            0,
            0,
        ];
        let mut out = [b"PERFILE2".to_vec(), words(&header), ids].concat();
        for (tracepoint, at) in [(true, 104), (false, 120)] {
            out.extend(self.attr(tracepoint));
            out.extend(words(&[at, 16]));
        }
        out.extend(data);
        let mut at = (out.len() + 16 * features.len()) as u64;
        for (_, data) in &features {
            out.extend(words(&[at, data.len() as u64]));
            at += data.len() as u64;
        }
        features.iter().for_each(|(_, data)| out.extend(data));
        out
    }
}

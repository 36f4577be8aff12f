//! A small OTF2 archive, byte by byte, in either byte order.
//!
//! Rank 1 posts a receive, waits for rank 0 to send, and then waits for it at a barrier.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of the header of a chunk.
const HEADER: usize = 18;

/// Bytes of a file.
pub struct Out {
    pub bytes: Vec<u8>,
    big: bool,
}

impl Out {
    /// The start of a file without chunks.
    pub fn file(big: bool) -> Self {
        let bytes = vec![3, if big { 0x23 } else { 0x42 }];
        Self { bytes, big }
    }

    /// The start of a file of records.
    pub fn records(big: bool, last: u64) -> Self {
        let mut out = Self::file(big);
        out.full(1).full(last);
        out
    }

    pub fn u8(&mut self, number: u8) -> &mut Self {
        self.bytes.push(number);
        self
    }

    pub fn full(&mut self, number: u64) -> &mut Self {
        let bytes = match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        self.bytes.extend(bytes);
        self
    }

    fn full32(&mut self, number: u32) -> &mut Self {
        let bytes = match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        self.bytes.extend(bytes);
        self
    }

    /// A number in its shortest form.
    pub fn number(&mut self, number: u64) -> &mut Self {
        let length = (64 - number.leading_zeros()).div_ceil(8) as usize;
        self.bytes.push(length as u8);
        match self.big {
            true => self.bytes.extend(&number.to_be_bytes()[8 - length..]),
            false => self.bytes.extend(&number.to_le_bytes()[..length]),
        }
        self
    }

    pub fn numbers(&mut self, numbers: &[u64]) -> &mut Self {
        for &number in numbers {
            self.number(number);
        }
        self
    }

    /// The largest number, which stands for none.
    pub fn none(&mut self) -> &mut Self {
        self.u8(255)
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.bytes.extend(text.as_bytes());
        self.u8(0)
    }

    pub fn record(&mut self, kind: u8, fill: impl FnOnce(&mut Out)) -> &mut Self {
        let mut fields = Out {
            bytes: Vec::new(),
            big: self.big,
        };
        fill(&mut fields);
        self.u8(kind);
        match u8::try_from(fields.bytes.len()) {
            Ok(length) if length < 255 => self.u8(length),
            _ => self.u8(255).full(fields.bytes.len() as u64),
        };
        self.bytes.extend(fields.bytes);
        self
    }

    /// A time.
    pub fn at(&mut self, time: u64) -> &mut Self {
        self.u8(5).full(time)
    }

    /// A record of a single number.
    pub fn single(&mut self, kind: u8, number: u64) -> &mut Self {
        self.u8(kind).number(number)
    }

    pub fn end(&mut self) -> Vec<u8> {
        self.u8(2);
        self.bytes.clone()
    }
}

pub const MAIN: u64 = 0;
pub const SEND: u64 = 1;
pub const IRECV: u64 = 2;
pub const WAIT: u64 = 3;
pub const BARRIER: u64 = 4;

/// An archive: names and bytes of its files.
#[derive(Clone)]
pub struct Archive(pub Vec<(String, Vec<u8>)>);

impl Archive {
    pub fn new(big: bool) -> Self {
        Self(vec![
            ("a.otf2".to_owned(), anchor(big)),
            ("a.def".to_owned(), definitions(big)),
            ("a/10.evt".to_owned(), rank_0(big)),
            ("a/11.evt".to_owned(), rank_1(big)),
            ("a/10.def".to_owned(), Out::records(big, 0).end()),
            ("a/11.def".to_owned(), local(big)),
        ])
    }

    pub fn file(&mut self, name: &str) -> &mut Vec<u8> {
        let found = self.0.iter_mut().find(|(n, _)| n == name);
        &mut found.unwrap().1
    }

    /// Appends records to a file, before its end mark.
    pub fn append(&mut self, name: &str, mut more: Out) {
        let file = self.file(name);
        file.pop();
        file.extend(&more.end()[HEADER..]);
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }

    /// Writes it and returns the path of its anchor.
    pub fn write(&self, dir: &Path) -> PathBuf {
        fs::create_dir_all(dir.join("a")).unwrap();
        for (name, bytes) in &self.0 {
            fs::write(dir.join(name), bytes).unwrap();
        }
        dir.join("a.otf2")
    }
}

/// Positions in the anchor: size of an event chunk, substrate, compression.
pub const CHUNK: usize = 12;
pub const SUBSTRATE: usize = 28;
pub const COMPRESSION: usize = 29;

fn anchor(big: bool) -> Vec<u8> {
    let mut out = Out::file(big);
    out.text("OTF2");
    // Versions of the anchor, the trace and the library.
    for version in [3, 2, 3, 0, 2] {
        out.u8(version);
    }
    out.full(1 << 18).full(1 << 18).u8(1).u8(1);
    // How many locations and global definitions there are.
    out.full(2).full(29);
    out.text("machine").text("by hand").text("");
    out.full32(0).full(77).full32(0).full32(0);
    out.end()
}

/// Texts by their numbers.
pub const TEXTS: [&str; 13] = [
    "",
    "main",
    "MPI_Send",
    "MPI_Irecv",
    "MPI_Wait",
    "MPI_Barrier",
    "node",
    "machine",
    "host",
    "process",
    "thread",
    "MPI_COMM_WORLD",
    "LONG",
];

fn definitions(big: bool) -> Vec<u8> {
    let mut out = Out::records(big, 29);
    out.record(5, |f| {
        f.numbers(&[1_000_000_000, 1_000, 3_000, 0]);
    });
    for (number, text) in (0..).zip(TEXTS) {
        // Too long for the short form of a record's length.
        let text = text.replace("LONG", &"x".repeat(300));
        out.record(10, |f| {
            f.number(number).text(&text);
        });
    }
    out.record(12, |f| {
        f.numbers(&[0, 7, 7]).none();
    });
    out.record(12, |f| {
        f.numbers(&[1, 8, 6, 0]);
    });
    out.record(27, |f| {
        f.number(1).u8(1);
    });
    for rank in 0..2 {
        out.record(13, |f| {
            f.numbers(&[rank, 9]).u8(1).number(1).none();
        });
        out.record(14, |f| {
            let events = [9, 12][rank as usize];
            f.numbers(&[10 + rank, 10]).u8(1).numbers(&[events, rank]);
        });
    }
    for region in 0..5_u8 {
        let (role, paradigm) = match u64::from(region) {
            MAIN => (1, 2),
            BARRIER => (15, 4),
            _ => (28, 4),
        };
        out.record(15, |f| {
            let name = u64::from(region) + 1;
            f.numbers(&[region.into(), name, 0]).u8(0);
            f.numbers(&[0, 0, 0, name]).u8(role).u8(paradigm).number(0);
        });
    }
    for (number, kind, members) in [(0, 4, [10, 11]), (1, 5, [0, 1])] {
        out.record(18, |f| {
            f.numbers(&[number, 0]).u8(0).number(2).numbers(&members);
            f.u8(kind).u8(4).number(0);
        });
    }
    // The rest of the first chunk is empty.
    let mut out = next_chunk(out, 1 << 18);
    out.record(22, |f| {
        f.numbers(&[0, 11, 1]).none().number(0);
    });
    out.end()
}

/// Rank 1's clock is 100 ns behind, and its region 0 is the barrier.
fn local(big: bool) -> Vec<u8> {
    let mut out = Out::records(big, 3);
    for time in [900, 9_000] {
        out.record(6, |f| {
            f.full(time).number(100).full(0);
        });
    }
    out.record(5, |f| {
        f.u8(3)
            .number(2)
            .u8(1)
            .numbers(&[MAIN, BARRIER, BARRIER, MAIN]);
    });
    out.end()
}

fn barrier(out: &mut Out, region: u64, begin: u64, end: u64) {
    out.at(begin).single(12, region).record(22, |_| {});
    out.record(23, |f| {
        f.u8(0).number(0).none().numbers(&[0, 0]);
    });
    out.at(end).single(13, region);
}

fn rank_0(big: bool) -> Vec<u8> {
    let mut out = Out::records(big, 9);
    // Attributes belong to the event after them.
    out.at(1_000).record(6, |f| {
        f.number(1).number(0).u8(3).number(99);
    });
    out.single(12, MAIN);
    out.at(2_000).single(12, SEND).record(14, |f| {
        f.numbers(&[1, 0, 5, 64]);
    });
    out.at(2_100).single(13, SEND);
    barrier(&mut out, BARRIER, 3_000, 3_500);
    let mut out = next_chunk(out, 1 << 18);
    out.at(4_000).single(13, MAIN);
    out.end()
}

/// Begins a chunk; the rest of the previous one is empty.
fn next_chunk(mut out: Out, size: usize) -> Out {
    out.bytes.resize(size, 0);
    let header = Out::records(out.big, 9).bytes;
    out.bytes.extend(header);
    out
}

fn rank_1(big: bool) -> Vec<u8> {
    let mut out = Out::records(big, 12);
    out.at(900).single(12, BARRIER);
    out.at(1_000).single(12, IRECV).single(17, 3);
    out.at(1_050).single(13, IRECV);
    out.at(1_100).single(12, WAIT);
    out.at(2_000).record(19, |f| {
        f.numbers(&[0, 0, 5, 64, 3]);
    });
    out.at(2_050).single(13, WAIT);
    barrier(&mut out, MAIN, 2_100, 3_400);
    out.at(3_900).single(13, BARRIER);
    out.end()
}

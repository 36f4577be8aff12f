//! Nodes of the tree as bytes, and the files that hold them.
//!
//! A node is a string of numbers, each in as many bytes as it needs (LEB128), deflated, in base64.
//! A signed number is `2n`, or `-2n - 1` if negative. A file holds nodes one after the other. It is
//! a script, because a page opened from a disk may load nothing else. `tree.js` has the reader.
//!
//! | node | numbers |
//! |---|---|
//! | sums | count; each: name minus the previous one, events, time, greatest weight |
//! | with parts | 0; the sums of its four parts; for each row and class: bins with content, each: bin minus the previous one, events, time, greatest weight |
//! | leaf | 1; events left out; number of groups; each: row, lane, values per event, events; then start minus the previous end (signed), length, tag, values less those of the one before (signed), all of one kind together |
//!
//! A tag is 8 times the name, plus twice the depth of an interrupt (at most 3), plus 1 if start or
//! end is inferred.

use super::super::markup::deflated;
use super::scene::Event;
use super::sums::{PARTS, Summary, Total};
use crate::ReportError;
use flate2::Compression;
use idlewave_run::Manifest;
use std::collections::BTreeMap;
use std::io;

/// Version of what is written here.
const FORMAT: u32 = 1;
/// Tables that the analysis writes.
const ANALYSED: [&str; 5] = [
    "late_steps",
    "late_parts",
    "messages",
    "waits",
    "wait_parts",
];
/// A file is closed when it is longer than this, in bytes.
const FILE: usize = 192 << 10;

/// Writes the file of a given name into the folder beside the page. The folder is named after the
/// page, without its extension and with `_files` appended.
pub type PutFile<'a> = &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>;

/// What the page has to know about the nodes.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub tree: String,
    pub packs: Vec<Option<u32>>,
    pub inside: Vec<(u32, String)>,
}

/// Puts nodes into files or into the page.
pub(super) struct Packs<'a> {
    key: String,
    /// Everything goes into the page.
    is_inside: bool,
    files: Option<PutFile<'a>>,
    built: Built,
    file: String,
    written: u32,
}

impl<'a> Packs<'a> {
    /// Without files, only the root is kept unless everything goes into the page.
    pub(super) fn new(key: &str, is_inside: bool, files: Option<PutFile<'a>>) -> Self {
        Self {
            key: key.to_owned(),
            is_inside,
            files,
            built: Built::default(),
            file: String::new(),
            written: 0,
        }
    }

    /// Numbers the next node; a node comes before its parts.
    pub(super) fn begin(&mut self, is_leaf: bool) -> u32 {
        self.built.tree.push(if is_leaf { '1' } else { '0' });
        self.built.packs.push(None);
        self.built.packs.len() as u32 - 1
    }

    pub(super) fn put(&mut self, number: u32, node: &[u8]) -> Result<(), ReportError> {
        let is_root = number == 0;
        if !self.is_inside && !is_root && self.files.is_none() {
            return Ok(());
        }
        let text = deflated(node, Compression::new(6));
        let text = text.map_err(|e| ReportError::Encode(e.to_string()))?;
        if self.is_inside || is_root {
            self.built.inside.push((number, text));
            return Ok(());
        }
        if self.file.is_empty() {
            self.file = format!("idlewave.explorer.put(\"{}\", [\n", self.key);
        }
        self.file.push_str(&format!("[{number}, \"{text}\"],\n"));
        self.built.packs[number as usize] = Some(self.written);
        if self.file.len() > FILE {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ReportError> {
        self.file.push_str("]);\n");
        let text = std::mem::take(&mut self.file);
        let name = file_name(&self.key, self.written);
        self.written += 1;
        match &mut self.files {
            Some(put) => {
                let written = put(&name, text.as_bytes());
                written.map_err(|source| ReportError::File { name, source })
            }
            None => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> Result<Built, ReportError> {
        if !self.file.is_empty() {
            self.close()?;
        }
        Ok(self.built)
    }
}

/// Name of a file; the script of the page derives the same name.
fn file_name(key: &str, number: u32) -> String {
    format!("{key}-{number:05}.js")
}

/// Distinguishes the files of one run from those of another: a checksum over the findings and over
/// the checksums of its tables.
pub(super) fn key(manifest: &Manifest, findings: &[u8]) -> String {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&FORMAT.to_le_bytes());
    sum.update(findings);
    // Tables of the analysis do not count: they are missing where the run could not be written.
    let recorded = manifest
        .tables
        .iter()
        .filter(|t| !ANALYSED.contains(&t.name.as_str()));
    for table in recorded {
        sum.update(table.name.as_bytes());
        sum.update(&table.rows.to_le_bytes());
        sum.update(&table.crc32.to_le_bytes());
    }
    format!("{:08x}", sum.finalize())
}

fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn total(out: &mut Vec<u8>, total: &Total) {
    unsigned(out, total.count);
    unsigned(out, total.time);
    unsigned(out, total.greatest);
}

/// The bytes of a node with parts.
pub(super) fn node(summary: &Summary, parts: &[BTreeMap<u32, Total>], bins: u64) -> Vec<u8> {
    debug_assert_eq!(parts.len() as u64, PARTS);
    let mut out = vec![0];
    for part in parts {
        unsigned(&mut out, part.len() as u64);
        let mut last = 0;
        for (&what, sum) in part {
            unsigned(&mut out, u64::from(what - last));
            last = what;
            total(&mut out, sum);
        }
    }
    for (line, used) in summary.bins.chunks(bins as usize).zip(&summary.used) {
        if !used {
            out.push(0);
            continue;
        }
        let there = |(_, bin): &(usize, &Total)| **bin != Total::default();
        unsigned(
            &mut out,
            line.iter().enumerate().filter(there).count() as u64,
        );
        let mut last = 0;
        for (i, bin) in line.iter().enumerate().filter(there) {
            unsigned(&mut out, (i - last) as u64);
            last = i;
            total(&mut out, bin);
        }
    }
    out
}

/// The bytes of a leaf that starts at `begin`.
pub(super) fn leaf(events: &[Event], begin: u64, left_out: u64) -> Vec<u8> {
    let mut order: Vec<&Event> = events.iter().collect();
    order.sort_by_key(|e| (e.row, e.lane, e.mores));
    let groups = || order.chunk_by(|a, b| (a.row, a.lane, a.mores) == (b.row, b.lane, b.mores));
    let mut out = vec![1];
    unsigned(&mut out, left_out);
    unsigned(&mut out, groups().count() as u64);
    for group in groups() {
        unsigned(&mut out, group[0].row.into());
        unsigned(&mut out, group[0].lane.into());
        unsigned(&mut out, group[0].mores.into());
        unsigned(&mut out, group.len() as u64);
        let mut last = begin as i64;
        for e in group {
            signed(&mut out, e.begin as i64 - last);
            last = e.end as i64;
        }
        group
            .iter()
            .for_each(|e| unsigned(&mut out, e.end - e.begin));
        group.iter().for_each(|e| unsigned(&mut out, tag(e)));
        for i in 0..usize::from(group[0].mores) {
            let mut last = 0;
            for e in group {
                signed(&mut out, e.more[i].wrapping_sub(last) as i64);
                last = e.more[i];
            }
        }
    }
    out
}

fn tag(e: &Event) -> u64 {
    u64::from(e.what) * 8 + u64::from(e.depth.min(3)) * 2 + u64::from(!e.certain)
}

/// The bytes of a node in a page or a file.
#[cfg(test)]
pub(super) fn unpacked(text: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use std::io::Read;
    let packed = STANDARD.decode(text).expect("base64");
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::DeflateDecoder::new(&packed[..]);
    decoder.read_to_end(&mut bytes).expect("deflated bytes");
    bytes
}

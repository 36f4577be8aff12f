//! The text of the metadata, which LTTng writes into packets.

use crate::import::error::ImportError;
use idlewave_ftrace::page::{read_u16, read_u32};
use idlewave_sys::files;
use std::path::Path;

/// Longest metadata. LTTng's descriptions of all events of a kernel have about a megabyte.
const LONGEST: u64 = 64 << 20;
/// Magic number of each packet of metadata.
const MAGIC: u32 = 0x75D1_1D57;
/// Bytes of a packet's head: magic, UUID, checksum, content size, packet size, then one byte each for
/// compression, encryption, checksum scheme, major and minor version.
const HEAD: usize = 37;
/// The start of metadata without packets; the digits after it are also in the block `trace`.
const SIGNATURE: &[u8] = b"/* CTF 1";
/// The start of the metadata of CTF 2: records of JSON.
const SEPARATOR: u8 = 0x1e;

/// Whether metadata may start like this.
pub(crate) fn is_metadata(start: &[u8]) -> bool {
    start.starts_with(SIGNATURE) || is_packet(start).is_some() || is_second(start)
}

/// Whether it is in CTF 2.
fn is_second(start: &[u8]) -> bool {
    let start = start.strip_prefix(&[SEPARATOR]).unwrap_or_default();
    start.trim_ascii_start().starts_with(b"{")
}

/// Whether a packet is of a little-endian machine; `None` if no packet begins here.
fn is_packet(bytes: &[u8]) -> Option<bool> {
    match bytes.first_chunk::<4>() {
        Some(magic) if u32::from_le_bytes(*magic) == MAGIC => Some(true),
        Some(magic) if u32::from_be_bytes(*magic) == MAGIC => Some(false),
        _ => None,
    }
}

/// Reads the metadata of a trace.
pub(crate) fn read(path: &Path) -> Result<String, ImportError> {
    let bytes = files::read(path, LONGEST).map_err(ImportError::io(path))?;
    let format = |reason: &str, next: &str| ImportError::Format {
        path: path.to_owned(),
        reason: reason.to_owned(),
        next: next.to_owned(),
    };
    if is_second(&bytes) {
        return Err(format(
            "it is in CTF 2, and only CTF 1.8 is read",
            "convert the trace with babeltrace2 2.1 or newer: babeltrace2 DIRECTORY \
             --component=sink.ctf.fs --params='path=\"NEW\",ctf-version=\"1\"'",
        ));
    }
    let text = match is_packet(&bytes) {
        None => bytes,
        Some(little) => {
            let content = match little {
                true => unpacked::<true>(&bytes),
                false => unpacked::<false>(&bytes),
            };
            content.map_err(|(offset, reason)| match offset {
                None => format(reason, "record without compression and encryption"),
                Some(offset) => ImportError::Damaged {
                    path: path.to_owned(),
                    offset,
                    reason: reason.to_owned(),
                },
            })?
        }
    };
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What the packets hold; otherwise why they cannot be read, and at which byte if one is damaged.
fn unpacked<const LE: bool>(bytes: &[u8]) -> Result<Vec<u8>, (Option<u64>, &'static str)> {
    let (mut text, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let packet = &bytes[at..];
        let damaged = |reason| Err((Some(at as u64), reason));
        let (Some(head), true) = (packet.get(..HEAD), is_packet(packet) == Some(LE)) else {
            return damaged("no packet of metadata is here");
        };
        // Read compression and encryption as one number: both must be zero.
        if read_u16::<LE>(head, 32) != Some(0) {
            return Err((None, "its metadata is compressed or encrypted"));
        }
        let sizes = (read_u32::<LE>(head, 24), read_u32::<LE>(head, 28));
        let (Some(content), Some(size)) = sizes else {
            return damaged("no packet of metadata is here");
        };
        let (content, size) = (content as usize / 8, size as usize / 8);
        match packet.get(HEAD..content) {
            Some(content_bytes) if content <= size => text.extend_from_slice(content_bytes),
            _ => return damaged("a packet of metadata is not as long as it says"),
        }
        at += size;
    }
    Ok(text)
}

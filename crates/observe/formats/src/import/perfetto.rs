//! Reads the kernel's events in Perfetto's traces.
//!
//! A trace is a sequence of packets of a few kilobytes. Bundles of the tracer's events and lists of
//! threads are decoded one at a time, so memory does not grow with the trace; all other packets are
//! counted and skipped. The events of a CPU come in the order in which they were recorded; those of
//! different CPUs come one bundle after the other. Traces that
//! [`export::perfetto`](crate::export::perfetto) writes can be read too.
//!
//! Source: `protos/perfetto/trace/` in Perfetto's repository.

mod bundle;
mod event;
mod people;
mod record;

pub use record::{Record, Summary, System};

use crate::export::perfetto::trace::packet;
use crate::wire::{Fields, Value, WireError, varint};
use bundle::Bundles;
use flate2::read::ZlibDecoder;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Longest packet in bytes. Perfetto's own have less than a few MiB.
const LONGEST: u64 = 64 << 20;
/// Limit on the bytes that a compressed packet may hold.
const MOST_INFLATED: u64 = 1 << 30;

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfettoError {
    /// The file could not be read.
    #[error("read the trace: {0}")]
    Io(#[from] io::Error),
    /// Something other than a packet.
    #[error("offset {offset}: this is no packet of a Perfetto trace")]
    NoPacket {
        /// Bytes from the start of the file.
        offset: u64,
    },
    /// A packet that is longer than any of Perfetto's.
    #[error("offset {offset}: a packet of {length} bytes; at most {LONGEST} are read")]
    Long {
        /// Bytes from the start of the file.
        offset: u64,
        /// Length that the packet claims.
        length: u64,
    },
    /// A damaged packet.
    #[error("packet at offset {offset}: {reason}")]
    Packet {
        /// Bytes from the start of the file to the packet, or to the compressed packet around it.
        offset: u64,
        /// What does not fit.
        reason: String,
    },
}

/// Reads a trace and calls `visit` with every event of the kernel that idlewave uses, and with what
/// the trace says about threads and machines, until `visit` breaks off.
///
/// # Errors
/// See [`PerfettoError`]. A trace that ends within a packet is no error, see [`Summary::cut`].
pub fn read(
    input: &mut dyn Read,
    visit: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<Summary, PerfettoError> {
    let mut reader = Reader {
        kernel: Bundles::new(visit),
    };
    reader.trace(input, None)?;
    Ok(reader.kernel.summary)
}

struct Reader<'a> {
    kernel: Bundles<'a>,
}

impl Reader<'_> {
    /// Reads packets; `within` is the offset of the compressed packet that holds them.
    fn trace(&mut self, input: &mut dyn Read, within: Option<u64>) -> Result<(), PerfettoError> {
        let mut at = 0;
        let mut bytes = Vec::new();
        while !self.kernel.stopped {
            let offset = within.unwrap_or(at);
            let Some(length) = head(input, offset)? else {
                return Ok(());
            };
            let Head::Whole {
                bytes: head,
                length,
            } = length
            else {
                self.kernel.summary.cut = Some(offset);
                return Ok(());
            };
            if length > LONGEST {
                return Err(PerfettoError::Long { offset, length });
            }
            bytes.clear();
            // Memory grows with what is there, not with what is claimed.
            let there = (&mut *input).take(length).read_to_end(&mut bytes)?;
            if (there as u64) < length {
                self.kernel.summary.cut = Some(offset);
                return Ok(());
            }
            self.packet(&bytes, offset, within.is_some())?;
            at += head + length;
        }
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], offset: u64, inner: bool) -> Result<(), PerfettoError> {
        let damaged = |error: WireError| PerfettoError::Packet {
            offset,
            reason: error.to_string(),
        };
        self.kernel.summary.packets += 1;
        let (mut bundle, mut compressed, mut machine) = (None, None, 0);
        let (mut people, mut system) = (None, None);
        for field in Fields::of(bytes) {
            match field.map_err(damaged)? {
                (packet::FTRACE_EVENTS, Value::Bytes(found)) => bundle = Some(found),
                (packet::COMPRESSED, Value::Bytes(found)) => compressed = Some(found),
                (packet::PROCESS_TREE, Value::Bytes(found)) => people = Some(found),
                (packet::SYSTEM_INFO, Value::Bytes(found)) => system = Some(found),
                (packet::MACHINE_ID, Value::Uint(found)) => machine = found as u32,
                _ => {}
            }
        }
        if people.is_some() || system.is_some() {
            let give = &mut |record| self.kernel.give(record);
            people::read_tree(machine, people.unwrap_or_default(), give).map_err(damaged)?;
            if let Some(system) = system {
                give(people::read_system(machine, system).map_err(damaged)?);
            }
            return Ok(());
        }
        match (bundle, compressed) {
            (Some(bundle), _) => {
                self.kernel.summary.bundles += 1;
                self.kernel.read(machine, bundle).map_err(damaged)
            }
            (None, Some(_)) if inner => Err(PerfettoError::Packet {
                offset,
                reason: "a compressed packet within a compressed one".to_owned(),
            }),
            (None, Some(compressed)) => {
                let mut inflated = ZlibDecoder::new(compressed).take(MOST_INFLATED);
                self.trace(&mut inflated, Some(offset))
                    .map_err(|error| match error {
                        PerfettoError::Io(error) => PerfettoError::Packet {
                            offset,
                            reason: error.to_string(),
                        },
                        other => other,
                    })
            }
            (None, None) => {
                self.kernel.summary.other_packets += 1;
                Ok(())
            }
        }
    }
}

/// What precedes a packet.
enum Head {
    /// Its own length, and that of the packet.
    Whole { bytes: u64, length: u64 },
    /// The input ends within it.
    Cut,
}

/// Reads the key and the length of the next packet; `None` at the end of the input.
fn head(input: &mut dyn Read, offset: u64) -> Result<Option<Head>, PerfettoError> {
    const KEY: u8 = (packet::PACKET << 3 | 2) as u8;
    let mut byte = [0];
    if !next(input, &mut byte)? {
        return Ok(None);
    }
    if byte != [KEY] {
        return Err(PerfettoError::NoPacket { offset });
    }
    let mut length = Vec::with_capacity(10);
    loop {
        if !next(input, &mut byte)? {
            return Ok(Some(Head::Cut));
        }
        length.push(byte[0]);
        match varint(&length) {
            Ok((value, bytes)) => {
                return Ok(Some(Head::Whole {
                    bytes: 1 + bytes as u64,
                    length: value,
                }));
            }
            Err(true) => return Err(PerfettoError::NoPacket { offset }),
            Err(false) => {}
        }
    }
}

/// Reads a byte; false at the end of the input.
fn next(input: &mut dyn Read, byte: &mut [u8; 1]) -> io::Result<bool> {
    loop {
        match input.read(byte) {
            Ok(read) => return Ok(read == 1),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
#[path = "perfetto/tests.rs"]
mod tests;

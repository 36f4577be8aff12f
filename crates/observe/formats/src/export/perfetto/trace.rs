//! The file: a sequence of packets.

use crate::export::out::Output;
use crate::export::{ExportError, Written};
use crate::wire::Encoder;
use idlewave_units::NodeId;
use std::path::Path;

/// Fields of `Trace` and `TracePacket`.
pub(crate) mod packet {
    pub(crate) const PACKET: u32 = 1;
    pub(crate) const FTRACE_EVENTS: u32 = 1;
    pub(crate) const PROCESS_TREE: u32 = 2;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE_ID: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const MACHINE_ID: u32 = 98;
}

/// The file, packet by packet.
pub(super) struct Trace {
    out: Output,
    encoder: Encoder,
    records: u64,
}

impl Trace {
    /// Creates the file.
    pub(super) fn begin(path: &Path) -> Result<Self, ExportError> {
        Ok(Self {
            out: Output::begin(path)?,
            encoder: Encoder::default(),
            records: 0,
        })
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<Written, ExportError> {
        self.out.finish(Some(self.records))
    }

    /// Appends a packet that is one record, written by `inside`.
    pub(super) fn packet(&mut self, inside: impl FnOnce(&mut Encoder)) -> Result<(), ExportError> {
        self.packet_of(1, inside)
    }

    /// Appends a packet of this many records.
    pub(super) fn packet_of(
        &mut self,
        records: u64,
        inside: impl FnOnce(&mut Encoder),
    ) -> Result<(), ExportError> {
        self.records += records;
        self.encoder.clear();
        self.encoder.message(packet::PACKET, inside);
        self.out.write(self.encoder.bytes())
    }
}

/// Names the machine of a packet; node 0 is the machine on which the trace was recorded.
pub(super) fn machine(packet: &mut Encoder, node: NodeId) {
    if node.get() > 0 {
        packet.uint(packet::MACHINE_ID, node.get().into());
    }
}

//! Slices as track events, and the tracks that they are on.

use super::ftrace;
use super::trace::{Trace, machine, packet};
use crate::export::names::Names;
use crate::export::view::{Canvas, Detail, Flow, Lane, Lanes, Slice};
use crate::export::{ExportError, Job, Written};
use crate::wire::Encoder;
use idlewave_run::Ledger;
use idlewave_units::{Cpu, NodeId};

/// The sequence of all track events.
const SEQUENCE: u64 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: the sequence starts here.
const CLEARED: u64 = 1;
/// Fields of `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PARENT_UUID: u32 = 5;
/// Fields of `TrackEvent`.
const TYPE: u32 = 9;
const TRACK_UUID: u32 = 11;
const EVENT_NAME: u32 = 23;
const DEBUG_ANNOTATION: u32 = 4;
/// Since a later version, ids of arrows are 64-bit words, in these fields.
const FLOW_IDS: u32 = 47;
const TERMINATING_FLOW_IDS: u32 = 48;
/// Values of `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// Everything that is written after the names.
pub(super) struct Tracks<'a> {
    job: &'a Job<'a>,
    names: &'a Names,
    trace: Trace,
    lanes: Lanes,
    begun: bool,
    /// Rows written, and roughly how many there are.
    done: u64,
    total: u64,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(job: &'a Job<'a>, names: &'a Names, trace: Trace) -> Self {
        let tables = &job.run.manifest().tables;
        Self {
            job,
            names,
            trace,
            lanes: Lanes::default(),
            begun: false,
            done: 0,
            total: tables.iter().map(|table| table.rows).sum(),
        }
    }

    /// Writes a bundle of events of a CPU.
    pub(super) fn bundle(
        &mut self,
        node: NodeId,
        cpu: Cpu,
        events: &[u8],
        count: u32,
    ) -> Result<(), ExportError> {
        self.progress(1000);
        self.trace.packet_of(count.into(), |packet| {
            machine(packet, node);
            packet.message(packet::FTRACE_EVENTS, |bundle| {
                bundle.uint(ftrace::CPU, cpu.get().into());
                bundle.append(events);
            });
        })
    }

    fn progress(&mut self, rows: u64) {
        let before = self.done / 4096;
        self.done += rows;
        if self.done / 4096 > before {
            let share = self.done as f64 / self.total.max(1) as f64;
            (self.job.progress)(share.min(1.0));
        }
    }

    /// Enters what could not be drawn, and completes the file.
    pub(super) fn finish(self, losses: &mut Ledger) -> Result<Written, ExportError> {
        losses.enter(
            "slices that overlap others",
            self.lanes.overlapping,
            "the viewer may exchange their ends",
            "none needed: rows of the run are out of order",
        );
        self.trace.finish()
    }

    fn describe(&mut self, lane: Lane, slice: &Slice<'_>) -> Result<(), ExportError> {
        let manifest = self.job.run.manifest();
        if lane.new_group {
            let name = slice.track.group().name(manifest, self.names);
            self.trace.packet(|packet| {
                packet.message(packet::TRACK_DESCRIPTOR, |track| {
                    track.uint(UUID, lane.group);
                    track.text(NAME, &name);
                });
            })?;
        }
        if lane.new_lane {
            // The viewer shows lanes with the same name as one track.
            let name = slice.track.name(manifest, self.names);
            self.trace.packet(|packet| {
                packet.message(packet::TRACK_DESCRIPTOR, |track| {
                    track.uint(UUID, lane.lane);
                    track.uint(PARENT_UUID, lane.group);
                    track.text(NAME, &name);
                });
            })?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        time_ns: u64,
        kind: u64,
        lane: u64,
        inside: impl FnOnce(&mut Encoder),
    ) -> Result<(), ExportError> {
        let first = !std::mem::replace(&mut self.begun, true);
        self.trace.packet(|packet| {
            packet.uint(packet::TIMESTAMP, time_ns);
            packet.uint(packet::SEQUENCE_ID, SEQUENCE);
            if first {
                packet.uint(packet::SEQUENCE_FLAGS, CLEARED);
            }
            packet.message(packet::TRACK_EVENT, |event| {
                event.uint(TYPE, kind);
                event.uint(TRACK_UUID, lane);
                inside(event);
            });
        })
    }
}

impl Canvas for Tracks<'_> {
    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError> {
        self.progress(1);
        let lane = self.lanes.place(slice);
        self.describe(lane, slice)?;
        let point = slice.begin_ns == slice.end_ns;
        let kind = if point { INSTANT } else { SLICE_BEGIN };
        self.event(slice.begin_ns, kind, lane.lane, |event| {
            event.text(EVENT_NAME, slice.name);
            for (name, detail) in slice.details {
                annotation(event, name, *detail);
            }
            for flow in slice.flows {
                match *flow {
                    Flow::Begin(id) | Flow::Step(id) => event.fixed64(FLOW_IDS, id),
                    Flow::End(id) => event.fixed64(TERMINATING_FLOW_IDS, id),
                }
            }
        })?;
        match point {
            true => Ok(()),
            false => self.event(slice.end_ns, SLICE_END, lane.lane, |_| ()),
        }
    }
}

fn annotation(event: &mut Encoder, name: &str, detail: Detail<'_>) {
    const UINT_VALUE: u32 = 3;
    const STRING_VALUE: u32 = 6;
    const NAME: u32 = 10;
    event.message(DEBUG_ANNOTATION, |annotation| {
        annotation.text(NAME, name);
        match detail {
            Detail::Number(number) => annotation.uint(UINT_VALUE, number),
            Detail::Text(text) => annotation.text(STRING_VALUE, text),
        }
    });
}

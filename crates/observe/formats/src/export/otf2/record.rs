//! What happened in a location, small enough to sort.

use super::archive::Event;
use crate::export::sorter::Sorted;
use crate::otf2::Message;
use bytemuck::{Pod, Zeroable};

/// Order of records with equal times. Regions without length, and what belongs to them, stand
/// between those that end and those that begin.
pub(super) mod class {
    pub(crate) const KERNEL_LEAVES: u32 = 0;
    pub(crate) const RUNS: u32 = 1;
    pub(crate) const COMPLETES: u32 = 2;
    pub(crate) const LEAVES: u32 = 3;
    pub(crate) const AT_ONCE: u32 = 4;
    pub(crate) const ENTERS: u32 = 5;
    pub(crate) const STARTS: u32 = 6;
    pub(crate) const PREEMPTED: u32 = 7;
    pub(crate) const KERNEL_ENTERS: u32 = 8;
}

/// What a record is.
pub(super) mod kind {
    pub(crate) const ENTER: u32 = 0;
    pub(crate) const LEAVE: u32 = 1;
    pub(crate) const SEND: u32 = 2;
    pub(crate) const ISEND: u32 = 3;
    pub(crate) const ISEND_COMPLETE: u32 = 4;
    pub(crate) const IRECV_REQUEST: u32 = 5;
    pub(crate) const RECV: u32 = 6;
    pub(crate) const IRECV: u32 = 7;
    pub(crate) const COLLECTIVE_BEGIN: u32 = 8;
    pub(crate) const COLLECTIVE_END: u32 = 9;
    pub(crate) const COLLECTIVE_REQUEST: u32 = 10;
    /// The thread gets a CPU.
    pub(crate) const RUNS: u32 = 11;
    /// The thread loses a CPU, although it could go on.
    pub(crate) const PREEMPTED: u32 = 12;
    /// Something else gets that CPU, and gives it up.
    pub(crate) const TAKEN: u32 = 13;
    pub(crate) const GIVEN: u32 = 14;
    /// An interrupt begins, and ends.
    pub(crate) const INTERRUPTED: u32 = 15;
    pub(crate) const RESUMED: u32 = 16;
}

/// The tag of the start of a call.
pub(super) const CALL: u32 = 1;

/// A record.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Record {
    pub time: u64,
    /// Order within a class: regions that begin later end first, and those that end later begin first.
    pub order: u64,
    /// Message: bytes. Collective: bytes sent.
    pub bytes: u64,
    /// Message: number of the request. Collective: bytes received.
    pub request: u64,
    /// Index of the location.
    pub object: u32,
    pub class: u32,
    pub kind: u32,
    /// Region, or other rank or root in the communicator.
    pub what: u32,
    pub comm: u32,
    /// Message: tag. Collective: operation. Kernel: CPU. Start of a region: [`CALL`] or 0.
    pub tag: u32,
}

impl Sorted for Record {
    type Key = (u32, u64, u32, u64);

    fn key(&self) -> Self::Key {
        (self.object, self.time, self.class, self.order)
    }

    fn time(&self) -> u64 {
        self.time
    }
}

impl Record {
    pub(super) fn new(object: u32, time: u64, class: u32, kind: u32) -> Self {
        Self {
            object,
            time,
            class,
            kind,
            ..Self::zeroed()
        }
    }

    /// The two ends of a region.
    pub(super) fn region(object: u32, region: u32, begin: u64, end: u64) -> [Self; 2] {
        let at_once = begin >= end;
        let class = |class| if at_once { class::AT_ONCE } else { class };
        let order = |time: u64| if at_once { 0 } else { u64::MAX - time };
        let enter = Self {
            what: region,
            order: order(end),
            ..Self::new(object, begin, class(class::ENTERS), kind::ENTER)
        };
        let leave = Self {
            what: region,
            order: order(begin),
            ..Self::new(object, begin.max(end), class(class::LEAVES), kind::LEAVE)
        };
        [enter, leave]
    }

    /// The event that the record becomes by itself; `None` if that depends on earlier records.
    pub(super) fn event(&self) -> Option<Event> {
        let message = Message {
            peer: self.what,
            comm: self.comm,
            tag: self.tag,
            bytes: self.bytes,
        };
        Some(match self.kind {
            kind::SEND => Event::Send(message),
            kind::ISEND => Event::Isend(message, self.request),
            kind::ISEND_COMPLETE => Event::IsendComplete(self.request),
            kind::IRECV_REQUEST => Event::IrecvRequest(self.request),
            kind::RECV => Event::Recv(message),
            kind::IRECV => Event::Irecv(message, self.request),
            kind::COLLECTIVE_BEGIN => Event::CollectiveBegin,
            kind::COLLECTIVE_END => Event::CollectiveEnd {
                operation: self.tag as u8,
                comm: self.comm,
                root: self.what,
                sent: self.bytes,
                received: self.request,
            },
            kind::COLLECTIVE_REQUEST => Event::CollectiveRequest(self.request),
            _ => return None,
        })
    }
}

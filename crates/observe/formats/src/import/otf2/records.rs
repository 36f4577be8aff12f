//! Events of a location.
//!
//! A record is a byte with its kind, its length and its fields. Kinds with a single number have no
//! length. A time comes before the first of the records that share it.

use super::anchor::Anchor;
use super::bytes::Bytes;
use super::chunks::{Chunks, Head};
use crate::import::error::ImportError;
use crate::otf2::Message;

/// Kinds of records, by number (OTF2 3.0: OTF2_Buffer.h, otf2_events_int.h).
mod code {
    pub(super) const TIME: u8 = 5;
    pub(super) const ATTRIBUTES: u8 = 6;
    pub(super) const BUFFER_FLUSH: u8 = 10;
    pub(super) const ENTER: u8 = 12;
    pub(super) const LEAVE: u8 = 13;
    pub(super) const SEND: u8 = 14;
    pub(super) const ISEND: u8 = 15;
    pub(super) const ISEND_COMPLETE: u8 = 16;
    pub(super) const IRECV_REQUEST: u8 = 17;
    pub(super) const RECV: u8 = 18;
    pub(super) const IRECV: u8 = 19;
    pub(super) const REQUEST_TEST: u8 = 20;
    pub(super) const REQUEST_CANCELLED: u8 = 21;
    pub(super) const COLLECTIVE_BEGIN: u8 = 22;
    pub(super) const COLLECTIVE_END: u8 = 23;
    /// Records with a single number, other than those above: OMP_FORK and the three of OMP_TASK.
    pub(super) const OF_OPENMP: [u8; 4] = [24, 28, 29, 30];
    pub(super) const METRIC: u8 = 31;
    pub(super) const COLLECTIVE_REQUEST: u8 = 85;
    pub(super) const COLLECTIVE_COMPLETE: u8 = 86;
}

/// The end of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collective {
    pub comm: u32,
    /// A rank of the communicator, or a special value.
    pub root: u32,
    pub sent: u64,
    pub received: u64,
}

/// An event. Numbers of regions and communicators are local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Enter(u32),
    Leave(u32),
    Send(Message),
    Isend(Message, u64),
    IsendComplete(u64),
    IrecvRequest(u64),
    Recv(Message),
    Irecv(Message, u64),
    RequestTest,
    RequestCancelled(u64),
    CollectiveBegin,
    CollectiveEnd(Collective),
    CollectiveRequest,
    CollectiveComplete,
    BufferFlush,
    Metric,
    /// Of another kind.
    Other,
}

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An event at a time of the location's clock, in ticks.
    Event(u64, Event),
    End,
    /// The file ends within a record or a chunk.
    Cut,
}

/// The file of events of a location.
pub(super) struct Records {
    file: Chunks,
    time: u64,
}

impl Records {
    /// Opens the file of a location; `None` if there is none.
    pub(super) fn open(anchor: &Anchor, location: u64) -> Result<Option<Self>, ImportError> {
        let path = anchor.of_location(location, "evt");
        let file = Chunks::open(path, anchor.chunk)?;
        Ok(file.map(|file| Self { file, time: 0 }))
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Next, ImportError> {
        loop {
            let (kind, mut rest) = match self.file.next()? {
                Head::Record(kind, rest) => (kind, rest),
                Head::End => return Ok(Next::End),
                Head::Cut => return Ok(Next::Cut),
            };
            if kind == code::TIME {
                let Some(time) = rest.full_u64() else {
                    return self.file.short().map(|()| Next::Cut);
                };
                let left = rest.len();
                self.file.pass(left);
                self.time = time;
                continue;
            }
            let event = match single(kind) {
                Some(of) => rest.u64().map(|number| Some(of(number))),
                None => rest.record().map(|fields| event(kind, fields)),
            };
            let left = rest.len();
            let Some(event) = event else {
                return self.file.short().map(|()| Next::Cut);
            };
            let wrong = || self.file.damaged("an event does not fit its length");
            let event = event.ok_or_else(wrong)?;
            self.file.pass(left);
            if kind != code::ATTRIBUTES {
                return Ok(Next::Event(self.time, event));
            }
        }
    }
}

/// The event of a record with a single number; `None` for kinds that have a length.
fn single(kind: u8) -> Option<fn(u64) -> Event> {
    Some(match kind {
        code::ENTER => |number| Event::Enter(number as u32),
        code::LEAVE => |number| Event::Leave(number as u32),
        code::ISEND_COMPLETE => Event::IsendComplete,
        code::IRECV_REQUEST => Event::IrecvRequest,
        code::REQUEST_TEST => |_| Event::RequestTest,
        code::REQUEST_CANCELLED => Event::RequestCancelled,
        kind if code::OF_OPENMP.contains(&kind) => |_| Event::Other,
        _ => return None,
    })
}

/// The event of a record with a length.
fn event(kind: u8, mut fields: Bytes<'_>) -> Option<Event> {
    let fields = &mut fields;
    let message = |fields: &mut Bytes<'_>| {
        Some(Message {
            peer: fields.u32()?,
            comm: fields.u32()?,
            tag: fields.u32()?,
            bytes: fields.u64()?,
        })
    };
    Some(match kind {
        code::BUFFER_FLUSH => Event::BufferFlush,
        code::SEND => Event::Send(message(fields)?),
        code::ISEND => Event::Isend(message(fields)?, fields.u64()?),
        code::RECV => Event::Recv(message(fields)?),
        code::IRECV => Event::Irecv(message(fields)?, fields.u64()?),
        code::COLLECTIVE_BEGIN => Event::CollectiveBegin,
        code::COLLECTIVE_END => {
            fields.u8()?;
            Event::CollectiveEnd(Collective {
                comm: fields.u32()?,
                root: fields.u32()?,
                sent: fields.u64()?,
                received: fields.u64()?,
            })
        }
        code::COLLECTIVE_REQUEST => Event::CollectiveRequest,
        code::COLLECTIVE_COMPLETE => Event::CollectiveComplete,
        code::METRIC => Event::Metric,
        _ => Event::Other,
    })
}

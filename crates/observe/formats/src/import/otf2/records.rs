//! Events of a location.
//!
//! The file is a sequence of chunks of one size, each with a header and then records: a byte with
//! the kind, the length, the fields. Kinds with a single number have no length. A time stands
//! before the first of the records that have it.

use super::anchor::Anchor;
use super::bytes::Bytes;
use crate::import::error::ImportError;
use idlewave_sys::files;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Numbers of kinds of records (OTF2 3.0: OTF2_Buffer.h and otf2_events_int.h).
mod code {
    pub(super) const END_OF_CHUNK: u8 = 0;
    pub(super) const END_OF_FILE: u8 = 2;
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
    /// Records with a single number, besides those above: OMP_FORK and the three of OMP_TASK.
    pub(super) const OF_OPENMP: [u8; 4] = [24, 28, 29, 30];
    pub(super) const METRIC: u8 = 31;
    pub(super) const COLLECTIVE_REQUEST: u8 = 85;
    pub(super) const COLLECTIVE_COMPLETE: u8 = 86;
}

/// Bytes of the header of a chunk: mark, byte order, numbers of the first and the last event.
const HEADER: usize = 18;

/// One end of a message: a rank in the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub peer: u32,
    pub comm: u32,
    pub tag: u32,
    pub bytes: u64,
}

/// The end of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Collective {
    pub comm: u32,
    /// In the communicator, or a special value.
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
    CollectiveRequest(u64),
    CollectiveComplete(u64),
    BufferFlush,
    Metric,
    /// Of another kind.
    Other(u8),
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
    path: PathBuf,
    file: File,
    /// Bytes of a chunk.
    size: usize,
    chunk: Vec<u8>,
    /// Where the chunk begins in the file, and what of it is read.
    begin: u64,
    at: usize,
    big: bool,
    time: u64,
}

impl Records {
    /// Opens the file of a location; `None` if there is none.
    pub(super) fn open(anchor: &Anchor, location: u64) -> Result<Option<Self>, ImportError> {
        let path = anchor.of_location(location, "evt");
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ImportError::io(&path)(error)),
        };
        Ok(Some(Self {
            path,
            file,
            size: anchor.chunk as usize,
            chunk: Vec::new(),
            begin: 0,
            at: 0,
            big: false,
            time: 0,
        }))
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Next, ImportError> {
        if self.chunk.is_empty() && !self.next_chunk()? {
            return Ok(Next::Cut);
        }
        loop {
            let start = self.at;
            let mut bytes = Bytes::new(&self.chunk[start..], self.big);
            let Some(kind) = bytes.u8() else {
                return self.short(start);
            };
            match kind {
                code::END_OF_CHUNK => {
                    if !self.next_chunk()? {
                        return Ok(Next::Cut);
                    }
                    continue;
                }
                code::END_OF_FILE => return Ok(Next::End),
                // End of buffer, header of a chunk, and a kind that OTF2 does not use.
                1 | 3 | 4 => return Err(self.damaged(start, "no record begins like this")),
                code::TIME => {
                    let Some(time) = bytes.full_u64() else {
                        return self.short(start);
                    };
                    self.time = time;
                    self.at = self.chunk.len() - bytes.len();
                    continue;
                }
                _ => {}
            }
            let event = match single(kind) {
                Some(of) => bytes.u64().map(|number| Some(of(number))),
                None => bytes.record().map(|fields| event(kind, fields)),
            };
            let Some(event) = event else {
                return self.short(start);
            };
            let event =
                event.ok_or_else(|| self.damaged(start, "an event does not fit its length"))?;
            self.at = self.chunk.len() - bytes.len();
            if kind != code::ATTRIBUTES {
                return Ok(Next::Event(self.time, event));
            }
        }
    }

    /// Reads a chunk; false if the file ends before its first record.
    fn next_chunk(&mut self) -> Result<bool, ImportError> {
        self.begin += self.chunk.len() as u64;
        self.chunk.clear();
        let mut part = (&mut self.file).take(self.size as u64);
        let read = part.read_to_end(&mut self.chunk);
        read.map_err(ImportError::io(&self.path))?;
        if self.chunk.len() < HEADER {
            return Ok(false);
        }
        match Bytes::of_file(&self.chunk) {
            Some(bytes) => self.big = bytes.is_big(),
            None => return Err(self.damaged(0, "no chunk begins here")),
        }
        self.at = HEADER;
        Ok(true)
    }

    /// A record goes beyond its chunk: the file is cut there, unless the chunk is whole.
    fn short(&self, start: usize) -> Result<Next, ImportError> {
        match self.chunk.len() < self.size {
            true => Ok(Next::Cut),
            false => Err(self.damaged(start, "a record goes beyond its chunk")),
        }
    }

    fn damaged(&self, at: usize, reason: &str) -> ImportError {
        ImportError::Damaged {
            path: self.path.clone(),
            offset: self.begin + at as u64,
            reason: reason.to_owned(),
        }
    }
}

/// What a record of a single number is; `None` if it has a length.
fn single(kind: u8) -> Option<fn(u64) -> Event> {
    Some(match kind {
        code::ENTER => |number| Event::Enter(number as u32),
        code::LEAVE => |number| Event::Leave(number as u32),
        code::ISEND_COMPLETE => Event::IsendComplete,
        code::IRECV_REQUEST => Event::IrecvRequest,
        code::REQUEST_TEST => |_| Event::RequestTest,
        code::REQUEST_CANCELLED => Event::RequestCancelled,
        kind if code::OF_OPENMP.contains(&kind) => |_| Event::Other(code::OF_OPENMP[0]),
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
        code::COLLECTIVE_REQUEST => Event::CollectiveRequest(fields.u64()?),
        code::COLLECTIVE_COMPLETE => {
            // Operation, communicator, root, bytes sent and received.
            fields.u8()?;
            let _ = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
            Event::CollectiveComplete(fields.u64()?)
        }
        code::METRIC => Event::Metric,
        other => Event::Other(other),
    })
}

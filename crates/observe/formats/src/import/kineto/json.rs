//! Reads a trace as events, one at a time.
//!
//! Memory holds one event; an event longer than [`LONGEST`] is an error.

use crate::import::error::ImportError;
use crate::import::kineto::GZIP;
use crate::import::kineto::event::Event;
use crate::import::kineto::head::{Distributed, Head};
use crate::import::kineto::value::{Any, Fields, Place};
use flate2::read::MultiGzDecoder;
use idlewave_sys::files;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess};
use std::cell::Cell;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Limit on the length of an event, and of each other field, in bytes.
const LONGEST: u64 = 64 << 20;

/// How much has been read.
struct Meter {
    /// Bytes of the file.
    read: Cell<u64>,
    /// Bytes of the text since the last event.
    since: Cell<u64>,
}

/// A file whose bytes are counted.
struct Counted<'a, R> {
    inner: R,
    count: &'a Cell<u64>,
    /// More than this is an error.
    most: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(bytes)?;
        self.count.set(self.count.get() + length as u64);
        if self.count.get() > self.most {
            return Err(io::Error::other("an event of it is longer than 64 MiB"));
        }
        Ok(length)
    }
}

/// Reads a file and hands each event to `take`, with the share of the file read so far.
///
/// # Errors
/// The file cannot be read or is not JSON of the form that Kineto writes; `take` fails.
pub(super) fn read(
    path: &Path,
    take: &mut dyn FnMut(&Event, f64) -> Result<(), ImportError>,
) -> Result<Head, ImportError> {
    let mut file = files::open(path).map_err(ImportError::io(path))?;
    let length = file.metadata().map_err(ImportError::io(path))?.len();
    let mut magic = [0; 2];
    let is_packed = file.read_exact(&mut magic).is_ok() && magic == GZIP;
    file.seek(SeekFrom::Start(0))
        .map_err(ImportError::io(path))?;
    let meter = Meter {
        read: Cell::new(0),
        since: Cell::new(0),
    };
    let file = Counted {
        inner: file,
        count: &meter.read,
        most: u64::MAX,
    };
    let bytes: Box<dyn Read + '_> = match is_packed {
        true => Box::new(MultiGzDecoder::new(BufReader::new(file))),
        false => Box::new(file),
    };
    let text = Counted {
        inner: bytes,
        count: &meter.since,
        most: LONGEST,
    };
    let mut head = Head::default();
    let mut sink = Sink {
        event: Event::default(),
        failed: None,
        take,
        meter: &meter,
        length: length.max(1),
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, text));
    let mut top = Top {
        head: &mut head,
        sink: &mut sink,
    };
    let read = Any(&mut top)
        .deserialize(&mut json)
        .and_then(|()| json.end());
    match sink.failed.take() {
        Some(failed) => Err(failed),
        None => ended(path, read, head),
    }
}

/// The result of a file that was read up to its end or to an error.
fn ended(
    path: &Path,
    read: Result<(), serde_json::Error>,
    mut head: Head,
) -> Result<Head, ImportError> {
    let Err(error) = read else { return Ok(head) };
    // A packed file that is cut short fails while it is unpacked.
    let is_cut = error.is_eof() || error.io_error_kind() == Some(io::ErrorKind::UnexpectedEof);
    if is_cut {
        head.cut = true;
        return Ok(head);
    }
    if !error.is_io() {
        return Err(ImportError::Line {
            path: path.to_owned(),
            line: error.line() as u64,
            reason: reason(&error),
        });
    }
    let source = io::Error::from(error);
    if source.raw_os_error().is_some() {
        return Err(ImportError::io(path)(source));
    }
    Err(ImportError::Format {
        path: path.to_owned(),
        reason: source.to_string(),
        next: "copy the file again from where it was recorded".to_owned(),
    })
}

/// The message of an error without its position, which [`ImportError`] has.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = text.rfind(" at line ").unwrap_or(text.len());
    format!(
        "it is not the JSON of PyTorch's profiler: {}",
        &text[..place]
    )
}

/// Where events go.
struct Sink<'a> {
    event: Event,
    failed: Option<ImportError>,
    take: &'a mut dyn FnMut(&Event, f64) -> Result<(), ImportError>,
    meter: &'a Meter,
    length: u64,
}

/// The whole file.
struct Top<'t, 'a> {
    head: &'t mut Head,
    sink: &'t mut Sink<'a>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum TopField {
    #[serde(rename = "traceEvents")]
    Events,
    #[serde(rename = "distributedInfo")]
    Distributed,
    #[serde(rename = "host_name")]
    Host,
    #[serde(rename = "baseTimeNanoseconds")]
    Base,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Top<'_, '_> {
    type Field = TopField;
    fn take<M: MapAccess<'de>>(&mut self, field: TopField, map: &mut M) -> Result<(), M::Error> {
        let head = &mut *self.head;
        match field {
            TopField::Events => map.next_value_seed(Any(Events(self.sink)))?,
            TopField::Distributed => {
                map.next_value_seed(Any(head.distributed.insert(Distributed::default())))?;
            }
            TopField::Host => map.next_value_seed(Any(&mut head.host))?,
            TopField::Base => map.next_value_seed(Any(&mut head.base_ns))?,
            TopField::Other => _ = map.next_value::<IgnoredAny>()?,
        }
        self.sink.meter.since.set(0);
        Ok(())
    }
}

/// The list of events.
struct Events<'t, 'a>(&'t mut Sink<'a>);

impl<'de> Place<'de> for Events<'_, '_> {
    fn list<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        let sink = self.0;
        loop {
            sink.event.clear();
            if list.next_element_seed(Any(&mut sink.event))?.is_none() {
                return Ok(());
            }
            sink.meter.since.set(0);
            let share = sink.meter.read.get() as f64 / sink.length as f64;
            if let Err(error) = (sink.take)(&sink.event, share.min(1.0)) {
                sink.failed = Some(error);
                return Err(S::Error::custom("stopped"));
            }
        }
    }
}

//! The bytes of a trace as events, one at a time.
//!
//! Memory holds one event; an event longer than [`LONGEST`] ends the reading.

use crate::import::error::ImportError;
use crate::import::kineto::GZIP;
use crate::import::kineto::event::{Args, Event};
use crate::import::kineto::value::{Key, Loose};
use flate2::read::MultiGzDecoder;
use idlewave_sys::files;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The longest event, and the longest of the other fields, in bytes.
const LONGEST: u64 = 64 << 20;

/// What a file says besides its events.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The field `distributedInfo`.
    pub distributed: Option<Value>,
    pub host: Option<String>,
    /// What the times count from, in nanoseconds of the epoch.
    pub base_ns: Option<u64>,
    /// Whether the file was cut short.
    pub cut: bool,
}

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
            return Err(io::Error::other("an event is longer than 64 MiB"));
        }
        Ok(length)
    }
}

/// Reads a file and hands each event to `take`, with the share of the file that is read.
///
/// # Errors
/// The file cannot be read or is no JSON of the form that Kineto writes; `take` fails.
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
        events: 0,
        failed: None,
        take,
        meter: &meter,
        length: length.max(1),
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, text));
    let top = Top {
        head: &mut head,
        sink: &mut sink,
    };
    let read = top.deserialize(&mut json).and_then(|()| json.end());
    let (events, failed) = (sink.events, sink.failed.take());
    match failed {
        Some(failed) => Err(failed),
        None => ended(path, read, events, head),
    }
}

/// What came of a file that was read, after so many events, up to its end or an error.
fn ended(
    path: &Path,
    read: Result<(), serde_json::Error>,
    events: u64,
    mut head: Head,
) -> Result<Head, ImportError> {
    match read {
        Ok(()) => Ok(head),
        Err(error) if error.is_eof() && events > 0 => {
            head.cut = true;
            Ok(head)
        }
        Err(error)
            if error.is_io() && error.io_error_kind() != Some(io::ErrorKind::UnexpectedEof) =>
        {
            Err(ImportError::io(path)(error.into()))
        }
        // A packed file that is cut short.
        Err(error) if error.is_io() && events > 0 => {
            head.cut = true;
            Ok(head)
        }
        Err(error) => Err(ImportError::Line {
            path: path.to_owned(),
            line: error.line() as u64,
            reason: reason(&error),
        }),
    }
}

/// The message of an error without its place, which [`ImportError`] has.
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
    events: u64,
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

#[derive(Clone, Copy)]
enum TopField {
    Events,
    Distributed,
    Host,
    Base,
}

const TOP: &[(&str, TopField)] = &[
    ("traceEvents", TopField::Events),
    ("distributedInfo", TopField::Distributed),
    ("host_name", TopField::Host),
    ("baseTimeNanoseconds", TopField::Base),
];

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the list traceEvents")
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key_seed(Key(TOP))? {
            match key {
                Some(TopField::Events) => map.next_value_seed(Events(self.sink))?,
                Some(TopField::Distributed) => self.head.distributed = Some(map.next_value()?),
                Some(TopField::Host) => {
                    self.head.host = map.next_value::<Value>()?.as_str().map(str::to_owned);
                }
                Some(TopField::Base) => {
                    let base = map.next_value::<Value>()?.as_u64();
                    // As in a time: no sum of both overflows.
                    self.head.base_ns = base.filter(|base| *base <= u64::MAX / 2);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            self.sink.meter.since.set(0);
        }
        Ok(())
    }
}

/// The list of events.
struct Events<'t, 'a>(&'t mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for Events<'_, '_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }
    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        let sink = self.0;
        loop {
            sink.event.clear();
            if list.next_element_seed(OneEvent(&mut sink.event))?.is_none() {
                return Ok(());
            }
            sink.events += 1;
            sink.meter.since.set(0);
            let share = sink.meter.read.get() as f64 / sink.length as f64;
            if let Err(error) = (sink.take)(&sink.event, share.min(1.0)) {
                sink.failed = Some(error);
                return Err(S::Error::custom("stopped"));
            }
        }
    }
}

/// An event.
struct OneEvent<'e>(&'e mut Event);

#[derive(Clone, Copy)]
enum EventField {
    Phase,
    Category,
    Name,
    Pid,
    Tid,
    Ts,
    Dur,
    Args,
}

const EVENT: &[(&str, EventField)] = &[
    ("ph", EventField::Phase),
    ("cat", EventField::Category),
    ("name", EventField::Name),
    ("pid", EventField::Pid),
    ("tid", EventField::Tid),
    ("ts", EventField::Ts),
    ("dur", EventField::Dur),
    ("args", EventField::Args),
];

impl<'de> DeserializeSeed<'de> for OneEvent<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneEvent<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let event = self.0;
        while let Some(key) = map.next_key_seed(Key(EVENT))? {
            match key {
                Some(EventField::Phase) => map.next_value_seed(Loose::text(&mut event.phase))?,
                Some(EventField::Category) => {
                    map.next_value_seed(Loose::text(&mut event.category))?;
                }
                Some(EventField::Name) => map.next_value_seed(Loose::text(&mut event.name))?,
                Some(EventField::Pid) => map.next_value_seed(Loose::number(&mut event.pid))?,
                Some(EventField::Tid) => map.next_value_seed(Loose::number(&mut event.tid))?,
                Some(EventField::Ts) => map.next_value_seed(Loose::number(&mut event.ts))?,
                Some(EventField::Dur) => map.next_value_seed(Loose::number(&mut event.dur))?,
                Some(EventField::Args) => map.next_value_seed(AllArgs(&mut event.args))?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The arguments of an event.
struct AllArgs<'e>(&'e mut Args);

#[derive(Clone, Copy)]
enum ArgField {
    Name,
    Collective,
    Dtype,
    Group,
    Members,
    ElementsIn,
    ElementsOut,
    Inputs,
}

const ARGS: &[(&str, ArgField)] = &[
    ("name", ArgField::Name),
    ("Collective name", ArgField::Collective),
    ("dtype", ArgField::Dtype),
    ("Process Group Name", ArgField::Group),
    ("Process Group Ranks", ArgField::Members),
    ("In msg nelems", ArgField::ElementsIn),
    ("Out msg nelems", ArgField::ElementsOut),
    ("Concrete Inputs", ArgField::Inputs),
];

impl<'de> DeserializeSeed<'de> for AllArgs<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AllArgs<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of an event")
    }
    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let args = self.0;
        while let Some(key) = map.next_key_seed(Key(ARGS))? {
            let into = match key {
                Some(ArgField::Name) => Loose::text(&mut args.name),
                Some(ArgField::Collective) => Loose::text(&mut args.collective),
                Some(ArgField::Dtype) => Loose::text(&mut args.dtype),
                Some(ArgField::Group) => Loose::text(&mut args.group),
                Some(ArgField::Members) => Loose {
                    text: Some(&mut args.members_text),
                    numbers: Some(&mut args.members),
                    ..Loose::default()
                },
                Some(ArgField::ElementsIn) => Loose::number(&mut args.elements_in),
                Some(ArgField::ElementsOut) => Loose::number(&mut args.elements_out),
                Some(ArgField::Inputs) => Loose {
                    inputs: Some(&mut args.inputs),
                    ..Loose::default()
                },
                None => Loose::default(),
            };
            map.next_value_seed(into)?;
        }
        Ok(())
    }
}

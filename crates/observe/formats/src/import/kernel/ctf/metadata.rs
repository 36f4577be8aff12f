//! Trace, clocks, streams and events that the metadata declares.

use super::declare::Declarer;
use super::text;
use super::types::{Order, Type};
use super::words::{Fault, Word};
use crate::import::error::ImportError;
use std::collections::BTreeMap;
use std::path::Path;

/// Limit on the classes of streams: LTTng has one for each channel.
const MOST_STREAMS: usize = 1 << 10;

/// A clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) name: String,
    /// Counts per second.
    pub(crate) rate: u64,
}

/// A class of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamClass {
    pub(crate) packet_context: Option<Type>,
    pub(crate) event_header: Option<Type>,
    pub(crate) event_context: Option<Type>,
}

/// A class of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventClass {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) context: Option<Type>,
    pub(crate) fields: Option<Type>,
}

/// All that the metadata says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Whether numbers are big-endian unless they say otherwise.
    pub(crate) big: bool,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) packet_header: Option<Type>,
    /// Facts about the machine and the tracer.
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) streams: BTreeMap<u64, StreamClass>,
    /// Events by the class of streams that they are in.
    pub(crate) events: BTreeMap<u64, Vec<EventClass>>,
}

/// An entry of a block.
enum Entry {
    Value(Value),
    Type(Type),
}

/// The value of an attribute.
enum Value {
    Number(i128),
    Text(String),
}

impl Value {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl Metadata {
    /// Reads the metadata in this directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, ImportError> {
        let path = directory.join("metadata");
        let text = text::read(&path)?;
        Self::parse(&text).map_err(|fault| ImportError::Line {
            path,
            line: fault.line,
            reason: fault.reason,
        })
    }

    /// Reads the text of metadata.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let mut declarer = Declarer::of(text)?;
        let mut all = Self::default();
        let mut trace = false;
        while *declarer.words.peek() != Word::End {
            if declarer.declaration()? {
                continue;
            }
            let word = match *declarer.words.peek() {
                Word::Name(word) => word,
                _ => "",
            };
            match word {
                "trace" => {
                    all.trace(&mut declarer)?;
                    trace = true;
                }
                "env" => all.env(&mut declarer)?,
                "clock" => all.clock(&mut declarer)?,
                "stream" => all.stream(&mut declarer)?,
                "event" => all.event(&mut declarer)?,
                "callsite" => block(&mut declarer, |_, _, _| Ok(()))?,
                _ => {
                    let next = declarer.words.peek().to_string();
                    return declarer
                        .words
                        .fault(format!("no declaration begins with {next}"));
                }
            }
            // Blocks end with `;`, which some writers leave out.
            declarer.words.sign(";")?;
        }
        match trace {
            true => Ok(all),
            false => declarer.words.fault("there is no block `trace`"),
        }
    }

    /// A fact by the first of these names that is present.
    pub(crate) fn fact(&self, names: &[&str]) -> Option<&str> {
        let mut facts = names.iter().filter_map(|name| self.facts.get(*name));
        facts.next().map(String::as_str)
    }

    /// Whether perf converted the trace from a perf.data.
    pub(crate) fn is_of_perf(&self) -> bool {
        self.clocks.iter().any(|clock| clock.name == "perf_clock")
    }

    fn trace(&mut self, declarer: &mut Declarer<'_>) -> Result<(), Fault> {
        let mut order = None;
        block(declarer, |declarer, key, entry| {
            match (key, entry) {
                ("packet.header", Entry::Type(of)) => self.packet_header = Some(of),
                ("byte_order", Entry::Value(value)) => {
                    order = match value.text().as_str() {
                        "le" => Some(Order::Little),
                        "be" | "network" => Some(Order::Big),
                        _ => None,
                    };
                }
                ("uuid", Entry::Value(Value::Text(text))) => self.uuid = uuid(&text),
                ("major", Entry::Value(Value::Number(1)))
                | ("minor", Entry::Value(Value::Number(8))) => {}
                ("major" | "minor", _) => return declarer.words.fault("only CTF 1.8 is read"),
                _ => {}
            }
            Ok(())
        })?;
        match order {
            Some(order) => self.big = order == Order::Big,
            None => return declarer.words.fault("the trace has no byte order"),
        }
        Ok(())
    }

    fn env(&mut self, declarer: &mut Declarer<'_>) -> Result<(), Fault> {
        block(declarer, |_, key, entry| {
            if let Entry::Value(value) = entry {
                self.facts.insert(key.to_owned(), value.text());
            }
            Ok(())
        })
    }

    fn clock(&mut self, declarer: &mut Declarer<'_>) -> Result<(), Fault> {
        let mut clock = Clock {
            name: String::new(),
            rate: 1_000_000_000,
        };
        block(declarer, |declarer, key, entry| {
            match (key, entry) {
                ("name", Entry::Value(value)) => clock.name = value.text(),
                ("freq", Entry::Value(Value::Number(rate))) => {
                    match u64::try_from(rate) {
                        Ok(rate) if rate > 0 => clock.rate = rate,
                        _ => {
                            return declarer
                                .words
                                .fault("the frequency of a clock is not positive");
                        }
                    };
                }
                _ => {}
            }
            Ok(())
        })?;
        self.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, declarer: &mut Declarer<'_>) -> Result<(), Fault> {
        let (mut id, mut stream) = (0, StreamClass::default());
        block(declarer, |declarer, key, entry| {
            match (key, entry) {
                ("id", Entry::Value(value)) => id = number(declarer, value)?,
                ("packet.context", Entry::Type(of)) => stream.packet_context = Some(of),
                ("event.header", Entry::Type(of)) => stream.event_header = Some(of),
                ("event.context", Entry::Type(of)) => stream.event_context = Some(of),
                _ => {}
            }
            Ok(())
        })?;
        if self.streams.len() >= MOST_STREAMS {
            return declarer
                .words
                .fault("it declares too many classes of streams");
        }
        self.streams.insert(id, stream);
        Ok(())
    }

    fn event(&mut self, declarer: &mut Declarer<'_>) -> Result<(), Fault> {
        let (mut stream, mut event) = (0, EventClass::default());
        block(declarer, |declarer, key, entry| {
            match (key, entry) {
                ("name", Entry::Value(value)) => event.name = value.text(),
                ("id", Entry::Value(value)) => event.id = number(declarer, value)?,
                ("stream_id", Entry::Value(value)) => stream = number(declarer, value)?,
                ("context", Entry::Type(of)) => event.context = Some(of),
                ("fields", Entry::Type(of)) => event.fields = Some(of),
                _ => {}
            }
            Ok(())
        })?;
        self.events.entry(stream).or_default().push(event);
        Ok(())
    }
}

fn number(declarer: &Declarer<'_>, value: Value) -> Result<u64, Fault> {
    let number = match value {
        Value::Number(number) => u64::try_from(number).ok(),
        Value::Text(_) => None,
    };
    match number {
        Some(number) => Ok(number),
        None => declarer.words.fault("a number from 0 up should stand here"),
    }
}

/// A word, then `{KEY = VALUE; KEY := TYPE; ..}`. A key may have dots.
fn block(
    declarer: &mut Declarer<'_>,
    mut take: impl FnMut(&Declarer<'_>, &str, Entry) -> Result<(), Fault>,
) -> Result<(), Fault> {
    declarer.words.any_name()?;
    declarer.words.expect("{")?;
    declarer.open();
    declarer.count()?;
    while !declarer.words.sign("}")? {
        if declarer.declaration()? {
            continue;
        }
        let key = match declarer.words.peek() {
            // barectf and others write keys of `env` as texts.
            Word::Text(_) => vec![text_of(declarer.words.take()?)],
            _ => declarer.path()?,
        };
        let entry = match declarer.words.sign(":=")? {
            true => Entry::Type(declarer.any_type()?),
            false => {
                declarer.words.expect("=")?;
                Entry::Value(value(declarer)?)
            }
        };
        declarer.count()?;
        take(declarer, &key.join("."), entry)?;
        declarer.words.expect(";")?;
    }
    declarer.close();
    Ok(())
}

fn text_of(word: Word<'_>) -> String {
    match word {
        Word::Text(text) => text,
        _ => String::new(),
    }
}

fn value(declarer: &mut Declarer<'_>) -> Result<Value, Fault> {
    match declarer.words.peek() {
        Word::Text(_) => Ok(Value::Text(text_of(declarer.words.take()?))),
        Word::Name(_) => Ok(Value::Text(declarer.path()?.join("."))),
        _ => Ok(Value::Number(declarer.words.number()?)),
    }
}

/// 32 digits with hyphens between some.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let bytes: Vec<u8> = digits?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |b, d| b << 4 | d))
        .collect();
    bytes.try_into().ok()
}

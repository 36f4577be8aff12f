//! A tree of values from YAML, with lines. Aliases are rejected, since they can expand to more text
//! than fits into memory.

use crate::read::ReadError;
use idlewave_units::foreign::one_line;
use saphyr_parser::{Event, Parser};

/// Deepest supported nesting; the format has six levels.
const DEEPEST: usize = 32;

/// A value and its line.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) line: usize,
    pub(super) kind: Kind,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text(String),
    List(Vec<Value>),
    /// Keys with their lines, in the order of the text.
    Map(Vec<(usize, String, Value)>),
}

fn structure(why: String) -> ReadError {
    let format = "the YAML text";
    ReadError::Structure { format, why }
}

/// The only document; `None` if it is empty.
pub(super) fn parse(text: &str) -> Result<Option<Value>, ReadError> {
    let mut whole = None;
    // Open values, with the key that waits for its value.
    let mut open: Vec<(Value, Option<(usize, String)>)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| {
            let why = format!("{} in line {}", one_line(e.info()), e.marker().line());
            structure(why)
        })?;
        let line = span.start.line();
        let done = match event {
            Event::Scalar(text, ..) => {
                let kind = Kind::Text(text.into_owned());
                Some(Value { line, kind })
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() == DEEPEST {
                    return Err(structure(format!("line {line} is nested too deeply")));
                }
                let kind = match event {
                    Event::SequenceStart(..) => Kind::List(Vec::new()),
                    _ => Kind::Map(Vec::new()),
                };
                open.push((Value { line, kind }, None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|(value, _)| value),
            Event::Alias(_) => {
                return Err(structure(format!(
                    "line {line} has an alias, which is not supported"
                )));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => None,
        };
        let Some(value) = done else { continue };
        let Some((parent, key)) = open.last_mut() else {
            if whole.is_some() {
                let line = value.line;
                return Err(structure(format!(
                    "a second document starts in line {line}"
                )));
            }
            whole = Some(value);
            continue;
        };
        match (&mut parent.kind, key.take(), value) {
            (Kind::List(list), _, value) => list.push(value),
            (Kind::Map(map), Some((line, name)), value) => map.push((line, name, value)),
            (_, _, Value { line, kind }) => match kind {
                Kind::Text(name) => *key = Some((line, name)),
                _ => return Err(structure(format!("a key in line {line} is not text"))),
            },
        }
    }
    Ok(whole)
}

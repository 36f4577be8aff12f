//! Slices, and what draws them.

use super::track::Track;
use crate::export::ExportError;

/// The value of a detail of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail<'a> {
    Number(u64),
    Text(&'a str),
}

/// One end of an arrow. Arrows lead from slice to slice, in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// An arrow of this number begins here.
    Begin(u64),
    /// The arrow ends here, and the next one of this number begins.
    Step(u64),
    /// The arrow ends here.
    End(u64),
}

/// A stretch of time on a track; a point if it ends where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    pub(crate) track: Track,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) name: &'a str,
    pub(crate) details: &'a [(&'a str, Detail<'a>)],
    pub(crate) flows: &'a [Flow],
}

impl<'a> Slice<'a> {
    /// A slice without details and arrows.
    pub(crate) fn new(track: Track, begin_ns: u64, end_ns: u64, name: &'a str) -> Self {
        Self {
            track,
            begin_ns,
            end_ns: end_ns.max(begin_ns),
            name,
            details: &[],
            flows: &[],
        }
    }

    pub(crate) fn details(self, details: &'a [(&'a str, Detail<'a>)]) -> Self {
        Self { details, ..self }
    }

    pub(crate) fn flows(self, flows: &'a [Flow]) -> Self {
        Self { flows, ..self }
    }
}

/// Where slices are drawn.
pub(crate) trait Canvas {
    /// Draws a slice.
    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError>;
}

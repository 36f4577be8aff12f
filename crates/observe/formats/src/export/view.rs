//! What viewers of events show besides the kernel's own view: slices on tracks, tracks in groups, and
//! arrows between slices.
//!
//! [`walk`] turns the tables of a run into slices, one batch of a table at a time; a format is a
//! [`Canvas`] that draws them.

mod lanes;
mod slice;
mod track;
mod walk;

pub(crate) use lanes::{Lane, Lanes};
pub(crate) use slice::{Canvas, Detail, Flow, Slice};
pub(crate) use track::Track;
pub(crate) use walk::{region, walk};

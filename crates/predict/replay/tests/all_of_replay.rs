//! All tests of this crate as one program, which builds faster than many.

#![allow(clippy::unwrap_used)]

mod like;
#[path = "../../../analyse/explain/tests/made/mod.rs"]
mod made;
mod pattern;
mod rings;
mod schedule;

//! Tests of this crate as one binary, which builds faster than many.

#![allow(clippy::unwrap_used)]

mod coverage;
mod intervals;
mod vectors;

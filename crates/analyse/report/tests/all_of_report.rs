//! All tests of this crate as one program, which builds faster than many.

#![allow(clippy::unwrap_used)]

mod compare;
mod documented;
mod jitter;
mod nodes;
mod page;
mod placement;
mod program;
mod rate_law;
mod simulation;
mod summary;
mod views;
mod ways;

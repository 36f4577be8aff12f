//! Tests of this crate as one program, which is built faster than many.

#![allow(clippy::unwrap_used)]

mod agent;
mod controller;
mod matrix;
mod policy;
mod search;
mod state_golden;
mod state_oracle;

//! Tests of this crate as one program, which is built faster than many.

#![allow(clippy::unwrap_used)]

mod join;
mod linear;
mod read;
mod routes;
mod write;

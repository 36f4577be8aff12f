//! Tests of this crate as one program, which is built faster than many.

#![allow(clippy::unwrap_used)]

mod compare;
mod cpus_alone;
mod elsewhere;
mod idle_waves;
mod imbalance;
mod jitter;
mod made;
mod noise_of_phases;
mod not_explained;
mod path;
mod planted;
mod rank_times;
mod recorded;
mod recorded_properties;
mod trace;
mod uncoupled;
mod views;
mod views_mpi;

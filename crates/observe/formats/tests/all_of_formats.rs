//! All tests of this crate as one program, which builds faster than many.

#![allow(clippy::unwrap_used)]

mod aix;
mod chrome;
mod common;
mod ctf;
mod ctf_refused;
mod ctf_threads;
mod ctf_trace;
mod ctf_types;
mod interrupted;
mod join;
mod kernel;
mod kineto;
mod kineto_damage;
mod kineto_rules;
mod kineto_trace;
mod otf2;
mod otf2_damaged;
mod otf2_export;
mod otf2_file;
mod otf2_print;
mod otf2_rare;
mod otf2_regions;
mod otf2_taken;
mod paraver;
mod perf_data;
mod perf_file;
mod perf_records;
mod perfetto;
mod perfetto_import;
mod small_run;
mod steps;
mod story;
mod tables;
mod trace_dat;

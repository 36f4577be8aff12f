//! Tests of this crate as one binary, which builds faster than many.

#![allow(clippy::unwrap_used)]

mod bulk;
mod bundle;
mod bundle_charges;
mod closed_forms;
mod coverage;
mod draws;
mod goal_formats;
mod goal_properties;
mod goal_rules;
mod lockstep;
mod made;
mod predict;
mod program_meaning;
mod program_patterns;
mod program_properties;
mod program_text;
mod question;

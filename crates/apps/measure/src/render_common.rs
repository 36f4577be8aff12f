//! What these texts have in common.

use idlewave_run::findings::Estimate;
use idlewave_units::show::{percent, time};
use std::fmt::Write as _;

/// An estimate in nanoseconds, with half of its interval as a share.
pub fn with_interval(e: &Estimate) -> String {
    let share = match e.value {
        0.0 => 0.0,
        value => (e.high - e.low) / 2.0 / value,
    };
    format!("{} +-{}", time(e.value), percent(share))
}

/// The value, or a dash if it was not measured.
pub fn or_dash(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// A paragraph of at most 80 columns, with blanks or a mark before its first line and the rest.
pub fn paragraph(out: &mut String, first: &str, rest: &str, text: &str) -> std::fmt::Result {
    let options = textwrap::Options::new(80)
        .initial_indent(first)
        .subsequent_indent(rest);
    writeln!(out, "{}", textwrap::fill(text, options))
}

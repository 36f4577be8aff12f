//! The outcome as text of 80 columns.

use super::plan::ON_AND_OFF;
use super::{SmtOutcome, SmtState};
use crate::load::busy_nodes;
use crate::render_common::or_dash;
use crate::render_common::paragraph;
use idlewave_explain::{way_change, way_sentence};
use idlewave_units::counted;
use idlewave_units::foreign::column;
use idlewave_units::show::{count, efficiency, time};
use std::fmt::{Result, Write};

/// The text up to the comparisons, ending with a line feed.
pub fn render_smt(found: &SmtOutcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, found);
    out
}

fn write_text(out: &mut String, found: &SmtOutcome) -> Result {
    let cores = counted(found.layout.cores.len(), "core");
    let node = column(&found.node, 50);
    writeln!(out, "one rank per core, {cores} of {node}")?;
    for busy in busy_nodes(&found.machine) {
        paragraph(out, "! ", "  ", &busy)?;
    }
    let left_out = &found.layout.left_out;
    if !left_out.is_empty() {
        let text = format!("left out: CPU {left_out}, without a sibling that may be used");
        paragraph(out, "", "  ", &text)?;
    }
    let (work, rounds) = (time(found.work.as_f64()), counted(found.rounds, "round"));
    writeln!(
        out,
        "computation {work}; the siblings were idle, free and busy in turn, {rounds}\n"
    )?;
    writeln!(
        out,
        "{:<8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>10} {:>16}",
        "siblings", "steps", "mean", "sigma", "slowest", "z", "efficiency", "95 %"
    )?;
    for state in &found.states {
        row(out, state)?;
    }
    writeln!(out)?;
    if let Some((first, others)) = found.ways.as_ref().and_then(|w| w.ways.split_first()) {
        for way in others {
            let Some(said) = way_sentence(first, way) else {
                continue;
            };
            let range = way_change(way);
            paragraph(out, "", "  ", &format!("{said} By rounds, 95 %: {range}."))?;
        }
        writeln!(out)?;
    }
    let text = "idle: a rank has one hardware thread, and idlewave leaves the others of its core \
                alone. free: a rank may run on all of them. busy: idlewave computes on the others.";
    paragraph(out, "", "", text)?;
    paragraph(out, "", "", &format!("SMT off: {ON_AND_OFF}."))?;
    match found.interrupted {
        true => writeln!(out, "\nInterrupted: these are the results until then."),
        false => Ok(()),
    }
}

fn row(out: &mut String, state: &SmtState) -> Result {
    let name = state.siblings.name();
    let Some(found) = &state.jitter else {
        return writeln!(out, "{name:<8} too few steps");
    };
    let core = found.core.as_ref();
    let share = &found.efficiency;
    let low = efficiency(share.low);
    let range = format!("{}..{}", low.trim_end_matches(" %"), efficiency(share.high));
    writeln!(
        out,
        "{name:<8} {:>9} {:>7} {:>7} {:>7} {:>7} {:>10} {:>16}",
        count(found.steps),
        or_dash(core.map(|core| core.mean.value), time),
        or_dash(core.map(|core| core.deviation.value), time),
        time(found.slowest.duration.as_f64()),
        or_dash(found.slowest.z, deviations),
        efficiency(share.value),
        range,
    )
}

/// A distance in deviations.
fn deviations(z: f64) -> String {
    match z < 1_000.0 {
        true => format!("{z:.1}"),
        false => format!("{z:.0}"),
    }
}

//! The terminal summary: what was found and what to do next, on one screen.
//!
//! Sections come in order of importance. Each is short enough that all of them fit 80 columns and
//! about 45 lines. What was not measured is a dash, never a zero.

mod benchmarks;
mod cpus;
mod jitter;
pub(crate) mod machine;
mod nodes;
mod outcome;
mod program;
mod simulated;
mod ways;

use crate::facts;
use crate::screen::{Screen, Style};
use crate::story;
pub(crate) use benchmarks::{scaling_kind, sentence as benchmark_sentence};
use idlewave_run::Manifest;
use idlewave_run::findings::Findings;
pub use jitter::render_jitter;
pub(crate) use jitter::{not_extrapolated, sentences as jitter_sentences, with_interval};
pub(crate) use machine::mode_name;
pub use program::render_calls;

/// Renders the summary of a run: ASCII, no line wider than `width` columns (at least 20), with the
/// SGR colours of ECMA-48 only if `color`.
pub fn render_text(manifest: &Manifest, findings: &Findings, width: usize, color: bool) -> String {
    let mut screen = Screen::new(width, color);
    match &manifest.simulated {
        Some(simulated) => simulated::head(&mut screen, manifest, simulated),
        None => machine::host(&mut screen, manifest),
    }
    if let Some(early) = facts::early_end(manifest) {
        screen.wrap(Style::Alarm, "! ", &early);
    }
    if manifest.simulated.is_none() {
        machine::contamination(&mut screen, manifest, findings);
    }
    // What a recording or a measurement of CPUs never contains is not shown as missing.
    let of_cpus = manifest.is_of_cpus();
    let recorded = story::recorded(manifest).is_some();
    let measured = manifest.simulated.is_none();
    let benchmarks = manifest.is_of_benchmarks();
    program::headline(&mut screen, manifest, findings);
    if of_cpus {
        if let Some(sweep) = &findings.load_sweep {
            cpus::load_sweep(&mut screen, sweep);
        }
        if let Some(found) = &findings.nodes {
            nodes::nodes(&mut screen, found);
        } else {
            cpus::starts(&mut screen, &findings.cpus);
            cpus::measured(&mut screen, &findings.cpus);
        }
        cpus::conditions(&mut screen, findings);
    } else {
        benchmarks::benchmarks(&mut screen, manifest, findings);
        let study = !recorded && !benchmarks;
        if (study && measured) || !findings.cpus.is_empty() {
            machine::noise(&mut screen, &findings.cpus);
        }
        if study || !findings.lockstep.is_empty() {
            outcome::lockstep(&mut screen, findings);
        }
    }
    if let Some(found) = &findings.program {
        program::ranks(&mut screen, manifest, found);
        program::path(&mut screen, manifest, findings, found);
        program::waits(&mut screen, found);
        program::longest(&mut screen, manifest, findings, found);
    }
    outcome::sources(&mut screen, manifest, findings);
    if let Some(found) = &findings.program {
        program::waves(&mut screen, manifest, findings, found);
        program::operations(&mut screen, found);
        program::messages(&mut screen, found);
        program::marks(&mut screen, found);
    }
    jitter::jitter(&mut screen, findings);
    if (!recorded && !of_cpus && !benchmarks && measured) || findings.prediction.is_some() {
        outcome::prediction(&mut screen, findings);
    }
    if measured {
        outcome::advice(&mut screen, manifest, findings);
        machine::missing(&mut screen, findings);
    }
    machine::losses(&mut screen, manifest, findings);
    if measured {
        machine::cost(&mut screen, manifest, findings);
    }
    screen.into_text()
}

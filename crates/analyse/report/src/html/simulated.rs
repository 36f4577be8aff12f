//! The program and the noise of a simulated run. It has no machine to show.

use super::machine::ledger;
use super::markup::{escape, section as in_section};
use crate::facts::size;
use crate::number::plain;
use idlewave_run::findings::Findings;
use idlewave_run::{Manifest, Simulated};
use idlewave_units::named;
use idlewave_units::show::count;

/// Shown at the top of the page, before anything else.
pub(super) fn banner(simulated: &Simulated) -> String {
    format!(
        "<p class=\"alarm\" id=\"simulated\"><strong>SIMULATED:</strong> nothing on this page was measured on any machine. A model of a \
         program ran {} {} under a model of noise ({}).</p>\n",
        count(simulated.steps),
        named(simulated.steps, "step"),
        escape(&plain(&simulated.engine)),
    )
}

/// Program, noise model and seed: all that is needed to repeat the run.
pub(super) fn section(manifest: &Manifest, findings: &Findings, simulated: &Simulated) -> String {
    let list = |items: &[String]| -> String {
        let items: String = items
            .iter()
            .map(|line| format!("<li>{}</li>\n", escape(&plain(line))))
            .collect();
        format!("<ul class=\"entries\">\n{items}</ul>\n")
    };
    let mut body = format!(
        "<p>{}, each rank with a CPU of its own; {} {} of</p>\n{}",
        size(manifest),
        count(simulated.steps),
        named(simulated.steps, "step"),
        list(&simulated.program),
    );
    body.push_str(&format!(
        "<p>Seed {}, replication {}.</p>\n",
        manifest.seed, simulated.replication
    ));
    if !simulated.without.is_empty() {
        body.push_str("<p>Left out of the noise model:</p>\n");
        body.push_str(&list(&simulated.without));
    }
    if !simulated.delays.is_empty() {
        let delays: Vec<String> = simulated
            .delays
            .iter()
            .take(MOST_DELAYS)
            .map(|d| format!("rank {} in step {} for {}", d.rank, d.step, d.length))
            .collect();
        body.push_str("<p>Delays that happen once:</p>\n");
        body.push_str(&list(&delays));
        let more = simulated.delays.len().saturating_sub(MOST_DELAYS);
        if more > 0 {
            body.push_str(&format!(
                "<p class=\"note\">and {} more</p>\n",
                count(more as u64)
            ));
        }
    }
    body.push_str(&format!(
        "<details><summary>The noise model</summary><pre><code>{}</code></pre></details>\n",
        escape_lines(&simulated.noise_model)
    ));
    body.push_str(&ledger(manifest, findings));
    in_section("simulation", "What was simulated", &body)
}

/// Most delays listed.
const MOST_DELAYS: usize = 20;

/// Like [`escape`], but keeps line breaks.
fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape).collect();
    lines.join("\n")
}

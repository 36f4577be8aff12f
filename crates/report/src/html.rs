//! The report page: one file that opens from anywhere and asks nothing of any network.
//!
//! Everything that is text is written here, so that the page can be read and printed without its
//! script; the script sorts tables and draws. Its data are the findings themselves, in readable JSON,
//! and what is drawn from tables (timeline windows, map of the slowest rank), deflated.

mod machine;
mod markup;
mod noise;
mod scale;
mod slowest;
mod sources;
mod steps;
mod verdict;
mod windows;

use crate::ReportError;
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::DeflateEncoder};
use idlewave_run::RunReader;
use idlewave_run::findings::Findings;
use serde::Serialize;
use std::io::Write;

/// What the page may load: nothing that is not in it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const STYLE: [&str; 2] = [
    include_str!("../assets/vendor/uPlot.min.css"),
    include_str!("../assets/page.css"),
];
const SCRIPT: [&str; 7] = [
    include_str!("../assets/vendor/uPlot.iife.min.js"),
    include_str!("../assets/page.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/slowest.js"),
    include_str!("../assets/histogram.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/start.js"),
];

/// What the script draws and the findings do not hold.
#[derive(Serialize)]
struct Drawn {
    timeline: windows::Windows,
    slowest: Vec<slowest::Slowest>,
}

/// Renders the page of a run. The same run and findings give the same bytes.
///
/// Tables are read batch by batch; the size of the page is bounded by the number of late steps that
/// the findings list (at most 100) and of CPUs, not by the length of the run.
pub fn render_html(run: &RunReader, findings: &Findings) -> Result<String, ReportError> {
    let drawn = Drawn {
        timeline: windows::collect(run, findings)?,
        slowest: slowest::collect(run, findings)?,
    };
    let encode = |e: &dyn std::fmt::Display| ReportError::Encode(e.to_string());
    let data = deflated(&drawn).map_err(|e| encode(&e))?;
    let exact = markup::json(findings).map_err(|e| encode(&e))?;
    let manifest = run.manifest();
    let mut body = verdict::header(manifest);
    body.push_str("<main>\n");
    body.push_str(&verdict::verdict(manifest, findings));
    body.push_str(&verdict::advice(findings));
    body.push_str(&sources::section(findings));
    body.push_str(&steps::section(findings));
    body.push_str(&scale::section(findings));
    body.push_str(&noise::section(findings));
    body.push_str(&steps::slowest(&drawn.slowest, findings));
    body.push_str(&machine::contamination(findings));
    body.push_str(&machine::hosts(manifest));
    body.push_str(&machine::recording(manifest, findings));
    body.push_str("</main>\n");
    body.push_str(&machine::footer(manifest, findings));
    let title = manifest
        .nodes
        .first()
        .map_or("a run", |n| n.host.name.as_str());
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>idlewave: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"findings\">{exact}</script>\n\
         <script type=\"text/plain\" id=\"drawn\">{data}</script>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        markup::escape(title),
        STYLE.join("\n"),
        SCRIPT.join("\n"),
    ))
}

/// JSON, raw deflate (RFC 1951), base64.
fn deflated(value: &impl Serialize) -> std::io::Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut encoder, value)?;
    encoder.flush()?;
    Ok(STANDARD.encode(encoder.finish()?))
}

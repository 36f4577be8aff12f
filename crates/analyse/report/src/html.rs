//! The report page: one file that opens anywhere and needs no network.
//!
//! All text is written here, so that the page can be read and printed without its script; the
//! script sorts tables and draws. Its data are the findings themselves, in readable JSON, and,
//! deflated, what it draws from tables (timeline windows, map of the slowest rank).

mod benchmarks;
mod calibration;
mod explorer;
mod gang;
mod jitter;
mod lanes;
mod load_box;
mod loads;
mod loads_grid;
mod machine;
mod markup;
mod matrix;
mod nodes;
mod noise;
mod opening;
mod path;
mod pieces;
mod placement;
mod placement_chart;
mod ranks;
mod rate_law;
mod scale;
mod sheet;
mod simulated;
mod simulation;
mod slowest;
mod sources;
mod spacetime;
mod steps;
mod stories;
mod study;
mod verdict;
mod waits;
mod ways;
mod windows;
mod windows_of_waits;

pub use calibration::calibration_page;
pub use explorer::PutFile;
pub use gang::gang_page;
pub use placement::placement_page;
pub use simulation::simulation_page;
pub use study::study_page;

use crate::{ReportError, story};
use flate2::Compression;
use idlewave_run::RunReader;
use idlewave_run::findings::Findings;
use idlewave_run::tables::LateSteps;
pub(crate) use markup::escape;
use serde::Serialize;

/// The page may load nothing outside itself.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'";
/// Added to the policy of a page with files beside it.
const BESIDE: &str = "'self' file:";

const STYLE: [&str; 2] = [
    include_str!("../assets/vendor/uPlot.min.css"),
    include_str!("../assets/page.css"),
];
const SCRIPT: [&str; 17] = [
    include_str!("../assets/vendor/uPlot.iife.min.js"),
    include_str!("../assets/page.js"),
    include_str!("../assets/pane.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/tree.js"),
    include_str!("../assets/explorer.js"),
    include_str!("../assets/explorer_find.js"),
    include_str!("../assets/lanes.js"),
    include_str!("../assets/waves.js"),
    include_str!("../assets/matrix.js"),
    include_str!("../assets/nodes.js"),
    include_str!("../assets/slowest.js"),
    include_str!("../assets/spacetime.js"),
    include_str!("../assets/histogram.js"),
    include_str!("../assets/lines.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/start.js"),
];

/// Data that the script draws but the findings do not hold.
#[derive(Serialize)]
struct Drawn {
    timeline: windows::Windows,
    slowest: Vec<slowest::Slowest>,
    spacetime: Vec<spacetime::Map>,
    lanes: Option<lanes::Lanes>,
    explorer: Option<explorer::Explorer>,
}

/// Renders the page of a run as one file. The same run and findings give the same bytes. The page
/// of a large run lacks the individual events: see [`render_page`].
///
/// # Errors
/// As [`render_page`].
pub fn render_html(run: &RunReader, findings: &Findings) -> Result<String, ReportError> {
    render_page(run, findings, None, None)
}

/// Renders the page of a run. If the run is large, its events go into `files` beside the page, and
/// the page loads those that it shows. `unwritten`: the late steps, if the run has no table of
/// them.
///
/// Tables are read batch by batch. The number of late steps in the findings (at most 100) and the
/// number of CPUs bound the size of the page; the length of the run does not.
///
/// # Errors
/// A table cannot be read, or a file cannot be written.
pub fn render_page(
    run: &RunReader,
    findings: &Findings,
    unwritten: Option<&LateSteps>,
    files: Option<PutFile<'_>>,
) -> Result<String, ReportError> {
    let drawn = Drawn {
        timeline: windows::collect(run, findings)?,
        slowest: slowest::collect(run, findings)?,
        spacetime: spacetime::collect(run, findings)?,
        lanes: lanes::lanes(run, findings)?,
        explorer: explorer::explore(run, findings, unwritten, files)?,
    };
    let encode = |e: &dyn std::fmt::Display| ReportError::Encode(e.to_string());
    let data = serde_json::to_vec(&drawn).map_err(|e| encode(&e))?;
    let data = markup::deflated(&data, Compression::best()).map_err(|e| encode(&e))?;
    let exact = markup::json(findings).map_err(|e| encode(&e))?;
    let manifest = run.manifest();
    let sections = sections(run, findings, &drawn);
    let links: Vec<(&str, &str)> = sections
        .iter()
        .filter(|s| !s.name.is_empty())
        .map(|s| (s.id, s.name))
        .collect();
    let mut body = verdict::header(manifest, &links);
    body.push_str("<main>\n");
    body.extend(sections.into_iter().map(|s| s.html));
    body.push_str("</main>\n");
    body.push_str(&machine::footer(manifest, findings));
    let title = match &manifest.simulated {
        Some(_) => "a simulated run",
        None => manifest
            .nodes
            .first()
            .map_or("a run", |n| n.host.name.as_str()),
    };
    let has_files = drawn.explorer.as_ref().is_some_and(|e| e.has_files());
    let policy = match has_files {
        true => format!("{POLICY} {BESIDE}"),
        false => POLICY.to_owned(),
    };
    Ok(document_under(
        &policy, title, &body, &exact, &data, &SCRIPT,
    ))
}

/// Assembles a page: one file that loads nothing. `exact` is JSON, `data` what the script unpacks.
fn document(title: &str, body: &str, exact: &str, data: &str, script: &[&str]) -> String {
    document_under(POLICY, title, body, exact, data, script)
}

/// The same with another policy for what the page may load.
fn document_under(
    policy: &str,
    title: &str,
    body: &str,
    exact: &str,
    data: &str,
    script: &[&str],
) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>idlewave: {}</title>\n<style>\n{}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"findings\">{exact}</script>\n\
         <script type=\"text/plain\" id=\"drawn\">{data}</script>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        markup::escape(title),
        STYLE.join("\n"),
        script.join("\n"),
    )
}

/// A section of the page, with its name in the links at the top; no link if the name is empty.
struct Section {
    id: &'static str,
    name: &'static str,
    html: String,
}

/// The sections for this kind of run, in order.
fn sections(run: &RunReader, findings: &Findings, drawn: &Drawn) -> Vec<Section> {
    let manifest = run.manifest();
    let mut all = Vec::new();
    let mut add = |id, name, html| all.push(Section { id, name, html });
    // What a recording or a measurement of CPUs never contains is not shown as missing.
    let recorded = story::recorded(manifest).is_some();
    let benchmarks = manifest.is_of_benchmarks();
    let study = !(recorded || benchmarks || manifest.is_of_cpus()) || !findings.lockstep.is_empty();
    if !findings.lockstep.is_empty() || findings.program.is_some() {
        add("noise-is", "", opening::opening());
    }
    add("verdict", "Verdict", verdict::verdict(manifest, findings));
    if let Some(found) = &findings.ways {
        add("ways", ways::name(found), ways::section(found));
    }
    if benchmarks {
        let html = benchmarks::section(manifest, findings);
        add("benchmarks", "Benchmarks", html);
    }
    if let Some(found) = &findings.nodes {
        add("nodes", "Nodes", nodes::section(found));
    }
    let simulated = manifest.simulated.as_ref();
    let whole = drawn.explorer.as_ref();
    if simulated.is_none() {
        add("advice", "What to do", verdict::advice(findings));
    }
    if let Some(program) = &findings.program {
        add("ranks", "Ranks", ranks::time(manifest, program));
        let html = waits::section(manifest, findings, program, drawn.lanes.is_some(), whole);
        add("waits", "Waits", html);
        add(
            "path",
            "Run time",
            path::section(manifest, findings, program),
        );
    }
    add(
        "sources",
        "Sources",
        sources::section(manifest, findings, whole),
    );
    if study {
        let html = steps::section(findings, drawn.timeline.windows(), whole);
        add("late", "Late steps", html);
    }
    if let Some(whole) = whole {
        add("explorer", "Whole run", explorer::section(whole));
    }
    if !drawn.spacetime.is_empty() {
        let html = spacetime::section(&drawn.spacetime, findings);
        add("spacetime", "Space and time", html);
    }
    if let Some(program) = &findings.program {
        add(
            "waves",
            "Idle waves",
            waits::waves(manifest, findings, program),
        );
        let heading = ranks::operations_heading(program);
        add("operations", heading, ranks::operations(program));
        add(
            "communication",
            "Communication",
            matrix::section(manifest, program),
        );
        add("marks", "Regions", ranks::marks(program));
    }
    if !findings.jitter.is_empty() {
        add("jitter", "Jitter", jitter::section(findings));
    }
    if (study && simulated.is_none()) || findings.prediction.is_some() {
        add("scale", "At scale", scale::section(findings));
    }
    if (study && simulated.is_none()) || !findings.cpus.is_empty() {
        add("noise", "Noise", noise::section(findings));
    }
    if study {
        let html = steps::slowest(&drawn.slowest, findings);
        add("slowest", "Slowest rank", html);
    }
    if let Some(simulated) = simulated {
        let html = simulated::section(manifest, findings, simulated);
        add("simulation", "Simulation", html);
        return all;
    }
    add("contamination", "", machine::contamination(findings));
    add("machine", "Machine", machine::hosts(manifest));
    add(
        "recording",
        "Recording",
        machine::recording(manifest, findings),
    );
    all
}

//! What `idlewave place load` prints: the busiest links.

use super::super::format::wrap;
use idlewave_load::{Ends, LoadEntry, LoadFile, Origin};
use idlewave_topology::Topology;
use idlewave_units::BytesPerSecond;
use idlewave_units::counted;
use idlewave_units::show::{percent, seconds};
use std::fmt::Write;
use std::path::Path;

/// The most links that are shown; the file has all.
const MOST_LINKS: usize = 8;

/// A rate that may be 0.
pub fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        r if r < 1.0 => "0 B/s".to_owned(),
        r => BytesPerSecond::scaled_text(r),
    }
}

/// When and over what time the load was measured, if known.
pub fn taken(file: &LoadFile) -> String {
    let over = file.seconds.map(|s| format!(" over {}", seconds(s)));
    let at = file.taken.map(|at| format!(", taken at {}", at.text()));
    over.unwrap_or_default() + &at.unwrap_or_default()
}

pub fn render(file: &LoadFile, topology: &Topology, output: &Path) -> String {
    let mut out = String::new();
    let links = counted(file.loads.len() as u32, "link");
    wrap(&mut out, "", &format!("LOAD of {links}{}", taken(file)));
    let mut busiest: Vec<&LoadEntry> = file.loads.iter().filter(|l| l.rate >= 1.0).collect();
    busiest.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    for load in busiest.iter().take(MOST_LINKS) {
        wrap(&mut out, "  ", &line(load, topology));
    }
    let rest = busiest.len().saturating_sub(MOST_LINKS);
    let idle = file.loads.len() - busiest.len();
    if rest + idle > 0 {
        let _ = writeln!(out, "  {rest} others with less, {idle} idle");
    }
    if !file.jobs.is_empty() {
        let jobs = counted(file.jobs.len() as u32, "running job");
        let _ = writeln!(out, "  {jobs}");
    }
    if !file.warnings.is_empty() {
        out.push_str("\nWARNINGS\n");
        for warning in &file.warnings {
            wrap(&mut out, "  ", warning);
        }
    }
    let _ = writeln!(out, "\nloads: {}", output.display());
    let _ = writeln!(
        out,
        "next step: idlewave place --load {} ...",
        output.display()
    );
    out
}

fn line(load: &LoadEntry, topology: &Topology) -> String {
    let where_ = match &load.ends {
        Ends::Pair(from, to) => format!("{from} to {to}"),
        Ends::Out(node) => format!("out of {node}"),
        Ends::Into(node) => format!("into {node}"),
    };
    let range = load.range.filter(|(_, high)| high.is_finite());
    let range = range.map(|(low, high)| format!(" ({} to {})", rate(low), rate(high)));
    let capacity = match &load.ends {
        Ends::Pair(from, to) => {
            let ends = topology.vertex(from).zip(topology.vertex(to));
            let link = ends.and_then(|(a, b)| topology.link_between(a, b));
            link.and_then(|link| topology.link(link)?.capacity)
        }
        _ => None,
    };
    let share = capacity.map(|c| format!(", {} of {c}", percent(load.rate / c.get())));
    let origin = match load.origin {
        Origin::Estimated => ", estimated",
        Origin::Counters | Origin::Stated => "",
    };
    format!(
        "{where_}: {}{}{}{origin}",
        rate(load.rate),
        range.unwrap_or_default(),
        share.unwrap_or_default()
    )
}

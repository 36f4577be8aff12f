//! The table of sources, ranked, with bars.

use super::explorer::Explorer;
use super::markup::{absent, barred, caption, cell, escape, number, section as in_section, table};
use crate::{facts, story};
use idlewave_run::findings::{Findings, SourceFinding};
use idlewave_run::{Manifest, SourceKind};
use idlewave_units::Nanos;
use idlewave_units::show::{self, count, percent};

/// A table with more rows scrolls on its own.
const LONG: usize = 24;

/// The sources that cost time.
pub(super) fn section(
    manifest: &Manifest,
    findings: &Findings,
    explorer: Option<&Explorer>,
) -> String {
    let recorded = story::recorded(manifest).is_some();
    if findings.sources.is_empty() {
        let why = match recorded {
            false => "No source was found: no lockstep run was recorded, or nothing disturbed it.",
            true => {
                "No source was found: nothing disturbed the program, or the kernel's view was not recorded (see \
                 Recording below for the command that would allow it)."
            }
        };
        return in_section("sources", "Who costs time", &absent(why));
    }
    let taking = story::nobody_waits(manifest, findings);
    let weight = |s: &SourceFinding| if taking { s.stolen } else { s.lost };
    let most = findings
        .sources
        .iter()
        .map(|s| weight(s).get())
        .max()
        .unwrap_or(0);
    let rows: String = findings
        .sources
        .iter()
        .enumerate()
        .map(|(i, s)| row(i, s, most, taking, link(findings, i, explorer)))
        .collect();
    let (lost, late, lateness) = match recorded {
        false => (
            "Lateness charged to it, times the ranks that waited",
            ("Late steps", "Late steps to which it contributed most"),
            ("Lateness", "Part of the late steps' lateness charged to it"),
        ),
        true => (
            "What ranks waited because of it, and what it took from those it struck",
            (
                "Delays",
                "Delays that ranks waited for, and to which it contributed most",
            ),
            (
                "Delayed",
                "The ranks it struck, as far as others waited for them",
            ),
        ),
    };
    let stolen = ("Stolen", "Time it took from the CPUs of ranks");
    let mut header = vec![("Source", "Task, interrupt, softirq or class of delay")];
    if taking {
        header.push(("Stolen", "Time it took from the threads that are watched"));
    } else {
        header.extend([("Lost by all ranks", lost), late, lateness, stolen]);
        header.push(("Amplification", "Time lost by all ranks over time stolen"));
        header.push(("Absorbed", "Part of what it stole that delayed no step"));
    }
    header.extend([
        ("Events", "Times it struck"),
        ("Length", "Length of one event"),
        ("Period", "Distance of regular events"),
        (
            "CPUs",
            "Where it struck, and whether several CPUs at the same time",
        ),
    ]);
    let text = if taking {
        "Longest bar first: what kept the watched threads from running though they could. A dash means that it \
         was not measured or does not apply. Click a heading to sort by it."
    } else {
        "Longest bar first: what the program as a whole lost to each source. Look for a large amplification: little \
         time stolen, much lost. A dash means that it was not measured or does not apply. Click a heading to sort by it."
    };
    let class = if findings.sources.len() > LONG {
        "sortable tall"
    } else {
        "sortable"
    };
    let body = caption(text) + &table(class, &header, &rows) + LEGEND;
    let title = if taking {
        "Who takes time"
    } else {
        "Who costs time"
    };
    in_section("sources", title, &body)
}

const LEGEND: &str = "<p class=\"legend\"><span><i class=\"swatch g-task\"></i>programs</span>\
     <span><i class=\"swatch g-interrupt\"></i>interrupts</span>\
     <span><i class=\"swatch g-scheduling\"></i>scheduling and memory</span>\
     <span><i class=\"swatch g-hardware\"></i>speed and hypervisor</span>\
     <span><i class=\"swatch g-program\"></i>the program itself</span>\
     <span><i class=\"swatch g-own\"></i>the recording itself</span>\
     <span><i class=\"swatch g-unnamed\"></i>not explained</span></p>\n";

/// Colour group of a class.
pub(super) const fn group(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Task | SourceKind::KernelThread | SourceKind::OtherTask | SourceKind::Rank => {
            "g-task"
        }
        SourceKind::Irq
        | SourceKind::Softirq
        | SourceKind::TimerTick
        | SourceKind::Ipi
        | SourceKind::Nmi => "g-interrupt",
        SourceKind::RunQueueWait
        | SourceKind::Migration
        | SourceKind::PageFault
        | SourceKind::Blocked
        | SourceKind::Throttled => "g-scheduling",
        SourceKind::Imbalance | SourceKind::Network | SourceKind::SharedMemory => "g-program",
        SourceKind::SlowLevel | SourceKind::Hypervisor => "g-hardware",
        SourceKind::Recorder | SourceKind::Tracing => "g-own",
        SourceKind::Unexplained => "g-unnamed",
    }
}

/// A link to the longest stretch of a source in the listed late steps.
fn link(findings: &Findings, source: usize, explorer: Option<&Explorer>) -> String {
    let charged = findings.latest.iter().flat_map(|l| &l.charged);
    let own = charged.filter(|c| c.source as usize == source);
    let longest = own.max_by_key(|c| {
        (
            c.end_ns.saturating_sub(c.begin_ns),
            std::cmp::Reverse(c.begin_ns),
        )
    });
    let (Some(c), Some(explorer)) = (longest, explorer) else {
        return String::new();
    };
    let name = &findings.sources[source].name;
    format!(
        " <a class=\"go\" href=\"{}\" aria-label=\"Show the longest of {} in the whole run\">show</a>",
        explorer.strike(c.begin_ns, c.end_ns, name),
        escape(name)
    )
}

fn row(i: usize, s: &SourceFinding, most: u64, taking: bool, link: String) -> String {
    let path = |field: &str| format!("sources.{i}.{field}");
    let dash = || cell(-1, "&ndash;");
    let detail = s
        .detail
        .as_ref()
        .map(|d| format!("<small>{}</small>", escape(d)))
        .unwrap_or_default();
    let kind = if s.name == s.kind.label() {
        ""
    } else {
        s.kind.label()
    };
    let mut out = format!(
        "<tr><th scope=\"row\" data-key=\"{key}\"><span class=\"name\">{name}</span> <em>{kind}</em>{link}{detail}</th>",
        key = escape(&s.name.to_lowercase()),
        name = escape(&s.name),
    );
    let time = |field: &str, t: Nanos| number(&path(field), t.get(), &t.to_string());
    let bar = |field: &str, t: Nanos| {
        let part = t.as_f64() / most.max(1) as f64;
        cell(t.get(), &barred(group(s.kind), part, &time(field, t)))
    };
    // A class without events steals nothing that could be counted.
    let stolen = s.events.map(|_| s.stolen);
    if taking {
        out.push_str(&stolen.map_or_else(dash, |t| bar("stolen", t)));
    } else {
        out.push_str(&bar("lost", s.lost));
        let late = number(&path("late_steps"), s.late_steps, &count(s.late_steps));
        out.push_str(&cell(s.late_steps, &late));
        out.push_str(&cell(s.lateness.get(), &time("lateness", s.lateness)));
        out.push_str(&stolen.map_or_else(dash, |t| cell(t.get(), &time("stolen", t))));
        let shown = |a: f64| number(&path("amplification"), a, &show::factor(a));
        out.push_str(&s.amplification.map_or_else(dash, |a| cell(a, &shown(a))));
        let shown = |a: f64| number(&path("absorbed"), a, &percent(a));
        out.push_str(&s.absorbed.map_or_else(dash, |a| cell(a, &shown(a))));
    }
    out.push_str(
        &s.events
            .map_or_else(dash, |e| cell(e, &number(&path("events"), e, &count(e)))),
    );
    out.push_str(&s.length.as_ref().map_or_else(dash, |l| {
        cell(
            l.value,
            &number(&path("length.value"), l.value, &show::time(l.value)),
        )
    }));
    out.push_str(&s.period.as_ref().map_or_else(dash, |p| {
        let value = p.period.value;
        cell(
            value,
            &number(&path("period.period.value"), value, &show::time(value)),
        )
    }));
    let cpus = if s.cpus.is_empty() {
        "&ndash;".to_owned()
    } else {
        s.cpus.to_string()
    };
    let related = s.relation.as_ref().map(|found| {
        let (label, said) = facts::relation(found);
        format!(
            "<small title=\"{}\">{}</small>",
            escape(&said),
            escape(&label)
        )
    });
    out.push_str(&cell(s.cpus.len(), &(cpus + &related.unwrap_or_default())));
    out + "</tr>\n"
}

//! The machine, how busy others kept it, how it was observed, and what is missing.

use super::markup::{absent, barred, caption, cell, escape, number, section, table};
use crate::story;
use crate::text::mode_name;
use idlewave_explain::views::all_losses;
use idlewave_run::findings::Findings;
use idlewave_run::{ClockSheet, Manifest, NodeSheet, TraceMode};
use idlewave_units::foreign::shell_line;
use idlewave_units::show::{self, count, percent};
use idlewave_units::{CpuSet, Nanos, counted, named};
use std::fmt::Display;

/// How much of the machine others used.
pub(super) fn contamination(findings: &Findings) -> String {
    let seen = &findings.contamination;
    let share = |field: &str, value: Option<f64>| match value {
        None => "not measured".to_owned(),
        Some(v) => number(&format!("contamination.{field}"), v, &percent(v)),
    };
    let throttled = match seen.throttled {
        None => "not measured".to_owned(),
        Some(n) => format!(
            "{} {}",
            number("contamination.throttled", n, &count(n)),
            named(n, "time")
        ),
    };
    let mut body = caption(
        "Above 2 % of others the findings speak of them as much as of the machine. Steal is time that the \
         hypervisor gave to other guests.",
    );
    body.push_str(&sheet(&[
        ("Others used", share("others", seen.others)),
        ("Stolen by the hypervisor", share("steal", seen.steal)),
        (
            "Some task waited for a CPU",
            share("cpu_pressure", seen.cpu_pressure),
        ),
        ("Stopped by the CPU quota", throttled),
    ]));
    if !seen.top_tasks.is_empty() {
        let most = seen.top_tasks.iter().map(|t| t.1).max().unwrap_or(1).max(1);
        let rows: String = seen
            .top_tasks
            .iter()
            .enumerate()
            .map(|(i, (name, ns))| {
                let path = format!("contamination.top_tasks.{i}.1");
                let time = number(&path, ns, &Nanos::from_nanos(*ns).to_string());
                let bar = barred("g-task", *ns as f64 / most as f64, &time);
                format!(
                    "<tr><th scope=\"row\">{}</th>{}</tr>\n",
                    escape(name),
                    cell(ns, &bar)
                )
            })
            .collect();
        body.push_str(&table(
            "narrow",
            &[
                (
                    "Task",
                    match findings.trace.mode {
                        TraceMode::Tracefs => "Other than this program, by the kernel trace",
                        _ => "Other than this program, of a sample of living processes",
                    },
                ),
                ("CPU time", "During the run"),
            ],
            &rows,
        ));
    }
    section("contamination", "Who else used the machine", &body)
}

/// A list of terms and what is known about each; values are HTML.
fn sheet(entries: &[(&str, String)]) -> String {
    let items: String = entries
        .iter()
        .map(|(term, value)| format!("<div><dt>{term}</dt><dd>{value}</dd></div>\n"))
        .collect();
    format!("<dl class=\"sheet\">\n{items}</dl>\n")
}

fn known(value: Option<impl Display>) -> String {
    value.map_or_else(
        || "<span class=\"unknown\">not known</span>".to_owned(),
        |v| escape(&v.to_string()),
    )
}

fn on_off(value: Option<bool>) -> String {
    known(value.map(|on| if on { "on" } else { "off" }))
}

/// CPUs in the kernel's list format; `None` is "not known" and an empty set is "none".
fn cpus(set: Option<&CpuSet>) -> String {
    known(set.map(|s| {
        if s.is_empty() {
            "none".to_owned()
        } else {
            s.to_string()
        }
    }))
}

/// Most host sheets shown.
const SHEETS: usize = 16;

/// The host sheets.
pub(super) fn hosts(manifest: &Manifest) -> String {
    let sheets = manifest.nodes.iter().take(SHEETS).map(|node| {
        let not_traced = match node.trace.unavailable.first() {
            Some(why) if manifest.is_not_traced(node.node) => format!(
                "<p class=\"note\">Not traced: {}. What delayed ranks here counts as unexplained.</p>\n",
                escape(&why.why)
            ),
            _ => String::new(),
        };
        host(node, story::is_imported(manifest)) + &not_traced
    });
    let mut body: String = sheets.collect();
    let more = manifest.nodes.len().saturating_sub(SHEETS);
    if more > 0 {
        body.push_str(&caption(&format!(
            "The sheets of {} are in run.json.",
            counted(more, "more node")
        )));
    }
    section("machine", "Machine", &body)
}

/// The sheet of a node. If another tool recorded the run, idlewave did not look anything up itself,
/// and what is missing is not known.
fn host(node: &NodeSheet, imported: bool) -> String {
    let h = &node.host;
    let none = |word: &str| match imported {
        true => known(None::<&str>),
        false => word.to_owned(),
    };
    let quota = h.cgroup_quota.map_or_else(
        || none("none"),
        |q| escape(&format!("{} per {}", q.quota, q.period)),
    );
    let processor = known(h.cpu_model.as_ref());
    let processor = match h.architecture.as_str() {
        "" => processor,
        architecture => format!("{processor}, {}", escape(architecture)),
    };
    let caches: Vec<String> = h
        .caches
        .iter()
        .map(|c| format!("L{} {} {}", c.level, c.kind, c.size))
        .collect();
    let mut out = format!("<h3>{}</h3>\n", escape(&h.name));
    out.push_str(&sheet(&[
        ("Processor", processor),
        ("CPUs online", cpus(Some(&h.online))),
        ("CPUs allowed", cpus(Some(&h.allowed))),
        (
            "Hardware threads share cores",
            known(h.smt.map(|s| if s { "yes" } else { "no" })),
        ),
        ("NUMA nodes", known(h.numa_nodes)),
        ("Memory", known(h.memory)),
        (
            "Caches",
            if caches.is_empty() {
                known(None::<&str>)
            } else {
                escape(&caches.join(", "))
            },
        ),
        (
            "Hypervisor",
            h.hypervisor
                .as_ref()
                .map_or_else(|| none("none found"), |v| escape(v)),
        ),
        (
            "Kernel",
            format!(
                "{} <small>{}</small>",
                escape(&h.kernel),
                escape(&h.kernel_build)
            ),
        ),
        ("Preemption", known(h.preemption.as_ref())),
        ("Timer frequency", known(h.hz.map(|hz| format!("{hz} Hz")))),
        ("isolcpus", cpus(h.isolated.as_ref())),
        ("nohz_full", cpus(h.nohz_full.as_ref())),
        ("rcu_nocbs", cpus(h.rcu_nocbs.as_ref())),
        ("Governor", known(h.governor.as_ref())),
        ("Turbo", on_off(h.turbo)),
        (
            "Transparent huge pages",
            known(h.transparent_huge_pages.as_ref()),
        ),
        ("CPU quota", quota),
        (
            "irqbalance",
            known(
                h.irqbalance
                    .map(|r| if r { "running" } else { "not running" }),
            ),
        ),
        ("Kernel's clock source", known(h.clock_source.as_ref())),
        ("Clock", clock(&node.clock, imported)),
    ]));
    if !h.unreadable.is_empty() {
        let list: Vec<String> = h.unreadable.iter().map(|u| escape(u)).collect();
        out.push_str(&format!(
            "<p class=\"note\">Could not be read: {}.</p>\n",
            list.join("; ")
        ));
    }
    out
}

/// A clock. The clock of another tool was not measured.
fn clock(clock: &ClockSheet, imported: bool) -> String {
    let measured = match imported {
        true => String::new(),
        false => format!(
            ", error {}, one reading {}",
            clock.error,
            show::time(clock.read_ns)
        ),
    };
    format!(
        "{}, quantum {}{measured} <small>{}</small>",
        escape(&clock.counter),
        show::time(clock.quantum_ns),
        escape(&clock.method)
    )
}

/// What was recorded, what was not, what was lost, and what recording cost.
pub(super) fn recording(manifest: &Manifest, findings: &Findings) -> String {
    let trace = &findings.trace;
    let cost = &trace.cost;
    let mut body = "<h3>Cost of watching</h3>\n".to_owned();
    let mode = escape(mode_name(manifest, trace.mode));
    if trace.mode == TraceMode::Off {
        let why = match story::program_trace(manifest) {
            Some(format) => format!("The imported {format} trace does not tell who had the CPUs."),
            None => "The kernel's view was switched off by the user.".to_owned(),
        };
        body.push_str(&absent(&why));
    } else {
        let share = cost
            .share()
            .map_or_else(|| "not measured".to_owned(), |s| escape(&percent(s)));
        let lost = match story::program_trace(manifest) {
            Some(_) => known(None::<&str>),
            None => number("trace.cost.lost", cost.lost, &count(cost.lost)),
        };
        let reader = match story::is_imported(manifest) {
            true => "not measured".to_owned(),
            false => {
                let path = "trace.cost.reader";
                number(path, cost.reader.get(), &cost.reader.to_string())
            }
        };
        let event = cost.event_ns.map_or_else(
            || "not measured".to_owned(),
            |ns| number("trace.cost.event_ns", ns, &show::time(ns)),
        );
        body.push_str(&sheet(&[
            ("Kernel's view", mode),
            ("Share of the traced CPUs", share),
            (
                "Events",
                number("trace.cost.events", cost.events, &count(cost.events)),
            ),
            ("Events lost", lost),
            ("Reader thread", reader),
            ("Writing one event", event),
            (
                "Traced for",
                number("trace.cost.wall", cost.wall.get(), &cost.wall.to_string()),
            ),
        ]));
    }
    body.push_str("<h3>Not recorded</h3>\n");
    if trace.unavailable.is_empty() {
        body.push_str(&absent("Everything that was asked for could be recorded."));
    } else {
        body.push_str("<ul class=\"entries\">\n");
        for u in &trace.unavailable {
            let allow = u
                .allow
                .as_ref()
                .map(|a| format!("<pre><code>{}</code></pre>", escape(a)));
            body.push_str(&format!(
                "<li><strong>{}</strong> <span class=\"note\">{}</span>{}</li>\n",
                escape(&u.what),
                escape(&u.why),
                allow.unwrap_or_default()
            ));
        }
        body.push_str("</ul>\n");
    }
    body.push_str(&ledger(manifest, findings));
    section("recording", "Recording", &body)
}

/// What was lost, or that no loss is known.
pub(super) fn ledger(manifest: &Manifest, findings: &Findings) -> String {
    let mut body = String::new();
    body.push_str("<h3>Lost or uncertain</h3>\n");
    let ledger = all_losses(manifest, findings);
    if ledger.is_empty() {
        body.push_str(&absent("Nothing is known to be lost."));
    } else {
        let rows: String = ledger
            .entries()
            .iter()
            .map(|l| {
                format!(
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>\n",
                    escape(&l.what), count(l.count), escape(&l.consequence), escape(&l.advice)
                )
            })
            .collect();
        let header = [
            ("What", "What was lost"),
            ("How many", "Count"),
            ("Consequence", "For the findings"),
            ("What helps", "What you can do"),
        ];
        body.push_str(&table("", &header, &rows));
    }
    body
}

/// What a reader needs to judge and repeat the numbers.
pub(super) fn footer(manifest: &Manifest, findings: &Findings) -> String {
    let command = shell_line(&manifest.command);
    let lines = match manifest.simulated {
        Some(_) => "<li>Simulated: program, noise model, seed and replication above make the same run again, byte by byte.</li>\n\
                    <li>Times are whole nanoseconds from the begin of the simulated program.</li>\n".to_owned(),
        None => measured(manifest, findings),
    };
    format!(
        "<footer>\n<h2>For those who repeat or cite this</h2>\n<ul>\n\
         <li>Estimates carry an interval and the number of samples; both, and the method, are in the data of this page.</li>\n{lines}\
         </ul>\n<p><code>{}</code></p>\n<p>idlewave {}, bundle schema {}, seed {}, started {}.</p>\n</footer>\n",
        escape(&command),
        escape(&manifest.idlewave),
        manifest.schema,
        manifest.seed,
        escape(&manifest.started),
    )
}

/// For a measured run: clock, warm-up, others and losses.
fn measured(manifest: &Manifest, findings: &Findings) -> String {
    let flagged = if findings.contamination.is_flagged() {
        "flagged"
    } else {
        "not flagged"
    };
    let warm = findings
        .cpus
        .iter()
        .filter_map(|c| c.fixed_work.as_ref())
        .any(|f| f.warm_up.settled_after.is_none_or(|t| t.get() > 0));
    format!(
        "<li>Clock: {} on every node; nothing shorter than its quantum is reported.</li>\n\
         <li>Warm-up: {}.</li>\n<li>Use by others: {flagged}. Losses: {} kinds. Both are shown above.</li>\n\
         <li>Predictions are a model fed with this machine's noise; the check against the runs made here stands beside them.</li>\n",
        escape(
            manifest
                .nodes
                .first()
                .map_or("none", |n| n.clock.counter.as_str())
        ),
        if warm {
            "the first moments were slower; see the table of CPUs"
        } else {
            "none seen"
        },
        all_losses(manifest, findings).entries().len(),
    )
}

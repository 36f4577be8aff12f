//! The noise of every CPU: table and distributions.

use super::markup::{absent, caption, cell, escape, number, section as in_section, table};
use crate::facts;
use idlewave_run::findings::{
    CpuNoise, DetourFindings, Findings, FixedTimeFindings, FixedWorkFindings,
};
use idlewave_units::Cpu;
use idlewave_units::show::{self, count, count_f64, percent};

/// Table and figures.
pub(super) fn section(findings: &Findings) -> String {
    let mut body = String::new();
    if findings.cpus.is_empty() {
        body.push_str(&absent(
            "The noise of single CPUs was not measured in this run.",
        ));
    } else if findings
        .cpus
        .iter()
        .any(|c| c.detours.is_some() || c.fixed_work.is_some())
    {
        let rows: String = findings
            .cpus
            .iter()
            .enumerate()
            .map(|(i, c)| row(i, c, &cpu_name(findings, c)))
            .collect();
        let header = [
            ("CPU", "Logical CPU"),
            ("Stolen", "Share of the time in detours"),
            ("Detours/s", "Detours per second"),
            ("Largest", "Longest detour"),
            ("Period", "Strongest period of detours"),
            (
                "Work slower",
                "Mean of the fixed work quantum over its undisturbed duration, less 1",
            ),
            ("by level", "Part of it due to slow speed levels"),
            ("Quantum", "Undisturbed duration of the fixed work quantum"),
            ("99 % below", "99th percentile of its durations"),
            (
                "Warm-up",
                "Time until the quantum stayed within its later spread, and how slow it was before",
            ),
        ];
        body.push_str(&caption(
            "Two instruments on every CPU at once: a loop that sees every gap (detours), and the same small \
             computation over and over (fixed work). Look for a CPU that stands out: it is the one to keep free.",
        ));
        body.push_str(&table("sortable scroll", &header, &rows));
    }
    if let Some(said) = facts::conditions(&findings.conditions) {
        body.push_str(&caption(&format!("Measured: {said}.")));
    }
    let reserved = findings
        .cpus
        .iter()
        .filter_map(|c| Some((c.cpu, c.reserved.as_ref()?)));
    for (cpu, found) in reserved {
        body.push_str(&caption(&facts::reserved(cpu, found, &findings.conditions)));
    }
    if findings.cpus.iter().any(|c| c.fixed_time.is_some()) {
        body.push_str(&fixed_times(findings));
    }
    if let Some(sweep) = &findings.load_sweep {
        body.push_str("<div class=\"pair\">\n");
        let said = facts::load_sentences(sweep);
        body.push_str(&figure("Detours and load", "chart-load", &sentences(&said)));
        body.push_str(&figure(
            "Work and load",
            "chart-load-work",
            "The same work on the first CPU, median: it rises where the speed of a core falls with the load.",
        ));
        body.push_str("</div>\n");
    }
    for (cpu, starts) in findings
        .cpus
        .iter()
        .filter_map(|c| Some((c.cpu, c.starts.as_ref()?)))
    {
        let slower = &starts.slower;
        let said = format!(
            "{}: in {} starts after idleness, the first 5 ms were {} slower (95 %: {}).",
            facts::warm_up_sentence(cpu, starts),
            starts.starts,
            percent(slower.value),
            show::percent_range(slower.low, slower.high),
        );
        body.push_str(&caption(&said));
    }
    let detours = findings.cpus.iter().any(|c| c.detours.is_some());
    let work = findings.cpus.iter().any(|c| c.fixed_work.is_some());
    let steps = findings.lockstep.iter().any(|l| !l.histogram.is_empty());
    if detours || work {
        body.push_str("<p class=\"choice\"><label>Distributions of <select id=\"cpu-choice\"></select></label></p>\n");
    }
    body.push_str("<div class=\"pair\">\n");
    if detours {
        body.push_str(&figure(
            "Detours by length", "detour-classes",
            "Left how often, right how much of the stolen time. Often and short is the kernel's own \
             housekeeping; rare and long is what delays parallel programs.",
        ));
        body.push_str(&figure(
            "Lengths of detours", "chart-lengths",
            "Look for separate peaks: each is a kind of interruption with its own length. No distribution is \
             fitted to them; their rates are in the table of lengths. Both scales are logarithmic.",
        ));
        body.push_str(&figure(
            "Periodogram of detours", "chart-spectrum",
            "A peak above the dashed line is a period of the detours, or a multiple of its frequency; the upright \
             lines are the periods found. A timer stands out, random interruptions stay below.",
        ));
    }
    if work {
        body.push_str(&figure(
            "Time of the same work", "chart-work",
            "A single narrow peak is a quiet CPU. A second peak is a slower speed (frequency, a neighbour on the \
             same core); the tail to the right are interruptions. No distribution is fitted to them. Both scales \
             are logarithmic.",
        ));
        body.push_str(&figure(
            "Speed over time", "chart-speed",
            "A line that jumps between the dashed levels is a CPU that changes its speed; a wide band (the quartiles) \
             is one that is interrupted often. The slowest moments may lie above the scale. Of many CPUs, the eight that \
             were slowed down most.",
        ));
    }
    if steps {
        body.push_str(&figure(
            "Time of a step", "chart-steps",
            "The upright lines are the undisturbed steps. What lies far to the right are the late steps \
             that are explained above. Both scales are logarithmic.",
        ));
    }
    body.push_str("</div>\n");
    in_section("noise", "Noise and distributions", &body)
}

/// Work in equal times: table and plot.
fn fixed_times(findings: &Findings) -> String {
    let rows = findings.cpus.iter().enumerate();
    let rows = rows.filter_map(|(i, c)| Some((i, c.cpu, c.fixed_time.as_ref()?)));
    let row = |(i, cpu, f): (usize, Cpu, &FixedTimeFindings)| {
        let path = |field: &str| format!("cpus.{i}.fixed_time.{field}");
        let lost = f.lost.value;
        let period = f.periods.first().map_or_else(
            || cell(-1, "&ndash;"),
            |p| {
                let value = p.period.value;
                let path = path("periods.0.period.value");
                cell(value, &number(&path, value, &show::time(value)))
            },
        );
        format!(
            "<tr><th scope=\"row\" data-key=\"{cpu}\">{cpu}</th>{}{}{}{}{period}{}</tr>\n",
            cell(lost, &number(&path("lost.value"), lost, &percent(lost))),
            cell(
                f.median,
                &number(&path("median"), f.median, &count(f.median))
            ),
            cell(
                f.reference,
                &number(&path("reference"), f.reference, &count_f64(f.reference))
            ),
            cell(
                f.largest.get(),
                &number(&path("largest"), f.largest.get(), &f.largest.to_string())
            ),
            cell(
                f.overrun,
                &number(&path("overrun"), f.overrun, &count(f.overrun))
            ),
        )
    };
    let rows: String = rows.map(row).collect();
    let header = [
        ("CPU", "Logical CPU"),
        (
            "Work lost",
            "Share of the work that the time had room for, and that was not done",
        ),
        ("Units", "Median units of work in a quantum"),
        ("at best", "Units that an undisturbed interval has room for"),
        ("Most lost", "The most time that one quantum lost"),
        ("Period", "Strongest period at which work is lost"),
        (
            "Overrun",
            "Quanta that were interrupted beyond the end of the next interval",
        ),
    ];
    let mut out = caption(
        "How many units of the same work fit into equal times (fixed time quantum). Interruptions and a \
         slower CPU both lose work.",
    );
    out.push_str(&table("sortable scroll", &header, &rows));
    out.push_str(&figure(
        "Work in equal times",
        "chart-fixed-time",
        "Work done over work that the time had room for. The line is the mean of successive quanta, the band \
         reaches down to the least of them. Of many CPUs, the eight that lost most.",
    ));
    out
}

/// Sentences without a capital or a full stop, as a paragraph.
fn sentences(all: &[String]) -> String {
    let capital = |text: &String| {
        let mut letters = text.chars();
        let first = letters.next().map(|c| c.to_uppercase().to_string());
        format!("{}{}.", first.unwrap_or_default(), letters.as_str())
    };
    all.iter().map(capital).collect::<Vec<_>>().join(" ")
}

fn figure(title: &str, id: &str, text: &str) -> String {
    format!(
        "<div class=\"figure\"><h3>{title}</h3><div class=\"chart\" id=\"{id}\"></div>{}</div>\n",
        caption(text)
    )
}

fn dashes(n: usize) -> String {
    cell(-1, "&ndash;").repeat(n)
}

/// The CPU, with its node in a run of several.
pub(super) fn cpu_name(findings: &Findings, noise: &CpuNoise) -> String {
    let mut nodes = findings.nodes.iter().flat_map(|n| &n.ranked);
    match nodes.find(|n| n.node == noise.node) {
        Some(node) => format!("{} of {}", noise.cpu, escape(&node.name)),
        None => noise.cpu.to_string(),
    }
}

fn row(i: usize, noise: &CpuNoise, name: &str) -> String {
    let cpu = noise.cpu;
    let mut out = format!("<tr><th scope=\"row\" data-key=\"{cpu}\">{name}</th>");
    out.push_str(
        &noise
            .detours
            .as_ref()
            .map_or_else(|| dashes(4), |d| detours(i, d)),
    );
    out.push_str(
        &noise
            .fixed_work
            .as_ref()
            .map_or_else(|| dashes(5), |f| work(i, f)),
    );
    out + "</tr>\n"
}

fn detours(i: usize, d: &DetourFindings) -> String {
    let path = |field: &str| format!("cpus.{i}.detours.{field}");
    let mut out = cell(
        d.stolen.value,
        &number(
            &path("stolen.value"),
            d.stolen.value,
            &percent(d.stolen.value),
        ),
    );
    out.push_str(&cell(
        d.rate.value,
        &number(&path("rate.value"), d.rate.value, &count_f64(d.rate.value)),
    ));
    out.push_str(&d.largest.map_or_else(
        || cell(-1, "none"),
        |l| cell(l.get(), &number(&path("largest"), l.get(), &l.to_string())),
    ));
    // The periodogram's threshold is 1: anything below is not a period.
    out.push_str(&d.periods.first().filter(|p| p.power > 1.0).map_or_else(
        || cell(-1, "&ndash;"),
        |p| {
            let value = p.period.value;
            cell(
                value,
                &number(&path("periods.0.period.value"), value, &show::time(value)),
            )
        },
    ));
    out
}

fn work(i: usize, f: &FixedWorkFindings) -> String {
    let path = |field: &str| format!("cpus.{i}.fixed_work.{field}");
    let share =
        |field: &str, value: f64| cell(value, &number(&path(field), value, &percent(value)));
    let slowdown = facts::slowdown(&f.slowdown);
    let value = f.slowdown.value;
    let mut out = cell(value, &number(&path("slowdown.value"), value, &slowdown));
    out.push_str(&share("slowdown_by_level", f.slowdown_by_level));
    for (field, time) in [("reference", f.reference), ("p99", f.p99)] {
        out.push_str(&cell(
            time.get(),
            &number(&path(field), time.get(), &time.to_string()),
        ));
    }
    out.push_str(&match f.warm_up.settled_after {
        None => cell(u64::MAX, "never settled"),
        Some(t) if t.get() == 0 => cell(0, "none"),
        Some(t) => cell(
            t.get(),
            &format!(
                "{} <small>{}</small>",
                number(&path("warm_up.settled_after"), t.get(), &t.to_string()),
                show::factor(f.warm_up.ratio)
            ),
        ),
    });
    out
}

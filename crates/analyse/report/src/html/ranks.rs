//! For a recorded program: where the time of its ranks went, its MPI functions, its waits and its
//! regions.

use super::markup::{absent, barred, caption, cell, escape, number, section as in_section, table};
use crate::story;
use idlewave_run::Manifest;
use idlewave_run::findings::{ProgramFindings, RankTime};
use idlewave_units::Bytes;
use idlewave_units::show::{count, percent};

/// Most ranks in the table; if there are more, those from which most was taken and those that
/// waited most.
const RANKS_SHOWN: usize = 64;

/// Why there is nothing about ranks, and what to do.
const NO_RANKS: &str = "No rank came from MPI_Init to MPI_Finalize, so no time can be divided. If the program \
     is an MPI program, was it started by <code>idlewave record -- mpirun ...</code> and does it end by itself?";

/// One part of a rank's time, in drawing order: label, colour, value, field.
type Part = (
    &'static str,
    &'static str,
    fn(&RankTime) -> u64,
    &'static str,
);
const PARTS: [Part; 4] = [
    (
        "computing",
        "t-computing",
        |r| r.computing.get(),
        "computing",
    ),
    ("taken", "t-taken", |r| r.taken.get(), "taken"),
    ("waiting", "t-waiting", |r| r.waiting.get(), "waiting"),
    (
        "communicating",
        "t-communicating",
        |r| r.communicating.get(),
        "communicating",
    ),
];

/// Where the time of the ranks went.
pub(super) fn time(manifest: &Manifest, program: &ProgramFindings) -> String {
    if program.ranks_time.is_empty() {
        return in_section(
            "ranks",
            "Where the time of the ranks went",
            &absent(NO_RANKS),
        );
    }
    let mut order: Vec<usize> = (0..program.ranks_time.len()).collect();
    let all = order.len();
    if all > RANKS_SHOWN {
        let of = |i: usize| &program.ranks_time[i];
        order.sort_by_key(|&i| (std::cmp::Reverse(of(i).taken), i));
        let mut rest = order.split_off(RANKS_SHOWN / 2);
        rest.sort_by_key(|&i| (std::cmp::Reverse(of(i).waiting), i));
        rest.truncate(RANKS_SHOWN / 2);
        order.extend(rest);
        order.sort_unstable();
    }
    let rows: String = order
        .iter()
        .map(|&i| row(manifest, i, &program.ranks_time[i]))
        .collect();
    let calls = story::calls(program);
    let world = match story::calls_mpi(program) {
        true => "In MPI_COMM_WORLD",
        false => "In the group of all",
    };
    let inside = |what: &str| format!("Inside {calls}, {what}");
    let outside = |what: &str| format!("Outside of {calls}, {what}");
    let header = [
        ("Rank", world),
        ("Node", "Where it ran"),
        ("Its time", "All four parts together"),
        ("Computing", &outside("on a CPU")),
        ("Taken", &outside("kept from running by others")),
        ("Waiting", &inside("waiting for another rank")),
        ("Communicating", &inside("the rest")),
    ];
    let shown = match all {
        n if n > RANKS_SHOWN => format!(
            " Shown are the {} ranks from which most was taken and the {} that waited most, of {}.",
            RANKS_SHOWN / 2,
            RANKS_SHOWN / 2,
            count(n as u64)
        ),
        _ => String::new(),
    };
    let body = caption(&format!(
        "A rank that waits little while the others wait much is the one they wait for: look at what was taken \
         from it. If nothing was, it has more to compute (imbalance).{shown}"
    )) + &table("sortable", &header, &rows)
        + LEGEND;
    in_section("ranks", "Where the time of the ranks went", &body)
}

const LEGEND: &str = "<p class=\"legend\"><span><i class=\"swatch t-computing\"></i>computing</span>\
     <span><i class=\"swatch t-taken\"></i>taken by others</span>\
     <span><i class=\"swatch t-waiting\"></i>waiting for another rank</span>\
     <span><i class=\"swatch t-communicating\"></i>communicating</span></p>\n";

fn row(manifest: &Manifest, i: usize, r: &RankTime) -> String {
    let path = |field: &str| format!("program.ranks_time.{i}.{field}");
    let all: u64 = PARTS.iter().map(|p| p.2(r)).sum();
    let share = |part: u64| part as f64 / all.max(1) as f64;
    let bars: String = PARTS
        .iter()
        .map(|p| {
            format!(
                "<i class=\"{}\" style=\"width:{:.3}%\" title=\"{} {}\"></i>",
                p.1,
                share(p.2(r)) * 100.0,
                p.0,
                percent(share(p.2(r)))
            )
        })
        .collect();
    let node = escape(story::node_of(manifest, r.rank).unwrap_or("not known"));
    let mut out = format!(
        "<tr><th scope=\"row\" data-key=\"{}\">{}</th><td class=\"text\" data-key=\"{node}\">{node}</td>\
         <td data-key=\"{}\"><span class=\"stack\">{bars}</span></td>",
        r.rank,
        number(&path("rank"), r.rank, &r.rank.to_string()),
        r.computing.get(),
    );
    for (_, _, value, field) in PARTS {
        let ns = value(r);
        if field == "taken" && !story::sees_taken(manifest, r.rank) {
            out.push_str(&cell(-1, "&ndash;"));
            continue;
        }
        let text = idlewave_units::Nanos::from_nanos(ns).to_string();
        out.push_str(&cell(
            ns,
            &format!(
                "{} <small>{}</small>",
                number(&path(field), ns, &text),
                percent(share(ns))
            ),
        ));
    }
    out + "</tr>\n"
}

/// The heading of the functions by time.
pub(super) fn operations_heading(program: &ProgramFindings) -> &'static str {
    match story::calls_mpi(program) {
        true => "Time in MPI",
        false => "Time in collectives and messages",
    }
}

/// Functions by time.
pub(super) fn operations(program: &ProgramFindings) -> String {
    if program.operations.is_empty() {
        let why = "No call of MPI was recorded between MPI_Init and MPI_Finalize.";
        return in_section("operations", operations_heading(program), &absent(why));
    }
    let most = program
        .operations
        .iter()
        .map(|o| o.time.get())
        .max()
        .unwrap_or(0);
    let rows: String = program
        .operations
        .iter()
        .enumerate()
        .map(|(i, o)| {
            let path = |field: &str| format!("program.operations.{i}.{field}");
            let time = |field: &str, t: idlewave_units::Nanos| number(&path(field), t.get(), &t.to_string());
            let part = |t: u64| t as f64 / most.max(1) as f64 * 100.0;
            let waiting = o.waiting.get().min(o.time.get());
            let bar = format!(
                "<div class=\"barred\"><span class=\"track double\"><i class=\"t-waiting\" style=\"width:{:.2}%\"></i>\
                 <i class=\"t-communicating\" style=\"width:{:.2}%\"></i></span>{}</div>",
                part(waiting),
                part(o.time.get() - waiting),
                time("time", o.time)
            );
            let bytes = match o.bytes {
                0 => cell(0, "&ndash;"),
                b => cell(b, &number(&path("bytes"), b, &Bytes::new(b).to_string())),
            };
            format!(
                "<tr><th scope=\"row\" data-key=\"{name}\">{name}</th>{}{}{}{}{}{bytes}</tr>\n",
                cell(o.time.get(), &bar),
                cell(o.waiting.get(), &time("waiting", o.waiting)),
                cell(o.calls, &number(&path("calls"), o.calls, &count(o.calls))),
                cell(o.median.get(), &time("median", o.median)),
                cell(o.max.get(), &time("max", o.max)),
                name = escape(&o.name),
            )
        })
        .collect();
    let name = match story::calls_mpi(program) {
        true => "Name in C",
        false => "Name in the trace",
    };
    let header = [
        ("Function", name),
        (
            "Time",
            "All ranks together; the part spent waiting in the other colour",
        ),
        ("Waiting", "Part of it waiting for other ranks"),
        ("Calls", "All ranks together"),
        ("Median", "Of one call"),
        ("Longest", "Of one call"),
        ("Bytes", "Sent in it, all ranks together"),
    ];
    let body = caption(
        "Time of all ranks in each function. Where most of it is waiting, a faster network does not help: \
         look at who is late. Where little of it is, the messages themselves cost time.",
    ) + &table("sortable", &header, &rows);
    in_section("operations", operations_heading(program), &body)
}

/// What the ranks waited for.
pub(super) fn waits(program: &ProgramFindings) -> String {
    if program.waits.is_empty() {
        return String::new();
    }
    let most = program
        .waits
        .iter()
        .map(|w| w.time.get())
        .max()
        .unwrap_or(0);
    let rows: String = program
        .waits
        .iter()
        .enumerate()
        .map(|(i, w)| {
            let path = |field: &str| format!("program.waits.{i}.{field}");
            let time = number(&path("time"), w.time.get(), &w.time.to_string());
            let bar = barred("t-waiting", w.time.as_f64() / most.max(1) as f64, &time);
            format!(
                "<tr><th scope=\"row\" data-key=\"{name}\">{name}</th>{}{}</tr>\n",
                cell(w.time.get(), &bar),
                cell(w.count, &number(&path("count"), w.count, &count(w.count))),
                name = escape(&w.name),
            )
        })
        .collect();
    let header = [
        ("Wait", "What was waited for"),
        ("Time", "All ranks together"),
        ("Waits", "How many"),
    ];
    table("sortable narrow", &header, &rows)
}

/// Regions that the program marked.
pub(super) fn marks(program: &ProgramFindings) -> String {
    if program.marks.is_empty() {
        let why = "The program marked no region. With <code>idlewave.h</code> (C, C++), the Fortran module or the \
                   Python context manager it can, and then its own names stand here and in the time line.";
        return in_section("marks", "Regions of the program", &absent(why));
    }
    let most = program
        .marks
        .iter()
        .map(|m| m.time.get())
        .max()
        .unwrap_or(0);
    let rows: String = program
        .marks
        .iter()
        .enumerate()
        .map(|(i, m)| {
            let path = |field: &str| format!("program.marks.{i}.{field}");
            let time = |field: &str, t: idlewave_units::Nanos| {
                number(&path(field), t.get(), &t.to_string())
            };
            let bar = barred(
                "g-program",
                m.time.as_f64() / most.max(1) as f64,
                &time("time", m.time),
            );
            format!(
                "<tr><th scope=\"row\" data-key=\"{name}\">{name}</th>{}{}{}{}{}</tr>\n",
                cell(m.time.get(), &bar),
                cell(m.waiting.get(), &time("waiting", m.waiting)),
                cell(m.count, &number(&path("count"), m.count, &count(m.count))),
                cell(m.median.get(), &time("median", m.median)),
                cell(m.max.get(), &time("max", m.max)),
                name = escape(&m.name),
            )
        })
        .collect();
    let header = [
        ("Region", "The program's name for it"),
        ("Time", "All ranks together"),
        ("Waiting", "Part of it in which ranks waited for others"),
        ("Times", "How often it was entered, over all ranks"),
        ("Median", "Of one time"),
        ("Longest", "Of one time"),
    ];
    let body = caption(
        "Regions as the program named them. A longest time far above the median is worth a look in the time line.",
    ) + &table("sortable", &header, &rows);
    in_section("marks", "Regions of the program", &body)
}

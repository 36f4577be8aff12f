//! The answer as text for a terminal of 80 columns: the recommendation, the table over ranks per
//! node, the limits, the next steps.

use super::answer::Answer;
use super::files::{leaves, names};
use super::format::{WIDTH, host_list, time_with_range, unit, wrap};
use super::words::{how, limit, scotch};
use idlewave_place::{Advised, Candidate, MemoryVerdict};
use idlewave_report::{MemoryFit, PlacementSheet};
use idlewave_units::counted;
use idlewave_units::show::{digits, factor, percent, seconds};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The most rows of the table; JSON and page have all.
const MOST_ROWS: usize = 16;

/// The whole text.
pub fn render(
    sheet: &PlacementSheet,
    answer: &Answer<'_>,
    directory: Option<&Path>,
    page: Option<&Path>,
) -> String {
    let mut out = String::new();
    wrap(&mut out, "", &format!("Program: {}", sheet.what));
    wrap(&mut out, "", &format!("Network: {}", sheet.network));
    out.push('\n');
    verdict(&mut out, answer);
    if let Some(given) = &answer.given {
        super::evaluate::text(&mut out, given, answer);
    }
    table(&mut out, sheet, answer);
    lines(&mut out, "WARNINGS", &sheet.warnings);
    lines(&mut out, "ASSUMED OR LEFT OUT", &sheet.assumed);
    lines(&mut out, "NOT MODELLED", &sheet.not_modelled);
    next(&mut out, sheet, directory, page);
    out
}

fn verdict(out: &mut String, answer: &Answer<'_>) {
    let advice = answer.advice;
    let (best, default) = (&advice.rows[advice.best], &advice.rows[advice.default]);
    let k = best.candidate.ranks_per_node;
    let all = names(answer.network, &best.candidate);
    let leaves = leaves(answer.network, &best.candidate);
    let switches = match answer.network.topology().switches().len() {
        0 | 1 => String::new(),
        _ if leaves == 1 => ", on one leaf switch".to_owned(),
        _ => format!(", on {leaves} leaf switches"),
    };
    let title = format!(
        "{}{}{} on {}: {}{switches}",
        match best.candidate.memory {
            MemoryVerdict::Exceeds { .. } =>
                "NO PLACEMENT FITS INTO MEMORY. The fastest that does not: ",
            MemoryVerdict::Fits | MemoryVerdict::Unknown => "TAKE ",
        },
        if full(&best.candidate) { "" } else { "up to " },
        counted(k, "rank"),
        match all.len() {
            1 => "one node".to_owned(),
            n => format!("each of {n} nodes"),
        },
        host_list(&all),
    );
    wrap(out, "", &title);
    wrap(out, "  ", &how(&best.candidate));
    wrap(
        out,
        "  ",
        &format!(
            "predicted {}; {} takes {} of it",
            time_with_range(&best.estimate.seconds),
            limit(&best.estimate, answer.network),
            percent(best.estimate.limit_share)
        ),
    );
    let least = best.lower_bound_seconds;
    let possible = 1.0 - least / best.estimate.seconds.value.max(f64::MIN_POSITIVE);
    let such = format!(
        "no placement with {k} per node on {}",
        counted(all.len() as u32, "node")
    );
    let bound = match possible < 0.005 {
        true => format!("{such} is faster"),
        false => format!(
            "{such} takes less than {}, {} less",
            seconds(least),
            percent(possible)
        ),
    };
    wrap(out, "  ", &bound);
    compare(out, best, default, advice.best == advice.default);
    if let Some(said) = scotch(answer) {
        wrap(out, "  ", &said);
    }
    if let Some(effect) = &answer.effect {
        for line in super::load::lines(effect, answer) {
            wrap(out, "  ", &line);
        }
    }
    let cheaper = advice
        .rows
        .iter()
        .filter(|row| !matches!(row.candidate.memory, MemoryVerdict::Exceeds { .. }))
        .filter(|row| row.same_as_best && row.node_seconds < 0.9 * best.node_seconds);
    if let Some(row) = cheaper.min_by(|a, b| a.node_seconds.total_cmp(&b.node_seconds)) {
        wrap(
            out,
            "  ",
            &format!(
                "{} per node on {} is not significantly slower and takes {} fewer node-seconds",
                row.candidate.ranks_per_node,
                counted(row.candidate.nodes.len() as u32, "node"),
                percent(1.0 - row.node_seconds / best.node_seconds)
            ),
        );
    }
    out.push('\n');
}

fn compare(out: &mut String, best: &Advised, default: &Advised, same: bool) {
    let candidate = &default.candidate;
    let by_default = format!(
        "{} per node on {}, in order",
        candidate.ranks_per_node,
        counted(candidate.nodes.len() as u32, "node")
    );
    if same {
        wrap(
            out,
            "  ",
            &format!("this is what a batch system does by default ({by_default})"),
        );
        return;
    }
    let ratio = default.estimate.ratio(&best.estimate);
    let said = match default.estimate.differs_from(&best.estimate) {
        true => format!(
            "the default of a batch system ({by_default}) takes {}: {} as long ({} to {})",
            seconds(default.estimate.seconds.value),
            factor(ratio.value),
            factor(ratio.low),
            factor(ratio.high)
        ),
        false => format!(
            "no significant difference from the default of a batch system ({by_default}), {}",
            time_with_range(&default.estimate.seconds)
        ),
    };
    wrap(out, "  ", &said);
}

/// For each number of ranks per node, the best placement, next to the nodes filled in order.
fn table(out: &mut String, sheet: &PlacementSheet, answer: &Answer<'_>) {
    let advice = answer.advice;
    let mut best: BTreeMap<u32, usize> = BTreeMap::new();
    let mut in_order: BTreeMap<u32, f64> = BTreeMap::new();
    for (at, row) in advice.rows.iter().enumerate() {
        let k = row.candidate.ranks_per_node;
        // Rows with the same number are sorted by time.
        best.entry(k).or_insert(at);
        if row.is_baseline() {
            in_order.insert(k, row.estimate.seconds.value);
        }
    }
    best.insert(
        advice.rows[advice.best].candidate.ranks_per_node,
        advice.best,
    );
    let shown = chosen(answer, &best);
    let (name, scale) = unit(advice.rows[advice.best].estimate.seconds.value);
    let _ = writeln!(
        out,
        "RANKS PER NODE, times in {name}; * no significant difference from the best"
    );
    let digits = |seconds: f64| digits(seconds * scale);
    let _ = writeln!(
        out,
        "  per  nodes    time         (95 %) in order node-{name:<2}  limited by"
    );
    for (k, at) in &best {
        if !shown.contains(k) {
            continue;
        }
        let row = &sheet.rows[*at];
        let mark = match (row.memory, *at == advice.best, row.same_as_best) {
            (MemoryFit::Exceeds, ..) => '!',
            (_, true, _) => '>',
            (_, false, true) => '*',
            (_, false, false) => ' ',
        };
        let range = format!("{}..{}", digits(row.seconds.low), digits(row.seconds.high));
        let order = in_order.get(k).map_or("-".to_owned(), |s| digits(*s));
        let _ = writeln!(
            out,
            "{mark}{k:4} {:6} {:>7} {range:>14} {order:>8} {:>7}  {:<18} {:>7}",
            row.nodes,
            digits(row.seconds.value),
            digits(row.node_seconds),
            short(&row.limit, 18),
            percent(row.limit_share),
        );
    }
    if sheet
        .rows
        .iter()
        .any(|row| row.memory == MemoryFit::Exceeds)
    {
        out.push_str("  ! does not fit into memory\n");
    }
    if shown.len() < best.len() {
        let _ = writeln!(
            out,
            "  {} more numbers of ranks per node: --json, --html",
            best.len() - shown.len()
        );
    }
    out.push('\n');
}

/// All numbers if there are few; otherwise the best ones, powers of two and the ends.
fn chosen(answer: &Answer<'_>, best: &BTreeMap<u32, usize>) -> Vec<u32> {
    let mut all: Vec<u32> = best.keys().copied().collect();
    if all.len() <= MOST_ROWS {
        return all;
    }
    let advice = answer.advice;
    let time = |k: &u32| advice.rows[best[k]].estimate.seconds.value;
    let take = advice.rows[advice.best].candidate.ranks_per_node;
    let default = advice.rows[advice.default].candidate.ranks_per_node;
    let last = all.len() - 1;
    let ends = [all[0], all[last], take, default];
    all.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let fast: Vec<u32> = all.iter().copied().take(6).collect();
    let powers = all.iter().copied().filter(|k| k.is_power_of_two());
    let mut shown: Vec<u32> = ends.into_iter().chain(fast).chain(powers).collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}

fn next(out: &mut String, sheet: &PlacementSheet, directory: Option<&Path>, page: Option<&Path>) {
    out.push_str("NEXT\n");
    match directory {
        Some(directory) => {
            let all: Vec<&str> = sheet.files.iter().map(|f| f.name.as_str()).collect();
            let directory = directory.display();
            wrap(
                out,
                "  ",
                &format!("files in {directory}: {}", all.join(", ")),
            );
            let steps = "replace ./app with the full path of your program, then, as the files refer to each other \
                         without a directory:";
            wrap(out, "  ", steps);
            out.push_str(&format!("  cd {directory}\n"));
            let start = "sbatch job.sbatch, qsub job.pbs, sh job.flux, or \
                         mpirun --hostfile hostfile --rankfile rankfile ./app";
            wrap(out, "  ", start);
        }
        None => {
            let script = sheet.files.iter().find(|f| f.name == "job.sbatch");
            let script = script.map_or("", |f| f.content.as_str());
            for line in script.lines().filter(|line| line.starts_with("#SBATCH")) {
                // A truncated option is useless; long ones are in the files.
                match line.chars().count() + 2 <= WIDTH {
                    true => out.push_str(&format!("  {line}\n")),
                    false => long_option(out, line),
                }
            }
            let arbitrary = script.contains("arbitrary");
            // Without that file, ranks would be placed differently.
            for line in script
                .lines()
                .filter(|l| !arbitrary && l.starts_with("srun"))
            {
                wrap(out, "  ", line);
            }
            let why = match arbitrary {
                true => {
                    "this order of ranks needs a file: add -o DIR for it and for rank file, host files, Slurm, Flux, PBS"
                }
                false => "all files (rank file, host files, Slurm, Flux, PBS): add -o DIR",
            };
            wrap(out, "  ", why);
        }
    }
    match page {
        Some(page) => wrap(
            out,
            "  ",
            &format!("picture of the loads: {}", page.display()),
        ),
        None => wrap(out, "  ", "picture of the loads: add --html FILE"),
    }
}

fn lines(out: &mut String, title: &str, all: &[String]) {
    if all.is_empty() {
        return;
    }
    out.push_str(title);
    out.push('\n');
    for line in all {
        wrap(out, "  ", &format!("- {line}"));
    }
    out.push('\n');
}

/// An option too long for a line.
fn long_option(out: &mut String, line: &str) {
    let (name, _) = line.split_once('=').unwrap_or((line, ""));
    out.push_str(&format!("  {name}=... is long: in the file job.sbatch\n"));
}

/// Whether all nodes have as many ranks as the fullest one.
fn full(candidate: &Candidate) -> bool {
    let slots = candidate.ranks_per_node as usize * candidate.nodes.len();
    slots == candidate.places.len()
}

fn short(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 2).chain("..".chars()).collect(),
        false => text.to_owned(),
    }
}

//! An answer on the terminal, 80 columns: the verdict, the table over ranks per node, what limits, what to do.

use super::advise::Answer;
use super::files::{leaves, names};
use super::sheet::{how, limit, scotch};
use idlewave_network::Predicted;
use idlewave_place::batch::fold_hostlist;
use idlewave_place::{Advised, Candidate, MemoryVerdict};
use idlewave_report::{MemoryFit, PlacementSheet};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const WIDTH: usize = 80;
/// Most rows of the table; JSON and page have all.
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
            "predicted {}; {} takes {:.0} % of it",
            time_with_range(&best.estimate.seconds),
            limit(&best.estimate, answer.network),
            100.0 * best.estimate.limit_share
        ),
    );
    let least = best.lower_bound_seconds;
    let possible = 100.0 * (1.0 - least / best.estimate.seconds.value.max(f64::MIN_POSITIVE));
    let such = format!(
        "no placement with {k} per node on {}",
        counted(all.len() as u32, "node")
    );
    let bound = match possible < 0.5 {
        true => format!("{such} is faster"),
        false => format!(
            "{such} takes less than {}, {possible:.0} % less",
            time(least)
        ),
    };
    wrap(out, "  ", &bound);
    compare(out, best, default, advice.best == advice.default);
    if let Some(said) = scotch(answer) {
        wrap(out, "  ", &said);
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
                "{} per node on {} is not significantly slower and takes {:.0} % fewer node-seconds",
                row.candidate.ranks_per_node,
                counted(row.candidate.nodes.len() as u32, "node"),
                100.0 * (1.0 - row.node_seconds / best.node_seconds)
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
            "the default of a batch system ({by_default}) takes {}: x{:.2} as long ({:.2} to {:.2})",
            time(default.estimate.seconds.value),
            ratio.value,
            ratio.low,
            ratio.high
        ),
        false => format!(
            "no significant difference to the default of a batch system ({by_default}), {}",
            time_with_range(&default.estimate.seconds)
        ),
    };
    wrap(out, "  ", &said);
}

/// Per number of ranks per node the best one, beside the nodes filled in order.
fn table(out: &mut String, sheet: &PlacementSheet, answer: &Answer<'_>) {
    let advice = answer.advice;
    let mut best: BTreeMap<u32, usize> = BTreeMap::new();
    let mut in_order: BTreeMap<u32, f64> = BTreeMap::new();
    for (at, row) in advice.rows.iter().enumerate() {
        let k = row.candidate.ranks_per_node;
        // Rows of one number come fastest first.
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
        "RANKS PER NODE, times in {name}; * no significant difference to the best"
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
            "{mark}{k:4} {:6} {:>7} {range:>14} {order:>8} {:>7}  {:<20} {:>3.0} %",
            row.nodes,
            digits(row.seconds.value),
            digits(row.node_seconds),
            short(&row.limit, 20),
            100.0 * row.limit_share,
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

/// All numbers where there are few; else the best ones, powers of two and the ends.
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
            let steps = "put the whole path of your program in place of ./app, then, as the files name each other \
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
                // Half an option is none; what is too long is in the files.
                match line.chars().count() + 2 <= WIDTH {
                    true => out.push_str(&format!("  {line}\n")),
                    false => long_option(out, line),
                }
            }
            let arbitrary = script.contains("arbitrary");
            // Without it ranks would go elsewhere.
            for line in script
                .lines()
                .filter(|l| !arbitrary && l.starts_with("srun"))
            {
                wrap(out, "  ", line);
            }
            let why = match arbitrary {
                true => {
                    "this order of ranks needs a file: add -o DIR for it, and for rank file, host files, Slurm, Flux, PBS"
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

/// A paragraph in lines of 80 columns, the later ones two deeper than the first.
pub fn wrap(out: &mut String, indent: &str, text: &str) {
    let deeper = format!("{indent}  ");
    let options = width().initial_indent(indent).subsequent_indent(&deeper);
    out.push_str(&textwrap::fill(text, options));
    out.push('\n');
}

/// Lines end between words and after commas: names and lists of nodes have no other place to break.
fn width() -> textwrap::Options<'static> {
    fn words(line: &str) -> Box<dyn Iterator<Item = textwrap::core::Word<'_>> + '_> {
        let pieces = line.split_inclusive([' ', ',']);
        Box::new(pieces.map(textwrap::core::Word::from))
    }
    textwrap::Options::new(WIDTH)
        .word_separator(textwrap::WordSeparator::Custom(words))
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// An option of which not all fits on a line.
fn long_option(out: &mut String, line: &str) {
    let (name, _) = line.split_once('=').unwrap_or((line, ""));
    out.push_str(&format!("  {name}=... is long: in the file job.sbatch\n"));
}

/// Names of nodes, folded; where they are many, their ends.
fn host_list(names: &[String]) -> String {
    const MOST: usize = 120;
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
    let folded = fold_hostlist(sorted.iter().copied());
    match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) if folded.len() > MOST => format!("from {first} to {last}"),
        _ => folded,
    }
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

/// A number of things: "1 node", "2 nodes".
pub fn counted(count: u32, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

/// Three digits.
pub fn digits(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v >= 1e6 => format!("{v:.1e}"),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.9995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// The unit in which a time has no zeros in front, and how many of them are a second.
pub fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s >= 0.1 => ("s", 1.0),
        s if s >= 1e-4 => ("ms", 1e3),
        _ => ("us", 1e6),
    }
}

/// In its unit, with three digits.
pub fn time(seconds: f64) -> String {
    let (name, scale) = unit(seconds);
    format!("{} {name}", digits(seconds * scale))
}

fn time_with_range(seconds: &Predicted) -> String {
    let (name, scale) = unit(seconds.value);
    let [value, low, high] = [seconds.value, seconds.low, seconds.high].map(|s| digits(s * scale));
    format!("{value} {name} (95 %: {low} to {high})")
}

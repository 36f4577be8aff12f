//! Formats times, lists of nodes and paragraphs for a terminal of 80 columns.

use idlewave_network::Predicted;
use idlewave_place::batch::fold_hostlist;
use idlewave_units::show::seconds;

/// Columns.
pub const WIDTH: usize = 80;

/// Breaks a paragraph into lines of 80 columns; lines after the first are indented by two more.
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

/// Folded node names; if there are many, only the first and the last.
pub fn host_list(names: &[String]) -> String {
    const MOST: usize = 120;
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
    let folded = fold_hostlist(sorted.iter().copied());
    match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) if folded.len() > MOST => format!("from {first} to {last}"),
        _ => folded,
    }
}

/// The unit for a column of such times, and how many of it make a second.
pub fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s >= 0.1 => ("s", 1.0),
        s if s >= 1e-4 => ("ms", 1e3),
        _ => ("us", 1e6),
    }
}

pub fn time_with_range(s: &Predicted) -> String {
    let [value, low, high] = [s.value, s.low, s.high].map(seconds);
    format!("{value} (95 %: {low} to {high})")
}

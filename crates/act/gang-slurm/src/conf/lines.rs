//! Lines of slurm.conf as Slurm reads them: `#` starts a comment unless a backslash precedes it, a
//! backslash at the end joins the next line, and a line holds `key=value` pairs whose keys may be
//! in any case and whose values may be quoted.
//!
//! Source: slurm.conf(5), and Slurm's behaviour: it removes a comment before it looks for a
//! backslash at the end.

use std::ops::Range;

/// One line together with those joined to it.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    /// Number of the first line, counted from 1.
    pub(crate) number: usize,
    /// All of its bytes, including line ends.
    pub(crate) raw: &'a str,
    /// Joined, without comments and line end.
    pub(crate) text: String,
}

/// The lines of a text; concatenated, their bytes are the text.
pub(crate) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut found = Vec::new();
    let (mut at, mut number) = (0, 1);
    while at < text.len() {
        let mut end = at;
        let mut joined = String::new();
        let mut count = 0;
        for physical in text[at..].split_inclusive('\n') {
            end += physical.len();
            count += 1;
            let (part, goes_on) = part(physical);
            joined.push_str(part);
            if !goes_on {
                break;
            }
        }
        found.push(Line {
            number,
            raw: &text[at..end],
            text: joined,
        });
        at = end;
        number += count;
    }
    found
}

/// The effective part of one line, and whether the next line is joined to it.
fn part(line: &str) -> (&str, bool) {
    let mut backslashes = 0;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        match c {
            '#' if backslashes % 2 == 0 => {
                end = at;
                break;
            }
            '\\' => backslashes += 1,
            _ => backslashes = 0,
        }
    }
    let line = line[..end].trim_end();
    let without = line.trim_end_matches('\\');
    match (line.len() - without.len()) % 2 {
        1 => (&line[..line.len() - 1], true),
        _ => (line, false),
    }
}

/// A pair of a line, as ranges in the joined text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: Range<usize>,
    /// Including quotes.
    pub(crate) value: Range<usize>,
}

impl Pair {
    pub(crate) fn is(&self, text: &str, key: &str) -> bool {
        text[self.key.clone()].eq_ignore_ascii_case(key)
    }
    /// Without quotes.
    pub(crate) fn value<'a>(&self, text: &'a str) -> &'a str {
        let value = &text[self.value.clone()];
        let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
        inner.unwrap_or(value)
    }
}

/// The pairs of a joined line, up to the first item that is not a pair, such as `Include FILE`.
pub(crate) fn pairs(text: &str) -> Vec<Pair> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(pair) = pair(text, at) {
        at = pair.value.end;
        found.push(pair);
    }
    found
}

fn pair(text: &str, from: usize) -> Option<Pair> {
    let skip = |at: usize, of: fn(char) -> bool| {
        let rest = &text[at..];
        at + (rest.len() - rest.trim_start_matches(of).len())
    };
    let begin = skip(from, char::is_whitespace);
    let end = skip(begin, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    if end == begin {
        return None;
    }
    let mut at = skip(end, char::is_whitespace);
    if text[at..].starts_with(['-', '+', '*', '/']) {
        at += 1;
    }
    if !text[at..].starts_with('=') {
        return None;
    }
    let start = skip(at + 1, char::is_whitespace);
    let quoted = text[start..]
        .strip_prefix('"')
        .and_then(|rest| rest.find('"'))
        .map(|length| start + 1 + length + 1)
        .filter(|end| text[*end..].chars().next().is_none_or(char::is_whitespace));
    let stop = quoted.unwrap_or_else(|| skip(start, |c| !c.is_whitespace()));
    (stop > start).then_some(Pair {
        key: begin..end,
        value: start..stop,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(text: &str) -> Vec<(String, String)> {
        let of = |p: &Pair| (text[p.key.clone()].to_owned(), p.value(text).to_owned());
        pairs(text).iter().map(of).collect()
    }

    #[test]
    fn lines_are_joined_and_comments_taken_off() {
        let comments = [
            ("A=\\\\#4", "A=\\\\"),
            ("A=\\x#4", "A=\\x"),
            ("A=\\\\\\#4", "A=\\\\\\#4"),
        ];
        for (line, text) in comments {
            assert_eq!(part(line), (text, false));
        }
        let text = "A=1 # no \\\nB=2 \\ \n  C=3\\\\\nD=\\#4 \\\r\nE=5 # six \\\n#\n\nF=7 \\";
        let found: Vec<_> = lines(text)
            .into_iter()
            .map(|line| (line.number, line.text))
            .collect();
        let expected = [
            (1, "A=1"),
            (2, "B=2   C=3\\\\"),
            (4, "D=\\#4 E=5"),
            (6, ""),
            (7, ""),
            (8, "F=7 "),
        ];
        let expected: Vec<_> = expected.map(|(n, t)| (n, t.to_owned())).to_vec();
        assert_eq!(found, expected);
    }

    #[test]
    fn pairs_may_be_quoted_and_spaced() {
        let of = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            told(" PartitionName = a  Nodes=n[1-2],m State=\"UP it is\" X+=1"),
            [
                of("PartitionName", "a"),
                of("Nodes", "n[1-2],m"),
                of("State", "UP it is"),
                of("X", "1")
            ]
        );
        assert_eq!(told("Include /etc/slurm/nodes.conf"), []);
        assert_eq!(told("A=1 nonsense B=2"), [of("A", "1")]);
        assert_eq!(told("A=\"open B=2"), [of("A", "\"open"), of("B", "2")]);
        assert_eq!(told("A="), []);
    }

    proptest! {
        #[test]
        fn lines_are_the_text_and_pairs_are_in_it(text in "[ab=\"#\\\\ \r\n]{0,40}") {
            let found = lines(&text);
            let whole: String = found.iter().map(|l| l.raw).collect();
            prop_assert_eq!(&whole, &text);
            for line in found {
                prop_assert!(!line.text.contains('\n'));
                for pair in pairs(&line.text) {
                    prop_assert!(pair.key.end < pair.value.start);
                    prop_assert!(pair.value.end <= line.text.len());
                }
            }
        }
    }
}

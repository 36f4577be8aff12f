//! Lists of names as Slurm writes them: `n[001-016,020],login1`, with several brackets in a name or not.

use crate::capacity::cut;
use crate::topology::MAX_NODES;
use thiserror::Error;

/// Why text is no list of names. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostlistError {
    /// Brackets that do not match.
    #[error("read the list of names {0:?}: its brackets do not match")]
    Brackets(String),
    /// What stands in brackets is no list of numbers and ranges.
    #[error("read {range:?} in the list of names {list:?}: it is no number or range of numbers")]
    Range {
        /// The list, cut.
        list: String,
        /// The part that is wrong, cut.
        range: String,
    },
    /// A name without characters.
    #[error("read the list of names {0:?}: one of the names is empty")]
    Empty(String),
    /// More names than a topology has nodes.
    #[error("read the list of names {0:?}: it stands for more than 1000000 names")]
    TooMany(String),
}

/// Most digits of a number: more names than a machine has memory for need fewer.
const MOST_DIGITS: usize = 18;
/// Most bytes of all names together.
const MOST_BYTES: usize = 128 << 20;

/// The names for which a list stands, in its order. Zeros in front of a number are kept.
///
/// # Errors
/// Text that is no list, and one of more than [`MAX_NODES`] names.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    let mut bytes = 0;
    for part in split(list)? {
        let part = part.trim();
        if part.is_empty() {
            return Err(HostlistError::Empty(cut(list)));
        }
        for name in expand_one(list, part, MAX_NODES - names.len())? {
            bytes += name.len();
            if bytes > MOST_BYTES {
                return Err(HostlistError::TooMany(cut(list)));
            }
            names.push(name);
        }
    }
    Ok(names)
}

/// The parts between commas outside brackets.
fn split(list: &str) -> Result<Vec<&str>, HostlistError> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return Err(HostlistError::Brackets(cut(list))),
            '[' => inside = true,
            ']' if !inside => return Err(HostlistError::Brackets(cut(list))),
            ']' => inside = false,
            ',' if !inside => {
                parts.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostlistError::Brackets(cut(list)));
    }
    parts.push(list.get(start..).unwrap_or_default());
    Ok(parts)
}

/// One part with any number of brackets: the last one changes fastest.
fn expand_one(list: &str, part: &str, most: usize) -> Result<Vec<String>, HostlistError> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, behind)) = rest.split_once('[') {
        let (ranges, behind) = behind
            .split_once(']')
            .ok_or_else(|| HostlistError::Brackets(cut(list)))?;
        let numbers = numbers(list, ranges, most)?;
        let count = names.len().saturating_mul(numbers.len());
        let longest = part.len() + MOST_DIGITS;
        if count > most || count.saturating_mul(longest) > MOST_BYTES {
            return Err(HostlistError::TooMany(cut(list)));
        }
        let joined = |name: &String| {
            let start = format!("{name}{before}");
            let with = move |number: &String| format!("{start}{number}");
            numbers.iter().map(with).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(joined).collect();
        rest = behind;
    }
    if names.len() > most {
        return Err(HostlistError::TooMany(cut(list)));
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

fn numbers(list: &str, ranges: &str, most: usize) -> Result<Vec<String>, HostlistError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let wrong = || HostlistError::Range {
            list: cut(list),
            range: cut(range),
        };
        let number = |text: &str| {
            let digits = text.len() <= MOST_DIGITS && text.bytes().all(|b| b.is_ascii_digit());
            match digits {
                true => text.parse::<u64>().map_err(|_| wrong()),
                false => Err(wrong()),
            }
        };
        let (first, last) = range
            .trim()
            .split_once('-')
            .unwrap_or((range.trim(), range.trim()));
        let (from, to) = (number(first)?, number(last)?);
        if to < from {
            return Err(wrong());
        }
        if to - from >= (most - numbers.len().min(most)) as u64 {
            return Err(HostlistError::TooMany(cut(list)));
        }
        let width = first.len();
        numbers.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

/// Names with the same text before their number, not yet written.
struct Open<'a> {
    stem: &'a str,
    /// Digits of numbers with zeros in front, 0 for numbers without.
    width: usize,
    ranges: Vec<(u64, u64)>,
}

/// Names as one list, in their order: what follows a name with the next number is folded with it.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut list = String::new();
    let mut open: Option<Open<'_>> = None;
    for name in names {
        let Some((stem, number, width)) = numbered(name) else {
            close(&mut list, open.take());
            separate(&mut list);
            list.push_str(name);
            continue;
        };
        match &mut open {
            Some(open) if open.stem == stem && open.width == width => {
                match open.ranges.last_mut() {
                    Some((_, last)) if *last + 1 == number => *last = number,
                    _ => open.ranges.push((number, number)),
                }
            }
            _ => {
                let ranges = vec![(number, number)];
                let next = Open {
                    stem,
                    width,
                    ranges,
                };
                close(&mut list, open.replace(next));
            }
        }
    }
    close(&mut list, open);
    list
}

/// What is before a name's last number, the number, and its digits where it has zeros in front (0 where it has none).
fn numbered(name: &str) -> Option<(&str, u64, usize)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = name.get(stem.len()..)?;
    let number = digits
        .parse()
        .ok()
        .filter(|_| digits.len() <= MOST_DIGITS)?;
    let zeros = digits.starts_with('0') && digits.len() > 1;
    Some((stem, number, if zeros { digits.len() } else { 0 }))
}

fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push(',');
    }
}

fn close(list: &mut String, open: Option<Open<'_>>) {
    let Some(Open {
        stem,
        width,
        ranges,
    }) = open
    else {
        return;
    };
    separate(list);
    list.push_str(stem);
    let range = |(from, to): &(u64, u64)| match from == to {
        true => format!("{from:0width$}"),
        false => format!("{from:0width$}-{to:0width$}"),
    };
    let one = matches!(ranges.as_slice(), [(from, to)] if from == to);
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    match one {
        true => list.push_str(&ranges.concat()),
        false => list.push_str(&format!("[{}]", ranges.join(","))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap()
    }

    #[test]
    fn ranges_keep_zeros_in_front_and_lists_their_order() {
        assert_eq!(
            names("n[08-11],login1"),
            ["n08", "n09", "n10", "n11", "login1"]
        );
        assert_eq!(names("n[3,1]x"), ["n3x", "n1x"]);
        assert_eq!(names("a"), ["a"]);
    }

    #[test]
    fn several_brackets_change_the_last_number_fastest() {
        assert_eq!(names("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(names("r[1-2][0,5]"), ["r10", "r15", "r20", "r25"]);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_text() {
        for list in [
            "", "a,", "a[1-2", "a]1", "a[1-[2]]", "a[x]", "a[]", "a[2-1]", "a[1-2-3]", "a[-1]",
        ] {
            let error = expand(list).unwrap_err();
            assert!(error.to_string().contains(&format!("{list:?}")), "{error}");
        }
    }

    #[test]
    fn a_list_that_explodes_is_refused_before_it_does() {
        for list in [
            "a[1-1000001]",
            "a[1-2000][1-2000]",
            "a[0-999999999999999999]",
            "a[1-900000],b[1-900000]",
        ] {
            assert_eq!(expand(list), Err(HostlistError::TooMany(list.to_owned())));
        }
        assert_eq!(names("a[1-1000000]").len(), 1_000_000);
        let long = "x".repeat(200);
        assert!(expand(&format!("{long}[1-1000000]")).is_err());
    }

    #[test]
    fn neighbours_fold_and_others_do_not() {
        assert_eq!(
            fold(["n001", "n002", "n003", "n010", "login"]),
            "n[001-003,010],login"
        );
        assert_eq!(fold(["n9", "n10"]), "n[9-10]");
        assert_eq!(fold(["n9", "n010"]), "n9,n010");
        assert_eq!(fold(["a1"]), "a1");
        assert_eq!(fold([]), "");
    }

    proptest! {
        #[test]
        fn what_is_folded_expands_to_the_same_names(
            names in prop::collection::vec("[a-c]{1,2}[0-9]{0,3}([a-z][0-9]{1,2})?", 1..30),
        ) {
            let list = fold(names.iter().map(String::as_str));
            prop_assert_eq!(expand(&list), Ok(names));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a\\[\\]0-9,x -]{0,14}") {
            let _ = expand(&text);
        }
    }
}

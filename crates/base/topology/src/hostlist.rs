//! Lists of names in Slurm's notation: `n[001-016,020],login1`, with any number of brackets in a
//! name.

use crate::topology::{LONGEST_NAME, MAX_NODES};
use idlewave_units::foreign::cut;
use thiserror::Error;

/// Why a list of names is invalid. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostlistError {
    /// Brackets that do not match.
    #[error("read the list of names {0:?}: its brackets do not match")]
    Brackets(String),
    /// The content of brackets is not a list of numbers and ranges.
    #[error(
        "read {range:?} in the list of names {list:?}: it is not a number or a range of numbers"
    )]
    Range {
        /// The list, cut.
        list: String,
        /// The part that is wrong, cut.
        range: String,
    },
    /// An empty name.
    #[error("read the list of names {0:?}: one of the names is empty")]
    Empty(String),
    /// A name longer than any host's.
    #[error("read the list of names {0:?}: one of the names is longer than 255 bytes")]
    Long(String),
    /// More names than a topology can have nodes.
    #[error("read the list of names {0:?}: it expands to more than 1000000 names")]
    TooMany(String),
}

/// Most digits of a number; more names than fit into memory need fewer.
const MOST_DIGITS: usize = 18;
/// Most bytes of all names together.
const MOST_BYTES: usize = 128 << 20;

/// Expands a list of names, in order. Leading zeros of numbers are kept.
///
/// # Errors
/// An invalid list, or one of more than [`MAX_NODES`] names.
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

/// Expands one part with any number of brackets; the last one varies fastest.
fn expand_one(list: &str, part: &str, most: usize) -> Result<Vec<String>, HostlistError> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, behind)) = rest.split_once('[') {
        let (ranges, behind) = behind
            .split_once(']')
            .ok_or_else(|| HostlistError::Brackets(cut(list)))?;
        let numbers = numbers(list, ranges, most)?;
        let so_far = names.first().map_or(0, String::len);
        // Each bracket writes all names again.
        if so_far + before.len() > LONGEST_NAME {
            return Err(HostlistError::Long(cut(list)));
        }
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

/// Folds the names, in order. Numbers at the end of a name fold into ranges while they rise by one
/// and keep their leading zeros: a range has as many digits as its first number.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for name in names {
        let (prefix, number) = split_number(name);
        if let Some(last) = groups.last_mut() {
            if last.prefix == prefix && last.take(number) {
                continue;
            }
        }
        let ranges = number.iter().map(|n| Range::of(n)).collect();
        groups.push(Group { prefix, ranges });
    }
    let parts: Vec<String> = groups.iter().map(Group::text).collect();
    parts.join(",")
}

/// The name without the number at its end, and the number's digits.
pub fn split_number(name: &str) -> (&str, Option<&str>) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[prefix.len()..];
    // Longer ones are serial numbers, and do not fit an integer.
    if digits.is_empty() || digits.len() > 15 {
        return (name, None);
    }
    (prefix, Some(digits))
}

struct Group<'a> {
    prefix: &'a str,
    ranges: Vec<Range<'a>>,
}

struct Range<'a> {
    first: &'a str,
    last: String,
}

impl<'a> Range<'a> {
    fn of(number: &'a str) -> Self {
        Self {
            first: number,
            last: number.to_owned(),
        }
    }
}

impl<'a> Group<'a> {
    /// Adds the number if these brackets can hold it.
    fn take(&mut self, number: Option<&'a str>) -> bool {
        let (Some(number), Some(last)) = (number, self.ranges.last_mut()) else {
            return false;
        };
        let width = last.first.len();
        let next = last
            .last
            .parse::<u64>()
            .map(|n| format!("{:0width$}", n + 1));
        if next.is_ok_and(|next| next == number) {
            last.last = number.to_owned();
            return true;
        }
        let padded = |n: &str| n.len() > 1 && n.starts_with('0');
        let same = number.len() == width || !(padded(number) || padded(last.first));
        if same {
            self.ranges.push(Range::of(number));
        }
        same
    }

    fn text(&self) -> String {
        let range = |r: &Range<'_>| match r.first == r.last {
            true => r.first.to_owned(),
            false => format!("{}-{}", r.first, r.last),
        };
        match self.ranges.as_slice() {
            [] => self.prefix.to_owned(),
            [one] if one.first == one.last => format!("{}{}", self.prefix, one.first),
            many => {
                let many: Vec<String> = many.iter().map(range).collect();
                format!("{}[{}]", self.prefix, many.join(","))
            }
        }
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

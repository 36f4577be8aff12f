//! How to write numbers in boxes and foreign names: short, ASCII only.

/// A number for tight places, such as a box of a drawing: 64, 1k, 65k, 1M. Thousands are rounded
/// down: 65,536 is 65k.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..=999 => number.to_string(),
        1_000..=999_999 => format!("{}k", number / 1_000),
        _ if number % 1_000_000 < 100_000 => format!("{}M", number / 1_000_000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Foreign text for a terminal: printable ASCII stays, everything else becomes an escape, so that a
/// task's name can neither move the cursor nor forge a line.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            match c {
                ' '..='~' => out.push(c),
                _ => out.extend(c.escape_default()),
            }
            out
        })
}

/// The text with its first letter as a capital.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>());
    first.unwrap_or_default() + letters.as_str()
}

/// Units that stay on the line of their number.
const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "%", "k", "M", "G", "CPUs", "ranks"];

/// The text with `blank` between each number and its unit, so that no line breaks there.
pub(crate) fn kept(text: &str, blank: char) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            let unit = word.trim_end_matches(|c: char| ".,;:)".contains(c));
            let after_number = out.ends_with(|c: char| c.is_ascii_digit());
            out.push(if after_number && UNITS.contains(&unit) {
                blank
            } else {
                ' '
            });
        }
        out.push_str(word);
    }
    out
}

/// At most `width` characters of ASCII text; ".." marks a cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    let dots = &".."[..width.min(2)];
    format!("{kept}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_short() {
        assert_eq!(short(64), "64");
        assert_eq!(short(1_024), "1k");
        assert_eq!(short(65_536), "65k");
        assert_eq!(short(1_000_000), "1M");
        assert_eq!(short(1_048_576), "1M");
    }

    proptest! {
        #[test]
        fn no_name_can_leave_its_line_or_its_alphabet(name in ".*", width in 0usize..40) {
            let shown = fit(&plain(&name), width);
            prop_assert!(shown.len() <= width);
            prop_assert!(shown.bytes().all(|b| (b' '..=b'~').contains(&b)));
        }
    }
}

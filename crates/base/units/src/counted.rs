//! Counts with their nouns.

use std::fmt::Display;

/// A number with its noun, given in the singular: `1 rank`, `0 processes`, `65,536 ranks`.
pub fn counted<N: Copy + Display + TryInto<u64>>(count: N, noun: &str) -> String {
    let number = count.try_into().map_or_else(|_| count.to_string(), grouped);
    format!("{number} {}", named(count, noun))
}

/// The noun alone, if the number is written separately.
pub fn named<N: TryInto<u64>>(count: N, noun: &str) -> String {
    if matches!(count.try_into(), Ok(1)) {
        return noun.to_owned();
    }
    let hissing = ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    format!("{noun}{}", if hissing { "es" } else { "s" })
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_every_other_number_plural() {
        assert_eq!(counted(1_u32, "rank"), "1 rank");
        assert_eq!(counted(0_usize, "process"), "0 processes");
        assert_eq!(counted(2_u64, "switch"), "2 switches");
        assert_eq!(counted(65_536, "CPU"), "65,536 CPUs");
        assert_eq!(named(1, "node"), "node");
    }

    #[test]
    fn digits_stand_in_groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_048_576, "1,048,576"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}

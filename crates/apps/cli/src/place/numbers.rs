//! Lists of numbers on the command line: `1,2,4-8`.

use std::str::FromStr;

/// Numbers from 1, from a list with ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub Vec<u32>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            |part: &str| format!("`{part}` is not a number from 1 to 4096, as in 1,2,4-8");
        let number = |part: &str| -> Result<u32, String> {
            let number = part.trim().parse::<u32>().ok();
            number
                .filter(|n| (1..=4_096).contains(n))
                .ok_or_else(|| refused(part))
        };
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(format!("`{part}` is a descending range"));
            }
            all.extend(first..=last);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Numbers(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_lists_and_ranges() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|n| n.0);
        assert_eq!(numbers("4-6,1,5"), Ok(vec![1, 4, 5, 6]));
        for wrong in ["", "0", "2-1", "a", "1-", "5000"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}

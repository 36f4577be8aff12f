//! Lists of numbers on the command line: `1e3`, `100,200`, `1e2..1e6`.

use idlewave_units::Nanos;
use std::str::FromStr;

/// Rank counts, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankNumbers(pub Vec<u32>);

/// Lengths of computations, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grains(pub Vec<Nanos>);

/// The most values in a list.
const MOST: usize = 64;
/// The most ranks: as many as fit into the memory of a large node.
const MOST_RANKS: u64 = 100_000_000;

impl FromStr for RankNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| -> Result<u64, String> {
            let refused =
                || format!("`{part}` is not a number of ranks from 1 to {MOST_RANKS}, as in 1e4");
            let value = match part.parse::<u64>() {
                Ok(value) => value,
                Err(_) => {
                    let value: f64 = part.parse().map_err(|_| refused())?;
                    if value.fract() != 0.0 || !(0.0..=1e18).contains(&value) {
                        return Err(refused());
                    }
                    value as u64
                }
            };
            (1..=MOST_RANKS)
                .contains(&value)
                .then_some(value)
                .ok_or_else(refused)
        };
        let ranks = list(text, number)?;
        Ok(RankNumbers(ranks.into_iter().map(|r| r as u32).collect()))
    }
}

impl FromStr for Grains {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |part: &str| match part.parse::<Nanos>() {
            Ok(Nanos::ZERO) => Err(format!(
                "`{part}` is not a computation time: it must be above 0"
            )),
            Ok(time) => Ok(time.get()),
            Err(error) => Err(error.to_string()),
        };
        let times = list(text, time)?;
        Ok(Grains(times.into_iter().map(Nanos::from_nanos).collect()))
    }
}

/// Parses values separated by commas; `a..b` means a, ten times a and so on, and b.
fn list(text: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Vec<u64>, String> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let Some((first, last)) = part.split_once("..") else {
            all.push(read(part)?);
            continue;
        };
        let (first, last) = (read(first.trim())?, read(last.trim())?);
        if first > last {
            return Err(format!("`{part}` is a descending range"));
        }
        let mut at = first;
        while at < last {
            all.push(at);
            at = at.saturating_mul(10);
        }
        all.push(last);
    }
    match all.len() <= MOST {
        true => Ok(all),
        false => Err(format!(
            "`{text}` has {} values; the maximum is {MOST}",
            all.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let ranks = |text: &str| text.parse::<RankNumbers>().map(|r| r.0);
        assert_eq!(ranks("1e3"), Ok(vec![1_000]));
        assert_eq!(ranks("1e2..1e4"), Ok(vec![100, 1_000, 10_000]));
        assert_eq!(ranks("64..500, 7"), Ok(vec![64, 500, 7]));
        assert_eq!(ranks("5..5"), Ok(vec![5]));
        for text in ["", "0", "1.5", "-3", "1e9", "1e4..1e2", "x", "1e2.."] {
            assert!(ranks(text).is_err(), "{text}");
        }
        let grains = |text: &str| text.parse::<Grains>().map(|g| g.0);
        assert_eq!(
            grains("10us..2ms"),
            Ok([10, 100, 1_000, 2_000].map(Nanos::from_micros).to_vec())
        );
        assert!(grains("0us").is_err());
        assert!(grains("10").is_err());
    }
}

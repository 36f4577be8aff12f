//! Detours of other tools: the files of the `selfish` benchmark of Netgauge, and similar two-column
//! files.
//!
//! Each line has start and length in nanoseconds, decimal numbers separated by blanks or a comma;
//! `#` starts a comment, empty lines are skipped. Starts count from an arbitrary origin and rise; a
//! detour ends before the next one starts. One comment is interpreted: `# Measurement period: 10.0
//! s`, anywhere in the file.

/// A measurement of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selfish {
    /// Start relative to the first, and length of each detour in nanoseconds.
    pub events: Vec<(u64, u64)>,
    /// Measured time, in nanoseconds; `None` if the file does not state it.
    pub period_ns: Option<u64>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SelfishError {
    /// The line, from 1; the last one if something is missing.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Above this, 104 days, the doubles that tools write no longer hold every nanosecond.
const LATEST_NS: f64 = 9_007_199_254_740_992.0;
/// Tolerated overlap of a detour with the next one: tools round both.
const ROUNDING_NS: u64 = 1;

impl Selfish {
    /// Reads a file.
    ///
    /// # Errors
    /// The first line that is not a valid detour or is out of order; a file without detours.
    pub fn read(bytes: &[u8]) -> Result<Selfish, SelfishError> {
        let mut read = Selfish::default();
        let mut origin = None;
        let mut last_line = 1;
        for (number, line) in bytes.split(|&b| b == b'\n').enumerate() {
            let number = number + 1;
            let wrong = |reason: String| SelfishError {
                line: number,
                reason,
            };
            let text = std::str::from_utf8(line)
                .map_err(|_| wrong("not text like \"1520.25 310.5\"".to_owned()))?
                .trim();
            let (numbers, comment) = match text.split_once('#') {
                Some((numbers, comment)) => (numbers.trim(), Some(comment)),
                None => (text, None),
            };
            if let Some(period) = comment.and_then(measurement_period) {
                read.period_ns = Some(period);
            }
            if numbers.is_empty() {
                continue;
            }
            last_line = number;
            let (begin, length) = detour(numbers).map_err(wrong)?;
            let origin = *origin.get_or_insert(begin);
            if begin < origin {
                return Err(wrong(format!(
                    "the start {begin} ns is before the first one"
                )));
            }
            // Rounded once, so that the distance of two starts is as exact as the starts.
            let begin = (begin - origin).round() as u64;
            let length = length.round() as u64;
            if let Some(&(before, lasted)) = read.events.last() {
                if begin < before {
                    return Err(wrong(format!(
                        "it starts {} ns before the detour above; detours must be in order of time",
                        before - begin
                    )));
                }
                let end = before + lasted;
                if begin + ROUNDING_NS < end {
                    return Err(wrong(format!(
                        "it starts {} ns before the detour above ends",
                        end - begin
                    )));
                }
            }
            read.events.push((begin, length));
        }
        match read.events.is_empty() {
            true => Err(SelfishError {
                line: last_line,
                reason: "no detours in the file; expected lines of start and length in ns"
                    .to_owned(),
            }),
            false => Ok(read),
        }
    }

    /// Measured time in nanoseconds: as stated in the file, or up to a mean gap after the start of
    /// the last detour; at least to that detour's end.
    pub fn watched_ns(&self) -> u64 {
        let Some(&(begin, length)) = self.events.last() else {
            return self.period_ns.unwrap_or(0);
        };
        let gap = begin / (self.events.len() as u64 - 1).max(1);
        let watched = self.period_ns.unwrap_or(begin + gap);
        watched.max(begin + length.max(1))
    }
}

/// Start and length of a detour, nanoseconds.
fn detour(text: &str) -> Result<(f64, f64), String> {
    let mut words = text
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|w| !w.is_empty());
    let (Some(begin), Some(length)) = (words.next(), words.next()) else {
        return Err(format!(
            "{} is one number, expected start and length in ns",
            shown(text)
        ));
    };
    if let Some(more) = words.next() {
        return Err(format!("unexpected {} after start and length", shown(more)));
    }
    Ok((nanos(begin)?, nanos(length)?))
}

fn nanos(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(ns) if (0.0..=LATEST_NS).contains(&ns) => Ok(ns),
        Ok(ns) if ns < 0.0 => Err(format!("{} is negative", shown(word))),
        Ok(_) => Err(format!("{} is not a time of at most 2^53 ns", shown(word))),
        Err(_) => Err(format!("{} is not a number", shown(word))),
    }
}

/// A word for a message: shortened, on one line.
fn shown(word: &str) -> String {
    let short: String = word.chars().take(30).flat_map(char::escape_debug).collect();
    match word.chars().nth(30) {
        Some(_) => format!("'{short}...'"),
        None => format!("'{short}'"),
    }
}

/// ` Measurement period: 10.0 s` in nanoseconds.
fn measurement_period(comment: &str) -> Option<u64> {
    let text = comment.trim().to_ascii_lowercase();
    let rest = text.strip_prefix("measurement period:")?;
    let seconds: f64 = rest.trim().strip_suffix('s')?.trim().parse().ok()?;
    let ns = seconds * 1e9;
    (0.0..=LATEST_NS).contains(&ns).then(|| ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "# Selfish Benchmark\n# Minimal cycle length [ns]: 24.10\n# Threshold [ns]: 216.9\n\
        # Time [ns]\tselfish duration [ns]\n0.00\t310.25\n1520.75\t99.50\n1e4\t5.0e2\n\
        # CPU overhead due to noise: 0.01%\n# Measurement period: 0.5 s\n\n";

    #[test]
    fn the_forms_of_a_file_read_alike() {
        let expected = Selfish {
            events: vec![(0, 310), (1_521, 100), (10_000, 500)],
            period_ns: Some(500_000_000),
        };
        let crlf = FILE.replace('\n', "\r\n");
        for text in [FILE, &crlf, FILE.trim_end(), &FILE.replace('\t', ", ")] {
            assert_eq!(Selfish::read(text.as_bytes()), Ok(expected.clone()));
        }
        let bare: String = FILE
            .lines()
            .filter(|l| !l.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n");
        let read = Selfish::read(bare.as_bytes()).unwrap();
        assert_eq!((read.events, read.period_ns), (expected.events, None));
        let comment = Selfish::read(b"5 1 # the first\n7.4 2").unwrap();
        assert_eq!(comment.events, [(0, 1), (2, 2)]);
    }

    #[test]
    fn the_time_measured_reaches_beyond_the_last_detour() {
        let of = |text: &str| Selfish::read(text.as_bytes()).unwrap().watched_ns();
        assert_eq!(of("0 1\n100 1\n400 1"), 600);
        assert_eq!(of("0 1\n100 1\n400 1\n# Measurement period: 1e-6 s"), 1_000);
        // A stated period shorter than the detours is ignored.
        assert_eq!(of("0 1\n400 30\n# Measurement period: 1e-8 s"), 430);
        assert_eq!(of("77 30"), 30);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, said) in [
            ("", 1, "no detours"),
            ("# only\n# comments\n", 1, "no detours"),
            ("0 1\nx 2", 2, "'x' is not a number"),
            ("0 1\n5", 2, "one number"),
            ("0 1\n5 6 7", 2, "'7' after"),
            ("0 1\n5 -6", 2, "negative"),
            ("0 1\n5 nan", 2, "not a time"),
            ("0 1\ninf 6", 2, "not a time"),
            ("0 1\n5 1e99", 2, "not a time"),
            ("10 1\n20 1\n15 1", 3, "5 ns before the detour above; "),
            ("10 1\n5 1", 2, "before the first"),
            ("0 100\n50 1", 2, "50 ns before the detour above ends"),
        ] {
            let error = Selfish::read(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(said), "{text}: {error}");
        }
        let error = Selfish::read(b"0 1\n\xff\xfe 2").unwrap_err();
        assert_eq!((error.line, error.reason.contains("not text")), (2, true));
        let long = format!("0 {}", "9x".repeat(50));
        let error = Selfish::read(long.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 80, "{error}");
    }

    #[test]
    fn a_detour_may_seem_to_end_a_nanosecond_too_late() {
        assert!(Selfish::read(b"0 10.4\n9.6 1").is_ok());
        assert!(Selfish::read(b"0 11.5\n10.4 1").is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            gaps in proptest::collection::vec((0_u64..1_000_000, 0_u64..100_000), 1..50),
            first in 0_u64..1_000_000_000, crlf: bool, header: bool,
        ) {
            let end = if crlf { "\r\n" } else { "\n" };
            let mut text = if header { format!("# Time [ns]\tselfish duration [ns]{end}") } else { String::new() };
            let mut at = first;
            let mut expected = Vec::new();
            for (gap, length) in gaps {
                at += gap;
                text.push_str(&format!("{at}.00\t{length}.00{end}"));
                expected.push((at, length));
                at += length;
            }
            let origin = expected[0].0;
            for event in &mut expected {
                event.0 -= origin;
            }
            let read = Selfish::read(text.as_bytes()).unwrap();
            prop_assert_eq!(&read.events, &expected);
            prop_assert!(read.watched_ns() >= expected.last().unwrap().0);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(read) = Selfish::read(&bytes) {
                prop_assert!(!read.events.is_empty() && read.watched_ns() > 0);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9eE.,+\\-# \t\r\n]{0,80}") {
            if let Ok(read) = Selfish::read(text.as_bytes()) {
                prop_assert!(read.events.windows(2).all(|w| w[0].0 <= w[1].0));
            }
        }
    }
}

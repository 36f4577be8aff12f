//! The file of a load: TOML that `idlewave place load` writes, or someone by hand.

use crate::error::LoadError;
use chrono::{DateTime, Datelike, Utc};
use idlewave_units::BytesPerSecond;
use idlewave_units::foreign::at_line;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use toml::Spanned;

/// A second of the years 0 to 9999, which RFC 3339 can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When(DateTime<Utc>);

impl When {
    /// Seconds since 1970; `None` beyond these years.
    pub fn of(seconds: i64) -> Option<Self> {
        Self::within(DateTime::from_timestamp(seconds, 0)?)
    }

    /// Reads RFC 3339, such as `2026-03-01T12:00:00Z`; `None` for other text, and for a time that
    /// is beyond these years in UTC.
    pub fn read(text: &str) -> Option<Self> {
        Self::within(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
    }

    fn within(time: DateTime<Utc>) -> Option<Self> {
        (0..=9999).contains(&time.year()).then_some(When(time))
    }

    /// In RFC 3339, in UTC.
    pub fn text(self) -> String {
        self.0.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.0.timestamp()
    }
}

/// What a load is put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// From a node or switch to another: the link between them, or, between two nodes without a
    /// link, all links of their path.
    Pair(String, String),
    /// Out of a node, over all its links together.
    Out(String),
    /// Into a node.
    Into(String),
}

/// How a load became known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Someone said so.
    #[default]
    Stated,
    /// Counters of this link.
    Counters,
    /// Estimated from counters of adapters ([`crate::between`]).
    Estimated,
}

/// The load of a link, of a node or of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEntry {
    /// Where.
    pub ends: Ends,
    /// Bytes per second; may be 0.
    pub rate: f64,
    /// The interval of the rate, bytes per second; `None` if not known.
    pub range: Option<(f64, f64)>,
    /// How it became known.
    pub origin: Origin,
    /// The line of the entry in its file, from 1; 0 if it is of no file.
    pub line: usize,
}

/// A running job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEntry {
    /// As the batch system writes it.
    pub id: String,
    /// Its nodes, as a list in Slurm's form.
    pub nodes: String,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadFile {
    /// When it was measured; `None` if the file does not say.
    pub taken: Option<When>,
    /// Over how many seconds.
    pub seconds: Option<f64>,
    /// What makes it doubtful.
    pub warnings: Vec<String>,
    /// Loads.
    pub loads: Vec<LoadEntry>,
    /// Running jobs.
    pub jobs: Vec<JobEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    taken: Option<Spanned<String>>,
    seconds: Option<f64>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    load: Vec<Spanned<LoadForm>>,
    #[serde(default)]
    job: Vec<JobEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadForm {
    from: Option<String>,
    to: Option<String>,
    rate: String,
    low: Option<String>,
    high: Option<String>,
    #[serde(default)]
    origin: Origin,
}

impl LoadFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Text that is not TOML, unknown or missing keys, a rate that is none.
    pub fn read(text: &str) -> Result<Self, LoadError> {
        let form: Form = toml::from_str(text)
            .map_err(|error| LoadError::Text(at_line(text, error.span(), error.message())))?;
        if form.load.is_empty() {
            return Err(LoadError::Text("it has no [[load]] table".to_owned()));
        }
        let taken = match form.taken {
            None => None,
            Some(taken) => Some(When::read(taken.get_ref()).ok_or_else(|| {
                let wrong = "taken is no time such as 2026-03-01T12:00:00Z";
                LoadError::Text(at_line(text, Some(taken.span()), wrong))
            })?),
        };
        // Tables are in the order of the text.
        let (mut counted, mut line) = (0, 1);
        let loads = form.load.into_iter().map(|load| {
            let at = load.span().start.max(counted);
            let between = text.as_bytes().get(counted..at).unwrap_or_default();
            line += between.iter().filter(|byte| **byte == b'\n').count();
            counted = at;
            let wrong = |why: String| LoadError::Text(format!("[[load]] of line {line}: {why}"));
            let load = load.into_inner();
            let ends = match (load.from, load.to) {
                (Some(from), Some(to)) if from == to => {
                    let why = format!("it stays on {from}: only traffic over links counts");
                    return Err(wrong(why));
                }
                (Some(from), Some(to)) => Ends::Pair(from, to),
                (Some(from), None) => Ends::Out(from),
                (None, Some(to)) => Ends::Into(to),
                (None, None) => return Err(wrong("it needs from, to, or both".to_owned())),
            };
            let amount = |text: &String| amount(text).map_err(|e| wrong(format!("rate: {e}")));
            let rate = amount(&load.rate)?;
            let low = load.low.as_ref().map(amount).transpose()?;
            let high = load.high.as_ref().map(amount).transpose()?;
            let range = match (low, high) {
                (None, None) => None,
                (low, high) => Some((low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY))),
            };
            if range.is_some_and(|(low, high)| !(low <= rate && rate <= high)) {
                return Err(wrong("the rate is not between low and high".to_owned()));
            }
            Ok(LoadEntry {
                ends,
                rate,
                range,
                origin: load.origin,
                line,
            })
        });
        Ok(LoadFile {
            taken,
            seconds: form.seconds.filter(|s| s.is_finite() && *s >= 0.0),
            warnings: form.warnings,
            loads: loads.collect::<Result<_, _>>()?,
            jobs: form.job,
        })
    }

    /// The text of the file; reading it gives the same, with rates rounded to bytes per second.
    pub fn write(&self) -> String {
        let mut out = String::new();
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        // Writing into text cannot fail.
        let mut line = |key: &str, value: String| {
            let _ = writeln!(out, "{key} = {value}");
        };
        if let Some(taken) = self.taken {
            line("taken", quoted(&taken.text()));
        }
        if let Some(seconds) = self.seconds {
            line("seconds", format!("{seconds:?}"));
        }
        if !self.warnings.is_empty() {
            let warnings = self.warnings.iter().map(|w| quoted(w));
            line(
                "warnings",
                format!("[{}]", warnings.collect::<Vec<_>>().join(", ")),
            );
        }
        for load in &self.loads {
            let _ = writeln!(out, "\n[[load]]");
            let mut line = |key: &str, value: String| {
                let _ = writeln!(out, "{key} = {value}");
            };
            let (from, to) = match &load.ends {
                Ends::Pair(from, to) => (Some(from), Some(to)),
                Ends::Out(from) => (Some(from), None),
                Ends::Into(to) => (None, Some(to)),
            };
            for (key, end) in [("from", from), ("to", to)] {
                if let Some(end) = end {
                    line(key, quoted(end));
                }
            }
            line("rate", quoted(&rate_text(load.rate.round())));
            if let Some((low, high)) = load.range {
                line("low", quoted(&rate_text(low.floor())));
                if high.is_finite() {
                    line("high", quoted(&rate_text(high.ceil())));
                }
            }
            match load.origin {
                Origin::Stated => {}
                Origin::Counters => line("origin", quoted("counters")),
                Origin::Estimated => line("origin", quoted("estimated")),
            }
        }
        for job in &self.jobs {
            let (id, nodes) = (quoted(&job.id), quoted(&job.nodes));
            let _ = writeln!(out, "\n[[job]]\nid = {id}\nnodes = {nodes}");
        }
        out
    }
}

/// A rate, which may be 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.trim() {
        "0" | "0 B/s" => Ok(0.0),
        other => match other.parse::<BytesPerSecond>() {
            Ok(rate) => Ok(rate.get()),
            Err(error) => Err(error.to_string()),
        },
    }
}

fn rate_text(rate: f64) -> String {
    BytesPerSecond::new(rate).map_or_else(|| "0 B/s".to_owned(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_the_same() {
        let file = LoadFile {
            taken: When::of(1_790_000_000),
            seconds: Some(5.0),
            warnings: vec!["a \"quoted\" one".to_owned()],
            loads: vec![
                LoadEntry {
                    ends: Ends::Pair("n1".to_owned(), "leaf1".to_owned()),
                    rate: 12_500_000.0,
                    range: Some((12_000_001.0, 13e6)),
                    origin: Origin::Counters,
                    line: 5,
                },
                LoadEntry {
                    ends: Ends::Into("n2".to_owned()),
                    rate: 0.0,
                    range: None,
                    origin: Origin::Stated,
                    line: 13,
                },
            ],
            jobs: vec![JobEntry {
                id: "7".to_owned(),
                nodes: "n[1-2]".to_owned(),
            }],
        };
        assert_eq!(LoadFile::read(&file.write()).unwrap(), file);
        assert_eq!(file.taken.unwrap().text(), "2026-09-21T14:13:20Z");
    }

    #[test]
    fn a_time_is_one_that_can_be_written_and_read() {
        let last = When::of(253_402_300_799).unwrap();
        assert_eq!(last.text(), "9999-12-31T23:59:59Z");
        assert_eq!(When::read(&last.text()), Some(last));
        assert_eq!(When::of(253_402_300_800), None);
        assert_eq!(When::read("9999-12-31T23:59:59-01:00"), None);
        let first = When::read("0000-01-01T00:00:00Z").unwrap();
        assert_eq!(When::of(first.seconds()), Some(first));
        assert_eq!(When::of(first.seconds() - 1), None);
        assert_eq!(When::read("0000-01-01T00:00:00+01:00"), None);
    }

    #[test]
    fn a_file_by_hand_needs_only_ends_and_rates() {
        let file =
            LoadFile::read("[[load]]\nfrom = \"a\"\nto = \"b\"\nrate = \"20 GB/s\"").unwrap();
        let [load] = file.loads.as_slice() else {
            panic!("{file:?}");
        };
        assert_eq!(
            (load.rate, load.origin, load.line),
            (20e9, Origin::Stated, 1)
        );
        for (text, said) in [
            ("", "no [[load]] table"),
            (
                "[[load]]\nrate = \"1 B/s\"",
                "line 1: it needs from, to, or both",
            ),
            (
                "[[load]]\nfrom = \"a\"\nto = \"a\"\nrate = \"1 B/s\"",
                "stays on a",
            ),
            (
                "[[load]]\nfrom = \"a\"\nrate = \"1\"",
                "line 1: rate: parse",
            ),
            (
                "[[load]]\nfrom = \"a\"\nrate = \"5 B/s\"\nhigh = \"4 B/s\"",
                "between low and high",
            ),
            (
                "taken = \"now\"\n[[load]]\nfrom = \"a\"\nrate = \"1 B/s\"",
                "line 1: taken is no time",
            ),
            ("x = 1", "line 1"),
        ] {
            let error = LoadFile::read(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }
}

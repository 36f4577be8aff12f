//! The report as text, 80 columns wide.

use crate::report::{Report, SourceReport};
use idlewave_noise::{Scope, Together};
use idlewave_units::foreign::{column, one_line};
use idlewave_units::show::{count_f64, percent, percent_range};
use idlewave_units::{Nanos, counted};
use std::fmt::Write;

/// Columns of the terminal.
const WIDTH: usize = 80;
/// Maximum number of sources listed.
const ROWS: usize = 16;

impl Report {
    /// The table of sources, the choices with their reasons, and the doubts. No line is wider than
    /// 80 columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for warning in &self.warnings {
            wrapped(&mut out, &format!("WARNING: {warning}"));
        }
        if !self.warnings.is_empty() {
            out.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{}",
            column(&format!("NOISE MODEL of {}", self.about), WIDTH)
        );
        let _ = writeln!(
            out,
            "  {}, {} watched, nodes of {}\n",
            counted(self.sources.len(), "source"),
            Nanos::from_nanos(self.watched_ns),
            counted(self.cpus_per_node, "CPU")
        );
        if self.sources.is_empty() {
            out.push_str("  nothing struck a watched CPU: the model is without noise\n");
        } else {
            let _ = writeln!(
                out,
                "  {:<17} {:<9}{:>8} {:>16} {:>8} {:>16}",
                "source", "law", "per s", "(95 %)", "stolen", "(95 %)"
            );
        }
        for source in self.sources.iter().take(ROWS) {
            row(&mut out, source);
        }
        if let Some(rest) = self.sources.get(ROWS..).filter(|r| !r.is_empty()) {
            let stolen: f64 = rest.iter().map(|s| s.stolen[0]).sum();
            let _ = writeln!(
                out,
                "  and {} more that take {} together; --json has all",
                rest.len(),
                percent(stolen)
            );
        }
        let doubtful: Vec<&SourceReport> = self.sources.iter().filter(|s| s.doubtful).collect();
        let few: Vec<&SourceReport> = self.sources.iter().filter(|s| s.few).collect();
        if !doubtful.is_empty() || !few.is_empty() || !self.notes.is_empty() {
            out.push_str("\nWHAT TO DOUBT\n");
        }
        for source in doubtful.iter().take(ROWS) {
            let said = format!("{}: {}.", source.name, source.why.join("; "));
            wrapped(&mut out, &said);
        }
        if doubtful.len() > ROWS {
            let more = doubtful.len() - ROWS;
            let _ = writeln!(
                out,
                "  And {more} more whose laws do not fit; --json has all."
            );
        }
        if !few.is_empty() {
            let stolen: f64 = few.iter().map(|s| s.stolen[0]).sum();
            let names: Vec<&str> = few.iter().take(4).map(|s| s.name.as_str()).collect();
            let dots = if few.len() > 4 { ", ..." } else { "" };
            let said = format!(
                "Too few events to tell a law, so taken as random: {} with {} together ({}{dots}). Measure longer.",
                counted(few.len(), "source"),
                percent(stolen),
                names.join(", ")
            );
            wrapped(&mut out, &said);
        }
        for note in &self.notes {
            wrapped(&mut out, note);
        }
        out
    }
}

fn row(out: &mut String, s: &SourceReport) {
    let _ = writeln!(
        out,
        "  {:<17} {:<9}{:>8} {:>16} {:>8} {:>16}",
        column(&s.name, 17),
        s.law,
        count_f64(s.rate_per_s[0]),
        format!(
            "{}..{}",
            count_f64(s.rate_per_s[1]),
            count_f64(s.rate_per_s[2])
        ),
        percent(s.stolen[0]),
        percent_range(s.stolen[1], s.stolen[2]),
    );
    let mut more = vec![format!(
        "p50 {}, p99 {}, max {}",
        Nanos::from_nanos(s.length_p50_ns),
        Nanos::from_nanos(s.length_p99_ns),
        Nanos::from_nanos(s.length_max_ns)
    )];
    if let Some([shape, low, high]) = s.tail_shape {
        more.push(format!("tail {shape:.2} ({low:.2}..{high:.2})"));
    }
    if let Some([period, jitter]) = s.period_ns {
        more.push(format!(
            "every {}, late by up to {}",
            Nanos::from_nanos(period),
            Nanos::from_nanos(jitter)
        ));
    }
    more.push(match s.p {
        Some(p) if p < 1e-3 => "p < 0.001".to_owned(),
        Some(p) => format!("p {p:.3}"),
        None if s.few => "too few to test".to_owned(),
        None => "as seen".to_owned(),
    });
    if s.together == Together::Node {
        more.push("all CPUs of a node together".to_owned());
    }
    if s.strikes == Scope::OneCpuOfNode {
        more.push("one CPU of a node at a time".to_owned());
    }
    if let Some(cpus) = &s.cpus {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        more.push(format!("CPU {}", list.join(",")));
    }
    if s.keeps > 0.0 {
        more.push(format!("keeps {}", percent(s.keeps)));
    }
    wrapped(out, &format!("  {}", more.join("; ")));
}

/// Appends an indented paragraph; the text's leading blanks are added to every line.
fn wrapped(out: &mut String, text: &str) {
    let text = one_line(text);
    let blanks = text.len() - text.trim_start().len();
    let indent = " ".repeat(2 + blanks);
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(&indent)
        .subsequent_indent(&indent);
    out.push_str(&textwrap::fill(text.trim_start(), options));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::SourceKind;

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_the_numbers_are() {
        let source = SourceReport {
            kind: SourceKind::Task,
            name: "a daemon with a name that is longer than its column".into(),
            cpus: Some((0..40).collect()),
            strikes: Scope::OneCpuOfNode,
            together: Together::Node,
            keeps: 0.7,
            law: "periodic".into(),
            events: u64::MAX,
            watched_ns: u64::MAX,
            rate_per_s: [123_456.0, 1e-9, 9.99e9],
            period_ns: Some([u64::MAX, u64::MAX - 1]),
            length_p50_ns: 1,
            length_p99_ns: 1_000,
            length_max_ns: u64::MAX / 2,
            tail_shape: Some([0.31, -0.11, 1.5]),
            stolen: [0.123, 0.012, 0.999],
            p: Some(1e-9),
            tests: Vec::new(),
            why: vec!["word ".repeat(30), "x".repeat(100)],
            few: true,
            doubtful: true,
        };
        let quiet = Report {
            about: "x".repeat(200),
            cpus_per_node: u32::MAX,
            watched_ns: u64::MAX,
            sources: Vec::new(),
            warnings: vec!["A warning. ".repeat(30)],
            notes: vec!["A note. ".repeat(30)],
        };
        let mut noisy = quiet.clone();
        let rare = SourceReport {
            rate_per_s: [0.0049, 0.0019, 0.0089],
            stolen: [49e-6, 19e-6, 89e-6],
            ..source.clone()
        };
        noisy.sources = vec![source; 40];
        noisy.sources[0] = rare;
        for text in [quiet.text(), noisy.text()] {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
        assert!(quiet.text().contains("without noise"));
        assert!(noisy.text().contains("p < 0.001"));
    }
}

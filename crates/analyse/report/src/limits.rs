//! What became of limits: as text, and as JUnit's XML for continuous integration.

use crate::html::escape;
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_explain::limits::{Judgement, Verdict};
use std::fmt::Write;

/// A line per limit, no wider than `width` columns, with the SGR colours of ECMA-48 only if `color`.
pub fn limits_text(judged: &[Judgement], width: usize, color: bool) -> String {
    let mut screen = Screen::new(width, color);
    screen.line(Style::Heading, "LIMITS");
    for one in judged {
        let (mark, style) = match one.verdict {
            Verdict::Pass => ("pass", Style::Plain),
            Verdict::TooShort | Verdict::NotMeasured => ("?   ", Style::Plain),
            Verdict::Fail => ("FAIL", Style::Alarm),
        };
        let text = format!("{}: {}", one.limit, plain(&one.said()));
        screen.wrap(style, &format!("  {mark}  "), &text);
    }
    screen.into_text()
}

/// The JUnit document: a test case per limit of this host. What could not be decided is an error.
/// Format: the schema of the Jenkins xUnit plug-in.
pub fn limits_junit(judged: &[Judgement], host: &str, started: &str) -> String {
    let count = |of: &[Verdict]| judged.iter().filter(|j| of.contains(&j.verdict)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        judged.len(),
        count(&[Verdict::Fail]),
        count(&[Verdict::TooShort, Verdict::NotMeasured]),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (host, started) = (escape(host), escape(started.trim_end_matches('Z')));
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<testsuites {counts}>\n  <testsuite name=\"idlewave\" {counts} hostname=\"{host}\" timestamp=\"{started}\">"
    );
    for one in judged {
        let said = escape(&one.said());
        let name = escape(&one.limit.to_string());
        let _ = write!(out, "    <testcase classname=\"{host}\" name=\"{name}\">");
        let _ = match one.verdict {
            Verdict::Pass => write!(out, "<system-out>{said}</system-out>"),
            Verdict::Fail if one.exceeded_on.is_empty() => {
                write!(out, "<failure message=\"{said}\"/>")
            }
            Verdict::Fail => {
                let nodes = escape(&one.exceeded_on.join(" "));
                write!(out, "<failure message=\"{said}\">nodes: {nodes}</failure>")
            }
            Verdict::TooShort | Verdict::NotMeasured => {
                write!(out, "<error message=\"{said}\"/>")
            }
        };
        out.push_str("</testcase>\n");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_explain::limits::Limit;
    use roxmltree::Document;

    fn judged(verdict: Verdict, found: &str) -> Judgement {
        Judgement {
            limit: Limit::Noise(0.001),
            verdict,
            found: found.to_owned(),
            value: None,
            needs: None,
            exceeded_on: Vec::new(),
        }
    }

    #[test]
    fn junit_counts_what_failed_and_what_is_not_known() {
        let all = [
            judged(Verdict::Pass, "0.05 %"),
            judged(Verdict::Fail, "3 % of <CPU> \"1\" & \u{1b}[m"),
            judged(Verdict::TooShort, "1 %"),
            judged(Verdict::NotMeasured, "not measured"),
        ];
        let text = limits_junit(&all, "n\u{0}1", "2026-01-31T12:00:00Z");
        let read = Document::parse(&text).expect("well-formed");
        let suite = read.root_element().first_element_child().expect("a suite");
        assert_eq!(suite.attribute("hostname"), Some("n\\u{0}1"));
        assert_eq!(suite.attribute("timestamp"), Some("2026-01-31T12:00:00"));
        let counts = ["tests", "failures", "errors"].map(|name| suite.attribute(name));
        assert_eq!(counts, [Some("4"), Some("1"), Some("2")]);
        let cases: Vec<_> = suite
            .children()
            .filter(|n| n.has_tag_name("testcase"))
            .collect();
        assert!(
            cases
                .iter()
                .all(|c| c.attribute("name") == Some("noise at most 0.10 %"))
        );
        let within = |case: usize| cases[case].first_element_child().expect("its outcome");
        assert_eq!(within(0).tag_name().name(), "system-out");
        assert_eq!(within(1).tag_name().name(), "failure");
        let said = "3 % of <CPU> \"1\" & \\u{1b}[m";
        assert_eq!(within(1).attribute("message"), Some(said));
        assert_eq!(
            within(2).attribute("message"),
            Some("1 %: too short to say")
        );
        assert_eq!(within(3).tag_name().name(), "error");
    }

    #[test]
    fn junit_names_the_nodes_that_exceed_a_limit() {
        let mut one = judged(Verdict::Fail, "3 % of CPU 1 of n17");
        one.exceeded_on = vec!["n17".to_owned(), "n<2>".to_owned()];
        let text = limits_junit(&[one], "n1", "2026-01-31T12:00:00Z");
        let read = Document::parse(&text).expect("well-formed");
        let failure = read.descendants().find(|n| n.has_tag_name("failure"));
        let failure = failure.expect("a failure");
        let message = "3 % of CPU 1 of n17; 2 nodes exceed it";
        assert_eq!(failure.attribute("message"), Some(message));
        assert_eq!(failure.text(), Some("nodes: n17 n<2>"));
    }

    #[test]
    fn a_limit_has_a_line_of_text() {
        let all = [
            judged(Verdict::Pass, "0.05 %"),
            judged(Verdict::Fail, "3 %"),
        ];
        assert_eq!(
            limits_text(&all, 80, false),
            "LIMITS\n  pass  noise at most 0.10 %: 0.05 %\n  FAIL  noise at most 0.10 %: 3 %\n"
        );
    }
}

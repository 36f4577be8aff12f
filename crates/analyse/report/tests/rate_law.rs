//! The cost against the rate of the noise, in the summary and on the page, from points on the law.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use idlewave_report::testing::Synthetic;
use idlewave_report::{render_html, render_text};
use idlewave_run::findings::{
    Estimate, Findings, MeasuredRate, MeasuredRates, RateLaw, RatePoint, Topology,
};
use idlewave_run::testing::empty_manifest;

/// Strikes of 100 us, 0.001 per rank and step as measured.
fn law() -> RateLaw {
    let estimate = |value: f64| Estimate {
        value,
        low: 0.97 * value,
        high: 1.03 * value,
        n: 4,
        method: "by hand".to_owned(),
    };
    let point = |power| {
        let factor = 2_f64.powi(power);
        let strikes = 1e-3 * factor;
        RatePoint {
            factor,
            strikes,
            taken: Some(1e5 * strikes),
            extra: estimate(1e5 * (2.0 * strikes).sqrt()),
        }
    };
    RateLaw {
        topology: Topology::Ring1d,
        ranks: 1_024,
        points: (-4..=4).map(point).collect(),
        exponent: Some(estimate(0.5)),
        unknown: None,
        square_root: Some((6.25e-5, 0.016)),
    }
}

fn said(findings: &Findings) -> String {
    let text = render_text(&empty_manifest(), findings, 80, false);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_and_the_page_show_where_the_law_holds() {
    let directory = tempfile::tempdir().unwrap();
    let small = Synthetic {
        iterations: 500,
        ..Synthetic::default()
    };
    let (run, mut findings) = small.write(&directory.path().join("run")).unwrap();
    let title = "By the rate of the noise";
    assert!(!render_html(&run, &findings).unwrap().contains(title));
    findings.prediction.as_mut().unwrap().by_rate = Some(law());
    let holds = "on 1,024 ranks this noise costs its rate to the power 0.500 (0.485 to 0.515); the square-root law holds \
                 from 6.25e-5 to 0.0160 strikes per rank and step";
    let lines = render_text(&empty_manifest(), &findings, 80, false);
    let first = lines
        .lines()
        .position(|l| l.contains("to the power"))
        .unwrap();
    let last = lines
        .lines()
        .position(|l| l.contains("rank and step"))
        .unwrap();
    assert_eq!(last, first + 1, "two lines of 80 columns: {lines}");
    assert!(said(&findings).contains(holds), "{}", said(&findings));
    let page = render_html(&run, &findings).unwrap();
    let figure = &page[page.find(title).unwrap()..];
    let figure = &figure[..figure.find("</div>").unwrap()];
    assert!(figure.contains(&holds[1..]) && !figure.contains("NaN") && !figure.contains("inf"));
    let amplified = "at the measured 0.00100 strikes per rank and step it costs x44.7 what strikes take from a rank";
    assert!(figure.contains(&amplified[1..]) && !said(&findings).contains(amplified));
    assert_eq!(figure.matches("<circle").count(), 9);
    assert!(!figure.contains("<rect"));
    // Points of the law lie on the dashes: over 8 doublings of the rate both rise alike.
    let line = figure.split("polyline points=\"").nth(2).unwrap();
    let ends: Vec<&str> = line.split('"').next().unwrap().split(' ').collect();
    let dashes = figure.split("stroke-dasharray=\"6 4\"").next().unwrap();
    let dashes = &dashes[dashes.rfind("d=\"M").unwrap() + 4..];
    let from = ends[0].replace(',', " ");
    assert!(dashes.starts_with(&from), "{from} {dashes}");

    // Measured in windows of different rates.
    let group = |factor: f64| MeasuredRate {
        strikes: 1e-3 * factor,
        length: Some(1e5),
        extra: Estimate {
            value: 1e3 * factor,
            low: 9e2 * factor,
            high: 1.1e3 * factor,
            n: 40,
            method: "by hand".to_owned(),
        },
    };
    let mut exponent = group(1.0).extra;
    (exponent.value, exponent.low, exponent.high) = (0.93, 0.81, 1.05);
    findings.lockstep[0].by_rate = Some(MeasuredRates {
        windows: 200,
        steps: 96,
        background: None,
        groups: [0.5, 0.8, 1.0, 1.3, 1.7].map(group).to_vec(),
        exponent: Some(exponent),
        unknown: None,
    });
    let ranks = findings.lockstep[0].ranks;
    let measured = format!(
        "measured on {ranks} ranks (neighbour exchange): to the power 0.930 (0.810 to 1.05), 200 windows of 96 steps"
    );
    assert!(said(&findings).contains(&measured), "{}", said(&findings));
    let page = render_html(&run, &findings).unwrap();
    let figure = &page[page.find(title).unwrap()..];
    let figure = &figure[..figure.find("</div>").unwrap()];
    assert!(figure.contains(&measured[1..]) && figure.matches("<rect").count() == 5);
    let found = findings.lockstep[0].by_rate.as_mut().unwrap();
    found.exponent = None;
    found.unknown = Some("the rates of the windows differ by less than a factor of 2".to_owned());
    let narrow = "200 windows of 96 steps: no exponent, the rates of the windows differ by less than a factor of 2";
    assert!(said(&findings).contains(narrow), "{}", said(&findings));

    let prediction = findings.prediction.as_mut().unwrap();
    let found = prediction.by_rate.as_mut().unwrap();
    found.square_root = None;
    assert!(said(&findings).contains("it does not follow the square-root law"));
    let prediction = findings.prediction.as_mut().unwrap();
    let found = prediction.by_rate.as_mut().unwrap();
    found.exponent = None;
    found.unknown = Some("rates range over less than a factor of 2".to_owned());
    found.points.truncate(1);
    let unknown = "cannot be said: rates range over less than a factor of 2";
    assert!(said(&findings).contains(unknown));
    assert!(!render_html(&run, &findings).unwrap().contains(title));
}

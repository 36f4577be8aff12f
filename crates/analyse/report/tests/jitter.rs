//! Jitter in the summary and on the page, from findings modelled by hand on the study of
//! hyper-threading at scale.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use idlewave_report::testing::{Synthetic, bare_findings};
use idlewave_report::{render_html, render_text};
use idlewave_run::findings::*;
use idlewave_run::testing::empty_manifest;
use idlewave_units::{Nanos, Rank};

fn estimate(value: f64) -> Estimate {
    Estimate {
        value,
        low: value * 0.99,
        high: value * 1.01,
        n: 64_000,
        method: "by hand".into(),
    }
}

fn found() -> JitterFindings {
    let point = |ns, count, fitted| JitterPoint {
        duration: Nanos::from_nanos(ns),
        count,
        fitted: Some(fitted),
    };
    JitterFindings {
        phase: 0,
        name: "forces".into(),
        ranks: 64,
        steps: 1_000,
        median: Nanos::from_nanos(143_785_000),
        core: Some(JitterCore {
            mean: estimate(143_785_000.0),
            deviation: estimate(290_000.0),
            tail: estimate(0.0031),
            misfit: 0.002,
            outlier_z: 4.8,
            outlier_from: Nanos::from_nanos(145_178_000),
            outliers: 201,
            efficiency_without_outliers: 0.9953,
            outlier_share: Some(0.937),
        }),
        slowest: JitterSlowest {
            duration: Nanos::from_nanos(221_543_000),
            rank: Rank::new(3),
            step: 500,
            begin_ns: 1 << 54,
            z: Some(268.0),
        },
        efficiency: estimate(0.9251),
        scale: vec![
            JitterScale {
                ranks: 64,
                gaussian: Some(0.9953),
                measured: Some(0.93),
                extrapolated: None,
                not_extrapolated: None,
            },
            JitterScale {
                ranks: 65_536,
                gaussian: Some(0.9914),
                measured: None,
                extrapolated: Some(Estimate {
                    low: 0.551,
                    ..estimate(0.613)
                }),
                not_extrapolated: None,
            },
        ],
        tail_shape: Some(estimate(0.63)),
        distribution: vec![
            point(142_500_000, 1, 0.0),
            point(143_785_000, 32_000, 0.498),
            point(145_000_000, 63_799, 0.997),
            point(221_543_000, 64_000, 0.997),
        ],
        slowest_counts: vec![15; 64],
        slow_ranks: vec![Rank::new(7)],
        run_length: 1.02,
        run_length_by_chance: 1.02,
        longest_run: 3,
        order: Some(JitterOrder {
            steps: 1_000,
            lags: 64,
            moves: Some(JitterPattern {
                lag: 5,
                shift: 1,
                share: estimate(0.21),
                by_chance: 0.0156,
                p: 0.001,
            }),
            returns: JitterPattern {
                lag: 3,
                shift: 0,
                share: estimate(0.02),
                by_chance: 0.0156,
                p: 0.3,
            },
        }),
        map: JitterMap {
            steps_per_column: 5,
            ranks_per_row: 1,
            cells: vec![(0, 0, 2), (0, 63, 3), (199, 7, 5)],
        },
        culprits: vec![JitterCulprit {
            source: 0,
            time: Nanos::from_millis(90),
            steps: 180,
        }],
    }
}

#[test]
fn the_summary_says_what_the_tail_costs_in_eighty_columns() {
    let mut findings = bare_findings();
    findings.jitter = vec![found()];
    let text = render_text(&empty_manifest(), &findings, 80, false);
    for said in [
        "JITTER OF forces, 64 ranks, 1,000 steps",
        "92.51 %",
        "a pure Gaussian would leave 99.53 %",
        "201 outliers",
        "268 deviations from the mean",
        "rank 7",
        "as measured",
        "extrapolated from 64,000 durations",
        "shape 0.630, 0.624 to 0.636",
        "61.30 % (55.10 to 61.91 %)",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "no `{said}` in\n{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(!text.contains("no Gaussian"));
    findings.jitter[0].core.as_mut().unwrap().misfit = 0.12;
    let text = render_text(&empty_manifest(), &findings, 80, false);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("it is no Gaussian"), "{text}");
}

#[test]
fn the_order_of_the_slowest_ranks_is_told_or_that_there_is_none() {
    let mut findings = bare_findings();
    findings.jitter = vec![found()];
    let said = |findings: &Findings| {
        let text = render_text(&empty_manifest(), findings, 80, false);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        move |sentence: &str| flat.contains(sentence)
    };
    let moves = "the slowest rank moves on by 1 rank every 5 steps: so in 21.0 % of the steps";
    assert!(said(&findings)(moves));
    fn order(findings: &mut Findings) -> &mut JitterOrder {
        findings.jitter[0].order.as_mut().unwrap()
    }
    order(&mut findings).moves.as_mut().unwrap().shift = -3;
    assert!(said(&findings)("moves back by 3 ranks every 5 steps"));
    order(&mut findings).moves.as_mut().unwrap().p = 0.2;
    let none = "in no order that repeats within 64 steps (p = 0.400)";
    assert!(said(&findings)(none));
    order(&mut findings).returns.p = 0.002;
    let again = "the same rank is the slowest again after 3 steps";
    assert!(said(&findings)(again) && !said(&findings)(none));
    order(&mut findings).returns.lag = 1;
    assert!(said(&findings)("slowest again after 1 step:"));
}

#[test]
fn what_could_not_be_said_is_a_dash_or_absent() {
    let mut findings = bare_findings();
    let mut bare = found();
    bare.core = None;
    bare.slowest.z = None;
    bare.scale.iter_mut().for_each(|s| s.gaussian = None);
    bare.culprits.clear();
    bare.slow_ranks.clear();
    bare.scale[1].extrapolated = None;
    bare.tail_shape = Some(estimate(0.49));
    bare.scale[1].not_extrapolated = Some("a tail needs 500 values".into());
    bare.scale.push(JitterScale {
        ranks: 100_000,
        ..bare.scale[1].clone()
    });
    findings.jitter = vec![bare];
    let text = render_text(&empty_manifest(), &findings, 80, false);
    assert!(
        !text.contains("core:") && !text.contains("outliers") && !text.contains("Gaussian would")
    );
    assert!(
        text.contains("no rank is the slowest more often than by chance"),
        "{text}"
    );
    let said = "not extrapolated to 65,536 ranks or more: a tail needs 500 values";
    assert_eq!(text.matches("not extrapolated").count(), 1, "{text}");
    assert!(!text.contains("shape"), "{text}");
    assert!(text.contains(said), "{text}");
}

#[test]
fn the_page_has_the_tail_and_the_map_with_valid_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let small = Synthetic {
        iterations: 500,
        ..Synthetic::default()
    };
    let (run, mut findings) = small.write(&directory.path().join("run")).unwrap();
    let without = render_html(&run, &findings).unwrap();
    assert!(!without.contains("id=\"jitter\""));
    findings.jitter = vec![found()];
    findings.jitter[0].name = "<b>forces".into();
    let page = render_html(&run, &findings).unwrap();
    let begin = page.find("<section id=\"jitter\">").unwrap();
    let section = &page[begin..begin + page[begin..].find("</section>").unwrap()];
    assert_eq!(section.matches("<svg").count(), 2);
    assert!(section.contains("&lt;b&gt;forces") && !section.contains("<b>"));
    assert!(
        !section.contains("NaN") && !section.contains("inf"),
        "{section}"
    );
    assert!(section.contains("data-path=\"jitter.0.scale.1.gaussian\""));
    assert!(section.contains("data-path=\"jitter.0.scale.1.extrapolated.value\""));
    assert!(section.contains("Extrapolated from 64,000 durations"));
    assert!(section.contains("<li>the slowest rank moves on by 1 rank every 5 steps: "));
    // Nothing is drawn outside the figure.
    let line = section.split("d=\"M64.0 ").nth(1).unwrap();
    let line = &line[..line.find('"').unwrap()];
    for number in line
        .split(['H', 'V', ' '])
        .filter_map(|n| n.parse::<f64>().ok())
    {
        assert!((0.0..=640.0).contains(&number), "{line}");
    }
}

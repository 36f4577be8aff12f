//! Ways that took turns, in the summary and on the page.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use idlewave_report::testing::Synthetic;
use idlewave_report::{render_html, render_text};
use idlewave_run::findings::{Estimate, Findings, Way, Ways};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{ExchangeVariant, Siblings};

fn way(variant: ExchangeVariant, siblings: Option<Siblings>, longer: Option<[f64; 3]>) -> Way {
    let estimate = |[low, value, high]: [f64; 3]| Estimate {
        value,
        low,
        high,
        n: 12,
        method: "by hand".to_owned(),
    };
    Way {
        variant,
        siblings,
        phases: vec![0],
        step: estimate([21_000.0; 3]),
        exchange: estimate([900.0; 3]),
        noise: estimate([300.0; 3]),
        longer: longer.map(estimate),
    }
}

fn said(findings: &Findings) -> String {
    let text = render_text(&empty_manifest(), findings, 80, false);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ways_that_took_turns_are_compared_instead_of_listing_every_turn() {
    let directory = tempfile::tempdir().unwrap();
    let small = Synthetic {
        iterations: 300,
        ..Synthetic::default()
    };
    let (run, mut findings) = small.write(&directory.path().join("run")).unwrap();
    assert!(said(&findings).contains("LOCKSTEP RUNS"));
    assert!(
        !render_html(&run, &findings)
            .unwrap()
            .contains("id=\"ways\"")
    );
    findings.ways = Some(Ways {
        rounds: 12,
        ways: vec![
            way(ExchangeVariant::Blocking, None, None),
            way(
                ExchangeVariant::NonBlocking,
                None,
                Some([-0.03, -0.02, -0.01]),
            ),
            way(
                ExchangeVariant::Overlapped,
                None,
                Some([-0.01, 0.001, 0.02]),
            ),
        ],
    });
    let text = said(&findings);
    assert!(
        text.contains("WAYS TO EXCHANGE") && !text.contains("LOCKSTEP RUNS"),
        "{text}"
    );
    for part in [
        "step against blocking (95 %)",
        "-2.00 % (-3.00 % .. -1.00 %)",
        "Use nonblocking: a step is 2.00 % shorter than with blocking.",
        "overlapped: no significant difference from blocking on this machine.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = render_html(&run, &findings).unwrap();
    let section = &page[page.find("<section id=\"ways\"").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    assert!(!section.contains("NaN") && page.contains("Use nonblocking"));
    assert_eq!(section.matches("<circle").count(), 2);
    assert_eq!(section.matches("<tr>").count(), 1 + 3);
    assert!(
        page.contains("<a href=\"#ways\">Ways</a>"),
        "a link to the section"
    );

    // Too few rounds for an interval: neither a range nor a line.
    let lines = section.matches("stroke=\"var(--accent)\"").count();
    for way in findings.ways.iter_mut().flat_map(|found| &mut found.ways) {
        if let Some(longer) = &mut way.longer {
            longer.n = 5;
        }
    }
    let text = said(&findings);
    assert!(text.contains("-2.00 %") && !text.contains(" .. "), "{text}");
    let page = render_html(&run, &findings).unwrap();
    let section = &page[page.find("<section id=\"ways\"").unwrap()..];
    let section = &section[..section.find("</section>").unwrap()];
    assert_eq!((section.matches("<circle").count(), lines), (2, 2));
    assert!(!section.contains("stroke=\"var(--accent)\"") && !section.contains(" .. "));

    findings.ways = Some(Ways {
        rounds: 12,
        ways: vec![
            way(ExchangeVariant::NonBlocking, Some(Siblings::Idle), None),
            way(
                ExchangeVariant::NonBlocking,
                Some(Siblings::Busy),
                Some([0.2, 0.3, 0.4]),
            ),
        ],
    });
    let text = said(&findings);
    let busy = "A step is 30.0 % longer with busy siblings than with idle ones.";
    assert!(
        text.contains("SIBLINGS OF THE CORES") && text.contains(busy),
        "{text}"
    );
    // On the page, a number keeps to its unit.
    let page = render_html(&run, &findings).unwrap();
    assert!(page.replace('\u{a0}', " ").contains(busy));
}

//! A thousand nodes, compared: who is named, and what is shown.

use idlewave_explain::explain;
use idlewave_explain::limits::{Verdict, judge};
use idlewave_report::testing::SyntheticNodes;
use idlewave_report::{render_html, render_text};
use idlewave_run::RunReader;
use idlewave_run::findings::{Findings, NodeMeasure};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn explained(path: &Path, made: SyntheticNodes) -> (RunReader, Findings) {
    let run = made.write(path).unwrap();
    let findings = explain(&run, &AtomicBool::new(false)).unwrap().findings;
    (run, findings)
}

/// One CPU with a daemon and one slow CPU among 2,000: exactly these two, and why.
#[test]
fn of_a_thousand_nodes_the_noisy_and_the_slow_one_are_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let made = SyntheticNodes {
        nodes: 1_000,
        noisy: Some(417),
        slow: Some(733),
    };
    let (run, findings) = explained(&dir.path().join("run"), made);
    let found = findings.nodes.as_ref().unwrap();
    let named = found.outliers().map(|n| {
        let reasons = n.reasons.iter();
        let reasons = reasons.map(|r| (r.measure, r.cpu.map(|c| c.get()), r.because.clone()));
        (n.name.as_str(), reasons.collect::<Vec<_>>())
    });
    let healthd = "healthd: 2.00 % of the time, 100/s of 200 us".to_owned();
    let slower = "8.00 % slower at its best too: a lower frequency, or another CPU".to_owned();
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            ("n0733", vec![(NodeMeasure::Work, Some(0), slower)]),
            ("n0417", vec![(NodeMeasure::Stolen, Some(1), healthd)]),
        ]
    );
    let offender = found.offender.as_ref().unwrap();
    assert_eq!(offender.name, "timer tick");
    assert_eq!(found.ranked.len(), 1_000);
    // Those of the ten worst nodes.
    assert_eq!(findings.cpus.len(), 20);

    let text = render_text(run.manifest(), &findings, 80, false);
    assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    assert!(text.contains("NODES: 1,000 with 2,000 CPUs"), "{text}");
    assert!(text.contains("! n0417, CPU 1: 2.01 % stolen"), "{text}");
    assert!(text.contains("990 others between"), "{text}");

    let page = render_html(&run, &findings).unwrap();
    assert!(page.contains("id=\"nodes-map\""));
    assert!(page.contains("healthd: 2.00 % of the time"));
    assert!(page.len() < 4 << 20, "{} bytes", page.len());

    let limits = ["noise=0.1%", "detour=50us", "work=50%"].map(|l| l.parse().unwrap());
    let judged = judge(&limits, &run, &findings).unwrap();
    let verdicts: Vec<Verdict> = judged.iter().map(|j| j.verdict).collect();
    assert_eq!(verdicts, [Verdict::Fail, Verdict::Fail, Verdict::Pass]);
    for one in &judged[..2] {
        assert_eq!(one.exceeded_on, ["n0417"]);
        assert!(one.said().contains("CPU 1 of n0417"), "{}", one.said());
    }
    assert!(judged[2].exceeded_on.is_empty());
}

#[test]
fn equal_nodes_are_ranked_and_none_is_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let made = SyntheticNodes {
        nodes: 12,
        noisy: None,
        slow: None,
    };
    let (run, findings) = explained(&dir.path().join("run"), made);
    let found = findings.nodes.as_ref().unwrap();
    assert_eq!((found.outliers().count(), found.ranked.len()), (0, 12));
    assert_eq!(findings.cpus.len(), 24);
    let text = render_text(run.manifest(), &findings, 80, false);
    assert!(text.contains("no node differs significantly"), "{text}");
}

/// Two nodes have no peers; the noisier is first.
#[test]
fn of_two_nodes_it_is_said_which_loses_more() {
    let dir = tempfile::tempdir().unwrap();
    let made = SyntheticNodes {
        nodes: 2,
        noisy: Some(1),
        slow: None,
    };
    let (run, findings) = explained(&dir.path().join("run"), made);
    assert_eq!(findings.load_sweep, None);
    let text = render_text(run.manifest(), &findings, 80, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("the worst CPU of n0001 loses more than that of n0000"),
        "{text}"
    );
}

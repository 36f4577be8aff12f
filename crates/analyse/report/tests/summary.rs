//! The terminal summary of whole runs.

// Clippy's exception for tests does not cover the helpers of an integration test.
#![allow(clippy::unwrap_used)]

use idlewave_report::testing::{Synthetic, bare_findings};
use idlewave_report::{render_html, render_text};
use idlewave_run::findings::Findings;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Manifest, Phase, PhaseKind, RunReader, WorkKernel};
use idlewave_units::Nanos;
use proptest::prelude::*;

fn written(what: &Synthetic) -> (tempfile::TempDir, RunReader, Findings) {
    let directory = tempfile::tempdir().unwrap();
    let (run, findings) = what.write(&directory.path().join("run")).unwrap();
    (directory, run, findings)
}

fn summary(what: &Synthetic, width: usize) -> String {
    let (_directory, run, findings) = written(what);
    render_text(run.manifest(), &findings, width, false)
}

fn small() -> Synthetic {
    Synthetic {
        iterations: 3_000,
        ..Synthetic::default()
    }
}

/// If a run here took far longer than predicted, text and page say so, with the reason, before any
/// rank count.
#[test]
fn a_prediction_that_misses_the_runs_made_here_is_said_first() {
    let (_directory, run, mut findings) = written(&small());
    let text = |findings: &Findings| render_text(run.manifest(), findings, 80, false);
    let warned = |findings: &Findings| text(findings).contains("Do not rely on these numbers");
    let checks = |findings: &mut Findings, measured: f64| {
        let prediction = findings.prediction.as_mut().unwrap();
        prediction.checks[0].measured = measured;
        prediction.checks[0].predicted.low = 0.02;
        prediction.checks[0].predicted.high = 0.03;
    };
    // 1.03 times 1.05 is 1.0815.
    checks(&mut findings, 0.081);
    assert!(!warned(&findings));
    checks(&mut findings, 0.082);
    assert!(warned(&findings));
    // Too much is no better than too little: 1.02 / 1.05 is 0.971.
    checks(&mut findings, -0.04);
    assert!(warned(&findings));
    checks(&mut findings, 3.0);
    findings.lateness = findings.sources[0].lateness;
    let granularity = findings.prediction.as_ref().unwrap().granularity.as_f64();
    findings.sources[0].length.as_mut().unwrap().value = 2.0 * granularity;
    let said = text(&findings);
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let [misfit, first] = ["Do not rely on these numbers: the", "1,000,000"]
        .map(|what| words.split("AT SCALE").nth(1).unwrap().find(what).unwrap());
    assert!(misfit < first, "{said}");
    assert!(words.contains("longer than a step"), "{said}");
    let page = render_html(&run, &findings).unwrap();
    let verdict = page.split("id=\"scale\"").next().unwrap();
    let [misfit, number] = [
        "Do not rely on these numbers",
        "programs are predicted to run",
    ]
    .map(|what| verdict.find(what).unwrap());
    assert!(misfit < number);
}

#[test]
fn the_summary_is_the_one_checked_by_eye() {
    let shown = summary(&Synthetic::default(), 80);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/summary.txt");
    if std::env::var_os("IDLEWAVE_BLESS").is_some() {
        std::fs::write(path, &shown).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        shown, expected,
        "IDLEWAVE_BLESS=1 rewrites it; then look at it"
    );
}

#[test]
fn the_summary_fits_one_screen() {
    let shown = summary(&Synthetic::default(), 80);
    assert!(
        shown.lines().count() <= 55,
        "{} lines",
        shown.lines().count()
    );
    let many = summary(
        &Synthetic {
            ranks: 64,
            iterations: 200,
            ..Synthetic::default()
        },
        80,
    );
    assert!(many.lines().count() <= 58, "{} lines", many.lines().count());
    assert!(many.contains("60 more CPUs: stolen"), "{many}");
}

/// An interval is narrow up to a fifth of the value, or up to a point for small slow-downs; the two
/// widest are named.
#[test]
fn predictions_with_wide_intervals_are_named_below_their_table() {
    let (_directory, run, mut findings) = written(&small());
    let text = |findings: &Findings| {
        let shown = render_text(run.manifest(), findings, 80, false);
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut with = |curve: usize, ranks: u64, [value, low, high]: [f64; 3]| {
        let curve = &mut findings.prediction.as_mut().unwrap().curves[curve];
        let point = curve.points.iter_mut().find(|p| p.ranks == ranks).unwrap();
        let slowdown = &mut point.slowdown;
        (slowdown.value, slowdown.low, slowdown.high) = (value, low, high);
        text(&findings)
    };
    let wide = "wide intervals (95 %)";
    let said = with(0, 64, [0.5, 0.401, 0.599]);
    assert!(!said.contains(wide), "{said}");
    let said = with(0, 64, [0.01, 0.0005, 0.0195]);
    assert!(!said.contains(wide), "{said}");
    let said = with(0, 64, [1.04, 0.61, 1.47]);
    let one = format!("{wide}: 1D at 64 ranks: 61.0..147 % below");
    assert!(said.contains(&one), "{said}");
    with(1, 64, [20.0, 4.0, 36.0]);
    let said = with(2, 64, [1.0, 0.7, 1.3]);
    let two = "2D at 64 ranks: x5.00..x37.0; 1D at 64 ranks: 61.0..147 % and 1 more on the page";
    assert!(said.contains(&format!("{wide}: {two}")), "{said}");
    // Another value of a curve that is named counts among the others.
    let said = with(1, 1_024, [10.0, 3.0, 17.0]);
    assert!(said.contains(&two.replace("1 more", "2 more")), "{said}");
}

#[test]
fn an_interval_that_says_nothing_is_said_as_such() {
    let (_directory, run, mut findings) = written(&small());
    let slowdown = &mut findings.lockstep[0].slowdown;
    (slowdown.value, slowdown.low, slowdown.high, slowdown.n) = (165.08, 0.0, 436.49, 40);
    findings.lockstep[0].slowdown_not_known = slowdown.not_known_slowdown();
    let points = &mut findings.prediction.as_mut().unwrap().curves[0].points;
    for point in points {
        (point.slowdown.low, point.slowdown.high) = (0.0, 9.0);
    }
    let shown = render_text(run.manifest(), &findings, 80, false);
    let name = &findings.lockstep[0].name;
    for said in [
        format!("{name}: slow-down not known: 40 steps, too noisy"),
        "  1D                              not known  not known".to_owned(),
    ] {
        assert!(shown.contains(&said), "{said} is missing in:\n{shown}");
    }
    assert!(!shown.contains("16508"), "{shown}");
    let page = render_html(&run, &findings).unwrap();
    let said = "they ran is not known: 40 steps, too noisy (95\u{a0}%: x1.00 to x437)";
    assert!(page.contains(said), "{said} is missing in the page");
    assert!(!page.contains(">16508"), "the page shows the estimate");
}

#[test]
fn names_of_tasks_cannot_control_the_terminal() {
    let shown = summary(
        &Synthetic {
            culprit: "\x1b[2J\r\nok\u{202e}\u{7f}".to_owned(),
            ..small()
        },
        80,
    );
    assert!(
        shown
            .bytes()
            .all(|b| b == b'\n' || (b' '..=b'~').contains(&b)),
        "{shown}"
    );
    assert!(shown.contains("\\u{1b}[2J\\r\\nok\\u{202e}"), "{shown}");
}

#[test]
fn colour_changes_nothing_but_colour() {
    let (_directory, run, findings) = written(&small());
    let plain = render_text(run.manifest(), &findings, 80, false);
    let mut coloured = render_text(run.manifest(), &findings, 80, true);
    assert_ne!(plain, coloured);
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[1;31m"] {
        coloured = coloured.replace(code, "");
    }
    assert_eq!(plain, coloured);
}

#[test]
fn what_was_not_measured_is_said_and_never_a_zero() {
    let shown = render_text(&empty_manifest(), &bare_findings(), 80, false);
    for said in [
        "use by others: not measured",
        "NOISE OF EVERY CPU\n  not measured",
        "LOCKSTEP RUNS\n  not measured",
        "Not predicted: that needs a lockstep run",
        "nothing is known to save time",
        "kernel trace: switched off",
        "This run ended early",
    ] {
        assert!(shown.contains(said), "{said} is missing in:\n{shown}");
    }
    assert!(!shown.contains("0 %"), "{shown}");
}

#[test]
fn a_machine_that_was_busy_is_flagged_and_a_quiet_one_is_not() {
    let (_directory, run, mut findings) = written(&small());
    let mut shown = |others| {
        findings.contamination.others = others;
        render_text(run.manifest(), &findings, 80, false)
    };
    assert!(shown(Some(0.021)).contains("! BUSY MACHINE: others used 2.10 % of the CPUs"));
    assert!(!shown(Some(0.019)).contains("BUSY"));
    assert!(!shown(None).contains("BUSY"));
}

#[test]
fn one_rank_without_a_late_step_is_no_riddle() {
    let (_directory, run, mut findings) = written(&Synthetic {
        ranks: 1,
        ..small()
    });
    findings.lateness = idlewave_units::Nanos::ZERO;
    findings.named = idlewave_units::Nanos::ZERO;
    findings.latest.clear();
    let shown = render_text(run.manifest(), &findings, 80, false);
    assert!(shown.contains("LOCKSTEP RUNS, 1 rank\n"), "{shown}");
    assert!(
        shown.contains("No step was late enough to be explained one by one."),
        "{shown}"
    );
}

/// Simulates one run for all cases of a property.
fn shared() -> &'static (Manifest, Findings) {
    static RUN: std::sync::OnceLock<(Manifest, Findings)> = std::sync::OnceLock::new();
    RUN.get_or_init(|| {
        let (_directory, run, findings) = written(&small());
        (run.manifest().clone(), findings)
    })
}

proptest! {
    #[test]
    fn no_line_is_wider_than_asked_for(width in 20usize..200, name in ".{0,40}", command in ".{0,120}") {
        let (manifest, mut findings) = shared().clone();
        findings.sources[0].name = name.clone();
        findings.advice[0].action = name;
        findings.advice[0].command = Some(command);
        for line in render_text(&manifest, &findings, width, false).lines() {
            prop_assert!(line.len() <= width, "{line:?}");
            prop_assert!(line.is_ascii());
        }
    }
}

/// A measurement of CPUs says nothing of ranks, and who took the CPUs only if that was recorded.
#[test]
fn a_measurement_of_cpus_is_shown_without_what_it_never_has() {
    let (_directory, run, studied) = written(&small());
    let mut manifest = run.manifest().clone();
    let (begin_ns, end_ns) = (manifest.phases[0].begin_ns, manifest.phases[0].end_ns);
    manifest.phases = vec![Phase {
        kind: PhaseKind::FixedWork {
            node: idlewave_units::NodeId::new(0),
            work_steps: 1,
            kernel: WorkKernel::Fibonacci,
            array: None,
        },
        begin_ns,
        end_ns,
    }];
    manifest.ranks.clear();
    let mut findings = bare_findings();
    findings.cpus = studied.cpus;
    findings.load_sweep = studied.load_sweep;
    findings.sources = studied.sources;
    let text = render_text(&manifest, &findings, 80, false);
    for heading in [
        "NOISE AND LOAD",
        "with 2 CPUs busy a timer tick on CPU 0 is",
        "a timer tick on CPU 0 is 1.50 times as long as",
        "WARM-UP in 10 starts",
        "DETOURS of ",
        "THE SAME WORK again",
        "WHO TAKES TIME",
    ] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
    let steps = findings.cpus[0].fixed_work.as_ref().unwrap().work_steps;
    assert!(
        text.contains(&format!("measure fwq --work {steps}")),
        "{text}"
    );
    for heading in ["LOCKSTEP", "AT SCALE", "WHAT TO DO", "late"] {
        assert!(!text.contains(heading), "{heading}: {text}");
    }
    for source in &mut findings.sources {
        source.stolen = Nanos::ZERO;
    }
    let text = render_text(&manifest, &findings, 80, false);
    assert!(!text.contains("WHO TAKES TIME"), "{text}");
}

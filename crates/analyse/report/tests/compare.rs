//! Comparisons of two runs on the terminal.

use idlewave_explain::compare::{
    Comparison, Measured, Quantity, Row, Side, SourceChange, SourceVerdict, Subject, Verdict,
};
use idlewave_report::render_comparison;
use idlewave_run::SourceKind;
use idlewave_run::findings::Estimate;
use idlewave_units::Cpu;

fn estimate(value: f64, low: f64, high: f64, n: u64) -> Estimate {
    Estimate {
        value,
        low,
        high,
        n,
        method: "test".to_owned(),
    }
}

fn row(subject: Subject, quantity: Quantity, a: f64, b: f64, verdict: Verdict) -> Row {
    let side = |median, blocks| Side {
        median,
        mean: median,
        blocks,
    };
    let shift = b - a;
    Row {
        subject,
        quantity,
        a: side(a, 20),
        b: side(b, 31),
        shift: estimate(shift, 0.9 * shift, 1.1 * shift, 51),
        superiority: estimate(0.9, 0.8, 0.95, 51),
        p: 0.001,
        p_adjusted: 0.01,
        verdict,
    }
}

fn source(name: &str, verdict: SourceVerdict, events: u64) -> SourceChange {
    let measured = |events| Measured {
        rate: estimate(events as f64, 0.0, 1e3, events),
        stolen: estimate(0.01, 0.009, 0.011, events),
    };
    SourceChange {
        kind: SourceKind::Task,
        name: name.to_owned(),
        verdict,
        a: measured(events),
        b: measured(100),
        rate_p: 0.0,
        share_p: 0.0,
        p_adjusted: 0.0,
    }
}

fn comparison() -> Comparison {
    let steps = Subject::Lockstep {
        name: "barrier".to_owned(),
        ranks: 4,
    };
    let forces = Subject::Computation {
        name: "forces".to_owned(),
        ranks: 2,
    };
    let cpu = |n: u32| Subject::Cpu { cpu: Cpu::new(n) };
    let mut rows = vec![row(
        Subject::AllCpus,
        Quantity::Stolen,
        0.02,
        0.01,
        Verdict::Less,
    )];
    rows.extend((0..12).map(|n| {
        let verdict = if n == 3 {
            Verdict::Less
        } else {
            Verdict::NotSignificant
        };
        row(cpu(n), Quantity::Stolen, 0.02, 0.01, verdict)
    }));
    rows.push(row(
        steps,
        Quantity::StepTime,
        120_000.0,
        150_000.0,
        Verdict::More,
    ));
    rows.push(row(
        forces.clone(),
        Quantity::Mean,
        1e6,
        1e6,
        Verdict::NotSignificant,
    ));
    rows.push(row(forces, Quantity::Efficiency, 0.97, 0.91, Verdict::Less));
    Comparison {
        conclusion: "B against A, step time: longer".to_owned(),
        warnings: vec!["A: BUSY MACHINE\u{1b}".to_owned()],
        rows,
        sources: vec![
            source("newcomer", SourceVerdict::Appeared, 0),
            source("same", SourceVerdict::NotSignificant, 99),
        ],
        sources_not_compared: None,
        not_compared: vec!["times of a quantum".to_owned()],
        only_one: vec!["steps of reduce, 4 ranks (A)".to_owned()],
    }
}

#[test]
fn a_comparison_says_first_what_came_out_and_fits_the_screen() {
    for width in [40, 80, 120] {
        let text = render_comparison(["before", "after"], &comparison(), width, false);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let at = |part: &str| flat.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("B against A") < at("! A: BUSY MACHINE"));
        assert!(
            at("STOLEN SHARE") < at("STEPS OF barrier")
                && at("JITTER OF forces, 2") < at("APPEARED")
        );
        assert!(at("APPEARED") < at("newcomer") && at("newcomer") < at("NO SIGNIFICANT"));
        assert!(at("not compared: times") < at("only one of the runs has: steps of reduce"));
        assert!(!text.contains('\u{1b}'));
    }
}

#[test]
fn rows_have_values_verdict_and_shift_and_quiet_cpus_are_counted() {
    let text = render_comparison(["before", "after"], &comparison(), 80, false);
    let line = |word: &str| {
        let line = text.lines().find(|l| l.trim_start().starts_with(word));
        line.unwrap_or_else(|| panic!("{word}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        line("step time"),
        "step time 120 us 150 us longer +30.0 us +27.0 us..+33.0 us 90.0 %"
    );
    assert!(line("efficiency").starts_with("efficiency 97.00 % 91.00 % lower -6.00 % -5.40"));
    assert!(line("mean").starts_with("mean 1.00 ms 1.00 ms not significant 0 ns"));
    assert!(line("CPU 3").starts_with("CPU 3 2.00 % 1.00 % less"));
    assert!(!text.contains("CPU 4 "));
    assert_eq!(
        line("no significant difference on"),
        "no significant difference on 11 more CPUs"
    );
    assert!(line("STEPS OF").ends_with("(20 and 31 blocks)"));
}

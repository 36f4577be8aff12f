use super::*;
use idlewave_run::findings::{Estimate, LockstepFindings, ProgramFindings};
use idlewave_run::{Contamination, Ledger, NoiseProfile, TraceCost, TraceMode, TraceSheet};
use idlewave_units::CpuSet;

/// A source that cost 9 ms of 10 ms of lateness.
fn source(kind: SourceKind, name: &str, late_steps: u64) -> SourceFinding {
    SourceFinding {
        kind,
        name: name.to_owned(),
        events: Some(3),
        stolen: Nanos::from_millis(4),
        late_steps,
        lateness: Nanos::from_millis(9),
        lost: Nanos::from_millis(20),
        amplification: None,
        absorbed: None,
        length: None,
        period: None,
        cpus: CpuSet::default(),
        detail: None,
    }
}

fn findings(sources: Vec<SourceFinding>) -> Findings {
    Findings {
        trace: TraceSheet {
            mode: TraceMode::Tracefs,
            unavailable: Vec::new(),
            cost: TraceCost::default(),
        },
        contamination: Contamination::default(),
        cpus: Vec::new(),
        lockstep: Vec::new(),
        sources,
        latest: Vec::new(),
        lateness: Nanos::from_millis(10),
        named: Nanos::from_millis(9),
        profile: NoiseProfile {
            sources: Vec::new(),
            work: Nanos::ZERO,
            exchange: None,
            barrier: None,
        },
        prediction: None,
        advice: Vec::new(),
        losses: Ledger::default(),
        program: None,
        jitter: Vec::new(),
    }
}

fn program() -> ProgramFindings {
    ProgramFindings {
        library: None,
        ranks: 2,
        total: Nanos::from_millis(100),
        ranks_time: Vec::new(),
        operations: Vec::new(),
        message_bytes: 0,
        messages: 0,
        matrix: Vec::new(),
        waits: Vec::new(),
        waited: Nanos::from_millis(11),
        named: Nanos::from_millis(11),
        propagated: Nanos::ZERO,
        latest: Vec::new(),
        waves: Vec::new(),
        marks: Vec::new(),
    }
}

fn lockstep() -> LockstepFindings {
    LockstepFindings {
        phase: 0,
        name: "barrier".to_owned(),
        ranks: 2,
        iterations: 10,
        compute: vec![Nanos::from_micros(1); 2],
        step: Nanos::from_micros(2),
        total: Nanos::from_micros(30),
        slowdown: Estimate {
            value: 0.5,
            low: 0.4,
            high: 0.6,
            n: 10,
            method: "test".to_owned(),
        },
        late_steps: 7,
        lateness: Nanos::from_millis(10),
        small_variation_ns: 0,
        late_from: Nanos::from_micros(1),
        last_counts: vec![5, 5],
        slow_ranks: Vec::new(),
        last_run_length: 1.0,
        histogram: Vec::new(),
    }
}

fn advice(findings: &Findings) -> Vec<(String, String)> {
    let advice = advise(findings, &HostSheet::default());
    advice.into_iter().map(|a| (a.action, a.reason)).collect()
}

#[test]
fn what_a_daemon_cost_is_said_in_the_words_of_the_run() {
    let reason = |late, in_program: bool| {
        let mut findings = findings(vec![source(SourceKind::Task, "daemon", late)]);
        match in_program {
            true => findings.program = Some(program()),
            false => findings.lockstep.push(lockstep()),
        }
        let [(action, reason)] = &advice(&findings)[..] else {
            panic!("one piece of advice");
        };
        assert_eq!(action, "keep `daemon` off the CPUs of the ranks");
        reason.clone()
    };
    let cost = "cost all ranks 20.0 ms together";
    assert_eq!(reason(7, false), format!("it made 7 steps late and {cost}"));
    assert_eq!(reason(1, false), format!("it made 1 step late and {cost}"));
    assert_eq!(
        reason(7, true),
        format!("it made ranks wait 7 times and {cost}")
    );
    assert_eq!(
        reason(1, true),
        format!("it made ranks wait once and {cost}")
    );
    assert_eq!(reason(0, true), format!("it {cost}"));
}

#[test]
fn of_a_program_without_ranks_it_is_said_what_was_taken_from_its_threads() {
    let findings = findings(vec![source(SourceKind::TimerTick, "timer tick", 0)]);
    let reason = &advice(&findings)[0].1;
    assert_eq!(reason, "it took 9.00 ms from the threads of the program");
}

#[test]
fn sources_of_which_little_comes_or_that_nobody_can_move_need_no_advice() {
    let mut small = source(SourceKind::Task, "daemon", 1);
    small.lateness = Nanos::from_micros(499);
    let mut findings = findings(vec![small, source(SourceKind::Network, "network", 5)]);
    findings.program = Some(program());
    assert_eq!(advice(&findings), []);
}

#[test]
fn what_the_program_does_to_itself_is_advised_on_as_well() {
    for (kind, action, reason) in [
        (
            SourceKind::Rank,
            "give every rank a CPU of its own: start fewer ranks, or use more nodes",
            "ranks on the same CPU made ranks wait 5 times and cost all ranks 20.0 ms together",
        ),
        (
            SourceKind::Blocked,
            "look at why ranks sleep outside of MPI: input and output, locks, sleep",
            "that made ranks wait 5 times and cost all ranks 20.0 ms together",
        ),
        (
            SourceKind::Imbalance,
            "give the ranks equal work",
            "what some had to compute more than others made ranks wait 5 times and cost all ranks 20.0 ms together",
        ),
    ] {
        let mut findings = findings(vec![source(kind, "own", 5)]);
        findings.program = Some(program());
        assert_eq!(advice(&findings), [(action.to_owned(), reason.to_owned())]);
    }
}

#[test]
fn a_busy_machine_is_named_with_those_who_used_it() {
    let mut findings = findings(Vec::new());
    findings.contamination.others = Some(0.25);
    findings.contamination.top_tasks = vec![("make".to_owned(), 1_500_000_000)];
    let (action, reason) = &advice(&findings)[0];
    assert_eq!(action, "repeat the run while the machine is idle");
    assert_eq!(
        reason,
        "others used 25 % of its CPU time meanwhile: make (1.50 s); the findings speak of them too"
    );
}

#[test]
fn a_name_stays_one_word_of_the_command_that_is_advised() {
    for (kind, name, word) in [
        (
            SourceKind::Task,
            "x'; reboot; '",
            r"-x -- 'x'\''; reboot; '\''' | xargs",
        ),
        (
            SourceKind::Irq,
            "eth0-rx-0",
            "grep 'eth0-rx-0' /proc/interrupts;",
        ),
    ] {
        let mut findings = findings(vec![source(kind, name, 1)]);
        findings.program = Some(program());
        let advice = advise(&findings, &HostSheet::default());
        let command = advice[0].command.as_deref().unwrap_or_default();
        assert!(command.contains(word), "{command}");
    }
}

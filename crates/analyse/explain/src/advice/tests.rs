use super::*;
use idlewave_run::findings::{
    Curve, CurvePoint, GranularityCurve, LockstepFindings, PathFinding, Prediction,
    ProgramFindings, SourceFinding, WhatIf,
};
use idlewave_run::testing::{empty_manifest, quiet_lockstep};
use idlewave_run::{
    Contamination, Ledger, NoiseProfile, Phase, PhaseKind, RankSheet, TraceCost, TraceMode,
    TraceSheet, Unavailable,
};
use idlewave_units::{Cpu, CpuSet, NodeId, Rank};

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
        relation: None,
        cpus: CpuSet::default(),
        detail: None,
    }
}

fn findings(sources: Vec<SourceFinding>) -> Findings {
    Findings {
        header: None,
        trace: TraceSheet {
            mode: TraceMode::Tracefs,
            unavailable: Vec::new(),
            cost: TraceCost::default(),
        },
        contamination: Contamination::default(),
        conditions: Default::default(),
        cpus: Vec::new(),
        nodes: None,
        load_sweep: None,
        ways: None,
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
        not_predicted: None,
        advice: Vec::new(),
        losses: Ledger::default(),
        program: None,
        jitter: Vec::new(),
        benchmarks: Vec::new(),
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
        path: PathFinding::default(),
        marks: Vec::new(),
    }
}

fn lockstep() -> LockstepFindings {
    LockstepFindings {
        slowdown: estimate(0.5, 0.1),
        late_steps: 7,
        lateness: Nanos::from_millis(10),
        ..quiet_lockstep()
    }
}

fn estimate(value: f64, half: f64) -> Estimate {
    Estimate {
        value,
        low: value - half,
        high: value + half,
        n: 10,
        method: "test".to_owned(),
    }
}

fn curve(topology: Topology, slowdown: Estimate) -> Curve {
    Curve {
        topology,
        points: vec![CurvePoint {
            ranks: 1_000_000,
            slowdown,
        }],
    }
}

/// A prediction of 2509 % in which removing each source of the findings saves the given amount.
fn predicted(findings: &mut Findings, saved: &[Estimate]) {
    let without = findings.sources.iter().zip(saved);
    let without = without.map(|(s, saved)| WhatIf {
        kind: s.kind,
        name: s.name.clone(),
        // Two intervals that overlap, whatever is saved.
        curves: vec![curve(Topology::Torus3d, estimate(25.09 - saved.value, 3.0))],
        saved: vec![curve(Topology::Torus3d, saved.clone())],
    });
    findings.prediction = Some(Prediction {
        granularity: Nanos::from_millis(1),
        method: String::new(),
        caveats: Vec::new(),
        without: without.collect(),
        curves: vec![curve(Topology::Torus3d, estimate(25.09, 3.0))],
        by_granularity: Vec::new(),
        by_rate: None,
        checks: Vec::new(),
    });
}

/// A hundred delays of equal length for every source.
fn evidence(findings: &Findings) -> Evidence {
    Evidence {
        delays: vec![100.0; findings.sources.len()],
        gaps: None,
        threads: Nanos::from_millis(400),
    }
}

/// Ranks of one node, each free to move, and the CPUs of the node.
fn manifest(ranks: u32, cpus: u32, library: &str) -> Manifest {
    let mut manifest = empty_manifest();
    let all: Vec<Cpu> = (0..cpus).map(Cpu::new).collect();
    manifest.nodes[0].host.online = all.iter().copied().collect();
    manifest.nodes[0].host.allowed = all.into_iter().collect();
    manifest.ranks = (0..ranks)
        .map(|r| RankSheet {
            rank: Rank::new(r),
            node: NodeId::new(0),
            cpu: None,
            threads: Vec::new(),
            process: None,
            priority: None,
        })
        .collect();
    manifest.phases.push(Phase {
        kind: PhaseKind::Recorded {
            library: Some(library.to_owned()),
            exit_code: Some(0),
        },
        begin_ns: 0,
        end_ns: 1,
    });
    manifest
}

fn advised(findings: &Findings) -> Vec<Advice> {
    let manifest = manifest(2, 2, "Open MPI v4.1.4");
    advise(findings, &evidence(findings), &manifest)
}

fn advice(findings: &Findings) -> Vec<(String, String)> {
    let advice = advised(findings);
    advice.into_iter().map(|a| (a.action, a.reason)).collect()
}

fn actions(advice: &[Advice]) -> Vec<&str> {
    advice.iter().map(|a| a.action.as_str()).collect()
}

#[test]
fn advice_is_sorted_by_what_it_saves_and_left_out_where_that_may_be_nothing() {
    let names = ["nothing", "little", "much", "too little"];
    let sources = names.map(|n| source(SourceKind::Task, n, 3)).to_vec();
    let mut findings = findings(sources);
    findings.lockstep.push(lockstep());
    // 0.5 of 25.09 would be worth it but may be nothing; 0.2 is certain but not worth it.
    let saved = [
        estimate(0.5, 0.6),
        estimate(1.5, 0.2),
        estimate(6.0, 0.3),
        estimate(0.2, 0.1),
    ];
    predicted(&mut findings, &saved);
    let advice = advised(&findings);
    let wanted = ["much", "little"].map(|n| format!("keep `{n}` off the CPUs of the ranks"));
    assert_eq!(actions(&advice), wanted);
    let gain = advice[0].gain.clone().unwrap();
    assert_eq!(
        (gain.of, gain.ranks),
        (GainOf::PredictedSlowdown, Some(1_000_000))
    );
    // The interval of the difference, narrower than that of two slow-downs.
    assert_eq!((gain.saved, gain.now), (estimate(6.0, 0.3), 25.09));
}

#[test]
fn to_see_more_saves_nothing_and_comes_last() {
    let mut findings = findings(vec![
        source(
            SourceKind::Unexplained,
            "gap (the kernel's view was not recorded)",
            9,
        ),
        source(SourceKind::Task, "daemon", 3),
    ]);
    findings.trace.mode = TraceMode::Off;
    findings.trace.unavailable.push(Unavailable {
        what: "names".to_owned(),
        why: "switched off".to_owned(),
        allow: Some("idlewave study".to_owned()),
    });
    findings.lockstep.push(lockstep());
    // Whatever a prediction without this source says: to name a source is not to remove it.
    predicted(&mut findings, &[estimate(20.0, 0.1), estimate(1.0, 0.1)]);
    let advice = advised(&findings);
    assert_eq!(
        actions(&advice),
        [
            "keep `daemon` off the CPUs of the ranks",
            "record the kernel's view as well, to learn who interrupts the ranks"
        ]
    );
    assert_eq!(advice[1].gain, None);
    assert_eq!(advice[1].command.as_deref(), Some("idlewave study"));
    assert!(
        !advice[1].reason.contains("instead of"),
        "{}",
        advice[1].reason
    );
}

/// Advice on a thousand gaps, `short` of them short, over 100 ms on two CPUs.
fn on_gaps(short: u64, steal: Option<f64>, hypervisor: bool) -> Advice {
    let mut findings = findings(vec![source(SourceKind::Hypervisor, "hypervisor gap", 5)]);
    findings.lockstep.push(lockstep());
    findings.contamination.steal = steal;
    let mut manifest = manifest(2, 2, "");
    manifest.nodes[0].host.hypervisor = hypervisor.then(|| "KVM".to_owned());
    let (short_time, long_time) = (3_000 * short, 1_000_000 * (1_000 - short));
    let gaps = Gaps {
        count: 1_000,
        short,
        time: Nanos::from_nanos(short_time + long_time),
        short_time: Nanos::from_nanos(short_time),
        watched: Nanos::from_millis(200),
    };
    let evidence = Evidence {
        gaps: Some(gaps),
        ..evidence(&findings)
    };
    advise(&findings, &evidence, &manifest).remove(0)
}

#[test]
fn gaps_are_another_virtual_machine_only_where_steal_time_says_so() {
    let other = "use CPUs that no other virtual machine shares";
    let advice = on_gaps(1_000, Some(0.0013), true);
    assert!(advice.inferred);
    assert_ne!(advice.action, other);
    let known = "gaps took 1.50 % of the CPUs' time and the kernel counted 0.13 % of steal time; \
                 100 % of 1,000 gaps are shorter than 10.0 us";
    assert!(advice.reason.contains(known), "{}", advice.reason);
    assert!(
        advice.reason.contains("system-management"),
        "{}",
        advice.reason
    );
    let long = on_gaps(800, Some(0.0), true);
    assert!(long.inferred && long.action != other, "{}", long.action);
    let stolen = on_gaps(800, Some(0.9), true);
    assert_eq!((stolen.action.as_str(), stolen.inferred), (other, false));
    let bare = on_gaps(1_000, None, false);
    assert!(
        bare.inferred && bare.action.contains("firmware"),
        "{}",
        bare.action
    );
    assert!(
        bare.reason.contains("steal time was not measured"),
        "{}",
        bare.reason
    );
}

#[test]
fn ranks_that_share_cpus_are_bound_where_there_is_a_cpu_for_each() {
    let mut findings = findings(vec![source(SourceKind::Rank, "other rank", 5)]);
    findings.program = Some(program());
    let cost = "ranks on the same CPU made ranks wait 5 times and cost all ranks 20.0 ms together";
    let of = |ranks, library| {
        let manifest = manifest(ranks, 2, library);
        advise(&findings, &evidence(&findings), &manifest).remove(0)
    };
    for (library, command) in [
        ("Open MPI v4.1.4", "mpirun --bind-to core ..."),
        ("MPICH Version: 4.0.2", "mpiexec -bind-to core ..."),
    ] {
        let bound = of(2, library);
        assert_eq!(bound.action, "bind each rank to its own CPU");
        assert_eq!(
            (bound.reason.as_str(), bound.command.as_deref()),
            (cost, Some(command))
        );
        assert!(bound.saves());
    }
    let crowded = of(4, "Open MPI v4.1.4");
    assert_eq!(
        crowded.action,
        "start fewer ranks, or use more nodes: 4 ranks share 2 CPUs"
    );
    assert!(!crowded.saves());
}

#[test]
fn a_delay_that_came_once_saves_with_a_wide_interval_and_many_of_one_length_with_a_narrow_one() {
    let mut findings = findings(vec![source(SourceKind::Task, "daemon", 3)]);
    findings.program = Some(program());
    let with = |delays: f64| {
        let evidence = Evidence {
            delays: vec![delays],
            ..Evidence::default()
        };
        let manifest = manifest(2, 2, "");
        let gain = advise(&findings, &evidence, &manifest).remove(0).gain;
        let saved = gain.unwrap().saved;
        // 20 ms of 2 ranks that ran for 100 ms.
        assert_eq!(saved.value, 0.1);
        (saved.low, saved.high)
    };
    // Exact Poisson interval of one event: 0.0253 to 5.572.
    let (low, high) = with(1.0);
    assert!(
        (low - 0.002_53).abs() < 1e-5 && (high - 0.557_2).abs() < 1e-4,
        "{low}..{high}"
    );
    // Of a hundred: 81.36 to 121.63.
    let (low, high) = with(100.0);
    assert!(
        (low - 0.081_36).abs() < 1e-5 && (high - 0.121_63).abs() < 1e-5,
        "{low}..{high}"
    );
}

#[test]
fn longer_computation_is_advised_only_where_that_of_the_run_is_too_short() {
    let mut findings = findings(Vec::new());
    findings.lockstep.push(lockstep());
    predicted(&mut findings, &[]);
    let at = |millis, value| (Nanos::from_micros(millis), estimate(value, 0.001));
    let points = vec![
        at(10, 25.0),
        at(1_000, 0.4),
        at(5_000, 0.1),
        at(10_000, 0.04),
    ];
    let prediction = findings.prediction.as_mut().unwrap();
    prediction.by_granularity = vec![GranularityCurve {
        topology: Topology::Torus3d,
        ranks: 4_096,
        points,
    }];
    let advice = advised(&findings);
    assert_eq!(
        actions(&advice),
        ["compute for at least 10.0 ms between two synchronisations (3D)"]
    );
    // Not relative to the 2500 % at a length of computation that this run does not have.
    let gain = advice[0].gain.as_ref().unwrap();
    assert!((gain.saved.value - 0.36).abs() < 1e-12 && gain.now == 0.4);
    findings.prediction.as_mut().unwrap().granularity = Nanos::from_millis(50);
    assert_eq!(advised(&findings), []);
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
    for (kind, action, reason, saves) in [
        (
            SourceKind::Blocked,
            "find out why ranks sleep between their calls: file access, locks, sleep()",
            "that sleep made ranks wait 5 times and cost all ranks 20.0 ms together",
            false,
        ),
        (
            SourceKind::Imbalance,
            "give the ranks equal work",
            "the longer computation that some ranks repeat made ranks wait 5 times and cost all ranks 20.0 ms together",
            true,
        ),
    ] {
        let mut findings = findings(vec![source(kind, "own", 5)]);
        findings.program = Some(program());
        assert_eq!(advice(&findings), [(action.to_owned(), reason.to_owned())]);
        assert_eq!(advised(&findings)[0].saves(), saves);
    }
}

#[test]
fn a_busy_machine_is_named_with_those_who_used_it() {
    let mut findings = findings(Vec::new());
    findings.contamination.wall = Nanos::from_secs(3);
    findings.contamination.others = Some(0.25);
    findings.contamination.top_tasks = vec![("make".to_owned(), 1_500_000_000)];
    let (action, reason) = &advice(&findings)[0];
    assert_eq!(action, "repeat the run while the machine is idle");
    assert_eq!(
        reason,
        "other programs used 25.0 % of its CPU time: make (1.50 s); the findings describe them as well"
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
            "grep eth0-rx-0 /proc/interrupts;",
        ),
    ] {
        let mut findings = findings(vec![source(kind, name, 1)]);
        findings.program = Some(program());
        let advice = advised(&findings);
        let command = advice[0].command.as_deref().unwrap_or_default();
        assert!(command.contains(word), "{command}");
    }
}

#[test]
fn gains_compare_equal_numbers_of_ranks() {
    let curve_of = |topology, values: &[(u64, f64)]| Curve {
        topology,
        points: values
            .iter()
            .map(|&(ranks, value)| CurvePoint {
                ranks,
                slowdown: estimate(value, 0.01),
            })
            .collect(),
    };
    let mut found = findings(vec![source(SourceKind::Task, "spoiler", 90)]);
    predicted(&mut found, &[]);
    let prediction = found.prediction.as_mut().unwrap();
    prediction.curves = vec![
        curve_of(Topology::Torus3d, &[(65_536, 1.0), (1_000_000, 2.0)]),
        // This curve ends earlier, as curves of long steps do.
        curve_of(Topology::Barrier, &[(65_536, 8.0)]),
    ];
    prediction.without = vec![WhatIf {
        kind: SourceKind::Task,
        name: "spoiler".to_owned(),
        curves: vec![curve_of(Topology::Torus3d, &[(65_536, 0.5)])],
        saved: Vec::new(),
    }];
    let barrier = advised(&found)
        .into_iter()
        .find(|a| a.action.starts_with("replace a global barrier"))
        .unwrap();
    let gain = barrier.gain.unwrap();
    assert_eq!((gain.ranks, gain.now), (Some(65_536), 8.0));
    assert!((gain.saved.value - 7.0).abs() < 1e-12, "{gain:?}");
    // Nothing is known of the source at a million ranks.
    assert_eq!(gain::at_scale(&found, &found.sources[0]), None);
}

#[test]
fn slow_messages_are_a_matter_of_where_the_cpus_are() {
    let mut found = findings(vec![source(
        SourceKind::SharedMemory,
        "shared-memory transfer",
        90,
    )]);
    found.lockstep = vec![lockstep()];
    let one = |hypervisor: Option<&str>| {
        let mut manifest = manifest(2, 2, "Open MPI v4.1.4");
        manifest.nodes[0].host.hypervisor = hypervisor.map(str::to_owned);
        let all = advise(&found, &evidence(&found), &manifest);
        let about = |a: &Advice| a.action.contains("share a cache");
        all.into_iter().find(about).unwrap()
    };
    let (real, guest) = (one(None), one(Some("kvm")));
    assert!(real.action.starts_with("put ranks"), "{real:?}");
    assert!(guest.action.starts_with("ask the operator"), "{guest:?}");
    assert!(real.inferred && guest.inferred);
    assert!(
        guest.reason.starts_with("slow messages between the CPUs"),
        "{guest:?}"
    );
}

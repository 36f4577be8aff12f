use super::*;
use idlewave_run::WorkKernel;
use idlewave_run::findings::{DetourFindings, Spectrum, TimeStretch, WarmUp};
use idlewave_run::tables::{Sources, Tasks};
use idlewave_run::testing::empty_manifest;
use idlewave_stats::blocks;
use idlewave_stats::random::SplitMix;

fn estimate(value: f64, half: f64) -> Estimate {
    Estimate {
        value,
        low: (value - half).max(0.0),
        high: value + half,
        n: 100,
        method: String::new(),
    }
}

fn noise(node: u32, cpu: u32, stolen: Estimate, quantum: u64) -> CpuNoise {
    CpuNoise {
        node: NodeId::new(node),
        cpu: Cpu::new(cpu),
        detours: Some(DetourFindings {
            watched: Nanos::from_secs(1),
            threshold: Nanos::from_micros(1),
            turn_quanta: 1.0,
            count: 100,
            rate: rates::poisson(100, 1.0),
            stolen,
            largest: None,
            classes: Vec::new(),
            periods: Vec::new(),
            spectrum: None,
            histogram: Vec::new(),
        }),
        fixed_work: Some(FixedWorkFindings {
            work_steps: 1_000,
            kernel: WorkKernel::Fibonacci,
            array: None,
            count: 1_000,
            reference: Nanos::from_nanos(quantum),
            min: Nanos::from_nanos(quantum),
            median: Nanos::from_nanos(quantum),
            p99: Nanos::from_nanos(quantum),
            max: Nanos::from_nanos(quantum),
            slowdown: estimate(0.002, 0.0005),
            slowdown_by_level: 0.0,
            levels: Vec::new(),
            warm_up: WarmUp {
                settled_after: Some(Nanos::ZERO),
                ratio: 1.0,
            },
            histogram: Vec::new(),
            times: Vec::new(),
        }),
        fixed_time: None,
        reserved: None,
        starts: None,
    }
}

fn ranks(cpus: &[CpuNoise]) -> NodesFindings {
    let catalog = Catalog::new(&Tasks::default(), &Sources::default());
    let found = node_ranks(&empty_manifest(), cpus, &Taken::default(), &catalog);
    found.expect("several nodes")
}

/// Stolen share of a second in which as many exponential detours of 10 us strike as of a Poisson
/// process of 100/s, with the interval over 20 blocks.
fn random_stolen(random: &mut SplitMix) -> Estimate {
    let mut stolen = [0.0; 20];
    let mut at = -random.uniform().ln() / 100.0;
    while at < 1.0 {
        stolen[(at * 20.0) as usize] += -random.uniform().ln() * 10e-6 * 20.0;
        at -= random.uniform().ln() / 100.0;
    }
    let found = blocks::mean(&stolen, stolen.len());
    estimate(found.mean, found.half_width)
}

/// 1,000 nodes with one CPU, all with the same law of noise and the same speed but for 0.1 %.
#[test]
fn equal_nodes_give_a_false_alarm_in_one_run_of_twenty_at_most() {
    let mut random = SplitMix::new(3);
    let runs = 20;
    let mut alarms = 0;
    for _ in 0..runs {
        let all: Vec<CpuNoise> = (0..1_000)
            .map(|i| {
                let quantum = 20_000 + random.below(20);
                noise(i, 0, random_stolen(&mut random), quantum)
            })
            .collect();
        let found = ranks(&all);
        assert_eq!(found.comparisons, 2_000);
        alarms += usize::from(found.outliers().count() > 0);
    }
    assert!(alarms <= runs / 20, "{alarms} of {runs}");
}

fn alike(nodes: u32) -> Vec<CpuNoise> {
    let of = |i: u32| {
        let stolen = 0.002 + f64::from(i * 7 % 10) * 1e-5;
        noise(
            i / 2,
            i % 2,
            estimate(stolen, 1e-4),
            20_000 + u64::from(i * 3 % 11),
        )
    };
    (0..2 * nodes).map(of).collect()
}

#[test]
fn a_node_with_one_noisy_cpu_and_one_with_slow_cpus_stand_out() {
    let mut all = alike(40);
    // CPU 1 of node 7 loses 2 %; both CPUs of node 30 are 8 % slower.
    all[15] = noise(7, 1, estimate(0.02, 0.001), 20_000);
    all[60] = noise(30, 0, estimate(0.002, 1e-4), 21_600);
    all[61] = noise(30, 1, estimate(0.002, 1e-4), 21_600);
    let found = ranks(&all);
    let named: Vec<(u32, NodeMeasure, Option<u32>)> = found
        .outliers()
        .flat_map(|n| {
            let reasons = n.reasons.iter();
            reasons.map(|r| (n.node.get(), r.measure, r.cpu.map(Cpu::get)))
        })
        .collect();
    assert_eq!(
        named,
        [
            (30, NodeMeasure::Work, None),
            (7, NodeMeasure::Stolen, Some(1))
        ]
    );
    let slow = &found.ranked[0];
    assert!(
        slow.reasons[0].because.contains("at its best too"),
        "{slow:?}"
    );
    assert!((slow.slower.as_ref().unwrap().value - 0.08).abs() < 0.001);
    // What an unusual node shows badly is not called unusual.
    all[15] = noise(7, 1, estimate(0.02, 0.019), 20_000);
    assert_eq!(ranks(&all).outliers().count(), 1);
}

#[test]
fn two_nodes_have_no_peers() {
    let mut all = alike(2);
    all[3] = noise(1, 1, estimate(0.3, 0.01), 20_000);
    let found = ranks(&all);
    assert_eq!((found.comparisons, found.outliers().count()), (0, 0));
    assert_eq!(found.ranked[0].node, NodeId::new(1));
    assert!(
        found.test.contains("node 1 loses more than"),
        "{}",
        found.test
    );
    let one = node_ranks(
        &empty_manifest(),
        &all[..2],
        &Taken::default(),
        &Catalog::new(&Tasks::default(), &Sources::default()),
    );
    assert_eq!(one, None);
}

#[test]
fn of_many_cpus_the_sixteen_that_lose_most_keep_their_many_points() {
    let mut cpus: Vec<CpuNoise> = (0..20)
        .map(|cpu| noise(0, cpu, estimate(0.01 * f64::from(cpu), 0.0), 1_000))
        .collect();
    for (cpu, found) in (0_u32..).zip(&mut cpus) {
        found.detours.as_mut().unwrap().spectrum = Some(Spectrum {
            threshold: 15.0,
            points: vec![(1.0, 1.0)],
        });
        let work = found.fixed_work.as_mut().unwrap();
        work.slowdown.value = f64::from(100 - cpu);
        work.times = vec![TimeStretch {
            begin: Nanos::ZERO,
            lower: Nanos::ZERO,
            median: Nanos::ZERO,
            upper: Nanos::ZERO,
        }];
    }
    crate::cpu_noise::keep_worst(&mut cpus);
    for (cpu, found) in cpus.iter().enumerate() {
        let spectrum = &found.detours.as_ref().unwrap().spectrum;
        assert_eq!(spectrum.is_some(), cpu >= 4, "{cpu}");
        let times = &found.fixed_work.as_ref().unwrap().times;
        assert_eq!(!times.is_empty(), cpu < 16, "{cpu}");
    }
}

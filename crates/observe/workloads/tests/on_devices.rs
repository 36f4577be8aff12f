//! Over network contexts, workloads do the same as over threads, to the bit, while their gang takes
//! turns with another over a network that loses, duplicates, reorders and corrupts frames, under
//! each policy.
//!
//! Each rank is a process that runs this executable with the test `a_rank_of_a_gang`.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../fabric/tests/netctx_device/site.rs"]
mod site;

use idlewave_clock::Monotonic;
use idlewave_fabric::netctx::Policy;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::{Fabric, Reduction, Waiting, world};
use idlewave_run::{Coupling, Decomposition, ExchangeVariant};
use idlewave_stats::random::SplitMix;
use idlewave_units::Nanos;
use idlewave_workloads::lockstep::{HEADER, Pattern, Plan as Steps, Work, run_rank as run_steps};
use idlewave_workloads::md::{Plan, run_rank};
use idlewave_workloads::{Benchmark, is};
use site::{CASE, Site, bad};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CASES: [&str; 4] = ["exchange", "allreduce", "md", "is"];
/// Two ranks on each node, not next to each other.
const NODES: [u32; 4] = [0, 1, 1, 0];

fn steps<F: Fabric>(fabric: &mut F, coupling: Coupling) -> String {
    let pattern = Pattern {
        coupling,
        sides: Decomposition::balanced(fabric.size(), 2).sides().to_vec(),
        variant: ExchangeVariant::NonBlocking,
        bytes: 2_000.max(HEADER),
    };
    let halt = AtomicBool::new(false);
    let plan = Steps {
        work: Work::new(100, Nanos::from_millis(1), 100),
        pattern: &pattern,
        duration: u64::MAX,
        threshold: u64::MAX / 4,
        max_iterations: 120,
        halt: &halt,
    };
    let done = run_steps(fabric, Monotonic, &plan, |_| (), |_| ()).unwrap();
    format!("{} iterations", done.iterations)
}

/// The workload checks every message and every sum, or its result depends on them.
fn run<F: Fabric>(fabric: &mut F, case: &str) -> String {
    let halt = AtomicBool::new(false);
    let what = match case {
        "exchange" => steps(fabric, Coupling::Neighbours),
        "allreduce" => {
            let mut value = [f64::from(fabric.rank().get()) + 0.1];
            for _ in 0..80 {
                let done = fabric.allreduce(&mut value, Reduction::Sum, &mut || ());
                done.unwrap();
                value[0] = value[0] % 1.0 + 1.0 / (f64::from(fabric.rank().get()) + 3.0);
            }
            format!("{:016x}", value[0].to_bits())
        }
        "md" => {
            let plan = Plan {
                cells: 3,
                steps: 40,
                duration: u64::MAX,
                energy_every: 20,
                seed: 42,
                halt: &halt,
            };
            let done = run_rank(fabric, Monotonic, &plan, |_| ()).unwrap();
            format!("{} pairs {:016x}", done.pairs, done.digest)
        }
        "is" => {
            let benchmark = Benchmark::Is(is::Class::S);
            let done = benchmark.run(fabric, &halt, &mut |_| ()).unwrap();
            format!("{} operations {:?}", done.operations, done.checksum)
        }
        other => panic!("no case {other}"),
    };
    format!("talked {} {case}: {what}", fabric.rank())
}

/// The body of every rank that the other tests start.
#[test]
fn a_rank_of_a_gang() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let attachment = Attachment::of_this_process().unwrap().unwrap();
    println!("{}", run(&mut attachment.attach().unwrap(), &case));
}

fn over_threads(case: &str) -> Vec<String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = world(NODES.len() as u32, Waiting::Yield)
            .into_iter()
            .map(|mut end| scope.spawn(move || run(&mut end, case)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Two gangs that do the same, switched until they end: a message that reached the wrong gang would
/// be accepted.
fn switched(case: &str, policy: Policy, wanted: &[String]) {
    let mut site = Site::new(bad(2), policy, 2);
    site.admit(0, &NODES);
    site.admit(1, &NODES);
    site.start(0);
    let mut random = SplitMix::new(7);
    let mut ranks = site.ranks(0, case);
    ranks.extend(site.ranks(1, case));
    let mut switches = 0;
    while site::any_lives(&mut ranks) {
        switches += 1;
        site.switch(switches % 2);
        std::thread::sleep(Duration::from_micros(random.below(5_000)));
    }
    let said = site::end(&mut ranks);
    println!("{case} {policy:?}: {switches} switches");
    assert_eq!(said, [wanted, wanted].concat(), "{case} {policy:?}");
    assert!(switches > 10, "{case} {policy:?}: {switches} switches");
}

#[test]
fn each_workload_does_the_same_as_over_threads_while_it_is_switched_by_each_policy() {
    for case in CASES {
        let wanted = over_threads(case);
        // In parallel: ranks spend most of the time waiting for time-outs.
        std::thread::scope(|scope| {
            for policy in Policy::ALL {
                let wanted = &wanted;
                scope.spawn(move || switched(case, policy, wanted));
            }
        });
    }
}

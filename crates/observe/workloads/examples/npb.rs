//! Runs one of the NAS Parallel Benchmarks on threads: `npb -- ft A 4`.

use idlewave_fabric::{PointToPoint, Waiting, world};
use idlewave_workloads::Benchmark;
use std::sync::atomic::AtomicBool;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, class, ranks] = arguments.as_slice() else {
        panic!("give a program, a class and a number of ranks, as in ft A 4");
    };
    let benchmark: Benchmark = format!("{program}:{class}").parse().expect("a benchmark");
    let ranks = world(ranks.parse().expect("a number of ranks"), Waiting::Yield);
    let halt = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut rank in ranks {
            let (benchmark, halt) = (&benchmark, &halt);
            scope.spawn(move || {
                let done = benchmark.run(&mut rank, halt, &mut |_| ());
                let done = done.expect("a right result");
                if rank.rank().get() == 0 {
                    println!("{benchmark}: {}", done.timed.parts.total);
                    for region in &done.timed.regions {
                        println!("  {}: {}", region.name, region.time);
                    }
                }
            });
        }
    });
}

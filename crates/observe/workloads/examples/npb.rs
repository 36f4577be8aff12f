//! Runs a NAS Parallel Benchmark on threads: `npb PROGRAM CLASS RANKS`.

use idlewave_fabric::{Waiting, world};
use idlewave_workloads::npb::{Class, Npb, Program};
use std::sync::atomic::AtomicBool;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, class, ranks] = &args[..] else {
        panic!("npb PROGRAM CLASS RANKS")
    };
    let npb = Npb {
        program: Program::of_name(program).expect("a program"),
        class: class.parse::<Class>().expect("a class"),
    };
    let halt = AtomicBool::new(false);
    let done: Vec<_> = std::thread::scope(|scope| {
        let world = world(ranks.parse().expect("ranks"), Waiting::Yield);
        let run = |mut end| {
            scope.spawn({
                let halt = &halt;
                move || npb.run(&mut end, halt, &mut |_| ())
            })
        };
        let threads: Vec<_> = world.into_iter().map(run).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    for (rank, done) in done.into_iter().enumerate().take(1) {
        let done = match done {
            Ok(done) => done,
            Err(error) => panic!("{error}"),
        };
        let seconds = done.timed.parts.total.as_secs_f64();
        println!(
            "{npb} {ranks} ranks, verified {}, {seconds:.3} s, {:.0} Mop/s",
            done.verified,
            done.operations as f64 / seconds / 1e6
        );
        println!("rank {rank}: {:?}", done.timed.parts);
        for region in &done.timed.regions {
            println!("  {} {:.3} s", region.name, region.time.as_secs_f64());
        }
        for (call, calls) in done.timed.calls.iter() {
            println!("  {} {calls:?}", call.name());
        }
    }
}

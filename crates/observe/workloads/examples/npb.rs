//! Runs a NAS Parallel Benchmark over threads of this process and prints what rank 0 saw:
//! `cargo run --release -p idlewave-workloads --example npb -- cg A 4`.

use idlewave_fabric::{Waiting, world};
use idlewave_workloads::Benchmark;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, class, ranks] = &arguments[..] else {
        return failed("usage: npb PROGRAM CLASS RANKS, as in npb cg A 4");
    };
    let benchmark = match format!("{program}:{class}").parse::<Benchmark>() {
        Ok(benchmark @ Benchmark::Npb(_)) => benchmark,
        Ok(_) => return failed("not one of the programs of this example"),
        Err(error) => return failed(error),
    };
    let Some(ranks) = ranks
        .parse()
        .ok()
        .filter(|ranks| (1..=1024).contains(ranks))
    else {
        return failed("the number of ranks is one from 1 to 1024");
    };
    let halt = AtomicBool::new(false);
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = world(ranks, Waiting::Yield)
            .into_iter()
            .map(|mut end| {
                let (benchmark, halt) = (&benchmark, &halt);
                scope.spawn(move || benchmark.run(&mut end, halt, &mut |_| ()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for rank in &done {
        match rank {
            Ok(Ok(_)) => (),
            Ok(Err(error)) => return failed(error),
            Err(_) => return failed("a rank panicked"),
        }
    }
    let Some(Ok(Ok(first))) = done.first() else {
        return failed("no rank ran");
    };
    let parts = first.timed.parts;
    let seconds = parts.total.as_secs_f64();
    let rate = first.operations as f64 / 1e6 / seconds;
    let verified = if first.verified {
        "verified"
    } else {
        "not verified"
    };
    println!("{benchmark} on {ranks}: {verified}, {seconds:.3} s, {rate:.0} Mop/s");
    println!(
        "  computation {}, point-to-point {}, collective {}",
        parts.computation(),
        parts.point_to_point,
        parts.collective
    );
    for region in &first.timed.regions {
        println!("  {}: {}", region.name, region.time);
    }
    for (call, calls) in first.timed.calls.iter() {
        println!(
            "  {}: {} calls, {}, {}",
            call.name(),
            calls.count,
            calls.bytes,
            calls.time
        );
    }
    ExitCode::SUCCESS
}

fn failed(why: impl std::fmt::Display) -> ExitCode {
    eprintln!("npb: {why}");
    ExitCode::FAILURE
}

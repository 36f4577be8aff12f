//! One of the NAS Parallel Benchmarks on threads, and where the time of rank 0 went:
//! `cargo run --release -p idlewave-workloads --example npb -- lu W 4`.

use idlewave_fabric::{PointToPoint as _, Waiting, world};
use idlewave_workloads::npb::{Npb, Program};
use std::error::Error;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, class, ranks] = args.as_slice() else {
        return Err("give PROGRAM CLASS RANKS".into());
    };
    let npb = Npb {
        program: Program::of_name(name).ok_or("no such program")?,
        class: class.parse()?,
    };
    let ranks: u32 = ranks.parse()?;
    let halt = AtomicBool::new(false);
    let (halt, memory) = (&halt, npb.memory_per_rank(ranks));
    std::thread::scope(|scope| {
        for mut end in world(ranks, Waiting::Yield) {
            scope.spawn(move || {
                let done = npb.run(&mut end, halt, &mut |_| ());
                if done.is_err() {
                    end.fail();
                }
                match done {
                    Ok(done) if end.rank().get() == 0 => {
                        let parts = done.timed.parts;
                        let seconds = parts.total.get() as f64 * 1e-9;
                        println!(
                            "{npb} on {ranks}: verified {}, {seconds:.3} s, {:.1} Mop/s, {memory:?} per rank",
                            done.verified,
                            done.operations as f64 / seconds * 1e-6
                        );
                        println!("{parts:?}");
                        for region in &done.timed.regions {
                            println!("  {region:?}");
                        }
                        for (call, calls) in done.timed.calls.iter() {
                            println!("  {}: {calls:?}", call.name());
                        }
                    }
                    Ok(_) => {}
                    Err(error) => println!("rank {}: {error}", end.rank()),
                }
            });
        }
    });
    Ok(())
}

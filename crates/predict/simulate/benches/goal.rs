//! Events per second of the LogGOPS engine, and of the readers: `cargo bench -p idlewave-simulate --bench goal`. One thread.
//!
//! An event is an operation or a message. Work differs from rank to rank and step to step, so that ranks drift apart as in a
//! real program; with equal work all ranks do the same at the same time.

use divan::counter::{BytesCount, ItemsCount};
use idlewave_simulate::goal::{
    Operation, OperationId, Parameters, Schedule, ScheduleBuilder, simulate,
};

fn main() {
    divan::main();
}

const STEPS: u32 = 100;

/// Work, two messages out, two messages in, on a ring; work varies by up to `spread` ns.
fn exchange(ranks: u32, steps: u32, spread: u32) -> Schedule {
    let made = || {
        let mut builder = ScheduleBuilder::new(ranks)?;
        for rank in 0..ranks {
            let mut before: Vec<OperationId> = Vec::new();
            for step in 0..steps {
                let mixed = (rank * steps + step).wrapping_mul(0x9E37_79B1) >> 7;
                let calc =
                    builder.push(Operation::calc(u64::from(20_000 + mixed % (spread + 1))))?;
                for earlier in before.drain(..) {
                    builder.requires(calc, earlier)?;
                }
                let peers = [(rank + ranks - 1) % ranks, (rank + 1) % ranks];
                for peer in peers {
                    let send = builder.push(Operation::send(8, peer))?;
                    builder.requires(send, calc)?;
                    before.push(send);
                }
                for peer in peers {
                    let recv = builder.push(Operation::recv(8, peer))?;
                    builder.requires(recv, calc)?;
                    before.push(recv);
                }
            }
            builder.end_rank()?;
        }
        builder.finish()
    };
    made().unwrap_or_else(|error| panic!("{error}"))
}

fn events(ranks: u32) -> ItemsCount {
    // Five operations and two messages.
    ItemsCount::new(u64::from(ranks) * u64::from(STEPS) * 7)
}

fn run(bencher: divan::Bencher, ranks: u32, spread: u32) {
    let schedule = exchange(ranks, STEPS, spread);
    bencher
        .counter(events(ranks))
        .bench(|| simulate(&schedule, &Parameters::default()));
}

#[divan::bench(args = [64_u32, 1_024, 16_384], sample_count = 11, sample_size = 1)]
fn exchange_1d(bencher: divan::Bencher, ranks: u32) {
    run(bencher, ranks, 20_000);
}

#[divan::bench(args = [16_384_u32], sample_count = 11, sample_size = 1)]
fn exchange_1d_in_lockstep(bencher: divan::Bencher, ranks: u32) {
    run(bencher, ranks, 0);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn build(bencher: divan::Bencher) {
    bencher
        .counter(ItemsCount::new(1_024 * u64::from(STEPS) * 5))
        .bench(|| exchange(1_024, STEPS, 20_000));
}

#[divan::bench(args = ["text", "binary"], sample_count = 5, sample_size = 1)]
fn read(bencher: divan::Bencher, form: &str) {
    let schedule = exchange(1_024, STEPS, 20_000);
    let mut bytes = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = match form {
        "text" => schedule.write_text(&mut bytes),
        _ => schedule.write_binary(&mut bytes),
    };
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| Schedule::read(bytes.as_slice()).map(|s| s.operations()));
}

//! Events per second and memory of the LogGOPS engine on programs: `cargo bench -p idlewave-simulate --bench program`. One thread.
//!
//! An event is an operation or a message. Work differs from rank to rank and step to step, so that
//! ranks drift apart as in a real program. The memory columns show the peak allocation; single
//! events allocate nothing.
//!
//! Lower bound on the cost of an event, from the memory that it touches: a step of the exchange has
//! 5 operations and 2 messages, 7 events. Each event is written to the queue and read from it, 2 x
//! 16 bytes, and once more when its bucket is spread; its operation is written and read, 2 x 32
//! bytes; its rank has 24 bytes of clocks, 16 of lists, 12 of state and its slots. That is about
//! 130 bytes per event, in the second-level cache for 16,384 ranks (about 5 MB in flight), so about
//! 10 ns at 16 bytes per ns. On top come some 100 instructions per event, with its matching and its
//! place in the queue: 25 ns at 2 per cycle and 2 GHz.

use divan::AllocProfiler;
use divan::counter::ItemsCount;
use idlewave_simulate::goal::{Outcome, Parameters};
use idlewave_simulate::program::{Bindings, Bound, Program, simulate};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    println!("{}", machine());
    divan::main();
}

/// The machine that this runs on.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown CPU", |rest| {
        rest.trim_start_matches(['\t', ' ', ':'])
    });
    let cpus = std::thread::available_parallelism().map_or(0, |count| count.get());
    format!("{model}, {cpus} CPUs")
}

/// Work, two messages out, two messages in, on a ring.
const EXCHANGE: &str = "program 1
    param steps = 100
    let left = (rank - 1) % ranks
    let right = (rank + 1) % ranks
    loop step steps {
      calc 20us + (rank * 7919 + step * 104729) % 20001
      together {
        send 8b to left
        send 8b to right
        recv 8b from left
        recv 8b from right
      }
    }";

/// Work, then a round for each binary digit of the rank numbers.
const DISSEMINATION: &str = "program 1
    param steps = 2
    loop step steps {
      calc 20us + (rank * 7919 + step * 104729) % 20001
      loop round log2ceil(ranks) {
        together {
          send 8b to (rank + (1 << round)) % ranks tag round
          recv 8b from (rank - (1 << round)) % ranks tag round
        }
      }
    }";

/// Every rank sends to every other one, all at once.
const ALLTOALL: &str = "program 1
    together {
      loop far ranks - 1 {
        send 8b to (rank + far + 1) % ranks
        recv 8b from (rank - far - 1) % ranks
      }
    }";

fn bound(text: &str, ranks: u32, steps: Option<u32>) -> Bound {
    let made = || {
        let values = steps.map(|steps| ("steps".to_owned(), steps.into()));
        text.parse::<Program>()?.bind(&Bindings {
            ranks: Some(ranks),
            values: values.into_iter().collect(),
        })
    };
    made().unwrap_or_else(|error| panic!("{error}"))
}

fn played(program: &Bound) -> Outcome {
    simulate(program, &Parameters::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn run(bencher: divan::Bencher, program: &Bound) {
    let outcome = played(program);
    bencher
        .counter(ItemsCount::new(outcome.operations + outcome.messages))
        .bench(|| played(program));
}

#[divan::bench(args = [64_u32, 1_024, 16_384, 131_072], sample_count = 5, sample_size = 1)]
fn exchange_1d(bencher: divan::Bencher, ranks: u32) {
    run(bencher, &bound(EXCHANGE, ranks, None));
}

#[divan::bench(args = [131_072_u32], sample_count = 5, sample_size = 1)]
fn dissemination(bencher: divan::Bencher, ranks: u32) {
    run(bencher, &bound(DISSEMINATION, ranks, None));
}

#[divan::bench(args = [256_u32, 1_024], sample_count = 5, sample_size = 1)]
fn alltoall(bencher: divan::Bencher, ranks: u32) {
    run(bencher, &bound(ALLTOALL, ranks, None));
}

/// 16,384 ranks x 1221 steps x 5 operations are 100,024,320.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn hundred_million_operations(bencher: divan::Bencher) {
    let program = bound(EXCHANGE, 16_384, Some(1_221));
    bencher
        .counter(ItemsCount::new(16_384 * 1_221 * 7_u64))
        .bench(|| played(&program));
}

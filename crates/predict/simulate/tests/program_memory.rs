//! Memory of programs being simulated: it grows with ranks and with what is in flight, not with
//! steps.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::Parameters;
use idlewave_simulate::program::{Bindings, Bound, Program, patterns, simulate};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counts allocated bytes and their peak. One plain counter, as only one test measures at a time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn count(more: usize, less: usize) {
    let now = NOW.fetch_add(more, Relaxed) + more;
    MOST.fetch_max(now, Relaxed);
    NOW.fetch_sub(less, Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    // A block that grows in place exists only once; so do large blocks, which the system moves by
    // page tables.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(
            size.saturating_sub(layout.size()),
            layout.size().saturating_sub(size),
        );
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests of a file run in parallel.
static ALONE: Mutex<()> = Mutex::new(());

fn bound(program: &Program, ranks: u32, values: &[(&str, i64)]) -> Bound {
    let values = values.iter().map(|&(name, value)| (name.to_owned(), value));
    let bindings = Bindings {
        ranks: Some(ranks),
        values: values.collect(),
    };
    program.bind(&bindings).unwrap()
}

/// Peak bytes during the simulation, without the check whether memory suffices for all ranks, which
/// briefly takes that much.
fn most(program: &Bound) -> usize {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    simulate(program, &Parameters::default()).unwrap();
    MOST.load(Relaxed) - before
}

const EXCHANGE: &str = "program 1
    param steps = 1
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

#[test]
fn memory_does_not_grow_with_steps() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program: Program = EXCHANGE.parse().unwrap();
    let of = |steps| most(&bound(&program, 1_000, &[("steps", steps)]));
    let (few, many) = (of(20), of(400));
    // Ranks drift apart a little further.
    assert!(
        many < few + few / 4,
        "{few} bytes for 20 steps, {many} for 400"
    );
    // 84 bytes and 5 slots per rank, at most 8 events in flight.
    assert!(
        many < 1_000 * (84 + 40 + 8 * 64) + (256 << 10),
        "{many} bytes"
    );
}

#[test]
fn a_pending_event_takes_at_most_64_bytes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = Program {
        body: vec![patterns::linear_alltoall(1)],
        ..Program::default()
    };
    for ranks in [100_u32, 300] {
        // All sends and receives start at once, and a send becomes a message.
        let pending = 2 * ranks as usize * (ranks as usize - 1);
        let ranks_own = ranks as usize * (84 + 16);
        let bytes = most(&bound(&program, ranks, &[])) - ranks_own;
        assert!(
            bytes <= 64 * pending + (128 << 10),
            "{bytes} bytes for {pending} events: {}",
            bytes as f64 / pending as f64
        );
    }
}

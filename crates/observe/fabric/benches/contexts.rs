//! A switch between the contexts of two gangs, both of the same size, by the policies that copy:
//! Whole, and Valid with one frame per ring ("empty") and with all rings full. One iteration is one
//! switch. The caches are as the last switch left them; a real gang's program uses them between two
//! switches.
//!
//! Floor: reading and writing the copied bytes twice.

use divan::Bencher;
use idlewave_fabric::netctx::{Context, Header, Kind, Layout, Link, Policy};

fn main() {
    divan::main();
}

/// With this payload and two peers, the rings fill all but a few per cent of their region, except
/// at 16 KiB, where they fill half.
const PAYLOAD: usize = 1_000;
const PEERS: u32 = 2;
const KIB: [usize; 6] = [16, 64, 256, 1_024, 4_096, 16_384];

/// Puts `frames` into each ring of a context.
fn fill(mut context: Context<'_>, frames: u32) {
    let gang = context.gang();
    for peer in 0..PEERS {
        if let Some(mut sender) = context.sender(peer) {
            for _ in 0..frames {
                assert!(sender.push(&[1; PAYLOAD], true));
            }
        }
        if let Some(mut receiver) = context.receiver(peer) {
            for sequence in 0..frames {
                let link = Link {
                    gang,
                    epoch: 0,
                    source: peer,
                    destination: 0,
                };
                let header = Header {
                    kind: Kind::End,
                    link,
                    sequence,
                    limit: 0,
                };
                assert!(receiver.hear(&header, &[2; PAYLOAD]));
            }
        }
    }
}

fn switch(bencher: Bencher, policy: Policy, kib: usize, full: bool) {
    let layout = Layout::fit(kib << 10, PEERS, PAYLOAD).expect("a layout");
    let mut region = vec![u64::MAX; layout.bytes() / 8];
    let frames = if full { layout.slots() } else { 1 };
    let mut saved = [0, 1].map(|gang| {
        let mut saved = Vec::new();
        fill(Context::begin(layout, &mut region, gang, 0), frames);
        policy.save(layout, &mut region, &mut saved);
        saved
    });
    let mut active = 1;
    bencher.bench_local(|| {
        policy.save(layout, &mut region, &mut saved[active]);
        active = 1 - active;
        policy.restore(layout, &mut region, &saved[active]);
        (
            saved[active].len(),
            Context::of(layout, &mut region).epoch(),
        )
    });
}

#[divan::bench(args = KIB, sample_count = 200)]
fn whole(bencher: Bencher, kib: usize) {
    switch(bencher, Policy::Whole, kib, true);
}

#[divan::bench(args = KIB, sample_count = 200)]
fn valid_empty(bencher: Bencher, kib: usize) {
    switch(bencher, Policy::Valid, kib, false);
}

#[divan::bench(args = KIB, sample_count = 200)]
fn valid_full(bencher: Bencher, kib: usize) {
    switch(bencher, Policy::Valid, kib, true);
}

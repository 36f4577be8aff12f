//! Latency of the fabric over threads with two ranks: a barrier, and an exchange of 1,024 bytes
//! both ways. Floor: for the barrier, one cache line to the other core and back (about 100 ns on
//! one socket); for the exchange, 16 lines of data each way on top of that.

use divan::Bencher;
use idlewave_fabric::{Endpoint, Fabric, PointToPoint, Tag, Waiting, world};
use idlewave_units::Rank;
use std::sync::atomic::{AtomicBool, Ordering};

fn main() {
    divan::main();
}

const PER_SAMPLE: u32 = 1_000;
const MORE: Tag = Tag(9);

fn exchange(end: &mut Endpoint, buffers: &mut [Vec<u8>; 2]) {
    let other = Rank::new(1 - end.rank().get());
    let [to_send, to_fill] = buffers;
    let receiving = end
        .start_receive(Some(other), Tag(0), 1_024, std::mem::take(to_fill))
        .expect("a receive");
    let sending = end
        .start_send(other, Tag(0), std::mem::take(to_send))
        .expect("a send");
    *to_fill = end
        .finish_receive(receiving, &mut || ())
        .expect("a message")
        .data;
    *to_send = end.finish_send(sending, &mut || ()).expect("its buffer");
}

/// Runs `operation` in step on two ranks; the second one learns before each sample whether to go
/// on.
fn pair(bencher: Bencher, operation: fn(&mut Endpoint, &mut [Vec<u8>; 2])) {
    let mut ends = world(2, Waiting::Spin).into_iter();
    let (Some(mut a), Some(mut b)) = (ends.next(), ends.next()) else {
        return;
    };
    let more = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let partner = &more;
        scope.spawn(move || {
            let mut buffers = [vec![0; 1_024], vec![0; 1_024]];
            loop {
                let turn = b
                    .start_receive(Some(Rank::new(0)), MORE, 0, Vec::new())
                    .expect("a receive");
                b.finish_receive(turn, &mut || ()).expect("the turn");
                if !partner.load(Ordering::Acquire) {
                    return;
                }
                for _ in 0..PER_SAMPLE {
                    operation(&mut b, &mut buffers);
                }
            }
        });
        let mut buffers = [vec![0; 1_024], vec![0; 1_024]];
        let start = |a: &mut Endpoint| {
            let sending = a
                .start_send(Rank::new(1), MORE, Vec::new())
                .expect("a send");
            a.finish_send(sending, &mut || ()).expect("its buffer");
        };
        bencher
            .counter(divan::counter::ItemsCount::new(PER_SAMPLE))
            .bench_local(|| {
                start(&mut a);
                for _ in 0..PER_SAMPLE {
                    operation(&mut a, &mut buffers);
                }
            });
        more.store(false, Ordering::Release);
        start(&mut a);
    });
}

#[divan::bench(sample_count = 100)]
fn barrier(bencher: Bencher) {
    pair(bencher, |end, _| {
        end.barrier(&mut || ()).expect("a barrier")
    });
}

#[divan::bench(sample_count = 100)]
fn exchange_1024_bytes(bencher: Bencher) {
    pair(bencher, exchange);
}

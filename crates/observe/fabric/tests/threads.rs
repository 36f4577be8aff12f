//! The fabric over threads keeps every promise, with a CPU per rank and without.

#![allow(clippy::unwrap_used)]

use idlewave_clock::monotonic_ns;
use idlewave_fabric::{Fabric, FabricError, PointToPoint, Tag, Waiting, conformance, world};
use idlewave_units::Rank;

fn run(size: u32) {
    std::thread::scope(|scope| {
        for mut end in world(size, Waiting::Yield) {
            scope.spawn(move || conformance::all(&mut end, monotonic_ns));
        }
    });
}

#[test]
fn one_rank_alone_conforms() {
    run(1);
}

#[test]
fn two_ranks_conform() {
    run(2);
}

#[test]
fn three_ranks_conform() {
    run(3);
}

#[test]
fn four_ranks_conform() {
    run(4);
}

#[test]
fn five_ranks_conform() {
    run(5);
}

#[test]
fn more_ranks_than_cpus_conform() {
    run(9);
}

#[test]
fn a_rank_that_panics_ends_the_waits_of_the_others() {
    let mut ends = world(3, Waiting::Yield).into_iter();
    let (mut a, mut b, c) = (
        ends.next().unwrap(),
        ends.next().unwrap(),
        ends.next().unwrap(),
    );
    let failing = std::thread::spawn(move || {
        let _held = c;
        panic!("this rank fails on purpose");
    });
    let in_barrier = std::thread::spawn(move || a.barrier(&mut || ()));
    let receiving = std::thread::spawn(move || {
        let r = b
            .start_receive(Some(Rank::new(2)), Tag(0), 8, Vec::new())
            .unwrap();
        b.finish_receive(r, &mut || ())
    });
    assert!(failing.join().is_err());
    assert_eq!(in_barrier.join().unwrap(), Err(FabricError::PeerFailed));
    assert_eq!(receiving.join().unwrap(), Err(FabricError::PeerFailed));
}

#[test]
fn the_hook_is_called_while_a_rank_waits() {
    let mut ends = world(2, Waiting::Yield).into_iter();
    let (mut a, mut b) = (ends.next().unwrap(), ends.next().unwrap());
    let (turn, turned) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        // It is still called when nobody listens any more.
        let mut hook = || {
            let _ = turn.send(());
        };
        a.barrier(&mut hook).unwrap();
    });
    let patience = std::time::Duration::from_secs(60);
    turned.recv_timeout(patience).expect("the hook is called");
    b.barrier(&mut || ()).unwrap();
    waiting.join().unwrap();
}

#[test]
fn chosen_ranks_within_chosen_ranks_are_refused() {
    let mut end = world(1, Waiting::Yield).remove(0);
    let nested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let first = [Rank::new(0)];
        end.with_ranks(&first, |end| end.with_ranks(&first, |_| ()).is_ok())
    }));
    assert!(nested.is_err());
}

//! Idle waves on rings, against their closed forms.

#![allow(clippy::unwrap_used)]

use crate::made::world::{CALL, LATENCY, World};

const WORK: u64 = 100_000;
const DELAY: u64 = 450_000;

/// Iterations of a ring in which each rank sends over every distance in `steps`; `strikes` are
/// (iteration, rank, length).
fn ring(ranks: u32, iterations: usize, steps: &[i32], strikes: &[(usize, usize, u64)]) -> World {
    let mut world = World::new(ranks);
    for k in 0..iterations {
        for &(_, rank, ns) in strikes.iter().filter(|s| s.0 == k) {
            world.strike(rank, ns, 0);
        }
        world.compute_all(WORK);
        world.exchange(steps);
    }
    world
}

/// Length of a step of the undisturbed ring in which each rank sends over this many distances.
fn step(steps: usize) -> u64 {
    // Posts, sends, and the flight of the last message, which the waiting call hides in part.
    let sends = 2 * steps as u64 * CALL;
    WORK + sends - CALL + LATENCY
}

#[test]
fn a_delay_goes_round_a_silent_ring_at_one_rank_per_step_undamped() {
    let world = ring(8, 40, &[1], &[(20, 3, DELAY)]);
    let found = world.made.explain();
    // It meets every other rank once; back where it began it finds a rank that is late itself.
    let waits = found.waits();
    let order: Vec<_> = waits.iter().map(|w| (w.0, w.3, w.4)).collect();
    let expected: Vec<_> = (0..7).map(|h| ((4 + h) % 8, (3 + h) % 8, h)).collect();
    assert_eq!(order, expected);
    for (i, wait) in waits.iter().enumerate() {
        let length = wait.2 - wait.1;
        // A message that was sent before the call is entered causes no wait: the rest of its flight
        // does not count.
        assert_eq!(length, DELAY - CALL, "{wait:?}");
        assert_eq!(found.parts(i), [(3, "alpha", length)]);
    }
    let [wave] = found.program().waves.as_slice() else {
        panic!("{:?}", found.program().waves);
    };
    assert_eq!((wave.origin.get(), wave.ranks), (3, 7));
    assert_eq!(wave.first.get(), DELAY - CALL);
    let speed = wave.speed.as_ref().unwrap();
    let expected = 1e9 / step(1) as f64;
    assert!(
        (speed.value / expected - 1.0).abs() < 1e-9,
        "{speed:?} {expected}"
    );
    assert!(wave.decay.unwrap().abs() < 1e-9);
    let program = found.program();
    assert_eq!(program.named, program.waited);
}

#[test]
fn a_silent_ring_has_no_wave() {
    let found = ring(8, 40, &[1, -1], &[]).made.explain();
    assert_eq!(found.waits(), []);
    assert!(found.program().waves.is_empty());
    assert_eq!(found.program().messages, 8 * 2 * 40);
}

#[test]
fn two_equal_waves_that_meet_annihilate_each_other() {
    // On a ring of 12 with neighbours on both sides, struck at 0 and 6: the waves meet at 3 and 9.
    let found = ring(12, 40, &[1, -1], &[(20, 0, DELAY), (20, 6, DELAY)])
        .made
        .explain();
    for (i, wait) in found.waits().iter().enumerate() {
        let distance = |origin: i64| (i64::from(wait.0) - origin).abs();
        let (to_0, to_6) = (distance(0).min(12 - distance(0)), distance(6));
        assert_eq!(i64::from(wait.4) + 1, to_0.min(to_6), "{wait:?}");
        let origin = if to_0 < to_6 { 0 } else { 6 };
        let parts = found.parts(i);
        if to_0 != to_6 {
            assert_eq!(parts[0].0, origin, "{wait:?} {parts:?}");
        }
        assert_eq!(parts.len(), 1, "{wait:?} {parts:?}");
    }
    let mut waited: Vec<u32> = found.waits().iter().map(|w| w.0).collect();
    waited.sort_unstable();
    assert_eq!(waited, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]);
    let waves = &found.program().waves;
    assert_eq!(waves.len(), 2);
    assert!(waves.iter().all(|w| w.hops <= 3));
}

#[test]
fn noise_on_its_way_absorbs_a_wave() {
    // Rank 6 loses 200 us while the wave is on its way to it: the wave leaves rank 6 that much
    // smaller.
    let small = 200_000;
    let found = ring(10, 40, &[1], &[(20, 3, DELAY), (20, 6, small)])
        .made
        .explain();
    let waits = found.waits();
    let of = |rank: u32, origin: u32| {
        let place = waits.iter().position(|w| w.0 == rank && w.3 + 1 == rank)?;
        let parts = found.parts(place);
        let own = parts.iter().filter(|p| p.0 == origin);
        Some((
            own.map(|p| p.2).sum::<u64>(),
            waits[place].2 - waits[place].1,
        ))
    };
    // Rank 6 still waits for what the strike did not hide. In the two exchanges before, it was
    // late, found its messages there and made up for their flight.
    let made_up = 2 * (LATENCY - 2 * CALL);
    assert_eq!(of(5, 3).unwrap().1, DELAY - CALL);
    let six = of(6, 3).unwrap();
    assert_eq!(six.1, DELAY - CALL - small + made_up);
    assert_eq!(six.0, six.1);
    let alpha = found
        .findings
        .sources
        .iter()
        .find(|s| s.name == "alpha")
        .unwrap();
    assert_eq!(alpha.stolen.get(), DELAY + small);
}

//! Sessions over a network that loses, duplicates, delays and alters datagrams, with an attacker
//! who replays recorded ones, and ends that restart at any moment.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::World;
use idlewave_units::Nanos;
use proptest::prelude::*;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// One event. Numbers choose among the existing items, modulo their count.
#[derive(Clone, Debug)]
enum Event {
    Say(usize),
    Arrive(usize),
    ArriveAndStay(usize),
    Lose(usize),
    Record { which: usize, reflected: bool },
    Change { which: usize, byte: usize, mask: u8 },
    Cut(usize, usize),
    Extend(usize, Vec<u8>),
    Noise(usize, Vec<u8>),
    Restart(usize),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let any = || any::<usize>();
    prop_oneof![
        8 => (0..2usize).prop_map(Event::Say),
        16 => any().prop_map(Event::Arrive),
        3 => any().prop_map(Event::ArriveAndStay),
        3 => any().prop_map(Event::Lose),
        4 => (any(), proptest::bool::weighted(0.2))
            .prop_map(|(which, reflected)| Event::Record { which, reflected }),
        2 => (any(), any(), 1..=255u8)
            .prop_map(|(which, byte, mask)| Event::Change { which, byte, mask }),
        1 => (any(), any()).prop_map(|(which, length)| Event::Cut(which, length)),
        1 => (any(), proptest::collection::vec(proptest::num::u8::ANY, 1..20))
            .prop_map(|(which, more)| Event::Extend(which, more)),
        1 => (0..2usize, proptest::collection::vec(proptest::num::u8::ANY, 0..100))
            .prop_map(|(to, bytes)| Event::Noise(to, bytes)),
        1 => (0..2usize).prop_map(Event::Restart),
        4 => prop_oneof![0..20u64, 0..300u64, 0..3_000u64].prop_map(Event::Pass),
    ]
}

fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 0..most)
}

/// Returns whether a datagram that was altered, cut, extended or made up was refused.
fn happen(world: &mut World, event: Event) -> Option<bool> {
    let flying = world.flying.len();
    let recorded = world.recorded.len();
    let pick = |which: usize, count: usize| which.checked_rem(count);
    match event {
        Event::Say(end) => drop(world.say(end)),
        Event::Arrive(which) => {
            let (to, datagram) = world.flying.remove(pick(which, flying)?);
            let _ = world.arrive(to, &datagram);
        }
        Event::ArriveAndStay(which) => {
            let (to, datagram) = world.flying[pick(which, flying)?].clone();
            let _ = world.arrive(to, &datagram);
        }
        Event::Lose(which) => drop(world.flying.remove(pick(which, flying)?)),
        Event::Record { which, reflected } => {
            let (to, datagram) = world.recorded[pick(which, recorded)?].clone();
            let to = if reflected { 1 - to } else { to };
            let _ = world.arrive(to, &datagram);
        }
        Event::Change { which, byte, mask } => {
            let (to, mut datagram) = world.recorded[pick(which, recorded)?].clone();
            let byte = byte % datagram.len();
            datagram[byte] ^= mask;
            return Some(world.arrive(to, &datagram).is_err());
        }
        Event::Cut(which, length) => {
            let (to, datagram) = world.recorded[pick(which, recorded)?].clone();
            let datagram = &datagram[..length % datagram.len()];
            return Some(world.arrive(to, datagram).is_err());
        }
        Event::Extend(which, more) => {
            let (to, mut datagram) = world.recorded[pick(which, recorded)?].clone();
            datagram.extend(more);
            return Some(world.arrive(to, &datagram).is_err());
        }
        Event::Noise(to, bytes) => return Some(world.arrive(to, &bytes).is_err()),
        Event::Restart(end) => world.restart(end),
        Event::Pass(ms) => world.pass(MS(ms)),
    }
    None
}

/// Who speaks after the storm.
const SPEAKERS: [&[usize]; 3] = [&[0, 1], &[0], &[1]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happened_what_is_given_is_genuine_once_and_soon_everything_is_given(
        credentials in any::<bool>(),
        events in events(200),
        stays in any::<bool>(),
        speakers in 0..SPEAKERS.len(),
        latency in 0..3u64,
    ) {
        let mut world = World::new(credentials);
        for event in events {
            // `arrive` checks that payloads are genuine, are delivered once and do not come from an
            // earlier life.
            if let Some(refused) = happen(&mut world, event) {
                prop_assert!(refused);
            }
        }
        if !stays {
            world.flying.clear();
        }
        // Now the network is good again.
        let speak = |world: &mut World| {
            let said: Vec<_> = SPEAKERS[speakers].iter().map(|end| world.say(*end).0).collect();
            for _ in 0..6 {
                for (to, datagram) in std::mem::take(&mut world.flying) {
                    let _ = world.arrive(to, &datagram);
                }
                world.pass(MS(latency));
            }
            world.pass(MS(20));
            said.iter().all(|payload| world.given.contains(payload))
        };
        // Allow for the silence, then for HELLO, which an earlier attempt may have made rare;
        // credentials may be used up too.
        let longest = if credentials { 5_500 } else { 600 };
        let start = world.now;
        let (mut since, mut in_a_row) = (start, 0);
        while in_a_row < 20 {
            if speak(&mut world) {
                in_a_row += 1;
            } else {
                (since, in_a_row) = (world.now, 0);
            }
            let time = since.saturating_sub(start);
            prop_assert!(time < MS(longest), "after {time}");
        }
        // No trouble is left: no more handshakes.
        let before = world.recorded.len();
        for _ in 0..50 {
            prop_assert!(speak(&mut world));
        }
        let kinds = world.kinds_since(before);
        prop_assert!(!kinds.iter().any(|kind| *kind < 3), "{kinds:?}");
    }

    #[test]
    fn who_has_recorded_everything_disturbs_no_session_that_both_ends_have(
        credentials in any::<bool>(),
        events in events(120),
        attack in proptest::collection::vec(event(), 1..100),
        after in 0..200u64,
    ) {
        let mut world = World::new(credentials);
        for event in events {
            happen(&mut world, event);
        }
        // Both ends speak in their current lives, and hear each other.
        let start = world.now;
        let lives = world.lives;
        loop {
            let before = world.recorded.len();
            let said = [world.say(0).0, world.say(1).0];
            let known = world.kinds_since(before) == [3, 3];
            world.settle();
            if known && said.iter().all(|payload| world.given.contains(payload)) {
                break;
            }
            world.pass(MS(20));
            prop_assert!(world.now.saturating_sub(start) < MS(3_000));
        }
        world.pass(MS(after));
        for event in attack {
            let attacks = matches!(
                event,
                Event::Record { .. } | Event::Change { .. } | Event::Cut(..) | Event::Extend(..) | Event::Noise(..)
            );
            if attacks {
                happen(&mut world, event);
                let said = [world.say(0), world.say(1)];
                prop_assert_eq!([said[0].1, said[1].1], [1, 1], "the session is all they need");
                world.settle();
                for (payload, _) in said {
                    prop_assert!(world.given.contains(&payload));
                }
            }
        }
        prop_assert_eq!(world.lives, lives);
    }
}

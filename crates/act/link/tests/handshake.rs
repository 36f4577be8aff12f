//! How sessions begin and end, case by case.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{BACK, DATA, HELLO, NOTE, OPENING, Proof, World, open, worlds};
use idlewave_link::Reason;
use idlewave_link::session::{ECHO, KEPT, SILENCE, WAITING};
use idlewave_units::Nanos;
use std::collections::BTreeSet;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

#[test]
fn a_message_takes_four_datagrams_the_first_time_and_two_later() {
    for mut world in worlds() {
        let (payload, _) = world.say(0);
        assert_eq!(world.settle(), [payload]);
        assert_eq!(world.kinds_since(0), [HELLO, BACK, OPENING, NOTE]);
        world.pass(ECHO);
        let before = world.recorded.len();
        let (payload, _) = world.say(0);
        assert_eq!(world.settle(), [payload]);
        assert_eq!(world.kinds_since(before), [DATA, NOTE]);
        assert!(world.refused.is_empty());
        if let Proof::Own(vault) = &world.proofs[0] {
            assert_eq!(vault.work(), (2, 2), "one credential of each end");
        }
    }
}

#[test]
fn what_is_answered_in_time_needs_no_notes() {
    let mut world = World::new(false);
    open(&mut world);
    let before = world.recorded.len();
    for _ in 0..100 {
        world.pass(MS(10));
        world.say(0);
        world.say(1);
        assert_eq!(world.settle().len(), 2);
    }
    let kinds = world.kinds_since(before);
    assert!(kinds[..4].contains(&DATA) && kinds.iter().filter(|k| **k == DATA).count() == 200);
    assert!(kinds.len() <= 202, "{kinds:?}");
}

#[test]
fn both_may_begin_at_once_and_have_one_session() {
    for mut world in worlds() {
        let (a, _) = world.say(0);
        let (b, _) = world.say(1);
        let mut given = world.settle();
        given.sort();
        assert_eq!(given, [a, b]);
        let before = world.recorded.len();
        world.say(0);
        world.say(1);
        assert_eq!(world.settle().len(), 2);
        assert_eq!(world.kinds_since(before), [DATA, DATA]);
    }
}

#[test]
fn any_one_datagram_of_a_handshake_may_be_lost_or_doubled() {
    for lost in 0..6 {
        for doubled in [false, true] {
            for mut world in worlds() {
                let mut count = 0;
                for _ in 0..20 {
                    world.say(0);
                    world.say(1);
                    while !world.flying.is_empty() {
                        let (to, datagram) = world.flying.remove(0);
                        if count == lost && !doubled {
                            count += 1;
                            continue;
                        }
                        let _ = world.arrive(to, &datagram);
                        if count == lost {
                            let _ = world.arrive(to, &datagram);
                        }
                        count += 1;
                    }
                    world.pass(MS(20));
                }
                let before = world.given.len();
                let work = world.recorded.len();
                world.say(0);
                world.say(1);
                world.settle();
                assert_eq!(world.given.len(), before + 2, "{lost} {doubled}");
                assert_eq!(world.recorded.len(), work + 2);
            }
        }
    }
}

#[test]
fn the_last_payloads_wait_for_a_session_and_not_for_long() {
    let mut world = World::new(false);
    for _ in 0..WAITING + 3 {
        world.say(0);
    }
    let given = world.settle();
    let expected: Vec<_> = (3..WAITING + 3)
        .map(|k| format!("message {k}").into_bytes())
        .collect();
    assert_eq!(given, expected);

    let mut world = World::new(false);
    world.say(0);
    world.flying.clear();
    world.pass(KEPT);
    world.say(0);
    world.flying.clear();
    world.pass(MS(1));
    let (payload, _) = world.say(0);
    world.pass(MS(300));
    assert_eq!(world.settle(), [b"message 1".to_vec(), payload]);
}

#[test]
fn an_old_hello_is_answered_and_changes_nothing() {
    for mut world in worlds() {
        open(&mut world);
        world.restart(0);
        world.say(0);
        world.settle();
        open(&mut world);
        let recorded = world.recorded.clone();
        let hellos = recorded.iter().filter(|(_, d)| d[1] == HELLO);
        for (to, hello) in hellos.clone().cycle().take(20) {
            let _ = world.arrive(*to, hello);
            world.settle();
        }
        assert_eq!(hellos.count(), 2);
        let before = world.recorded.len();
        let (a, _) = world.say(0);
        let (b, _) = world.say(1);
        assert_eq!(world.settle(), [a, b]);
        assert_eq!(world.kinds_since(before), [DATA, DATA]);
    }
}

#[test]
fn answers_are_bounded_in_number_and_length() {
    let mut world = World::new(false);
    world.say(0);
    let (_, hello) = world.flying.remove(0);
    let answers = (0..1_000)
        .filter(|_| world.arrive(1, &hello).is_ok())
        .count();
    assert_eq!(answers, 100);
    assert_eq!(world.refused, [(Reason::Rate, 900)].into());
    world.pass(MS(10));
    let answers = (0..1_000)
        .filter(|_| world.arrive(1, &hello).is_ok())
        .count();
    assert_eq!(answers, 10);
    for (_, back) in &world.flying {
        assert!(back[1] != BACK || back.len() <= hello.len());
    }

    // A datagram made without the key is not answered, and does not count towards the limit.
    let mut world = World::new(false);
    world.say(0);
    let (_, mut hello) = world.flying.remove(0);
    let last = hello.len() - 1;
    hello[last] ^= 1;
    (0..1_000).for_each(|_| assert_eq!(world.arrive(1, &hello), Err(Reason::Forged)));
    hello[last] ^= 1;
    assert!(world.arrive(1, &hello).is_ok());
}

#[test]
fn a_hello_that_is_shorter_than_its_answer_is_not_answered() {
    // This end's credentials are longer than the padding of HELLO allows for.
    let mut world = World::new(true);
    world.say(0);
    let (_, hello) = world.flying.remove(0);
    assert_eq!(hello.len(), 512);
    struct Long(Proof);
    use idlewave_link::session::{Secret, Secrets};
    impl Secrets for Long {
        fn shared(&self) -> Option<Secret> {
            None
        }
        fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), idlewave_link::LinkError> {
            Ok((Secret::new(fresh), vec![b'.'; 512]))
        }
        fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
            self.0.theirs(now, credential)
        }
    }
    let proof = std::mem::replace(&mut world.proofs[1], Proof::Shared(Secret::new([0; 32])));
    let handled = world.ends[1].handle(world.now, &hello, &mut Long(proof));
    assert_eq!(handled.unwrap_err(), Reason::Amplifies);
}

#[test]
fn every_frame_of_a_session_passes_once_also_out_of_order() {
    let mut world = World::new(false);
    open(&mut world);
    (0..300).for_each(|_| drop(world.say(0)));
    let frames: Vec<_> = world
        .flying
        .drain(..)
        .map(|(_, datagram)| datagram)
        .collect();
    // Frame 171 is 128 below the highest, just outside the window.
    let order = [299, 298, 172, 171, 299, 172, 200, 200];
    let verdicts = order.map(|k: usize| world.arrive(1, &frames[k]).map(drop));
    let (new, seen, late) = (Ok(()), Err(Reason::Replayed), Err(Reason::Late));
    assert_eq!(verdicts, [new, new, new, late, seen, seen, new, seen]);
}

#[test]
fn no_changed_frame_passes_and_the_frame_itself_still_does() {
    for mut world in worlds() {
        open(&mut world);
        world.restart(1);
        // A HELLO, a HELLO-BACK, a frame that opens, a note, a frame.
        for _ in 0..3 {
            world.say(1);
            let mut steps = 0;
            while !world.flying.is_empty() {
                let (to, datagram) = world.flying.remove(0);
                for bit in 0..datagram.len() * 8 {
                    let mut changed = datagram.clone();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    assert!(
                        world.arrive(to, &changed).is_err(),
                        "bit {bit} of {datagram:?}"
                    );
                }
                for length in 0..datagram.len() {
                    assert!(world.arrive(to, &datagram[..length]).is_err());
                }
                let longer = [&datagram[..], &[0]].concat();
                assert!(world.arrive(to, &longer).is_err());
                assert!(world.arrive(1 - to, &datagram).is_err(), "reflected");
                assert!(
                    world.arrive(to, &datagram).is_ok(),
                    "step {steps}: {datagram:?}"
                );
                steps += 1;
            }
            world.pass(ECHO);
        }
        assert_eq!(world.given.len(), 2 + 3);
    }
}

#[test]
fn a_frame_of_an_unknown_session_starts_nothing() {
    for mut world in worlds() {
        open(&mut world);
        world.restart(1);
        let (_, sent) = world.say(0);
        assert_eq!(sent, 1);
        assert_eq!(world.settle(), Vec::<Vec<u8>>::new());
        assert_eq!(world.refused, [(Reason::Session, 1)].into());
        assert!(!world.ends[1].is_open());
    }
}

#[test]
fn a_peer_that_only_listens_and_starts_again_is_found_after_the_silence() {
    for mut world in worlds() {
        open(&mut world);
        world.restart(1);
        let start = world.now;
        loop {
            let (payload, _) = world.say(0);
            if world.settle().contains(&payload) {
                break;
            }
            world.pass(MS(10));
            assert!(world.now.saturating_sub(start) < MS(400), "{world:?}");
        }
        assert!(world.now.saturating_sub(start) >= SILENCE);
    }
}

#[test]
fn one_who_speaks_to_a_listener_asks_for_no_other_session() {
    for pause in [1, 20, 49, 60, 150, 250, 5_000] {
        let mut world = World::new(true);
        open(&mut world);
        let before = world.recorded.len();
        for _ in 0..200 {
            world.pass(MS(pause));
            let (payload, _) = world.say(0);
            assert_eq!(world.settle(), [payload]);
        }
        let kinds = world.kinds_since(before);
        assert!(!kinds.contains(&HELLO), "{pause} ms: {kinds:?}");
    }
}

#[test]
fn hello_is_said_less_and_less_often_and_not_for_ever() {
    let mut world = World::new(true);
    world.say(0);
    for _ in 0..30_000 {
        world.pass(MS(1));
    }
    let hellos = world.flying.iter().filter(|(_, d)| d[1] == HELLO).count();
    // 10 + 20 + 40 + 80 + 160 ms, then every 200 ms for 10 s.
    assert!((50..=56).contains(&hellos), "{hellos}");
    assert_eq!(world.ends[0].due(), None);
    let Proof::Own(vault) = &world.proofs[0] else {
        panic!()
    };
    // A credential is renewed after half a second, then after half of the time so far: at 0.51,
    // 1.1, 2.3, 4.7 and 9.5 s.
    assert_eq!(vault.work(), (6, 0));
}

#[test]
fn a_daemon_that_is_down_is_an_error_of_who_speaks_and_refused_of_who_is_spoken_to() {
    let mut world = World::new(true);
    world.say(0);
    let Proof::Own(vault) = &world.proofs[0] else {
        panic!()
    };
    let daemon = vault.daemon.clone();
    daemon.borrow_mut().down = true;
    assert_eq!(world.settle(), Vec::<Vec<u8>>::new());
    assert_eq!(world.refused, [(Reason::Unable, 1)].into());
    let mut out = Vec::new();
    // The payload waits even so.
    world.said.insert(b"x".to_vec(), (1, 1));
    let said = world.ends[1].send(world.now, b"x", &mut world.proofs[1], &mut out);
    assert_eq!(said.unwrap_err().to_string(), "use munge: it is down");
    daemon.borrow_mut().down = false;
    world.pass(MS(20));
    assert_eq!(world.settle().len(), 2);
}

#[test]
fn who_sees_the_network_reads_nothing_of_a_payload() {
    for mut world in worlds() {
        let secret = b"the key of a device, thirty-two or more";
        // In the first frame, and when both know the session.
        for (end, number) in [(0, b'0'), (1, b'1'), (0, b'2'), (1, b'3')] {
            let payload = [&secret[..], &[number]].concat();
            world.say_this(end, &payload);
            assert_eq!(world.settle(), [payload]);
        }
        // The same payload from both ends at one counter, then again.
        let sent = [0, 1, 0, 1].map(|end| {
            let mut sent = Vec::new();
            let proof = &mut world.proofs[end];
            let said = world.ends[end].send(world.now, secret, proof, &mut sent);
            said.unwrap();
            sent.remove(0)
        });
        let seen = world.recorded.iter().map(|(_, datagram)| datagram);
        for datagram in seen.chain(&sent) {
            let reads = |part: &[u8]| datagram.windows(part.len()).any(|window| window == part);
            assert!(!secret.windows(5).any(reads), "{datagram:?}");
        }
        let body = |datagram: &Vec<u8>| datagram[28..28 + secret.len()].to_vec();
        let bodies: BTreeSet<_> = sent.iter().map(body).collect();
        assert_eq!((sent[0][1], bodies.len()), (DATA, 4));
        assert!(world.kinds_since(0).contains(&OPENING));
    }
}

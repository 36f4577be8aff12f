//! What late and repeated datagrams of a handshake do, case by case, and when a handshake is over.

#![allow(clippy::unwrap_used)]

mod common;

use common::world::{BACK, HELLO, NOTE, World, begin, open, peer, worlds};
use idlewave_link::session::{ECHO, SILENCE, Secret, Secrets, Session};
use idlewave_link::{Peer, Reason};
use idlewave_units::{Nanos, NodeId};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

#[test]
fn a_session_is_over_when_the_other_end_is_heard_in_the_next_one() {
    for mut world in worlds() {
        // A datagram in flight from an earlier life is refused once the next life has been heard.
        open(&mut world);
        world.say(0);
        let (_, late) = world.flying.remove(0);
        world.restart(0);
        let (payload, _) = world.say(0);
        assert_eq!(world.settle(), [payload]);
        assert_eq!(world.arrive(1, &late), Err(Reason::Session));

        // The end that asks for another session accepts the old one only until the new one is
        // heard.
        world.say(1);
        let (_, first) = world.flying.remove(0);
        world.say(1);
        let (_, second) = world.flying.remove(0);
        for _ in 0..3 {
            world.say(0);
            world.pass(SILENCE);
        }
        world.flying.retain(|(_, datagram)| datagram[1] == HELLO);
        let before = world.recorded.len();
        while !world.ends[0].is_open() || world.recorded.len() == before {
            let (to, datagram) = world.flying.remove(0);
            world.arrive(to, &datagram).unwrap();
        }
        let back = world.flying.iter().position(|(_, d)| d[1] == BACK).unwrap();
        let (_, back) = world.flying.remove(back);
        world.arrive(0, &back).unwrap();
        assert!(world.arrive(0, &first).unwrap().is_some());
        world.settle();
        assert_eq!(world.arrive(0, &second), Err(Reason::Session));
    }
}

#[test]
fn nothing_is_asked_again_when_a_session_has_begun_or_the_other_end_is_heard() {
    for mut world in worlds() {
        world.say(0);
        assert!(world.ends[0].due().is_some());
        let (_, hello) = world.flying.remove(0);
        world.arrive(1, &hello).unwrap();
        let (_, back) = world.flying.remove(0);
        world.arrive(0, &back).unwrap();
        assert_eq!(world.ends[0].due(), None);
        world.settle();
        open(&mut world);
        for _ in 0..3 {
            world.say(0);
            world.pass(SILENCE);
        }
        assert!(world.ends[0].due().is_some());
        let (_, hello) = world.flying.pop().unwrap();
        assert_eq!(hello[1], HELLO);
        world.flying.clear();
        world.arrive(1, &hello).unwrap();
        let (_, back) = world.flying.pop().unwrap();
        assert_eq!(back[1], BACK);
        world.say(1);
        world.settle();
        assert_eq!(world.ends[0].due(), None);
        assert_eq!(world.arrive(0, &back), Err(Reason::Unasked));
    }
}

#[test]
fn what_was_not_answered_before_a_pause_is_no_silence() {
    let mut world = World::new(true);
    open(&mut world);
    let before = world.recorded.len();
    for _ in 0..20 {
        // The first is answered with a note; the second follows too soon for another.
        world.say(0);
        world.settle();
        world.say(0);
        world.settle();
        world.pass(MS(5_000));
    }
    assert!(!world.kinds_since(before).contains(&HELLO));
}

#[test]
fn an_answer_to_an_earlier_question_is_not_looked_at() {
    let mut world = World::new(true);
    world.say(0);
    let (_, hello) = world.flying.remove(0);
    world.arrive(1, &hello).unwrap();
    let (_, back) = world.flying.remove(0);
    world.restart(0);
    world.say(0);
    assert_eq!(world.arrive(0, &back), Err(Reason::Unasked));
}

#[test]
fn a_note_is_not_answered_however_late_it_comes() {
    let mut world = World::new(false);
    open(&mut world);
    world.pass(ECHO);
    world.say(0);
    let (_, payload) = world.flying.remove(0);
    world.arrive(1, &payload).unwrap();
    assert_eq!(world.flying[0].1[1], NOTE);
    let count = world.recorded.len();
    world.pass(ECHO);
    world.settle();
    assert_eq!(world.recorded.len(), count);
}

#[test]
fn what_is_of_or_for_somebody_else_is_refused_though_the_key_is_right() {
    let somebody = Peer::Agent(NodeId::new(77));
    let mut secret = Secret::new([9; 32]);
    let mut world = World::new(false);
    for (from, to, reason) in [
        (Peer::Controller, somebody, Reason::Receiver),
        (somebody, peer(1), Reason::Sender),
    ] {
        let mut out = Vec::new();
        let mut other = Session::new(from, to, [5; 32]);
        other.send(world.now, b"x", &mut secret, &mut out).unwrap();
        assert_eq!(world.arrive(1, &out[0]), Err(reason));
    }
}

#[test]
fn two_answers_with_one_nonce_begin_one_session() {
    for mut world in worlds() {
        let opening = begin(&mut world);
        for _ in 0..4 {
            world.say(0);
            world.pass(SILENCE);
        }
        let (_, hello) = world.flying.pop().unwrap();
        assert_eq!(hello[1], HELLO);
        world.flying.clear();
        world.arrive(1, &hello).unwrap();
        let (_, back) = world.flying.remove(0);
        // The first frame arrives only now.
        assert!(world.arrive(1, &opening).unwrap().is_some());
        world.flying.clear();
        world.arrive(0, &back).unwrap();
        let (payload, _) = world.say(0);
        assert_eq!(world.settle(), [payload]);
    }
}

#[test]
fn who_starts_again_is_answered_with_a_credential_that_it_can_decode() {
    let mut world = World::new(true);
    world.say(0);
    let (_, hello) = world.flying.remove(0);
    world.arrive(1, &hello).unwrap();
    world.flying.clear();
    world.restart(1);
    let (payload, _) = world.say(1);
    assert_eq!(world.settle(), [payload, b"message 0".to_vec()]);
}

#[test]
fn credentials_are_made_for_answers_at_a_bounded_rate() {
    let mut world = World::new(true);
    let answered = (0..30).filter(|_| {
        world.restart(0);
        world.say(0);
        let (_, hello) = world.flying.pop().unwrap();
        world.arrive(1, &hello).is_ok()
    });
    assert_eq!(answered.count(), 20);
    assert_eq!(world.refused, [(Reason::Rate, 10)].into());
}

#[test]
fn a_handshake_is_over_after_a_minute() {
    for mut world in worlds() {
        let opening = begin(&mut world);
        world.pass(MS(60_001));
        assert_eq!(world.arrive(1, &opening), Err(Reason::Session));

        world.restart(0);
        world.say(0);
        let (_, first) = world.flying.remove(0);
        world.pass(MS(60_001));
        world.say(0);
        let (_, second) = world.flying.pop().unwrap();
        assert_eq!([first[1], second[1]], [HELLO, HELLO]);
        assert_ne!(first[12..28], second[12..28], "another nonce");
    }
}

#[test]
fn of_many_who_asked_and_went_on_no_further_the_last_sixteen_are_remembered() {
    for others in [15, 16] {
        let mut world = World::new(true);
        let opening = begin(&mut world);
        for _ in 0..others {
            world.restart(0);
            world.say(0);
            let (_, hello) = world.flying.pop().unwrap();
            world.arrive(1, &hello).unwrap();
        }
        assert_eq!(world.arrive(1, &opening).is_ok(), others == 15);
    }
}

#[test]
fn where_all_share_one_secret_there_are_no_credentials() {
    let mut secret = Secret::new([9; 32]);
    assert_eq!(secret.theirs(MS(1), b"x"), Err(Reason::Credential));
    assert_eq!(secret.theirs(MS(1), b""), Ok(secret.clone()));
    assert_eq!(secret.mine([1; 32]).unwrap(), (secret, vec![]));
}

//! Long messages: offered, copied, refused, and answered.

use super::*;

#[test]
fn an_offered_message_is_sent_when_it_was_copied_and_not_before() {
    let mut world = World::offering(SLOTS, 20, false);
    let long: Vec<u8> = (0..200).collect();
    world.send(0, Some(1), Some(9), &long);
    world.send(0, Some(1), None, &[7; 19]);
    world.finish();
    // Both are here, the long one only by name.
    assert_eq!(world.receiver.early_bytes(), 2 * BESIDE + 19);
    assert_eq!(world.senders[0].done().map(|d| d.reports), Some(true));
    assert!(world.senders[0].done().is_none() && world.senders[0].is_within_a_send());
    let any = want(None, 0, u64::MAX);
    world.receiver.peek(&any, context(1), Found::Claim);
    assert_eq!(world.done()[0].1.entry.len, 200);
    let (mut first, mut second) = ([0; 150], [0; 20]);
    world.receiver.receive(receive(&mut second, any, 2));
    assert_eq!((world.done()[0].0, second[18], second[19]), (2, 7, 0));
    assert!(world.receiver.receive_claimed(receive(&mut first, any, 1)));
    assert!(world.done().is_empty());
    world.receive();
    let (_, done) = world.done()[0];
    assert_eq!((done.error, done.entry.data), (Some((code::ETRUNC, 50)), 9));
    assert_eq!(first[..], long[..150]);
    assert_eq!(
        world.rings.rings[RECEIVER][0].len(),
        1,
        "it says so at once"
    );
    world.finish();
    assert!(world.senders[0].done().is_some_and(|done| done.is_send()));
    assert!(!world.senders[0].is_within_a_send());
    assert_eq!(world.receiver.early_bytes(), 0);
}

#[test]
fn an_offer_that_nobody_takes_is_answered_when_it_is_dropped() {
    let dropped = |drop: &dyn Fn(&mut Matching)| {
        let mut world = World::offering(SLOTS, 20, false);
        world.send(0, Some(1), None, &[1; 100]);
        world.finish();
        assert!(world.senders[0].done().is_none());
        drop(&mut world.receiver);
        world.finish();
        assert_eq!(world.receiver.early_bytes(), 0);
        world.senders[0]
            .done()
            .is_some_and(|done| done.error.is_none())
    };
    let any = want(None, 0, u64::MAX);
    assert!(dropped(&|m| m.peek(&any, context(1), Found::Discard)));
    assert!(dropped(&|m| *m = std::mem::take(m).renewed()));
    let claimed = |m: &mut Matching| m.peek(&any, context(1), Found::Claim);
    assert!(dropped(&|m| {
        claimed(m);
        *m = std::mem::take(m).renewed();
    }));
    let mut bytes = [0; 100];
    let receive = receive(&mut bytes, any, 2);
    assert!(dropped(&|m| {
        m.receive(receive);
        *m = std::mem::take(m).renewed();
    }));
    assert!(dropped(&|m| {
        claimed(m);
        assert!(m.discard_claimed(context(1), true));
    }));
}

#[test]
fn whoever_refuses_one_offer_gets_no_more() {
    let mut world = World::offering(SLOTS, 20, true);
    let mut rooms = [[0; 100]; 2];
    for (n, room) in (1..).zip(&mut rooms) {
        world
            .receiver
            .receive(receive(room, want(None, n, 0), n as usize));
    }
    world.send(0, Some(1), None, &[1; 100]);
    world.finish();
    // Its memory can be read now, but is not.
    world.rings.lie = false;
    world.send(0, Some(2), None, &[2; 100]);
    let offered = |(header, _): &(PieceHeader, Vec<u8>)| header.tag & OFFER != 0;
    assert!(!world.rings.rings[0][RECEIVER].iter().any(offered));
    world.finish();
    assert_eq!(rooms, [[1; 100], [2; 100]]);
    assert_eq!(world.done().len(), 2);
    assert_eq!(std::iter::from_fn(|| world.senders[0].done()).count(), 2);
}

#[test]
fn an_answer_is_heard_beside_much_unexpected_and_is_not_overtaken() {
    let mut world = World::offering(1, 20, false);
    let mut room = [0; 100];
    let receive = receive(&mut room, want(None, 1, 0), 1);
    world.receiver.receive(receive);
    world.send(0, Some(1), None, &[1; 100]);
    world.senders[0].early_bytes = EAGER_BYTES;
    // The ring back is full when the message is copied.
    let sent = |world: &mut World| {
        let (tag, data, length) = (Some(2), None, 1);
        let of = (Envelope { tag, data, length }, Content::Own(vec![5]));
        world.rings.own = RECEIVER;
        let receiver = &mut world.receiver;
        receiver.send(&mut world.rings, 0, of, context(0), true);
    };
    sent(&mut world);
    world.receive();
    let back = &mut world.rings.rings[RECEIVER][0];
    assert!(back.pop_front().is_some_and(|(head, _)| head.tag == TAGGED));
    assert!(back.is_empty());
    sent(&mut world);
    let back = &world.rings.rings[RECEIVER][0];
    assert!(back.front().is_some_and(|(head, _)| head.tag == TAKEN));
    world.finish();
    assert!(world.senders[0].done().is_some_and(|done| done.is_send()));
}

#[test]
fn a_failure_ends_what_was_offered() {
    for lie in [false, true] {
        let mut world = World::offering(1, 20, lie);
        let mut room = vec![0; 2 * crate::direct::AT_ONCE];
        let long = vec![1; room.len()];
        world
            .receiver
            .receive(receive(&mut room, want(None, 1, 0), 1));
        world.send(0, Some(1), None, &long);
        // Half of it is copied, or its offer refused.
        world.receive();
        world.receiver.fail(code::ENETDOWN);
        world.senders[0].fail(code::ENETDOWN);
        let error = Some((code::ENETDOWN, 0));
        let done = world.done();
        assert_eq!((done.len(), done[0].0, done[0].1.error), (1, 1, error));
        let done = world.senders[0].done().unwrap();
        assert!(done.is_send() && done.error == error);
        assert!(!world.senders[0].is_within_a_send());
    }
}

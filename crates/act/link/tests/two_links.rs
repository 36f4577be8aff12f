//! Two links over real sockets.

#![allow(clippy::unwrap_used)]

mod common;

use common::{agent, exchange, key_file, udp};
use idlewave_link::{Address, Auth, Key, LONGEST, Link, LinkError, Peer, Reason};
use idlewave_units::Nanos;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

#[test]
fn two_links_of_one_key_speak_over_udp_whoever_begins() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let mut controller = udp(Peer::Controller, &file);
    let mut node = udp(agent(7), &file);
    controller.know(agent(7), node.address().clone());
    assert!(!controller.is_open(agent(7)));

    controller.send(MS(1), agent(7), b"one").unwrap();
    controller.send(MS(1), agent(7), b"two").unwrap();
    let heard = exchange(MS(2), &mut controller, &mut node);
    assert_eq!(
        heard.1,
        [
            (Peer::Controller, b"one".to_vec()),
            (Peer::Controller, b"two".to_vec())
        ]
    );
    assert!(controller.is_open(agent(7)) && node.is_open(Peer::Controller));

    // The node has learnt the controller's address.
    assert_eq!(
        node.address_of(Peer::Controller),
        Some(controller.address())
    );
    node.send(MS(3), Peer::Controller, b"three").unwrap();
    let heard = exchange(MS(4), &mut controller, &mut node);
    assert_eq!(heard, (vec![(agent(7), b"three".to_vec())], vec![]));
    assert_eq!(
        controller.counters().all_refused() + node.counters().all_refused(),
        0
    );
    assert_eq!(
        (controller.counters().sessions, node.counters().sessions),
        (1, 1)
    );
    assert_eq!(node.counters().given, 2);
}

#[test]
fn the_longest_payload_passes_and_one_byte_more_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    for unix in [false, true] {
        let at = |name: &str| match unix {
            true => Address::Unix(directory.path().join(name)),
            false => Address::Udp("127.0.0.1:0".parse().unwrap()),
        };
        let auth = || Auth::Key(Key::load(&file).unwrap());
        let mut controller = Link::bind(Peer::Controller, auth(), &at("a")).unwrap();
        let mut node = Link::bind(agent(0), auth(), &at("b")).unwrap();
        controller.know(agent(0), node.address().clone());
        let longest: Vec<u8> = (0..LONGEST).map(|k| k as u8).collect();
        controller.send(MS(1), agent(0), &longest).unwrap();
        let heard = exchange(MS(2), &mut controller, &mut node);
        assert_eq!(heard.1, [(Peer::Controller, longest.clone())]);
        // An empty payload is a payload too.
        controller.send(MS(3), agent(0), b"").unwrap();
        assert_eq!(
            exchange(MS(4), &mut controller, &mut node).1,
            [(Peer::Controller, vec![])]
        );
        let error = controller
            .send(MS(5), agent(0), &vec![0; LONGEST + 1])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "send 60001 bytes in one message: the limit is 60000"
        );
    }
}

#[test]
fn unix_sockets_are_private_replace_stale_ones_and_go_with_the_link() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let path = directory.path().join("socket");
    let address = Address::Unix(path.clone());
    let bind = || {
        Link::bind(
            Peer::Controller,
            Auth::Key(Key::load(&file).unwrap()),
            &address,
        )
    };

    let link = bind().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    let error = bind().unwrap_err().to_string();
    assert!(error.contains("somebody listens there"), "{error}");
    drop(link);
    assert!(!path.exists());

    // A killed process leaves its socket behind.
    drop(UnixDatagram::bind(&path).unwrap());
    assert!(path.exists());
    let link = bind().unwrap();

    // The file of another link is not removed.
    std::fs::remove_file(&path).unwrap();
    let other = bind().unwrap();
    drop(link);
    assert!(path.exists());
    drop(other);
    assert!(!path.exists());

    std::fs::write(&path, "precious").unwrap();
    let error = bind().unwrap_err().to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");

    let long = Address::Unix(directory.path().join("x".repeat(108)));
    let auth = Auth::Key(Key::load(&file).unwrap());
    let error = Link::bind(Peer::Controller, auth, &long)
        .unwrap_err()
        .to_string();
    assert!(error.contains("at most 107 bytes"), "{error}");
}

#[test]
fn nothing_comes_through_with_another_key() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    Key::create(&other).unwrap();
    let mut controller = udp(Peer::Controller, &key_file(&directory));
    let mut node = udp(agent(1), &other);
    controller.know(agent(1), node.address().clone());
    node.know(Peer::Controller, controller.address().clone());
    for k in 0..50 {
        controller
            .send(MS(k * 50), agent(1), b"to the node")
            .unwrap();
        node.send(MS(k * 50), Peer::Controller, b"to the controller")
            .unwrap();
        assert_eq!(
            exchange(MS(k * 50), &mut controller, &mut node),
            (vec![], vec![])
        );
    }
    assert!(!controller.is_open(agent(1)) && !node.is_open(Peer::Controller));
    for link in [&controller, &node] {
        let counters = link.counters();
        assert!(counters.refused(Reason::Forged) > 5, "{counters:?}");
        assert_eq!(counters.refused(Reason::Forged), counters.all_refused());
    }
}

#[test]
fn who_says_again_from_elsewhere_what_was_recorded_gets_no_answer_for_the_peer() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let mut controller = udp(Peer::Controller, &file);
    let mut node = udp(agent(1), &file);
    // A middleman who forwards everything.
    let between = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    between.set_nonblocking(true).unwrap();
    let elsewhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = Address::Udp(between.local_addr().unwrap());
    let port = |link: &Link| match link.address() {
        Address::Udp(address) => *address,
        Address::Unix(_) => panic!(),
    };
    let (of_controller, of_node) = (port(&controller), port(&node));
    controller.know(agent(1), address.clone());
    let mut recorded = Vec::new();
    let mut given = Vec::new();
    let mut buffer = [0; 2_000];
    for round in 0..20 {
        let payload = format!("{round}").into_bytes();
        controller.send(MS(round), agent(1), &payload).unwrap();
        for _ in 0..6 {
            while let Ok((length, from)) = between.recv_from(&mut buffer) {
                let to = if from == of_node {
                    of_controller
                } else {
                    of_node
                };
                between.send_to(&buffer[..length], to).unwrap();
                recorded.push((buffer[..length].to_vec(), to));
            }
            while let Some((peer, payload)) = node.receive(MS(round)).unwrap() {
                assert_eq!(peer, Peer::Controller);
                given.push(payload);
            }
            assert_eq!(controller.receive(MS(round)).unwrap(), None);
        }
    }
    assert_eq!(given.len(), 20);
    // A held-back datagram is genuine wherever it comes from, but does not move the peer.
    controller.send(MS(60), agent(1), b"held back").unwrap();
    let (length, _) = between.recv_from(&mut buffer).unwrap();
    elsewhere.send_to(&buffer[..length], of_node).unwrap();
    let held = node.receive(MS(60)).unwrap();
    assert_eq!(held, Some((Peer::Controller, b"held back".to_vec())));
    assert_eq!(node.address_of(Peer::Controller), Some(&address));

    let before = (controller.counters(), node.counters());
    for (datagram, to) in recorded.iter().cycle().take(200) {
        elsewhere.send_to(datagram, to).unwrap();
        assert_eq!(controller.receive(MS(100)).unwrap(), None);
        assert_eq!(node.receive(MS(100)).unwrap(), None);
    }
    let after = (controller.counters(), node.counters());
    assert_eq!(after.0.all_refused() + after.1.all_refused(), 200);
    assert_eq!((after.0.sent, after.1.sent), (before.0.sent, before.1.sent));
    assert_eq!(controller.address_of(agent(1)), Some(&address));
    assert_eq!(node.address_of(Peer::Controller), Some(&address));
}

#[test]
fn strangers_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let mut node = udp(agent(1), &file);
    let Address::Udp(at) = *node.address() else {
        panic!()
    };
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let frame = |version, kind, from: [u8; 5], to: [u8; 5], length: usize| {
        let mut bytes = vec![version, kind];
        bytes.extend(from.into_iter().chain(to));
        bytes.resize(length, 0);
        bytes
    };
    let (controller, me, other) = ([0; 5], [1, 1, 0, 0, 0], [1, 2, 0, 0, 0]);
    let strange = [
        (vec![], Reason::Malformed),
        (vec![2; 27], Reason::Malformed),
        (frame(1, 1, controller, me, 62), Reason::Version),
        (frame(2, 0, controller, me, 62), Reason::Malformed),
        (frame(2, 7, controller, me, 62), Reason::Malformed),
        (frame(2, 1, controller, me, 61), Reason::Malformed),
        (frame(2, 1, controller, me, 62), Reason::Forged),
        (frame(2, 1, other, me, 62), Reason::Forged),
        (frame(2, 1, controller, other, 62), Reason::Receiver),
        (frame(2, 1, me, me, 62), Reason::Sender),
        (frame(2, 2, controller, me, 62), Reason::Session),
        (frame(2, 3, controller, me, 62), Reason::Session),
        (frame(2, 5, controller, me, 62), Reason::Session),
        (frame(2, 4, controller, me, 62), Reason::Malformed),
        (frame(2, 6, controller, me, 62), Reason::Malformed),
        (frame(2, 3, controller, me, 60_061), Reason::Long),
        (frame(2, 3, controller, me, 65_000), Reason::Long),
    ];
    let mut long = frame(2, 1, controller, me, 3_000);
    long[44..46].copy_from_slice(&2_049_u16.to_le_bytes());
    let strange = strange.into_iter().chain([(long, Reason::Malformed)]);
    for (datagram, reason) in strange {
        let before = node.counters().refused(reason);
        stranger.send_to(&datagram, at).unwrap();
        assert_eq!(node.receive(MS(1)).unwrap(), None);
        assert_eq!(
            node.counters().refused(reason),
            before + 1,
            "{reason} {datagram:?}"
        );
        assert!(stranger.recv_from(&mut [0; 100]).is_err(), "no answer");
    }
    assert_eq!(
        (node.counters().all_refused(), node.counters().sent),
        (18, 0)
    );
    assert_eq!(node.address_of(Peer::Controller), None);

    // A flood does not hold the caller forever.
    (0..150).for_each(|_| drop(stranger.send_to(b"x", at)));
    assert_eq!(node.receive(MS(2)).unwrap(), None);
    assert_eq!(node.counters().all_refused(), 18 + 64);
}

#[test]
fn whoever_has_ended_is_missed_without_an_error_and_found_again_at_another_port() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let mut controller = udp(Peer::Controller, &file);
    let mut node = udp(agent(1), &file);
    let first = node.address().clone();
    controller.know(agent(1), first.clone());
    controller.send(MS(1), agent(1), b"one").unwrap();
    exchange(MS(1), &mut controller, &mut node);
    drop(node);
    for k in 0..100 {
        controller.send(MS(2 + k), agent(1), b"lost").unwrap();
        assert_eq!(controller.receive(MS(2 + k)).unwrap(), None);
    }
    let mut node = udp(agent(1), &file);
    assert_ne!(*node.address(), first);
    node.know(Peer::Controller, controller.address().clone());
    node.send(MS(200), Peer::Controller, b"again").unwrap();
    let heard = exchange(MS(201), &mut controller, &mut node);
    assert_eq!(heard, (vec![(agent(1), b"again".to_vec())], vec![]));
    assert_eq!(controller.address_of(agent(1)), Some(node.address()));
    controller.send(MS(202), agent(1), b"welcome").unwrap();
    let heard = exchange(MS(203), &mut controller, &mut node);
    assert_eq!(heard.1, [(Peer::Controller, b"welcome".to_vec())]);
}

#[test]
fn a_hello_that_was_lost_is_said_again_when_the_link_says_it_is_due() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let path = directory.path().join("node");
    let auth = || Auth::Key(Key::load(&file).unwrap());
    let at = Address::Unix(directory.path().join("controller"));
    let mut controller = Link::bind(Peer::Controller, auth(), &at).unwrap();
    controller.know(agent(1), Address::Unix(path.clone()));
    assert_eq!(controller.due(), None);
    controller.send(MS(1), agent(1), b"early").unwrap();
    assert_eq!(controller.counters().unsent, 1);
    let due = controller.due().unwrap();
    let mut node = Link::bind(agent(1), auth(), &Address::Unix(path)).unwrap();
    assert_eq!(controller.receive(due).unwrap(), None);
    let heard = exchange(due, &mut controller, &mut node);
    assert_eq!(heard.1, [(Peer::Controller, b"early".to_vec())]);
    assert_eq!(controller.receive(due + MS(1000)).unwrap(), None);
    assert_eq!(controller.due(), None);
}

#[test]
fn a_link_says_what_is_wrong_with_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let file = key_file(&directory);
    let mut link = udp(Peer::Controller, &file);
    let says = |result: Result<(), LinkError>| result.unwrap_err().to_string();
    assert_eq!(
        says(link.send(MS(1), agent(3), b"x")),
        "send to the agent of node 3: its address is unknown"
    );
    assert_eq!(
        says(link.send(MS(1), Peer::Controller, b"x")),
        "send to the controller: this is the local end"
    );
    link.know(agent(3), Address::Unix(directory.path().join("x")));
    let error = says(link.send(MS(1), agent(3), b"x"));
    assert!(error.contains("does not reach a file"), "{error}");
    let address = link.address().clone();
    let auth = Auth::Key(Key::load(&file).unwrap());
    let error = Link::bind(Peer::Controller, auth, &address)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("listen at {address}: ")),
        "{error}"
    );
}

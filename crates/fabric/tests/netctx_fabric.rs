//! The fabric over network contexts keeps every promise: over shared memory, over UDP that loses, doubles, reorders and
//! damages, and while two gangs are switched under it.

#![allow(clippy::unwrap_used)]

use idlewave_clock::monotonic_ns;
use idlewave_fabric::netctx::{
    Header, Kind, Layout, Link, Lossy, Memory, Misdeeds, NetctxError, NetctxFabric, Node, Options,
    Policy, ThreadPort, Transport, Udp, World,
};
use idlewave_fabric::{Fabric, FabricError, Tag, conformance};
use idlewave_units::{Nanos, Rank};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

fn one_gang<T: Transport + 'static>(transports: Vec<T>) -> World<T> {
    let options = Options {
        timeout: Nanos::from_millis(2),
        ..Options::default()
    };
    let (world, mut gangs) = World::new(transports, options).unwrap();
    let ranks = gangs.remove(0);
    std::thread::scope(|scope| {
        for mut rank in ranks {
            scope.spawn(move || conformance::all(&mut rank, monotonic_ns));
        }
    });
    world
}

fn lossy<T>(transports: Vec<T>) -> Vec<Lossy<T>> {
    let misdeeds = Misdeeds {
        lose: 20,
        double: 20,
        delay: 20,
        damage: 10,
    };
    let seeds = 1..;
    let all = transports.into_iter().zip(seeds);
    all.map(|(t, seed)| Lossy::new(t, misdeeds, seed)).collect()
}

#[test]
fn ranks_over_shared_memory_conform() {
    for size in [1, 2, 3, 5] {
        one_gang(Memory::all(size));
    }
}

#[test]
fn ranks_over_udp_conform() {
    one_gang(Udp::loopback(3).unwrap());
}

#[test]
fn ranks_over_bad_udp_conform() {
    for size in [2, 3] {
        let traffic = one_gang(lossy(Udp::loopback(size).unwrap())).traffic();
        assert!(traffic.damaged > 0 && traffic.timeouts > 0, "{traffic:?}");
    }
}

/// Two gangs, each with all of the conformance tests, switched under them until both are done; gives the switches.
fn two_gangs<T: Transport + 'static>(transports: Vec<T>, policy: Policy) -> u32 {
    let options = Options {
        gangs: 2,
        policy,
        context_bytes: 64 << 10,
        timeout: Nanos::from_millis(2),
    };
    let (mut world, gangs) = World::new(transports, options).unwrap();
    let ranks: Vec<_> = gangs.into_iter().flatten().collect();
    let left = AtomicUsize::new(ranks.len());
    let mut switches = 0;
    std::thread::scope(|scope| {
        for mut rank in ranks {
            let left = &left;
            scope.spawn(move || {
                let _leaves = Leaves(left);
                conformance::all(&mut rank, monotonic_ns);
            });
        }
        while left.load(Ordering::Relaxed) > 0 {
            let switched = world.switch((switches + 1) % 2, LIMIT).unwrap();
            assert_eq!(switched.counts.sent, switched.counts.received);
            switches += 1;
            assert_eq!(switched.epoch, u64::from(switches) + 1);
            let slice = u64::from(switches * 7 % 11) * 500;
            std::thread::sleep(Duration::from_micros(slice));
        }
    });
    switches
}

/// Counts down also when its thread panics: the switching would never end.
struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn two_gangs_conform_while_they_are_switched_by_each_policy() {
    for policy in Policy::ALL {
        let switches = two_gangs(Memory::all(3), policy);
        println!("{switches} switches");
        assert!(switches > 10, "{switches}");
    }
}

#[test]
fn two_gangs_over_bad_udp_conform_while_they_are_switched() {
    let switches = two_gangs(lossy(Udp::loopback(2).unwrap()), Policy::Valid);
    println!("{switches} switches");
    assert!(switches > 10, "{switches}");
}

/// A network that can be cut.
struct Cut<T>(T, Arc<AtomicBool>);

impl<T: Transport> Transport for Cut<T> {
    fn longest(&self) -> usize {
        self.0.longest()
    }
    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.1.load(Ordering::Relaxed) || self.0.send(to, frame)
    }
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.0.receive(frame)
    }
}

#[test]
fn a_switch_that_cannot_drain_is_given_up_and_loses_nothing() {
    let cut = Arc::new(AtomicBool::new(true));
    let all = Memory::all(2).into_iter();
    let transports = all.map(|t| Cut(t, Arc::clone(&cut))).collect();
    let options = Options {
        gangs: 2,
        ..Options::default()
    };
    let (mut world, mut gangs) = World::new(transports, options).unwrap();
    let mut second = gangs.pop().unwrap();
    let mut first = gangs.pop().unwrap();
    let send = |rank: &mut NetctxFabric<ThreadPort<_>>, byte| {
        rank.start_send(Rank::new(1), Tag(3), vec![byte; 10])
            .unwrap();
    };
    let receive = |rank: &mut NetctxFabric<ThreadPort<_>>| {
        let from = Some(Rank::new(0));
        let receiving = rank.start_receive(from, Tag(3), 10, Vec::new()).unwrap();
        rank.finish_receive(receiving, &mut || ()).unwrap().data
    };
    send(&mut first[0], 1);
    send(&mut second[0], 2);
    for _ in 0..2 {
        let refused = world.switch(1, Duration::from_millis(20));
        assert!(
            matches!(refused, Err(NetctxError::NotDrained { .. })),
            "{refused:?}"
        );
    }
    cut.store(false, Ordering::Relaxed);
    // It runs again: what is new goes as well.
    send(&mut first[0], 4);
    assert_eq!(receive(&mut first[1]), [1; 10]);
    assert_eq!(receive(&mut first[1]), [4; 10]);
    let refused = world.switch(2, LIMIT);
    assert!(
        matches!(refused, Err(NetctxError::Context(_))),
        "{refused:?}"
    );
    let switched = world.switch(1, LIMIT).unwrap();
    assert_eq!((switched.copied, switched.counts.sent), (0, 2));
    // What was sent while the other gang ran was kept back until now.
    let kept = std::thread::scope(|scope| {
        let mut sender = second.remove(0);
        let moved = scope.spawn(move || sender.barrier(&mut || ()).unwrap());
        let kept = receive(&mut second[0]);
        second[0].barrier(&mut || ()).unwrap();
        moved.join().unwrap();
        kept
    });
    assert_eq!(kept, [2; 10]);
}

#[test]
fn a_rank_that_panics_ends_the_waits_of_its_gang_and_of_no_other() {
    let options = Options {
        gangs: 2,
        ..Options::default()
    };
    let (_world, mut gangs) = World::new(Memory::all(2), options).unwrap();
    let mut other = gangs.pop().unwrap();
    let mut ranks = gangs.pop().unwrap();
    let failing = ranks.remove(0);
    let panics = std::thread::spawn(move || {
        let _held = failing;
        panic!("this rank fails on purpose");
    });
    assert!(panics.join().is_err());
    assert_eq!(ranks[0].barrier(&mut || ()), Err(FabricError::PeerFailed));
    let from = Some(Rank::new(0));
    let receiving = other[1].start_receive(from, Tag(0), 1, Vec::new()).unwrap();
    assert_eq!(other[1].is_received(&receiving), Ok(false));
}

#[test]
fn frames_too_long_or_too_short_for_their_transport_are_refused() {
    struct Narrow(usize);
    impl Transport for Narrow {
        fn longest(&self) -> usize {
            self.0
        }
        fn send(&mut self, _: u32, _: &[u8]) -> bool {
            true
        }
        fn receive(&mut self, _: &mut Vec<u8>) -> bool {
            false
        }
    }
    for (longest, works) in [(0, false), (36 + 12, false), (36 + 13, true)] {
        let made = World::new(vec![Narrow(longest)], Options::default());
        assert_eq!(made.is_ok(), works, "{longest}");
    }
    let layout = Layout::fit(16 << 10, 1, 100).unwrap();
    for (longest, works) in [(135, false), (136, true)] {
        let timeout = Nanos::from_millis(1);
        let made = Node::new(Narrow(longest), layout, Policy::Whole, &[0], 0, timeout);
        assert_eq!(made.is_ok(), works, "{longest}");
    }
}

#[test]
fn frames_from_addresses_of_no_node_are_dropped() {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (own, known, stranger) = (bind(), bind(), bind());
    let address = own.local_addr().unwrap();
    let nodes = vec![address, known.local_addr().unwrap()];
    let mut udp = Udp::new(own, nodes).unwrap();
    stranger.send_to(b"strange", address).unwrap();
    known.send_to(b"known", address).unwrap();
    let mut frame = b"old".to_vec();
    while !udp.receive(&mut frame) {
        std::thread::yield_now();
    }
    assert_eq!(frame, b"known");
    assert!(!udp.receive(&mut frame), "nothing more");
}

/// A network on which somebody puts a frame in front of all others, with a right checksum and the number of the first.
struct Forged<T>(T, Option<Vec<u8>>);

impl<T: Transport> Transport for Forged<T> {
    fn longest(&self) -> usize {
        self.0.longest()
    }
    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.0.send(to, frame)
    }
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        match self.1.take() {
            Some(forged) => *frame = forged,
            None => return self.0.receive(frame),
        }
        true
    }
}

/// A frame from rank 1 to rank 0 that is too short for a piece of a message.
fn forged() -> Vec<u8> {
    let link = Link {
        gang: 0,
        epoch: 1,
        source: 1,
        destination: 0,
    };
    let header = Header {
        kind: Kind::End,
        link,
        sequence: 0,
        limit: 0,
    };
    let mut frame = Vec::new();
    header.encode(b"short", &mut frame);
    frame
}

#[test]
fn a_forged_frame_costs_the_one_whose_number_it_has_and_no_other() {
    let mut frames = vec![Some(forged()), None].into_iter();
    let all = Memory::all(2).into_iter();
    let transports = all.map(|t| Forged(t, frames.next().unwrap())).collect();
    let (_world, mut gangs) = World::new(transports, Options::default()).unwrap();
    let mut ranks = gangs.remove(0);
    let from = Some(Rank::new(1));
    let receiving = ranks[0].start_receive(from, Tag(2), 8, Vec::new()).unwrap();
    assert_eq!(
        ranks[0].is_received(&receiving),
        Ok(false),
        "the forged one has come"
    );
    for tag in [1, 2] {
        let to = Rank::new(0);
        ranks[1]
            .start_send(to, Tag(tag), vec![tag as u8; 8])
            .unwrap();
    }
    let data = ranks[0].finish_receive(receiving, &mut || ()).unwrap().data;
    assert_eq!(data, [2; 8]);
}

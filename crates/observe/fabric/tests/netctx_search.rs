//! Explores every run of a channel with few messages over a bounded network that loses, duplicates
//! and reorders, with a flush or an abandoned epoch at any moment. Messages arrive exactly once and
//! in order, nothing is in flight when both ends are drained, and from every state a fair network
//! leads to the end.

#![allow(clippy::unwrap_used)]

#[path = "netctx_channel/ends.rs"]
mod ends;

use ends::Ends;
use idlewave_fabric::netctx::channel::{Receiver, Sender};
use idlewave_fabric::netctx::{Header, Kind, Link, Phase};
use std::collections::{HashSet, VecDeque};

/// One byte in each frame.
const PAYLOAD: usize = 1;

/// The bounds of a search.
#[derive(Clone, Copy)]
struct Bounds {
    /// Frames of the sender's ring: its window.
    window: u32,
    credits: u32,
    messages: u8,
    /// Frames in flight in each direction.
    network: usize,
    /// Epochs after the first.
    epochs: u32,
    /// Whether epochs may be abandoned before everything is drained.
    aborts: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    ends: Ends,
    /// Both directions, each sorted: the network keeps no order.
    there: Vec<(Header, Vec<u8>)>,
    back: Vec<Header>,
    pushed: u8,
    taken: u8,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let link = Link {
            gang: 7,
            epoch: 1,
            source: 0,
            destination: 1,
        };
        // Numbers wrap around within the search.
        let first = u32::MAX;
        Self {
            ends: Ends::new(link, first, [bounds.window, bounds.credits], PAYLOAD),
            there: Vec::new(),
            back: Vec::new(),
            pushed: 0,
            taken: 0,
        }
    }

    fn sender(&mut self) -> Sender<'_> {
        self.ends.sender()
    }

    fn receiver(&mut self) -> Receiver<'_> {
        self.ends.receiver()
    }

    fn push(&mut self, bounds: Bounds) -> bool {
        let message = self.pushed;
        let done = message < bounds.messages && self.sender().push(&[message], true);
        self.pushed += u8::from(done);
        done
    }

    /// The application takes a message: the next one, once.
    fn take(&mut self) -> bool {
        let wanted = self.taken;
        let mut receiver = self.receiver();
        match receiver.front() {
            None => return false,
            Some((content, end)) => assert_eq!((content, end), (&[wanted][..], true)),
        }
        receiver.release();
        self.taken += 1;
        true
    }

    fn send(&mut self) -> bool {
        let frame = self.sender().poll().map(|(h, p)| (h, p.to_vec()));
        let any = frame.is_some();
        self.there.extend(frame);
        self.there.sort_by_key(|(h, _)| key(h));
        any
    }

    fn answer(&mut self) -> bool {
        let frame = self.receiver().poll();
        let any = frame.is_some();
        self.back.extend(frame);
        self.back.sort_by_key(key);
        any
    }

    fn arrive_there(&mut self, i: usize) {
        let (header, payload) = self.there[i].clone();
        self.receiver().hear(&header, &payload);
    }

    fn arrive_back(&mut self, i: usize) {
        let header = self.back[i];
        self.sender().hear(&header);
    }

    fn is_drained(&mut self) -> bool {
        self.sender().phase() == Phase::Drained && self.receiver().phase() == Phase::Drained
    }

    /// The states that are one step away.
    fn steps(&self, bounds: Bounds, epoch: impl Fn(Link) -> u64) -> Vec<World> {
        let mut next = Vec::new();
        let mut add = |step: &dyn Fn(&mut World) -> bool| {
            let mut world = self.clone();
            if step(&mut world) {
                next.push(world);
            }
        };
        add(&|w| w.push(bounds));
        add(&World::take);
        if self.there.len() < bounds.network {
            add(&World::send);
        }
        if self.back.len() < bounds.network {
            add(&World::answer);
        }
        for i in 0..self.there.len() {
            for (arrives, leaves) in [(true, true), (true, false), (false, true)] {
                add(&|w| {
                    if arrives {
                        w.arrive_there(i);
                    }
                    if leaves {
                        w.there.remove(i);
                    }
                    true
                });
            }
        }
        for i in 0..self.back.len() {
            for (arrives, leaves) in [(true, true), (true, false), (false, true)] {
                add(&|w| {
                    if arrives {
                        w.arrive_back(i);
                    }
                    if leaves {
                        w.back.remove(i);
                    }
                    true
                });
            }
        }
        add(&|w| {
            let wants = w.sender().wants_timer();
            w.sender().time_out();
            wants
        });
        add(&|w| {
            let runs = w.sender().phase() == Phase::Running;
            w.sender().stop();
            runs
        });
        // The ends are resumed one after the other, in any order: once both are drained or, with
        // `aborts`, at any time.
        let last = u64::from(bounds.epochs) + 1;
        let (ours, theirs) = (
            epoch(self.ends.send.link()),
            epoch(self.ends.receive.link()),
        );
        let may = |w: &mut World| bounds.aborts || ours != theirs || w.is_drained();
        if ours < last && ours <= theirs {
            add(&|w| may(w) && w.sender().resume(ours + 1).is_ok());
        }
        if theirs < last && theirs <= ours {
            add(&|w| may(w) && w.receiver().resume(theirs + 1).is_ok());
        }
        next
    }

    fn check(&mut self) {
        assert!(self.taken <= self.pushed);
        if !self.is_drained() || self.ends.send.link() != self.ends.receive.link() {
            return;
        }
        assert_eq!(self.sender().in_flight(), 0);
        assert_eq!(
            self.ends.send.count(),
            self.ends.receive.count(),
            "all sent came in"
        );
        // Whatever the network still holds changes nothing that the application sees, though none
        // of it is refused.
        let before = (self.receiver().state().stored(), self.ends.receive.count());
        for i in 0..self.there.len() {
            let mut world = self.clone();
            world.arrive_there(i);
            assert!(world.is_drained());
            let after = (
                world.receiver().state().stored(),
                world.ends.receive.count(),
            );
            assert_eq!(after, before);
        }
    }

    /// Over a network without losses everything is delivered or, if the sender was stopped,
    /// drained.
    fn check_ends(&self, bounds: Bounds) {
        let mut world = self.clone();
        // If only one end was resumed, the other follows.
        let (ours, theirs) = (
            world.ends.send.link().epoch,
            world.ends.receive.link().epoch,
        );
        if ours < theirs {
            world.sender().resume(theirs).unwrap();
        }
        if theirs < ours {
            world.receiver().resume(ours).unwrap();
        }
        for _ in 0..40 {
            while world.send() {}
            while !world.there.is_empty() {
                world.arrive_there(0);
                world.there.remove(0);
            }
            if world.sender().phase() == Phase::Running {
                while world.take() {}
            }
            while world.answer() {}
            while !world.back.is_empty() {
                world.arrive_back(0);
                world.back.remove(0);
            }
            while world.sender().phase() == Phase::Running && world.push(bounds) {}
            let done = match world.sender().phase() {
                Phase::Running => world.taken == bounds.messages && world.sender().in_flight() == 0,
                Phase::Flushing => false,
                Phase::Drained => world.is_drained(),
            };
            if done {
                assert!(!world.sender().wants_timer(), "nothing is left to say");
                return;
            }
            if world.sender().wants_timer() {
                world.sender().time_out();
            }
        }
        panic!("{:?} {:?} leads nowhere", self.ends.send, self.ends.receive);
    }
}

fn key(header: &Header) -> (u64, Kind, u32, u32) {
    let Header {
        kind,
        link,
        sequence,
        limit,
    } = *header;
    (link.epoch, kind, sequence, limit)
}

/// Visits every reachable state; returns their number, and how many are drained.
fn search(bounds: Bounds) -> (usize, usize) {
    let first = World::new(bounds);
    let mut seen = HashSet::from([first.clone()]);
    let mut open = VecDeque::from([first]);
    let mut drained = 0;
    while let Some(mut world) = open.pop_front() {
        world.check();
        world.check_ends(bounds);
        drained += usize::from(world.is_drained());
        for next in world.steps(bounds, |link| link.epoch) {
            if !seen.contains(&next) {
                seen.insert(next.clone());
                open.push_back(next);
            }
        }
    }
    (seen.len(), drained)
}

fn run(window: u32, credits: u32, messages: u8, network: usize, epochs: u32, aborts: bool) {
    let begin = std::time::Instant::now();
    let bounds = Bounds {
        window,
        credits,
        messages,
        network,
        epochs,
        aborts,
    };
    let (states, drained) = search(bounds);
    println!("{states} states, {drained} drained, {:?}", begin.elapsed());
    assert!(drained > 50, "{drained} of {states} states are drained");
}

#[test]
fn a_reordering_network_and_a_switch() {
    run(2, 1, 2, 2, 1, false);
}

#[test]
fn two_credits_and_a_switch() {
    run(2, 2, 3, 1, 1, false);
}

#[test]
fn a_window_of_four_and_two_switches() {
    run(4, 2, 3, 1, 2, false);
}

#[test]
fn epochs_given_up_lose_nothing() {
    run(2, 2, 2, 1, 2, true);
}

#[test]
#[ignore = "takes minutes"]
fn larger_worlds() {
    run(2, 1, 3, 2, 1, false);
    run(4, 2, 3, 2, 1, false);
    run(2, 2, 2, 2, 1, true);
}

//! Two gangs on the same nodes and the same bad network, switched ten thousand times at random: every message comes once,
//! whole and in order, as it would without switches. Time is a number here, so that every run is the same.

#![allow(clippy::unwrap_used)]

use idlewave_fabric::netctx::{Counts, Layout, Lossy, Memory, Misdeeds, Node, Policy, Traffic};
use idlewave_units::Nanos;

const RANKS: u32 = 3;
const GANGS: u32 = 2;
const CYCLES: u32 = 10_000;
const PAYLOAD: usize = 64;

/// Splitmix64 (Steele, Lea and Flood 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % u64::from(n)) as u32
    }
}

/// Messages from one rank to another of one gang.
#[derive(Clone, Default)]
struct Stream {
    /// Messages that are in the ring as a whole, and the bytes of the next one that are.
    pushed: u32,
    offset: usize,
    taken: u32,
    partial: Vec<u8>,
}

/// The `i`-th message of a stream: 0 to 299 bytes that no other has.
fn message(stream: usize, i: u32) -> Vec<u8> {
    let mut dice = Dice(u64::from(i) << 8 | stream as u64);
    (0..dice.below(300))
        .map(|_| dice.below(256) as u8)
        .collect()
}

struct Site {
    nodes: Vec<Node<Lossy<Memory>>>,
    streams: Vec<Stream>,
    gang: u32,
    epoch: u64,
    now: u64,
}

impl Site {
    fn new(policy: Policy, misdeeds: Misdeeds) -> Self {
        let layout = Layout::fit(16 << 10, RANKS, PAYLOAD).unwrap();
        let node = |(rank, memory)| {
            let transport = Lossy::new(memory, misdeeds, u64::from(rank));
            let timeout = Nanos::from_micros(50);
            Node::new(transport, layout, policy, &[8, 9], rank, timeout).unwrap()
        };
        Self {
            nodes: (0..RANKS).zip(Memory::all(RANKS)).map(node).collect(),
            streams: vec![Stream::default(); (GANGS * RANKS * RANKS) as usize],
            gang: 0,
            epoch: 0,
            now: 0,
        }
    }

    fn stream(&self, from: u32, to: u32) -> usize {
        ((self.gang * RANKS + from) * RANKS + to) as usize
    }

    fn progress(&mut self) {
        for node in &mut self.nodes {
            self.now += 1_000;
            node.progress(Nanos::from_nanos(self.now));
        }
    }

    fn push(&mut self, from: u32, to: u32) {
        let place = self.stream(from, to);
        let stream = &mut self.streams[place];
        let mut context = self.nodes[from as usize].current();
        let mut sender = context.sender(to).unwrap();
        let whole = sender.push_message(&message(place, stream.pushed), &mut stream.offset);
        if whole {
            stream.pushed += 1;
            stream.offset = 0;
        }
    }

    fn take(&mut self, from: u32, to: u32) {
        let place = self.stream(from, to);
        let stream = &mut self.streams[place];
        let mut context = self.nodes[to as usize].current();
        let mut receiver = context.receiver(from).unwrap();
        let Some((content, end)) = receiver.front() else {
            return;
        };
        stream.partial.extend_from_slice(content);
        receiver.release();
        if end {
            assert_eq!(
                stream.partial,
                message(place, stream.taken),
                "stream {place}"
            );
            stream.taken += 1;
            stream.partial.clear();
        }
    }

    fn stop(&mut self) {
        for node in &mut self.nodes {
            node.current().stop();
        }
    }

    fn counts(&mut self) -> Counts {
        let mut sum = Counts::default();
        for node in &mut self.nodes {
            let one = node.counts();
            sum.sent += one.sent;
            sum.received += one.received;
        }
        sum
    }

    /// No application takes anything meanwhile.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.nodes.iter_mut().all(|n| n.current().is_drained()) {
                let Counts { sent, received } = self.counts();
                assert_eq!(sent, received, "nothing is under way");
                return;
            }
            self.progress();
        }
        panic!("the network was never drained");
    }

    fn resume(&mut self) {
        self.epoch += 1;
        for node in &mut self.nodes {
            node.resume(self.epoch).unwrap();
        }
    }

    fn switch(&mut self, gang: u32) {
        self.gang = gang;
        for node in &mut self.nodes {
            node.switch(gang).unwrap();
        }
        self.resume();
    }

    fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for node in &self.nodes {
            let one = node.traffic();
            sum.damaged += one.damaged;
            sum.foreign += one.foreign;
            sum.timeouts += one.timeouts;
        }
        sum
    }
}

fn run(policy: Policy, misdeeds: Misdeeds) -> Site {
    let mut dice = Dice(policy as u64);
    let mut site = Site::new(policy, misdeeds);
    site.resume();
    for cycle in 0..CYCLES {
        // Full rings for a while, then empty ones.
        let hungry = cycle / 100 % 2 == 0;
        for _ in 0..dice.below(40) {
            let (from, to) = (dice.below(RANKS), dice.below(RANKS));
            match dice.below(4) {
                0 => site.push(from, to),
                1 => site.take(from, to),
                2 => site.progress(),
                _ if hungry => (0..8).for_each(|_| site.take(from, to)),
                _ => site.push(from, to),
            }
        }
        site.stop();
        for _ in 0..dice.below(4) {
            site.progress();
            // What comes into the rings now waits there.
            site.push(dice.below(RANKS), dice.below(RANKS));
        }
        if dice.below(20) == 0 {
            // Given up.
            site.resume();
            continue;
        }
        site.drain();
        site.switch(dice.below(GANGS));
    }
    for gang in (0..GANGS).chain(0..GANGS) {
        site.drain_all_into(gang);
    }
    site
}

impl Site {
    /// Lets a gang run until all that it has sent has been taken.
    fn drain_all_into(&mut self, gang: u32) {
        self.stop();
        self.drain();
        self.switch(gang);
        for _ in 0..20_000 {
            self.progress();
            for from in 0..RANKS {
                for to in 0..RANKS {
                    let stream = &self.streams[self.stream(from, to)];
                    if stream.offset > 0 {
                        self.push(from, to);
                    }
                    self.take(from, to);
                }
            }
            let first = self.stream(0, 0);
            let own = &self.streams[first..first + (RANKS * RANKS) as usize];
            if own.iter().all(|s| s.offset == 0 && s.taken == s.pushed) {
                return;
            }
        }
        panic!("gang {gang} has messages that never came");
    }
}

#[test]
fn ten_thousand_switches_by_each_policy_lose_and_double_nothing() {
    let misdeeds = Misdeeds {
        lose: 50,
        double: 50,
        delay: 100,
        damage: 20,
    };
    for policy in Policy::ALL {
        let site = run(policy, misdeeds);
        let messages: u32 = site.streams.iter().map(|s| s.taken).sum();
        let traffic = site.traffic();
        println!("{policy:?}: {messages} messages, {traffic:?}");
        assert!(messages > 10_000, "{messages} messages");
        assert!(site.streams.iter().all(|s| s.taken > 100));
        assert!(traffic.damaged > 100 && traffic.foreign > 100 && traffic.timeouts > 100);
    }
}

//! Two gangs on the same nodes and the same unreliable network, switched thousands of times at
//! random: every message arrives exactly once, whole and in order, as it would without switches.
//! Time is a counter here, so that every run is the same.

use super::memory::Bell;
use super::owner::Owner;
use super::rank::RankPort;
use super::shape::{Shape, Shared};
use super::{At, Attachment, Gang, Idle, Setup};
use crate::netctx::{Counts, Lossy, Memory, Misdeeds, Policy, Traffic, Transport};
use crate::piece::Pieces;
use idlewave_stats::random::SplitMix;
use idlewave_units::Nanos;

const NODES: u32 = 3;
/// By rank: the node. Two ranks share one.
const PLACES: [u32; 4] = [0, 2, 1, 0];
const RANKS: u32 = PLACES.len() as u32;
const GANGS: u32 = 2;
const CYCLES: u32 = 3_000;
/// Bytes of a frame: a header, the prefix of a piece, and 52 bytes of the piece.
const FRAME: usize = 36 + 12 + 52;

/// A network of short frames.
struct Short(Lossy<Memory>);

impl Transport for Short {
    fn longest(&self) -> usize {
        FRAME
    }
    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.0.send(to, frame)
    }
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.0.receive(frame)
    }
}

/// Messages from one rank to another of one gang.
#[derive(Clone, Default)]
struct Stream {
    /// Messages that are completely in the ring; `offset` is the number of bytes of the next one
    /// that are.
    pushed: u32,
    offset: usize,
    begun: bool,
    taken: u32,
    partial: Vec<u8>,
}

/// The `i`-th message of a stream: 0 to 299 bytes, unlike any other's.
fn message(stream: usize, i: u32) -> Vec<u8> {
    let mut random = SplitMix::new(u64::from(i) << 8 | stream as u64);
    (0..random.below(300))
        .map(|_| random.bits() as u8)
        .collect()
}

struct Site {
    nodes: Vec<Owner<Short>>,
    /// By gang and rank.
    ranks: Vec<RankPort>,
    streams: Vec<Stream>,
    gang: u32,
    epoch: u64,
    now: u64,
    _directory: tempfile::TempDir,
    _bells: Vec<Bell>,
}

impl Site {
    fn new(policy: Policy, misdeeds: Misdeeds) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |node: u32| directory.path().join(node.to_string());
        let (mut nodes, mut bells) = (Vec::new(), Vec::new());
        for (node, memory) in (0..NODES).zip(Memory::all(NODES)) {
            let setup = Setup {
                node,
                gangs: GANGS,
                places: 2,
                ranks: RANKS,
                policy,
                context_bytes: 16 << 10,
                ..Setup::new(path(node))
            };
            let shape = Shape::new(&setup).expect("a shape");
            let shared = Shared::create(&setup.path, shape, None).expect("memory");
            bells.push(Bell::create(&setup.path, None).expect("a pipe"));
            let transport = Short(Lossy::new(memory, misdeeds, u64::from(node)));
            let timeout = Nanos::from_micros(50);
            let mut owner = Owner::new(shared, transport, policy, timeout);
            for gang in 0..GANGS {
                let nodes = PLACES.to_vec();
                owner.admit(&Gang { gang, nodes }).expect("room");
            }
            nodes.push(owner);
        }
        let attach = |(gang, rank): (u32, u32)| {
            let attachment = Attachment {
                at: At::Device {
                    path: path(PLACES[rank as usize]),
                    gang,
                },
                rank,
                size: RANKS,
                idle: Idle::Sleep,
            };
            RankPort::new(&attachment).expect("a seat")
        };
        let all = (0..GANGS).flat_map(|gang| (0..RANKS).map(move |rank| (gang, rank)));
        let ranks = all.map(attach).collect();
        let mut site = Self {
            nodes,
            ranks,
            streams: vec![Stream::default(); (GANGS * RANKS * RANKS) as usize],
            gang: 0,
            epoch: 0,
            now: 0,
            _directory: directory,
            _bells: bells,
        };
        site.switch(0);
        site
    }

    fn stream(&self, from: u32, to: u32) -> usize {
        ((self.gang * RANKS + from) * RANKS + to) as usize
    }

    fn port(&mut self, rank: u32) -> &mut RankPort {
        &mut self.ranks[(self.gang * RANKS + rank) as usize]
    }

    fn progress(&mut self) {
        for node in &mut self.nodes {
            self.now += 1_000;
            node.turn(Nanos::from_nanos(self.now));
        }
    }

    /// Puts as much of the next message into the ring as there is room for; nothing while the gang
    /// is stopped.
    fn push(&mut self, from: u32, to: u32) {
        let place = self.stream(from, to);
        let mut stream = std::mem::take(&mut self.streams[place]);
        let data = message(place, stream.pushed);
        self.port(from).reach(|rings| {
            while stream.offset < data.len() || !stream.begun {
                let rest = &data[stream.offset..];
                let Some(taken) = rings.put(to, 7, data.len() as u64, rest) else {
                    return;
                };
                stream.begun = true;
                stream.offset += taken;
            }
            (stream.pushed, stream.offset, stream.begun) = (stream.pushed + 1, 0, false);
        });
        self.streams[place] = stream;
    }

    fn take(&mut self, from: u32, to: u32) {
        let place = self.stream(from, to);
        let mut stream = std::mem::take(&mut self.streams[place]);
        self.port(to).reach(|rings| {
            rings.take(from, |header, piece| {
                piece.append_to(0, usize::MAX, &mut stream.partial);
                assert_eq!(header.tag, 7);
                if stream.partial.len() as u64 == header.message {
                    let wanted = message(place, stream.taken);
                    assert_eq!(stream.partial, wanted, "stream {place}");
                    stream.taken += 1;
                    stream.partial.clear();
                }
            })
        });
        self.streams[place] = stream;
    }

    fn stop(&mut self) {
        for node in &mut self.nodes {
            node.stop(self.gang).expect("the gang");
        }
    }

    /// Drains the network while no application takes anything.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.nodes.iter().all(Owner::is_drained) {
                let mut sum = Counts::default();
                for node in &self.nodes {
                    let one = node.counts();
                    sum.sent += one.sent;
                    sum.received += one.received;
                }
                assert_eq!(sum.sent, sum.received, "nothing is under way");
                return;
            }
            self.progress();
        }
        panic!("the network was never drained");
    }

    fn resume(&mut self) {
        self.epoch += 1;
        for node in &mut self.nodes {
            node.resume(self.epoch).expect("a later epoch");
        }
    }

    fn switch(&mut self, gang: u32) {
        self.gang = gang;
        for node in &mut self.nodes {
            node.switch(gang).expect("nobody is inside");
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

    /// Lets a gang run until all that it has sent has been taken.
    fn drain_all_into(&mut self, gang: u32) {
        self.stop();
        self.drain();
        self.switch(gang);
        for _ in 0..20_000 {
            self.progress();
            for from in 0..RANKS {
                for to in 0..RANKS {
                    if self.streams[self.stream(from, to)].begun {
                        self.push(from, to);
                    }
                    self.take(from, to);
                }
            }
            let first = self.stream(0, 0);
            let own = &self.streams[first..first + (RANKS * RANKS) as usize];
            if own.iter().all(|s| !s.begun && s.taken == s.pushed) {
                return;
            }
        }
        panic!("gang {gang} has messages that never came");
    }
}

fn run(policy: Policy, misdeeds: Misdeeds) -> Site {
    let mut random = SplitMix::new(policy as u64);
    let mut below = |n: u32| random.below(u64::from(n)) as u32;
    let mut site = Site::new(policy, misdeeds);
    for cycle in 0..CYCLES {
        // The rings alternate between running empty and filling up.
        let hungry = cycle / 100 % 2 == 0;
        for _ in 0..below(60) {
            let (from, to) = (below(RANKS), below(RANKS));
            match below(4) {
                0 => site.push(from, to),
                1 => site.take(from, to),
                2 => site.progress(),
                _ if hungry => (0..8).for_each(|_| site.take(from, to)),
                _ => site.push(from, to),
            }
        }
        site.stop();
        for _ in 0..below(4) {
            site.progress();
            // The ranks are kept out.
            let before = site.streams.iter().map(|s| s.offset).sum::<usize>();
            site.push(below(RANKS), below(RANKS));
            assert_eq!(site.streams.iter().map(|s| s.offset).sum::<usize>(), before);
        }
        if below(20) == 0 {
            // The switch is abandoned.
            site.resume();
            continue;
        }
        site.drain();
        site.switch(below(GANGS));
    }
    for gang in (0..GANGS).chain(0..GANGS) {
        site.drain_all_into(gang);
    }
    site
}

#[test]
fn thousands_of_switches_by_each_policy_lose_and_double_nothing() {
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

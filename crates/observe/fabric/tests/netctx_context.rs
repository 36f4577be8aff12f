//! A context that is saved and restored is the same in everything that can be observed, whatever
//! its state and whatever others did to the network meanwhile.

#![allow(clippy::unwrap_used)]

use idlewave_fabric::netctx::{
    ChannelError, Context, ContextError, Counts, Header, Layout, Phase, Policy,
};
use proptest::prelude::*;

const RANKS: u32 = 2;
const GANGS: [u32; 3] = [40, 41, 42];
const PAYLOAD: usize = 100;

fn layout() -> Layout {
    Layout::fit(16 << 10, RANKS, PAYLOAD).unwrap()
}

/// One rank's contexts in several gangs: one lies in the region, the others are saved.
struct Contexts {
    policy: Policy,
    region: Vec<u64>,
    saved: Vec<Vec<u64>>,
    active: usize,
}

impl Contexts {
    fn new(policy: Policy, gangs: &[u32], rank: u32) -> Self {
        let mut region = vec![u64::MAX; layout().bytes() / 8];
        let mut begin = |gang: &u32| {
            let mut saved = Vec::new();
            Context::begin(layout(), &mut region, *gang, rank);
            policy.save(layout(), &mut region, &mut saved);
            saved
        };
        let saved: Vec<_> = gangs.iter().map(&mut begin).collect();
        policy.restore(layout(), &mut region, &saved[0]);
        let active = 0;
        Self {
            policy,
            region,
            saved,
            active,
        }
    }

    /// Returns the number of words saved.
    fn switch(&mut self, to: usize) -> usize {
        let Self { policy, region, .. } = self;
        let saved = &mut self.saved[self.active];
        policy.save(layout(), region, saved);
        let words = saved.len();
        policy.restore(layout(), region, &self.saved[to]);
        self.active = to;
        words
    }

    fn current(&mut self) -> Context<'_> {
        Context::of(layout(), &mut self.region)
    }
}

/// The policies that copy.
const COPYING: [Policy; 2] = [Policy::Whole, Policy::Valid];

/// Two ranks of three gangs, on one network or on one per gang.
struct Site {
    /// With one network, one per rank; otherwise one per rank and gang.
    contexts: Vec<Contexts>,
    shared: bool,
    gang: usize,
    /// By gang: frames in flight.
    network: Vec<Vec<Vec<u8>>>,
}

impl Site {
    fn new(policy: Option<Policy>) -> Self {
        let own = |gangs: &[u32], rank| Contexts::new(policy.unwrap_or(Policy::Whole), gangs, rank);
        let contexts = match policy {
            Some(_) => (0..RANKS).map(|rank| own(&GANGS, rank)).collect(),
            None => (0..RANKS)
                .flat_map(|rank| GANGS.map(|gang| own(&[gang], rank)))
                .collect(),
        };
        let mut site = Self {
            contexts,
            shared: policy.is_some(),
            gang: 0,
            network: vec![Vec::new(); GANGS.len()],
        };
        for gang in [1, 2, 0] {
            site.switch(gang);
            site.resume();
        }
        site
    }

    fn at(&mut self, rank: u32) -> Context<'_> {
        let place = match self.shared {
            true => rank as usize,
            false => rank as usize * GANGS.len() + self.gang,
        };
        self.contexts[place].current()
    }

    fn switch(&mut self, gang: usize) {
        if self.shared {
            for contexts in &mut self.contexts {
                contexts.switch(gang);
            }
        }
        self.gang = gang;
    }

    fn resume(&mut self) {
        for rank in 0..RANKS {
            let epoch = self.at(rank).epoch() + 1;
            self.at(rank).resume(epoch).unwrap();
        }
    }

    /// Takes a step and returns what could be observed of it.
    fn act(&mut self, step: Step) -> Vec<u8> {
        let Step {
            what,
            rank,
            peer,
            n,
        } = step;
        let mut seen = Vec::new();
        match what {
            0 => self.switch(n % GANGS.len()),
            1 => self.resume(),
            2 => self.at(rank).stop(0..RANKS),
            3..=7 => {
                let message: Vec<u8> = (0..n).map(|i| (i + n) as u8).collect();
                let mut offset = 0;
                let done = self
                    .at(rank)
                    .sender(peer)
                    .unwrap()
                    .push_message(&message, &mut offset);
                seen.extend([u8::from(done), offset as u8]);
            }
            8..=14 => {
                let mut context = self.at(rank);
                let mut frame = Vec::new();
                let mut sender = context.sender(peer).unwrap();
                if let Some((header, payload)) = sender.poll() {
                    header.encode(payload, &mut frame);
                } else if let Some(header) = context.receiver(peer).unwrap().poll() {
                    header.encode(&[], &mut frame);
                }
                if !frame.is_empty() {
                    self.network[self.gang].push(frame.clone());
                }
                seen = frame;
            }
            15..=22 => {
                let network = &mut self.network[self.gang];
                if network.is_empty() {
                    return seen;
                }
                let frame = network.remove(if what == 15 { n % network.len() } else { 0 });
                let (header, payload) = Header::decode(&frame).unwrap();
                let taken = if header.kind.is_answer() {
                    let mut context = self.at(header.link.source);
                    let mut sender = context.sender(header.link.destination).unwrap();
                    sender.hear(&header)
                } else {
                    let mut context = self.at(header.link.destination);
                    let mut receiver = context.receiver(header.link.source).unwrap();
                    receiver.hear(&header, payload)
                };
                seen.push(u8::from(taken));
            }
            23..=26 => {
                let mut context = self.at(rank);
                let mut receiver = context.receiver(peer).unwrap();
                if let Some((content, end)) = receiver.front() {
                    seen.extend_from_slice(content);
                    seen.push(u8::from(end));
                }
                receiver.release();
            }
            _ => self.at(rank).sender(peer).unwrap().time_out(),
        }
        seen
    }

    /// What can be observed of the current gang without changing it: its ends, its counts, and the
    /// first frame of each receive ring.
    fn observe(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        for rank in 0..RANKS {
            let mut context = self.at(rank);
            seen.push(format!(
                "{} {} {}",
                context.gang(),
                context.epoch(),
                context.rank()
            ));
            seen.push(format!("{:?}", context.counts()));
            for peer in 0..RANKS {
                seen.push(format!("{:?}", context.sender(peer).unwrap().state()));
                let mut receiver = context.receiver(peer).unwrap();
                let state = *receiver.state();
                seen.push(format!("{state:?} {:?}", receiver.front()));
            }
        }
        seen
    }

    /// Empties all rings: what was sent is sent again, what was received is taken.
    fn drain_out(&mut self) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        for gang in 0..GANGS.len() {
            self.switch(gang);
            self.resume();
            for rank in 0..RANKS {
                for peer in 0..RANKS {
                    let mut context = self.at(rank);
                    let mut sender = context.sender(peer).unwrap();
                    while let Some((header, payload)) = sender.poll() {
                        let mut frame = Vec::new();
                        header.encode(payload, &mut frame);
                        seen.push(frame);
                    }
                    let mut receiver = context.receiver(peer).unwrap();
                    while let Some((content, _)) = receiver.front() {
                        seen.push(content.to_vec());
                        receiver.release();
                    }
                }
            }
        }
        seen
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    what: u32,
    rank: u32,
    peer: u32,
    n: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u32..28, 0..RANKS, 0..RANKS, 0_usize..2_000);
    let step = step.prop_map(|(what, rank, peer, n)| Step {
        what,
        rank,
        peer,
        n,
    });
    proptest::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn switched_contexts_are_as_contexts_that_were_never_switched(steps in steps()) {
        for policy in COPYING {
            let (mut alone, mut shared) = (Site::new(None), Site::new(Some(policy)));
            for &step in &steps {
                prop_assert_eq!(alone.act(step), shared.act(step), "{:?}", step);
                if step.what < 3 {
                    prop_assert_eq!(alone.observe(), shared.observe(), "{:?}", step);
                }
            }
            prop_assert_eq!(alone.drain_out(), shared.drain_out());
        }
    }

    #[test]
    fn a_layout_uses_its_region_and_no_more(
        bytes in 16_usize << 10..16 << 20, peers in 1_u32..40, payload in 1_usize..3_000,
    ) {
        match Layout::fit(bytes, peers, payload) {
            Ok(layout) => {
                prop_assert!(layout.used() <= layout.bytes() && layout.bytes() <= bytes);
                prop_assert!(layout.slots().is_power_of_two());
                // Twice the slots would not fit, unless the rings have the most slots allowed.
                let slots = layout.slots() as usize;
                let rings = 2 * peers as usize * slots * (8 + payload.next_multiple_of(8));
                prop_assert!(layout.used() + rings > bytes || slots == 1 << 15);
                let mut region = vec![u64::MAX; layout.bytes() / 8];
                let mut context = Context::begin(layout, &mut region, 1, 0);
                for peer in 0..peers {
                    prop_assert_eq!(context.sender(peer).unwrap().room(), layout.slots());
                    prop_assert_eq!(context.receiver(peer).unwrap().waiting(), 0);
                }
                prop_assert!(context.sender(peers).is_none() && context.receiver(peers).is_none());
            }
            Err(error) => {
                let small = matches!(error, ContextError::TooSmall { needed, .. } if needed > bytes);
                prop_assert!(small, "{}", error);
            }
        }
    }
}

#[test]
fn impossible_layouts_are_refused() {
    assert_eq!(Layout::fit(1 << 20, 2, 0), Err(ContextError::Payload(0)));
    assert_eq!(
        Layout::fit(1 << 20, 2, 65_001),
        Err(ContextError::Payload(65_001))
    );
    for bytes in [(16 << 10) - 1, (16 << 20) + 1] {
        assert_eq!(Layout::fit(bytes, 2, 64), Err(ContextError::Size(bytes)));
    }
    let many = Layout::fit(16 << 20, u32::MAX, 64);
    assert!(
        matches!(many, Err(ContextError::TooSmall { .. })),
        "{many:?}"
    );
}

#[test]
fn a_layout_takes_the_last_byte_that_it_needs() {
    // A head of 24 bytes, then for each peer 120 bytes and two rings of 64 slots of 8 + 104 bytes.
    let needed = 24 + 2 * 120 + 2 * 2 * 64 * 112;
    for (bytes, slots) in [(needed - 1, 32), (needed, 64), (needed + 1, 64)] {
        let layout = Layout::fit(bytes, 2, 100).unwrap();
        assert_eq!(layout.slots(), slots, "{bytes}");
    }
    assert_eq!(Layout::fit(needed, 2, 100).unwrap().used(), needed);
}

#[test]
fn each_policy_copies_what_its_name_says() {
    let layout = layout();
    // Head and ends: 24 bytes, and 120 for each peer.
    let ends = 24 + 120 * RANKS as usize;
    for (policy, empty, with_one) in [
        (Policy::Whole, layout.bytes(), layout.bytes()),
        // One frame of 3 bytes: a head of 8, and a word.
        (Policy::Valid, ends, ends + 16),
        (Policy::Resident, 0, 0),
    ] {
        let mut region = vec![u64::MAX; layout.bytes() / 8 + 1];
        Context::begin(layout, &mut region, 5, 0);
        let mut saved = vec![7];
        policy.save(layout, &mut region, &mut saved);
        assert_eq!(saved.len() * 8, empty, "{policy:?}");
        let mut context = Context::of(layout, &mut region);
        assert!(context.sender(1).unwrap().push(b"abc", true));
        policy.save(layout, &mut region, &mut saved);
        assert_eq!(saved.len() * 8, with_one, "{policy:?}");
    }
}

#[test]
fn a_region_of_random_words_is_saved_and_restored_within_its_bounds() {
    let mut random = 1_u64;
    for _ in 0..200 {
        let mut word = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005);
            random = random.wrapping_add(1_442_695_040_888_963_407);
            random ^ random >> 29
        };
        let mut region: Vec<u64> = (0..layout().bytes() / 8).map(|_| word()).collect();
        let mut saved = Vec::new();
        Policy::Valid.save(layout(), &mut region, &mut saved);
        assert!(saved.len() <= region.len());
        // Words that changed during the copy, or a copy that was cut short, are at worst wrong.
        for word in &mut saved {
            *word ^= *word >> 7;
        }
        Policy::Valid.restore(layout(), &mut region, &saved);
        saved.truncate(layout().bytes() / 32);
        Policy::Valid.restore(layout(), &mut region, &saved);
    }
}

/// Delivers all frames of the two ranks until no more are sent.
fn settle(site: &mut Site) {
    for round in 0.. {
        assert!(round < 1_000, "they never settle");
        let mut quiet = true;
        for rank in 0..RANKS {
            for peer in 0..RANKS {
                for what in [8, 8, 8, 15, 15, 15] {
                    let n = 0;
                    quiet &= site
                        .act(Step {
                            what,
                            rank,
                            peer,
                            n,
                        })
                        .is_empty();
                }
            }
        }
        if quiet {
            return;
        }
    }
}

#[test]
fn a_gang_is_drained_when_all_its_channels_are_and_then_its_counts_are_equal() {
    for policy in COPYING {
        let mut site = Site::new(Some(policy));
        for (rank, n) in [(0, 1_999), (1, 5)] {
            let (what, peer) = (3, 1 - rank);
            site.act(Step {
                what,
                rank,
                peer,
                n,
            });
        }
        let (what, n) = (8, 0);
        site.act(Step {
            what,
            rank: 0,
            peer: 1,
            n,
        });
        site.at(0).stop(0..RANKS);
        settle(&mut site);
        assert!(
            !site.at(0).is_drained(0..RANKS),
            "the other one still sends"
        );
        site.at(1).stop(0..RANKS);
        settle(&mut site);
        for rank in 0..RANKS {
            assert!(site.at(rank).is_drained(0..RANKS), "rank {rank}");
            assert_eq!(
                site.at(rank).sender(1 - rank).unwrap().phase(),
                Phase::Drained
            );
        }
        let counts = [0, 1].map(|rank| site.at(rank).counts());
        let (sent, received) = (1, 1);
        assert_eq!(counts, [Counts { sent, received }; 2]);
        let refused = Err(ChannelError::Epoch { own: 1, asked: 1 });
        assert_eq!(site.at(0).resume(1), refused);
        assert_eq!(site.at(0).epoch(), 1);
    }
}

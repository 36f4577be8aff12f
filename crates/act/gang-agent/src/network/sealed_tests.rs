//! An attacker without the key changes nothing, wherever its frames come from, not even with
//! recorded genuine frames.

use super::*;
use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Device, Header, Kind, Link, NetctxFabric, Udp};
use idlewave_fabric::{PointToPoint, Tag};
use idlewave_stats::random::SplitMix;
use idlewave_units::Rank;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// All frames that either node ever sent, each with its receiver.
type Seen = Arc<Mutex<Vec<(u32, Vec<u8>)>>>;

/// A tapped transport; without another end it only records what was sent.
struct Tapped<T> {
    inner: Option<T>,
    seen: Seen,
    kept: VecDeque<Vec<u8>>,
}

impl<T> Tapped<T> {
    fn new(inner: Option<T>, seen: &Seen) -> Self {
        Self {
            inner,
            seen: Arc::clone(seen),
            kept: VecDeque::new(),
        }
    }
}

impl<T: Transport> Transport for Tapped<T> {
    fn longest(&self) -> usize {
        self.inner.as_ref().map_or(1_472, T::longest)
    }

    fn send(&mut self, to: u32, frame: &[u8]) -> bool {
        self.seen.lock().unwrap().push((to, frame.to_vec()));
        match &mut self.inner {
            Some(inner) => inner.send(to, frame),
            None => {
                self.kept.push_back(frame.to_vec());
                true
            }
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        match &mut self.inner {
            Some(inner) => inner.receive(frame),
            None => self.kept.pop_front().map(|kept| *frame = kept).is_some(),
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.inner.as_ref().and_then(T::descriptor)
    }
}

fn key(byte: u8) -> DeviceKey {
    DeviceKey::new([byte; 32])
}

fn alone(byte: u8) -> (Sealed<Tapped<Udp>>, Arc<AtomicU64>) {
    let forged = Arc::default();
    let tapped = Tapped::new(None, &Seen::default());
    (Sealed::new(tapped, &key(byte), Arc::clone(&forged)), forged)
}

proptest! {
    #[test]
    fn what_was_sent_is_taken_and_what_was_changed_is_dropped_and_counted(
        frame in proptest::collection::vec(any::<u8>(), 0..200),
        bit in any::<proptest::sample::Index>(),
        cut in any::<proptest::sample::Index>(),
        more in proptest::collection::vec(any::<u8>(), 1..40),
    ) {
        let (mut sealed, forged) = alone(1);
        prop_assert!(sealed.send(0, &frame));
        let genuine = sealed.inner.kept[0].clone();
        prop_assert_eq!(genuine.len(), frame.len() + TAG);
        prop_assert_eq!(&genuine[..frame.len()], &frame[..]);
        let bit = bit.index(genuine.len() * 8);
        let mut flipped = genuine.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let short = genuine[..cut.index(genuine.len())].to_vec();
        let long = [&genuine[..], &more].concat();
        let (mut other, _) = alone(2);
        other.send(0, &frame);
        let foreign = other.inner.kept[0].clone();
        let bad = [flipped, short, long, foreign, frame.clone(), more];
        let count = bad.len() as u64;
        sealed.inner.kept = bad.into_iter().chain([genuine]).collect();
        let mut taken = vec![9; 3];
        prop_assert!(sealed.receive(&mut taken));
        prop_assert_eq!(&taken, &frame);
        prop_assert_eq!(forged.load(Ordering::Relaxed), count);
        prop_assert!(!sealed.receive(&mut taken));
    }
}

#[test]
fn the_code_is_hmac_sha256_over_the_frame_and_fits_into_what_the_way_carries() {
    // RFC 4231, test case 2: the key \"Jefe\", padded with zeros as in HMAC.
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(b"Jefe");
    let tapped = Tapped::<Udp>::new(None, &Seen::default());
    let mut sealed = Sealed::new(tapped, &DeviceKey::new(bytes), Arc::default());
    sealed.send(0, b"what do ya want for nothing?");
    let told = &sealed.inner.kept[0][28..];
    assert_eq!(told[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
    assert_eq!(told[8..], [0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7]);
    assert_eq!(sealed.longest(), 1_456);
}

#[test]
fn a_flood_does_not_hold_who_listens() {
    let (mut sealed, forged) = alone(1);
    sealed.inner.kept = vec![vec![0; 60]; 40].into();
    let mut frame = Vec::new();
    assert!(!sealed.receive(&mut frame));
    assert_eq!(
        (sealed.inner.kept.len(), forged.load(Ordering::Relaxed)),
        (24, 16)
    );
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONG, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two nodes, and an attacker that records all frames and sends from the address of either.
struct Site {
    devices: Vec<Device<Sealed<Tapped<Udp>>>>,
    sockets: Vec<UdpSocket>,
    at: Vec<SocketAddr>,
    forged: Arc<AtomicU64>,
    seen: Seen,
    epoch: u64,
    random: SplitMix,
    _directory: tempfile::TempDir,
}

impl Site {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (forged, seen) = (Arc::default(), Seen::default());
        let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sockets: Vec<UdpSocket> = (0..2).map(bind).collect();
        let at: Vec<SocketAddr> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
        let device = |(node, socket): (u32, &UdpSocket)| {
            let udp = Udp::new(socket.try_clone().unwrap(), at.clone()).unwrap();
            let setup = Setup {
                node,
                context_bytes: 64 << 10,
                ranks: 2,
                places: 1,
                gangs: 2,
                ..Setup::new(directory.path().join(node.to_string()))
            };
            let tapped = Tapped::new(Some(udp), &seen);
            Device::new(&setup, Sealed::new(tapped, &key(1), Arc::clone(&forged))).unwrap()
        };
        Self {
            devices: (0..).zip(&sockets).map(device).collect(),
            sockets,
            at,
            forged,
            seen,
            epoch: 0,
            random: SplitMix::new(seed),
            _directory: directory,
        }
    }

    fn admit(&self, gang: u32) -> [NetctxFabric; 2] {
        let nodes = vec![0, 1];
        let admitted = Gang { gang, nodes };
        for device in &self.devices {
            device.admit(&admitted).unwrap();
        }
        [0, 1].map(|rank: u32| {
            let path = self.devices[rank as usize].path().to_owned();
            let attachment = Attachment {
                at: At::Device { path, gang },
                rank,
                size: 2,
                idle: Idle::Sleep,
            };
            attachment.attach().unwrap()
        })
    }

    /// Makes a gang active, after draining if one was.
    fn switch(&mut self, gang: u32) {
        for device in &self.devices {
            if let Some(active) = device.active() {
                device.stop(active).unwrap();
            }
        }
        for device in &self.devices {
            assert!(device.wait_drained(LONG).complete);
        }
        let counts: Vec<_> = self.devices.iter().map(Device::counts).collect();
        let sum =
            |of: fn(&idlewave_fabric::netctx::Counts) -> u64| counts.iter().map(of).sum::<u64>();
        let failed = |d: &Device<_>| d.active().is_some_and(|g| d.has_failed(g).unwrap());
        if !self.devices.iter().any(failed) {
            assert_eq!(sum(|c| c.sent), sum(|c| c.received));
        }
        self.epoch += 1;
        for device in &self.devices {
            device.switch(gang, LONG).unwrap();
        }
        for device in &self.devices {
            device.resume(self.epoch).unwrap();
        }
    }

    /// Uniform in 0 to `n` - 1.
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    /// Sends a frame to a node, from the address of the other one.
    fn inject(&self, to: u32, frame: &[u8]) {
        let from = &self.sockets[1 - to as usize];
        // A full queue loses it, like any frame.
        let _ = from.send_to(frame, self.at[to as usize]);
    }

    /// Sends a frame of the current gang and epoch that would do harm, such as an end, an answer or
    /// a failure, without a code or with a wrong one.
    fn forge(&mut self, gang: u32) {
        let kinds = [
            Kind::End,
            Kind::Data,
            Kind::Ack,
            Kind::Flush,
            Kind::FlushAck,
            Kind::Fail,
        ];
        let kind = kinds[self.below(kinds.len())];
        let to = self.below(2) as u32;
        let source = if kind.is_answer() { to } else { 1 - to };
        let sequence = self.below(40) as u32;
        let header = Header {
            kind,
            link: Link {
                gang,
                epoch: self.epoch,
                source,
                destination: 1 - source,
            },
            sequence,
            limit: sequence + 9,
        };
        let mut frame = Vec::new();
        header.encode(b"forged forged forged", &mut frame);
        match self.below(3) {
            0 => {}
            1 => frame.extend(key(2).coder().tag(&frame)),
            _ => frame.extend([self.below(256) as u8; TAG]),
        }
        self.inject(to, &frame);
    }

    /// Sends a recorded frame with a flipped bit, cut short, to the other node, or unchanged.
    fn replay(&mut self, fair: bool) {
        let count = self.seen.lock().unwrap().len();
        if count == 0 {
            return;
        }
        let which = self.below(count);
        let (to, mut frame) = self.seen.lock().unwrap()[which].clone();
        match self.below(4) {
            0 if !fair => {
                let bit = self.below(frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
                self.inject(to, &frame);
            }
            1 if !fair => {
                let length = self.below(frame.len());
                self.inject(to, &frame[..length]);
            }
            2 => self.inject(1 - to, &frame),
            _ => self.inject(to, &frame),
        }
    }

    /// Sends messages between both ranks and checks them, with switches and attacks in between.
    fn talk(
        &mut self,
        gang: u32,
        ranks: &mut [NetctxFabric; 2],
        rounds: u32,
        mut meanwhile: impl FnMut(&mut Self),
    ) {
        let content = |round: u32, rank: u32| -> Vec<u8> {
            let word = gang << 20 ^ round << 1 ^ rank;
            word.to_le_bytes().repeat(700 * (round as usize % 3) + 1)
        };
        for round in 0..rounds {
            let mut sent = Vec::new();
            let mut got = Vec::new();
            for (rank, fabric) in (0..).zip(ranks.iter_mut()) {
                let other = Rank::new(1 - rank);
                let data = content(round, rank);
                let room = data.len();
                let receiving = fabric.start_receive(Some(other), Tag(0), room, vec![0; room]);
                got.push(receiving.unwrap());
                sent.push(fabric.start_send(other, Tag(0), data).unwrap());
            }
            let begin = Instant::now();
            let mut done = false;
            while !done {
                meanwhile(self);
                done = true;
                for (rank, fabric) in ranks.iter_mut().enumerate() {
                    done &= fabric.is_sent(&sent[rank]).unwrap();
                    done &= fabric.is_received(&got[rank]).unwrap();
                }
                assert!(begin.elapsed() < LONG, "round {round} does not end");
            }
            for (rank, fabric) in (0..).zip(ranks.iter_mut()) {
                fabric.finish_send(sent.remove(0), &mut || ()).unwrap();
                let delivery = fabric.finish_receive(got.remove(0), &mut || ()).unwrap();
                assert_eq!(delivery.data, content(round, 1 - rank), "round {round}");
            }
            if round % 5 == 4 {
                self.switch(gang);
            }
        }
    }

    fn all_forged(&self) -> u64 {
        self.forged.load(Ordering::Relaxed)
    }
}

#[test]
fn forged_and_changed_frames_from_the_right_address_change_nothing() {
    for seed in 0..4 {
        let mut site = Site::new(seed);
        let mut ranks = site.admit(3);
        site.switch(3);
        site.talk(3, &mut ranks, 40, |site| {
            site.forge(3);
            site.replay(false);
        });
        assert!(site.devices.iter().all(|d| !d.has_failed(3).unwrap()));
        until("they have come", || site.all_forged() >= 40);
    }
}

#[test]
fn genuine_frames_that_are_said_again_change_nothing_whenever_they_come() {
    for seed in 10..14 {
        let mut site = Site::new(seed);
        let mut ranks = site.admit(3);
        site.switch(3);
        site.talk(3, &mut ranks, 40, |site| {
            for _ in 0..3 {
                site.replay(true);
            }
        });
        assert_eq!(site.all_forged(), 0, "all of them were genuine");
        let foreign = |d: &Device<_>| d.traffic().foreign > 0;
        until("some have come", || site.devices.iter().any(foreign));
    }
}

#[test]
fn what_a_gang_said_that_is_gone_harms_none_that_has_its_place() {
    for seed in 20..24 {
        let mut site = Site::new(seed);
        let mut first = site.admit(3);
        site.switch(3);
        site.talk(3, &mut first, 10, |_| ());
        site.devices[0].fail(3).unwrap();
        until("the other node is told", || {
            site.devices[1].has_failed(3).unwrap()
        });
        for device in &site.devices {
            device.stop(3).unwrap();
            assert!(device.wait_drained(LONG).complete);
            device.dismiss(3).unwrap();
        }
        let old = site.seen.lock().unwrap().len();
        let failure = |(_, frame): &(u32, Vec<u8>)| frame[1] == 7;
        assert!(site.seen.lock().unwrap()[..old].iter().any(failure));
        let mut second = site.admit(4);
        site.switch(4);
        let mut next = 0;
        while next < 2 * old {
            site.talk(4, &mut second, 10, |site| {
                // All of them in order, then in random order; to both nodes.
                for _ in 0..4 {
                    let which = if next < old { next } else { site.below(old) };
                    next += 1;
                    let (to, frame) = site.seen.lock().unwrap()[which].clone();
                    site.inject(to, &frame);
                    site.inject(1 - to, &frame);
                }
            });
        }
        assert!(site.devices.iter().all(|d| !d.has_failed(4).unwrap()));
        assert_eq!(site.all_forged(), 0);
    }
}

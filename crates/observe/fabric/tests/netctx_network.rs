//! Devices on networks that are cut, that carry too little, and on which somebody forges frames.
//! Ranks are threads here.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "netctx_device/site.rs"]
mod site;

use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{
    Device, DeviceError, Header, Kind, Link, NetctxFabric, Policy, Transport, Udp,
};
use idlewave_fabric::{Fabric, FabricError, PointToPoint, Tag};
use idlewave_units::Rank;
use site::{LIMIT, Site};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The ranks of a gang with one rank on each node.
fn attach<T: Transport + 'static>(site: &Site<T>, gang: u32) -> Vec<NetctxFabric> {
    let size = site.devices.len() as u32;
    let of = |(rank, device): (u32, &Device<T>)| {
        let attachment = Attachment {
            at: At::Device {
                path: device.path().to_owned(),
                gang,
            },
            rank,
            size,
            idle: Idle::Sleep,
        };
        attachment.attach().unwrap()
    };
    (0..).zip(&site.devices).map(of).collect()
}

/// Sends to rank 1.
fn send(rank: &mut NetctxFabric, byte: u8) {
    rank.start_send(Rank::new(1), Tag(3), vec![byte; 10])
        .unwrap();
}

/// Receives from rank 0.
fn receive(rank: &mut NetctxFabric) -> Vec<u8> {
    let from = Some(Rank::new(0));
    let receiving = rank.start_receive(from, Tag(3), 10, Vec::new()).unwrap();
    rank.finish_receive(receiving, &mut || ()).unwrap().data
}

/// A network that can be cut.
struct Cut(Udp, Arc<AtomicBool>);

impl Transport for Cut {
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
    for policy in Policy::ALL {
        let cut = Arc::new(AtomicBool::new(true));
        let all = site::udp(2).into_iter();
        let transports = all.map(|udp| Cut(udp, Arc::clone(&cut))).collect();
        let mut site = Site::new(transports, policy, 2);
        site.admit(0, &[0, 1]);
        site.admit(1, &[0, 1]);
        site.start(0);
        let (mut first, mut second) = (attach(&site, 0), attach(&site, 1));
        send(&mut first[0], 1);
        send(&mut second[0], 2);
        for epoch in [2, 3] {
            for device in &site.devices {
                device.stop(0).unwrap();
            }
            let short = Duration::from_millis(10);
            let drained = site.devices[0].wait_drained(short);
            assert!(!drained.complete, "{drained:?}");
            for device in &site.devices {
                device.resume(epoch).unwrap();
            }
            site.epoch = epoch;
        }
        cut.store(false, Ordering::Relaxed);
        // The gang runs again: new messages get through too.
        send(&mut first[0], 4);
        assert_eq!(receive(&mut first[1]), [1; 10]);
        assert_eq!(receive(&mut first[1]), [4; 10]);
        site.switch(1);
        let counts = site.devices[0].counts();
        assert_eq!((counts.sent, counts.received), (0, 0), "the second gang's");
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
}

#[test]
fn a_rank_that_panics_ends_the_waits_of_its_gang_and_of_no_other() {
    let site = Site::new(site::udp(2), Policy::Resident, 2);
    site.admit(0, &[0, 1]);
    site.admit(1, &[0, 1]);
    site.start(0);
    let (mut ranks, mut other) = (attach(&site, 0), attach(&site, 1));
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

/// A network that carries frames of at most this many bytes.
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

#[test]
fn a_network_whose_frames_have_no_room_for_a_byte_carries_no_gang() {
    let directory = tempfile::tempdir().unwrap();
    for (longest, works) in [(0, false), (36 + 12, false), (36 + 13, true)] {
        let setup = Setup::new(directory.path().join(longest.to_string()));
        let device = Device::new(&setup, Narrow(longest)).unwrap();
        let nodes = vec![0, 1];
        let admitted = device.admit(&Gang { gang: 0, nodes });
        let refused = matches!(admitted, Err(DeviceError::Context(_)));
        assert_eq!((admitted.is_ok(), refused), (works, !works), "{longest}");
        // Ranks of one node need no network.
        let nodes = vec![0, 0];
        device.admit(&Gang { gang: 1, nodes }).unwrap();
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

/// A network on which somebody injects a frame before all others, with a valid checksum and the
/// number of the first of them.
struct Forged(Udp, Option<Vec<u8>>);

impl Transport for Forged {
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

/// A frame from rank 0 to rank 1 that is too short for a piece of a message.
fn forged() -> Vec<u8> {
    let link = Link {
        gang: 0,
        epoch: 1,
        source: 0,
        destination: 1,
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
    let mut frames = vec![None, Some(forged())].into_iter();
    let all = site::udp(2).into_iter();
    let transports = all.map(|udp| Forged(udp, frames.next().unwrap()));
    let site = Site::new(transports.collect(), Policy::Resident, 1);
    site.admit(0, &[0, 1]);
    site.start(0);
    // The forged frame arrives before the first of the others is sent.
    let begin = Instant::now();
    while site.devices[1].counts().received == 0 {
        assert!(begin.elapsed() < LIMIT, "it never came");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut ranks = attach(&site, 0);
    for byte in [1, 2] {
        send(&mut ranks[0], byte);
    }
    assert_eq!(receive(&mut ranks[1]), [2; 10]);
}

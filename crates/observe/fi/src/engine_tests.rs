//! Engines on a device of this process.

use super::*;
use crate::abi::{Fid, FidAv, FidCntr, FidCq, FidDomain};
use crate::domain::Domain;
use crate::done::{Context, Receive};
use crate::envelope::{Envelope, Want};
use crate::room::Room;
use crate::{av, cntr, cq, domain_ops, object};
use idlewave_fabric::netctx::device::{At, Attachment, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Device, Memory};
use std::ptr::null_mut;
use std::time::Duration;

/// A device with a gang of two ranks, both of them here.
pub struct Site {
    _device: Device<Memory>,
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

pub const GANG: u32 = 3;

impl Site {
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let setup = Setup::new(directory.path().join("device"));
        let device = Device::new(&setup, Memory::all(1).remove(0)).unwrap();
        let (gang, nodes) = (GANG, vec![0; 2]);
        device.admit(&Gang { gang, nodes }).unwrap();
        device.switch(GANG, Duration::from_secs(60)).unwrap();
        device.resume(1).unwrap();
        Self {
            path: device.path().to_owned(),
            _device: device,
            _directory: directory,
        }
    }

    pub fn port(&self, rank: u32) -> RankPort {
        let attachment = Attachment {
            at: At::Device {
                path: self.path.clone(),
                gang: GANG,
            },
            rank,
            size: 2,
            idle: Idle::Yield,
        };
        attachment.attach_port().unwrap()
    }

    pub fn endpoint(&self, rank: u32) -> Endpoint {
        let port = self.port(rank);
        let matching = Matching::new(port.size());
        Endpoint::new((port, matching), true, (0, 0))
    }
}

/// Sends a message of a byte with tag 1.
fn send(from: &mut RankPort, matching: &mut Matching, to: u32) {
    let envelope = Envelope {
        tag: Some(1),
        data: None,
        length: 1,
    };
    let put = |rings: &mut _| matching.inject(rings, to, envelope, &[7]);
    assert_eq!(from.reach(put), (true, true));
}

#[test]
fn an_engine_that_has_failed_takes_nothing_more_from_the_rings() {
    let site = Site::new();
    let mut other = (site.port(1), Matching::new(2));
    let mut engine = Engine {
        endpoint: Some(site.endpoint(0)),
        queues: vec![Some(Queue::default())],
        ..Engine::default()
    };
    let early = |engine: &Engine| engine.endpoint.as_ref().unwrap().matching.early_bytes();
    send(&mut other.0, &mut other.1, 0);
    engine.progress();
    let held = early(&engine);
    assert!(held > 0);
    let endpoint = engine.endpoint.as_mut().unwrap();
    endpoint.receive.queue = Some(0);
    endpoint.matching.receive(Receive {
        want: Want {
            from: None,
            tag: Some((2, 0)),
        },
        room: Room::default(),
        context: Context(null_mut()),
        reports: true,
    });
    send(&mut other.0, &mut other.1, 0);
    // As `fail` does, but the gang goes on: what is in the rings could be taken.
    engine.failed = Some(code::ENETDOWN);
    endpoint.matching.fail(code::ENETDOWN);
    engine.progress();
    assert_eq!(early(&engine), held);
    // What had been asked for ends with an error.
    assert_eq!(engine.queues[0].as_ref().unwrap().errors.len(), 1);
}

/// A domain with a completion queue, a counter and an address vector, each its first.
struct Objects {
    domain: *mut FidDomain,
    queue: *mut FidCq,
    counter: *mut FidCntr,
    vector: *mut FidAv,
    shared: Shared,
}

impl Objects {
    fn new() -> Self {
        let (mut domain, mut queue) = (null_mut(), null_mut());
        let (mut counter, mut vector) = (null_mut(), null_mut());
        // SAFETY: places for them; the domain is open.
        unsafe {
            assert_eq!(domain_ops::open(&mut domain, null_mut()), 0);
            assert_eq!(cq::open(domain, null_mut(), &mut queue, null_mut()), 0);
            assert_eq!(cntr::open(domain, null_mut(), &mut counter, null_mut()), 0);
            assert_eq!(av::open(domain, null_mut(), &mut vector, null_mut()), 0);
            let found = object::of::<Domain, _>(domain).unwrap();
            Self {
                domain,
                queue,
                counter,
                vector,
                shared: found.shared.clone(),
            }
        }
    }

    /// Opens an endpoint that reports to all of them.
    fn endpoint(&self, site: &Site) {
        let mut endpoint = site.endpoint(0);
        endpoint.send.queue = Some(0);
        endpoint.receive.counter = Some(0);
        endpoint.av = Some(0);
        lock(&self.shared).endpoint = Some(endpoint);
    }

    fn close<F>(object: *mut F) -> isize {
        let fid: *mut Fid = object.cast();
        // SAFETY: an open object.
        unsafe { ((*(*fid).ops).close)(fid) as isize }
    }

    fn close_all(&self) -> [isize; 3] {
        [
            Self::close(self.queue),
            Self::close(self.counter),
            Self::close(self.vector),
        ]
    }
}

#[test]
fn what_an_endpoint_reports_to_is_not_closed_before_it() {
    let (site, objects) = (Site::new(), Objects::new());
    objects.endpoint(&site);
    assert_eq!(objects.close_all(), [-code::EBUSY; 3]);
    let mut other = null_mut();
    // SAFETY: the domain is open.
    let opened = unsafe { cq::open(objects.domain, null_mut(), &mut other, null_mut()) };
    assert_eq!((opened, Objects::close(other)), (0, 0));
    assert_eq!(Objects::close(objects.domain), -code::EBUSY);
    lock(&objects.shared).endpoint = None;
    assert_eq!(objects.close_all(), [0; 3]);
    assert_eq!(Objects::close(objects.domain), 0);
}

#[test]
fn an_address_that_is_inserted_before_the_endpoint_is_open_is_checked_when_it_is_used() {
    let (site, objects) = (Site::new(), Objects::new());
    let addresses =
        [(GANG, 1), (GANG + 1, 0), (GANG, 2)].map(|(gang, rank)| Address { gang, rank });
    let insert = || {
        let bytes = addresses.map(Address::bytes);
        let mut places = [7; 3];
        // SAFETY: three addresses, and places for as many numbers.
        let inserted = unsafe {
            let insert = (*(*objects.vector).ops).insert;
            let (from, to) = (bytes.as_ptr().cast(), places.as_mut_ptr());
            insert(objects.vector, from, 3, to, 0, null_mut())
        };
        (inserted, places)
    };
    assert_eq!(insert(), (3, [0, 1, 2]));
    let (mut found, mut length) = ([0; Address::BYTES], Address::BYTES);
    // SAFETY: a place of that length.
    let looked = unsafe {
        let lookup = (*(*objects.vector).ops).lookup;
        lookup(objects.vector, 1, found.as_mut_ptr().cast(), &mut length)
    };
    assert_eq!((looked, Address::read(found)), (0, Some(addresses[1])));
    objects.endpoint(&site);
    let engine = lock(&objects.shared);
    let ranks = [0, 1, 2, 3].map(|address| engine.rank_of(address));
    assert_eq!(ranks, [Some(1), None, None, None]);
    assert_eq!([1, 0].map(|rank| engine.address_of(rank)), [0, NO_ADDRESS]);
    drop(engine);
    assert_eq!(insert(), (1, [3, NO_ADDRESS, NO_ADDRESS]));
}

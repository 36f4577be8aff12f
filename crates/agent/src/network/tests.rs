//! Devices driven by hand, with ranks in this process.

use super::*;
use crate::contexts::{Copying, Placed};
use crate::marked::Marked;
use crate::parcel::Mark;
use idlewave_fabric::netctx::NetctxFabric;
use idlewave_fabric::netctx::device::{At, Attachment, Idle};
use idlewave_fabric::{Fabric, Tag};
use idlewave_freeze::Uid;
use idlewave_units::{Pid, Rank};
use std::net::Ipv4Addr;

const HERE: NodeId = NodeId::new(0);

fn network() -> Network {
    Network::new(HERE, Ipv4Addr::LOCALHOST.into())
}

/// A gang of ranks on node 0, whose mark is of this test alone.
fn spec(test: &str, gang: u32, row: u32) -> Spec {
    Spec {
        gang,
        user: crate::own_user(),
        mark: Mark::Token(format!("{test}.{}.{gang}", std::process::id())),
        rows: vec![row],
        end: false,
    }
}

fn contexts(gangs: &[Spec], ranks: usize) -> (Vec<ContextSpec>, Vec<DeviceSpec>) {
    let placed = Placed {
        device: 3,
        nodes: vec![0; ranks],
    };
    let device = DeviceSpec {
        device: 3,
        user: crate::own_user(),
        bytes: 64 << 10,
        places: 2,
        ranks: 2,
        copying: Copying::All,
        at: Vec::new(),
    };
    let context = |spec: &Spec| ContextSpec {
        gang: spec.gang,
        placed: Some(placed.clone()),
    };
    (gangs.iter().map(context).collect(), vec![device])
}

fn attach(spec: &Spec, rank: u32, size: u32) -> NetctxFabric {
    let at = At::Ticket(ticket_of(&spec.mark).unwrap());
    let idle = Idle::Sleep;
    let attachment = Attachment {
        at,
        rank,
        size,
        idle,
    };
    attachment.attach().unwrap()
}

fn row(row: u32) -> Slot {
    Slot::Gang(GangId::new(row))
}

#[test]
fn a_row_has_the_network_from_its_resume_to_the_next_stop() {
    let gangs = [spec("row", 1, 7), spec("row", 2, 8)];
    let mut network = network();
    let (contexts, devices) = contexts(&gangs, 1);
    network.set(&gangs, &contexts, &devices);
    assert_eq!(network.seen().iter().map(|s| s.attached).sum::<u32>(), 0);
    let mut ranks = [attach(&gangs[0], 0, 1), attach(&gangs[1], 0, 1)];
    assert!(network.seen().iter().all(|seen| seen.attached == 1));
    let own = Rank::new(0);
    // A message to itself goes out while the row has the network.
    let mut sends = |network: &Network| {
        let mut sent = Vec::new();
        for rank in &mut ranks {
            let sending = rank.start_send(own, Tag(1), vec![1]).unwrap();
            sent.push(rank.is_sent(&sending).unwrap());
        }
        (sent, network.drain().unwrap())
    };
    assert_eq!(sends(&network).0, [false, false]);
    let mut epoch = 0;
    for (to, runs) in [(7, [true, false]), (8, [false, true]), (8, [false, true])] {
        network.stop();
        let counts = network.drain().unwrap();
        assert_eq!(counts.sent, counts.received);
        network.check_drained().unwrap();
        epoch += 1;
        network.switch(row(to), Epoch::new(epoch)).unwrap();
        network.resume(row(to), Epoch::new(epoch));
        assert_eq!(network.trouble(), None);
        assert_eq!(sends(&network).0, runs, "row {to}");
    }
    // Given up: who had it goes on, and everything may run then.
    network.stop();
    assert_eq!(sends(&network).0, [false, false]);
    assert!(sends(&network).1.sent > 0, "what was stopped is counted");
    network.resume(Slot::All, Epoch::new(9));
    assert_eq!(sends(&network).0, [false, true]);
    // A gang that is in no row that runs is kept out before it is frozen.
    network.resume(row(8), Epoch::new(10));
    let mut moved = gangs.clone();
    moved[1].rows = vec![9];
    network.prepare(&moved);
    assert_eq!(sends(&network).0, [false, false]);
}

#[test]
fn ranks_of_a_gang_that_is_gone_fail_and_its_device_goes_with_the_last_one() {
    let gangs = [spec("gone", 1, 7), spec("gone", 2, 8)];
    let mut network = network();
    let (contexts, devices) = contexts(&gangs, 1);
    network.set(&gangs, &contexts, &devices);
    let ticket = |spec: &Spec| ticket_of(&spec.mark).unwrap();
    let mut first = attach(&gangs[0], 0, 1);
    network.switch(row(7), Epoch::new(1)).unwrap();
    network.resume(row(7), Epoch::new(1));
    let sending = first.start_send(Rank::new(0), Tag(1), vec![1]).unwrap();
    assert!(first.is_sent(&sending).is_ok());
    let device = network.devices[&3].device.path().to_owned();
    network.set(&gangs[1..], &contexts[1..], &devices);
    assert!(first.is_sent(&sending).is_err());
    assert!(!ticket(&gangs[0]).exists() && ticket(&gangs[1]).exists());
    assert!(device.exists());
    // Its place is free for others.
    network.set(&gangs, &contexts, &devices);
    let again = attach(&gangs[0], 0, 1);
    assert!(!network.seen()[0].failed);
    drop(network);
    assert!(gangs.iter().all(|spec| !ticket(spec).exists()) && !device.exists());
    drop(again);
}

#[test]
fn a_rank_that_ended_before_it_was_attached_is_missed() {
    let gangs = [spec("lost", 1, 7)];
    let mut network = network();
    let marked = |rank: u32| Marked {
        pid: Pid::new(1_000 + rank),
        start: 0,
        launcher: false,
        rank: Some(rank),
        size: Some(2),
        user: Uid::own(),
        step: None,
        tracked: false,
    };
    let found = |ranks: &[u32]| {
        let of = ranks.iter().map(|rank| marked(*rank)).collect();
        Found::from([(GangId::new(1), of)])
    };
    let (mut contexts, devices) = contexts(&gangs, 2);
    let placed = contexts[0].placed.take();
    network.set(&gangs, &contexts, &devices);
    assert!(network.sighted(&found(&[0, 1])), "that is news");
    let seen = network.seen().remove(0);
    assert_eq!(
        (seen.ranks, seen.size, seen.failed),
        (vec![0, 1], Some(2), false)
    );
    contexts[0].placed = placed;
    network.set(&gangs, &contexts, &devices);
    let _first = attach(&gangs[0], 0, 2);
    network.sighted(&found(&[0, 1]));
    assert!(!network.seen()[0].failed);
    network.sighted(&found(&[0]));
    assert!(network.seen()[0].failed);
}

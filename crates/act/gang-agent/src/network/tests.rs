//! Devices driven directly, with ranks in this process.

use super::*;
use crate::contexts::{Copying, Placed};
use crate::marked::Marked;
use crate::parcel::Mark;
use idlewave_fabric::netctx::NetctxFabric;
use idlewave_fabric::netctx::device::{At, Attachment, Idle};
use idlewave_fabric::{Fabric, FabricError, PointToPoint, Tag};
use idlewave_sys::Uid;
use idlewave_units::{Pid, Rank};
use std::net::Ipv4Addr;
use std::time::Duration;

const HERE: NodeId = NodeId::new(0);

fn network() -> Network {
    Network::new(HERE, Ipv4Addr::LOCALHOST.into())
}

/// A gang of ranks on node 0, whose mark belongs to this test only.
fn spec(test: &str, gang: u32, row: u32) -> Spec {
    Spec {
        gang,
        user: Uid::own().get(),
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
        user: Uid::own().get(),
        bytes: 64 << 10,
        places: 2,
        ranks: 2,
        copying: Copying::All,
        key: None,
        at: Vec::new(),
    };
    let context = |spec: &Spec| ContextSpec {
        gang: spec.gang,
        placed: Some(placed.clone()),
        lost: false,
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
    // A message to itself is sent while the row has the network.
    let mut sends = |network: &mut Network| {
        let mut sent = Vec::new();
        for rank in &mut ranks {
            let sending = rank.start_send(own, Tag(1), vec![1]).unwrap();
            sent.push(rank.is_sent(&sending).unwrap());
        }
        (sent, network.drain().unwrap())
    };
    assert_eq!(sends(&mut network).0, [false, false]);
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
        assert_eq!(sends(&mut network).0, runs, "row {to}");
    }
    // After an abandoned switch everything may run, so the previous gang continues.
    network.stop();
    assert_eq!(sends(&mut network).0, [false, false]);
    assert!(
        sends(&mut network).1.sent > 0,
        "what was stopped is counted"
    );
    network.resume(Slot::All, Epoch::new(9));
    assert_eq!(sends(&mut network).0, [false, true]);
    // A gang outside the running row is kept out before it is frozen.
    network.resume(row(8), Epoch::new(10));
    let mut moved = gangs.clone();
    moved[1].rows = vec![9];
    network.prepare(&moved);
    assert_eq!(sends(&mut network).0, [false, false]);
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
fn ranks_of_a_gang_that_lost_its_network_elsewhere_fail_also_those_that_come_later() {
    let gangs = [spec("lost", 1, 7)];
    let mut network = network();
    let (mut contexts, devices) = contexts(&gangs, 2);
    network.set(&gangs, &contexts, &devices);
    let mut first = attach(&gangs[0], 0, 2);
    assert!(!network.seen()[0].failed);
    contexts[0].lost = true;
    network.set(&gangs, &contexts, &devices);
    let mut second = attach(&gangs[0], 1, 2);
    for rank in [&mut first, &mut second] {
        assert_eq!(rank.barrier(&mut || ()), Err(FabricError::PeerFailed));
    }
    // It takes its turns until its ranks have ended.
    network.switch(row(7), Epoch::new(2)).unwrap();
    assert!(network.seen()[0].failed && network.drain().is_ok());
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

/// The device of [`contexts`], for gangs with rank 1 on node 1, whose frames come from `at`.
fn over_nodes(gang: &Spec, key: u8, at: SocketAddr) -> (Vec<ContextSpec>, Vec<DeviceSpec>) {
    let (mut contexts, mut devices) = contexts(std::slice::from_ref(gang), 2);
    for context in &mut contexts {
        context.placed.as_mut().unwrap().nodes = vec![0, 1];
    }
    devices[0].key = Some(DeviceKey::new([key; 32]));
    devices[0].at = vec![(NodeId::new(1), at)];
    (contexts, devices)
}

#[test]
fn a_device_listens_only_if_a_gang_of_it_is_on_several_nodes() {
    let gang = spec("listens", 1, 7);
    let (contexts, devices) = contexts(std::slice::from_ref(&gang), 2);
    let mut network = network();
    network.set(std::slice::from_ref(&gang), &contexts, &devices);
    assert_eq!((network.devices.len(), network.addresses()), (1, vec![]));
    let mut ranks = [0, 1].map(|rank| attach(&gang, rank, 2));
    network.switch(row(7), Epoch::new(1)).unwrap();
    network.resume(row(7), Epoch::new(1));
    let sending = ranks[0].start_send(Rank::new(1), Tag(1), vec![1]).unwrap();
    assert!(ranks[0].is_sent(&sending).unwrap(), "they need no network");

    let gang = spec("listens", 2, 7);
    let at = "127.0.0.1:9".parse().unwrap();
    let (contexts, devices) = over_nodes(&gang, 1, at);
    let mut network = Network::new(HERE, Ipv4Addr::LOCALHOST.into());
    network.set(std::slice::from_ref(&gang), &contexts, &devices);
    let addresses = network.addresses();
    assert_eq!(addresses.len(), 1);
    let taken = UdpSocket::bind(addresses[0].1);
    assert!(taken.is_err(), "it listens there");
}

#[test]
fn a_device_takes_nothing_from_the_address_of_a_node_that_has_not_its_key() {
    let gang = spec("forged", 1, 7);
    let node = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (contexts, devices) = over_nodes(&gang, 1, node.local_addr().unwrap());
    let mut network = network();
    network.set(std::slice::from_ref(&gang), &contexts, &devices);
    let (_, at) = network.addresses()[0];
    let mut rank = attach(&gang, 0, 2);
    network.switch(row(7), Epoch::new(5)).unwrap();
    network.resume(row(7), Epoch::new(5));
    let header = idlewave_fabric::netctx::Header {
        kind: idlewave_fabric::netctx::Kind::Fail,
        link: idlewave_fabric::netctx::Link {
            gang: 1,
            ..Default::default()
        },
        sequence: 0,
        limit: 0,
    };
    let mut failure = Vec::new();
    header.encode(&[], &mut failure);
    let tagged = |key: u8| {
        let tag = DeviceKey::new([key; 32]).coder().tag(&failure);
        [&failure[..], &tag].concat()
    };
    let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    stranger.send_to(&tagged(1), at).unwrap();
    for frame in [&failure, &tagged(2), &vec![], &vec![0; 1_472]] {
        node.send_to(frame, at).unwrap();
    }
    let await_it = |what: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    await_it(&|| network.forged() == 4);
    assert!(!network.seen()[0].failed);
    let receiving = rank.start_receive(None, Tag(1), 1, vec![0]).unwrap();
    assert_eq!(rank.is_received(&receiving), Ok(false));
    // The same frame with the right key is accepted: it would have done harm.
    node.send_to(&tagged(1), at).unwrap();
    await_it(&|| network.seen()[0].failed);
    assert_eq!(network.forged(), 4);
    // This includes removed devices.
    network.set(&[], &[], &[]);
    assert_eq!(network.forged(), 4);
}

#[test]
fn a_device_of_an_earlier_controller_is_not_taken_for_one_with_its_number() {
    let gang = spec("number", 1, 7);
    let node = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = node.local_addr().unwrap();
    let mut network = network();
    let set = |network: &mut Network, key: u8| {
        let (contexts, devices) = over_nodes(&gang, key, at);
        network.set(std::slice::from_ref(&gang), &contexts, &devices);
    };
    set(&mut network, 1);
    let mut old = attach(&gang, 0, 2);
    set(&mut network, 1);
    assert_eq!(
        network.seen()[0].attached,
        1,
        "the same key, the same device"
    );
    set(&mut network, 2);
    assert_eq!(
        (network.seen()[0].attached, network.seen()[0].failed),
        (0, false)
    );
    let receiving = old.start_receive(None, Tag(1), 1, vec![0]);
    let waits = receiving.and_then(|r| old.finish_receive(r, &mut || ()));
    assert_eq!(waits.err(), Some(idlewave_fabric::FabricError::NetworkGone));
    let spec = network.devices[&3].spec.key.clone();
    assert_eq!(spec, Some(DeviceKey::new([2; 32])));
    let _new = attach(&gang, 0, 2);
    assert_eq!(network.seen()[0].attached, 1);
}

/// Gangs of which the one in row 7 runs, and is not waited for when a rank stays in its device.
fn impatient(gangs: &[Spec]) -> Network {
    let mut network = network();
    network.stuck.patience = Duration::ZERO;
    let (contexts, devices) = contexts(gangs, 1);
    network.set(gangs, &contexts, &devices);
    network.switch(row(7), Epoch::new(1)).unwrap();
    network.resume(row(7), Epoch::new(1));
    network
}

/// Writes whether the ranks of this process, `ranks` in number, are inside their device.
fn scribbler(network: &Network, ranks: usize) -> impl Fn(u8) + use<> {
    use std::os::unix::fs::FileExt;
    let path = network.devices[&3].device.path().to_owned();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // A rank's words: its process is the first, and whether it is inside is 128 bytes further on.
    let pid = std::process::id().to_le_bytes();
    let bytes = std::fs::read(&path).unwrap();
    let seats = bytes.chunks_exact(4).enumerate();
    let seats = seats.filter(|(_, word)| *word == pid);
    let seats: Vec<u64> = seats.map(|(at, _)| 4 * at as u64).collect();
    assert_eq!(seats.len(), ranks);
    move |inside| {
        for seat in &seats {
            file.write_all_at(&[inside], seat + 128).unwrap();
        }
    }
}

/// As on a machine that others use fully: at every switch the rank is preempted inside. Between them
/// it is seen outside, or inside again, as a rank that polls mostly is.
#[test]
fn a_rank_that_leaves_its_device_between_switches_has_more_time() {
    for enters_again in [false, true] {
        let gangs = [spec("preempted", 1, 7)];
        let mut network = impatient(&gangs);
        network.stuck.longest = Duration::from_secs(3_600);
        let _rank = attach(&gangs[0], 0, 1);
        let inside = scribbler(&network, 1);
        let mut epoch = 1;
        let mut drains = |network: &mut Network| {
            network.stop();
            inside(epoch);
            let drained = network.drain().and_then(|_| network.check_drained());
            epoch += 1;
            inside(if enters_again { epoch } else { 0 });
            network.resume(row(7), Epoch::new(epoch.into()));
            drained.is_ok()
        };
        for _ in 0..5 {
            assert!(!drains(&mut network));
            assert_eq!(network.trouble(), None, "{enters_again}");
        }
        network.stuck.longest = Duration::ZERO;
        drains(&mut network);
        assert!(network.trouble().is_some());
    }
}

#[test]
fn a_user_who_damages_a_device_loses_the_gang_and_holds_nobody_up() {
    let gangs = [spec("damage", 1, 7), spec("damage", 2, 8)];
    let mut network = impatient(&gangs);
    let _ranks = [attach(&gangs[0], 0, 1), attach(&gangs[1], 0, 1)];
    let inside = scribbler(&network, 2);
    let mut epoch = 1;
    let mut attempts = |network: &mut Network, to: u32| {
        for attempt in 1..10 {
            network.stop();
            inside(1);
            let drained = network.drain().and_then(|_| network.check_drained());
            inside(1);
            epoch += 1;
            if drained.is_ok() {
                network.switch(row(to), Epoch::new(epoch)).unwrap();
                network.resume(row(to), Epoch::new(epoch));
                return attempt;
            }
            network.resume(row(15 - to), Epoch::new(epoch));
        }
        panic!("others wait for ever");
    };
    assert_eq!(attempts(&mut network, 8), 3);
    let trouble = network.trouble().unwrap();
    assert!(trouble.contains("rank 0 of gang 1 of user"), "{trouble}");
    assert!(
        trouble.ends_with("the gang has failed, others continue"),
        "{trouble}"
    );
    // That user gets no other device for a while; the existing one continues.
    let third = [gangs[1].clone(), spec("damage", 3, 9)];
    let (context, device) = self::contexts(&third, 1);
    network.set(&third, &context, &device);
    let seen = network.seen();
    let third = seen.iter().find(|seen| seen.gang == 3).unwrap();
    let trouble = third.trouble.as_deref().unwrap();
    assert!(trouble.contains("gets no device for a minute"), "{trouble}");
}

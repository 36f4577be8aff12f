//! Which gangs with contexts share what, and when they are switched.

use super::tests::{HERE, SETTLE, desk_of, job, ms, seen};
use super::*;
use crate::contexts::{ContextSeen, DeviceKey, Waiting, What};
use crate::control::Observation;

fn context_job(token: &str, bytes: u64) -> Job {
    Job {
        contexts: Some(bytes),
        ..job(token)
    }
}

fn context_seen(gang: GangId, ranks: &[u32], size: u32, attached: u32) -> ContextSeen {
    ContextSeen {
        gang: gang.get(),
        ranks: ranks.to_vec(),
        size: Some(size),
        attached,
        ..ContextSeen::default()
    }
}

#[test]
fn a_gang_with_contexts_is_placed_when_all_ranks_have_come_and_switched_when_all_are_attached() {
    let mut desk = desk_of(&[2, 4], 4);
    let (here, there) = (NodeId::new(0), NodeId::new(1));
    let gang = desk.submit(context_job("a", 1 << 20), ms(0)).unwrap();
    desk.sight(here, 1, vec![seen(gang, 1, Some(2), SETTLE)]);
    desk.sight(there, 1, vec![seen(gang, 1, Some(2), SETTLE)]);
    desk.sight_contexts(here, vec![context_seen(gang, &[1], 2, 0)], &[]);
    assert_eq!(desk.context_specs()[0].placed, None);
    let before = desk.version();
    desk.sight_contexts(there, vec![context_seen(gang, &[0], 2, 0)], &[]);
    assert_eq!(desk.context_specs()[0].placed, None, "there is no key yet");
    assert!(desk.wants_key() && desk.version() == before);
    desk.take_key(DeviceKey::new([7; 32]));
    desk.sight_contexts(there, vec![context_seen(gang, &[0], 2, 0)], &[]);
    let placed = desk.context_specs()[0].placed.clone().unwrap();
    assert_eq!(placed.nodes, [1, 0]);
    assert!(desk.version() > before);
    let at = "127.0.0.1:9".parse().unwrap();
    desk.sight_contexts(here, Vec::new(), &[(placed.device, at)]);
    assert_eq!(desk.devices()[0].at, [(here, at)]);
    // Its ranks are not attached, however long they have existed.
    for now in 0..3 {
        desk.advance(ms(now));
    }
    assert_eq!(desk.gangs(ms(3))[0].row, None);
    desk.sight_contexts(here, vec![context_seen(gang, &[1], 2, 1)], &[]);
    desk.sight_contexts(there, vec![context_seen(gang, &[0], 2, 1)], &[]);
    desk.advance(ms(4));
    let row = desk.gangs(ms(4))[0].row.expect("it is switched");
    let slot = Slot::Gang(GangId::new(row));
    assert_eq!(desk.contexts_of(slot), [gang]);
    // No other gang is in its row on its nodes.
    let cells = |node| {
        (0..4)
            .filter_map(|i| desk.matrix().cell(RowId::new(row), node, i))
            .count()
    };
    assert_eq!((cells(here), cells(there)), (2, 4));
    // All others run while the service is drained; those with contexts take turns.
    desk.drain(true);
    assert!(!desk.lets_all_run());
    desk.over(gang);
    assert!(desk.lets_all_run() && desk.devices().is_empty());
}

#[test]
fn gangs_of_the_same_shape_share_a_device_as_long_as_it_has_room() {
    let mut desk = desk_of(&[2], 8);
    let mut device_of = |token: &str, bytes, size: u32| {
        let gang = desk.submit(context_job(token, bytes), ms(0)).unwrap();
        let ranks: Vec<u32> = (0..size).collect();
        desk.sight_contexts(HERE, vec![context_seen(gang, &ranks, size, 0)], &[]);
        let specs = desk.context_specs();
        let own = specs.iter().find(|s| s.gang == gang.get()).unwrap();
        own.placed.as_ref().map(|placed| placed.device)
    };
    let mut found = Vec::new();
    for (token, bytes, size) in [
        ("a", 1 << 20, 2),
        ("b", 1 << 20, 2),
        ("c", 2 << 20, 2),
        ("d", 1 << 20, 3),
        ("e", 1 << 20, 2),
        ("f", 1 << 20, 2),
        ("g", 1 << 20, 2),
        ("h", 1 << 20, 257),
    ] {
        found.push(device_of(token, bytes, size));
    }
    let wanted = [0, 0, 1, 2, 0, 0, 3].map(Some);
    assert_eq!(found[..7], wanted);
    assert_eq!(found[7], None, "more ranks than there may be");
    let ninth = desk.submit(context_job("i", 1 << 20), ms(0));
    assert!(matches!(ninth, Err(DeskError::Contexts(_))), "{ninth:?}");
    let mut desk = desk_of(&[2], 8);
    for (token, bytes) in [("a", 1 << 10), ("a", 17 << 20), ("../a", 1 << 20)] {
        let refused = desk.submit(context_job(token, bytes), ms(0));
        assert!(
            matches!(refused, Err(DeskError::Contexts(_))),
            "{token} {bytes}"
        );
    }
}

#[test]
fn ranks_that_waited_for_each_other_at_one_switch_are_deadlocked() {
    let mut desk = desk_of(&[2, 2], 4);
    let there = NodeId::new(1);
    desk.take_key(DeviceKey::new([7; 32]));
    let gang = desk.submit(context_job("a", 1 << 20), ms(0)).unwrap();
    desk.sight_contexts(HERE, vec![context_seen(gang, &[0, 1], 3, 2)], &[]);
    desk.sight_contexts(there, vec![context_seen(gang, &[2], 3, 1)], &[]);
    let receive = |rank: u32, from: u32, since: u64| Waiting {
        rank,
        since,
        what: What::Receive {
            from: Some(from),
            tag: 7,
        },
    };
    let left = |rank: u32, since: u64| Waiting {
        rank,
        since,
        what: What::Left,
    };
    let mut look = |node: NodeId, looked: u64, waits: &[Waiting]| {
        let mut seen = match node == HERE {
            true => context_seen(gang, &[0, 1], 3, 2),
            false => context_seen(gang, &[2], 3, 1),
        };
        (seen.looked, seen.waits) = (Some(looked), waits.to_vec());
        desk.sight_contexts(node, vec![seen], &[]);
        let status = desk.gangs(ms(0)).remove(0);
        (status.observed, status.waits)
    };
    let dead = |ranks, all| {
        let polling = false;
        Some(Observation::Deadlocked {
            ranks,
            all,
            polling,
        })
    };
    // The other node has not reported.
    let two = [receive(0, 1, 5), receive(1, 0, 5)];
    assert_eq!(look(HERE, 5, &two).0, None);
    // The third rank computed then and may do anything, but it cannot wake these two.
    let (observed, lines) = look(there, 5, &[]);
    assert_eq!(observed, dead(2, false));
    assert_eq!(
        lines,
        [
            "rank 0 waits for a message from rank 1 (tag 7)",
            "rank 1 waits for a message from rank 0 (tag 7)"
        ]
    );
    // A cycle of three, but at the last switch that both nodes have reported, the third rank still
    // computed.
    let around = [receive(0, 1, 9), receive(1, 2, 9)];
    let progressing = Some(Observation::Progressing);
    assert_eq!(look(HERE, 9, &around).0, progressing);
    assert_eq!(look(there, 11, &[receive(2, 0, 10)]).0, progressing);
    assert_eq!(look(HERE, 10, &around).0, dead(3, true));
    // One waits for a rank that has left.
    let (observed, lines) = look(there, 11, &[left(2, 11)]);
    assert_eq!(
        (observed, lines.len()),
        (progressing, 0),
        "not yet at switch 10"
    );
    let (observed, lines) = look(HERE, 11, &around);
    assert_eq!(observed, dead(2, true));
    assert_eq!(lines.last().unwrap(), "which has ended");
    assert_eq!(
        look(HERE, 11, &[left(0, 11), left(1, 11)]).0,
        Some(Observation::Terminated)
    );
}

#[test]
fn a_deadlock_by_calls_counts_though_ranks_seem_to_compute_on_their_contexts() {
    let mut desk = desk_of(&[4], 8);
    let gang = desk.submit(context_job("calls", 1 << 20), ms(0)).unwrap();
    let seen = |desk: &mut Desk, looked| {
        let mut seen = context_seen(gang, &[0, 1], 2, 2);
        seen.looked = Some(looked);
        desk.sight_contexts(HERE, vec![seen], &[]);
        let status = desk.gangs(ms(0)).remove(0);
        (status.observed, status.waits.len())
    };
    let progressing = Some(Observation::Progressing);
    assert_eq!(seen(&mut desk, 5), (progressing, 0));
    let dead = Observation::Deadlocked {
        ranks: 2,
        all: true,
        polling: false,
    };
    desk.observed(gang, Some(true), dead);
    assert_eq!(seen(&mut desk, 6), (Some(dead), 0));
    desk.observed(gang, Some(true), Observation::Progressing);
    assert_eq!(seen(&mut desk, 7), (progressing, 0));
}

#[test]
fn only_devices_over_several_nodes_have_keys_and_each_has_its_own() {
    let mut desk = desk_of(&[4, 4], 8);
    let there = NodeId::new(1);
    let mut device_of = |token: &str, elsewhere: bool| {
        // Each gang has four ranks, three or four of them on this node.
        let gang = desk.submit(context_job(token, 1 << 20), ms(0)).unwrap();
        desk.take_key(DeviceKey::new([token.as_bytes()[0]; 32]));
        desk.sight_contexts(HERE, vec![context_seen(gang, &[0, 1, 2], 4, 0)], &[]);
        let last = if elsewhere { there } else { HERE };
        let ranks: &[u32] = if elsewhere { &[3] } else { &[0, 1, 2, 3] };
        desk.sight_contexts(last, vec![context_seen(gang, ranks, 4, 0)], &[]);
        let specs = desk.context_specs();
        let own = specs.iter().find(|s| s.gang == gang.get()).unwrap();
        let device = own.placed.as_ref().unwrap().device;
        let spec = desk.devices().into_iter().find(|d| d.device == device);
        (device, spec.unwrap().key, desk.wants_key())
    };
    let key = |token: u8| Some(DeviceKey::new([token; 32]));
    assert_eq!(device_of("a", false), (0, None, false));
    assert_eq!(device_of("b", true), (1, key(b'b'), true));
    assert_eq!(device_of("c", false), (0, None, false));
    assert_eq!(device_of("d", true), (1, key(b'b'), false));
    let rest = ["e", "f", "g"].map(|token| device_of(token, true));
    assert_eq!(rest[1], (1, key(b'b'), false));
    assert_eq!(rest[2], (2, key(b'g'), true), "the first one is full");
}

#[test]
fn a_gang_has_lost_its_network_when_a_node_has_another_device_or_is_not_heard_of() {
    let lost = |act: fn(&mut Desk, GangId)| {
        let mut desk = desk_of(&[2, 2], 4);
        desk.take_key(DeviceKey::new([7; 32]));
        let gang = desk.submit(context_job("a", 1 << 20), ms(0)).unwrap();
        let here = desk.submit(context_job("b", 1 << 20), ms(0)).unwrap();
        desk.sight_contexts(HERE, vec![context_seen(gang, &[0], 2, 1)], &[]);
        desk.sight_contexts(HERE, vec![context_seen(here, &[0], 1, 1)], &[]);
        let there = vec![context_seen(gang, &[1], 2, 0)];
        desk.sight_contexts(NodeId::new(1), there, &[]);
        let before = desk.version();
        act(&mut desk, gang);
        let lost: Vec<bool> = desk.context_specs().iter().map(|c| c.lost).collect();
        assert_eq!(lost[0], desk.version() > before, "agents are told");
        assert!(!lost[1], "it has no part of the other node");
        desk.advance(ms(1));
        let trouble = desk.gangs(ms(1)).remove(0).trouble.unwrap_or_default();
        assert_eq!(trouble.contains("node 1"), lost[0], "{trouble}");
        lost[0]
    };
    assert!(!lost(|desk, gang| {
        desk.sight_contexts(NodeId::new(1), vec![context_seen(gang, &[1], 2, 1)], &[]);
        // Ranks that end keep their seats.
        desk.sight_contexts(NodeId::new(1), vec![context_seen(gang, &[], 2, 1)], &[]);
    }));
    assert!(lost(|desk, gang| {
        desk.sight_contexts(NodeId::new(1), vec![context_seen(gang, &[1], 2, 1)], &[]);
        desk.sight_contexts(NodeId::new(1), vec![context_seen(gang, &[1], 2, 0)], &[]);
    }));
    assert!(lost(|desk, _| desk.lose_contexts(NodeId::new(1))));
    assert!(!lost(|desk, _| desk.lose_contexts(NodeId::new(2))));
}

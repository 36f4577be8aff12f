//! The fabric over a device keeps every promise between processes: with ranks on one node or
//! several, and gangs switched under them.
//!
//! Each rank is a process that runs this same executable with the test `a_rank_of_a_gang`.

#![allow(clippy::unwrap_used)]

#[path = "netctx_device/site.rs"]
mod site;

use idlewave_clock::monotonic_ns;
use idlewave_fabric::netctx::device::{Attachment, Gang, Setup};
use idlewave_fabric::netctx::{Device, Memory, Policy};
use idlewave_fabric::{Fabric, FabricError, PointToPoint, Tag, conformance};
use idlewave_stats::random::SplitMix;
use idlewave_sys::process::{Signal, send};
use idlewave_units::{NodeId, Pid, Rank};
use site::{CASE, LIMIT, Site, bad};
use std::time::Duration;

/// The body of every rank that the other tests start.
#[test]
fn a_rank_of_a_gang() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let attachment = Attachment::of_this_process().unwrap().unwrap();
    let mut fabric = attachment.attach().unwrap();
    match case.as_str() {
        "conform" => conformance::all(&mut fabric, monotonic_ns),
        "talk" => site::talk(&mut fabric),
        "hang" => {
            // Until this rank or another is killed.
            println!("\nthere");
            loop {
                if let Err(error) = fabric.barrier(&mut || ()) {
                    std::process::exit(match error {
                        FabricError::PeerFailed => 3,
                        FabricError::NetworkGone => 4,
                        other => panic!("{other}"),
                    });
                }
            }
        }
        "poll" => {
            // A program that does other work meanwhile tests again and again.
            println!("\nthere");
            let from = Some(Rank::new(0));
            let awaited = fabric.start_receive(from, Tag(0), 1, Vec::new()).unwrap();
            while fabric.is_received(&awaited) == Ok(false) {}
            let error = fabric.is_received(&awaited).unwrap_err();
            assert_eq!(error, FabricError::NetworkGone);
            std::process::exit(4);
        }
        "chat" => {
            // Ranks that hardly wait for each other could go on without the owner.
            println!("\nthere");
            let owner = std::env::var("IDLEWAVE_TEST_OWNER").unwrap();
            let (mut gone, mut rounds) = (false, 0_u32);
            while fabric.barrier(&mut || ()).is_ok() {
                gone = gone || !std::path::Path::new(&owner).exists();
                rounds += u32::from(gone);
                assert!(rounds < 200_000, "it is not seen that the owner is gone");
            }
            std::process::exit(4);
        }
        "nodes" => {
            let nodes = fabric.nodes().unwrap();
            assert_eq!(nodes.of_ranks(), [0, 1, 0, 1].map(NodeId::new));
        }
        other => panic!("no case {other}"),
    }
}

/// Checks the cases concurrently: ranks sleep most of the time.
fn side_by_side<C: Send>(cases: impl IntoIterator<Item = C>, check: impl Fn(C) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

#[test]
fn ranks_that_are_processes_of_one_node_conform() {
    side_by_side([1, 2, 3], |size| {
        let site = Site::new(Memory::all(1), Policy::Resident, 1);
        site.admit(0, &vec![0; size]);
        site.start(0);
        let mut ranks = site.ranks(0, "conform");
        site::end(&mut ranks);
        let counts = site.devices[0].counts();
        assert_eq!(counts.sent, counts.received);
        assert!(counts.sent > 100, "{counts:?}");
    });
}

#[test]
fn ranks_that_are_processes_of_several_nodes_conform() {
    side_by_side([&[0, 1][..], &[0, 1, 0], &[1, 0, 0, 1]], |nodes| {
        let site = Site::new(site::udp(2), Policy::Resident, 1);
        site.admit(0, nodes);
        site.start(0);
        site::end(&mut site.ranks(0, "conform"));
    });
}

#[test]
fn ranks_conform_over_a_bad_network() {
    let site = Site::new(bad(2), Policy::Resident, 1);
    site.admit(0, &[0, 1]);
    site.start(0);
    site::end(&mut site.ranks(0, "conform"));
    let traffic = site.devices[0].traffic();
    assert!(traffic.damaged > 0 && traffic.timeouts > 0, "{traffic:?}");
}

#[test]
fn two_gangs_of_processes_conform_while_they_are_switched_by_each_policy() {
    side_by_side(Policy::ALL, |policy| {
        let mut site = Site::new(site::udp(2), policy, 2);
        site.admit(0, &[0, 1, 1]);
        site.admit(1, &[1, 0]);
        site.start(0);
        let mut ranks = site.ranks(0, "conform");
        ranks.extend(site.ranks(1, "conform"));
        let mut switches = 0;
        while site::any_lives(&mut ranks) {
            switches += 1;
            site.switch(switches % 2);
            let slice = u64::from(switches * 7 % 11) * 500;
            std::thread::sleep(Duration::from_micros(slice));
        }
        site::end(&mut ranks);
        println!("{policy:?}: {switches} switches");
        assert!(switches > 10, "{switches}");
    });
}

#[test]
fn ranks_know_which_of_them_share_a_node() {
    let site = Site::new(site::udp(2), Policy::Resident, 1);
    site.admit(0, &[1, 0, 1, 0]);
    site.start(0);
    site::end(&mut site.ranks(0, "nodes"));
}

/// Random traffic of two gangs, switched at random moments, over a network that loses, duplicates,
/// reorders and damages frames.
fn talk_and_switch(nodes: u32, policy: Policy, seed: u64) -> (u32, Vec<String>) {
    let mut site = Site::new(bad(nodes), policy, 2);
    let mut random = SplitMix::new(seed);
    // Two ranks on the first node.
    let all: Vec<u32> = (0..nodes).chain([0]).collect();
    let gangs = [all.clone(), all.into_iter().rev().collect()];
    for (gang, nodes) in (0..).zip(&gangs) {
        site.admit(gang, nodes);
    }
    site.start(0);
    let mut ranks = site.ranks(0, "talk");
    ranks.extend(site.ranks(1, "talk"));
    let mut switches = 0;
    while site::any_lives(&mut ranks) {
        let to = random.below(2) as u32;
        site.switch(to);
        switches += 1;
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
    }
    (switches, site::end(&mut ranks))
}

#[test]
fn random_traffic_gives_what_it_gives_without_switches_by_each_policy() {
    let alone = |gang: u32, nodes: &[u32]| {
        let site = Site::new(site::udp(2), Policy::Resident, 2);
        site.admit(gang, nodes);
        site.start(gang);
        site::end(&mut site.ranks(gang, "talk"))
    };
    let expected = [alone(0, &[0, 1, 0]), alone(1, &[0, 1, 0])].concat();
    assert_eq!(expected.len(), 6);
    assert!(expected.iter().all(|said| said.starts_with("talked ")));
    side_by_side(Policy::ALL, |policy| {
        let (switches, said) = talk_and_switch(2, policy, 5);
        println!("{policy:?}: {switches} switches");
        assert_eq!(said, expected, "{policy:?}");
        assert!(switches > 20, "{switches}");
    });
    // More nodes, another order of ranks: only the ranks' own checks apply.
    let (switches, said) = talk_and_switch(4, Policy::Valid, 6);
    assert!(said.len() == 10 && switches > 20, "{switches} {said:?}");
}

#[test]
fn a_killed_rank_fails_its_gang_on_all_nodes_and_no_other() {
    for policy in Policy::ALL {
        let mut site = Site::new(site::udp(2), policy, 2);
        site.admit(0, &[0, 1, 0]);
        site.admit(1, &[1, 0]);
        site.start(0);
        let mut dying = site.ranks(0, "hang");
        let mut talking = site.ranks(1, "talk");
        for i in 0..20 {
            site.switch(i % 2);
            std::thread::sleep(Duration::from_millis(2));
        }
        // If it were killed before it attached, only its parent would notice.
        let own = Some(dying[1].child.id());
        while site.devices[1].processes(0).unwrap() != [own] {
            std::thread::sleep(Duration::from_millis(1));
        }
        dying[1].child.kill().unwrap();
        while site::any_lives(&mut talking) {
            site.switch(1);
            site.switch(0);
        }
        site::end(&mut talking);
        assert_eq!(dying[0].child.wait().unwrap().code(), Some(3));
        assert_eq!(dying[2].child.wait().unwrap().code(), Some(3));
        for device in &site.devices {
            assert!(device.has_failed(0).unwrap());
            assert!(!device.has_failed(1).unwrap());
        }
    }
}

/// Stops processes with a signal and waits until they have stopped, or lets them go on.
fn freeze(ranks: &mut [site::RankProcess], frozen: bool) {
    let lives = |rank: &mut site::RankProcess| rank.child.try_wait().unwrap().is_none();
    let left: Vec<_> = ranks
        .iter_mut()
        .filter_map(|r| lives(r).then_some(&r.child))
        .collect();
    for child in &left {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        // It has not been reaped yet, so its PID is still its own.
        send(Pid::new(child.id()), signal).unwrap();
    }
    let runs = |child: &&std::process::Child| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let state = stat.rsplit(") ").next().unwrap();
        !state.starts_with(['T', 'Z'])
    };
    while frozen && left.iter().any(runs) {
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn frozen_ranks_find_everything_as_they_left_it() {
    for policy in Policy::ALL {
        let site = Site::new(site::udp(2), policy, 2);
        let mut gangs = Vec::new();
        for gang in 0..2 {
            site.admit(gang, &[0, 1, 0]);
        }
        site.start(0);
        for gang in 0..2 {
            gangs.push(site.ranks(gang, "talk"));
        }
        freeze(&mut gangs[1], true);
        let (mut switches, mut given_up, mut running) = (0, 0, 0);
        let mut random = SplitMix::new(8);
        for epoch in 2.. {
            if !gangs.iter_mut().any(|ranks| site::any_lives(ranks)) {
                break;
            }
            for device in &site.devices {
                device.stop(running).unwrap();
            }
            for device in &site.devices {
                assert!(device.wait_drained(LIMIT).complete);
            }
            freeze(&mut gangs[running as usize], true);
            if site.devices.iter().all(|device| device.is_drained()) {
                running = 1 - running;
                switches += 1;
                for device in &site.devices {
                    device.switch(running, Duration::ZERO).unwrap();
                }
            } else {
                given_up += 1;
            }
            for device in &site.devices {
                device.resume(epoch).unwrap();
            }
            freeze(&mut gangs[running as usize], false);
            std::thread::sleep(Duration::from_micros(random.below(3_000)));
        }
        let said: Vec<_> = gangs.iter_mut().map(|ranks| site::end(ranks)).collect();
        println!("{policy:?}: {switches} switches, {given_up} given up");
        assert_eq!(said[0], said[1], "both say the same");
        assert!(switches > 10, "{switches}");
    }
}

#[test]
fn ranks_killed_at_random_moments_cost_their_own_gang_alone() {
    let mut site = Site::new(bad(3), Policy::Valid, 2);
    let mut random = SplitMix::new(11);
    site.admit(0, &[0, 1, 2, 0]);
    site.start(0);
    let mut talking = site.ranks(0, "talk");
    for gang in 1..9 {
        site.admit(gang, &[2, 1, 0]);
        let mut dying = site.ranks(gang, "hang");
        for _ in 0..random.below(8) {
            site.switch([0, gang][random.below(2) as usize]);
            std::thread::sleep(Duration::from_micros(random.below(4_000)));
        }
        let victim = random.below(3) as usize;
        // If it were killed before it attached, only its parent would notice.
        let own = Some(dying[victim].child.id());
        let node = [2, 1, 0][victim];
        while site.devices[node].processes(gang).unwrap() != [own] {
            std::thread::sleep(Duration::from_millis(1));
        }
        dying[victim].child.kill().unwrap();
        while site::any_lives(&mut dying) {
            site.switch(gang);
            std::thread::sleep(Duration::from_micros(random.below(4_000)));
            site.switch(0);
        }
        for (rank, process) in dying.iter_mut().enumerate() {
            let code = process.child.wait().unwrap().code();
            assert_eq!(code, (rank != victim).then_some(3), "rank {rank}");
        }
        while site.devices[0].active() != Some(0) {
            site.switch(0);
        }
        for device in &site.devices {
            device.dismiss(gang).unwrap();
        }
    }
    site::end(&mut talking);
    assert!(!site.devices[0].has_failed(0).unwrap());
}

#[test]
fn ranks_fail_when_the_owner_of_their_device_is_gone() {
    let site = Site::new(site::udp(2), Policy::Resident, 1);
    site.admit(0, &[0, 1]);
    site.start(0);
    let mut ranks = site.ranks(0, "hang");
    for rank in &mut ranks {
        there(rank);
    }
    std::thread::sleep(Duration::from_millis(50));
    drop(site);
    for mut rank in ranks {
        assert_eq!(rank.child.wait().unwrap().code(), Some(4));
    }
}

/// The body of the process that owns a device in the tests below.
#[test]
fn an_owner_that_is_killed() {
    let Ok(path) = std::env::var("IDLEWAVE_TEST_OWNER") else {
        return;
    };
    let device = Device::new(&Setup::new(path.into()), site::Nowhere).unwrap();
    for (gang, nodes) in [
        (0, vec![0, 0, 0, 1]),
        (1, vec![0, 0, 0, 1]),
        (2, vec![0, 0]),
    ] {
        device.admit(&Gang { gang, nodes }).unwrap();
    }
    let gang = std::env::var("IDLEWAVE_TEST_GANG").map_or(0, |gang| gang.parse().unwrap());
    device.switch(gang, LIMIT).unwrap();
    device.resume(1).unwrap();
    println!("\nthere");
    std::thread::sleep(LIMIT);
}

/// Starts the owner, and waits until this gang runs.
fn owner(path: &std::path::Path, gang: u32) -> site::RankProcess {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_owner_that_is_killed", "--nocapture"])
        .env("IDLEWAVE_TEST_OWNER", path)
        .env("IDLEWAVE_TEST_GANG", gang.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut owner = site::RankProcess { child };
    there(&mut owner);
    owner
}

/// Waits until a process says that it is there.
fn there(process: &mut site::RankProcess) {
    use std::io::BufRead;
    let pipe = std::io::BufReader::new(process.child.stdout.as_mut().unwrap());
    assert!(pipe.lines().any(|line| line.unwrap() == "there"));
}

#[test]
fn ranks_fail_when_the_owner_of_their_device_is_killed_however_they_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node");
    let mut owner = owner(&path, 0);
    // The last rank never attaches. The second gang waits for its turn.
    let ways = [
        (0, 0, "spin", "hang"),
        (0, 1, "sleep", "hang"),
        (0, 2, "spin", "poll"),
        (1, 0, "spin", "hang"),
        (1, 1, "spin", "poll"),
    ];
    let mut ranks = ways.map(|(gang, rank, idle, case)| {
        let text = format!("{},{gang},{rank},4,{idle}", path.display());
        let mut rank = site::spawn(&Attachment::parse(&text).unwrap(), case);
        there(&mut rank);
        rank
    });
    std::thread::sleep(Duration::from_millis(50));
    for rank in &mut ranks {
        assert_eq!(rank.child.try_wait().unwrap(), None, "it waits");
    }
    owner.child.kill().unwrap();
    for rank in &mut ranks {
        assert_eq!(rank.child.wait().unwrap().code(), Some(4));
    }
}

#[test]
fn ranks_that_hardly_wait_see_soon_that_the_owner_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node");
    let mut owner = owner(&path, 2);
    let process = format!("/proc/{}", owner.child.id());
    let mut ranks = [0, 1].map(|rank| {
        let text = format!("{},2,{rank},2,yield", path.display());
        let attachment = Attachment::parse(&text).unwrap();
        let mut rank = site::spawn_with(&attachment, "chat", &[("IDLEWAVE_TEST_OWNER", &process)]);
        there(&mut rank);
        rank
    });
    std::thread::sleep(Duration::from_millis(50));
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    for rank in &mut ranks {
        assert_eq!(rank.child.wait().unwrap().code(), Some(4));
    }
}

#[test]
fn a_rank_that_goes_astray_fails_its_gang_and_neither_the_owner_nor_another_gang() {
    use std::os::unix::fs::FileExt;
    let mut site = Site::new(site::udp(2), Policy::Resident, 2);
    site.admit(0, &[0, 1]);
    site.admit(1, &[0, 1]);
    site.start(0);
    // Regions come last, the second gang's after the first's.
    let device = site.devices[0].path().to_owned();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&device)
        .unwrap();
    let length = file.metadata().unwrap().len();
    let half = length / 2 + 8_192;
    let mut random = SplitMix::new(3);
    let noise: Vec<u8> = (half..length).map(|_| random.bits() as u8).collect();
    file.write_all_at(&noise, half).unwrap();
    let mut ranks = site.ranks(1, "hang");
    for i in 0..10 {
        site.switch((i + 1) % 2);
        std::thread::sleep(Duration::from_millis(5));
    }
    site.switch(1);
    for rank in &mut ranks {
        assert_eq!(rank.child.wait().unwrap().code(), Some(3));
    }
    site.switch(0);
    let mut ranks = site.ranks(0, "talk");
    site::end(&mut ranks);
    assert!(!site.devices[0].has_failed(0).unwrap());
}

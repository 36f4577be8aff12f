//! What happens when a gang is stopped while a rank is inside the device, or a rank dies there, and
//! other tests that need a device's internals.

use super::owner::Owner;
use super::rank::RankPort;
use super::shape::{Shape, Shared};
use super::{Attachment, Device, DeviceError, Gang, Setup, Within};
use crate::netctx::{Memory, Policy, Transport};
use crate::piece::Pieces;
use idlewave_units::Nanos;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

/// A node with two gangs of one rank each, of which the first runs.
fn node(directory: &tempfile::TempDir, policy: Policy) -> Device<Memory> {
    node_of(directory, policy, 64)
}

fn node_of(directory: &tempfile::TempDir, policy: Policy, places: u32) -> Device<Memory> {
    let setup = Setup {
        policy,
        places,
        ..Setup::new(directory.path().join("node"))
    };
    let device = Device::new(&setup, Memory::all(1).remove(0)).expect("a device");
    for gang in [3, 4] {
        let nodes = vec![0];
        device.admit(&Gang { gang, nodes }).expect("room");
    }
    device.switch(3, LIMIT).expect("a gang");
    device.resume(1).expect("an epoch");
    device
}

fn attachment(device: &Device<Memory>) -> Attachment {
    let text = format!("{},3,0,1", device.path().display());
    Attachment::parse(&text).expect("an attachment")
}

#[test]
fn nothing_is_switched_while_a_rank_is_within() {
    for policy in Policy::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let device = node(&directory, policy);
        let mut port = RankPort::new(&attachment(&device)).expect("a seat");
        let ((), ran) = port.reach(|_| {
            device.stop(3).expect("the gang");
            assert!(!device.wait_drained(LIMIT).complete);
            let refused = device.switch(4, LIMIT);
            let inside = matches!(refused, Err(DeviceError::Inside { gang: 3, rank: 0 }));
            assert!(inside, "{refused:?}");
            assert_eq!(device.active(), Some(3));
        });
        assert!(ran, "the gate was open when it entered");
        assert!(device.wait_drained(LONG).complete, "it has left");
        let ((), ran) = port.reach(|_| assert!(device.is_drained(), "it is kept out"));
        assert!(!ran, "the gate is closed");
        device.switch(4, LIMIT).expect("nobody is inside");
        device.resume(2).expect("an epoch");
        assert!(!port.reach(|_| ()).1, "another gang runs");
    }
}

#[test]
fn each_entry_of_a_rank_has_another_number() {
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Resident);
    let mut port = RankPort::new(&attachment(&device)).expect("a seat");
    let [first, second] = [(); 2].map(|()| {
        assert_eq!(device.within(), None);
        let (within, ran) = port.reach(|_| {
            let within = device.within().expect("it is inside");
            assert_eq!(device.within(), Some(within), "it has not left");
            within
        });
        assert!(ran, "the gate is open");
        within
    });
    assert_ne!(first, second);
    assert_eq!((first.rank, first.process), (0, std::process::id()));
}

/// The body of the process that the next test kills.
#[test]
fn a_rank_that_stays_within() {
    let Ok(Some(attachment)) = Attachment::of_this_process() else {
        return;
    };
    let mut port = RankPort::new(&attachment).expect("a seat");
    port.reach(|_| {
        println!("inside");
        std::thread::sleep(LONG);
    });
}

#[test]
fn a_rank_that_is_killed_within_fails_its_gang_and_keeps_nobody_out() {
    use std::io::BufRead;
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Whole);
    let name = "netctx::device::tests::a_rank_that_stays_within";
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env(Attachment::VARIABLE, attachment(&device).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let pipe = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let inside = |line: std::io::Result<String>| line.is_ok_and(|l| l.ends_with("inside"));
    assert!(pipe.lines().any(inside), "it has entered");
    device.stop(3).expect("the gang");
    assert!(!device.wait_drained(LIMIT).complete, "it lives");
    child.kill().expect("it lives");
    // Not reaped on purpose: a zombie is just as dead.
    let begin = Instant::now();
    while !device.has_failed(3).expect("the gang") {
        assert!(begin.elapsed() < LONG, "nobody notices");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(device.wait_drained(LONG).complete);
    child.wait().expect("its end");
    device.switch(4, LIMIT).expect("nobody is inside");
    device.resume(2).expect("an epoch");
    assert!(!device.has_failed(4).expect("the other gang"));
}

#[test]
fn a_file_that_its_user_fills_with_anything_keeps_nobody_from_going_on() {
    use std::os::unix::fs::FileExt;
    for policy in Policy::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let device = node_of(&directory, policy, 1);
        let port = RankPort::new(&attachment(&device)).expect("a seat");
        let shared = Shared::open(device.path()).expect("it is ours");
        let file = std::fs::OpenOptions::new().write(true).open(device.path());
        let file = file.expect("it is ours");
        let length = file.metadata().expect("its length").len();
        let scribble = || {
            // More than all that precedes the regions.
            let bytes = vec![0xA5; length.min(1 << 20) as usize];
            file.write_all_at(&bytes, 0).expect("it is ours");
        };
        // A living rank that seems to be inside forever, and rings full of nonsense.
        let slot = shared.slot_of(3).expect("the gang");
        shared.seat(slot, 0).busy.inside.store(1, Ordering::SeqCst);
        let rings = shared.words(slot, 0);
        rings.fill(&vec![u64::MAX; rings.count()]);
        device.stop(3).expect("the gang");
        assert!(
            !device.wait_drained(LIMIT).complete,
            "one seems to be within"
        );
        let within = Within {
            rank: 0,
            entry: 1,
            process: std::process::id(),
        };
        assert_eq!(device.within(), Some(within));
        device.abandon(3).expect("the gang");
        scribble();
        assert!(device.wait_drained(LONG).complete, "{policy:?}");
        assert!(device.has_failed(3).expect("the gang"));
        device.switch(4, LIMIT).expect("nobody is waited for");
        device.resume(2).expect("an epoch");
        scribble();
        device.stop(4).expect("the gang");
        device.abandon(4).expect("the gang");
        // Zeros say that it has not failed; they do not bring it back.
        let zeros = vec![0; length.min(1 << 20) as usize];
        file.write_all_at(&zeros, 0).expect("it is ours");
        assert!(device.has_failed(4).expect("the gang"));
        device.switch(3, LIMIT).expect("nobody is waited for");
        device.resume(3).expect("an epoch");
        drop(port);
    }
}

#[test]
fn frames_between_ranks_of_a_node_are_counted_as_they_are_sent() {
    use crate::{PointToPoint, Tag};
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Valid);
    let mut rank = attachment(&device).attach().expect("a seat");
    let own = rank.rank();
    for i in 0..3 {
        rank.start_send(own, Tag(i), vec![7; 10]).expect("a send");
    }
    let counts = device.counts();
    assert_eq!((counts.sent, counts.received), (3, 3));
}

#[test]
fn a_rank_that_enters_just_as_the_gate_is_closed_is_seen_or_kept_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Resident);
    let mut port = RankPort::new(&attachment(&device)).expect("a seat");
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                port.reach(|rings| {
                    rings.put(0, 7, 1, &[1]);
                    rings.take(0, |_, _| ());
                });
            }
        });
        // The assertion comes only after the other thread has been told to end.
        let quiet = (2..4_000).all(|epoch| {
            device.stop(3).expect("the gang");
            while !device.is_drained() {
                std::thread::yield_now();
            }
            let before = device.counts();
            (0..300).for_each(|_| std::hint::spin_loop());
            let after = device.counts();
            device.resume(epoch).expect("an epoch");
            before == after
        });
        end.store(true, Ordering::Relaxed);
        assert!(quiet, "a rank did something while nobody was inside");
    });
}

#[test]
fn a_rank_that_outlives_its_gang_is_no_rank_of_the_next_in_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Resident);
    let mut old = RankPort::new(&attachment(&device)).expect("a seat");
    assert!(old.reach(|_| ()).1 && old.failure().is_none());
    device.stop(3).expect("the gang");
    device.dismiss(3).expect("it is stopped");
    assert!(old.failure().is_some());
    let nodes = vec![0];
    device.admit(&Gang { gang: 3, nodes }).expect("room");
    device.switch(3, LIMIT).expect("the next");
    device.resume(2).expect("an epoch");
    let mut new = RankPort::new(&attachment(&device)).expect("a seat");
    assert!(!old.reach(|_| ()).1 && old.failure().is_some());
    old.fail();
    drop(old);
    assert!(new.reach(|_| ()).1 && new.failure().is_none());
    assert!(!device.has_failed(3).expect("the next"));
}

#[test]
fn a_node_that_is_let_go_on_before_another_loses_no_time() {
    use crate::netctx::Udp;
    use crate::{PointToPoint, Tag};
    use idlewave_units::{Nanos, Rank};
    let directory = tempfile::tempdir().expect("a directory");
    let mut devices = Vec::new();
    for (node, udp) in (0..).zip(Udp::loopback(2).expect("sockets")) {
        let setup = Setup {
            node,
            timeout: Nanos::from_secs(20),
            ..Setup::new(directory.path().join(format!("node{node}")))
        };
        let device = Device::new(&setup, udp).expect("a device");
        let nodes = vec![0, 1];
        device.admit(&Gang { gang: 0, nodes }).expect("room");
        device.switch(0, LIMIT).expect("a gang");
        device.resume(1).expect("an epoch");
        devices.push(device);
    }
    let mut ranks = Vec::new();
    for (rank, device) in devices.iter().enumerate() {
        let text = format!("{},0,{rank},2,sleep", device.path().display());
        let attachment = Attachment::parse(&text).expect("an attachment");
        ranks.push(attachment.attach().expect("a seat"));
    }
    for device in &devices {
        device.stop(0).expect("the gang");
    }
    for device in &devices {
        assert!(device.wait_drained(LONG).complete);
    }
    devices[0].resume(2).expect("an epoch");
    let before = devices[1].traffic();
    let to = Rank::new(1);
    ranks[0]
        .start_send(to, Tag(1), vec![7; 10])
        .expect("a send");
    let begin = Instant::now();
    // Until it has arrived; it is kept, neither taken nor dropped.
    while devices[0].traffic().sent < 4 && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(devices[1].traffic(), before);
    devices[1].resume(2).expect("an epoch");
    let receiving = ranks[1].start_receive(Some(Rank::new(0)), Tag(1), 10, Vec::new());
    let receiving = receiving.expect("a receive");
    let delivery = ranks[1].finish_receive(receiving, &mut || ());
    assert_eq!(delivery.expect("a message").data, [7; 10]);
    for device in &devices {
        assert_eq!(device.traffic().timeouts, 0, "nothing was said twice");
    }
}

#[test]
fn what_ranks_wait_for_is_known_when_nothing_is_under_way() {
    use super::{Awaited, Doing};
    use crate::{PointToPoint, Tag};
    use idlewave_units::Rank;
    let directory = tempfile::tempdir().expect("a directory");
    let device = node(&directory, Policy::Whole);
    let nodes = vec![0, 0];
    device.admit(&Gang { gang: 5, nodes }).expect("room");
    assert_eq!(device.doing(), None, "a gang runs");
    device.stop(3).expect("the gang");
    device.switch(5, LONG).expect("the gang");
    device.resume(2).expect("an epoch");
    let attach = |rank: u32| {
        let text = format!("{},5,{rank},2,sleep", device.path().display());
        let attachment = Attachment::parse(&text).expect("an attachment");
        attachment.attach().expect("a seat")
    };
    let (mut first, mut second) = (attach(0), attach(1));
    let mut epoch = 2;
    let mut until = |wanted: [Doing; 2]| {
        let begin = Instant::now();
        loop {
            device.stop(5).expect("the gang");
            assert!(device.wait_drained(LONG).complete);
            let (gang, doing) = device.doing().expect("it is drained");
            epoch += 1;
            device.resume(epoch).expect("an epoch");
            assert_eq!((gang, doing.len()), (5, 2));
            if doing == [(0, wanted[0]), (1, wanted[1])] {
                return;
            }
            assert!(begin.elapsed() < LONG, "{doing:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until([Doing::Computing; 2]);
    let tag = 7;
    let receive = move |rank: &mut crate::netctx::NetctxFabric, from: Option<u32>| {
        let from = from.map(Rank::new);
        let receiving = rank.start_receive(from, Tag(tag), 1 << 20, Vec::new());
        let delivery = rank.finish_receive(receiving.expect("a receive"), &mut || ());
        delivery.expect("a message").data.len()
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| receive(&mut first, Some(1)));
        let from = Some(1);
        until([
            Doing::Waits(Awaited::Receive { from, tag }),
            Doing::Computing,
        ]);
        // A message that it does not wait for, and the one that it does.
        for tag in [8, tag] {
            let sending = second.start_send(Rank::new(0), Tag(tag), vec![1; 3]);
            second
                .finish_send(sending.expect("a send"), &mut || ())
                .expect("it is sent");
        }
        assert_eq!(waits.join().expect("no panic"), 3);
    });
    until([Doing::Computing; 2]);
    std::thread::scope(|scope| {
        let much = vec![1; 1 << 20];
        let sends = scope.spawn(|| {
            let sending = second.start_send(Rank::new(0), Tag(tag), much);
            second
                .finish_send(sending.expect("a send"), &mut || ())
                .expect("it is sent");
            receive(&mut second, None)
        });
        until([Doing::Computing, Doing::Waits(Awaited::Send { to: 0, tag })]);
        assert_eq!(receive(&mut first, None), 1 << 20);
        let from = None;
        until([
            Doing::Computing,
            Doing::Waits(Awaited::Receive { from, tag }),
        ]);
        let sending = first.start_send(Rank::new(1), Tag(tag), vec![1]);
        first
            .finish_send(sending.expect("a send"), &mut || ())
            .expect("it is sent");
        assert_eq!(sends.join().expect("no panic"), 1);
    });
    drop(second);
    until([Doing::Computing, Doing::Left]);
}

#[test]
fn a_way_that_is_not_there_carries_nothing_and_is_not_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let sleeps = |name: &str, way: Option<Memory>| {
        let setup = Setup::new(directory.path().join(name));
        let shape = Shape::new(&setup).expect("a shape");
        let shared = Shared::create(&setup.path, shape, None).expect("memory");
        let mut owner = Owner::new(shared, way, setup.policy, setup.timeout);
        owner.wait(Nanos::ZERO).expect("nothing is to do").1
    };
    let asked = sleeps("there", Memory::all(1).pop());
    assert!(sleeps("not", None) > 50 * asked, "{asked:?}");
    let mut none = None::<Memory>;
    let mut frame = vec![7];
    assert!(none.send(0, &frame) && !none.receive(&mut frame));
    assert_eq!(
        (none.longest(), none.descriptor(), frame),
        (0, None, vec![7])
    );
}

//! An agent with the test as its controller.

use crate::held::Gangs;
use crate::marked::VARIABLE;
use crate::node::{Node, NodeSettings};
use crate::parcel::{Mark, Parcel, Seen, Spec, State};
use crate::scout::Scout;
use crate::testing::{Ended, Wire, sleep, wire};
use idlewave_freeze::Freezer;
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// For what must happen, however late.
const LONG: Duration = Duration::from_secs(60);
/// Interval at which the test repeats what it wants.
const REPEAT: Duration = Duration::from_millis(100);

/// The test's end of the connection.
struct Here {
    wire: UnixDatagram,
    told: Receiver<Vec<u8>>,
}

impl Here {
    /// Both ends.
    fn new() -> (Self, Wire) {
        let (wire, told, there) = wire();
        (Self { wire, told }, there)
    }

    /// The next report of that version or a later one. Meanwhile this repeats what it wants, as a
    /// controller does: an agent that hears nothing for a second registers again.
    fn told(&self, gangs: &[u8], least: u64) -> Vec<Seen> {
        let begun = Instant::now();
        let mut sent = None::<Instant>;
        while begun.elapsed() < LONG {
            if sent.is_none_or(|sent| sent.elapsed() > REPEAT) {
                // If the queue is full, the agent has yet to read the same.
                let _ = self.wire.send(gangs);
                sent = Some(Instant::now());
            }
            let Ok(bytes) = self.told.recv_timeout(REPEAT) else {
                continue;
            };
            if let Ok(Parcel::State(State::Sight { seen, version, .. })) = Parcel::decode(&bytes) {
                if version >= least {
                    return seen;
                }
            }
        }
        panic!("nothing is told");
    }

    /// The next report on the gang, ignoring other messages.
    fn sight(&self, gangs: &[u8]) -> Seen {
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            if let Some(seen) = self.told(gangs, 0).into_iter().next() {
                return seen;
            }
        }
        panic!("nothing is seen");
    }
}

/// Sets the flag when dropped, so that a failed test waits for nothing.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn settings() -> NodeSettings {
    NodeSettings {
        node: NodeId::new(0),
        host: "here".to_owned(),
        cpus: 1,
        freezer: "as the test says".to_owned(),
        limits: Vec::new(),
        repeat: Nanos::from_millis(5),
        join: Nanos::from_millis(50),
    }
}

/// One gang of the processes with that mark.
fn gangs(version: u64, token: &str) -> Vec<u8> {
    let gangs = State::Gangs {
        version,
        gangs: vec![Spec {
            gang: 1,
            user: Uid::own().get(),
            mark: Mark::Token(token.to_owned()),
            rows: Vec::new(),
            end: false,
        }],
        contexts: Vec::new(),
        devices: Vec::new(),
        eager: false,
    };
    Parcel::State(gangs).encode()
}

/// A sleeping process with that mark, which others can see.
fn marked(token: &str) -> Ended {
    let process = sleep(&[(VARIABLE, token)]);
    // Until it executes its program it has this process's environment.
    let environment = format!("/proc/{}/environ", process.pid());
    while !std::fs::read_to_string(&environment).is_ok_and(|text| text.contains(token)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    process
}

#[test]
fn the_end_of_a_gang_is_told_however_seldom_the_scout_looks() {
    let (here, there) = Here::new();
    let none = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5)).unwrap();
    let mut node = Node::new(settings(), there, none).unwrap();
    node.scout = Scout::start(Duration::from_secs(3600)).unwrap();
    let stop = AtomicBool::new(false);
    let token = format!("node-{}", std::process::id());
    let mut process = marked(&token);
    if idlewave_sys::process::handle(process.pid()).is_err() {
        println!("skipped: this kernel has no handles of processes");
        return;
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(|| node.run(&stop, |_| ()));
        let stopped = Stopped(&stop);
        let gangs = gangs(1, &token);
        let seen = here.sight(&gangs);
        assert_eq!(seen.processes, 1);
        assert!(seen.cpu > Nanos::ZERO);
        process.kill();
        // It is told by another look: old reports are not repeated, except to a controller that was
        // not heard for a while.
        let begun = Instant::now();
        let mut left = 1;
        while left == 1 && begun.elapsed() < LONG {
            left = here.sight(&gangs).processes;
        }
        assert_eq!(left, 0);
        drop(stopped);
        running.join().unwrap().unwrap();
    });
}

#[test]
fn an_agent_answers_while_its_mover_waits_for_the_kernel() {
    let freezer = Freezer::choose().freezer;
    if freezer == Freezer::Signals {
        println!("skipped: no control group can be made");
        return;
    }
    let (here, there) = Here::new();
    let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
    let before = move || {
        let _ = begin.send(());
        let _ = ended.recv();
    };
    let none = Gangs::with(freezer, None, Nanos::from_secs(5), before).unwrap();
    let mut node = Node::new(settings(), there, none).unwrap();
    let stop = AtomicBool::new(false);
    let token = format!("moved-{}", std::process::id());
    let process = marked(&token);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| node.run(&stop, |_| ()));
        let stopped = Stopped(&stop);
        here.wire.send(&gangs(1, &token)).unwrap();
        begun.recv_timeout(LONG).unwrap();
        // It answers each time, and reports nothing about a process that is not under control.
        for version in 2..6 {
            assert_eq!(here.told(&gangs(version, &token), version), []);
        }
        drop(end);
        assert_eq!(here.sight(&gangs(5, &token)).processes, 1);
        drop(stopped);
        running.join().unwrap().unwrap();
    });
    drop((node, process));
}

//! An agent beside a controller that the test is.

use crate::held::Gangs;
use crate::marked::VARIABLE;
use crate::node::{Node, NodeSettings};
use crate::parcel::{Mark, Parcel, Seen, Spec, State};
use crate::scout::Scout;
use crate::testing::{Wire, sleep};
use idlewave_freeze::{Freezer, Uid};
use idlewave_units::{Nanos, NodeId};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is seen next of the gang, other messages apart.
fn sight(socket: &UnixDatagram) -> Seen {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let mut bytes = vec![0; 1 << 16];
        let Ok(n) = socket.recv(&mut bytes) else {
            continue;
        };
        if let Ok(Parcel::State(State::Sight { seen, .. })) = Parcel::decode(&bytes[..n]) {
            if let Some(seen) = seen.into_iter().next() {
                return seen;
            }
        }
    }
    panic!("nothing is told");
}

/// Sets it when it is dropped: what failed waits for nobody.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_end_of_a_gang_is_told_however_seldom_the_scout_looks() {
    let (here, there) = UnixDatagram::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    here.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let settings = NodeSettings {
        node: NodeId::new(0),
        host: "here".to_owned(),
        cpus: 1,
        freezer: "signals".to_owned(),
        limits: Vec::new(),
        repeat: Nanos::from_millis(5),
        join: Nanos::from_millis(50),
    };
    let gangs = Gangs::new(Freezer::Signals, None, Nanos::from_secs(5));
    let mut node = Node::new(settings, Wire(there), gangs).unwrap();
    node.scout = Scout::start(Duration::from_secs(3600)).unwrap();
    let stop = AtomicBool::new(false);
    let token = format!("node-{}", std::process::id());
    let mut process = sleep(&[(VARIABLE, &token)]);
    if idlewave_freeze::open_process(process.pid()).is_err() {
        println!("skipped: this kernel has no handles of processes");
        return;
    }
    // Until it executes its program it has this one's environment.
    let environment = format!("/proc/{}/environ", process.pid());
    while !std::fs::read_to_string(&environment).is_ok_and(|text| text.contains(&token)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(|| node.run(&stop, |_| ()));
        let stopped = Stopped(&stop);
        let gangs = State::Gangs {
            version: 1,
            gangs: vec![Spec {
                gang: 1,
                user: Uid::own().get(),
                mark: Mark::Token(token),
                rows: Vec::new(),
                end: false,
            }],
            contexts: Vec::new(),
            devices: Vec::new(),
            eager: false,
        };
        here.send(&Parcel::State(gangs).encode()).unwrap();
        let seen = sight(&here);
        assert_eq!(seen.processes, 1);
        assert!(seen.cpu > Nanos::ZERO);
        process.kill();
        // What was told before is not told again: this comes of another look.
        assert_eq!(sight(&here).processes, 0);
        drop(stopped);
        running.join().unwrap().unwrap();
    });
}

//! Ranks on several nodes: each node has a directory of pages, and messages between the watching
//! node and the others may be lost, duplicated or late.

#[allow(dead_code)]
mod common;

use common::{Place, Running, send};
use idlewave_gang::state::State;
use idlewave_hangs::{Ask, Job, Look, Lookout, Paced, Settings, Told, Watch};
use idlewave_mpi::testing::{Installation, some_installations};
use idlewave_sys::process::Signal;
use idlewave_units::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Far longer than a verdict takes: no test passes or fails by timing.
const LIMIT: Duration = Duration::from_secs(600);

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Messages in flight: when each arrives, whether it goes to the watching node, the other node, and
/// its bytes.
#[derive(Default)]
struct Net {
    under_way: Vec<(Instant, bool, NodeId, Vec<u8>)>,
    sent: usize,
    bytes: usize,
}

impl Net {
    /// One message in eight is lost, one in eight is duplicated, and some are late.
    fn send(&mut self, random: &mut Random, now: Instant, up: bool, node: NodeId, bytes: Vec<u8>) {
        self.sent += 1;
        self.bytes += bytes.len();
        for _ in 0..[0, 2, 1, 1, 1, 1, 1, 1][random.below(8) as usize] {
            let late = Duration::from_micros([0, 100, 300, 5_000][random.below(4) as usize]);
            self.under_way.push((now + late, up, node, bytes.clone()));
        }
    }

    fn due(&mut self, now: Instant) -> Vec<(bool, NodeId, Vec<u8>)> {
        let (due, later) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.under_way = later;
        let due: Vec<(Instant, bool, NodeId, Vec<u8>)> = due;
        due.into_iter()
            .map(|(_, up, node, bytes)| (up, node, bytes))
            .collect()
    }
}

/// A job that is watched on one node, with lookouts on the others.
struct Nodes<'a> {
    job: Running<'a>,
    paced: Paced,
    lookouts: BTreeMap<NodeId, Lookout>,
    net: Net,
    random: Random,
    glanced: Instant,
}

impl<'a> Nodes<'a> {
    fn new(job: Running<'a>, nodes: u32, settings: Settings, interval: Duration) -> Self {
        let lookouts = (1..nodes).map(|node| {
            let lookout = Lookout::new(&job.pages_of(node), format!("node{node}"));
            (NodeId::new(node), lookout)
        });
        let watch = Watch::with(&job.pages_of(0), settings);
        Self {
            paced: Paced::new(watch, interval),
            lookouts: lookouts.collect(),
            net: Net::default(),
            random: Random(7),
            glanced: Instant::now(),
            job,
        }
    }

    /// One step of all nodes; returns a look, if there was one.
    fn step(&mut self) -> Option<Look> {
        let now = Instant::now();
        if now >= self.glanced + Duration::from_millis(10) {
            self.glanced = now;
            for (node, lookout) in &mut self.lookouts {
                if let Some(bytes) = lookout.glance(now) {
                    self.net.send(&mut self.random, now, true, *node, bytes);
                }
            }
        }
        for (up, node, bytes) in self.net.due(now) {
            if up {
                let heard = self.paced.watch.far.hear(now, node, &bytes);
                heard.expect("what a lookout says");
                continue;
            }
            let lookout = self.lookouts.get_mut(&node).expect("a node");
            for answer in lookout.hear(now, &bytes).expect("what is asked") {
                self.net.send(&mut self.random, now, true, node, answer);
            }
        }
        let look = self.paced.look(now).map(|look| look.expect("a look"));
        for (node, bytes) in self.paced.watch.far.take() {
            self.net.send(&mut self.random, now, false, node, bytes);
        }
        look
    }

    /// Looks until `enough` is true, the job has ended, or the time limit is reached. Returns the
    /// last look.
    fn until(&mut self, mut enough: impl FnMut(&Look) -> bool) -> Option<Look> {
        let begin = Instant::now();
        let mut last = None;
        while begin.elapsed() < LIMIT {
            if let Some(look) = self.step() {
                if enough(&look) {
                    return Some(look);
                }
                last = Some(look);
            }
            if self.job.ended() {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        last
    }

    /// Processes of all nodes.
    fn pids(&self) -> Vec<u32> {
        let entries = (0..=self.lookouts.len() as u32).flat_map(|node| {
            std::fs::read_dir(self.job.pages_of(node))
                .into_iter()
                .flatten()
        });
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_suffix(".state")?.parse().ok())
            .collect()
    }
}

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        self.pids()
            .into_iter()
            .for_each(|pid| send(pid, Signal::CONT));
    }
}

fn each(case: &str, check: impl Fn(&Place, &Installation)) {
    let place = Place::shared();
    for mpi in some_installations(case) {
        check(&place, &mpi);
    }
}

/// With one MPI library only.
fn once(case: &str, check: impl Fn(&Place, &Installation)) {
    let place = Place::shared();
    if let Some(mpi) = some_installations(case).first() {
        check(&place, mpi);
    }
}

/// Checks that the hang of a program is found: which ranks, and what the report says.
fn check(nodes: u32, ranks: u32, what: &str, dead: &[u32], says: &[&str]) {
    each(what, |place, mpi| {
        let settings = Settings {
            slow: Duration::from_secs(1),
            ..Settings::default()
        };
        let Some(job) = place.start_on(nodes, mpi, ranks, &[what], settings) else {
            return;
        };
        let mut job = Nodes::new(job, nodes, settings, Duration::from_millis(50));
        // Some of them may wait for each other before others join them.
        let look = job.until(|look| common::stuck_ranks(look) == dead);
        let look = look.expect("a look");
        let named = common::stuck_ranks(&look);
        assert_eq!(named, dead, "{} {what}: {look:?}", mpi.name);
        let report = look.report().expect("a report").join("\n");
        for words in says {
            assert!(report.contains(words), "{} {what}: {report}", mpi.name);
        }
    });
}

#[test]
fn what_hangs_over_nodes_is_found() {
    let cycle = [
        "rank 0 waits in MPI_Recv for rank 2 (tag 7, MPI_COMM_WORLD)",
        "rank 2 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)",
    ];
    check(3, 3, "receive", &[0, 1, 2], &cycle);
    check(
        2,
        3,
        "mismatch",
        &[0, 1, 2],
        &["rank 1 waits in MPI_Barrier for rank 0"],
    );
    let words = ["rank 0 entered MPI_Barrier, rank 1 MPI_Allreduce"];
    check(2, 2, "collectives", &[0, 1], &words);
    check(
        2,
        3,
        "split",
        &[0, 1, 2],
        &["MPI_Barrier (collective 1 of communicator "],
    );
}

#[test]
fn what_needs_cpu_time_or_many_looks_is_found_over_nodes() {
    let words = [
        "suspicion: 2 of 2 ranks are stuck, but their messages to other nodes may just be slow",
        "rank 0 waits in MPI_Send for rank 1 (to receive tag 3, MPI_COMM_WORLD)",
    ];
    check(2, 2, "small-rendezvous", &[0, 1], &words);
    // Between ranks of one node, it is certain.
    let words = ["4 of 4 ranks will never continue\n"];
    check(2, 4, "neighbours", &[0, 1, 2, 3], &words);
    check(
        2,
        2,
        "test",
        &[0, 1],
        &["polls with MPI_Test from rank 1 (tag 4"],
    );
}

#[test]
fn who_waits_for_a_rank_of_another_node_that_has_finalised_waits_for_ever() {
    once("finalised", |place, mpi| {
        let settings = Settings::default();
        let Some(job) = place.start_on(2, mpi, 2, &["finalised"], settings) else {
            return;
        };
        let mut job = Nodes::new(job, 2, settings, Duration::from_millis(50));
        let look = job.until(|look| look.deadlock().is_some()).expect("a look");
        let found = look
            .deadlock()
            .unwrap_or_else(|| panic!("{}: {look:?}", mpi.name));
        assert_eq!(found.ranks.len(), 1);
    });
}

#[test]
fn no_look_over_nodes_finds_a_deadlock_where_there_is_none() {
    // Each look is judged alone: whatever two looks agree on, the nodes were not looked at
    // simultaneously.
    let settings = Settings {
        apart: Duration::ZERO,
        ..Settings::default()
    };
    each("mixed", |place, mpi| {
        for (nodes, ranks, what) in [(2, 2, "pingpong"), (2, 4, "mixed"), (3, 4, "mixed")] {
            let Some(job) = place.start_on(nodes, mpi, ranks, &[what, "1.5"], settings) else {
                return;
            };
            let often = Duration::from_micros(500);
            let mut job = Nodes::new(job, nodes, settings, often);
            let (mut jobs, mut looks, mut complete, mut turn) = (1, 0, 0, 0_u32);
            let mut stopped: Vec<u32> = Vec::new();
            loop {
                if job.job.ended() {
                    if complete > 10 {
                        break;
                    }
                    // On a busy machine one job may be over too soon.
                    jobs += 1;
                    assert!(jobs < 50, "{complete} of {looks}");
                    drop(job);
                    let again = place.start_on(nodes, mpi, ranks, &[what, "1.5"], settings);
                    job = Nodes::new(again.expect("as before"), nodes, settings, often);
                    stopped.clear();
                }
                turn += 1;
                // Some ranks are stopped for a while, so that many looks find them unchanged while
                // others move on.
                if turn % 40 == 0 {
                    stopped.drain(..).for_each(|pid| send(pid, Signal::CONT));
                    stopped = job.pids();
                    stopped.retain(|_| job.random.below(2) == 0);
                    stopped.iter().for_each(|pid| send(*pid, Signal::STOP));
                }
                let Some(look) = job.step() else {
                    std::thread::sleep(Duration::from_micros(50));
                    continue;
                };
                looks += 1;
                complete += u32::from(matches!(look.job, Job::Progressing | Job::Idle));
                assert!(look.shown().is_none(), "{} {what}: {look:?}", mpi.name);
                let state = look.verdict.as_ref().map(|verdict| &verdict.state);
                assert!(
                    !matches!(state, Some(State::Unknown(_))),
                    "{what}: {look:?}"
                );
            }
            println!(
                "{} {what}: {looks} looks, {complete} at all ranks, {} messages, {} bytes",
                mpi.name, job.net.sent, job.net.bytes
            );
        }
    });
}

#[test]
fn a_look_for_which_nobody_was_asked_finds_nothing() {
    once("unasked", |place, mpi| {
        let settings = Settings::default();
        let Some(job) = place.start_on(2, mpi, 2, &["receive"], settings) else {
            return;
        };
        let mut job = Nodes::new(job, 2, settings, Duration::from_millis(20));
        let found = |look: &Look| look.deadlock().is_some();
        assert!(job.until(found).is_some_and(|look| found(&look)));
        // What the other node said is older than what is seen here.
        for _ in 0..3 {
            let look = job.paced.watch.look().expect("a look");
            assert!(look.shown().is_none(), "{}: {look:?}", mpi.name);
        }
        assert!(
            job.until(found).is_some_and(|look| found(&look)),
            "{}",
            mpi.name
        );
    });
}

#[test]
fn a_node_that_is_silent_makes_the_job_incomplete_and_comes_back() {
    once("silent", |place, mpi| {
        let settings = Settings::default();
        let Some(job) = place.start_on(2, mpi, 2, &["receive"], settings) else {
            return;
        };
        let mut job = Nodes::new(job, 2, settings, Duration::from_millis(20));
        assert!(
            job.until(|look| look.deadlock().is_some())
                .is_some_and(|l| l.deadlock().is_some())
        );
        let lookouts = std::mem::take(&mut job.lookouts);
        job.net.under_way.clear();
        // From now on, messages to the other node are lost.
        let begin = Instant::now();
        let (mut look, mut at_once) = (None, 0);
        while begin.elapsed() < LIMIT && look.is_none() {
            let now = Instant::now();
            look = job.paced.look(now).map(|look| look.expect("a look"));
            job.paced.watch.far.take();
            at_once += u32::from(job.paced.due() <= now);
            let whole = |look: &Look| !matches!(look.job, Job::Incomplete { seen: 1, size: 2 });
            look = look.filter(|look| !whole(look));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(look.is_some(), "{}", mpi.name);
        assert!(at_once < 5, "who waits for an answer sleeps: {at_once}");
        job.lookouts = lookouts;
        let look = job.until(|look| look.deadlock().is_some()).expect("a look");
        assert!(look.deadlock().is_some(), "{}: {look:?}", mpi.name);
    });
}

#[test]
fn bytes_that_nobody_says_change_nothing() {
    let mut watch = Watch::new(std::path::Path::new("/nonexistent"));
    let now = Instant::now();
    let here = Told::Here {
        host: "a".to_owned(),
        still: None,
    };
    for bytes in [Vec::new(), vec![0xff; 40], Ask::End.encode()] {
        assert!(watch.far.hear(now, NodeId::new(1), &bytes).is_err());
        assert!(watch.far.is_empty());
    }
    // Answers of a node that never announced itself, and to a request that was never made.
    let looked = |part, parts| Told::Looked {
        round: 0,
        part,
        parts,
        ranks: Vec::new(),
    };
    watch
        .far
        .hear(now, NodeId::new(1), &looked(0, 1).encode())
        .expect("a message");
    assert!(watch.far.is_empty());
    watch
        .far
        .hear(now, NodeId::new(1), &here.encode())
        .expect("a message");
    watch.far.ask(now, true);
    for (part, parts) in [(0, 1), (1, 1), (0, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        watch
            .far
            .hear(now, NodeId::new(1), &looked(part, parts).encode())
            .expect("a message");
    }
    assert!(
        !watch.far.is_complete(),
        "it was asked for round 1, and answered round 0"
    );
    assert_eq!(watch.far.hosts().collect::<Vec<_>>(), ["a"]);
}

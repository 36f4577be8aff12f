//! Gang switching when its processes are killed, at every phase of a switch: whoever survives runs again within a bounded time, and is
//! switched again.
//!
//! The table of more rounds, with two of them killed at once:
//!
//!     IDLEWAVE_FAULT_ROUNDS=5 cargo test -p idlewave --test gang_faults table -- --nocapture --ignored

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

#[path = "common/gang.rs"]
mod gang;

use gang::{Job, Service, groups_of, until};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Their ranks are to have the machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const PHASES: [&str; 6] = ["prepared", "freeze", "frozen", "decided", "thaw", "thawed"];

/// Nobody may stand still for longer than this: two leases of a second and the start of a process, on a machine that does much else.
const BOUND: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Controller,
    Agent,
    Watchdog,
    Rank,
}

/// What came of one fault.
#[derive(Clone, Copy, Debug)]
struct Came {
    /// Until every rank that survived had run again.
    runs: Duration,
    /// The longest that any of them stood still, from then until they were in step.
    still: Duration,
    /// Until both gangs were switched again.
    step: Duration,
}

struct Rig {
    directory: tempfile::TempDir,
    service: Service,
    jobs: Vec<Job>,
    agents: BTreeSet<u32>,
}

impl Rig {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::start(directory.path(), &["--slice", "20ms", "--no-yield"]);
        let jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
        let rig = Rig {
            directory,
            service,
            jobs: jobs.into(),
            agents: BTreeSet::new(),
        };
        rig.in_step("at the start");
        rig
    }

    /// Both gangs are switched, and go on being.
    fn in_step(&self, when: &str) {
        let begin = self
            .service
            .await_status(when, |s| s.rows.len() == 2 && s.nodes[0].coordinated)
            .switches
            .switched;
        let more = |s: &idlewave_agent::control::Status| s.switches.switched >= begin + 2;
        self.service.await_status(when, more);
    }

    fn fault(&mut self, phase: &str, who: &[Who]) -> Came {
        let (agent, watchdog) = until("an agent is there", || self.service.agent());
        self.agents.insert(agent);
        let pid = |who: &Who| match who {
            Who::Controller => self.service.controller(),
            Who::Agent => agent,
            Who::Watchdog => watchdog,
            Who::Rank => self.jobs[0].ranks[0].pid(),
        };
        let pids: Vec<String> = who.iter().map(|who| pid(who).to_string()).collect();
        let line = format!("{phase} {}\n", pids.join(" "));
        // As a whole, or whoever reads it sees half of it.
        let part = self.directory.path().join("part");
        std::fs::write(&part, line).unwrap();
        std::fs::rename(&part, &self.service.fault).unwrap();
        until("the phase is passed", || {
            (!self.service.fault.exists()).then_some(())
        });
        let begin = Instant::now();
        let survive =
            |job: usize, rank: usize| !(who.contains(&Who::Rank) && (job, rank) == (0, 0));
        let mut ranks = Vec::new();
        for (j, job) in self.jobs.iter().enumerate() {
            for (r, rank) in job.ranks.iter().enumerate() {
                if survive(j, r) {
                    ranks.push((rank.0.clone(), rank.count(), begin, false, Duration::ZERO));
                }
            }
        }
        let mut runs = None;
        let mut stepping = false;
        let restart = who.contains(&Who::Controller);
        std::thread::scope(|scope| {
            // Whoever looks after services starts this one again.
            let service = &mut self.service;
            let stepper = scope.spawn(move || {
                if restart {
                    service.again();
                }
                let when = format!("{who:?} at {phase}");
                let begin = service
                    .await_status(&when, |s| s.rows.len() == 2 && s.nodes[0].coordinated)
                    .switches
                    .switched;
                service.await_status(&when, |s| s.switches.switched >= begin + 2);
                Instant::now()
            });
            while !stepping || runs.is_none() {
                let now = Instant::now();
                for (path, count, last, ran, still) in &mut ranks {
                    let new = gang::Rank(path.clone()).count();
                    *still = (*still).max(now - *last);
                    if new != *count {
                        (*count, *last, *ran) = (new, now, true);
                    }
                    assert!(
                        now - *last < BOUND,
                        "{path:?} stands still: {who:?} at {phase}"
                    );
                }
                if runs.is_none() && ranks.iter().all(|rank| rank.3) {
                    runs = Some(begin.elapsed());
                }
                stepping = stepper.is_finished();
                std::thread::sleep(Duration::from_millis(1));
            }
            let step = stepper.join().unwrap() - begin;
            let still = ranks.iter().map(|rank| rank.4).max().unwrap();
            let runs = runs.unwrap();
            Came { runs, still, step }
        })
    }

    /// What was killed is there again, and nothing of it is left.
    fn whole(&mut self, who: &[Who], phase: &str) {
        let (agent, _) = until("agent and watchdog are there", || self.service.agent());
        let dead: Vec<u32> = self
            .agents
            .iter()
            .copied()
            .filter(|a| *a != agent)
            .collect();
        let left = groups_of(&dead);
        assert!(left.is_empty(), "{who:?} at {phase}: {left:?}");
        assert_eq!(
            who.contains(&Who::Agent) || who.contains(&Who::Controller),
            self.agents.insert(agent),
            "{who:?} at {phase}: {}",
            self.service.said()
        );
        if who.contains(&Who::Rank) {
            self.jobs.remove(0);
            self.jobs.insert(0, Job::start(&self.service, "a", 2));
            self.in_step("with new ranks");
        }
    }

    fn end(mut self) {
        self.jobs.clear();
        let agents: Vec<u32> = self.agents.iter().copied().collect();
        drop(self.service);
        assert_eq!(groups_of(&agents), [""; 0]);
    }
}

fn middle(mut of: Vec<Duration>) -> (f64, f64) {
    of.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    (ms(of[of.len() / 2]), ms(of[of.len() - 1]))
}

fn rounds(cases: &[&[Who]], phases: &[&str], rounds: usize) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    println!(
        "{:22} {:9} {:>3}  {:>19}  {:>19}  {:>19}",
        "killed", "phase", "n", "all run again, ms", "stood still, ms", "in step again, ms"
    );
    println!("{:38}{}", "", "    median     worst ".repeat(3));
    let mut came = Vec::new();
    for _ in 0..rounds {
        for phase in phases {
            // A service of its own: it does not start its agent again any number of times.
            let mut rig = Rig::start();
            for who in cases {
                let one = rig.fault(phase, who);
                rig.whole(who, phase);
                came.push((*who, *phase, one));
            }
            rig.end();
        }
    }
    for who in cases {
        for phase in phases {
            let of: Vec<Came> = came
                .iter()
                .filter(|(w, p, _)| w == who && p == phase)
                .map(|(_, _, came)| *came)
                .collect();
            let names: Vec<String> = who
                .iter()
                .map(|w| format!("{w:?}").to_lowercase())
                .collect();
            let by = |get: fn(&Came) -> Duration| middle(of.iter().map(get).collect());
            let (runs, still, step) = (by(|c| c.runs), by(|c| c.still), by(|c| c.step));
            println!(
                "{:22} {phase:9} {:>3}  {:>9.0} {:>9.0}  {:>9.0} {:>9.0}  {:>9.0} {:>9.0}",
                names.join(", "),
                of.len(),
                runs.0,
                runs.1,
                still.0,
                still.1,
                step.0,
                step.1
            );
        }
    }
}

#[test]
fn whoever_dies_while_gangs_are_switched_the_others_run_again_and_are_switched_again() {
    use Who::{Agent, Controller, Rank, Watchdog};
    let cases: [&[Who]; 4] = [&[Agent], &[Watchdog], &[Controller], &[Rank]];
    rounds(&cases, &["frozen", "decided"], 1);
}

/// The agent of another node is nobody's child: it lives on, and greets whoever comes after.
#[test]
fn an_agent_of_another_node_greets_the_controller_that_was_started_again() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key").display().to_string();
    // A port that was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap().to_string();
    drop(free);
    let words = [
        "--slice",
        "20ms",
        "--no-yield",
        "--no-local",
        "--listen",
        &at,
        "--key",
        &key,
    ];
    let mut service = Service::start(directory.path(), &words);
    let agent = std::process::Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args([
            "gang",
            "agent",
            "--node",
            "0",
            "--controller",
            &at,
            "--key",
            &key,
        ])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut agent = gang::Ended(agent);
    service.await_status("it greets", |s| s.nodes.len() == 1);
    let jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
    let switched = |service: &Service, when: &str| {
        let both = service.await_status(when, |s| s.rows.len() == 2 && s.nodes[0].coordinated);
        let more = both.switches.switched + 2;
        service.await_status(when, |s| s.switches.switched > more);
    };
    switched(&service, "at the start");
    gang::kill(service.controller(), 9);
    let begin = Instant::now();
    // Its lease is over long before its controller is back: everything runs.
    std::thread::sleep(Duration::from_millis(1500));
    let ranks = || jobs.iter().flat_map(|job| &job.ranks);
    let before: Vec<u64> = ranks().map(gang::Rank::count).collect();
    for (rank, before) in ranks().zip(before) {
        until("it runs", || (rank.count() > before + 5).then_some(()));
    }
    service.again();
    switched(&service, "by another controller");
    println!("in step again after {} ms", begin.elapsed().as_millis());
    assert!(agent.0.try_wait().unwrap().is_none());
    drop(jobs);
    drop(service);
    // It was told farewell.
    until("it ends in order", || agent.0.try_wait().unwrap());
}

#[test]
#[ignore = "takes minutes: the table of all phases"]
fn table() {
    use Who::{Agent, Controller, Rank, Watchdog};
    let cases: [&[Who]; 9] = [
        &[Agent],
        &[Watchdog],
        &[Controller],
        &[Rank],
        &[Agent, Watchdog],
        &[Agent, Controller],
        &[Agent, Rank],
        &[Watchdog, Controller],
        &[Watchdog, Rank],
    ];
    let n = std::env::var("IDLEWAVE_FAULT_ROUNDS");
    rounds(&cases, &PHASES, n.map_or(1, |n| n.parse().unwrap()));
}

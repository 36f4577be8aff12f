//! Gang switching when its processes are killed or hang, at every phase of a switch: surviving
//! ranks run again within a bounded time, and are switched again.
//!
//! A table of more rounds, with two processes killed at once:
//!
//!     IDLEWAVE_FAULT_ROUNDS=5 cargo test -p idlewave --test gang_faults table -- --nocapture --ignored
//!
//! and the same by signals with IDLEWAVE_FAULT_FREEZER=signals.

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

#[path = "common/faults.rs"]
mod faults;
#[path = "common/gang.rs"]
mod gang;

use faults::{Came, Watched, Who, arm_words, print_table};
use gang::{Job, Service, groups_of, journals_of, until};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The ranks need the machine to themselves.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const PHASES: [&str; 6] = ["prepared", "freeze", "frozen", "decided", "thaw", "thawed"];

struct Rig {
    _directory: tempfile::TempDir,
    service: Service,
    jobs: Vec<Job>,
    agents: BTreeSet<u32>,
}

impl Rig {
    fn start(freezer: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut words = vec!["--slice", "20ms", "--no-yield"];
        words.extend(freezer.iter().flat_map(|freezer| ["--freezer", *freezer]));
        let service = Service::start(directory.path(), &words);
        let jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
        let rig = Rig {
            _directory: directory,
            service,
            jobs: jobs.into(),
            agents: BTreeSet::new(),
        };
        rig.in_step("at the start");
        rig
    }

    /// Both gangs are switched, and keep being switched.
    fn in_step(&self, when: &str) {
        let begin = self
            .service
            .await_status(when, |s| s.rows.len() == 2 && s.nodes[0].coordinated)
            .switches
            .switched;
        let more = |s: &idlewave_gang_agent::control::Status| s.switches.switched >= begin + 2;
        self.service.await_status(when, more);
    }

    fn fault(&mut self, phase: &str, who: &[Who]) -> Came {
        let (agent, watchdog) = until("an agent is there", || self.service.agent());
        self.agents.insert(agent);
        let pids = |who: &Who| match who {
            Who::Controller | Who::ControllerStill => vec![self.service.controller()],
            Who::Agent | Who::AgentStill => vec![agent],
            Who::Watchdog | Who::WatchdogStill => vec![watchdog],
            Who::Watchdogs => self.service.watchdogs(agent),
            Who::Rank => vec![self.jobs[0].ranks[0].pid()],
        };
        let still: Vec<u32> = who
            .iter()
            .filter(|w| w.stands_still())
            .flat_map(pids)
            .collect();
        let words = who.iter().flat_map(|who| {
            let stop = if who.stands_still() { "s" } else { "" };
            pids(who).into_iter().map(move |pid| format!("{stop}{pid}"))
        });
        let begin = arm_words(&self.service.fault, phase, &words.collect::<Vec<_>>());
        let ranks = self.jobs.iter().flat_map(|job| &job.ranks);
        // The first rank is the one that was killed.
        let ranks = ranks.skip(usize::from(who.contains(&Who::Rank)));
        let mut watched = Watched::new(ranks, begin);
        let restart = who.contains(&Who::Controller);
        let when = format!("{who:?} at {phase}");
        std::thread::scope(|scope| {
            // The service manager restarts the controller.
            let (service, when) = (&mut self.service, &when);
            let stepper = scope.spawn(move || {
                if restart {
                    service.again();
                }
                let begin = service
                    .await_status(when, |s| s.rows.len() == 2 && s.nodes[0].coordinated)
                    .switches
                    .switched;
                service.await_status(when, |s| s.switches.switched >= begin + 2);
                Instant::now()
            });
            let mut stepping = false;
            let mut stopped = !still.is_empty();
            while !stepping || watched.runs().is_none() {
                watched.look(when);
                stepping = stepper.is_finished();
                // The watchdog is detected and killed; no other process has to continue the stopped
                // ones.
                if stopped && watched.runs().is_some() && !who.contains(&Who::WatchdogStill) {
                    still.iter().for_each(|pid| gang::kill(*pid, 18));
                    stopped = false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Came {
                runs: watched.runs().unwrap(),
                still: watched.still(),
                step: stepper.join().unwrap() - begin,
            }
        })
    }

    /// The killed processes have been replaced, and nothing of them is left.
    fn whole(&mut self, who: &[Who], phase: &str) {
        let (agent, _) = until("agent and watchdog are there", || self.service.agent());
        let dead: Vec<u32> = self
            .agents
            .iter()
            .copied()
            .filter(|a| *a != agent)
            .collect();
        // Processes run again before the last of them is removed.
        let what = format!("groups and journals are gone: {who:?} at {phase}");
        until(&what, || {
            let gone = groups_of(&dead).is_empty() && journals_of(&dead).is_empty();
            gone.then_some(())
        });
        until("both watchdogs serve", || {
            let dogs = self.service.watchdogs(agent);
            let run = dogs.iter().all(|dog| !states(*dog).contains('T'));
            (run && dogs.len() == 2).then_some(())
        });
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
        assert_eq!(journals_of(&agents), [""; 0]);
    }
}

/// The state letter of a process, if it exists.
fn states(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(") ").map(|(_, after)| after);
    after
        .and_then(|after| after.get(..1))
        .unwrap_or_default()
        .to_owned()
}

fn rounds(freezer: Option<&str>, cases: &[&[Who]], phases: &[&str], rounds: usize) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut came = Vec::new();
    for _ in 0..rounds {
        for phase in phases {
            // A separate service: it does not restart its agent indefinitely.
            let mut rig = Rig::start(freezer);
            for who in cases {
                let one = rig.fault(phase, who);
                rig.whole(who, phase);
                came.push((*who, *phase, one));
            }
            rig.end();
        }
    }
    print_table(cases, phases, &came);
}

#[test]
fn whoever_dies_while_gangs_are_switched_the_others_run_again_and_are_switched_again() {
    use Who::{Agent, Controller, Rank, Watchdog};
    let cases: [&[Who]; 4] = [&[Agent], &[Watchdog], &[Controller], &[Rank]];
    rounds(None, &cases, &["frozen", "decided"], 1);
}

#[test]
fn whatever_stands_still_or_is_killed_at_once_nobody_stays_stopped() {
    use Who::{Agent, AgentStill, Controller, Watchdog, Watchdogs};
    rounds(None, &[&[AgentStill]], &["frozen"], 1);
    let cases: [&[Who]; 4] = [
        &[AgentStill],
        &[Agent, Watchdog],
        &[Agent, Watchdogs],
        &[Agent, Watchdogs, Controller],
    ];
    rounds(Some("signals"), &cases, &["frozen"], 1);
}

/// Nothing restarts the service: the commands that wait for it continue the processes it left
/// stopped.
#[test]
fn of_a_service_that_is_killed_as_a_whole_submit_continues_the_ranks_that_signals_stopped() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let rig = Rig::start(Some("signals"));
    let (agent, _) = until("an agent is there", || rig.service.agent());
    let mut pids = rig.service.watchdogs(agent);
    pids.extend([rig.service.controller(), agent]);
    let words: Vec<String> = pids.iter().map(u32::to_string).collect();
    let begin = arm_words(&rig.service.fault, "frozen", &words);
    let ranks = rig.jobs.iter().flat_map(|job| &job.ranks);
    let mut watched = Watched::new(ranks, begin);
    while watched.runs().is_none() {
        watched.look("all of the service");
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("run again after {:?}", watched.runs());
    // Their processes are continued first.
    until("journals are gone", || {
        journals_of(&[agent]).is_empty().then_some(())
    });
}

/// The agent of another node has no parent in the service: it survives, and connects to the next
/// controller.
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
    // Its lease expires long before its controller is back: everything runs.
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
    // The controller said farewell to it.
    until("it ends in order", || agent.0.try_wait().unwrap());
}

#[test]
#[ignore = "takes minutes: the table of all phases"]
fn table() {
    use Who::{
        Agent, AgentStill, Controller, ControllerStill, Rank, Watchdog, WatchdogStill, Watchdogs,
    };
    let cases: [&[Who]; 14] = [
        &[Agent],
        &[Watchdog],
        &[Controller],
        &[Rank],
        &[AgentStill],
        &[ControllerStill],
        &[WatchdogStill],
        &[Agent, Watchdog],
        &[Agent, Watchdogs],
        &[Agent, Controller],
        &[Agent, Watchdogs, Controller],
        &[Agent, Rank],
        &[Watchdog, Controller],
        &[AgentStill, Watchdog],
    ];
    let n = std::env::var("IDLEWAVE_FAULT_ROUNDS");
    let freezer = std::env::var("IDLEWAVE_FAULT_FREEZER").ok();
    let n = n.map_or(1, |n| n.parse().unwrap());
    rounds(freezer.as_deref(), &cases, &PHASES, n);
}

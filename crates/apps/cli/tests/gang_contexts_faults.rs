//! Gangs with network contexts when processes of their service, or ranks, are killed at every phase
//! of a switch: ranks that keep their network continue and get what was sent to them, ranks that
//! lose it end and say so, and nothing is left behind.
//!
//! One gang runs idlewave's own messages, the other MPI's.
//!
//! A table of more rounds, with two processes killed at once, and an MPI library by name:
//!
//!     IDLEWAVE_FAULT_ROUNDS=5 IDLEWAVE_FAULT_MPI=mpich5 \
//!         cargo test --workspace --test gang_contexts_faults table -- --nocapture --ignored

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

#[path = "common/checked.rs"]
mod checked;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/gang.rs"]
mod gang;

use checked::{Program, Team};
use faults::{BOUND, Came, Watched, Who, kill_at, print_table};
use gang::{Rank, Service, groups_of, left_of, processes, until};
use idlewave_gang_agent::control::Status;
use idlewave_mpi::testing::{Installation, installation, skip};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

/// The ranks need the machine to themselves.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const PHASES: [&str; 9] = [
    "prepared", "drain", "freeze", "frozen", "decided", "context", "thaw", "thawed", "resume",
];

const POLICIES: [&str; 3] = ["all", "valid", "pointer"];

/// The body of the ranks of the other tests.
#[test]
fn a_rank_that_checks_what_comes() {
    checked::rank();
}

/// The MPI library named by `IDLEWAVE_FAULT_MPI`, or Debian's Open MPI, and the program compiled
/// for it.
struct Mpi {
    library: Installation,
    checked: PathBuf,
}

impl Mpi {
    fn find(directory: &Path) -> Option<Self> {
        let name = std::env::var("IDLEWAVE_FAULT_MPI");
        let library = installation(name.as_deref().unwrap_or("openmpi4"))?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let checked = directory.join("checked");
        let compiled = library.compile_c(&root.join("tests/programs/checked.c"), &checked);
        if compiled.is_none() {
            skip("there is no C compiler for MPI");
        }
        compiled.map(|()| Self { library, checked })
    }
}

struct Rig {
    mpi: Option<Mpi>,
    _directory: tempfile::TempDir,
    service: Service,
    teams: Vec<Team>,
    /// The gangs started.
    started: u32,
    agents: BTreeSet<u32>,
}

impl Rig {
    fn start(contexts: &str, slice: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let words = ["--slice", slice, "--no-yield", "--contexts", contexts];
        let service = Service::start(directory.path(), &words);
        let mut rig = Rig {
            mpi: Mpi::find(directory.path()),
            _directory: directory,
            service,
            teams: Vec::new(),
            started: 0,
            agents: BTreeSet::new(),
        };
        rig.complete("at the start");
        rig
    }

    /// Starts gangs until there are two, and waits until both are switched.
    fn complete(&mut self, when: &str) {
        while self.teams.len() < 2 {
            self.started += 1;
            let name = format!("team{}", self.started);
            let polls = self.started % 4 == 1;
            let own = Program::Own("a_rank_that_checks_what_comes", polls);
            let mpi = self.mpi.as_ref().filter(|_| self.started % 2 == 0);
            let mpi = mpi.map(|mpi| Program::Mpi(&mpi.library, &mpi.checked));
            let team = Team::start(&self.service, &name, &mpi.unwrap_or(own));
            self.teams.push(team);
        }
        let both = |s: &Status| s.rows.len() == 2 && s.nodes[0].coordinated;
        let begin = self.service.await_status(when, both).switches.switched;
        let more = |s: &Status| both(s) && s.switches.switched >= begin + 2;
        self.service.await_status(when, more);
        for rank in self.teams.iter().flat_map(|team| &team.ranks) {
            until("a rank runs", || (rank.count() > 0).then_some(()));
        }
    }

    fn fault(&mut self, phase: &str, who: &[Who]) -> Came {
        let when = format!("{who:?} at {phase}");
        let (agent, watchdog) = until("an agent is there", || self.service.agent());
        self.agents.insert(agent);
        let pid = |who: &Who| match who {
            Who::Controller => self.service.controller(),
            Who::Agent => agent,
            Who::Watchdog => watchdog,
            Who::Rank => self.teams[0].ranks[0].pid(),
            other => unreachable!("{other:?} is tried without contexts"),
        };
        let pids: Vec<u32> = who.iter().map(pid).collect();
        let begin = kill_at(&self.service, phase, &pids);
        // The devices belong to the agent, which ends when the controller does.
        let device = who.contains(&Who::Agent) || who.contains(&Who::Controller);
        let lost = match (device, who.contains(&Who::Rank)) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        let (losers, others) = self.teams.split_at_mut(lost);
        let mut watched = Watched::new(others.iter().flat_map(|team| &team.ranks), begin);
        let mut ended = None;
        let service = &mut self.service;
        let restart = who.contains(&Who::Controller);
        std::thread::scope(|scope| {
            // The service manager restarts the controller.
            let starter = restart.then(|| scope.spawn(|| service.again()));
            while ended.is_none() || watched.runs().is_none() {
                watched.look(&when);
                if ended.is_none() && losers.iter_mut().all(|team| team.ended().is_some()) {
                    ended = Some(begin.elapsed());
                }
                let said = || losers.iter().map(Team::said).collect::<Vec<_>>();
                assert!(
                    ended.is_some() || begin.elapsed() < BOUND,
                    "{when}: a gang does not end: {:?}",
                    said()
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            starter.map(|starter| starter.join().unwrap())
        });
        for (t, team) in losers.iter_mut().enumerate() {
            let (status, said) = (team.ended().unwrap(), team.said());
            assert!(!status.success(), "{when}: {said}");
            assert!(!said.contains("is not what was sent"), "{when}: {said}");
            let killed = who.contains(&Who::Rank) && t == 0;
            // A rank ends by itself. The reason depends on what ended first: the other rank, or its
            // node's network. One that gets no CPU after the other has ended is ended by its
            // starter, and says nothing.
            let says = |rank: u32| said.contains(&format!("rank {rank}: failed to go on: "));
            let told = killed || team.is_mpi || says(0) || says(1);
            assert!(told, "{when}: {status}: {said}");
            let ranks: Vec<u32> = team.ranks.iter().map(Rank::pid).collect();
            // An MPI launcher does not wait for ranks that it kills.
            until("the ranks are gone", || {
                let left = processes().iter().any(|p| ranks.contains(&p.0));
                (!left).then_some(())
            });
        }
        self.teams.drain(..lost);
        let runs = watched.runs().unwrap_or_default().max(ended.unwrap());
        let when = &when;
        std::thread::scope(|scope| {
            // Dropped when the gangs are complete, or never will be.
            let (completing, completed) = channel::<()>();
            let watched = &mut watched;
            scope.spawn(move || {
                while completed.try_recv() == Err(TryRecvError::Empty) {
                    watched.look(when);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _completing = completing;
            self.complete(when);
        });
        Came {
            runs,
            still: watched.still(),
            step: begin.elapsed(),
        }
    }

    /// The killed processes have been replaced, and nothing of them is left.
    fn whole(&mut self, who: &[Who], phase: &str) {
        let (agent, _) = until("agent and watchdog are there", || self.service.agent());
        let new = self.agents.insert(agent);
        let device = who.contains(&Who::Agent) || who.contains(&Who::Controller);
        assert_eq!(new, device, "{who:?} at {phase}: {}", self.service.said());
        self.agents.iter().filter(|a| **a != agent).for_each(gone);
    }

    fn end(self) {
        self.teams.into_iter().for_each(Team::finish);
        drop(self.service);
        self.agents.iter().for_each(gone);
    }
}

/// Nothing of an agent is left.
fn gone(agent: &u32) {
    until("devices, tickets and groups are gone", || {
        (left_of(*agent).is_empty() && groups_of(&[*agent]).is_empty()).then_some(())
    });
}

fn rounds(cases: &[&[Who]], phases: &[&str], rounds: usize) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut came = Vec::new();
    for _ in 0..rounds {
        for (i, phase) in phases.iter().enumerate() {
            // A separate service: it does not restart its agent indefinitely.
            let mut rig = Rig::start(POLICIES[i % 3], "20ms");
            for who in cases {
                let begin = std::time::Instant::now();
                let one = rig.fault(phase, who);
                rig.whole(who, phase);
                if std::env::var_os("SHOW").is_some() {
                    eprintln!("{who:?} {phase} {one:?} {:?}", begin.elapsed());
                }
                came.push((*who, *phase, one));
            }
            rig.end();
        }
    }
    print_table(cases, phases, &came);
}

#[test]
fn whoever_dies_while_contexts_are_switched_the_others_go_on_or_end_and_nothing_is_left() {
    use Who::{Agent, Controller, Rank, Watchdog};
    let cases: [&[Who]; 4] = [&[Agent], &[Watchdog], &[Controller], &[Rank]];
    rounds(&cases, &["drain", "context", "resume"], 1);
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

#[test]
#[ignore = "takes minutes: a hundred thousand switches"]
fn storm() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let wanted = std::env::var("IDLEWAVE_STORM").map_or(100_000, |n| n.parse().unwrap());
    for policy in POLICIES {
        let rig = Rig::start(policy, "1ms");
        let status = loop {
            std::thread::sleep(Duration::from_secs(1));
            let status = rig.service.await_status("all run", |s| s.rows.len() == 2);
            if status.switches.switched >= wanted / 3 {
                break status.switches;
            }
        };
        let rounds = rig.teams.iter().map(|team| team.ranks[0].count());
        let rounds: Vec<u64> = rounds.collect();
        let (switched, aborted) = (status.switched, &status.aborted);
        println!("{policy}: {switched} switches, aborted {aborted:?}, rounds {rounds:?}");
        rig.end();
    }
}

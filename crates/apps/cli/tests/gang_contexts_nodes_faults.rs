//! A gang with network contexts over two nodes, one of which loses its agent: the gang ends on both
//! and says why, and gangs of the other node continue. The nodes are namespaces of this machine
//! (tests/nodes/README.md).
//!
//! At all phases of a switch:
//!
//!     cargo test -p idlewave --test gang_contexts_nodes_faults table -- --nocapture --ignored

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used)]

#[path = "common/checked.rs"]
mod checked;
#[path = "common/faults.rs"]
mod faults;
#[path = "common/gang.rs"]
mod gang;
#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use faults::{BOUND, Watched, arm};
use gang::{Rank, until};
use idlewave_gang_agent::Control;
use idlewave_gang_agent::control::{Reply, Request, Status};
use rig::{root, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The controller with its own agent, and an agent on the other node that is restarted when it
/// ends, unless it is held. Then runs requested commands until the end.
const SCRIPT: &str = r#"
set -- $IDLEWAVE_NODES
at=$(awk -v n="$1" '$2 == n { print $1 }' /etc/hosts):7431
"$IDLEWAVE" gang start --socket "$DIR/gang.sock" --listen $at --key "$DIR/key" --slice 20ms --settle 100ms --no-yield --contexts valid 2>"$DIR/log" &
service=$!
while [ ! -e "$DIR/key" ]; do sleep 0.02; done
while [ ! -e "$DIR/end" ]; do
    "$AGENT" $2 "echo \$\$ >$DIR/agent; IDLEWAVE_GANG_FAULT=$DIR/fault exec $IDLEWAVE gang agent --controller $at --node 1 --key $DIR/key" 2>>"$DIR/log.1"
    while [ -e "$DIR/hold" ] && [ ! -e "$DIR/end" ]; do sleep 0.05; done
done &
agent=$!
while [ ! -e "$DIR/end" ]; do
    for job in "$DIR"/*.go; do
        [ -e "$job" ] || continue
        mv "$job" "$job.begun"
        { sh "$job.begun"; echo $? >"$job.code.part"; mv "$job.code.part" "$job.code"; } &
    done
    sleep 0.02
done
"$IDLEWAVE" gang stop --socket "$DIR/gang.sock" >/dev/null
wait $service
wait $agent
sleep 0.2
ls -d /dev/shm/idlewave-* >"$DIR/left" 2>/dev/null
"$AGENT" $2 "ls -d /dev/shm/idlewave-*" >>"$DIR/left" 2>/dev/null
true
"#;

/// The body of the ranks.
#[test]
fn a_rank_that_checks_what_comes() {
    checked::rank();
}

/// A gang of two ranks.
struct Team<'a> {
    dir: &'a Path,
    name: String,
    ranks: Vec<Rank>,
}

impl<'a> Team<'a> {
    /// Starts both ranks on the first node, or one on each node.
    fn start(dir: &'a Path, name: &str, over: bool) -> Self {
        let (submit, launch) = (env!("CARGO_BIN_EXE_idlewave"), |n: &str| {
            format!("mpirun.openmpi -n 2 --bind-to none --map-by {n}")
        });
        let (ranks, launcher) = match over {
            true => ("", launch("ppr:1:node")),
            false => ("--ranks 2", String::new()),
        };
        let of = |more: &str| dir.join(format!("{name}.{more}"));
        let (socket, said) = (dir.join("gang.sock"), of("said"));
        let (place, program) = (dir.join(name), std::env::current_exe().unwrap());
        // No launcher ends the other rank when one has lost its node's network.
        let line = format!(
            "exec '{submit}' gang submit --context 64KiB {ranks} --socket '{}' --name {name} -- {launcher} \
            env {}='{}' {}=1 '{}' --exact a_rank_that_checks_what_comes --nocapture >/dev/null 2>'{}'\n",
            socket.display(),
            checked::PLACE,
            place.display(),
            checked::LENIENT,
            program.display(),
            said.display(),
        );
        std::fs::write(of("part"), line).unwrap();
        std::fs::rename(of("part"), of("go")).unwrap();
        Self {
            dir,
            name: name.to_owned(),
            ranks: ["0", "1"].map(|rank| Rank(of(rank))).into(),
        }
    }

    fn of(&self, more: &str) -> PathBuf {
        self.dir.join(format!("{}.{more}", self.name))
    }

    fn said(&self) -> String {
        let said = std::fs::read_to_string(self.of("said")).unwrap_or_default();
        // Open MPI's launcher is sometimes too late to give its child a process group, and says so:
        // by then the child has one.
        let ours = |line: &&str| !line.contains("plm:rsh: Warning: setpgid(");
        said.split_inclusive('\n').filter(ours).collect()
    }

    /// Its exit code, if it has ended.
    fn ended(&self) -> Option<String> {
        std::fs::read_to_string(self.of("go.code")).ok()
    }

    /// Ends it cleanly.
    fn finish(self) {
        std::fs::write(self.of("stop"), "").unwrap();
        let code = until("the gang ends", || self.ended());
        assert_eq!((code.trim(), self.said().as_str()), ("0", ""));
        let counts: Vec<u64> = self.ranks.iter().map(Rank::count).collect();
        assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
    }
}

fn status(dir: &Path) -> Option<Status> {
    let mut control = Control::connect(&dir.join("gang.sock")).ok()?;
    match control.ask(&Request::Status) {
        Ok(Reply::Status(status)) => Some(*status),
        _ => None,
    }
}

/// What the controller and every team printed, and the exit codes of the teams that ended.
fn told(dir: &Path) -> String {
    let mut all = Vec::new();
    for file in std::fs::read_dir(dir).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if name == "log" || name.ends_with(".said") || name.ends_with(".code") {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            all.push(format!("{name}: {text}"));
        }
    }
    all.sort();
    all.join("\n")
}

#[track_caller]
fn await_status(dir: &Path, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    let end = Instant::now() + gang::LIMIT;
    loop {
        let status = status(dir);
        if let Some(status) = status.clone().filter(&wanted) {
            return status;
        }
        assert!(Instant::now() < end, "{what}: {status:#?}\n{}", told(dir));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All gangs take turns, on all nodes.
fn in_step(dir: &Path, what: &str, gangs: usize) {
    let all = |s: &Status| {
        let nodes = s.nodes.len() == 2 && s.nodes.iter().all(|node| node.coordinated);
        nodes && s.rows.len() == gangs
    };
    let more = await_status(dir, what, all).switches.switched + 4;
    await_status(dir, what, |s| all(s) && s.switches.switched > more);
}

/// Kills the other node's agent at a phase while a gang over both nodes, and two of the first one,
/// are switched.
fn lose(dir: &Path, phase: &str, here: &[Team], comes_back: bool) {
    let what = format!("agent killed at {phase}, comes back: {comes_back}");
    let over = Team::start(dir, &format!("over.{phase}.{comes_back}"), true);
    in_step(dir, &what, 3);
    for rank in over.ranks.iter().chain(here.iter().flat_map(|t| &t.ranks)) {
        until("a rank runs", || (rank.count() > 0).then_some(()));
    }
    // For example, nothing says that its ranks wait for each other forever.
    assert_eq!(over.said(), "", "{what}");
    if !comes_back {
        std::fs::write(dir.join("hold"), "").unwrap();
    }
    let agent = std::fs::read_to_string(dir.join("agent")).unwrap();
    let begin = arm(&dir.join("fault"), phase, &[agent.trim().parse().unwrap()]);
    // A node that sends nothing for 10 s is given up; until then its gang keeps the network.
    let bound = match comes_back {
        true => BOUND,
        false => BOUND * 2,
    };
    let ranks = here.iter().flat_map(|team| &team.ranks);
    let mut watched = Watched::new(ranks, begin).within(bound);
    let mut ended = None;
    while ended.is_none() || watched.runs().is_none() {
        watched.look(&what);
        ended = ended.or_else(|| over.ended().map(|_| begin.elapsed()));
        assert!(
            ended.is_some() || begin.elapsed() < bound,
            "{what}: the gang over both nodes does not end: {} {:#?}",
            over.said(),
            status(dir)
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let said = over.said();
    for rank in ["rank 0", "rank 1"] {
        let word = format!("{rank}: failed to go on: ");
        assert!(said.contains(&word), "{what}: {said}");
    }
    // The others keep being switched.
    let before = status(dir).unwrap().switches.switched;
    await_status(dir, &what, |s| s.switches.switched > before + 4);
    watched.look(&what);
    println!(
        "{what}: ended on both nodes after {} ms, others ran after {} ms and stood still for {} ms",
        ended.unwrap().as_millis(),
        watched.runs().unwrap().as_millis(),
        watched.still().as_millis()
    );
    let _ = std::fs::remove_file(dir.join("hold"));
    in_step(dir, &what, 2);
}

#[test]
fn a_gang_over_nodes_ends_when_one_of_them_loses_its_agent_and_others_go_on() {
    rounds(&[("drain", true), ("context", false)]);
}

#[test]
#[ignore = "takes minutes: the table of all phases"]
fn table() {
    let phases = [
        "drain", "freeze", "frozen", "context", "thaw", "thawed", "resume",
    ];
    let all = phases.map(|phase| [(phase, true), (phase, false)]);
    rounds(all.as_flattened());
}

/// Kills the agent at each of these phases, one after the other.
fn rounds(phases: &[(&str, bool)]) {
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        return skip("agents that freeze need root");
    }
    if Command::new("mpirun.openmpi").arg("-V").output().is_err() {
        return skip("mpirun.openmpi is not there");
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = directory.path();
    let agent = root().join("tests/nodes/agent");
    let variables = [
        ("DIR", dir),
        ("AGENT", agent.as_path()),
        ("OMPI_ALLOW_RUN_AS_ROOT", Path::new("1")),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", Path::new("1")),
    ];
    std::thread::scope(|scope| {
        let rig = scope.spawn(|| rig::on_nodes("with_nodes --free 2", SCRIPT, &variables));
        // If nodes are not available, the rig ends at once.
        while !dir.join("gang.sock").exists() {
            if rig.is_finished() {
                assert!(rig.join().unwrap().is_none(), "the rig ended");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = Ending(dir);
        await_status(dir, "both nodes greet", |s| s.nodes.len() == 2);
        let here = ["here", "there"].map(|name| Team::start(dir, name, false));
        in_step(dir, "at the start", 2);
        for (phase, comes_back) in phases {
            lose(dir, phase, &here, *comes_back);
        }
        // A gang over both nodes works again.
        let over = Team::start(dir, "over", true);
        in_step(dir, "with a new gang", 3);
        over.finish();
        here.into_iter().for_each(Team::finish);
        drop(end);
        let out = rig.join().unwrap().unwrap();
        assert!(out.status.success(), "{out:?}");
        let left = std::fs::read_to_string(dir.join("left")).unwrap();
        assert_eq!(left, "");
    });
}

/// Tells the rig to end, even if a test fails.
struct Ending<'a>(&'a Path);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("end"), "");
    }
}

//! Gang switching over several nodes, end to end: one controller, an agent on each node, jobs of
//! Open MPI over all of them. The nodes are namespaces of this machine (tests/nodes/README.md), so
//! their ranks' clock readings can be compared.
//!
//! With more nodes, and for longer:
//!
//!     IDLEWAVE_GANG_NODES=4 IDLEWAVE_GANG_SECONDS=30 cargo test -p idlewave --test gang_nodes -- --nocapture

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use idlewave_gang_agent::Control;
use idlewave_gang_agent::control::{Quantiles, Reply, Request, Status};
use rig::{root, skip};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);

/// Starts the controller with its own agent on the first node, and agents, which are restarted when
/// they end, on the others. Then starts two jobs.
const SCRIPT: &str = r#"
set -- $IDLEWAVE_NODES
at=$(awk -v n="$1" '$2 == n { print $1 }' /etc/hosts):7431
"$IDLEWAVE" gang start --socket "$DIR/gang.sock" --listen $at --key "$DIR/key" --slice 50ms --settle 1s --no-yield 2>"$DIR/log" &
while [ ! -e "$DIR/key" ]; do sleep 0.05; done
shift
k=0
for n in "$@"; do
    k=$((k + 1))
    while [ ! -e "$DIR/end" ]; do
        "$AGENT" $n "echo \$\$ >$DIR/agent.$k; exec $IDLEWAVE gang agent --controller $at --node $k --key $DIR/key" 2>>"$DIR/log.$k"
        sleep 0.2
    done &
done
while [ ! -e "$DIR/go" ]; do sleep 0.05; done
for job in a b; do
    "$IDLEWAVE" gang submit --verbose --socket "$DIR/gang.sock" --name $job -- \
        mpirun.openmpi -n $((2 * (k + 1))) --map-by ppr:2:node -x STRETCHES_END="$DIR/over" "$DIR/stretches" 900 default "$DIR/$job" 2>"$DIR/$job.said" &
    jobs="$jobs $!"
done
for job in $jobs; do wait $job || echo "job failed: $?"; done
: >"$DIR/end"
"$IDLEWAVE" gang stop --socket "$DIR/gang.sock"
sleep 0.5
"#;

fn status(directory: &Path) -> Option<Status> {
    let mut control = Control::connect(&directory.join("gang.sock")).ok()?;
    match control.ask(&Request::Status) {
        Ok(Reply::Status(status)) => Some(*status),
        _ => None,
    }
}

#[track_caller]
fn until(directory: &Path, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = status(directory).filter(&wanted) {
            return status;
        }
        if Instant::now() > end {
            let said =
                |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            panic!(
                "{what}: {:#?}\n{}{}",
                status(directory),
                said("log"),
                said("a.said")
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn now() -> u64 {
    idlewave_freeze::clock::now().get()
}

/// How often agents said that what they hold runs, whatever the controller ordered: they got no CPU
/// in time.
fn let_go(directory: &Path, nodes: u32) -> usize {
    let logs = (0..nodes).map(|k| match k {
        0 => directory.join("log"),
        _ => directory.join(format!("log.{k}")),
    });
    let texts = logs.filter_map(|log| std::fs::read_to_string(log).ok());
    let text: String = texts.collect();
    let times = |words: &str| text.matches(words).count();
    times("out of step, everything runs") + times("its watchdog thawed everything")
}

/// When a rank ran, in ns, within a window. A stretch begins and ends with clock readings, so it is
/// never too long.
fn ran(directory: &Path, job: &str, rank: u32, within: (u64, u64)) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(directory.join(format!("{job}.{rank}"))).unwrap();
    let stretches = text.lines().map(|line| {
        let (begin, end) = line.split_once(' ').unwrap();
        let (begin, end): (u64, u64) = (begin.parse().unwrap(), end.parse().unwrap());
        (begin.max(within.0), end.min(within.1))
    });
    stretches.filter(|(begin, end)| begin < end).collect()
}

/// When both ran.
fn overlap(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let both = pairs.map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
    both.filter(|(begin, end)| begin < end).collect()
}

fn say(what: &str, of: &Quantiles) {
    let us = |time: idlewave_units::Nanos| time.get() / 1000;
    println!(
        "{what}: median {} us, p90 {} us, p99 {} us, longest {} us (n={})",
        us(of.median),
        us(of.p90),
        us(of.p99),
        us(of.longest),
        of.n
    );
}

fn number(variable: &str, usual: u32) -> u32 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// Tells the rig to end, even if a test fails.
struct Ending<'a>(&'a Path);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        for file in ["over", "go"] {
            let _ = std::fs::write(self.0.join(file), "");
        }
    }
}

#[test]
fn gangs_over_several_nodes_are_switched_in_step_and_a_node_that_died_comes_back() {
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        return skip("agents that freeze need root");
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = directory.path();
    let done = Command::new("mpicc.openmpi")
        .args(["-O1", "-o"])
        .arg(dir.join("stretches"))
        .arg(root().join("tests/programs/stretches.c"))
        .status();
    if !done.is_ok_and(|status| status.success()) {
        return skip("mpicc.openmpi is not there");
    }
    let nodes = number("IDLEWAVE_GANG_NODES", 2);
    let seconds = number("IDLEWAVE_GANG_SECONDS", 10);
    let agent = root().join("tests/nodes/agent");
    let words = format!("with_nodes --free {nodes}");
    std::thread::scope(|scope| {
        let rig = scope.spawn(|| {
            let variables = [("DIR", dir), ("AGENT", agent.as_path())];
            rig::on_nodes(&words, SCRIPT, &variables)
        });
        let ending = Ending(dir);
        // If nodes are not available, the rig ends at once.
        while !dir.join("gang.sock").exists() {
            if rig.is_finished() {
                assert!(rig.join().unwrap().is_none(), "the rig ended");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        until(dir, "all nodes greet", |s| s.nodes.len() == nodes as usize);
        std::fs::write(dir.join("go"), "").unwrap();
        let all = |s: &Status| s.nodes.iter().all(|node| node.coordinated);
        let start = until(dir, "both jobs are switched on all nodes", |s| {
            let whole =
                |g: &idlewave_gang_agent::control::GangStatus| g.nodes.len() == nodes as usize;
            all(s) && s.rows.len() == 2 && s.gangs.iter().all(whole) && s.running.is_some()
        });
        // Past the first switch.
        until(dir, "switches", |s| {
            s.switches.switched > start.switches.switched + 1
        });
        let let_go_before = let_go(dir, nodes);
        let begin = now();
        std::thread::sleep(Duration::from_secs(u64::from(seconds) * 2 / 5));
        let middle = until(dir, "turns", |s| {
            s.switches.switched > start.switches.switched + 5
        });
        let end = now();
        // A rank that stands still for less than 10 ms counts as running, and the death of an agent
        // thaws its node: the turn in progress at the end must be whole.
        until(dir, "another turn", |s| {
            s.switches.switched > middle.switches.switched + 1
        });
        let let_go = let_go(dir, nodes) - let_go_before;
        let turns = middle.switches.switched - start.switches.switched;
        say(
            "from the stop to the last thaw",
            &middle.switches.cost.unwrap(),
        );
        say("between the nodes' thaws", &middle.switches.skew.unwrap());
        for (phase, of) in &middle.switches.phases {
            say(phase, of);
        }
        println!(
            "aborted: {:?}, given up: {}",
            middle.switches.aborted, middle.switches.missing
        );

        // The last node's agent dies. The others continue without it, and it comes back.
        let last = nodes - 1;
        let pid = std::fs::read_to_string(dir.join(format!("agent.{last}"))).unwrap();
        let killed = Instant::now();
        let done = Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(done.unwrap().success());
        let before = status(dir).unwrap().switches.switched;
        until(dir, "they go on", |s| s.switches.switched > before + 1);
        println!("switched again after {} ms", killed.elapsed().as_millis());
        until(dir, "it is another agent", |_| {
            let now = std::fs::read_to_string(dir.join(format!("agent.{last}")));
            now.is_ok_and(|now| now != pid && !now.is_empty())
        });
        let before = until(dir, "it is back", all).switches.switched;
        until(dir, "all go on", |s| {
            all(s) && s.switches.switched > before + 2
        });
        println!(
            "all nodes in step after {} ms",
            killed.elapsed().as_millis()
        );

        drop(ending);
        let out = rig.join().unwrap().unwrap();
        assert!(out.status.success(), "{out:?}");
        assert!(!String::from_utf8_lossy(&out.stdout).contains("job failed"));
        let ran = |job: &str, rank| ran(dir, job, rank, (begin, end));
        let (mut both, mut at, mut time) = (0, String::new(), [0, 0]);
        let ranks = 2 * nodes;
        for one in 0..ranks {
            for other in 0..ranks {
                for (begin, end) in overlap(&ran("a", one), &ran("b", other)) {
                    both += end - begin;
                    at += &format!("rank {one} of a and {other} of b: {begin} to {end}\n");
                }
            }
            for (time, job) in time.iter_mut().zip(["a", "b"]) {
                *time += ran(job, one).iter().map(|(b, e)| e - b).sum::<u64>();
            }
        }
        let share = |time: u64| 100.0 * time as f64 / (f64::from(ranks) * (end - begin) as f64);
        println!(
            "{nodes} nodes, {turns} switches: a runs {:.1} %, b {:.1} %, both {} ns",
            share(time[0]),
            share(time[1]),
            both
        );
        // Each gang runs, and while a runs on any node, b runs on none, unless a node was given up,
        // which the status shows, or its agent got no CPU in time, which its log shows.
        assert!(time.iter().all(|time| *time > 0));
        let given_up = middle.switches.missing - start.switches.missing;
        if given_up > 0 || let_go > 0 {
            println!("both may run: {given_up} given up, {let_go} times everything ran");
        } else {
            let said = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
            let (log, more) = (said("log"), said("log.1"));
            assert_eq!(both, 0, "from {begin} to {end}\n{at}{log}{more}");
        }
    });
}

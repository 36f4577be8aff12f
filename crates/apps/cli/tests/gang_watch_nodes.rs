//! Hangs over several nodes, which are namespaces of this machine (tests/nodes/README.md) with
//! their own host names, /dev/shm and /tmp.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use idlewave_mpi::testing::{installation, launcher_failed};
use rig::{root, skip};
use std::path::{Path, PathBuf};

/// The program of the tests of `idlewave-hangs`, and the command that starts four of its ranks on
/// two nodes, by library.
fn each(check: impl Fn(&Path, &str)) {
    with(&["openmpi4", "mpich4"], check);
}

fn with(libraries: &[&str], check: impl Fn(&Path, &str)) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../act/hangs/tests/programs/hangs.c");
    for (name, launch) in [
        ("openmpi4", "mpirun.openmpi -n 4 --map-by ppr:2:node"),
        ("mpich4", "mpiexec.mpich -n 4 -ppn 2"),
    ] {
        if !libraries.contains(&name) {
            continue;
        }
        let program: PathBuf = directory.path().join(name);
        let compiled = installation(name).and_then(|mpi| mpi.compile_c(&source, &program));
        match compiled {
            Some(()) => check(&program, launch),
            None => skip(&format!("{name} is not there, or has no C compiler")),
        }
    }
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs a script on the first of two nodes, with `$PROGRAM` and `$AGENT` (`$AGENT NODE COMMAND`);
/// once more if the launcher failed.
fn run(script: &str, program: &Path) -> Option<Ended> {
    let _turn = rig::turn();
    let agent = root().join("tests/nodes/agent");
    let variables = [("PROGRAM", program), ("AGENT", agent.as_path())];
    let on_nodes = || rig::on_nodes("with_nodes --free 2", script, &variables);
    let mut out = on_nodes()?;
    if launcher_failed(&String::from_utf8_lossy(&out.stderr)) {
        out = on_nodes()?;
    }
    Some(Ended {
        code: out.status.code(),
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    })
}

/// How long programs run that end by themselves: on a busy machine, no look may come about in a
/// short time.
const SECONDS: [u32; 3] = [2, 8, 32];

/// What is said if a look found no ranks of the second node.
const UNSEEN: &str = "2 of 4 ranks are on nodes that sent nothing";

/// Waits until the second node has no lookout and none of its leftovers.
const GONE: &str = r#"
set -- $IDLEWAVE_NODES
for i in $(seq 3000); do
    left=$("$AGENT" $2 ls /dev/shm | grep idlewave)
    [ -z "$left" ] && break
    sleep 0.1
done
echo "left: $left"
"#;

#[test]
fn a_deadlock_over_nodes_is_told_with_where_its_ranks_are_and_nothing_is_left() {
    each(|program, launch| {
        let script = format!(
            "\"$IDLEWAVE\" gang watch --kill --timeout 500s -- {launch} $PROGRAM receive; code=$?\n\
             {GONE}\necho $IDLEWAVE_NODES; exit $code"
        );
        let Some(done) = run(&script, program) else {
            return;
        };
        let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
        assert_eq!(done.code, Some(6), "{all}");
        assert!(
            done.stderr.contains("4 of 4 ranks will never continue"),
            "{all}"
        );
        let cycle = "rank 2 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)";
        assert!(done.stderr.contains(cycle), "{all}");
        let mut lines = done.stdout.lines().rev();
        let hosts: Vec<&str> = lines.next().unwrap().split(' ').collect();
        for (rank, host) in [(0, hosts[0]), (1, hosts[0]), (2, hosts[1]), (3, hosts[1])] {
            let there = done.stderr.lines().any(|line| {
                line.starts_with(&format!("  rank {rank} (process"))
                    && line.contains(&format!(" on {host})"))
            });
            assert!(there, "rank {rank} on {host}: {all}");
        }
        assert_eq!(lines.next(), Some("left: "), "{all}");
    });
}

#[test]
fn a_program_over_nodes_that_ends_has_no_deadlock_and_its_own_environment() {
    each(|program, launch| {
        for seconds in SECONDS {
            // The output shows the environment of the program itself once it has started.
            let script = format!(
                "\"$IDLEWAVE\" gang watch --json -- {launch} sh -c \
                 'echo \"lookout=$IDLEWAVE_LOOKOUT state=${{IDLEWAVE_STATE:+set}}\"; exec \"$0\" pingpong {seconds}' $PROGRAM; code=$?\n{GONE}\nexit $code"
            );
            let Some(done) = run(&script, program) else {
                return;
            };
            let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
            assert_eq!(done.code, Some(0), "{all}");
            let environments = done
                .stdout
                .lines()
                .filter(|line| line.starts_with("lookout="));
            assert!(environments.eq(["lookout= state=set"; 4]), "{all}");
            assert!(done.stdout.ends_with("left: \n"), "{all}");
            let events = done.stderr.lines();
            let events =
                events.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            let events: Vec<_> = events.collect();
            assert_eq!(events.len(), 1, "{all}");
            assert_eq!(events[0]["event"], "end");
            assert_eq!(events[0]["deadlocks"], 0);
            if events[0]["progressing"].as_u64() > Some(0) {
                return;
            }
        }
        panic!("{launch}: no look saw all ranks");
    });
}

#[test]
fn nodes_without_idlewave_are_not_watched_and_that_is_said() {
    with(&["openmpi4"], |program, launch| {
        for seconds in SECONDS {
            // Each node has its own /tmp.
            let script = format!(
                "cp \"$IDLEWAVE\" /tmp/iw && /tmp/iw gang watch -- {launch} $PROGRAM pingpong {seconds}; code=$?; rm /tmp/iw; exit $code"
            );
            let Some(done) = run(&script, program) else {
                return;
            };
            let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
            assert_eq!(done.code, Some(0), "{all}");
            if !done.stderr.contains(UNSEEN) {
                continue;
            }
            let words = format!("nothing is known: {UNSEEN}");
            assert!(done.stderr.contains(&words), "{all}");
            assert!(
                done.stderr.contains("the same idlewave there as /tmp/iw\n"),
                "{all}"
            );
            return;
        }
        panic!("{launch}: nothing was said");
    });
}

#[test]
fn another_idlewave_on_a_node_does_not_keep_the_program_from_running() {
    each(|program, launch| {
        for seconds in SECONDS {
            // A version that does not know relays, such as an older one.
            let script = format!(
                "set -- $IDLEWAVE_NODES\ncp \"$IDLEWAVE\" /tmp/iw\n\
                 \"$AGENT\" $2 \"printf '#!/bin/sh\\necho unknown; exit 2\\n' >/tmp/iw; chmod +x /tmp/iw\"\n\
                 /tmp/iw gang watch -- {launch} $PROGRAM pingpong {seconds}"
            );
            let Some(done) = run(&script, program) else {
                return;
            };
            let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
            assert_eq!(done.code, Some(0), "{all}");
            assert!(!done.stdout.contains("unknown"), "{all}");
            if done.stderr.contains(UNSEEN) {
                return;
            }
        }
        panic!("{launch}: nothing was said");
    });
}

#[test]
fn a_job_whose_variables_are_listed_runs_and_keeps_them() {
    with(&["openmpi4"], |program, _| {
        let script = "FOO=bar \"$IDLEWAVE\" gang watch -- mpirun.openmpi -n 2 --map-by ppr:1:node --mca mca_base_env_list FOO sh -c 'echo foo=$FOO'";
        let Some(done) = run(script, program) else {
            return;
        };
        let all = format!("{}\n{}", done.stdout, done.stderr);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "foo=bar\nfoo=bar\n"),
            "{all}"
        );
    });
}

#[test]
fn a_hang_is_told_though_a_cleaner_removed_the_pages_of_a_node() {
    with(&["mpich4"], |program, launch| {
        // Not before the lookout has mapped the pages of both ranks too: a rank that starts later
        // finds no library to be watched with.
        let script = format!(
            "\"$IDLEWAVE\" gang watch --kill --timeout 500s -- {launch} $PROGRAM late $PROGRAM.go & watch=$!\nset -- $IDLEWAVE_NODES\n\
             for i in $(seq 3000); do\n\
                 seen=$(\"$AGENT\" $2 'for page in /dev/shm/idlewave-node-*/*.state; do grep -sl \"$page\" /proc/[0-9]*/maps | wc -l; done')\n\
                 [ \"$(echo $seen)\" = '2 2' ] && break; sleep 0.05\n\
             done\n\
             echo \"mapped by:\" $seen; \"$AGENT\" $2 'rm -r /dev/shm/idlewave-node-*'; touch $PROGRAM.go\nwait $watch"
        );
        let Some(done) = run(&script, program) else {
            return;
        };
        let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("mapped by: 2 2\n"), "{all}");
        assert_eq!(done.code, Some(6), "{all}");
        assert!(
            done.stderr.contains("4 of 4 ranks will never continue"),
            "{all}"
        );
    });
}

#[test]
fn a_lookout_whose_watch_was_killed_ends_when_its_ranks_have() {
    with(&["openmpi4"], |program, launch| {
        // The ranks run until the file is there.
        let script = format!(
            "rm -f $PROGRAM.go\n\"$IDLEWAVE\" gang watch -- {launch} $PROGRAM phases $PROGRAM.go & watch=$!\nset -- $IDLEWAVE_NODES\n\
             for i in $(seq 3000); do \"$AGENT\" $2 ls /dev/shm | grep -q idlewave && break; sleep 0.05; done\n\
             kill -9 $watch; echo \"there: $(\"$AGENT\" $2 ls /dev/shm | grep -c idlewave-node)\"\ntouch $PROGRAM.go\n{GONE}"
        );
        let Some(done) = run(&script, program) else {
            return;
        };
        let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("there: 1\n"), "{all}");
        assert!(done.stdout.ends_with("left: \n"), "{all}");
    });
}

/// Starts the controller with its own agent on the first node, an agent on the second, and a
/// hanging gang of four ranks.
const GANG: &str = r#"
set -- $IDLEWAVE_NODES
DIR=$(mktemp -d)
at=$(awk -v n="$1" '$2 == n { print $1 }' /etc/hosts):7431
"$IDLEWAVE" gang start --socket $DIR/gang.sock --listen $at --key $DIR/key --slice 50ms 2>$DIR/log &
while [ ! -S $DIR/gang.sock ]; do sleep 0.05; done
cp $DIR/key "$KEY"
"$AGENT" $2 "exec $IDLEWAVE gang agent --controller $at --node 1 --key $KEY" 2>>$DIR/log &
# The controller ends only agents that it knows.
until "$IDLEWAVE" gang status --socket $DIR/gang.sock | grep -q "$2"; do sleep 0.05; done
"$IDLEWAVE" gang submit --kill --socket $DIR/gang.sock -- $LAUNCH $PROGRAM receive
code=$?
"$IDLEWAVE" gang stop --socket $DIR/gang.sock
wait
cat $DIR/log >&2
rm -r $DIR
exit $code
"#;

#[test]
fn a_gang_over_nodes_that_hangs_is_told_of_and_ended() {
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        return skip("agents that freeze need root");
    }
    with(&["mpich4"], |program, launch| {
        let key = program.with_extension("key");
        let script = format!("LAUNCH='{launch}' KEY={}\n{GANG}", key.display());
        let Some(done) = run(&script, program) else {
            return;
        };
        let all = format!("{launch}\n{}\n{}", done.stdout, done.stderr);
        assert_eq!(done.code, Some(6), "{all}");
        assert!(
            done.stderr.contains("4 of 4 ranks will never continue"),
            "{all}"
        );
    });
}

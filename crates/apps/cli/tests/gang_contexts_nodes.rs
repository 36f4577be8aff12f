//! Gangs with network contexts over two nodes, end to end: ranks that a launcher starts communicate
//! by UDP between the nodes' agents, and go through complete switches: those of one gang by
//! idlewave's own messages, those of the other by an MPI library over libfabric. The nodes are
//! namespaces of this machine (tests/nodes/README.md).

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use rig::{root, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const STEPS: &str = "200";

/// The controller with its own agent, an agent on the other node, two gangs of two ranks on each,
/// and what they leave behind.
const SCRIPT: &str = r#"
set -- $IDLEWAVE_NODES
at=$(awk -v n="$1" '$2 == n { print $1 }' /etc/hosts):7431
"$IDLEWAVE" gang start --socket "$DIR/gang.sock" --listen $at --key "$DIR/key" --slice 20ms --settle 100ms --no-yield --contexts valid 2>"$DIR/log" &
service=$!
while [ ! -s "$DIR/key" ]; do sleep 0.02; done
"$AGENT" $2 "exec $IDLEWAVE gang agent --controller $at --node 1 --key $DIR/key" 2>"$DIR/log.1" &
while ! "$IDLEWAVE" gang status --json --socket "$DIR/gang.sock" 2>/dev/null | grep -q '"node": 1'; do sleep 0.05; done
for job in own mpi; do
    [ $job = own ] && fabric=netctx || fabric=mpi
    "$IDLEWAVE" gang submit --context 1MiB --socket "$DIR/gang.sock" --name $job -- \
        mpirun.openmpi -n 4 --bind-to none --map-by ppr:2:node "$IDLEWAVE" measure halo --cells 12 --dims 1 --steps $STEPS --fabric $fabric --json >"$DIR/$job" 2>"$DIR/$job.said" &
    jobs="$jobs $!"
done
for job in $jobs; do wait $job || echo "job failed: $?"; done
"$IDLEWAVE" gang status --json --socket "$DIR/gang.sock" >"$DIR/status"
"$IDLEWAVE" gang stop --socket "$DIR/gang.sock" >/dev/null
wait $service
ls -d /dev/shm/idlewave-* >"$DIR/left" 2>/dev/null
true
"#;

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap_or_default()
}

fn checksum(text: &str) -> Option<String> {
    let all: Value = serde_json::from_str(text).ok()?;
    let results = &all["results"];
    assert_eq!(results["verified"], true);
    Some(results["checksum"].as_str()?.to_owned())
}

#[test]
fn gangs_over_two_nodes_are_drained_and_switched_and_compute_what_they_compute_alone() {
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
        ("STEPS", Path::new(STEPS)),
        ("OMPI_ALLOW_RUN_AS_ROOT", Path::new("1")),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", Path::new("1")),
    ];
    let Some(out) = rig::on_nodes("with_nodes --free 2", SCRIPT, &variables) else {
        return;
    };
    let said = || ["log", "log.1", "own.said", "mpi.said"].map(|name| read(dir, name));
    let failed = String::from_utf8_lossy(&out.stdout).contains("job failed");
    assert!(out.status.success() && !failed, "{out:?}\n{:#?}", said());
    let alone = Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args(["measure", "halo", "--cells", "12", "--dims", "1", "--json"])
        .args(["--steps", STEPS, "--ranks", "4"])
        .output();
    let alone = checksum(&String::from_utf8_lossy(&alone.unwrap().stdout));
    assert!(alone.is_some());
    for job in ["own", "mpi"] {
        assert_eq!(checksum(&read(dir, job)), alone, "{job}");
    }
    let status: Value = serde_json::from_str(&read(dir, "status")).unwrap();
    assert_eq!(status["contexts"], "valid");
    let nodes = status["nodes"].as_array().unwrap();
    let forged: Vec<_> = nodes.iter().map(|node| node["forged"].as_u64()).collect();
    assert_eq!(
        forged,
        [Some(0), Some(0)],
        "agents of one device have one key"
    );
    let phases = status["switches"]["phases"].as_array().unwrap();
    for name in ["drain", "context"] {
        let phase = phases.iter().find(|phase| phase[0] == name).unwrap();
        println!("{name}: {}", phase[1]);
        assert!(phase[1]["n"].as_u64() > Some(6), "{phases:#?}");
    }
    assert_eq!(read(dir, "left"), "");
}

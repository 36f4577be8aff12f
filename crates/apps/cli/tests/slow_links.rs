//! Slow links between nodes: what is measured over them, and how a calibration sees them. The nodes
//! are namespaces of this machine, see tests/nodes/README.md.

#![allow(clippy::unwrap_used)]

#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use rig::{on_nodes, root, turn};
use std::path::Path;
use std::process::{Command, Output};

/// A directory that all nodes share, unlike /tmp.
fn shared() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Runs `script` under `rig` with DIR set, and AGENT, which runs commands on a node.
fn on_links(rig: &str, script: &str, dir: &Path) -> Option<Output> {
    let agent = root().join("tests/nodes/agent");
    on_nodes(rig, script, &[("AGENT", &agent), ("DIR", dir)])
}

/// The devices that send at most 100 Mbit/s, according to the kernel.
fn limited(dir: &Path) -> Vec<String> {
    let limits = std::fs::read_to_string(dir.join("limits")).unwrap();
    let limited = limits
        .lines()
        .filter(|line| line.contains(" tbf ") && line.contains(" rate 100Mbit "));
    let device = |line: &str| {
        line.split(' ')
            .skip_while(|word| *word != "dev")
            .nth(1)
            .map(str::to_owned)
    };
    let mut devices: Vec<String> = limited.filter_map(device).collect();
    devices.sort();
    devices
}

#[test]
fn slow_links_carry_their_rate_and_no_more() {
    let _turn = turn();
    let dir = shared();
    let script = "cat $IDLEWAVE_NODES_TOPOLOGY >\"$DIR/topology\"; tc qdisc show >\"$DIR/limits\"\n\
                  for n in $IDLEWAVE_NODES; do \"$AGENT\" $n tc qdisc show >>\"$DIR/limits\"; done\n\
                  exec mpirun.openmpi -n 2 \"$IDLEWAVE\" measure pingpong --bytes 262144 --duration 300ms --json";
    let rig = "with_nodes --login --free --slots 1 --rate 100mbit 2";
    let Some(out) = on_links(rig, script, dir.path()) else {
        return;
    };
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let sizes = found["results"]["sizes"].as_array().unwrap();
    let longest = sizes.last().unwrap();
    assert_eq!(longest["bytes"], 1 << 18);
    // 12.5 MB/s less the headers of Ethernet, IP and TCP, and less what ranks without a CPU lose.
    let bandwidth = longest["bandwidth"].as_f64().unwrap();
    assert!((0.0..12.5e6).contains(&bandwidth), "{bandwidth}");
    assert_eq!(limited(dir.path()), ["eth0", "eth0", "port1", "port2"]);
    let topology = std::fs::read_to_string(dir.path().join("topology")).unwrap();
    let (switch, nodes) = topology.trim().split_once(" Nodes=").unwrap();
    assert_eq!((switch, nodes.split(',').count()), ("SwitchName=bridge", 2));
}

#[test]
fn nodes_below_different_leaves_share_the_uplink() {
    let _turn = turn();
    let dir = shared();
    let script = "cat $IDLEWAVE_NODES_TOPOLOGY >\"$DIR/topology\"; tc qdisc show >\"$DIR/limits\"\n\
                  exec mpirun.openmpi -n 4 \"$IDLEWAVE\" measure pingpong --pairs 2 --bytes 131072 --duration 300ms --json";
    let rig = "with_nodes --login --free --slots 1 --uplink 100mbit 4";
    let Some(out) = on_links(rig, script, dir.path()) else {
        return;
    };
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let sizes = found["results"]["sizes"].as_array().unwrap();
    // Both pairs are split by the spine. Each moves one message at a time, alternating between the
    // two directions: together no more than the two directions of the uplink carry.
    let total = sizes.last().unwrap()["total_bandwidth"].as_f64().unwrap();
    assert!((0.0..25e6).contains(&total), "{total}");
    assert_eq!(limited(dir.path()), ["down1", "down2", "up1", "up2"]);
    let topology = std::fs::read_to_string(dir.path().join("topology")).unwrap();
    let lines: Vec<&str> = topology.lines().collect();
    assert_eq!(lines.len(), 3, "{topology}");
    assert!(lines[0].starts_with("SwitchName=leaf1 Nodes=") && lines[0].contains("n1,"));
    assert!(lines[1].starts_with("SwitchName=leaf2 Nodes=") && lines[1].ends_with("n4"));
    assert_eq!(lines[2], "SwitchName=spine Switches=leaf1,leaf2");
}

/// Bytes per second of the slow link, and the bytes that it lets through at once.
const LINK: f64 = 12.5e6;
const BUCKET: f64 = 6400.0;

/// Whether a calibration was successful and has samples of all kinds.
fn is_complete(out: &Output) -> bool {
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let points = found["samples"]["points"].as_array();
    let has = |kind: &str| {
        let mut probes = points.into_iter().flatten().map(|p| &p["probe"]);
        probes.any(|probe| probe["kind"] == kind)
    };
    let kinds = ["ping_pong", "stream", "all_to_all", "memory"];
    out.status.success() && kinds.into_iter().all(has)
}

/// A calibration of a few seconds reveals that pairs share their nodes' links. It writes its files,
/// and its samples can be fitted again.
#[test]
fn pairs_of_two_nodes_get_their_share_of_a_slow_link() {
    let _turn = turn();
    let rig = "with_nodes --free --rate 100mbit 2";
    // Under other load, little or nothing fits into six seconds.
    let mut seconds = 6;
    let (dir, out) = loop {
        // Files of an earlier attempt would be refused.
        let dir = shared();
        let script = format!(
            "mpirun.openmpi -n 4 --map-by ppr:2:node \"$IDLEWAVE\" place calibrate --duration {seconds}s -o \"$DIR/net.toml\" \
             --samples \"$DIR/samples.json\" --html \"$DIR/net.html\" --json"
        );
        let Some(out) = on_links(rig, &script, dir.path()) else {
            return;
        };
        if seconds == 96 || is_complete(&out) {
            break (dir, out);
        }
        seconds *= 4;
    };
    assert_eq!(out.status.code(), Some(0));
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let parameters = &found["calibration"]["parameters"];
    // No single pair moved more than the link lets through plus what its bucket held. (Pairs do not
    // start at one moment, and the times are those of each.)
    let points = found["samples"]["points"].as_array().unwrap();
    let streams = points.iter().filter(|p| {
        let probe = &p["probe"];
        (&probe["kind"], &probe["way"]) == (&"stream".into(), &"outside".into())
            && (&probe["pairs"], &probe["both_ways"]) == (&1.into(), &false.into())
    });
    let mut samples = 0;
    for stream in streams {
        let of = |name: &str| stream["probe"][name].as_f64().unwrap();
        let moved = of("bytes") * of("messages");
        for seconds in stream["seconds"].as_array().unwrap() {
            let seconds = seconds.as_f64().unwrap();
            assert!(moved - BUCKET < LINK * seconds, "{stream}");
            samples += 1;
        }
    }
    assert!(samples > 0);
    // The fit may be off on a busy machine; a warning then says so.
    let warnings = found["calibration"]["warnings"].as_array().unwrap();
    let misfit = |w: &serde_json::Value| {
        w.as_str()
            .unwrap()
            .starts_with("the model does not explain")
    };
    if !warnings.iter().any(misfit) {
        for fitted in [
            &parameters["adapter"]["out"],
            &parameters["outside"]["bandwidth"],
        ] {
            // Messages that fit into the bucket are faster than the link.
            let known = fitted["origin"] != "assumed";
            assert!(!known || fitted["low"].as_f64().unwrap() < LINK, "{fitted}");
        }
    }
    assert!(found["samples"]["nodes"].as_array().unwrap().len() == 2);
    for file in ["net.toml", "net.html"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
    let again = Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args([
            "place",
            "calibrate",
            "-o",
            "again.toml",
            "--from",
            "samples.json",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(again.status.success());
    let shown = String::from_utf8_lossy(&again.stdout);
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(
        shown.contains("pairs of ranks between nodes") && shown.contains("all-to-all over 2 nodes")
    );
    let read = |file| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(read("again.toml"), read("net.toml"));
}

#[test]
fn samples_that_are_none_are_refused_in_one_line() {
    let dir = shared();
    std::fs::write(dir.path().join("samples.json"), "{}").unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_idlewave"))
        .args(["place", "calibrate", "--from", "samples.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(5));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.starts_with("idlewave: failed to read samples.json:"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
}

//! Compares the model of a shared network with nodes with slow links: the curve over simultaneous
//! pairs, and the best number of ranks per node for a sort and for a halo exchange. The nodes are
//! namespaces of this machine (tests/nodes/README.md), which is shared with others: each claim gets
//! several attempts, and each attempt's results are printed.

#![allow(clippy::unwrap_used)]

#[path = "common/precedence.rs"]
mod precedence;
#[path = "../../../../tests/nodes/rig.rs"]
mod rig;

use idlewave_mpi::testing::launcher_failed;
use rig::root;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

const ATTEMPTS: usize = 6;

/// Runs `idlewave place` on all ranks of this many nodes; `None`, with the reason printed, if they
/// are not available. Each rank's session takes precedence, whoever started it.
fn on_nodes(nodes: u32, slots: u32, arguments: &str) -> Option<Output> {
    let ranks = nodes * slots;
    let script = format!(
        "mpirun.openmpi -n {ranks} --map-by ppr:{slots}:node \
         sh -c 'echo -20 >/proc/self/autogroup; exec \"$@\"' sh \
         \"$IDLEWAVE\" place {arguments} --json"
    );
    let rig = format!("with_nodes --free --rate 100mbit --slots {slots} {nodes}");
    for _ in 0..ATTEMPTS {
        let out = rig::on_nodes(&rig, &script, &[])?;
        if !launcher_failed(&String::from_utf8_lossy(&out.stderr)) {
            return Some(out);
        }
    }
    panic!("the launcher fails");
}

fn parsed(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap()
}

/// For all pairs together, one way between nodes, with the longest messages: number of pairs,
/// measured bytes per second. Empty if these messages are short.
fn curve(found: &Value) -> Vec<(u64, f64)> {
    let points = found["calibration"]["points"].as_array().unwrap();
    let mut streams = Vec::new();
    for point in points {
        let probe = &point["probe"];
        if probe["kind"] == "stream" && probe["way"] == "outside" && probe["both_ways"] == false {
            let number = |name: &str| probe[name].as_u64().unwrap();
            let (pairs, bytes) = (number("pairs"), number("bytes"));
            let moved = (bytes * number("messages") * pairs) as f64;
            streams.push((
                bytes,
                pairs,
                moved / point["seconds"]["value"].as_f64().unwrap(),
            ));
        }
    }
    let longest = streams.iter().map(|s| s.0).max().unwrap_or(0);
    if longest < 64 << 10 {
        return Vec::new();
    }
    let of_longest = streams.into_iter().filter(|s| s.0 == longest);
    of_longest.map(|(_, pairs, rate)| (pairs, rate)).collect()
}

#[test]
fn pairs_share_a_link_as_the_model_says_and_ranks_per_node_come_in_its_order() {
    precedence::go_before_others();
    let dir = tempfile::tempdir_in(root().join("target")).unwrap();
    let network = dir.path().join("net.toml");
    let mut told = Vec::new();
    let mut calibrated = false;
    for attempt in 0..ATTEMPTS {
        let file = dir.path().join(format!("net{attempt}.toml"));
        let seconds = 12 * (attempt + 1);
        let arguments = format!("calibrate --duration {seconds}s -o {}", file.display());
        let Some(out) = on_nodes(2, 4, &arguments) else {
            return;
        };
        let words = String::from_utf8_lossy(&out.stderr);
        // Where others take the CPUs, too little may have been measured.
        if words.contains("nothing was measured") || words.contains("more time (--duration)") {
            told.push(words.into_owned());
            continue;
        }
        assert!(out.status.success(), "{out:?}");
        let found = parsed(&out);
        let adapter = found["calibration"]["parameters"]["adapter"]["out"]["value"]
            .as_f64()
            .unwrap();
        let curve = curve(&found);
        let pairs: Vec<u64> = curve.iter().map(|c| c.0).collect();
        // One pair fills the link, so each of k pairs gets a kth: the model's total does not depend
        // on k.
        let off: Vec<f64> = curve
            .iter()
            .map(|(_, total)| total / adapter - 1.0)
            .collect();
        told.push(format!(
            "pairs {pairs:?}: adapter {adapter:.0} B/s, totals off by {off:.3?}"
        ));
        if pairs == [1, 2, 3, 4] && off.iter().all(|off| off.abs() < 0.1) {
            // These nodes compute on the same CPUs, whatever the number of ranks on each: the
            // slow-down does not depend on the node.
            let text = std::fs::read_to_string(&file).unwrap();
            let (kept, _) = text.split_once("[[slow_down]]").unwrap_or((&text, ""));
            std::fs::write(&network, kept).unwrap();
            calibrated = true;
            break;
        }
    }
    println!("{}", told.join("\n"));
    assert!(calibrated, "{told:?}");
    for (workload, best) in [("is:W", 1), ("halo:128,steps=10,dims=1,open", 2)] {
        order_is_predicted(workload, best, &network);
    }
}

/// Four ranks one or two per node: measured and predicted agree on which is faster.
fn order_is_predicted(workload: &str, best: u64, network: &Path) {
    let mut told = Vec::new();
    for _ in 0..ATTEMPTS {
        let arguments = format!(
            "study --workload {workload} --ranks 4 --repeats 1 --network {}",
            network.display()
        );
        let Some(out) = on_nodes(4, 2, &arguments) else {
            return;
        };
        assert!(out.status.success(), "{out:?}");
        let found = parsed(&out);
        let mut rows: Vec<(f64, f64, u64)> = found["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let predicted = row["predicted"]["value"].as_f64().unwrap();
                let total = row["total"]["value"].as_f64().unwrap();
                (total, predicted, row["ranks_per_node"].as_u64().unwrap())
            })
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let same = rows.windows(2).all(|w| w[0].1 < w[1].1);
        told.push(format!(
            "{workload}: measured, predicted, per node: {rows:.3?}"
        ));
        assert_eq!(rows.len(), 2);
        if same && rows[0].2 == best {
            println!("{}", told.join("\n"));
            return;
        }
    }
    panic!("{told:#?}");
}

//! Synthetic placements and a synthetic study, with plausible numbers that are easy to recognise.

use crate::placement::{
    LinkLoad, LoadPicture, MemoryFit, NodeLoad, PlacementFile, PlacementRow, PlacementSheet,
    StudyRow, StudySheet, SwitchSheet,
};
use idlewave_run::findings::Estimate;

fn estimate(value: f64, width: f64, method: &str) -> Estimate {
    Estimate {
        value,
        low: value - width,
        high: value + width,
        n: 9,
        method: method.to_owned(),
    }
}

const PREDICTED: &str = "over the intervals of the parameters, 95 %";

/// `ranks` ranks on nodes of 8 cores, with 1, 2, 4 and 8 per node; `leaf` nodes per leaf switch.
/// With few ranks per node the links are slow, with many the adapter and the memory.
pub fn placement_sheet(ranks: u32, leaf: u32) -> PlacementSheet {
    let row = |k: u32| {
        let nodes = ranks.div_ceil(k);
        let (adapter, memory) = (0.11 * f64::from(k).powf(1.3), 0.05 * f64::from(k));
        let links = 0.2 * f64::from(nodes) / f64::from(ranks);
        let seconds = 0.6 + adapter + memory + links;
        let part = |name: &str, of: f64| (name.to_owned(), of / seconds);
        PlacementRow {
            ranks_per_node: k,
            nodes,
            how: format!(
                "{} of {leaf} nodes, blocks",
                if nodes > leaf { "leaves" } else { "a leaf" }
            ),
            seconds: estimate(seconds, 0.05 + 0.01 * f64::from(k), PREDICTED),
            node_seconds: seconds * f64::from(nodes),
            limit: if k > 2 {
                "adapter out of n3"
            } else {
                "core 0 of n1"
            }
            .to_owned(),
            limit_share: adapter / seconds,
            memory: match k {
                8 => MemoryFit::Exceeds,
                4 => MemoryFit::Unknown,
                _ => MemoryFit::Fits,
            },
            same_as_best: k <= 2,
            bound_seconds: seconds * 0.8,
            lower_bound_seconds: seconds * 0.7,
            parts: vec![
                part("computation", 0.5),
                part("overhead", 0.06),
                part("latency", 0.04),
                part("memory", memory),
                part("adapter", adapter),
                part("links", links),
            ],
        }
    };
    let rows: Vec<PlacementRow> = [1, 2, 4, 8].into_iter().map(row).collect();
    PlacementSheet {
        what: "an all-to-all & a stencil of <made> ranks".to_owned(),
        network: "fat tree, two levels, 1 Gbit/s".to_owned(),
        details: vec![
            format!("{ranks} ranks; messages of 1 MiB"),
            "simulated annealing, 2000 moves".to_owned(),
        ],
        command: ["idlewave", "place", "my program.goal", "--network", "net.toml"]
            .map(str::to_owned)
            .to_vec(),
        idlewave: "0.0.0-test".to_owned(),
        seed: 42,
        best: 1,
        baseline: Some(3),
        chosen: Some(loads(ranks, 2, leaf)),
        baseline_loads: Some(loads(ranks, 8, leaf)),
        files: vec![
            PlacementFile {
                name: "job.sh".to_owned(),
                content: "#!/bin/sh\n#SBATCH --nodes=8\n#SBATCH --ntasks-per-node=2\nsrun ./a.out <input >output\n".to_owned(),
            },
            PlacementFile {
                name: "rankfile".to_owned(),
                content: (0..ranks)
                    .map(|r| format!("rank {r}=n{} slot={}\n", r / 2 + 1, r % 2))
                    .collect(),
            },
        ],
        not_modelled: vec![
            "adaptive routing".to_owned(),
            "congestion trees, and packets of many senders that meet at one receiver".to_owned(),
        ],
        assumed: vec!["2 of 1000 steps are played".to_owned()],
        warnings: vec!["the memory of n7 is not known".to_owned()],
        rows,
    }
}

/// A tree: leaves with `leaf` nodes each, below two core switches.
fn loads(ranks: u32, per_node: u32, leaf: u32) -> LoadPicture {
    let nodes = ranks.div_ceil(per_node);
    let leaves = nodes.div_ceil(leaf);
    let busy = |n: u32| 0.1 * f64::from(per_node) + 0.03 * f64::from(n % 5);
    let node = |n: u32| NodeLoad {
        name: format!("n{}", n + 1),
        leaf: Some((n / leaf) as usize),
        ranks: (n * per_node..ranks.min((n + 1) * per_node)).collect(),
        out: busy(n),
        into: busy(n + 2),
        memory: 0.05 * f64::from(per_node),
    };
    let switch = |level: u32| {
        move |s: u32| SwitchSheet {
            name: format!("{}{}", if level == 0 { "leaf" } else { "core" }, s + 1),
            level,
            at: Vec::new(),
        }
    };
    let mut switches: Vec<SwitchSheet> = (0..leaves).map(switch(0)).collect();
    switches.extend((0..2).map(switch(1)));
    let link = |from: u32, to: u32| LinkLoad {
        from: from as usize,
        to: to as usize,
        bytes: 1e8 * f64::from(from + 1),
        utilisation: 0.08 * f64::from((3 * from + 5 * to) % 12),
    };
    let links =
        (0..leaves).flat_map(|l| (0..2).flat_map(move |c| [(l, leaves + c), (leaves + c, l)]));
    LoadPicture {
        nodes: (0..nodes).map(node).collect(),
        switches,
        links: links.map(|(from, to)| link(from, to)).collect(),
    }
}

/// The 4-rank and 8-rank rows of a published study on Gigabit Ethernet, with made-up spreads, and
/// predictions for 8 ranks.
pub fn study_sheet() -> StudySheet {
    let table = [
        (4, 1, 4, 14.11, 5.99, 1.32, true),
        (4, 2, 2, 20.74, 14.36, 1.23, false),
        (4, 4, 1, 18.12, 12.1, 1.0, false),
        (8, 1, 8, 13.31, 6.72, 1.92, false),
        (8, 2, 4, 17.3, 13.4, 1.0, false),
        (8, 4, 2, 15.48, 12.0, 1.37, false),
        (8, 8, 1, 10.79, 8.0, 0.91, true),
    ];
    let measured = |seconds: f64| estimate(seconds, 0.03 * seconds, "median of repetitions, 95 %");
    let row = |(ranks, nodes, ranks_per_node, total, collective, point, is_minimum)| StudyRow {
        ranks,
        nodes,
        ranks_per_node,
        total: measured(total),
        collective: Some(measured(collective)),
        point_to_point: (nodes != 1).then(|| measured(point)),
        is_minimum,
        predicted: (ranks > 4).then(|| estimate(total * 1.08, 0.1 * total, PREDICTED)),
    };
    StudySheet {
        what: "IS, class C, on Gigabit Ethernet & <made> nodes".to_owned(),
        details: vec!["nodes of 8 cores, one switch".to_owned()],
        command: ["idlewave", "study", "placement"]
            .map(str::to_owned)
            .to_vec(),
        idlewave: "0.0.0-test".to_owned(),
        rows: table.into_iter().map(row).collect(),
        notes: vec!["8 ranks, 2 per node: not enough free memory".to_owned()],
        warnings: vec!["one of the nodes was busy with something else".to_owned()],
    }
}

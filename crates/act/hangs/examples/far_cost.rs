//! Measures what a look costs when many nodes are watched: `cargo run --release -p idlewave-hangs
//! --example far_cost [RANKS_PER_NODE]`.
//!
//! Answers are synthetic; nothing is sent. A look asks all nodes, reads their answers and judges.
//! Ranks that move report no tables; ranks that stand still report them once.

use idlewave_hangs::{Ask, Settings, Told, Watch};
use idlewave_units::NodeId;
use std::error::Error;
use std::time::{Duration, Instant};

const LOOKS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let ranks: u32 = given.map_or(Ok(64), |text| text.parse())?;
    println!("{ranks} ranks per node; median (least..most) of {LOOKS} looks");
    for nodes in [1, 16, 128, 1024] {
        for (what, moves) in [("all move", true), ("all stand still", false)] {
            let (mut times, bytes) = looks(nodes, ranks, moves)?;
            times.sort();
            let ms = |at: usize| times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3);
            println!(
                "{nodes} nodes, {what}: {:.2} ms ({:.2}..{:.2}), {bytes} bytes per look",
                ms(LOOKS / 2),
                ms(0),
                ms(LOOKS - 1)
            );
        }
    }
    Ok(())
}

fn looks(nodes: u32, ranks: u32, moves: bool) -> Result<(Vec<Duration>, usize), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("idlewave-far-cost-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let mut watch = Watch::with(&directory, Settings::default());
    let here = Told::Here {
        host: "node".to_owned(),
        still: Some(!moves),
    };
    for node in 0..nodes {
        watch
            .far
            .hear(Instant::now(), NodeId::new(node), &here.encode())?;
    }
    let (mut times, mut bytes) = (Vec::new(), 0);
    // In the first two looks, everything is new.
    for look in 0..LOOKS + 2 {
        let begin = Instant::now();
        watch.far.ask(begin, true);
        let asked = begin.elapsed();
        let mut answers = Vec::new();
        for (node, ask) in watch.far.take() {
            let Ask::Look { round, have, .. } = Ask::decode(&ask)? else {
                continue;
            };
            answers.push((
                node,
                answer(round, node.get(), nodes, ranks, moves, !have.is_empty())?,
            ));
        }
        bytes = answers.iter().map(|(_, answer)| answer.len()).sum();
        let begin = Instant::now();
        for (node, answer) in &answers {
            watch.far.hear(begin, *node, answer)?;
        }
        let seen = watch.look()?;
        if look >= 2 {
            times.push(asked + begin.elapsed());
            assert_eq!(seen.ranks.len() as u32, nodes * ranks);
        }
    }
    std::fs::remove_dir_all(&directory)?;
    Ok((times, bytes))
}

/// The answer of a node whose ranks are part of a ring. Each has sent to both neighbours and waits
/// for the left one.
fn answer(
    round: u64,
    node: u32,
    nodes: u32,
    ranks: u32,
    moves: bool,
    known: bool,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let bare = moves || known;
    let pages = (0..ranks).map(|number| {
        let (rank, size) = (node * ranks + number, nodes * ranks);
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let epoch = if moves { 1_000_000 + 2 * round } else { 1_000_000 };
        let tables = |some: serde_json::Value| if bare { serde_json::json!([]) } else { some };
        let pair = |peer: u32| serde_json::json!({"communicator": 9, "peer": peer, "sent": {"Tags": [[7, 5000]]}, "received": {"Tags": [[7, 4999]]}});
        serde_json::json!({
            "number": number,
            "process": {"pid": 20_000 + number, "start": 7_581_000, "pid_namespace": 4_026_531_836_u64, "host": "node"},
            "kernel": {"There": {"stopped": false, "cpu": {"secs": 3, "nanos": 30_000_000}}},
            "cpu_before": {"secs": 2, "nanos": 950_000_000},
            "still": {"secs": 0, "nanos": 0},
            "spent": [], "unchanged": 0, "bare": bare,
            "record": {
                "phase": "Running", "rank": rank, "size": size, "unknown": 0, "epochs": [epoch, epoch], "mode": 1, "partial": false,
                "function": 3, "polls": 0, "posted": [],
                "wants": tables(serde_json::json!([{"Receive": {"communicator": 9, "from": left, "tag": 7, "slot": null}}])),
                "communicators": tables(serde_json::json!([{"key": 9, "members": size, "world": true, "entered": 3, "last": {"class": 1, "which": 0, "root": 0}}])),
                "pairs": tables(serde_json::json!([pair(left), pair(right)])),
            }
        })
    });
    let pages: Vec<serde_json::Value> = pages.collect();
    let told =
        serde_json::json!({"looked": {"round": round, "part": 0, "parts": 1, "ranks": pages}});
    Ok(serde_json::from_value::<Told>(told)?.encode())
}

//! `idlewave place`: table, JSON and files agree.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "place/load.rs"]
mod load;
#[path = "place/refused.rs"]
mod refused;

use common::{Ended, idlewave, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// 27 ranks in a cube on 9 nodes of 8 cores: uneven, and there are better orders than blocks.
const CUBE: &str = "--pattern halo -n 27 --nodes 9 --cores 8";
/// Two leaf switches of four nodes each below one switch, a gigabyte per second everywhere.
const TREE: &str = r#"
kind = "fat-tree"
nodes_per_leaf = 4
leaves = 2
spines = 1
cores = 4
memory = "4 GiB"
capacity = "1 GB/s"
"#;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn written(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn place(dir: &TempDir, options: &str) -> Ended {
    run(idlewave()
        .arg("place")
        .args(options.split_whitespace())
        .current_dir(dir))
}

#[track_caller]
fn json(dir: &TempDir, options: &str) -> Value {
    let ended = place(dir, &format!("{options} --json"));
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

fn seconds(row: &Value) -> f64 {
    row["seconds"]["value"].as_f64().unwrap()
}

/// The node of each rank in the recommended placement.
fn nodes_of_ranks(answer: &Value) -> Vec<String> {
    let ranks = answer["ranks"].as_array().unwrap();
    let node = |rank: &Value| rank["node"].as_str().unwrap().to_owned();
    ranks.iter().map(node).collect()
}

fn entries(dir: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    names.map(|n| n.into_string().unwrap()).collect()
}

/// Checks what holds for every answer.
#[track_caller]
fn sound(answer: &Value, ranks: usize) {
    let rows = answer["rows"].as_array().unwrap();
    let best = &rows[answer["best"].as_u64().unwrap() as usize];
    let fits = |row: &&Value| row["memory"] != "exceeds";
    let least = rows.iter().filter(fits).map(seconds);
    let least = least.fold(f64::INFINITY, f64::min);
    assert!(seconds(best) <= 1.005 * least, "{best}: {least}");
    assert_eq!(best["same_as_best"], true);
    for row in rows {
        let parts = row["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|p| p[1].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{row}");
        let [low, high] = ["low", "high"].map(|end| row["seconds"][end].as_f64().unwrap());
        assert!(low <= seconds(row) && seconds(row) <= high, "{row}");
        let [bound, cost] =
            ["lower_bound_seconds", "node_seconds"].map(|key| row[key].as_f64().unwrap());
        assert!(bound <= seconds(row) * (1.0 + 1e-9), "{row}");
        let nodes = row["nodes"].as_f64().unwrap();
        assert!((cost - seconds(row) * nodes).abs() <= 1e-9 * cost, "{row}");
    }
    let at = nodes_of_ranks(answer);
    assert_eq!(at.len(), ranks);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for node in &at {
        *counts.entry(node).or_default() += 1;
    }
    assert_eq!(counts.len() as u64, best["nodes"].as_u64().unwrap());
    assert_eq!(
        counts.values().max().copied(),
        best["ranks_per_node"].as_u64()
    );
    // The loads belong to the same placement.
    for node in answer["chosen"]["nodes"].as_array().unwrap() {
        for rank in node["ranks"].as_array().unwrap() {
            assert_eq!(node["name"], at[rank.as_u64().unwrap() as usize].as_str());
        }
    }
}

#[test]
fn table_and_json_agree() {
    let dir = directory();
    let answer = json(&dir, CUBE);
    sound(&answer, 27);
    let assumed = answer["assumed"].to_string();
    assert!(!assumed.contains("end with others"), "{assumed}");
    let ended = place(&dir, CUBE);
    ended.succeeded();
    for line in ended.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let best = &answer["rows"][answer["best"].as_u64().unwrap() as usize];
    let [k, nodes] = ["ranks_per_node", "nodes"].map(|key| best[key].as_u64().unwrap());
    let title = ended
        .stdout
        .lines()
        .find(|l| l.starts_with("TAKE"))
        .unwrap();
    assert!(
        title.contains(&format!(" {k} rank")) && title.contains(&format!(" {nodes} nodes")),
        "{title}"
    );
    // Numbers of the table, by ranks per node.
    let rows = answer["rows"].as_array().unwrap();
    let mut seen = 0;
    let table = ended.stdout.lines().skip_while(|l| !l.starts_with("  per"));
    for line in table.skip(1).take_while(|l| !l.is_empty()) {
        let words: Vec<&str> = line[1..].split_whitespace().collect();
        let of = |row: &&Value| row["ranks_per_node"].as_u64() == words[0].parse().ok();
        let least = rows.iter().filter(of).map(seconds);
        let least = least.fold(f64::INFINITY, f64::min);
        let shown: f64 = words[2].parse().unwrap();
        assert!((shown / least - 1.0).abs() < 0.01, "{line}: {least}");
        assert_eq!(line.starts_with('>'), words[0].parse() == Ok(k), "{line}");
        seen += 1;
    }
    let numbers: BTreeSet<u64> = rows
        .iter()
        .map(|r| r["ranks_per_node"].as_u64().unwrap())
        .collect();
    assert_eq!(seen, numbers.len());
    assert!(ended.stdout.contains("NEXT\n") && ended.stdout.contains("#SBATCH --nodes="));
    assert_eq!(entries(dir.path()), BTreeSet::new());
}

#[test]
fn files_are_those_of_the_answer() {
    let dir = directory();
    let options = format!("{CUBE} -o placed --html page.html");
    let answer = json(&dir, &options);
    let read = |name: &str| fs::read_to_string(dir.path().join("placed").join(name)).unwrap();
    let files = answer["files"].as_array().unwrap();
    let names = files.iter().map(|f| f["name"].as_str().unwrap().to_owned());
    assert_eq!(
        names.collect::<BTreeSet<_>>(),
        entries(&dir.path().join("placed"))
    );
    for file in files {
        assert_eq!(file["content"], read(file["name"].as_str().unwrap()));
    }
    let at = nodes_of_ranks(&answer);
    let hosts: Vec<String> = read("slurm_hostfile").lines().map(str::to_owned).collect();
    assert_eq!(hosts, at);
    // The node names are invented; the manuals of the launchers tell which formats have comments.
    let remark = "# nodes are called n1 to n9: replace them with your node names";
    for (name, line) in [
        ("rankfile", 0),
        ("hostfile", 0),
        ("hostfile.mpich", 0),
        ("job.sbatch", 1),
        ("job.flux", 1),
        ("job.pbs", 1),
    ] {
        assert_eq!(read(name).lines().nth(line), Some(remark), "{name}");
    }
    // rank 3=n1 slot=2: each core of a node once.
    let mut cores = BTreeSet::new();
    for (rank, line) in read("rankfile").lines().skip(1).enumerate() {
        let (begin, place) = line.split_once('=').unwrap();
        assert_eq!(begin, format!("rank {rank}"));
        let (node, core) = place.split_once(" slot=").unwrap();
        assert_eq!(node, at[rank]);
        assert!(core.parse::<u32>().unwrap() < 8, "{line}");
        assert!(cores.insert(place.to_owned()), "{line}");
    }
    let slots: u64 = read("hostfile")
        .lines()
        .skip(1)
        .map(|l| l.rsplit('=').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(slots, 27);
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("27 ranks"));
    // Nothing is overwritten, and a failed write leaves nothing behind.
    for options in ["-o placed", "--html page.html", "-o page.html"] {
        let [what, next] = place(&dir, &format!("{CUBE} {options}")).failed(4);
        assert!(what.ends_with("it already exists"), "{what}");
        assert!(next.contains("choose another name"), "{next}");
    }
    let both = ["page.html", "placed"].map(str::to_owned);
    assert_eq!(entries(dir.path()), BTreeSet::from(both));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let dir = directory();
    let once = json(&dir, &format!("{CUBE} --seed 7"));
    assert_eq!(once, json(&dir, &format!("{CUBE} --seed 7")));
    assert_eq!(once["seed"], 7);
    let told = [1, 2].map(|_| place(&dir, CUBE).stdout);
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_schedule_is_placed_where_its_messages_stay_on_nodes() {
    let dir = directory();
    // 0 and 2 communicate, and so do 1 and 3.
    let mut text = "num_ranks 4\n".to_owned();
    for (rank, peer) in [(0, 2), (1, 3)] {
        text += &format!("rank {rank} {{\nl1: send 100000000b to {peer} tag 1\n}}\n");
    }
    for (rank, peer) in [(2, 0), (3, 1)] {
        text += &format!("rank {rank} {{\nl1: recv 100000000b from {peer} tag 1\n}}\n");
    }
    written(&dir, "pairs.goal", &text);
    let answer = json(&dir, "--goal pairs.goal --nodes 2 --cores 2");
    sound(&answer, 4);
    let at = nodes_of_ranks(&answer);
    assert_eq!((&at[0], &at[1]), (&at[2], &at[3]), "{at:?}");
    assert_ne!(at[0], at[1]);
    // In rank order all messages go through the adapters: two of 0.1 GB at 1.25 GB/s.
    // Within a node each gets 4 GB/s.
    let times: Vec<f64> = answer["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(seconds)
        .collect();
    let near = |t: f64, s: f64| (t / s - 1.0).abs() < 0.01;
    assert!(times.iter().any(|&t| near(t, 0.16)), "{times:?}");
    assert!(times.iter().any(|&t| near(t, 0.025)), "{times:?}");

    written(
        &dir,
        "circle.goal",
        "num_ranks 2\nrank 0 {\na: recv 8b from 1 tag 1\nb: send 8b to 1 tag 1\nb requires a\n}\nrank 1 {\na: recv 8b from 0 tag 1\nb: send 8b to 0 tag 1\nb requires a\n}\n",
    );
    let [what, next] = place(&dir, "--goal circle.goal --nodes 2 --cores 1").failed(5);
    assert!(
        what.contains("rank 0") && next.contains("simulate goal"),
        "{what}"
    );
    let [what, _] = place(&dir, "--goal pairs.goal -n 4 --nodes 2 --cores 2").failed(2);
    assert!(what.contains("a fixed number"), "{what}");
}

#[test]
fn what_others_send_on_a_link_moves_the_job() {
    let dir = directory();
    written(&dir, "tree.toml", TREE);
    let options = "--topology tree.toml --pattern alltoall -n 4 --bytes 1MiB --per-node 1";
    let quiet = json(&dir, options);
    assert_eq!(quiet["nodes"], serde_json::json!(["n1", "n2", "n3", "n4"]));
    let load = "[[load]]\nfrom = \"n1\"\nto = \"n2\"\nrate = \"900 MB/s\"\n";
    written(&dir, "load.toml", load);
    let busy = json(&dir, &format!("{options} --load load.toml"));
    sound(&busy, 4);
    let warned = |answer: &Value| {
        answer["warnings"]
            .to_string()
            .contains("cannot send as much")
    };
    assert!(!warned(&busy), "{}", busy["warnings"]);
    written(&dir, "twice.toml", &load.repeat(2));
    let twice = json(
        &dir,
        &format!("{options} --load twice.toml --measured-with 2"),
    );
    assert!(
        warned(&twice)
            && twice["warnings"]
                .to_string()
                .contains("1.80 GB/s over adapter out of n1"),
        "{}",
        twice["warnings"]
    );
    assert!(
        twice["assumed"]
            .to_string()
            .contains("--measured-with changes nothing")
    );
    let at: BTreeSet<String> = nodes_of_ranks(&busy).into_iter().collect();
    assert!(!at.contains("n1") && !at.contains("n2"), "{at:?}");
    // The default of a batch system stays on n1, and pays for it.
    let rows = busy["rows"].as_array().unwrap();
    let default = &rows[busy["baseline"].as_u64().unwrap() as usize];
    assert!(seconds(default) > 5.0 * seconds(&rows[busy["best"].as_u64().unwrap() as usize]));
    let notes = busy["assumed"].to_string();
    assert!(notes.contains("1 load of other jobs"), "{notes}");
}

#[test]
fn ranks_that_do_not_fit_into_memory_are_marked_and_not_taken() {
    let dir = directory();
    written(&dir, "tree.toml", TREE);
    // On one node everything would stay in its memory: the fastest placement.
    let options = "--topology tree.toml --pattern alltoall -n 4 --bytes 1MiB --work 1us";
    let all = json(&dir, options);
    let taken = |answer: &Value| {
        let best = &answer["rows"][answer["best"].as_u64().unwrap() as usize];
        best["ranks_per_node"].as_u64().unwrap()
    };
    assert_eq!(taken(&all), 4);
    // Three ranks of 1.5 GiB need more than 4 GiB.
    let options = format!("{options} --memory-per-rank 1536MiB");
    let few = json(&dir, &options);
    sound(&few, 4);
    // One rank sends three pieces, two on a node send four through its adapter.
    assert_eq!(taken(&few), 1);
    for row in few["rows"].as_array().unwrap() {
        let much = row["ranks_per_node"].as_u64().unwrap() > 2;
        assert_eq!(row["memory"] == "exceeds", much, "{row}");
    }
    let shown = place(&dir, &options).stdout;
    assert!(shown.contains("\n!   4 ") && shown.contains("! does not fit into memory"));
    // A placement that does not fit is neither offered to save nodes nor used as the default.
    assert!(!shown.contains("4 per node on 1 node"), "{shown}");
    let unknown = place(&dir, &format!("{CUBE} --memory-per-rank 1GiB")).stdout;
    assert!(
        unknown.contains("the memory of the nodes is not known"),
        "{unknown}"
    );
    let none = place(&dir, &options.replace("1536MiB", "5GiB")).stdout;
    assert!(none.contains("no placement fits into memory"), "{none}");
}

#[test]
fn a_thousand_nodes_are_placed() {
    let dir = directory();
    let options = "--pattern halo -n 2048 --nodes 1024 --cores 4 --per-node 2,4 --steps 1";
    let answer = json(&dir, options);
    sound(&answer, 2_048);
    // With so many messages, those that would end shortly after each other end together. The output
    // says so.
    let assumed = answer["assumed"].to_string();
    assert!(
        assumed.contains("less than 1 % left end early, together with others"),
        "{assumed}"
    );
}

/// Four hosts on one switch: two compute nodes, a login node and a storage server.
const FABRIC: &str = "\
Switch 8 \"S-1\" # \"leaf1\"
[1] \"H-1\"[1] # \"login01 mlx5_0\" 4xHDR
[2] \"H-2\"[1] # \"node01 mlx5_0\" 4xHDR
[3] \"H-3\"[1] # \"node02 mlx5_0\" 4xHDR
[4] \"H-4\"[1] # \"node03 mlx5_0\" 4xHDR
Ca 1 \"H-1\" # \"login01 mlx5_0\"
Ca 1 \"H-2\" # \"node01 mlx5_0\"
Ca 1 \"H-3\" # \"node02 mlx5_0\"
Ca 1 \"H-4\" # \"node03 mlx5_0\"
";

#[test]
fn ranks_go_to_nodes_of_the_batch_system_and_to_those_that_are_asked_for() {
    let dir = directory();
    written(&dir, "fabric", FABRIC);
    let list = "NodeName=node01 CPUTot=4 State=IDLE\nNodeName=node02 CPUTot=4 State=IDLE\n\
                NodeName=node03 CPUTot=4 State=DOWN\n";
    written(&dir, "nodes", list);
    let used = |options: &str| {
        let program = "--pattern halo -n 4 --topology fabric";
        let answer = json(&dir, &format!("{program} {options}"));
        let nodes: BTreeSet<String> = nodes_of_ranks(&answer).into_iter().collect();
        let said = format!("{} {}", answer["assumed"], answer["warnings"]);
        (nodes.into_iter().collect::<Vec<_>>().join(","), said)
    };
    let (nodes, said) = used("--topology nodes --per-node 2");
    assert_eq!(nodes, "node01,node02");
    assert!(
        said.contains("missing from the list of nodes: login01"),
        "{said}"
    );
    // The fabric alone does not tell them apart.
    let (nodes, said) = used("--cores 4 --per-node 1");
    assert!(
        nodes.contains("login01") && said.contains("named differently"),
        "{said}"
    );
    let (nodes, _) = used("--cores 4 --per-node 2 --exclude login01,node02");
    assert_eq!(nodes, "node01,node03");
    let (nodes, said) = used("--topology nodes --per-node 4 --only node03");
    assert_eq!(nodes, "node03");
    assert!(said.contains("--only uses 1 node"), "{said}");
    let ended = place(
        &dir,
        "--pattern halo -n 4 --topology fabric --cores 4 --exclude logni01",
    );
    let [what, next] = ended.failed(2);
    assert_eq!(what, "use --exclude: the network has no node logni01");
    assert!(next.contains("login01"), "{next}");
}

#[test]
fn a_given_mapping_is_predicted_beside_the_default_and_the_advice() {
    let dir = directory();
    // Partners are far apart in rank order: cyclic order keeps them on one node, blocks do not.
    let goal: String = (0..4)
        .map(|r| {
            let other = (r + 2) % 4;
            format!("rank {r} {{\nl1: send 50000000b to {other} tag 1\nl2: recv 50000000b from {other} tag 1\n}}\n")
        })
        .collect();
    let program = format!("num_ranks 4\n{goal}");
    written(&dir, "app.goal", &program);
    let options = "--goal app.goal --nodes 2 --cores 2 --per-node 2";
    // The files of `-o` are evaluated like the advice.
    place(&dir, &format!("{options} -o placed")).succeeded();
    for (mapping, over_best, over_default) in [
        ("placed/rankfile", "same", "faster"),
        ("placed/hostfile.mpich", "same", "faster"),
        ("n1:0,2;n2:1,3", "same", "faster"),
        ("n1:0-1;n2:2-3", "slower", "same"),
    ] {
        let answer = json(&dir, &format!("{options} --evaluate {mapping}"));
        let given = &answer["given"];
        for (of, expected) in [("over_best", over_best), ("over_default", over_default)] {
            let ratio = given[of]["value"].as_f64().unwrap();
            let said = match given[of]["significant"].as_bool().unwrap() {
                false => "same",
                true if ratio > 1.0 => "slower",
                true => "faster",
            };
            assert_eq!(said, expected, "{mapping} {of}: {given}");
        }
        assert!(seconds(given) > 0.0 && given["limit_share"].as_f64().unwrap() > 0.0);
    }
    let ended = place(&dir, &format!("{options} --evaluate n1:0-1;n2:2-3"));
    ended.succeeded();
    let given = ended.stdout.lines().skip_while(|l| !l.starts_with("GIVEN"));
    let given: Vec<&str> = given.take_while(|l| !l.is_empty()).collect();
    assert!(
        given[0].contains("up to 2 ranks on each of 2 nodes"),
        "{given:?}"
    );
    assert!(
        given[1].contains("predicted") && given[2].contains("as long as the placement to take"),
        "{given:?}"
    );
    for (mapping, exit, part) in [
        ("n1:0-1", 2, "places for 2 ranks, but the program has 4"),
        ("n1:0-1;n7:2-3", 2, "the network has no node n7"),
        ("nothing", 4, "read nothing"),
    ] {
        let [what, _] = place(&dir, &format!("{options} --evaluate {mapping}")).failed(exit);
        assert!(what.contains(part), "{what}");
    }
}

#[test]
fn many_loads_of_other_jobs_are_read_in_linear_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("load.toml");
    // Searching from the first line for each of them would take hours.
    let loads = "[[load]]\nfrom = \"n1\"\nto = \"n2\"\nrate = \"1 MB/s\"\n".repeat(100_000);
    fs::write(&file, &loads).unwrap();
    let options = "--pattern halo -n 2 --work 1ms --nodes 4 --cores 2 --load load.toml";
    place(&dir, options).succeeded();
    fs::write(&file, loads.replacen("n2", "n9", 1)).unwrap();
    let [what, _] = place(&dir, options).failed(5);
    assert!(
        what.contains("[[load]] of line 1: unknown node n9"),
        "{what}"
    );
}

//! `idlewave place load`, and what `--load` changes.

use super::*;

#[path = "../../../../../tests/nodes/rig.rs"]
mod rig;

/// A load on each adapter of the first leaf, both ways.
fn first_leaf_is_busy() -> String {
    let nodes = ["n1", "n2", "n3", "n4"].into_iter();
    let load = |from: &str, to: &str| {
        format!(
            "[[load]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"800 MB/s\"\nlow = \"700 MB/s\"\nhigh = \"850 MB/s\"\n"
        )
    };
    nodes
        .map(|n| load(n, "leaf1") + &load("leaf1", n))
        .collect()
}

const FOUR: &str = "--pattern alltoall -n 4 --per-node 1 --topology tree.toml";

#[test]
fn a_loaded_leaf_is_avoided_and_the_choice_without_the_load_is_told() {
    let dir = directory();
    written(&dir, "tree.toml", TREE);
    written(&dir, "load.toml", &first_leaf_is_busy());
    let without = json(&dir, FOUR);
    assert!(without.get("load").is_none());
    assert_eq!(nodes_of_ranks(&without)[0], "n1");
    let with = json(&dir, &format!("{FOUR} --load load.toml"));
    let best = seconds(&with["rows"][with["best"].as_u64().unwrap() as usize]);
    let nodes: BTreeSet<String> = nodes_of_ranks(&with).into_iter().collect();
    let second: BTreeSet<String> = ["n5", "n6", "n7", "n8"].map(str::to_owned).into();
    assert_eq!(nodes, second);
    let effect = &with["load"];
    assert_eq!(effect["changed"], true);
    let blind = effect["blind"]["seconds"]["value"].as_f64().unwrap();
    let ratio = effect["blind"]["over_best"]["value"].as_f64().unwrap();
    assert!(
        blind > best && (ratio - blind / best).abs() < 1e-9,
        "{effect}"
    );
    // The second leaf has no load: the choice takes what the other would without one.
    let unloaded = effect["blind"]["seconds_without_load"]["value"]
        .as_f64()
        .unwrap();
    assert!((best / unloaded - 1.0).abs() < 1e-9, "{effect}");
    for at in ["best_seconds_at_low_load", "best_seconds_at_high_load"] {
        assert_eq!(effect[at].as_f64(), Some(best));
    }
    let text = place(&dir, &format!("{FOUR} --load load.toml")).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("changes the choice: without it, 1 rank on each of 4 nodes, n[1-4]"),
        "{text}"
    );
    // Where only the first leaf may be used, nothing changes.
    let only = json(&dir, &format!("{FOUR} --load load.toml --only n[1-4]"));
    let effect = &only["load"];
    assert_eq!(effect["changed"], false);
    let best = seconds(&only["rows"][only["best"].as_u64().unwrap() as usize]);
    let low = effect["best_seconds_at_low_load"].as_f64().unwrap();
    let high = effect["best_seconds_at_high_load"].as_f64().unwrap();
    assert!(low < best && best < high, "{best} {effect}");
}

#[test]
fn nodes_of_running_jobs_get_no_ranks_unless_only_names_them() {
    let dir = directory();
    written(&dir, "tree.toml", TREE);
    let jobs = "[[load]]\nfrom = \"n8\"\nrate = \"0\"\n[[job]]\nid = \"7\"\nnodes = \"n[1-2],elsewhere\"\n";
    written(&dir, "load.toml", jobs);
    let answer = json(&dir, &format!("{FOUR} --load load.toml"));
    assert!(
        nodes_of_ranks(&answer)
            .iter()
            .all(|n| n != "n1" && n != "n2")
    );
    let notes = answer["assumed"].to_string();
    assert!(
        notes.contains("unless --only names them: n[1-2]"),
        "{notes}"
    );
    assert!(
        notes.contains("not in the topology, and change nothing: elsewhere"),
        "{notes}"
    );
    let only = json(&dir, &format!("{FOUR} --load load.toml --only n[1-4]"));
    assert!(nodes_of_ranks(&only).contains(&"n1".to_owned()));
}

#[test]
fn counters_of_switches_and_jobs_are_read_from_files() {
    let dir = directory();
    let examples = rig::root().join("docs/examples");
    let of = |name: &str| examples.join(name).display().to_string();
    written(&dir, "jobs", "12|RUNNING|node[01-02]\n13|PENDING|\n");
    let counters = format!(
        "load --no-adapters --topology {} --switch-counters {}@0 --switch-counters {}@60 --switch-counters {}",
        of("fabric.txt"),
        of("perfquery-1.txt"),
        of("perfquery-2.txt"),
        of("iblinkinfo.txt"),
    );
    let ended = place(&dir, &format!("{counters} --jobs jobs -o load.toml"));
    ended.succeeded();
    assert!(
        ended
            .stdout
            .contains("leaf1 to spine1: 20.0 GB/s, 40.0 % of 50 GB/s"),
        "{}",
        ended.stdout
    );
    let text = fs::read_to_string(dir.path().join("load.toml")).unwrap();
    assert!(
        text.contains("from = \"node01\"\nto = \"leaf1\"\nrate = \"10 GB/s\""),
        "{text}"
    );
    assert!(
        text.contains("[[job]]\nid = \"12\"\nnodes = \"node[01-02]\""),
        "{text}"
    );
    // Without -o the same is printed.
    assert_eq!(place(&dir, &format!("{counters} --jobs jobs")).stdout, text);
    let job = format!(
        "--pattern halo -n 2 --per-node 1 --cores 4 --topology {} --load load.toml",
        of("fabric.txt")
    );
    let answer = json(&dir, &job);
    let nodes = nodes_of_ranks(&answer);
    assert!(
        nodes.iter().all(|n| n != "node01" && n != "node02"),
        "{nodes:?}"
    );
}

#[test]
fn the_job_that_measures_keeps_its_nodes() {
    let dir = directory();
    let examples = rig::root().join("docs/examples");
    let of = |name: &str| examples.join(name).display().to_string();
    let jobs = "12|RUNNING|node01\n13|RUNNING|node02\n12_4|RUNNING|node03\n12_5|RUNNING|node04\n";
    written(&dir, "jobs", jobs);
    let mut command = idlewave();
    command
        .args([
            "place",
            "load",
            "--no-adapters",
            "--jobs",
            "jobs",
            "--topology",
        ])
        .arg(of("fabric.txt"))
        .arg("--switch-counters")
        .arg(of("perfquery-1.txt") + "@0")
        .arg("--switch-counters")
        .arg(of("perfquery-2.txt") + "@60")
        .arg("--switch-counters")
        .arg(of("iblinkinfo.txt"))
        .current_dir(&dir);
    let mut ids = |own: &[(&str, &str)]| -> Vec<String> {
        let variables = ["SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"];
        for name in variables {
            command.env_remove(name);
        }
        let ended = run(command.envs(own.iter().copied()));
        ended.succeeded();
        let ids = ended
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("id = "));
        ids.map(|id| id.trim_matches('"').to_owned()).collect()
    };
    assert_eq!(ids(&[]), ["12", "13", "12_4", "12_5"]);
    assert_eq!(ids(&[("SLURM_JOB_ID", "13")]), ["12", "12_4", "12_5"]);
    let task = [
        ("SLURM_JOB_ID", "20"),
        ("SLURM_ARRAY_JOB_ID", "12"),
        ("SLURM_ARRAY_TASK_ID", "5"),
    ];
    assert_eq!(ids(&task), ["12", "13", "12_4"]);
}

#[test]
fn slurm_is_asked_for_the_jobs_that_run() {
    let script = "set -- $IDLEWAVE_NODES\n\
        sbatch --quiet -w $1 -o /dev/null --wrap 'sleep 600' || exit 1\n\
        while [ \"$(squeue -h -o %T)\" != RUNNING ]; do sleep 0.1; done\n\
        \"$IDLEWAVE\" place load --jobs squeue --interval 1s --adapters '*' | grep -A2 '^\\[\\[job'\n\
        echo \"on $1, $(squeue -h -o %i)\"\n\
        scancel $(squeue -h -o %i)";
    let Some(out) = rig::on_nodes("with_slurm 1", script, &[]) else {
        return;
    };
    let said = String::from_utf8_lossy(&out.stdout);
    let last = said.lines().find_map(|line| line.strip_prefix("on "));
    let (node, id) = last.and_then(|line| line.split_once(", ")).unwrap();
    assert!(said.contains(&format!("id = \"{id}\"")), "{said}");
    assert!(said.contains(&format!("nodes = \"{node}\"")), "{said}");
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line() {
    let dir = directory();
    written(&dir, "text", "hello\n");
    written(&dir, "walk", "IF-MIB::ifName.1 = STRING: e1\n");
    written(&dir, "tree.toml", TREE);
    for (options, code, expected) in [
        ("load --interval 1ms", 2, "out of range"),
        ("load --no-adapters", 2, "--switch-counters"),
        (
            "load --switch-counters text",
            5,
            "read text: not a known form of counters",
        ),
        ("load --switch-counters walk", 5, "walk sysName first"),
        ("load --switch-counters text@yesterday", 5, "read text"),
        ("load --jobs text", 5, "read text: not a list of jobs"),
        ("load --jobs nothing", 4, "nothing"),
    ] {
        let ended = place(&dir, options);
        let said = ended.failed(code).join("\n");
        assert!(said.contains(expected), "{options}: {said}");
    }
    for (name, text, expected) in [
        (
            "link",
            "[[load]]\nfrom = \"n1\"\nto = \"leaf2\"\nrate = \"1 GB/s\"\n",
            "no link leads from n1 to leaf2",
        ),
        (
            "switch",
            "[[load]]\nfrom = \"leaf1\"\nrate = \"1 GB/s\"\n",
            "leaf1 is a switch: give both ends",
        ),
        (
            "job",
            "[[load]]\nfrom = \"n1\"\nrate = \"0\"\n[[job]]\nid = \"7\"\nnodes = \"n[\"\n",
            "[[job]] 7",
        ),
    ] {
        written(&dir, name, text);
        let [what, _] = place(&dir, &format!("{FOUR} --load {name}")).failed(5);
        assert!(what.contains(expected), "{what}");
    }
}

/// Two nodes below each of two leaves. The first sends to the third meanwhile.
#[test]
fn adapters_of_all_nodes_of_a_job_are_read_at_the_same_time() {
    let script = r#"
        set -- $IDLEWAVE_NODES
        python3 - "$3" <<'SEND' &
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 120
while time.monotonic() < end:
    out.sendto(bytes(1000), (sys.argv[1], 9))
    time.sleep(0.001)
SEND
        sender=$!
        mpirun.openmpi -n 4 --map-by ppr:1:node "$IDLEWAVE" place load --interval 2s --topology "$IDLEWAVE_NODES_TOPOLOGY"
        code=$?
        mpirun.openmpi -n 4 --map-by ppr:1:node "$IDLEWAVE" place --pattern halo -n 2 --per-node 1 --cores 1 \
            --topology "$IDLEWAVE_NODES_TOPOLOGY" --load now --load-interval 1s | grep 'load of other'
        kill $sender
        exit $code
    "#;
    let Some(out) = rig::on_nodes("with_nodes --free --leaves 2 --slots 1 4", script, &[]) else {
        return;
    };
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stdout).unwrap();
    // Names are those of this rig: a node is called by its end.
    let (file, answer) = said.split_once("  the load of other").expect("an answer");
    assert!(answer.contains("choice"), "{answer}");
    let loads: toml::Table = file.parse().expect("TOML");
    let rate = |from: &str, to: &str| {
        let fits = |load: &&toml::Value| {
            let of = |key: &str| load.get(key).and_then(|v| v.as_str()).unwrap_or_default();
            of("from").ends_with(from) && of("to").ends_with(to)
        };
        let loads = loads["load"].as_array().unwrap();
        let load = loads.iter().find(fits).expect("an entry");
        let rate = load["rate"].as_str().unwrap();
        match rate {
            "0 B/s" => 0.0,
            other => other
                .parse::<idlewave_units::BytesPerSecond>()
                .unwrap()
                .get(),
        }
    };
    assert!(rate("n1", "leaf1") > 10.0 * rate("n2", "leaf1"), "{said}");
    assert!(rate("leaf2", "n3") > 10.0 * rate("n3", "leaf2"), "{said}");
    assert!(
        rate("leaf1", "spine") > 10.0 * rate("leaf2", "spine"),
        "{said}"
    );
}

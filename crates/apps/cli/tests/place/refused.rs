//! What `idlewave place` refuses, with the next step.

use super::*;

/// What a calibration that measured these points would write.
fn samples(points: &str) -> String {
    format!(
        r#"{{"idlewave": "0", "fabric": "test", "nodes": ["n1"], "ranks_per_node": 2, "cpus_per_node": 2,
            "budget_seconds": 1.0, "seconds": 1.0, "interrupted": false, "points": [{points}], "notes": []}}"#
    )
}

#[test]
fn nonsense_is_refused_with_the_next_step() {
    let dir = directory();
    written(&dir, "text", "hello\n");
    written(&dir, "tree.toml", TREE);
    written(&dir, "lacking", "about = \"x\"\n");
    written(&dir, "words", "about = \"x\"\nmemory = \"fast\"\n");
    fs::write(dir.path().join("bytes"), [0xff_u8; 64]).unwrap();
    let parts = "[[node]]\nname = \"a[1-2]\"\ncores = 1\n";
    written(&dir, "parts.toml", parts);
    let loads = [
        ("none", "", "it has no [[load]] table"),
        (
            "far",
            "[[load]]\nfrom = \"n1\"\nto = \"n2\"\nrate = \"1 GB/s\"\n[[load]]\nfrom = \"n1\"\nto = \"n10\"\nrate = \"1 GB/s\"\n",
            "line 5: unknown node n10",
        ),
        (
            "same",
            "[[load]]\nfrom = \"n1\"\nto = \"n1\"\nrate = \"1 GB/s\"\n",
            "stays on n1",
        ),
        (
            "rate",
            "[[load]]\nfrom = \"n1\"\nto = \"n2\"\nrate = \"1\"\n",
            "a unit",
        ),
        (
            "key",
            "[[load]]\nfrom = \"n1\"\nto = \"n2\"\nspeed = \"1\"\n",
            "line 4: unknown key `speed`",
        ),
    ];
    for (name, text, expected) in loads {
        written(&dir, name, text);
        let [what, next] = place(&dir, &format!("{CUBE} --load {name}")).failed(5);
        assert!(what.contains(expected), "{what}");
        assert!(next.contains("[[load]]"), "{next}");
    }
    for (name, samples, expected) in [
        ("list", "[]".to_owned(), "no calibration samples"),
        ("empty", samples(""), "no two ranks exchanged"),
        (
            "negative",
            samples(
                r#"{"probe": {"kind": "ping_pong", "way": "inside", "bytes": 8, "rounds": 1},
                    "seconds": [-1.0], "fastest_seconds": [-1.0]}"#,
            ),
            "point 0 has",
        ),
    ] {
        written(&dir, name, &samples);
        let [what, next] = place(&dir, &format!("calibrate --from {name}")).failed(5);
        assert!(
            what.contains(&format!("read {name}: ")) && what.contains(expected),
            "{what}"
        );
        assert!(next.contains("calibrate --samples"), "{next}");
    }
    for (options, code, expected, then) in [
        (
            "--pattern bcast -n 4 --nodes 4 --cores 4 --dims 2",
            2,
            "only halo",
            "omit --dims",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network words",
            5,
            "line 2: expected a number, or a table",
            "calibrate",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network lacking",
            5,
            "lacking: missing key `",
            "calibrate",
        ),
        (
            "calibrate --from list --duration 5s",
            2,
            "--duration",
            "--from",
        ),
        (
            "--goal . --nodes 2 --cores 2",
            4,
            "directory",
            "a file that",
        ),
        (
            "topology tree.toml --name moon",
            2,
            "--name moon",
            "omit --name",
        ),
        ("", 2, "no program", "--pattern"),
        ("--pattern halo -n 4", 2, "no network", "--topology"),
        (
            "--pattern halo --nodes 4 --cores 4",
            2,
            "number of ranks",
            "--ranks",
        ),
        (
            "--pattern halo -n 4 --nodes 4",
            2,
            "number of cores",
            "--cores",
        ),
        (
            "--pattern halo -n 17 --nodes 4 --cores 4",
            2,
            "17 ranks",
            "fewer ranks",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --per-node 9",
            2,
            "more than 4 cores",
            "1 to 4",
        ),
        (
            "--pattern halo -n 9 --nodes 4 --cores 4 --per-node 2",
            2,
            "at most 2",
            "--per-node",
        ),
        (
            "--pattern halo -n 9 --nodes 4 --cores 4 --max-nodes 2",
            2,
            "at most 2 nodes",
            "--max-nodes",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --uplink 1GB/s",
            2,
            "--uplink",
            "--",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --html x -o x",
            2,
            "the same path",
            "different",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 -o -",
            2,
            "-o to standard output",
            "-o",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --html -",
            2,
            "--html to standard output",
            "--html",
        ),
        (
            "calibrate --ranks 2 --samples -",
            2,
            "--samples to standard output",
            "--samples",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 -o no/x",
            4,
            "no/x",
            "parent directory",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network bytes",
            5,
            "UTF-8",
            "text file",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network /dev/zero",
            5,
            "/dev/zero: it is not text",
            "text file",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --load /dev/zero",
            5,
            "/dev/zero: it is not text",
            "text file",
        ),
        (
            "--pattern halo -n 4 --topology /dev/zero",
            5,
            "/dev/zero: it is not text",
            "docs/topologies.md",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network text",
            5,
            "line 1",
            "calibrate",
        ),
        (
            "--pattern halo -n 4 --nodes 4 --cores 4 --network none.toml",
            4,
            "none.toml",
            "may read",
        ),
        (
            "--pattern halo -n 4 --topology text",
            5,
            "recognise",
            "docs/topologies.md",
        ),
        (
            "--pattern halo -n 2 --topology parts.toml",
            2,
            "2 disconnected parts",
            "switches that connect",
        ),
        (
            "--pattern halo -n 4 --topology tree.toml --goal text",
            2,
            "--goal",
            "--",
        ),
        (
            "--goal text --nodes 2 --cores 2",
            5,
            "line 1",
            "docs/simulate.md",
        ),
        (
            "--goal text --nodes 2 --cores 2 --work 5ms",
            2,
            "--work",
            "--",
        ),
        (
            "--workload is:S -n 4 --nodes 4 --cores 4 --bytes 8B",
            2,
            "--bytes",
            "--",
        ),
        (
            "--workload is:S -n 1000 --nodes 400 --cores 4",
            2,
            "1,000 ranks",
            "other --ranks",
        ),
        (
            "--run . --nodes 2 --cores 2",
            5,
            "not a run bundle",
            "idlewave",
        ),
        (
            "--pattern alltoall -n 100000 --nodes 9000 --cores 64",
            2,
            "operations",
            "fewer ranks",
        ),
    ] {
        let before = entries(dir.path());
        let [what, next] = place(&dir, options).failed(code);
        assert!(what.contains(expected), "{options}: {what}");
        assert!(next.contains(then), "{options}: {next}");
        assert_eq!(entries(dir.path()), before, "{options}");
    }
}

#[test]
fn memory_without_a_unit_is_refused_with_what_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |memory| {
        let halo = "--pattern halo -n 2 --work 1ms --nodes 2 --cores 2 --memory-per-rank";
        place(&dir, &format!("{halo} {memory}"))
    };
    let [what, next] = ask("16").failed(2);
    assert!(
        what.contains("without a unit: write 16GiB or 16MiB"),
        "{what}"
    );
    assert!(next.contains("--memory-per-rank"), "{next}");
    ask("16MiB").succeeded();
    ask("1.5gb").succeeded();
}

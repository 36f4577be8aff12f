//! Readers: what the samples hold, what contradicts itself, and bytes at random.

#![allow(clippy::unwrap_used)]

use idlewave_topology::{
    Combined, Content, Format, MemoryDomain, Read, ReadError, Topology, Vertex, combine,
    fold_hostlist, read, read_as,
};
use proptest::prelude::*;
use std::path::Path;

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    std::fs::read_to_string(path.join(name)).unwrap()
}

fn read_sample(name: &str) -> Read {
    read(sample(name).as_bytes()).unwrap()
}

fn topology(text: &str) -> Topology {
    match read(text.as_bytes()).unwrap().content {
        Content::Topology(topology) => *topology,
        other => panic!("{other:?}"),
    }
}

fn message(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

fn combined(names: &[&str]) -> Result<Combined, ReadError> {
    combine(names.iter().map(|n| read_sample(n)).collect())
}

/// Each switch with its level and what hangs below it.
fn tree(topology: &Topology) -> Vec<String> {
    let line = |s: idlewave_topology::SwitchIndex| {
        let switch = &topology.switches()[s.get()];
        let level = |v| match v {
            Vertex::Node(_) => Some(0),
            Vertex::Switch(s) => topology.switches()[s.get()].level,
        };
        let links = topology.links_from(Vertex::Switch(s));
        let below = links.map(|l| topology.links()[l.get()].to);
        let below = below.filter(|v| level(*v) < switch.level);
        let names: Vec<&str> = below.map(|v| topology.name(v)).collect();
        let list = fold_hostlist(names);
        format!("{} {:?} {list}", switch.name, switch.level.unwrap())
    };
    topology.switch_indices().map(line).collect()
}

const SAMPLES: [(&str, Format); 12] = [
    ("slurm.conf", Format::SlurmConf),
    ("topology.conf", Format::TopologyConf),
    ("blocks.conf", Format::TopologyConf),
    ("topology.yaml", Format::TopologyYaml),
    ("scontrol-topology.txt", Format::ScontrolTopology),
    ("scontrol-node.txt", Format::ScontrolNode),
    ("scontrol-node-oneline.txt", Format::ScontrolNode),
    ("ibnetdiscover.txt", Format::Ibnetdiscover),
    ("hwloc1.xml", Format::Hwloc),
    ("hwloc2.xml", Format::Hwloc),
    ("fat-tree.toml", Format::Toml),
    ("graph.toml", Format::Toml),
];

#[test]
fn each_sample_is_recognised_by_its_content() {
    for (name, format) in SAMPLES {
        assert_eq!(Format::guess(&sample(name)), Some(format), "{name}");
        assert_eq!(read_sample(name).format, format);
    }
    let none = message("hello\n");
    for format in Format::ALL {
        assert!(none.contains(format.name()), "{none}");
    }
    assert_eq!(read(b"a\xff"), Err(ReadError::NoText { offset: 1 }));
}

#[test]
fn the_same_tree_is_read_from_each_of_slurms_forms() {
    let expected = [
        "leaf1 1 n[001-004]",
        "leaf2 1 n[005-007],login1",
        "top 2 leaf[1-2]",
    ];
    let of = |name: &str| {
        let mut lines = tree(&topology(&sample(name)));
        lines.sort();
        lines
    };
    assert_eq!(of("topology.conf"), expected);
    assert_eq!(of("topology.yaml"), expected);
    assert_eq!(of("scontrol-topology.txt"), expected);
}

#[test]
fn a_link_speed_with_a_unit_is_a_capacity_and_one_without_is_none() {
    let conf = topology(&sample("topology.conf"));
    let leaf = conf.vertex("leaf1").unwrap();
    let top = conf.vertex("top").unwrap();
    let up = conf.link_between(leaf, top).unwrap();
    assert_eq!(conf.link(up).unwrap().capacity.unwrap().get(), 12.5e9);
    assert_eq!(conf.links()[0].capacity, None);
    let printed = topology(&sample("scontrol-topology.txt"));
    assert!(printed.links().iter().all(|l| l.capacity.is_none()));
}

#[test]
fn a_link_speed_that_is_left_out_is_told() {
    let notes = |text: &str| read(text.as_bytes()).unwrap().notes;
    let conf = notes(
        "SwitchName=a Nodes=n[1-2] LinkSpeed=100\nSwitchName=b Switches=a LinkSpeed=1Gbit/s\n",
    );
    assert_eq!(conf.len(), 2, "{conf:?}");
    assert!(conf[1].starts_with("LinkSpeed of 1 switch(es)"), "{conf:?}");
    assert_eq!(notes(&sample("scontrol-topology.txt")).len(), 1);
}

#[test]
fn memory_that_slurm_does_not_know_is_unknown() {
    let memory = |text: &str| match read(text.as_bytes()).unwrap().content {
        Content::Nodes(list) => list.nodes[0].memory.map(|m| m.get()),
        other => panic!("{other:?}"),
    };
    assert_eq!(memory("NodeName=a RealMemory=1\n"), None);
    assert_eq!(memory("NodeName=a RealMemory=2\n"), Some(2 << 20));
    assert_eq!(memory("NodeName=a\n"), None);
}

#[test]
fn cores_are_counted_without_their_hardware_threads() {
    let cores = |text: &str| match read(text.as_bytes()).unwrap().content {
        Content::Nodes(list) => list.nodes[0].cores,
        other => panic!("{other:?}"),
    };
    assert_eq!(cores("NodeName=a CPUTot=8 ThreadsPerCore=2\n"), Some(4));
    assert_eq!(cores("NodeName=a CPUTot=8\n"), Some(8));
    let both = "NodeName=a CPUTot=24 Sockets=2 CoresPerSocket=6 ThreadsPerCore=2\n";
    assert_eq!(cores(both), Some(12));
}

#[test]
fn what_slurm_hands_out_comes_before_the_machine_and_the_machine_before_nothing() {
    let toml = "kind = \"star\"\nnodes = 2\nmemory = \"1 GiB\"\n[[node]]\nname = \"n2\"\nmemory = \"2 GiB\"\nfeatures = [\"f\"]\n";
    let slurm = "NodeName=n1 RealMemory=3072 ActiveFeatures=a,b\nNodeName=n2\n";
    let machine = "<topology><object type=\"Machine\" local_memory=\"7\"><object type=\"Core\"/></object></topology>";
    let known = |texts: &[&str]| {
        let files = texts.iter().map(|text| read(text.as_bytes()).unwrap());
        let topology = combine(files.collect()).unwrap().topology;
        let known = |n: &idlewave_topology::Node| (n.memory.unwrap().get(), n.features.join(","));
        [0, 1].map(|n| known(&topology.nodes()[n]))
    };
    let expected = [(3 << 30, "a,b".to_owned()), (2 << 30, String::new())];
    assert_eq!(known(&[toml, slurm]), expected);
    assert_eq!(known(&[toml, slurm, machine]), expected);
    // Without a NUMA domain the memory is the machine's own.
    let bare = "kind = \"star\"\nnodes = 2\n";
    assert_eq!(
        known(&[bare, machine]),
        [(7, String::new()), (7, String::new())]
    );
}

#[test]
fn domains_stay_unknown_where_a_core_has_no_memory_near() {
    let text = r#"<topology><object type="Machine"><object type="Core"/>
        <object type="Package"><object type="NUMANode" local_memory="5"/><object type="Core"/></object></object></topology>"#;
    let read = read(text.as_bytes()).unwrap();
    let Content::Machine(machine) = read.content else {
        panic!("no machine");
    };
    assert_eq!((machine.cores, machine.domains.len()), (Some(2), 0));
    assert!(
        read.notes[0].starts_with("1 core(s) have no NUMA node"),
        "{:?}",
        read.notes
    );
}

#[test]
fn ports_of_one_host_that_are_joined_are_no_link() {
    let text = "Switch 4 \"S-1\" # \"s\"\n[1] \"H-1\"[1]\n\
                Ca 2 \"H-1\" # \"x mlx5_0\"\n[1] \"S-1\"[1]\n[2] \"H-2\"[2]\n\
                Ca 2 \"H-2\" # \"x mlx5_1\"\n[2] \"H-1\"[2]\n";
    assert_eq!(topology(text).links().len(), 2);
}

#[test]
fn a_link_has_its_own_capacity_before_that_of_uplinks_and_of_all() {
    let text = "capacity = \"1 B/s\"\nuplink_capacity = \"2 B/s\"\n[[node]]\nname = \"n\"\n[[switch]]\nname = \"s[1-3]\"\n\
                [[link]]\nfrom = \"n\"\nto = \"s1\"\n[[link]]\nfrom = \"s1\"\nto = \"s2\"\n\
                [[link]]\nfrom = \"s2\"\nto = \"s3\"\ncapacity = \"3 B/s\"\n";
    let links = topology(text).links().to_vec();
    let rates = links.iter().step_by(2).map(|l| l.capacity.unwrap().get());
    assert_eq!(rates.collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[test]
fn a_host_and_a_switch_of_the_same_name_are_told_apart() {
    let text = "Switch 4 \"S-1\" # \"x\"\n[1] \"H-1\"[1]\n[2] \"S-2\"[1]\n\
                Switch 4 \"S-2\" # \"x-switch\"\n[1] \"S-1\"[2]\n\
                Ca 1 \"H-1\" # \"x HCA-1\"\n[1] \"S-1\"[1]\n";
    let network = topology(text);
    let names: Vec<&str> = network.switches().iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["x-switch_", "x-switch"]);
    assert!(network.node("x").is_some());
}

#[test]
fn blocks_are_switches_below_one() {
    let expected = ["b1 1 g[01-04]", "b2 1 g[05-08]", "blocks 2 b[1-2]"];
    assert_eq!(tree(&topology(&sample("blocks.conf"))), expected);
    let read = read_as(sample("topology.yaml").as_bytes(), None, Some("gpus")).unwrap();
    let Content::Topology(blocks) = read.content else {
        panic!("{read:?}");
    };
    assert_eq!(tree(&blocks), expected);
    assert!(
        read.notes.iter().any(|n| n.contains("blocks")),
        "{:?}",
        read.notes
    );
}

#[test]
fn a_topology_of_a_file_is_taken_by_its_name() {
    let yaml = sample("topology.yaml");
    let flat = read_as(yaml.as_bytes(), None, Some("plain")).unwrap();
    assert_eq!(flat.content, Content::Flat);
    let none = read_as(yaml.as_bytes(), None, Some("moon")).unwrap_err();
    assert!(none.to_string().contains("plain, racks, gpus"), "{none}");
    let conf = sample("topology.conf");
    assert!(read_as(conf.as_bytes(), None, Some("racks")).is_err());
    let alpha = "- topology: a\n  flat:\n    alpha_step_rank: true\n";
    assert_eq!(read(alpha.as_bytes()).unwrap().content, Content::Flat);
}

#[test]
fn nodes_get_their_cores_memory_and_state_in_both_forms() {
    let long = read_sample("scontrol-node.txt").content;
    assert_eq!(long, read_sample("scontrol-node-oneline.txt").content);
    let Content::Nodes(list) = long else {
        panic!("{long:?}");
    };
    let nodes = list.nodes;
    assert_eq!(nodes.len(), 8);
    assert_eq!(nodes[0].cores, Some(48));
    assert_eq!(nodes[0].memory.unwrap().get(), 190_000 << 20);
    assert_eq!(nodes[0].features, ["cascadelake", "ib"]);
    assert!(nodes[7].features.is_empty());
    let free: Vec<bool> = nodes.iter().map(|n| n.free).collect();
    // Allocated, drained and one that does not respond.
    assert_eq!(free, [true, false, false, true, true, true, true, false]);
}

#[test]
fn a_network_of_two_levels_is_read_with_its_parallel_cables_and_rates() {
    let read = read_sample("ibnetdiscover.txt");
    let left_out = ["1 aggregation node(s) inside switches left out"];
    assert_eq!(read.notes, left_out);
    let network = topology(&sample("ibnetdiscover.txt"));
    assert_eq!(network.nodes().len(), 12);
    let names: Vec<&str> = network.switches().iter().map(|s| s.name.as_str()).collect();
    let expected = [
        "ib-spine1",
        "ib-spine2",
        "ib-leaf1",
        "ib-leaf2",
        "ib-leaf3",
        "Quantum-Mellanox-Technologies",
    ];
    assert_eq!(names, expected);
    let levels: Vec<_> = network
        .switches()
        .iter()
        .map(|s| s.level.unwrap())
        .collect();
    assert_eq!(levels, [2, 2, 1, 1, 1, 1]);
    let link = |a: &str, b: &str| {
        let ends = [a, b].map(|n| network.vertex(n).unwrap());
        *network
            .link(network.link_between(ends[0], ends[1]).unwrap())
            .unwrap()
    };
    let up = link("ib-leaf1", "ib-spine2");
    assert_eq!((up.cables, up.capacity.unwrap().bits()), (2, 400e9));
    // Its second adapter has two lanes of HDR on another leaf.
    assert_eq!(link("node01", "ib-leaf2").capacity.unwrap().bits(), 100e9);
    let first = network.node("node01").unwrap();
    assert_eq!(network.switches_of(first).count(), 2);
}

#[test]
fn a_machine_has_cores_and_not_hardware_threads_in_both_versions_of_hwloc() {
    let of = |name: &str| match read_sample(name).content {
        Content::Machine(machine) => machine,
        other => panic!("{other:?}"),
    };
    let machine = of("hwloc2.xml");
    assert_eq!(machine, of("hwloc1.xml"));
    assert_eq!(machine.name.as_deref(), Some("n001"));
    assert_eq!(machine.cores, Some(4));
    assert_eq!(machine.memory.unwrap().get(), 198 << 30);
    let domain = MemoryDomain {
        cores: 2,
        memory: Some(idlewave_units::Bytes::new(99 << 30)),
    };
    assert_eq!(machine.domains, [domain, domain]);
}

#[test]
fn memory_without_cores_of_its_own_is_a_domain_without_cores() {
    let text = r#"<topology version="2.0"><object type="Machine">
        <object type="NUMANode" local_memory="7"/>
        <object type="Package"><object type="NUMANode" local_memory="5"/><object type="NUMANode" local_memory="3"/>
        <object type="Core"/><object type="Core"/></object></object></topology>"#;
    let Content::Machine(machine) = read(text.as_bytes()).unwrap().content else {
        panic!("no machine");
    };
    let cores: Vec<u32> = machine.domains.iter().map(|d| d.cores).collect();
    assert_eq!(cores, [0, 2, 0]);
    assert_eq!(machine.memory.unwrap().get(), 15);
}

#[test]
fn built_and_listed_topologies_are_read_from_toml() {
    let tree = topology(&sample("fat-tree.toml"));
    assert_eq!((tree.nodes().len(), tree.switches().len()), (48, 7));
    assert_eq!(tree.nodes()[0].cores, Some(64));
    assert_eq!(tree.nodes()[0].domains.len(), 2);
    assert!(!tree.nodes()[1].free);
    assert_eq!(tree.nodes()[2].cores, Some(48));
    assert_eq!(tree.nodes()[2].memory.unwrap().get(), 192 << 30);
    let levels = tree.levels();
    assert_eq!(levels[0].oversubscription, Some(2.0));
    assert_eq!((levels[0].down, levels[0].up), (48, 24));
    assert_eq!(levels[1].oversubscription, None);

    let graph = topology(&sample("graph.toml"));
    assert_eq!(graph.nodes().len(), 4);
    let both = graph.node("both").unwrap();
    let links: Vec<_> = graph.links_from(Vertex::Node(both)).collect();
    let rate = |l: usize| graph.link(links[l]).unwrap().capacity.unwrap().get();
    assert_eq!((links.len(), rate(0), rate(1)), (2, 125e6, 12.5e6));
    let switches = ["s1", "s2"].map(|s| graph.vertex(s).unwrap());
    let joined = graph.link_between(switches[0], switches[1]).unwrap();
    let joined = graph.link(joined).unwrap();
    assert_eq!((joined.cables, joined.capacity.unwrap().get()), (2, 2.5e9));
}

#[test]
fn contradictions_of_a_tree_name_the_line_and_the_node_or_switch() {
    let cases = [
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[1-2]\n",
            "line 2: n1 is a child of b and of a",
        ),
        (
            "SwitchName=a Nodes=n1,n1\n",
            "line 1: child n1 is already defined",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n",
            "line 2: switch a is already defined in line 1",
        ),
        (
            "SwitchName=a Nodes=n1 Switches=a\n",
            "line 1: switch a is above itself",
        ),
        (
            "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Switches=a\n",
            "line 1: a is above b is above a, which is a cycle",
        ),
        (
            "SwitchName=a Switches=b\n",
            "switch a has the child b, which no line defines",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
            "line 3: a is a child of c and of b",
        ),
        (
            "SwitchName=a Nodes=n[1-2\n",
            "line 1: read the list of names \"n[1-2\"",
        ),
        (
            "SwitchName=a Nodes=n[1-9999999]\n",
            "more than 1000000 names",
        ),
        (
            "SwitchName=a Nodes=a\n",
            "the name \"a\": it is given twice",
        ),
        ("SwitchName=a\n", "line 1, \"a\": a switch needs children"),
        ("SwitchName=a Colour=red\n", "line 1, \"colour\""),
        (
            "SwitchName=a Nodes=n1 x\n",
            "line 1, \"x\": it is not Key=Value",
        ),
        (
            "# x\nInclude /etc/other\n",
            "line 2, \"Include /etc/other\": included files are not read",
        ),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "line 2"),
        ("BlockName=b Nodes=n1\nBlockSizes=0\n", "line 2, \"0\""),
        ("SwitchName= Nodes=n1\n", "not the name of one switch"),
        (
            "BlockName=b Nodes=n1 nodes=n2\n",
            "line 1, \"nodes\": this key is given twice",
        ),
        (
            "SwitchName=a Nodes=n1 Nodes=n2\n",
            "line 1, \"nodes\": this key is given twice",
        ),
    ];
    for (text, part) in cases {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn contradictions_of_other_forms_are_refused_with_their_place() {
    let cases = [
        (
            "- topology: a\n  tree:\n    switches:\n      - switch: s\n        nods: n1\n",
            "line 5, \"nods\"",
        ),
        (
            "- topology: a\n  tree:\n    switches: []\n  flat: true\n",
            "one of tree, block and flat",
        ),
        (
            "- topology: a\n  flat: true\n- topology: a\n  flat: true\n",
            "line 3",
        ),
        ("- topology: &x a\n  flat: *x\n", "line 2 has an alias"),
        ("- topology: a\n  tree: [\n", "read the YAML text"),
        (
            "- topology: a\n  flat: true\n---\n- topology: b\n  flat: true\n",
            "a second document starts in line 4",
        ),
        ("NodeName=a CPUTot=many\n", "line 1, \"CPUTot=many\""),
        (
            "NodeName=a\nNodeName=a\n",
            "line 2: node a is already defined in line 1",
        ),
        (
            "Switch 2 \"S-1\" # \"a\"\n[1] \"H-1\"[1] # \"n1\" 4xHDR\n",
            "line 2, \"H-1\"",
        ),
        ("Switch 2 \"S-1\" # \"a\"\n[x] \"H-1\"[1]\n", "line 2"),
        (
            "Ca 1 \"H-1\" # \"a\"\nCa 1 \"H-1\" # \"b\"\n",
            "line 2: the device H-1 is already defined in line 1",
        ),
        (
            "Switch 2 \"S-1\" # \"a\"\n[1] \"H-1\"[1]\n[2] \"H-1\"[1]\nCa 1 \"H-1\" # \"n1 x\"\n",
            "line 3, \"S-1[2]\": H-1[1] already has a cable to S-1[1]",
        ),
        ("Switch 2 \"S-1\" # \"a\"\n", "find an adapter"),
        ("<topology></topology>", "no object of type Machine"),
        ("<topology>\n<object", "hwloc XML"),
        ("<topology></topology\n\n<", "hwloc XML"),
        ("<topology></topology\u{1b}>", "hwloc XML"),
        ("kind = \"star\"\nnodes = 2\ncolour = 3\n", "colour"),
        (
            "kind = \"star\"\nnodes = 2\nleaves = 3\n",
            "kind star has no key leaves",
        ),
        ("kind = \"star\"\n", "star needs the key nodes"),
        (
            "kind = \"fat-tree\"\nnodes_per_leaf = 1\nleaves = 1\nspines = 1\ncables_per_core = 2\n",
            "fat-tree needs the key pods",
        ),
        (
            "kind = \"star\"\nnodes = 2\ncores = 3\n[[node]]\nname = \"n2\"\ndomains = [{ cores = 0 }, { cores = 0 }]\n",
            "node \"n2\" has 3 cores, and 0 in its domains",
        ),
        ("kind = \"star\"\nnodes = 0\n", "use 0 nodes"),
        (
            "kind = \"star\"\nnodes = 1\ncapacity = \"fast\"\n",
            "\"fast\"",
        ),
        (
            "kind = \"star\"\nnodes = 1\n[[node]]\nname = \"x\"\n",
            "the star has no node \"x\"",
        ),
        (
            "[[node]]\nname = \"a\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\n",
            "a link names \"b\"",
        ),
        ("\nkind = \"ring\"\n", "read the TOML text: line 2: "),
        (
            "[[node]]\nname = \"a\"\n[[switch]]\nname = \"s\"\nlevel = 0\n",
            "level 0",
        ),
    ];
    for (text, part) in cases {
        let message = message(text);
        assert!(message.contains(part), "{text}: {message}");
        assert!(!message.contains(char::is_control), "{message}");
    }
}

#[test]
fn files_that_speak_of_the_same_nodes_are_joined() {
    let joined = combined(&["topology.conf", "scontrol-node.txt"]).unwrap();
    assert_eq!(tree(&joined.topology).len(), 3);
    assert!(joined.topology.nodes().iter().all(|n| n.cores == Some(48)));
    assert!(!joined.topology.nodes()[1].free);

    // The machine has 4 cores and these nodes 48.
    let other = combined(&["topology.conf", "scontrol-node.txt", "hwloc2.xml"]);
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("no node has as many cores")
    );
    let all = combined(&["hwloc2.xml", "topology.conf"]).unwrap();
    assert!(all.topology.nodes().iter().all(|n| n.domains.len() == 2));
    assert!(
        all.notes.iter().any(|n| n.contains("8 of 8 nodes")),
        "{:?}",
        all.notes
    );

    // Domains that do not have as many cores as the resource manager says are forgotten, others
    // kept.
    for (cores, domains) in [(8, 2), (6, 0)] {
        let toml = "kind = \"star\"\nnodes = 1\n[[node]]\nname = \"n1\"\ncores = 8\n\
                    domains = [{ cores = 4 }, { cores = 4 }]\n";
        let node = format!("NodeName=n1 CPUTot={cores} State=IDLE\n");
        let files = [toml, &node].map(|text| read(text.as_bytes()).unwrap());
        let joined = combine(files.into()).unwrap().topology;
        let node = &joined.nodes()[0];
        assert_eq!((node.cores, node.domains.len()), (Some(cores), domains));
    }
    // A machine whose domains are unknown takes none away.
    let toml = "kind = \"star\"\nnodes = 1\n[[node]]\nname = \"n1\"\ncores = 1\ndomains = [{ cores = 1 }]\n";
    let machine = "<topology><object type=\"Machine\"><object type=\"Core\"/></object></topology>";
    let files = [toml, machine].map(|text| read(text.as_bytes()).unwrap());
    let joined = combine(files.into()).unwrap().topology;
    assert_eq!(joined.nodes()[0].domains.len(), 1);

    let one = combined(&["hwloc2.xml"]).unwrap().topology;
    assert_eq!(
        (one.nodes().len(), one.nodes()[0].name.as_str()),
        (1, "n001")
    );
    let assumed = combined(&["scontrol-node.txt"]).unwrap();
    assert!(
        assumed
            .notes
            .iter()
            .any(|n| n.contains("one switch is assumed"))
    );
    assert_eq!(assumed.topology.switches().len(), 1);
}

#[test]
fn files_that_contradict_each_other_are_refused() {
    let two = combined(&["topology.conf", "topology.yaml"]).unwrap_err();
    assert!(two.to_string().contains("use only one of them"), "{two}");
    let other = combined(&["graph.toml", "scontrol-node.txt"]).unwrap_err();
    let expected = "no node of the list is in the topology: the list has n[001-007],login1, the topology a[1-3],both";
    assert!(other.to_string().contains(expected), "{other}");
    let machines = combined(&["topology.conf", "hwloc1.xml", "hwloc2.xml"]).unwrap_err();
    assert!(
        machines.to_string().contains("two hwloc machines"),
        "{machines}"
    );
    assert!(combine(Vec::new()).is_err());
}

/// A sample with some bytes replaced, removed or repeated.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        any::<prop::sample::Index>(),
        0..4u8,
        any::<u8>(),
        1..40usize,
    );
    let changes = prop::collection::vec(change, 1..6);
    (0..SAMPLES.len(), changes).prop_map(|(which, changes)| {
        let mut bytes = sample(SAMPLES[which].0).into_bytes();
        for (at, what, byte, length) in changes {
            let at = at.index(bytes.len().max(1));
            let end = (at + length).min(bytes.len());
            match what {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = byte,
                1 => bytes[at] = b"[]{}=,-\"#0 \n"[usize::from(byte) % 12],
                2 => {
                    bytes.drain(at..end);
                }
                _ => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_samples_are_read_or_refused_in_one_line(bytes in mutated()) {
        match read(&bytes) {
            Ok(read) => {
                let _ = combine(vec![read]);
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error:?}"),
        }
    }

    #[test]
    fn every_reader_takes_every_sample_or_refuses_it(bytes in mutated(), format in 0..8usize) {
        let _ = read_as(&bytes, Some(Format::ALL[format]), None);
    }
}

#[test]
fn cores_of_a_node_are_those_of_its_domains() {
    let text = |cores: &str| {
        format!(
            "[[node]]\nname = \"a\"\n{cores}domains = [{{ cores = 2 }}, {{ cores = 6 }}, {{ cores = 0 }}]\n"
        )
    };
    for cores in ["", "cores = 8\n"] {
        assert_eq!(topology(&text(cores)).nodes()[0].cores, Some(8));
    }
    let error = read(text("cores = 9\n").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has 9 cores, and 8 in its domains"),
        "{error}"
    );
}

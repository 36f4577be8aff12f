//! Writers: what is written is read back.

#![allow(clippy::unwrap_used)]

use idlewave_topology::{
    Cable, Content, Dragonfly, FatTree, NoTree, Node, Pods, Switch, Topology, Vertex, combine,
    read, write_toml, write_topology_conf,
};
use idlewave_units::BytesPerSecond;
use proptest::prelude::*;
use std::path::Path;

fn topology(text: &str) -> Topology {
    match read(text.as_bytes()).unwrap().content {
        Content::Topology(topology) => *topology,
        other => panic!("{other:?}"),
    }
}

fn sample(name: &str) -> Topology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    topology(&std::fs::read_to_string(path.join(name)).unwrap())
}

/// Nodes of each leaf, by the names of the leaves.
fn leaves(topology: &Topology) -> Vec<(String, Vec<String>)> {
    let mut leaves = std::collections::BTreeMap::<String, Vec<String>>::new();
    for node in topology.node_indices() {
        let leaf = topology.leaf_of(node).unwrap();
        let leaf = topology.switches()[leaf.get()].name.clone();
        let name = topology.nodes()[node.get()].name.clone();
        leaves.entry(leaf).or_default().push(name);
    }
    leaves.into_iter().collect()
}

#[test]
fn spines_become_one_switch_that_a_comment_explains() {
    let text = write_topology_conf(&sample("ibnetdiscover.txt")).unwrap();
    let expected = "\
# Slurm's topology/tree, written by idlewave. LinkSpeed is in Mbit/s.
# 1 node(s) on several leaf switches are listed on the first one.
SwitchName=ib-leaf1 Nodes=node[01-03] LinkSpeed=200000
SwitchName=ib-leaf2 Nodes=node[04-06] LinkSpeed=100000
SwitchName=ib-leaf3 Nodes=node[07-09] LinkSpeed=200000
SwitchName=Quantum-Mellanox-Technologies Nodes=node[10-12] LinkSpeed=200000
# ib-spine1 replaces ib-spine[1-2]
SwitchName=ib-spine1 Switches=ib-leaf[1-3],Quantum-Mellanox-Technologies LinkSpeed=200000
";
    assert_eq!(text, expected);
    assert_eq!(
        leaves(&topology(&text)),
        leaves(&sample("ibnetdiscover.txt"))
    );
}

#[test]
fn pods_of_a_fat_tree_are_the_middle_level() {
    let tree = FatTree {
        nodes_per_leaf: 2,
        leaves: 2,
        spines: 2,
        cables_per_spine: 1,
        pods: Some(Pods {
            pods: 2,
            cores_per_spine: 2,
            cables_per_core: 1,
        }),
    };
    let text = write_topology_conf(&Topology::fat_tree(tree).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let expected = [
        "SwitchName=leaf1 Nodes=n[1-2]",
        "SwitchName=leaf2 Nodes=n[3-4]",
        "SwitchName=leaf3 Nodes=n[5-6]",
        "SwitchName=leaf4 Nodes=n[7-8]",
        "SwitchName=spine1 Switches=leaf[1-2]",
        "SwitchName=spine3 Switches=leaf[3-4]",
        "SwitchName=core1 Switches=spine[1,3]",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_tree_of_slurm_is_written_as_it_was_read() {
    let tree = sample("topology.conf");
    let again = topology(&write_topology_conf(&tree).unwrap());
    assert_eq!(again.nodes(), tree.nodes());
    assert_eq!(again.switches(), tree.switches());
    assert_eq!(leaves(&again), leaves(&tree));
    // A switch with switches of two levels below it.
    let uneven = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=b\nSwitchName=d Switches=a,c\n";
    let text = write_topology_conf(&topology(uneven)).unwrap();
    assert!(text.ends_with(uneven), "{text}");
}

#[test]
fn a_switch_below_two_levels_is_listed_once_and_one_without_nodes_not_at_all() {
    let text = "[[node]]\nname = \"n\"\n[[switch]]\nname = \"a,e\"\nlevel = 1\n[[switch]]\nname = \"b\"\nlevel = 2\n\
                [[switch]]\nname = \"c\"\nlevel = 3\n[[link]]\nfrom = \"n\"\nto = \"a\"\n\
                [[link]]\nfrom = \"a,e\"\nto = \"b\"\n[[link]]\nfrom = \"a,b\"\nto = \"c\"\n";
    let text = write_topology_conf(&topology(text)).unwrap();
    let expected = "SwitchName=a Nodes=n\nSwitchName=b Switches=a\nSwitchName=c Switches=b\n";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn capacities_of_parallel_cables_are_read_back_to_the_last_digit() {
    let ends = |n| {
        let node = idlewave_topology::NodeIndex::new(n);
        let switch = idlewave_topology::SwitchIndex::new(0);
        (Vertex::Node(node), Vertex::Switch(switch))
    };
    // Every node with other cables than the one before it.
    let cable = |n: usize| Cable {
        capacity: BytesPerSecond::new((1 + n / 2) as f64 * 1e9 / 7.0),
        count: 1 + n as u32 % 40,
        ..Cable::new(ends(n).0, ends(n).1)
    };
    let cables: Vec<Cable> = (0..400).map(cable).collect();
    let nodes = (0..400).map(|n| Node::new(format!("n{n}"))).collect();
    let graph = Topology::from_cables(nodes, vec![Switch::new("s")], &cables).unwrap();
    assert_eq!(topology(&write_toml(&graph)), graph);
    // The same number of cables that carry other rates.
    let cables: Vec<Cable> = cables
        .into_iter()
        .map(|c| Cable { count: 1, ..c })
        .collect();
    let graph = Topology::from_cables(graph.nodes().to_vec(), vec![Switch::new("s")], &cables);
    let graph = graph.unwrap();
    assert_eq!(topology(&write_toml(&graph)), graph);
}

#[test]
fn what_is_no_tree_is_refused_with_what_to_use() {
    let torus = Topology::torus(&[3, 3], true).unwrap();
    let error = write_topology_conf(&torus).unwrap_err();
    assert!(matches!(error, NoTree::SameLevel { .. }));
    assert!(error.to_string().contains("topology/3d_torus"), "{error}");
    let alone = Topology::from_cables(vec![Node::new("x")], Vec::new(), &[]).unwrap();
    let error = write_topology_conf(&alone).unwrap_err();
    assert!(error.to_string().contains("no cable connects x"), "{error}");
}

fn built() -> impl Strategy<Value = Topology> {
    let tree = (1..5u32, 1..5u32, 1..4u32, 1..12u32, 0..3u32, 1..3u32).prop_map(
        |(nodes_per_leaf, leaves, spines, cables_per_spine, pods, cores)| {
            let pods = (pods > 0).then_some(Pods {
                pods,
                cores_per_spine: cores,
                cables_per_core: 2,
            });
            let numbers = FatTree {
                nodes_per_leaf,
                leaves,
                spines,
                cables_per_spine,
                pods,
            };
            Topology::fat_tree(numbers).unwrap()
        },
    );
    let star = (1..20usize).prop_map(|n| Topology::star(n).unwrap());
    prop_oneof![tree, star]
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let torus = (prop::collection::vec(1..5u32, 1..4), any::<bool>(), 1..3u32)
        .prop_map(|(dims, wrap, nodes)| Topology::torus_of(&dims, wrap, nodes).unwrap());
    let cube = (1..6u32, 1..3u32).prop_map(|(d, nodes)| Topology::hypercube(d, nodes).unwrap());
    let dragonfly = (1..4u32, 1..4u32).prop_map(|(groups, switches_per_group)| {
        let numbers = Dragonfly {
            groups,
            switches_per_group,
            nodes_per_switch: 2,
            global_links_per_switch: 2,
        };
        Topology::dragonfly(numbers).unwrap()
    });
    let shapes = prop_oneof![built(), torus, cube, dragonfly];
    let capacity = prop::option::of((1..1000u32, 1..1000u32));
    let nodes = prop::collection::vec((1..65u32, 1..1000u64, any::<bool>()), 4);
    (shapes, capacity, nodes).prop_map(|(mut topology, capacity, kinds)| {
        if let Some((nodes, switches)) = capacity {
            let rate = |r| BytesPerSecond::new(f64::from(r) * 1e8 / 66.0).unwrap();
            topology = topology
                .with_capacity(rate(nodes))
                .with_uplink_capacity(rate(switches));
        }
        topology.update_nodes(|index, node| {
            let (cores, memory, free) = kinds[index.get() / 3 % 4];
            node.cores = Some(cores).filter(|c| c % 3 > 0);
            node.memory = Some(idlewave_units::Bytes::new(memory << 20));
            node.free = free;
            node.features = vec![format!("f{cores}")];
        });
        topology
    })
}

proptest! {
    #[test]
    fn a_topology_is_read_back_from_toml_as_it_was_written(topology in any_topology()) {
        let text = write_toml(&topology);
        let again = combine(vec![read(text.as_bytes()).unwrap()]).unwrap().topology;
        prop_assert_eq!(again.nodes(), topology.nodes(), "{}", text);
        prop_assert_eq!(again.switches(), topology.switches());
        prop_assert_eq!(again.links(), topology.links());
        // And its messages travel the same ways.
        let ends = [0, topology.nodes().len() - 1].map(idlewave_topology::NodeIndex::new);
        for routing in [idlewave_topology::Routing::Deterministic, idlewave_topology::Routing::Multipath] {
            let ways = |t: &Topology| t.routes(ends[0], ends[1], routing);
            prop_assert_eq!(ways(&again), ways(&topology));
        }
    }

    #[test]
    fn a_topology_conf_has_the_same_leaves(topology in built()) {
        let text = write_topology_conf(&topology).unwrap();
        prop_assert_eq!(leaves(&self::topology(&text)), leaves(&topology));
    }
}

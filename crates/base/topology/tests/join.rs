//! A fabric dump has every host that is plugged in; the batch system says which of them run jobs.

#![allow(clippy::unwrap_used)]

use idlewave_topology::{Combined, ReadError, combine, read, write_topology_conf};

/// Four hosts on one switch: two compute nodes, a login node and a storage server.
const FABRIC: &str = "\
Switch 8 \"S-1\" # \"leaf1\"
[1] \"H-1\"[1] # \"node01 mlx5_0\" 4xHDR
[2] \"H-2\"[1] # \"node02 mlx5_0\" 4xHDR
[3] \"H-3\"[1] # \"login01 mlx5_0\" 4xHDR
[4] \"H-4\"[1] # \"oss1 mlx5_0\" 4xHDR
Ca 1 \"H-1\" # \"node01 mlx5_0\"
Ca 1 \"H-2\" # \"node02 mlx5_0\"
Ca 1 \"H-3\" # \"login01 mlx5_0\"
Ca 1 \"H-4\" # \"oss1 mlx5_0\"
";

fn joined(texts: &[&str]) -> Result<Combined, ReadError> {
    let files = texts.iter().map(|text| read(text.as_bytes()).unwrap());
    combine(files.collect())
}

/// Names of the nodes on which ranks may be put.
fn available(combined: &Combined) -> Vec<&str> {
    let nodes = combined.topology.nodes().iter();
    let nodes = nodes.filter(|n| n.is_available());
    nodes.map(|n| n.name.as_str()).collect()
}

#[test]
fn hosts_that_the_batch_system_does_not_list_stay_in_the_network_and_get_no_ranks() {
    let list = "NodeName=node01 CPUTot=8 State=IDLE\nNodeName=node02 CPUTot=8 State=DOWN*\n\
                NodeName=node03 CPUTot=8 State=IDLE\n";
    let joined = joined(&[FABRIC, list]).unwrap();
    assert_eq!(joined.topology.nodes().len(), 4);
    assert_eq!(available(&joined), ["node01"]);
    let said = joined.notes.join("\n");
    for part in [
        "no ranks on 2 nodes missing from the list of nodes: login01,oss1",
        "no ranks on 1 node not free: node02",
        "no ranks on 1 node missing from the topology: node03",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(joined.warnings, [""; 0]);
    // Slurm refuses a topology.conf with hosts that it does not know.
    let conf = write_topology_conf(&joined.topology).unwrap();
    assert!(conf.contains("Nodes=node[01-02] "), "{conf}");
}

#[test]
fn a_list_of_other_nodes_is_refused() {
    let list = "NodeName=c1 CPUTot=8 State=IDLE\n";
    let refused = joined(&[FABRIC, list]).unwrap_err().to_string();
    let expected = "join the files: no node of the list is in the topology: the list has c1, the topology node[01-02],login01,oss1";
    assert_eq!(refused, expected);
}

#[test]
fn nodes_are_the_same_where_their_host_names_are() {
    let list = "NodeName=c1 NodeHostName=node01 CPUTot=8 State=IDLE\n\
                NodeName=node02.cluster.example CPUTot=8 State=IDLE\n";
    let joined = joined(&[FABRIC, list]).unwrap();
    // Jobs ask for nodes by the names of the batch system.
    assert_eq!(available(&joined), ["c1", "node02.cluster.example"]);
    assert!(joined.topology.node("node01").is_none() && joined.topology.node("c1").is_some());
}

#[test]
fn a_fabric_alone_warns_of_hosts_that_are_named_unlike_the_others() {
    let alone = joined(&[FABRIC]).unwrap();
    assert_eq!(available(&alone).len(), 4);
    let said = alone.warnings.join("\n");
    assert!(
        said.contains("login01,oss1 are named differently from the other nodes"),
        "{said}"
    );
}

#[test]
fn slurm_conf_says_which_nodes_there_are_and_what_they_have() {
    let conf = "\
ClusterName=c # the name
SlurmctldHost=head(10.0.0.1)
NodeName=DEFAULT Sockets=2 CoresPerSocket=12 ThreadsPerCore=2 RealMemory=64000
NodeName=node[01-02] NodeAddr=10.0.0.[1-2] \\
  Feature=ib,big State=UNKNOWN
NodeName=gpu1 CPUs=16 Sockets=1 CoresPerSocket=8 State=DOWN
DownNodes=node02 State=DRAIN Reason=fan
PartitionName=main Nodes=ALL Default=YES State=UP
";
    let joined = joined(&[FABRIC, conf]).unwrap();
    assert_eq!(available(&joined), ["node01"]);
    let node = &joined.topology.nodes()[0];
    assert_eq!((node.cores, node.features.len()), (Some(24), 2));
    assert_eq!(node.memory.unwrap().get(), 64_000 << 20);
    // Without a fabric it is the list of nodes on one switch.
    let alone = combine(vec![read(conf.as_bytes()).unwrap()]).unwrap();
    let cores: Vec<_> = alone.topology.nodes().iter().map(|n| n.cores).collect();
    assert_eq!(cores, [Some(24), Some(24), Some(8)]);
    for (wrong, part) in [
        ("NodeName=n[1-2] CPUs=many\n", "line 1, \"CPUs=many\""),
        (
            "NodeName=n1 CPUs=2\nNodeName=n1 CPUs=2\nPartitionName=p\n",
            "line 2: node n1 is already defined in line 1",
        ),
        (
            "ClusterName=c\nInclude nodes.conf\nNodeName=n1\n",
            "line 2, \"Include nodes.conf\"",
        ),
        (
            "ClusterName=c\nPartitionName=p Nodes=ALL\n",
            "find a line with NodeName=",
        ),
        (
            "NodeName=n[1-2] NodeHostName=h[1-3] CPUs=1\n",
            "as many host names as NodeName= has names",
        ),
    ] {
        let error = read(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{wrong}: {error}");
    }
}

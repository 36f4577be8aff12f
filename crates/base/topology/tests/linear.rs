//! Readers take time and memory in proportion to a file, whoever wrote it: what would not is
//! refused before it starts.

#![allow(clippy::unwrap_used)]

use idlewave_topology::{combine, expand_hostlist, read};
use std::fmt::Write;

fn refused(text: &str) -> String {
    let combined = read(text.as_bytes()).and_then(|read| combine(vec![read]));
    combined.unwrap_err().to_string()
}

fn machine(inside: &str) -> String {
    format!("<topology><object type=\"Machine\">{inside}</object></topology>")
}

#[test]
fn an_element_with_very_many_attributes_is_refused() {
    let mut many = "<object type=\"Core\"".to_owned();
    for n in 0..200_000 {
        let _ = write!(many, " a{n}=\"\"");
    }
    let said = refused(&machine(&(many + "/>")));
    assert!(said.contains("more than 256 attributes"), "{said}");
    let namespaces = machine("<object type=\"Core\" xmlns:a=\"b\"/>");
    assert!(refused(&namespaces).contains("namespaces"));
    let entity = "<!DOCTYPE topology [<!ENTITY a \"<object/>\">]><topology>&a;</topology>";
    assert!(refused(entity).contains("entities"));
}

#[test]
fn cores_far_from_any_memory_are_counted_in_one_pass() {
    // 40,000 x 40,000 looks at siblings take minutes.
    let cores = "<object type=\"Core\"/>".repeat(40_000);
    let read = read(machine(&cores).as_bytes()).unwrap();
    assert_eq!(read.notes, [""; 0]);
}

#[test]
fn a_chain_of_switches_is_summed_up_in_one_pass() {
    let mut chain = "SwitchName=s0 Nodes=n0\n".to_owned();
    for n in 1..200_000 {
        let _ = writeln!(chain, "SwitchName=s{n} Switches=s{}", n - 1);
    }
    let read = read(chain.as_bytes()).unwrap();
    let topology = combine(vec![read]).unwrap().topology;
    let levels = topology.levels();
    assert_eq!(levels.len(), 200_000);
    assert!(levels.iter().all(|l| l.switches == 1 && l.down == 1));
}

#[test]
fn a_name_of_very_many_brackets_is_refused_before_it_is_written_out() {
    let error = expand_hostlist(&"[1]".repeat(1_000_000)).unwrap_err();
    assert!(error.to_string().contains("longer than 255"), "{error}");
}

#[test]
fn what_all_nodes_of_a_list_share_is_bounded() {
    let domains = vec!["{ cores = 1 }"; 5_000].join(",");
    let toml = format!("[[node]]\nname = \"n[1-100000]\"\ndomains = [{domains}]\n");
    assert!(refused(&toml).contains("domains"), "domains");
    let features = vec!["\"f\""; 5_000].join(",");
    let toml = format!("[[node]]\nname = \"n[1-100000]\"\nfeatures = [{features}]\n");
    assert!(refused(&toml).contains("features"), "features");
}

#[test]
fn the_last_link_of_a_way_is_found_at_the_node_and_not_among_the_ports_of_the_switch() {
    use idlewave_topology::{NodeIndex, Routing, Topology};
    // 20,000 ways, each with a look at all of 100,000 ports several times, would take minutes.
    let star = Topology::star(100_000).unwrap();
    for routing in [Routing::Deterministic, Routing::Multipath] {
        for to in (1..100_000).step_by(10) {
            let (from, to) = (NodeIndex::new(0), NodeIndex::new(to));
            let route = star.routes(from, to, routing).unwrap();
            assert_eq!((route.shares.len(), route.hops), (2, 1));
        }
    }
}

use super::*;
use crate::dump::read_dump;
use crate::rate::Counter;
use idlewave_topology::{Cable, FatTree, Node, Switch, SwitchIndex};
use idlewave_units::BytesPerSecond;

/// Two leaves of two nodes each below a spine, 1 GB/s everywhere.
fn tree() -> Topology {
    let tree = Topology::fat_tree(FatTree {
        nodes_per_leaf: 2,
        leaves: 2,
        spines: 1,
        cables_per_spine: 1,
        pods: None,
    });
    tree.unwrap()
        .with_capacity(BytesPerSecond::new(1e9).unwrap())
}

fn adapter(name: &str, kind: Kind, gigabits: f64, counts: &[(u64, u64)]) -> Adapter {
    Adapter {
        name: name.to_owned(),
        kind,
        bits_per_second: Some(gigabits * 1e9),
        counter: Counter::Bytes64,
        counts: counts.iter().map(|c| Some(*c)).collect(),
    }
}

/// Read twice, a second apart.
fn host(name: &str, adapters: Vec<Adapter>) -> HostCounters {
    HostCounters {
        host: name.to_owned(),
        taken: 1_790_000_000,
        at: vec![0.0, 1.0],
        adapters,
    }
}

/// A host that sends and receives so much in a second.
fn busy(name: &str, sent: u64, received: u64) -> HostCounters {
    let counts = [(7, 9), (7 + sent, 9 + received)];
    host(name, vec![adapter("eth0", Kind::Device, 10.0, &counts)])
}

fn of<'f>(file: &'f LoadFile, from: &str, to: &str) -> Option<&'f LoadEntry> {
    let ends = Ends::Pair(from.to_owned(), to.to_owned());
    file.loads.iter().find(|load| load.ends == ends)
}

fn value(file: &LoadFile, from: &str, to: &str) -> f64 {
    of(file, from, to).unwrap().rate
}

fn sources(hosts: Vec<HostCounters>) -> Sources {
    Sources {
        hosts,
        names_switches: true,
        ..Sources::default()
    }
}

fn dump(at: f64, text: &str) -> SwitchDump {
    let ports = read_dump(text).unwrap();
    SwitchDump { at, ports }
}

#[test]
fn adapters_are_the_links_of_the_node_of_their_hosts_name() {
    let hosts = vec![
        busy("n1", 100, 10),
        busy("n2.cluster.example", 0, 3),
        busy("x", 1, 1),
    ];
    let file = acquire(&tree(), &sources(hosts));
    assert_eq!(value(&file, "n1", "leaf1"), 100.0);
    assert_eq!(value(&file, "leaf1", "n1"), 10.0);
    assert_eq!(value(&file, "leaf1", "n2"), 3.0);
    assert_eq!(of(&file, "n1", "leaf1").unwrap().origin, Origin::Counters);
    assert_eq!(of(&file, "n3", "leaf2"), None);
    let said = file.warnings.join("\n");
    assert!(
        said.contains("not in the topology, and left out: x"),
        "{said}"
    );
    assert!(said.contains("taken as idle: 2 nodes, n[3-4]"), "{said}");
    assert_eq!(
        (file.taken, file.seconds),
        (When::of(1_790_000_000), Some(1.0))
    );
    // Where the switch was assumed, the node's name is enough.
    let unnamed = Sources {
        names_switches: false,
        ..sources(vec![busy("n1", 100, 10)])
    };
    let star = Topology::star(1).unwrap();
    let ends: Vec<Ends> = acquire(&star, &unnamed)
        .loads
        .into_iter()
        .map(|l| l.ends)
        .collect();
    assert_eq!(
        ends,
        [Ends::Out("n1".to_owned()), Ends::Into("n1".to_owned())]
    );
}

#[test]
fn of_several_adapters_infiniband_comes_first_then_the_fastest_or_the_named() {
    let all = || {
        vec![
            adapter("eth0", Kind::Device, 1.0, &[(0, 0), (1, 0)]),
            adapter("eth1", Kind::Device, 25.0, &[(0, 0), (20, 0)]),
            adapter("veth", Kind::Virtual, 99.0, &[(0, 0), (300, 0)]),
        ]
    };
    let sent = |adapters: Vec<Adapter>, named: &[&str]| {
        let mut sources = sources(vec![host("n1", adapters)]);
        sources.adapters = named.iter().map(|n| (*n).to_owned()).collect();
        let file = acquire(&tree(), &sources);
        (value(&file, "n1", "leaf1"), file.warnings[0].clone())
    };
    let (rate, said) = sent(all(), &[]);
    assert_eq!(rate, 20.0);
    assert!(said.contains("eth0, eth1: eth1 counts"), "{said}");
    // Named ones are added.
    assert_eq!(sent(all(), &["eth*"]).0, 21.0);
    assert_eq!(sent(all(), &["*0", "v*h"]).0, 301.0);
    let mut with_ib = all();
    with_ib.push(adapter(
        "mlx5_0/1",
        Kind::InfiniBand,
        0.1,
        &[(0, 0), (50, 0)],
    ));
    assert_eq!(sent(with_ib, &[]).0, 50.0);
    // Two links: two adapters in the order of their names.
    let ends = [0, 1].map(|s| {
        let node = Vertex::Node(NodeIndex::new(0));
        Cable::new(node, Vertex::Switch(SwitchIndex::new(s)))
    });
    let switches = vec![Switch::new("a"), Switch::new("b")];
    let rails = Topology::from_cables(vec![Node::new("n1")], switches, &ends).unwrap();
    let file = acquire(&rails, &sources(vec![host("n1", all())]));
    assert_eq!(
        (value(&file, "n1", "a"), value(&file, "n1", "b")),
        (1.0, 20.0)
    );
}

#[test]
fn a_reset_is_a_warning_and_no_rate() {
    let eth = adapter("eth0", Kind::Device, 10.0, &[(900, 0), (5, 0)]);
    let file = acquire(&tree(), &sources(vec![host("n1", vec![eth])]));
    assert_eq!(of(&file, "n1", "leaf1"), None);
    let expected = "the counter of what eth0 of n1 sent was reset 1 time: its rate is not known";
    assert_eq!(file.warnings[0], expected);
}

#[test]
fn perfquery_with_iblinkinfo_gives_links_between_switches() {
    let links = "\
Switch: 0x1 MF0;leaf1:MQM8700/U1:
   7    3[  ] ==( 4X Active/  LinkUp)==>       9    1[  ] \"MF0;spine1:MQM8700/U1\" ( )
   7    1[  ] ==( 4X Active/  LinkUp)==>       2    1[  ] \"n1 HCA-1\" ( )
";
    let counts = |a: u64, b: u64| {
        format!(
            "# Port extended counters: Lid 7 port 3 (CapMask: 0x5300)\nPortXmitData:....{a}\nPortRcvData:....{b}\n\
             # Port extended counters: Lid 7 port 1 (CapMask: 0x5300)\nPortXmitData:....{b}\nPortRcvData:....{a}\n"
        )
    };
    let file = acquire(
        &tree(),
        &Sources {
            // What an adapter counts itself comes first.
            hosts: vec![busy("n1", 5, 6)],
            dumps: vec![
                dump(10.0, &counts(1000, 0)),
                dump(20.0, &counts(1250, 50)),
                dump(99.0, links),
            ],
            names_switches: true,
            ..Sources::default()
        },
    );
    assert_eq!(value(&file, "leaf1", "spine1"), 100.0);
    assert_eq!(value(&file, "spine1", "leaf1"), 20.0);
    assert_eq!(
        (value(&file, "n1", "leaf1"), value(&file, "leaf1", "n1")),
        (5.0, 6.0)
    );
    // A list of links has no time of its own.
    let dumps = vec![
        dump(10.0, &counts(1, 0)),
        dump(20.0, &counts(2, 5)),
        dump(99.0, links),
    ];
    let of_dumps = Sources {
        dumps,
        ..Sources::default()
    };
    let of_dumps = acquire(&tree(), &of_dumps);
    assert_eq!(
        (of_dumps.taken, of_dumps.seconds),
        (When::of(20), Some(10.0))
    );
    // The other leaf has no counters.
    assert_eq!(
        of(&file, "spine1", "leaf2").unwrap().origin,
        Origin::Estimated
    );
}

#[test]
fn walks_of_a_switch_are_matched_by_the_alias() {
    let walk = |octets: u64| {
        format!(
            "SNMPv2-MIB::sysName.0 = STRING: leaf1\nIF-MIB::ifName.1 = STRING: e1\nIF-MIB::ifAlias.1 = STRING: uplink to spine1 (e7)\n\
             IF-MIB::ifHCInOctets.1 = Counter64: 5\nIF-MIB::ifHCOutOctets.1 = Counter64: {octets}\n\
             IF-MIB::ifName.2 = STRING: e2\nIF-MIB::ifHCInOctets.2 = Counter64: 5\nIF-MIB::ifHCOutOctets.2 = Counter64: 5\n"
        )
    };
    let dumps = vec![dump(0.0, &walk(0)), dump(2.0, &walk(300))];
    let file = acquire(
        &tree(),
        &Sources {
            dumps,
            names_switches: true,
            ..Sources::default()
        },
    );
    assert_eq!(value(&file, "leaf1", "spine1"), 150.0);
    assert_eq!(value(&file, "spine1", "leaf1"), 0.0);
    let said = file.warnings.join("\n");
    assert!(said.contains("where 1 port of switches lead"), "{said}");
    assert_eq!((file.taken, file.seconds), (When::of(2), Some(2.0)));
}

#[test]
fn links_between_switches_are_estimated_within_jobs() {
    let hosts = || {
        vec![
            busy("n1", 100, 0),
            busy("n2", 0, 100),
            busy("n3", 40, 0),
            busy("n4", 0, 40),
        ]
    };
    let job = |id: &str, nodes: [&str; 2]| RunningJob {
        id: id.to_owned(),
        nodes: nodes.map(str::to_owned).to_vec(),
    };
    let mut known = sources(hosts());
    known.jobs = Some(vec![job("1", ["n1", "n2"]), job("2", ["n3", "n4"])]);
    let up = |sources: &Sources| {
        let file = acquire(&tree(), sources);
        let up = of(&file, "leaf1", "spine1").unwrap();
        (up.rate, up.range.unwrap())
    };
    // Each job is below its leaf: nothing goes up.
    assert_eq!(up(&known), (0.0, (0.0, 0.0)));
    // Without jobs, up to 40 may.
    let (rate, range) = up(&sources(hosts()));
    assert!(rate > 25.0 && rate < 30.0, "{rate}");
    assert_eq!(range, (0.0, 40.0));
    let file = acquire(&tree(), &known);
    assert_eq!(file.jobs[0].nodes, "n[1-2]");
}

#[test]
fn an_estimate_has_an_interval_only_if_all_nodes_are_measured() {
    let hosts = |names: &[&str]| sources(names.iter().map(|n| busy(n, 40, 40)).collect());
    let up = |sources: &Sources| {
        let file = acquire(&tree(), sources);
        let said = file.warnings.join("\n");
        let range = of(&file, "leaf1", "spine1").unwrap().range;
        assert_eq!(
            range.is_none(),
            said.contains("without an interval"),
            "{said}"
        );
        range
    };
    assert_eq!(up(&hosts(&["n1", "n2", "n3", "n4"])), Some((0.0, 80.0)));
    // What n4 sends to n1 may take any part of the links.
    assert_eq!(up(&hosts(&["n1", "n2", "n3"])), None);
    // Nor is it known if only one direction of a node is.
    let mut half = hosts(&["n1", "n2", "n3", "n4"]);
    half.hosts[3] = host(
        "n4",
        vec![adapter("eth0", Kind::Device, 10.0, &[(9, 1), (0, 5)])],
    );
    assert_eq!(up(&half), None);
}

#[test]
fn jobs_that_share_a_node_talk_as_one() {
    let job = |id: &str, nodes: &[&str]| RunningJob {
        id: id.to_owned(),
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
    };
    let up = |jobs: Vec<RunningJob>| {
        let mut sources = sources(vec![
            busy("n1", 0, 0),
            busy("n2", 100, 0),
            busy("n3", 0, 100),
            busy("n4", 0, 0),
        ]);
        sources.jobs = Some(jobs);
        let file = acquire(&tree(), &sources);
        of(&file, "leaf1", "spine1").unwrap().range
    };
    let apart = vec![job("1", &["n1", "n2"]), job("2", &["n3", "n4"])];
    assert_eq!(up(apart.clone()), Some((0.0, 0.0)));
    // The second job of n2 reaches n3, whichever comes first.
    let mut shared = apart;
    shared.push(job("3", &["n2", "n3"]));
    assert_eq!(up(shared.clone()), Some((100.0, 100.0)));
    shared.reverse();
    assert_eq!(up(shared), Some((100.0, 100.0)));
}

#[test]
fn counts_of_one_time_or_of_several_kinds_are_not_mixed() {
    let counts = |extended: &str, sent: u64| {
        format!(
            "# Port {extended}counters: Lid 7 port 3 (CapMask: 0x5300)\nPortXmitData:....{sent}\nPortRcvData:....0\n"
        )
    };
    let links = "Switch: 0x1 leaf1:\n 7 3[ ] ==( Active)==> 9 1[ ] \"spine1\" ( )\n";
    let file = |texts: &[(f64, String)]| {
        let dumps = texts.iter().map(|(at, text)| dump(*at, text));
        let dumps = dumps.chain([dump(0.0, links)]).collect();
        acquire(
            &tree(),
            &Sources {
                dumps,
                names_switches: true,
                ..Sources::default()
            },
        )
    };
    let wide = |sent| counts("extended ", sent);
    let narrow = |sent| counts("", sent);
    // The last are of 64 bits: what 32 bits say is left out.
    let mixed = [(0.0, wide(100)), (10.0, narrow(900)), (20.0, wide(600))];
    assert_eq!(value(&file(&mixed), "leaf1", "spine1"), 100.0);
    // Twice in a dump.
    let twice = [
        (0.0, wide(100) + &wide(300)),
        (10.0, wide(350) + &wide(550)),
    ];
    assert_eq!(value(&file(&twice), "leaf1", "spine1"), 100.0);
    for once in [
        vec![(0.0, narrow(5)), (9.0, wide(100))],
        vec![(9.0, wide(5)), (9.0, wide(100))],
    ] {
        let file = file(&once);
        assert_eq!(of(&file, "leaf1", "spine1"), None);
        let said = file.warnings.join("\n");
        assert!(
            said.contains("counters of 1 port were given once only, or for one time only"),
            "{said}"
        );
        assert!(said.contains("FILE@TIME"), "{said}");
    }
}

#[test]
fn a_counter_that_may_have_wrapped_more_than_once_is_a_warning() {
    let walk = |octets: u64| {
        format!(
            "SNMPv2-MIB::sysName.0 = STRING: leaf1\nIF-MIB::ifAlias.1 = STRING: spine1\n\
             IF-MIB::ifInOctets.1 = Counter32: 5\nIF-MIB::ifOutOctets.1 = Counter32: {octets}\n"
        )
    };
    let after = |seconds: f64| {
        let dumps = vec![dump(0.0, &walk(0)), dump(seconds, &walk(3000))];
        acquire(
            &tree(),
            &Sources {
                dumps,
                names_switches: true,
                ..Sources::default()
            },
        )
    };
    // 1 GB/s brings it around in 4.3 s.
    assert_eq!(value(&after(3.0), "leaf1", "spine1"), 1000.0);
    let late = after(60.0);
    assert_eq!(of(&late, "leaf1", "spine1"), None);
    assert!(
        late.warnings[0].contains("may have wrapped more than once"),
        "{:?}",
        late.warnings
    );
    assert!(
        late.warnings[0].contains("walk ifXTable"),
        "{:?}",
        late.warnings
    );
}

#[test]
fn intervals_of_adapters_together_do_not_depend_on_the_cut_at_0() {
    let rate = |value: f64, half: f64| Rate {
        value,
        range: Some(((value - half).max(0.0), value + half)),
    };
    let expected = Rate {
        value: 11.0,
        range: Some((6.0, 16.0)),
    };
    assert_eq!(sum(rate(10.0, 3.0), rate(1.0, 4.0)), expected);
    let unknown = Rate {
        value: 1.0,
        range: None,
    };
    assert_eq!(sum(rate(10.0, 3.0), unknown).range, None);
}

#[test]
fn nodes_without_counters_are_counted() {
    let star = Topology::star(1_501).unwrap();
    let file = acquire(&star, &sources(vec![busy("n1", 1, 1)]));
    let said = file.warnings.join("\n");
    assert!(
        said.contains("taken as idle: 1,500 nodes, n[2-1001] and others"),
        "{said}"
    );
}

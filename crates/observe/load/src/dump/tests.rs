use super::*;
use crate::rate::Counter;

fn lid(lid: u32) -> Device {
    Device {
        lid: Some(lid),
        ..Device::default()
    }
}

fn named(name: &str) -> Device {
    Device {
        name: Some(name.to_owned()),
        ..Device::default()
    }
}

fn counts(counter: Counter, sent: u64, received: u64) -> Option<Counts> {
    Some(Counts {
        counter,
        sent,
        received,
    })
}

#[test]
fn perfquery_gives_words_of_a_port_by_its_lid() {
    let text = "\
# Port counters: Lid 7 port 1 (CapMask: 0x5A00)
PortSelect:......................1
SymbolErrorCounter:..............0
PortXmitData:....................864
PortRcvData:.....................1008
# Port extended counters: Lid 7 port 2 (CapMask: 0x5300 CapMask2: 0x0000002)
PortXmitData:....................36298026860928
PortRcvData:.....................12279028775751
# PortXmitDataSL counters: Lid 7 port 2
PortXmitData:....................1
# Port extended counters: Lid 7 port 255 (CapMask: 0x5300)
PortXmitData:....................3
PortRcvData:.....................4
";
    let ports = read_dump(text).unwrap();
    assert_eq!(ports.len(), 2);
    assert_eq!((&ports[0].of, ports[0].port.as_str()), (&lid(7), "1"));
    assert_eq!(ports[0].counts, counts(Counter::Words32, 864, 1008));
    let large = counts(Counter::Words64, 36_298_026_860_928, 12_279_028_775_751);
    assert_eq!(ports[1].counts, large);
}

#[test]
fn ibqueryerrors_gives_both_ends() {
    let text = "\
Data Counters for 0x0002c902004b1b48 \"MF0;leaf1:MQM8700/U1\"
   GUID 0x0002c902004b1b48 port ALL: [PortXmitData == 9] [PortRcvData == 9]
   GUID 0x0002c902004b1b48 port 3: [PortXmitData == 198 (1.1MB)] [PortRcvData == 155 (  infPB)] [PortXmitPkts == 5 (5.000)]
       Link info:    7   3[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>  0x0002c903000e0b72    9   1[  ] \"n1 HCA-1\" ( )
## Summary: 8 nodes checked, 0 bad nodes found
";
    let ports = read_dump(text).unwrap();
    let [port] = ports.as_slice() else {
        panic!("{ports:?}");
    };
    let guid = |guid: &str| Some(guid.to_owned());
    let of = Device {
        lid: Some(7),
        guid: guid("0x0002c902004b1b48"),
        name: guid("MF0;leaf1:MQM8700/U1"),
    };
    let peer = Device {
        lid: Some(9),
        guid: guid("0x0002c903000e0b72"),
        name: guid("n1 HCA-1"),
    };
    assert_eq!((&port.of, port.peer.as_ref()), (&of, Some(&peer)));
    assert_eq!(port.counts, counts(Counter::Words64, 198, 155));
}

#[test]
fn iblinkinfo_gives_names_and_ends_in_both_its_forms() {
    let headings = "\
CA: n1 HCA-1:
      0x0002c903000e0b72      9    1[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>       7    3[  ] \"leaf1\" ( )
Switch: 0x0002c902004b1b48 leaf1:
           7    3[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>       9    1[  ] \"n1 HCA-1\" ( )
           7    5[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )
";
    let lines = "\
0x0002c903000e0b72 \"      n1 HCA-1\"  9    1[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>  0x0002c902004b1b48  7    3[  ] \"leaf1\" ( )
0x0002c902004b1b48 \"leaf1\"  7    3[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>  0x0002c903000e0b72  9    1[  ] \"n1 HCA-1\" ( )
0x0002c902004b1b48 \"leaf1\"  7    5[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )
";
    let mut known = Vec::new();
    for text in [headings, lines] {
        let ports = read_dump(text).unwrap();
        let said = |p: &Port| {
            let peer = p.peer.as_ref().map(|d| (d.lid, d.name.clone()));
            (p.of.clone(), p.port.clone(), peer)
        };
        known.push(ports.iter().map(said).collect::<Vec<_>>());
    }
    assert_eq!(known[0], known[1]);
    let (of, port, peer) = &known[0][1];
    assert_eq!(
        (of.lid, of.name.as_deref(), port.as_str()),
        (Some(7), Some("leaf1"), "3")
    );
    assert_eq!(*peer, Some((Some(9), Some("n1 HCA-1".to_owned()))));
    assert_eq!(known[0][2].2, None);
}

#[test]
fn walks_of_several_switches_by_name_or_by_number() {
    let names = "\
SNMPv2-MIB::sysName.0 = STRING: leaf1
IF-MIB::ifDescr.1 = STRING: \"Ethernet1/1\"
IF-MIB::ifName.1 = STRING: e1
IF-MIB::ifAlias.1 = STRING: to n1
IF-MIB::ifInOctets.1 = Counter32: 7
IF-MIB::ifOutOctets.1 = Counter32: 8
IF-MIB::ifHCInOctets.1 = Counter64: 1234567890123
IF-MIB::ifHCOutOctets.1 = Counter64: 5
SNMPv2-MIB::sysName.0 = STRING: leaf2
IF-MIB::ifDescr.1 = STRING: e1
IF-MIB::ifInOctets.1 = Counter32: 7
IF-MIB::ifOutOctets.1 = Counter32: 8
IF-MIB::ifHCInOctets.1 = No Such Instance currently exists at this OID
";
    let numbers = "\
.1.3.6.1.2.1.1.5.0 = STRING: \"leaf1\"
.1.3.6.1.2.1.31.1.1.1.1.1 = STRING: \"e1\"
.1.3.6.1.2.1.31.1.1.1.18.1 = STRING: \"to n1\"
.1.3.6.1.2.1.31.1.1.1.6.1 = Counter64: 1234567890123
iso.3.6.1.2.1.31.1.1.1.10.1 = Counter64: 5
.1.3.6.1.2.1.1.5.0 = STRING: \"leaf2\"
.1.3.6.1.2.1.2.2.1.2.1 = STRING: \"e1\"
.1.3.6.1.2.1.2.2.1.10.1 = Counter32: 7
.1.3.6.1.2.1.2.2.1.16.1 = Counter32: 8
";
    let expected = [
        Port {
            of: named("leaf1"),
            port: "e1".to_owned(),
            peer: Some(named("to n1")),
            counts: counts(Counter::Bytes64, 5, 1_234_567_890_123),
        },
        Port {
            of: named("leaf2"),
            port: "e1".to_owned(),
            peer: None,
            counts: counts(Counter::Bytes32, 8, 7),
        },
    ];
    assert_eq!(read_dump(names).unwrap(), expected);
    assert_eq!(read_dump(numbers).unwrap(), expected);
}

#[test]
fn ports_without_a_name_of_their_own_have_their_index() {
    let mut text = "SNMPv2-MIB::sysName.0 = STRING: leaf1\n".to_owned();
    for (index, name) in [(1, "e"), (2, ""), (3, "e"), (4, ""), (5, "f")] {
        text += &format!("IF-MIB::ifName.{index} = STRING: {name}\n");
    }
    text += "IF-MIB::ifDescr.4 = STRING: fourth\n";
    let ports = read_dump(&text).unwrap();
    let names: Vec<&str> = ports.iter().map(|port| port.port.as_str()).collect();
    assert_eq!(names, ["e (1)", "2", "e (3)", "fourth", "f"]);
}

#[test]
fn other_text_is_refused_in_one_line() {
    for (text, said) in [
        ("hello", "not a known form of counters"),
        ("", "not a known form"),
        ("# Port counters: Lid 7 port 255\n", "names no port"),
        (
            "# Port counters: Lid x port 1\n",
            "line 1: the LID is no number",
        ),
        (
            "# Port counters: Lid 7 port 1\nPortXmitData:...x\n",
            "line 2: expected a number",
        ),
        ("IF-MIB::ifName.1 = STRING: e1\n", "walk sysName first"),
        (
            "IF-MIB::ifHCInOctets.1 = Counter64: x\n",
            "line 1: expected a counter",
        ),
        (
            " for 0x1\nErrors for 0x1 \"s\"\nGUID 0x1 port x: [",
            "the port is no number",
        ),
        ("a ==( b", "line 1: not the form of a link"),
    ] {
        let error = read_dump(text).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
    }
}

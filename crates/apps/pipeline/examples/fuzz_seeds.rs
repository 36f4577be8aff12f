//! Writes the seed corpora of all fuzz targets:
//! `cargo run -p idlewave-pipeline --example fuzz_seeds`.

use idlewave_ftrace::testing::{PageWriter, Payload, format_text, header_page_text, pages};
use idlewave_run::spill::{Block, RecordKind, SpillWriter};
use idlewave_run::tables::{
    Burst, Bursts, Detour, Detours, EndReason, Source, SourceKind, Sources,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunWriter, Table};
use idlewave_simulate::goal::Schedule;
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    page_seeds(&corpus.join("page"))?;
    bundle_seeds(&corpus.join("bundle"))?;
    ring_seeds(&corpus.join("ring"))?;
    goal_seeds(&corpus.join("goal"))?;
    program_seeds(&corpus.join("program"))?;
    selfish_seeds(&corpus.join("selfish"))?;
    steps_seeds(&corpus.join("steps"))?;
    topology_seeds(&corpus.join("topology"))?;
    load_seeds(&corpus)?;
    lookout_seeds(&corpus.join("lookout"))
}

/// Texts that loads are read from, one of each form.
fn load_seeds(corpus: &Path) -> io::Result<()> {
    const WALK: &str = "SNMPv2-MIB::sysName.0 = STRING: switch1\nIF-MIB::ifName.1 = STRING: e1\nIF-MIB::ifAlias.1 = STRING: to n1\n\
        IF-MIB::ifHCInOctets.1 = Counter64: 1234567890123\nIF-MIB::ifHCOutOctets.1 = Counter64: 5\n\
        .1.3.6.1.2.1.2.2.1.2.2 = STRING: \"e2\"\n.1.3.6.1.2.1.31.1.1.1.18.2 = STRING: \"n2\"\n\
        .1.3.6.1.2.1.2.2.1.10.2 = Counter32: 7\niso.3.6.1.2.1.2.2.1.16.2 = Counter32: 8\n";
    const ERRORS: &str = "Data Counters for 0x01 \"switch1\"\n   GUID 0x01 port ALL: [PortXmitData == 9] [PortRcvData == 9]\n\
        \x20  GUID 0x01 port 3: [PortXmitData == 198 (1.1MB)] [PortRcvData == 155 (2.2MB)]\n\
        \x20      Link info:    7   3[  ] ==( 4X Active/  LinkUp)==>  0x02    9   1[  ] \"n1 HCA-1\" ( )\n";
    const FILE: &str = "taken = \"2026-03-01T12:00:00Z\"\nseconds = 5.0\nwarnings = [\"w\"]\n\n[[load]]\nfrom = \"a\"\nrate = \"5 MB/s\"\n\
        low = \"0\"\nhigh = \"6 MB/s\"\norigin = \"counters\"\n\n[[job]]\nid = \"7\"\nnodes = \"n[1-2]\"\n";
    const JSON: &str = r#"{"jobs":[{"job_id":12,"job_state":["RUNNING"],"nodes":"n[1-2]"}]}"#;
    const RECORD: &str = "JobId=12 JobName=a\n   UserId=u(1) JobState=RUNNING Reason=None\n   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=n[1-2]\n";
    const DEVICE: &str = "  eth0: 1500 3 0 0 0 0 0 0 700 2 0 0 0 0 0 0\n";
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/examples");
    let example = |name: &str| fs::read_to_string(examples.join(name));
    let (perfquery, links) = (example("perfquery-1.txt")?, example("iblinkinfo.txt")?);
    let by_hand = example("load.toml")?;
    for (target, name, text) in [
        ("load_dump", "perfquery", perfquery.as_str()),
        ("load_dump", "iblinkinfo", &links),
        ("load_dump", "ibqueryerrors", ERRORS),
        ("load_dump", "snmpwalk", WALK),
        ("load_file", "by_hand", &by_hand),
        ("load_file", "every_key", FILE),
        ("load_jobs", "squeue", "12|RUNNING|n[1-2]\n"),
        ("load_jobs", "json", JSON),
        ("load_jobs", "scontrol", RECORD),
        ("load_net_dev", "device", DEVICE),
    ] {
        let dir = corpus.join(target);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join(name), text)?;
    }
    Ok(())
}

/// Two ranks that wait for each other, as a node reports them in two looks, and the requests to it.
fn lookout_seeds(dir: &Path) -> io::Result<()> {
    let rank = |rank: u32| {
        format!(
            r#"{{"number":{rank},"process":{{"pid":7,"start":5,"pid_namespace":9,"host":"a"}},"kernel":{{"There":{{"stopped":false,"cpu":{{"secs":0,"nanos":30000000}}}}}},"cpu_before":{{"secs":0,"nanos":0}},"still":{{"secs":1,"nanos":0}},"spent":[[{{"secs":1,"nanos":0}},{{"secs":0,"nanos":0}}]],"unchanged":3,"bare":false,"record":{{"phase":"Running","rank":{rank},"size":2,"unknown":0,"epochs":[6,6],"mode":1,"partial":false,"function":3,"wants":[{{"Receive":{{"communicator":9,"from":{},"tag":7,"slot":null}}}}],"polls":0,"posted":[],"communicators":[{{"key":9,"members":2,"world":true,"entered":1,"last":{{"class":1,"which":0,"root":0}}}}],"pairs":[{{"communicator":9,"peer":{},"sent":{{"Tags":[[7,1]]}},"received":{{"Sum":1}}}}]}}}}"#,
            1 - rank,
            1 - rank
        )
    };
    let looked = |round: u32| {
        let ranks = [rank(0), rank(1)].join(",");
        format!(r#"{{"looked":{{"round":{round},"part":0,"parts":1,"ranks":[{ranks}]}}}}"#)
    };
    let here = r#"{"here":{"host":"a","still":true}}"#;
    let ask = r#"{"look":{"round":1,"regular":true,"have":[[0,6]]}}"#;
    fs::create_dir_all(dir)?;
    fs::write(
        dir.join("hang"),
        [here, &looked(2), &looked(3), ask].join("\n"),
    )
}

/// Programs with every part of the language.
fn program_seeds(dir: &Path) -> io::Result<()> {
    const TEXT: &str = "program 1 # all\nranks 4\ncpus 2\nnics 2\nparam n = min(ranks, 3) * 2us // a\nlet left = (rank - 1) % ranks\n\
        loop k 2 {\ncalc n + k cpu 1\ntogether { send 8b to (rank + 1) % ranks tag k nic 1 recv 8 from left tag k }\n}\n\
        if rank == 0 and not 0 { send 70000 to 1 } else if rank == 1 or 0 { recv 9 from any tag any } else { calc 1 << log2ceil(ranks) }\n";
    fs::create_dir_all(dir)?;
    fs::write(dir.join("every_part"), TEXT)?;
    let example = include_str!("../../../../docs/examples/ring.iw");
    fs::write(dir.join("ring"), example)
}

/// Detours as the benchmark writes them, and bare ones.
fn selfish_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut text = "# Selfish Benchmark\r\n# Time [ns]\tselfish duration [ns]\r\n".to_owned();
    for i in 0..40 {
        text.push_str(&format!(
            "{}.25\t{}.50\r\n",
            i * 4_000_000 + i * i % 7,
            900 + i
        ));
    }
    text.push_str("# Measurement period: 0.16 s\r\n\r\n");
    fs::write(dir.join("selfish"), text)?;
    fs::write(dir.join("bare"), "1e3, 5 # one\n2e3 0\n2000.5 7\n1000000 1")
}

/// Times of steps as text; the first byte says so.
fn steps_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let list = "\0rank,step,begin_ns,duration_us\n0,0,0,1.5\n1,0,9,2\n0,1,99,1e1\n1,1,99,3\n";
    fs::write(dir.join("list"), list)?;
    fs::write(dir.join("matrix"), "\0step;r0;r1\n0;1;2 # one\n1;3;4e0\n")
}

/// The samples of every format, read as what they look like.
fn topology_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../base/topology/samples");
    for entry in fs::read_dir(samples)? {
        let entry = entry?;
        let seed = [&[u8::MAX][..], &fs::read(entry.path())?].concat();
        fs::write(dir.join(entry.file_name()), seed)?;
    }
    Ok(())
}

/// A schedule with every part of the language, in both forms.
fn goal_seeds(dir: &Path) -> io::Result<()> {
    const TEXT: &str = "num_ranks 2 // ranks\nrank 0 {\na: send 9b to 1 tag 7 cpu 1 nic 2\n/* any */ b: recv 9b from -1 tag -1\n\
        c: calc 5 cpu 1\nb requires a\nc irequires b\n}\nrank 1 {\nrecv 9b from 0 tag 7\nsend 70000b to 0\n}\n";
    fs::create_dir_all(dir)?;
    let schedule: Schedule = TEXT.parse().map_err(io::Error::other)?;
    fs::write(dir.join("text"), TEXT)?;
    let mut binary = Vec::new();
    schedule.write_binary(&mut binary)?;
    fs::write(dir.join("binary"), binary)
}

/// One record of each kind.
fn ring_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let words = (1..=12_u64).flat_map(|kind| [10 | 2 << 32, 20, kind | 1 << 32, 1, 1, 8, 8, 1]);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    fs::write(dir.join("every_kind"), bytes)
}

fn page_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let events = [
        (1000, Payload::switch((7, "rank"), 0, (9, "crond"))),
        (1100, Payload::waking(9, 7, "rank", 0)),
        (1101, Payload::migrate(9, 7, 0, 1)),
        (1200, Payload::number("local_timer_entry", 9, 236)),
        (1210, Payload::irq_entry(9, 24, "eth0")),
        (1212, Payload::nmi(9, 1)),
        (1220, Payload::number("irq_handler_exit", 9, 24)),
        (1230, Payload::number("local_timer_exit", 9, 236)),
        (1300, Payload::fault(9)),
        (1400, Payload::fork(9, 10, "child")),
        (2000, Payload::switch((9, "crond"), 1, (0, "swapper/0"))),
    ];
    let seed = |event: &str, bytes: &[u8]| {
        let mut seed = format_text(event).into_bytes();
        seed.push(0);
        seed.extend(header_page_text(512).into_bytes());
        seed.push(0);
        seed.extend(bytes);
        seed
    };
    for event in [
        "sched_switch",
        "irq_handler_entry",
        "sched_waking",
        "nmi_handler",
    ] {
        fs::write(dir.join(event), seed(event, &pages(512, &events)))?;
    }
    let mut page = PageWriter::new(512, 5);
    page.extend_time(1 << 30);
    page.event((1 << 30) + 9, events[0].1.bytes());
    page.stamp(1 << 40);
    page.discarded(3, 16);
    page.event((1 << 40) + 9, &[7; 200]);
    page.end_padding();
    let bytes = page.missed(Some(12)).finish();
    fs::write(dir.join("every_record"), seed("softirq_entry", &bytes))
}

fn bundle_seeds(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("run");
    let mut out = RunWriter::create(&path, empty_manifest()).map_err(io::Error::other)?;
    let (mut bursts, mut detours, mut sources) =
        (Bursts::default(), Detours::default(), Sources::default());
    for i in 0..5 {
        bursts.push(Burst {
            node: NodeId::new(0),
            cpu: Cpu::new(0),
            pid: Pid::new(i),
            begin_ns: u64::from(i) * 10,
            end_ns: u64::from(i) * 10 + 9,
            end_reason: EndReason::Sleeping,
            certain: true,
        });
        detours.push(Detour {
            phase: 0,
            cpu: Cpu::new(0),
            rank: None,
            begin_ns: u64::from(i),
            length: Nanos::from_nanos(700),
        });
        sources.push(Source {
            id: i,
            kind: SourceKind::Irq,
            name: format!("eth{i}"),
        });
    }
    out.write_table(&bursts).map_err(io::Error::other)?;
    out.write_table(&detours).map_err(io::Error::other)?;
    out.write_table(&sources).map_err(io::Error::other)?;
    out.close(None).map_err(io::Error::other)?;
    let run = fs::read(path.join("run.json"))?;
    for table in ["bursts", "detours", "sources"] {
        let bytes = fs::read(path.join(format!("{table}.arrow")))?;
        // With the manifest that fits it, and as a table whose writer was killed.
        for flags in [1, 0] {
            let seed = [&[flags], &run[..], &[0], b"{}", &[0], &bytes[..]].concat();
            fs::write(dir.join(format!("{table}{flags}")), seed)?;
        }
    }
    let mut spill = SpillWriter::create(&path).map_err(io::Error::other)?;
    for kind in [RecordKind::Iteration, RecordKind::Detour] {
        let block = Block {
            kind,
            phase: 0,
            cpu: Cpu::new(0),
            rank: Rank::new(0),
            counts: 1,
            ns: 1,
        };
        spill.write(&block, &[5; 8]).map_err(io::Error::other)?;
    }
    let bytes = fs::read(path.join("spill"))?;
    fs::write(dir.join("spill"), [&[0], &[0], &[0][..], &bytes].concat())?;
    let findings = [&[3], &run[..], &[0], b"{\"sources\":[]}", &[0]].concat();
    fs::write(dir.join("findings"), findings)
}

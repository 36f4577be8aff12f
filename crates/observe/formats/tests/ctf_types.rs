//! What the metadata of a CTF trace can say: every type against babeltrace2, and metadata and streams
//! that are not what they should be.

#![allow(clippy::unwrap_used)]

mod common;
mod ctf_trace;
mod story;

use ctf_trace::Lttng;
use ctf_trace::listed::listed;
use ctf_trace::writer::Bits;
use idlewave_formats::import::{ImportError, Imported, Program};
use idlewave_run::RunReader;
use idlewave_run::tables::{Bursts, Table};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use story::{import_file, losses};
use tempfile::TempDir;

/// Types, headers, and a switch whose other fields are of every type.
const METADATA: &str = include_str!("ctf_trace/types.tsdl");

/// What chooses a number and a text: -2 and -1.
const NUMBER: u64 = u64::MAX - 1;
const TEXT: u64 = u64::MAX;

/// One switch: time, name and thread that leaves, thread that gets the CPU; which option is chosen, which
/// shade, and how many elements there are.
struct Switch(u64, &'static str, u32, u32, (u64, u64, u64));

impl Switch {
    fn write(&self, out: &mut Bits) {
        let Switch(time, comm, prev, next, (tag, shade, count)) = *self;
        let number = |out: &mut Bits, value: u64, size| out.number(value, size, 8);
        let int = |out: &mut Bits, value: u64| out.number(value, 32, 32);
        number(out, 7, 8);
        number(out, time, 64);
        number(out, count, 8);
        number(out, shade, 8);
        // Fields are aligned as the largest of them.
        out.align(64);
        out.number(5, 3, 1);
        out.number(0x7f, 7, 1);
        out.number(0x1_2345_6789, 33, 1);
        out.number(0x3f80_0000, 32, 32);
        number(out, 0x3ff0 << 48, 64);
        out.number(0x5000, 16, 16);
        (1..=3).for_each(|n| int(out, n));
        for n in 0..2 {
            out.align(64);
            int(out, n);
            int(out, n);
        }
        for n in [count, 0] {
            number(out, n, 8);
            (0..n).for_each(|_| out.text("one", 4));
        }
        number(out, tag, 8);
        match tag {
            NUMBER => int(out, 1),
            TEXT => out.text("text", 5),
            _ => {
                out.align(64);
                int(out, 1);
                int(out, 2);
            }
        }
        number(out, shade, 8);
        match shade {
            0 | 6 => int(out, 9),
            5 => number(out, 9, 8),
            _ => out.number(0x900, 16, 16),
        }
        (0..count).for_each(|n| number(out, n, 8));
        (0..6).for_each(|n| int(out, n));
        out.align(32);
        (0..2 * count).for_each(|n| int(out, n));
        (0..3).for_each(|n| out.number(n, 5, 1));
        int(out, 3);
        (0..count).for_each(|n| number(out, n, 8));
        int(out, 4);
        out.text(comm, comm.len() + 1);
        int(out, 5);
        out.align(16);
        out.text(comm, comm.len() + 1);
        int(out, u64::from(prev));
        int(out, 120);
        number(out, 1, 64);
        out.text("next", 16);
        int(out, u64::from(next));
    }
}

fn switches() -> Vec<Switch> {
    let mut all = Vec::new();
    let mut running = 0;
    for (n, tag) in [NUMBER, TEXT, 7, TEXT, NUMBER, 7, 7, TEXT]
        .into_iter()
        .enumerate()
    {
        let (n, next) = (n as u64, 70 + n as u32 % 3);
        let shade = [0, 5, 6, 10, 20, 15][n as usize % 6];
        let comm = ["a", "solver", "x y, z", ""][n as usize % 4];
        all.push(Switch(
            1_000_000 + n * 1000,
            comm,
            running,
            next,
            (tag, shade, n % 5),
        ));
        running = next;
    }
    all
}

/// A packet with these switches.
fn packet(switches: &[Switch]) -> Vec<u8> {
    let mut content = 0;
    loop {
        let mut out = Bits::default();
        out.number(0xC1FC_1FC1, 32, 8);
        out.number(3, 8, 8);
        out.number(2, 16, 8);
        out.number(content, 32, 8);
        out.number(content.next_multiple_of(8) + 16, 32, 8);
        switches.iter().for_each(|switch| switch.write(&mut out));
        if out.at == content {
            out.align(8);
            out.bytes.extend([0; 2]);
            return out.bytes;
        }
        content = out.at;
    }
}

fn stream() -> Vec<u8> {
    let switches = switches();
    let (first, second) = switches.split_at(3);
    [packet(first), packet(second)].concat()
}

/// A trace of these files.
fn trace(metadata: &str, stream: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    fs::create_dir(&trace).unwrap();
    fs::write(trace.join("metadata"), metadata).unwrap();
    fs::write(trace.join("stream"), stream).unwrap();
    dir
}

fn import(dir: &TempDir) -> Result<(Imported, RunReader), ImportError> {
    import_file(&dir.path().join("trace"), &Program::Busiest)
}

/// CPU, begin, end and thread of all bursts.
fn bursts(run: &RunReader) -> Vec<(u32, u64, u64, u32)> {
    let bursts = run.read::<Bursts>().unwrap();
    let rows = bursts
        .rows()
        .map(|b| (b.cpu.get(), b.begin_ns, b.end_ns, b.pid.get()));
    rows.collect()
}

#[test]
fn every_type_takes_the_bits_that_babeltrace2_gives_it() {
    let dir = trace(METADATA, &stream());
    let (imported, run) = import(&dir).unwrap();
    assert_eq!(imported.events, 8);
    let found = bursts(&run);
    let switches = switches();
    for pair in switches.windows(2) {
        let (begin, end, pid) = (pair[0].0, pair[1].0, pair[0].3);
        assert!(found.contains(&(2, begin, end, pid)), "{begin} {found:?}");
    }
    let Some(listed) = listed(&dir.path().join("trace")) else {
        return;
    };
    assert_eq!(listed.len(), switches.len());
    for (listed, Switch(time, comm, prev, next, (_, _, count))) in listed.iter().zip(switches) {
        assert_eq!((listed.time, listed.cpu), (time, 2));
        assert_eq!(listed.get("prev_comm"), Some(comm));
        let expected = [
            ("prev_tid", prev),
            ("next_tid", next),
            ("count", count as u32),
        ];
        for (name, value) in expected {
            let found = listed.get(name).unwrap();
            // Numbers of base 16 are listed so.
            let found = found.strip_prefix("0x").map_or_else(
                || found.parse().unwrap(),
                |digits| u32::from_str_radix(digits, 16).unwrap(),
            );
            assert_eq!(found, value, "{name}");
        }
    }
}

#[test]
fn a_trace_without_heads_of_packets_is_one_packet() {
    let metadata = METADATA
        .replace(
            "    id = 3;
",
            "",
        )
        .replace(" stream_id = 3;", "")
        .replace(
            "packet.header := struct { uint32_t magic; uint8_t stream_id; };",
            "",
        )
        .replace(
            "uint16_t cpu_id; uint32_t content_size; uint32_t packet_size;",
            "uint16_t cpu_id;",
        );
    let mut out = Bits::default();
    out.number(2, 16, 8);
    switches().iter().for_each(|switch| switch.write(&mut out));
    let dir = trace(&metadata, &out.bytes);
    let (imported, _) = import(&dir).unwrap();
    assert_eq!(imported.events, 8);
    if let Some(listed) = listed(&dir.path().join("trace")) {
        assert_eq!(listed.len(), 8);
    }
}

/// babeltrace2 2.0 does not read such paths, which the specification has.
#[test]
fn fields_are_found_outwards_and_by_their_whole_path_too() {
    let metadata = METADATA
        .replace("<tint>", "<event.context.shade>")
        .replace("<tag>", "<event.fields.tag>")
        .replace("[stream.event.context.count]", "[count]");
    let (changed, usual) = (trace(&metadata, &stream()), trace(METADATA, &stream()));
    let of = |dir| bursts(&import(dir).unwrap().1);
    assert_eq!(of(&changed), of(&usual));
}

#[test]
fn the_cpu_may_be_in_the_context_of_each_event() {
    let stream = packet(&[
        Switch(1000, "x", 0, 70, (NUMBER, 0, 1)),
        Switch(2000, "x", 0, 71, (NUMBER, 0, 3)),
        Switch(3000, "a", 70, 0, (TEXT, 5, 1)),
        Switch(5000, "b", 71, 0, (7, 6, 3)),
    ]);
    let metadata = METADATA
        .replace("uint16_t cpu_id; uint32", "uint16_t other; uint32")
        .replace("uint8_t count;", "uint8_t cpu_id;")
        .replace("stream.event.context.count", "stream.event.context.cpu_id");
    let dir = trace(&metadata, &stream);
    let (imported, run) = import(&dir).unwrap();
    assert_eq!((imported.events, imported.cpus), (4, 2));
    let found = bursts(&run);
    for burst in [(1, 1000, 3000, 70), (3, 2000, 5000, 71)] {
        assert!(found.contains(&burst), "{found:?}");
    }
    // And it may be nowhere.
    let metadata = METADATA.replace("uint16_t cpu_id; uint32", "uint16_t other; uint32");
    let error = import(&trace(&metadata, &stream)).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("holds no task switches"),
        "{error}"
    );
}

#[test]
fn fields_that_are_missing_leave_an_event_out() {
    let metadata = METADATA.replace("int irq;", "int other;");
    let (_, run) = import(&trace(&metadata, &stream())).unwrap();
    let loss = "kernel trace event irq_handler_exit lacks fields that idlewave needs".to_owned();
    assert!(losses(&run).contains(&(loss, 1)));
}

fn refused(metadata: &str) -> String {
    let error = import(&trace(metadata, &stream())).map(|_| ()).unwrap_err();
    assert!(!error.next_step().is_empty());
    error.to_string()
}

/// What stands in the metadata, what instead, and why that is refused.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "uint8_t bytes[",
        "unknown_t bytes[",
        "line 43: there is no type `unknown_t`",
    ),
    (
        "struct point points[2];",
        "struct self { struct self x; } points[2];",
        "there is no type `struct self`",
    ),
    (
        "align = 32; signed",
        "align = 9223372036854775808; signed",
        "line 4: 9223372036854775808 bits of alignment",
    ),
    (
        "align = 32; signed",
        "align = 24; signed",
        "line 4: an alignment is a power of two",
    ),
    (
        "align = 32; signed",
        "align = 0; signed",
        "line 4: 0 bits of alignment",
    ),
    (
        "size = 33;",
        "size = 65;",
        "65 bits of an integer are not supported, only 1 to 64",
    ),
    ("size = 33;", "size = 0;", "0 bits of an integer"),
    ("size = 33;", "", "an integer has no size"),
    (
        "mant_dig = 24",
        "mant_dig = 4000000000",
        "4000000000 bits of a number",
    ),
    (
        "int prev_tid, prev_prio;",
        "int prev_tid : 5;",
        "bit-fields of C",
    ),
    (
        "variant value <tag> chosen;",
        "variant value <nothing> chosen;",
        "no field `nothing` before it is needed",
    ),
    (
        "variant value <tag> chosen;",
        "variant value <odd> chosen;",
        "`odd` is no enumeration",
    ),
    (
        "variant value <tag> chosen;",
        "variant value chosen;",
        "a variant has no tag",
    ),
    (
        "string names[n];",
        "string names[later];",
        "no field `later`",
    ),
    (
        "string names[n];",
        "string names[names];",
        "no field `names`",
    ),
    ("minor = 8", "minor = 9", "line 11: only CTF 1.8 is read"),
    ("minor = 8; byte_order = le;", "minor = 8;", "no byte order"),
    (
        "minor = 8; byte_order = le;",
        "minor = 8; byte_order = pdp;",
        "no byte order",
    ),
    (
        "name = own; freq = 1000000000;",
        "name = own; freq = 0;",
        "a clock does not count",
    ),
    ("name = own;", "name = other;", "there is no clock `own`"),
    (
        "stamp_t timestamp;",
        "uint32_t other;",
        "its events have no times",
    ),
    (
        "id = 7;",
        "id = -7;",
        "a number from 0 up should stand here",
    ),
    (
        "fields := struct {",
        "fields := uint8_t; gone := struct {",
        "event.fields is no structure",
    ),
    (
        "fields := struct {",
        "fields := {",
        "a type should stand before `{`",
    ),
    ("event {", "evil {", "`evil` declares nothing"),
    ("env {", "/* env {", "a comment has no end"),
    (
        "\"irq_handler_exit\";",
        "\"irq_handler_exit;",
        "a text has no end",
    ),
];

#[track_caller]
fn refused_instead(old: &str, new: &str, reason: &str) {
    assert!(METADATA.contains(old), "{old}");
    let changed = trace(&METADATA.replacen(old, new, 1), &stream());
    let error = import(&changed).map(|_| ()).expect_err(reason);
    assert!(error.to_string().contains(reason), "{old}: {error}");
}

#[test]
fn what_is_not_supported_is_refused_with_its_line() {
    for (old, new, reason) in REFUSED {
        refused_instead(old, new, reason);
    }
}

#[test]
fn types_in_types_without_end_are_refused() {
    let deep = "struct { ".repeat(100) + "int x; " + &"} x; ".repeat(100);
    let rows = format!("int x{};", "[1]".repeat(100));
    let nested: String = (0..100)
        .map(|n| format!("typedef struct {{ t{n} x; }} t{}; ", n + 1))
        .collect();
    let nested = format!("typealias int := t0; {nested} t100 x;");
    // Each is of two fields of the type before it.
    let twice: String = (1..40)
        .map(|n| format!("typedef struct {{ t{} x; t{} y; }} t{n}; ", n - 1, n - 1))
        .collect();
    let twice = format!("typealias int := t0; {twice} t39 x;");
    let empty = twice.replace("typealias int := t0", "typealias struct { } := t0");
    let enums = "enum : ".repeat(100_000) + "int { A } x;";
    for (new, reason) in [
        (deep, "nested too deep"),
        (rows, "nested too deep"),
        (nested, "nested too deep"),
        (enums, "nested too deep"),
        (twice, "too many fields"),
        (empty, "too many fields"),
    ] {
        refused_instead("int matrix[2][3];", &new, reason);
    }
}

#[test]
fn claims_of_endless_elements_end_with_the_packet() {
    for (old, new) in [
        (
            "int matrix[2][3];",
            "int matrix[18446744073709551615][18446744073709551615];",
        ),
        (
            "int matrix[2][3];",
            "struct { } nothing[18446744073709551615];",
        ),
        ("int matrix[2][3];", "struct { } nothing[odd_too][odd_too];"),
        ("int matrix[2][3];", "string many[odd_too];"),
        ("int matrix[2][3];", "uint8_t many[odder];"),
    ] {
        let error = refused(&METADATA.replacen(old, new, 1));
        let ends = [
            "an event ends behind its packet",
            "more empty fields than a real one",
        ];
        assert!(
            ends.iter().any(|reason| error.contains(reason)),
            "{new}: {error}"
        );
    }
    // Events without any bits have no end either.
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
                    env { domain = \"kernel\"; };\n\
                    stream { packet.context := struct { integer { size = 8; } cpu_id; };\n\
                    event.header := struct { struct { integer { size = 8; } timestamp; } row[0]; }; };\n\
                    event { name = \"page_fault_user\"; fields := struct { }; };\n";
    let error = refused(metadata);
    assert!(error.contains("an event has no bits"), "{error}");
}

#[test]
fn sizes_of_packets_that_nobody_has_need_no_memory() {
    let mut stream = stream();
    // Bits with events, and of the packet, as far as 32 bits go.
    for place in [7, 11] {
        stream[place..place + 4].copy_from_slice(&[0xf8, 0xff, 0xff, 0xff]);
    }
    let error = import(&trace(METADATA, &stream)).map(|_| ()).unwrap_err();
    assert!(matches!(error, ImportError::Damaged { .. }), "{error}");
}

/// Files of traces, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn samples() -> Vec<Files> {
    let own = [
        ("metadata", METADATA.as_bytes().to_vec()),
        ("stream", stream()),
    ];
    let own = own.map(|(name, bytes)| (name.to_owned(), bytes));
    let written = [true, false].map(|compact| {
        let lttng = Lttng {
            compact,
            big: !compact,
            aligned: !compact,
            ..Lttng::default()
        };
        lttng.files()
    });
    let mut all = vec![Files::from(own)];
    all.extend(written);
    let of = |name: &str| {
        let dir = tempfile::tempdir().unwrap();
        ctf_trace::unpack(name, dir.path(), true);
        let mut files = Files::new();
        let entries = fs::read_dir(deepest(dir.path())).unwrap();
        for entry in entries.map(Result::unwrap).filter(|e| e.path().is_file()) {
            let name = entry.file_name().into_string().unwrap();
            files.insert(name, fs::read(entry.path()).unwrap());
        }
        files
    };
    all.extend(["perf/file", "lost"].map(of));
    all
}

/// The directory of the metadata.
fn deepest(dir: &Path) -> std::path::PathBuf {
    match dir.join("ust/uid/65534/64-bit") {
        deep if deep.exists() => deep,
        _ => dir.to_owned(),
    }
}

#[test]
fn altered_bytes_are_refused_or_read_but_never_panic() {
    let samples = samples();
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let which = (0..samples.len(), any::<prop::sample::Index>());
    let cut = proptest::option::weighted(0.2, any::<prop::sample::Index>());
    let config = ProptestConfig::with_cases(400);
    proptest!(config, |((sample, file) in which, flips in flips, cut in cut)| {
        let mut files = samples[sample].clone();
        let names: Vec<String> = files.keys().cloned().collect();
        // The metadata as often as all streams.
        let name = ["metadata"; 3].into_iter().chain(names.iter().map(String::as_str));
        let name = name.collect::<Vec<_>>()[file.index(names.len() + 3)].to_owned();
        let bytes = files.get_mut(&name).unwrap();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        fs::create_dir(&trace).unwrap();
        for (name, bytes) in files {
            fs::write(trace.join(name), bytes).unwrap();
        }
        let _ = import(&dir);
        // Nothing is left of what was refused.
        let left = fs::read_dir(dir.path()).unwrap().count();
        prop_assert!(left <= 2);
    });
}

/// What the metadata declares once costs its memory and its time once, however often it is used.
#[test]
fn metadata_that_repeats_itself_is_refused_or_read() {
    const MANY: usize = 30_000;
    let each = |what: &dyn Fn(usize) -> String| (0..MANY).map(what).collect::<String>();
    let options = each(&|n| format!("int i{n}; "));
    let ranges = each(&|n| format!("a = {n}, "));
    let names = each(&|n| format!("a{n}, "));
    let variants = |of: &str| each(&|n| format!("variant {of} v{n}; "));
    let many = |names: &str| format!("enum : uint8_t {{ {names} }} many;");
    let short = "an event ends behind its packet";
    for (new, reason) in [
        // Options, ranges and names of enumerations.
        (
            format!(
                "{} variant all {{ {options} }}; {}",
                many("i0"),
                variants("all <many>")
            ),
            "too many fields",
        ),
        (
            format!("{} {}", many(&ranges), variants("<many> { int a; }")),
            "too many fields",
        ),
        (
            format!("{} {}", many(&names), variants("<many> { int a7; }")),
            "chooses none of its options",
        ),
        // Fields that are referred to.
        (
            format!(
                "uint8_t n; {options} {}",
                each(&|n| format!("int s{n}[n]; "))
            ),
            short,
        ),
        // Fields without bits.
        (
            each(&|n| format!("uint8_t s{n}[zero]; ")).replacen("uint8", "uint8_t zero; uint8", 1),
            "more empty fields than a real one",
        ),
        (format!("int {};", "a".repeat(2000)), "a name has more than"),
        (
            format!("int x[{}a];", "a.".repeat(2000)),
            "a path has too many names",
        ),
    ] {
        refused_instead("int matrix[2][3];", &new, reason);
    }
}

#[test]
fn metadata_that_declares_without_end_is_refused() {
    let names = "a,".repeat(1 << 21);
    let streams: String = (4..2000)
        .map(|id| format!("stream {{ id = {id}; }};\n"))
        .collect();
    for (old, new, reason) in [
        (
            "RED, GREEN",
            format!("{names} RED, GREEN"),
            "it declares too much",
        ),
        (
            "int irq;",
            format!("int {names} irq;"),
            "it declares too much",
        ),
        (
            "env {",
            format!("{streams} env {{"),
            "too many classes of streams",
        ),
    ] {
        refused_instead(old, &new, reason);
    }
}

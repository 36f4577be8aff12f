//! CTF traces that are not what they should be: metadata, streams and directories.

#![allow(clippy::unwrap_used)]

use crate::ctf_trace::own::{METADATA, import, stream, trace};
use crate::ctf_trace::{Lttng, unpack};
use crate::story::{import_file, lines, story_lines};
use idlewave_formats::import::{ImportError, Program};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn refused_at(trace: &Path) -> ImportError {
    import_file(trace, &Program::Busiest)
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn what_is_no_trace_of_the_kernel_is_refused_by_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    unpack("plain", &at("ust"), false);
    let error = refused_at(&at("ust"));
    assert!(
        error.to_string().contains("CTF trace of programs"),
        "{error}"
    );
    assert!(error.next_step().contains("enable-event -k"));
    // The kernel's trace is found beside one of programs.
    unpack("plain", &at("session"), false);
    Lttng::default().write(&at("session"));
    assert_eq!(
        lines(&import_file(&at("session"), &Program::Busiest).unwrap().1),
        story_lines()
    );
    fs::remove_dir_all(at("session.run")).unwrap();
    Lttng::default().write(&at("session/2"));
    let error = refused_at(&at("session"));
    assert!(
        error.to_string().contains("2 traces of the kernel"),
        "{error}"
    );
    assert!(
        error.next_step().contains("session/2/kernel"),
        "{}",
        error.next_step()
    );
    // Its metadata alone.
    let error = refused_at(&at("session/kernel/metadata"));
    assert!(error.next_step().contains("give the directory"), "{error}");
    // What went through a pipe.
    unpack("perf/piped", &at("piped"), false);
    let error = refused_at(&at("piped"));
    let next = error.next_step();
    assert!(next.contains("import the perf.data"), "{error}");
    fs::create_dir(at("second")).unwrap();
    let second = b"\x1e{\n\"type\": \"preamble\", \"version\": 2}\n";
    fs::write(at("second/metadata"), second).unwrap();
    let error = refused_at(&at("second"));
    assert!(error.to_string().contains("CTF 2"), "{error}");
    assert!(error.next_step().contains("ctf-version"));
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other/metadata"), b"name: x\n").unwrap();
    assert!(refused_at(&at("other")).to_string().contains("a CTF trace"));
}

/// Why a trace is refused if these bytes are at this place in its file.
fn refused_with(file: &str, place: usize, instead: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("session");
    Lttng::default().write(&session);
    let path = session.join("kernel").join(file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[place..place + instead.len()].copy_from_slice(instead);
    fs::write(&path, bytes).unwrap();
    refused_at(&session).to_string()
}

#[test]
fn packets_of_metadata_that_contradict_themselves_are_refused_with_the_place() {
    // Packets of 4096 bytes. Head: magic, UUID, checksum, content, size, compression, encryption.
    let no_packet = "no packet of metadata is here at byte 4096";
    let length = "a packet of metadata is not as long as it says at byte 0";
    let packed = "its metadata is compressed or encrypted";
    for (place, bytes, reason) in [
        (4096, &b"\0"[..], no_packet),
        // In the other byte order.
        (4096, b"\x75\xd1\x1d\x57", no_packet),
        (24, b"\x08\x81", length),
        (24, b"\x20\x01", length),
        (28, b"\x20\x01", length),
        (32, b"\x01", packed),
        (33, b"\x01", packed),
    ] {
        let error = refused_with("metadata", place, bytes);
        assert!(error.contains(reason), "{place}: {error}");
    }
}

#[test]
fn streams_that_contradict_themselves_are_refused_with_the_place() {
    let length = "a packet is not as long as it says at byte 0";
    // Head: magic, UUID, stream, instance; context: begin, end, content, size, number, lost, CPU.
    for (place, bytes, reason) in [
        (0, &b"\0"[..], "no packet begins here at byte 0"),
        (4, b"\0", "a packet is of another trace at byte 0"),
        (
            20,
            b"\x07",
            "of the stream 7, which is not declared at byte 0",
        ),
        (48, b"\xff\xff", length),
        (56, b"\0\0\0\0", length),
        (48, b"\xff\0", length),
        (
            48,
            b"\x68\x03",
            "an event runs past the end of its packet at byte ",
        ),
        (84, b"\x1e", "that the metadata does not declare at byte 84"),
    ] {
        let error = refused_with("channel0_0", place, bytes);
        assert!(error.contains(reason), "{place}: {error}");
    }
}

fn refused(metadata: &str) -> String {
    let error = import(&trace(metadata, &stream())).map(|_| ()).unwrap_err();
    assert!(!error.next_step().is_empty());
    error.to_string()
}

/// Parts of the metadata, each with replacements and the reason why each of them is refused.
const REFUSED: &[(&str, &[(&str, &str)])] = &[
    (
        "uint8_t bytes[",
        &[("unknown_t bytes[", "line 43: there is no type `unknown_t`")],
    ),
    (
        "struct point points[2];",
        &[(
            "struct self { struct self x; } points[2];",
            "there is no type `struct self`",
        )],
    ),
    (
        "align = 32; signed",
        &[
            (
                "align = 9223372036854775808; signed",
                "line 4: 9223372036854775808 bits of alignment",
            ),
            (
                "align = 24; signed",
                "line 4: an alignment is a power of two",
            ),
            ("align = 0; signed", "line 4: 0 bits of alignment"),
        ],
    ),
    (
        "size = 33;",
        &[
            (
                "size = 65;",
                "65 bits of an integer are not supported, only 1 to 64",
            ),
            ("size = 0;", "0 bits of an integer"),
            ("", "an integer has no size"),
        ],
    ),
    (
        "mant_dig = 24",
        &[("mant_dig = 4000000000", "4000000000 bits of a number")],
    ),
    (
        "int prev_tid, prev_prio;",
        &[("int prev_tid : 5;", "bit-fields of C")],
    ),
    (
        "variant value <tag> chosen;",
        &[
            (
                "variant value <nothing> chosen;",
                "no field `nothing` before it is needed",
            ),
            ("variant value <odd> chosen;", "`odd` is no enumeration"),
            ("variant value chosen;", "a variant has no tag"),
        ],
    ),
    (
        "string names[n];",
        &[
            ("string names[later];", "no field `later`"),
            ("string names[names];", "no field `names`"),
        ],
    ),
    (
        "minor = 8",
        &[("minor = 9", "line 11: only CTF 1.8 is read")],
    ),
    (
        "minor = 8; byte_order = le;",
        &[
            ("minor = 8;", "no byte order"),
            ("minor = 8; byte_order = pdp;", "no byte order"),
        ],
    ),
    (
        "name = own; freq = 1000000000;",
        &[("name = own; freq = 0;", "the frequency of a clock")],
    ),
    (
        "name = own;",
        &[("name = other;", "there is no clock `own`")],
    ),
    (
        "stamp_t timestamp;",
        &[("uint32_t other;", "its events have no times")],
    ),
    (
        "id = 7;",
        &[("id = -7;", "a number from 0 up should stand here")],
    ),
    (
        "fields := struct {",
        &[
            (
                "fields := uint8_t; gone := struct {",
                "event.fields is no structure",
            ),
            ("fields := {", "a type should stand before `{`"),
        ],
    ),
    (
        "event {",
        &[("evil {", "no declaration begins with `evil`")],
    ),
    ("env {", &[("/* env {", "a comment has no end")]),
    (
        "\"irq_handler_exit\";",
        &[("\"irq_handler_exit;", "a text has no end")],
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
    for (old, instead) in REFUSED {
        for (new, reason) in *instead {
            refused_instead(old, new, reason);
        }
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
    // Each has two fields of the previous type.
    let twice: String = (1..40)
        .map(|n| format!("typedef struct {{ t{} x; t{} y; }} t{n}; ", n - 1, n - 1))
        .collect();
    let twice = format!("typealias int := t0; {twice} t39 x;");
    let empty = twice.replace("typealias int := t0", "typealias struct { } := t0");
    let enums = "enum : ".repeat(100_000) + "int { A } x;";
    for (new, reason) in [
        (deep, "nested too deeply"),
        (rows, "nested too deeply"),
        (nested, "nested too deeply"),
        (enums, "nested too deeply"),
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
            "an event runs past the end of its packet",
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
    // Bits with events, and bits of the packet: as many as 32 bits can say.
    for place in [7, 11] {
        stream[place..place + 4].copy_from_slice(&[0xf8, 0xff, 0xff, 0xff]);
    }
    let error = import(&trace(METADATA, &stream)).map(|_| ()).unwrap_err();
    assert!(matches!(error, ImportError::Damaged { .. }), "{error}");
    // Nor may an event be as long as they claim.
    stream.resize(4 << 20, 0);
    let metadata = METADATA.replacen("int matrix[2][3];", "uint8_t many[odd_too];", 1);
    let error = import(&trace(&metadata, &stream)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
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
        unpack(name, dir.path(), true);
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
    let config = ProptestConfig::with_cases(150);
    proptest!(config, |((sample, file) in which, flips in flips, cut in cut)| {
        let mut files = samples[sample].clone();
        let names: Vec<String> = files.keys().cloned().collect();
        // The metadata as often as all streams together.
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
        let read = import(&dir).is_ok();
        // A refused import leaves nothing behind.
        let left = fs::read_dir(dir.path()).unwrap().count();
        prop_assert_eq!(left, 1 + usize::from(read));
    });
}

/// What the metadata declares once costs memory and time once, however often it is used.
#[test]
fn metadata_that_repeats_itself_is_refused_or_read() {
    const MANY: usize = 30_000;
    let each = |what: &dyn Fn(usize) -> String| (0..MANY).map(what).collect::<String>();
    let options = each(&|n| format!("int i{n}; "));
    let ranges = each(&|n| format!("a = {n}, "));
    let names = each(&|n| format!("a{n}, "));
    let variants = |of: &str| each(&|n| format!("variant {of} v{n}; "));
    let many = |names: &str| format!("enum : uint8_t {{ {names} }} many;");
    let short = "an event runs past the end of its packet";
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
        // Fields that others refer to.
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

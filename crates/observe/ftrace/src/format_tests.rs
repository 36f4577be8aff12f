use super::*;
use proptest::prelude::*;

const MIGRATE: &str = "name: sched_migrate_task
ID: 371
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:const char *reason;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char next_comm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:__rel_loc char[] tail;\toffset:40;\tsize:4;\tsigned:0;

print fmt: \"comm=%s; field: x\", __get_str(comm)
field: this is text for printing
";

fn error_of(text: &str) -> String {
    EventFormat::parse(Path::new("f"), text)
        .unwrap_err()
        .to_string()
}

#[test]
fn fields_keep_their_place_size_sign_and_kind() {
    let format = EventFormat::parse(Path::new("f"), MIGRATE).unwrap();
    assert_eq!(
        (format.name.as_str(), format.id),
        ("sched_migrate_task", 371)
    );
    let rows: Vec<_> = format
        .fields
        .iter()
        .map(|f| (f.name.as_str(), f.offset, f.size, f.signed, f.kind))
        .collect();
    assert_eq!(
        rows,
        [
            ("common_type", 0, 2, false, FieldKind::Fixed),
            ("common_flags", 2, 1, false, FieldKind::Fixed),
            ("common_preempt_count", 3, 1, false, FieldKind::Fixed),
            ("common_pid", 4, 4, true, FieldKind::Fixed),
            ("comm", 8, 4, false, FieldKind::DataLoc),
            ("pid", 12, 4, true, FieldKind::Fixed),
            ("reason", 16, 8, false, FieldKind::Fixed),
            ("next_comm", 24, 16, false, FieldKind::Fixed),
            ("tail", 40, 4, false, FieldKind::RelLoc),
        ]
    );
}

#[test]
fn errors_name_file_line_and_text() {
    let text = "name: x\nID: 70000\n";
    assert_eq!(
        error_of(text),
        "read f, line 2: the event's number is not within 0 to 65535: `ID: 70000`"
    );
    let text = "name: x\nID: 7\nformat:\n\tfield:int a;\toffset:zero;\tsize:4;\n";
    assert!(error_of(text).contains("line 4: `zero` is not a number"));
    assert!(error_of("name: x\nsurprise\n").contains("line 2: this line is not known: `surprise`"));
    assert!(error_of("name: x\n").contains("line 2: the event's number is missing"));
    assert!(error_of("field:int a; size:4;").contains("the offset is missing"));
}

#[test]
fn the_header_of_64_and_32_bit_kernels_is_read() {
    let long64 = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    let header = HeaderPage::parse(Path::new("h"), long64).unwrap();
    assert_eq!(header, HeaderPage::LONG64);
    let long32 = long64
        .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
        .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
    let header = HeaderPage::parse(Path::new("h"), &long32).unwrap();
    assert_eq!((header.commit_size, header.data), (4, 12));
    let overlapping = long64.replace("offset:16", "offset:12");
    assert!(HeaderPage::parse(Path::new("h"), &overlapping).is_err());
    let without = long64.replace("commit", "comet");
    let error = HeaderPage::parse(Path::new("h"), &without).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("line 5: the field `commit` is missing")
    );
}

#[test]
fn every_format_file_of_this_kernel_is_read() {
    let events = Path::new("/sys/kernel/tracing/events");
    let mut read = 0;
    for (system, event) in crate::understood() {
        let path = events.join(system).join(event).join("format");
        if let Ok(text) = std::fs::read_to_string(&path) {
            let format = EventFormat::parse(&path, &text).unwrap();
            assert_eq!(format.name, event);
            assert!(format.field("common_pid").is_some());
            read += 1;
        }
    }
    if read == 0 {
        println!("skipped: tracefs is not mounted or not readable");
    }
}

proptest! {
    #[test]
    fn foreign_text_is_refused_or_read_but_never_panics(text in "(name: ?|ID:|field:|offset:|size:|print fmt:|[;\\[\\]*\n\t 0-9a-z]){0,60}") {
        let _ = EventFormat::parse(Path::new("f"), &text);
        let _ = HeaderPage::parse(Path::new("h"), &text);
    }
}

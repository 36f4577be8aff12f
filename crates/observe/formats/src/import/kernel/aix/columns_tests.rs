#![allow(clippy::unwrap_used)]
use super::*;

const FULL: &[u8] = b"ID  PROCESS NAME   CPU PID      TID      I SYSTEM CALL    ELAPSED_SEC     DELTA_MSEC   APPL    SYSCALL KERNEL  INTERRUPT";

fn read<'a>(header: &[u8], line: &'a str) -> Line<'a> {
    let columns = Columns::parse(header).unwrap();
    columns.line(line.as_bytes()).unwrap().unwrap()
}

fn key(line: &Line<'_>) -> (Option<u16>, String, [Option<u32>; 3], u64, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        line.hook,
        text(line.name),
        [line.cpu, line.pid, line.tid],
        line.time_ns,
        text(line.text),
    )
}

#[test]
fn columns_are_found_by_their_names() {
    let expected = |numbers| {
        let text = "kfork LR = D0040AF8".to_owned();
        (Some(0x101), "ksh".to_owned(), numbers, 5_833_472, text)
    };
    let full = read(
        FULL,
        "101 ksh            2   8526     24713      kfork          0.005833472       0.107008           kfork LR = D0040AF8",
    );
    assert_eq!(key(&full), expected([Some(2), Some(8526), Some(24713)]));
    assert_eq!(full.digits, 9);
    let shorter = b"ID PROCESS NAME PID ELAPSED_SEC DELTA_MSEC APPL SYSCALL KERNEL INTERRUPT";
    let line = read(
        shorter,
        "101 ksh 8526 0.005833472 0.107008 kfork LR = D0040AF8",
    );
    assert_eq!(key(&line), expected([None, Some(8526), None]));
    let other = b"ID  TID      PID      CPU PROCESS NAME   ELAPSED_USEC  APPL SYSCALL";
    let line = read(
        other,
        "101 24713    8526     2   ksh  5833.472  kfork LR = D0040AF8",
    );
    assert_eq!(
        key(&line).2,
        [Some(2), Some(8526), Some(24713)],
        "the header says which number is which"
    );
    assert_eq!((line.time_ns, line.digits), (5_833_472, 9));
}

#[test]
fn names_that_hold_numbers_or_are_missing_do_not_mislead() {
    let line = read(
        FULL,
        "106 java 2 3       0   8526     24713  7               1.000001000       0.107008  dispatch:",
    );
    assert_eq!(key(&line).1, "java 2 3");
    assert_eq!(key(&line).2, [Some(0), Some(8526), Some(24713)]);
    let line = read(
        FULL,
        "106                0   8526     24713                  1.000001000       0.107008  dispatch:",
    );
    assert_eq!(key(&line).1, "");
    assert_eq!(key(&line).2, [Some(0), Some(8526), Some(24713)]);
    let line = read(
        FULL,
        "106 -1             0   -1       -1                     1.000001000       0.107008  x",
    );
    assert_eq!(key(&line).2, [Some(0), None, None]);
}

#[test]
fn a_text_with_numbers_does_not_pass_for_the_time() {
    let short = b"ID  PROCESS NAME   CPU PID      TID      I    ELAPSED   APPL    SYSCALL KERNEL";
    let line = read(
        short,
        "106 ksh            1   8526     24713       0.000123  dispatch: 9.5 1.5",
    );
    assert_eq!((line.time_ns, line.digits), (123_000, 6));
    assert_eq!(line.text, b"dispatch: 9.5 1.5");
}

#[test]
fn hooks_have_three_digits_or_a_fourth_that_says_nothing() {
    let hooks = ["106", "10c", "1060", "1061"].map(|text| hook(text.as_bytes()));
    let expected = [Some(0x106), Some(0x10c), Some(0x106), None].map(Some);
    assert_eq!(hooks, expected);
    assert_eq!(hook(b"+10"), None);
    assert_eq!(hook(b"Thu"), None);
}

#[test]
fn damaged_lines_and_headers_say_what_they_lack() {
    let columns = Columns::parse(FULL).unwrap();
    let line = |text: &'static str| columns.line(text.as_bytes());
    assert_eq!(line(""), None);
    assert_eq!(line("   dispatch: continued"), None);
    let time = Some(Err("its time is missing"));
    assert_eq!(line("106"), time);
    assert_eq!(line("106 ksh 0 8526 24713 0.0058"), time, "cut short");
    let numbers = Some(Err("the numbers of CPU, process and thread are missing"));
    assert_eq!(line("106 ksh 0 x 24713 0.1 0.1 y"), numbers);
    assert_eq!(line("106 ksh 0 99999999999 24713 0.1 0.1 y"), numbers);
    let range = Some(Err("its time is out of range"));
    assert_eq!(line("106 ksh 0 1 2 18446744073709551615.1 0.1"), range);
    let lacks = |header: &str| Columns::parse(header.as_bytes()).unwrap_err();
    assert!(lacks("ID CPU PID").contains("elapsed"));
    assert!(lacks("ID CPU PROCESS NAME PID ELAPSED").contains("side by side"));
    assert!(lacks("ID CPU CPU ELAPSED").contains("twice"));
}

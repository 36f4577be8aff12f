//! Schedules as text and in binary form: what is read, what is refused, and where.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::{Operation, ReadError, Schedule, ScheduleBuilder};

fn binary(schedule: &Schedule) -> Vec<u8> {
    let mut bytes = Vec::new();
    schedule.write_binary(&mut bytes).unwrap();
    bytes
}

fn text(schedule: &Schedule) -> String {
    let mut bytes = Vec::new();
    schedule.write_text(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn refused(text: &str, message: &str) {
    match text.parse::<Schedule>() {
        Ok(schedule) => panic!("{schedule:?}"),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

const PING_PONG: &str = include_str!("../../../../docs/examples/pingpong.goal");

#[test]
fn every_part_of_the_grammar_is_read() {
    let read: Schedule = "\
        /* of two\n lines */ num_ranks 2 // and one\n\
        \n\
        rank 0 { // here too\r\n\
        send 1b to 1\n\
        a: send 2 b to 1 tag 3 cpu 4 nic 5 // behind an operation\n\
        \tlabel_2:recv 18446744073709551615b from -1 tag -1\n\
        requires: recv 0b from 0 tag 4294967294 nic 255\n\
        calc 7 cpu 255 /* and here */\n\
        Z9: calc 8\n\
        a requires Z9\n\
        requires irequires label_2\n\
        requires requires a\n\
        }\n\
        rank 1{\n\
        }"
    .parse()
    .unwrap();
    let mut builder = ScheduleBuilder::new(2).unwrap();
    builder.push(Operation::send(1, 1)).unwrap();
    let a = builder
        .push(Operation::send(2, 1).tag(3).cpu(4).nic(5))
        .unwrap();
    let label_2 = builder
        .push(Operation::recv(u64::MAX, None).any_tag())
        .unwrap();
    let requires = builder
        .push(Operation::recv(0, 0).tag(4_294_967_294).nic(255))
        .unwrap();
    builder.push(Operation::calc(7).cpu(255)).unwrap();
    let z9 = builder.push(Operation::calc(8)).unwrap();
    builder.requires(a, z9).unwrap();
    builder.irequires(requires, label_2).unwrap();
    builder.requires(requires, a).unwrap();
    builder.end_rank().unwrap();
    builder.end_rank().unwrap();
    assert_eq!(read, builder.finish().unwrap());
}

#[test]
fn both_forms_hold_the_same_schedule_and_are_told_apart() {
    let read: Schedule = PING_PONG.parse().unwrap();
    let bytes = binary(&read);
    assert_eq!(Schedule::read(bytes.as_slice()).unwrap(), read);
    assert_eq!(Schedule::read(PING_PONG.as_bytes()).unwrap(), read);
    assert_eq!(text(&read).parse::<Schedule>().unwrap(), read);
    // The layout by the tables of the format: header, two spans, and for each rank counts, one
    // root, operations, dependents.
    let rank = |operations: usize, dependents: usize| 8 + 4 + 39 * operations + 4 * dependents;
    assert_eq!(bytes.len(), 8 + 6 + 32 + rank(4, 3) + rank(3, 2));
    assert_eq!(bytes[..14], [127, 16, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[14..22], 38_u64.to_le_bytes());
    // The first operation of rank 0: waits for none, calc, 10000 ns; one dependent, the first in
    // the list.
    let node = [
        &[0, 0, 0, 0, 3, 0, 0, 0, 0][..],
        &10_000_u64.to_le_bytes(),
        &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 1, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes[46 + 12..46 + 12 + 39], node);
}

#[test]
fn a_text_that_is_none_is_refused_with_line_and_reason() {
    let one = |body: &str| format!("num_ranks 2\nrank 0 {{\n{body}\n}}\nrank 1 {{\n}}\n");
    for (body, message) in [
        (
            "a: calc 1\nb requires a",
            "line 4: label b is not defined above in rank 0",
        ),
        (
            "a: calc 1\na requires b\nb: calc 1",
            "line 4: label b is not defined above in rank 0",
        ),
        (
            "a: calc 1\n\na: calc 2",
            "line 5: label a is defined twice in rank 0, first in line 3",
        ),
        (
            "calc 1 calc",
            "line 3: expected an attribute (tag, cpu, nic, in this order) or the end of the line, found `calc`",
        ),
        (
            "send 1b to 1 nic 1 tag 1",
            "line 3: expected an attribute (tag, cpu, nic, in this order) or the end of the line, found `tag`",
        ),
        (
            "calc 1 nic 1",
            "line 3: expected an attribute (tag, cpu, nic, in this order) or the end of the line, found `nic`",
        ),
        (
            "calc 18446744073709551616",
            "line 3: number of nanoseconds of more than 64 bits is out of range: at most 18446744073709551615 is possible",
        ),
        (
            "calc 1 cpu 256",
            "line 3: cpu 256 is out of range: at most 255 is possible",
        ),
        (
            "send 1b to 1 tag 4294967295",
            "line 3: tag 4294967295 is out of range: at most 4294967294 is possible",
        ),
        (
            "send 1b to 2",
            "line 3: rank 2 does not exist: there are 2, from 0 to 1",
        ),
        (
            "recv 1b from 2",
            "line 3: rank 2 does not exist: there are 2, from 0 to 1",
        ),
        ("send 1b to -1", "line 3: expected rank, found -1"),
        ("send 1b to 1 tag -1", "line 3: expected tag, found -1"),
        (
            "send 1 to 1",
            "line 3: expected `b` behind the number of bytes, found `to`",
        ),
        ("recv 1b to 1", "line 3: expected `from`, found `to`"),
        (
            "calc -5",
            "line 3: expected number of nanoseconds, found `-`",
        ),
        (
            "calc 1.5",
            "line 3: expected an attribute (tag, cpu, nic, in this order) or the end of the line, found `.`",
        ),
        (
            "calc",
            "line 3: expected number of nanoseconds, found the end of the line",
        ),
        (
            "x",
            "line 3: expected `:`, `requires` or `irequires`, found the end of the line",
        ),
        (
            "x: y",
            "line 3: expected `send`, `recv` or `calc`, found `y`",
        ),
        (
            "x:\ncalc 1",
            "line 3: expected `send`, `recv` or `calc`, found the end of the line",
        ),
        (
            "x: calc 1\nx requires",
            "line 4: expected a label, found the end of the line",
        ),
        (
            "x: calc 1\ny: calc 1\ny requires x x",
            "line 5: expected the end of the line, found `x`",
        ),
        (
            "\u{1}",
            "line 3: expected an operation, a label or `}`, found byte 0x01",
        ),
        (
            "@",
            "line 3: expected an operation, a label or `}`, found `@`",
        ),
        (
            "x: calc 1\nx requires x",
            "line 3: operations of rank 0 wait for each other: x (line 3) for x (line 3)",
        ),
        (
            "x: calc 1\ny: calc 1\ny requires x\nx irequires y",
            "line 3: operations of rank 0 wait for each other: x (line 3) for y (line 4), that for x (line 3)",
        ),
    ] {
        refused(&one(body), message);
    }
    for (text, message) in [
        (
            "",
            "line 1: expected `num_ranks`, found the end of the file",
        ),
        (
            "\n\nrank 0 {\n}",
            "line 3: expected `num_ranks`, found `rank`",
        ),
        (
            "num_ranks 0",
            "line 1: 0 ranks: from 1 to 4294967294 are possible",
        ),
        (
            "num_ranks 4294967295",
            "line 1: number of ranks 4294967295 is out of range: at most 4294967294 is possible",
        ),
        (
            "num_ranks 4294967294\n",
            "line 2: only 0 of 4294967294 ranks",
        ),
        (
            "num_ranks 1\nrank 1 {\n}",
            "line 2: expected rank 0, found rank 1: ranks follow each other from 0 on",
        ),
        (
            "num_ranks 2\nrank 0 {\n}\nrank 0 {\n}",
            "line 4: expected rank 1, found rank 0: ranks follow each other from 0 on",
        ),
        ("num_ranks 2\nrank 0 {\n}\n", "line 4: only 1 of 2 ranks"),
        (
            "num_ranks 1\nrank 0 {\n}\nrank 1 {\n}",
            "line 5: more than the 1 ranks that were announced",
        ),
        (
            "num_ranks 1\nrank 0 {\ncalc 1\n",
            "line 4: expected an operation, a label or `}`, found the end of the file",
        ),
        (
            "num_ranks 1\nrank 0 {\ncalc 1",
            "line 3: expected an attribute (tag, cpu, nic, in this order) or the end of the line, found the end of the file",
        ),
        (
            "num_ranks 1\nrank 0\n",
            "line 2: expected `{`, found the end of the line",
        ),
        (
            "num_ranks 1\nrank 0 {\n} }",
            "line 3: expected `rank`, found `}`",
        ),
        (
            "num_ranks 1\n/* rank 0 {\n}\n",
            "line 2: a comment begins here and has no end",
        ),
        (
            "\u{feff}num_ranks 1",
            "line 1: expected `num_ranks`, found byte 0xef",
        ),
    ] {
        refused(text, message);
    }
    let long = format!("num_ranks 1\nrank 0 {{\n{}: calc 1\n}}", "x".repeat(1_001));
    refused(&long, "line 3: a word of more than 1000 characters");
}

/// The error for the ping-pong's binary form with these bytes changed.
fn damaged(changes: &[(usize, &[u8])]) -> String {
    let mut bytes = binary(&PING_PONG.parse().unwrap());
    for (at, new) in changes {
        bytes[*at..at + new.len()].copy_from_slice(new);
    }
    match Schedule::from_binary(&bytes) {
        Ok(schedule) => panic!("{schedule:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_binary_form_that_is_none_is_refused_with_offset_and_reason() {
    // Rank 0: counts at 46, root at 54, operations at 58, 97, 136, 175, dependents at 214 to 226.
    // Rank 1: at 226.
    let [one, many] = [1_u32.to_le_bytes(), u32::MAX.to_le_bytes()];
    for (changes, message) in [
        (
            &[(0, &[0][..])][..],
            "byte 0: no binary schedule begins like this (magic number 4223)",
        ),
        (
            &[(0, &2342_u64.to_le_bytes())],
            "byte 0: a simulator has used this schedule up (LogGOPSim --save-mem)",
        ),
        (
            &[(8, &[0; 4])],
            "byte 8: 0 ranks: from 1 to 4294967294 are possible",
        ),
        (
            &[(8, &many)],
            "byte 14: the table of ranks ends at byte 68719476734, but the file, or the part of it that is this rank's, at byte 363",
        ),
        (
            &[(14, &[0; 8])],
            "byte 14: the schedule of rank 0 goes from byte 8 to byte 226 of 363",
        ),
        (
            &[(22, &[255; 8])],
            "byte 14: the schedule of rank 0 goes from byte 46 to byte 18446744073709551615 of 363",
        ),
        (
            &[(30, &38_u64.to_le_bytes())],
            "byte 30: the schedules of the ranks overlap",
        ),
        (
            &[(46, &many)],
            "byte 58: the list of operations ends at byte 167503724563, but the file, or the part of it that is this rank's, at byte 226",
        ),
        (
            &[(50, &many)],
            "byte 226: the list of operations ends at byte 17179869390",
        ),
        (
            &[(54, &one)],
            "byte 54: the list of operations that wait for nothing contradicts the operations",
        ),
        (
            &[(62, &[4])],
            "byte 58: an operation of type 4: the types are 1 (send), 2 (recv) and 3 (calc)",
        ),
        (
            &[(62, &[255])],
            "byte 58: an operation of type 255: the types are 1 (send), 2 (recv) and 3 (calc)",
        ),
        (
            &[(102, &[9])],
            "byte 97: rank 9 does not exist: there are 2, from 0 to 1",
        ),
        (
            &[(102, &many)],
            "byte 97: rank 4294967295 does not exist: there are 2, from 0 to 1",
        ),
        (
            &[(114, &many)],
            "byte 97: tag 4294967295 is taken: it stands for any tag",
        ),
        (
            &[(118, &[1])],
            "byte 97: cpu 1, but the largest in the header is 0",
        ),
        (
            &[(119, &[1])],
            "byte 97: nic 1, but the largest in the header is 0",
        ),
        (
            &[(97, &[2])],
            "byte 97: an operation should wait for 2 others, but 1 list it",
        ),
        (
            &[(81, &[4])],
            "byte 58: 4 dependents from 0 on, but the rank has 3 in all",
        ),
        (
            &[(85, &many)],
            "byte 58: 1 dependents from 4294967295 on, but the rank has 3 in all",
        ),
        (
            &[(81, &[3]), (89, &[1])],
            "byte 58: the lists of dependents overlap",
        ),
        (
            &[(214, &[4])],
            "byte 214: a list of dependents points at operation 4 of 4",
        ),
        (&[(214, &[2]), (97, &[0]), (136, &[2])], "byte 54: "),
    ] {
        let said = damaged(changes);
        assert!(
            said.starts_with(message),
            "{changes:?}: {said}, not {message}"
        );
        assert!(said.starts_with("byte "), "{said}");
    }
    let bytes = binary(&PING_PONG.parse().unwrap());
    for end in 0..bytes.len() {
        match Schedule::read(&bytes[..end]) {
            Err(error @ ReadError::Binary { .. }) => assert!(end >= 8, "{error}"),
            Err(ReadError::Text { .. }) => assert!(end < 8),
            other => panic!("{end}: {other:?}"),
        }
    }
}

#[test]
fn dependencies_of_the_binary_form_in_a_circle_are_named() {
    // One rank with two computations, each in the other's list.
    let mut bytes = Vec::new();
    bytes.extend(4223_u64.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0]);
    bytes.extend(22_u64.to_le_bytes());
    bytes.extend((22_u64 + 8 + 2 * 39 + 8).to_le_bytes());
    bytes.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    for first in [0_u8, 1] {
        bytes.extend([
            1, 0, 0, 0, 3, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ]);
        bytes.extend([1, 0, 0, 0, first, 0, 0, 0, 0, 0, 0, 0, 231, 3, 0, 0]);
    }
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    let error = Schedule::read(bytes.as_slice()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 30: operations of rank 0 wait for each other: operation 0 for operation 1, that for operation 0"
    );
}

#[test]
fn a_reader_that_gives_one_byte_at_a_time_is_enough() {
    struct Slow<'a>(&'a [u8]);
    impl std::io::Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }
    let read: Schedule = PING_PONG.parse().unwrap();
    assert_eq!(Schedule::read(Slow(PING_PONG.as_bytes())).unwrap(), read);
    assert_eq!(Schedule::read(Slow(&binary(&read))).unwrap(), read);
}

#[test]
fn an_error_of_the_system_stays_one() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("gone"))
        }
    }
    for start in [&b""[..], b"num_ranks 1\nrank 0 {", &4223_u64.to_le_bytes()] {
        let read = Schedule::read(std::io::Read::chain(start, Broken));
        assert!(matches!(read, Err(ReadError::Io(_))));
    }
}

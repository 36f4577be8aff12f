//! What programs mean: values of expressions, schedules, and where a rank cannot continue.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::{Action, Operation, Schedule};
use idlewave_simulate::program::{Bindings, Problem, Program, ProgramError};

fn read(text: &str) -> Program {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The operations of each rank.
fn operations(text: &str, ranks: u32) -> Vec<Vec<Operation>> {
    let schedule = expand(text, ranks).unwrap();
    (0..ranks)
        .map(|rank| schedule.rank(rank).collect())
        .collect()
}

fn expand(text: &str, ranks: u32) -> Result<Schedule, ProgramError> {
    let ranks = Some(ranks);
    let values = Vec::new();
    read(text).bind(&Bindings { ranks, values })?.expand(1_000)
}

/// Times of the computations of one of `ranks` ranks, which expose the values of expressions.
fn calcs(text: &str, ranks: u32, rank: usize) -> Vec<u64> {
    let all = operations(text, ranks).swap_remove(rank);
    all.iter()
        .map(|operation| operation.action)
        .map(calc_ns)
        .collect()
}

fn calc_ns(action: Action) -> u64 {
    match action {
        Action::Calc { ns } => ns,
        other => panic!("{other:?}"),
    }
}

#[test]
fn expressions_have_the_values_of_the_table() {
    for (text, value) in [
        ("7 / 2 + -7 / 2 + 10", 9),
        ("-1 % 5", 4),
        ("(rank - 1) % ranks", 5),
        ("1 << 10 | 3 ^ 1 & 1", 1_026),
        ("1 << 3 >> 1", 4),
        ("log2floor(ranks) * 10 + log2ceil(ranks)", 23),
        ("log2ceil(1) + log2floor(1)", 0),
        ("min(rank, 3) + max(rank, 3)", 3),
        (
            "(2 < 3) + (3 <= 3) + (4 > 3) + (3 >= 4) + (1 == 1) + (1 != 1)",
            4,
        ),
        ("(not 0) + (not 7)", 1),
        ("5 and 7", 1),
        ("0 or 9", 1),
        ("rank or 9", 1),
        ("rank and 1 / rank", 0),
        ("not rank or 1 / rank", 1),
        ("3 * (rank and 1) + 2", 2),
        ("3 * (not rank or 1) + 2", 5),
        ("(7 - (rank + 2)) * (5 - (rank + 1))", 20),
    ] {
        assert_eq!(
            calcs(&format!("program 1 calc {text}"), 6, 0),
            [value],
            "{text}"
        );
        // With the rank in every number, nothing is known in advance.
        let mut late = String::new();
        for word in text.split_inclusive([' ', '(', ')', ',', '-']) {
            let digits = word.bytes().take_while(u8::is_ascii_digit).count();
            match digits {
                0 => late += word,
                _ => late += &format!("({} + rank){}", &word[..digits], &word[digits..]),
            }
        }
        assert_eq!(
            calcs(&format!("program 1 calc {late}"), 6, 0),
            [value],
            "{late}"
        );
    }
}

#[test]
fn loops_conditions_and_names_do_what_they_say() {
    let text = "program 1
        let far = rank + 100
        loop i 3 {
          let twice = 2 * i + rank
          loop j i {
            calc 1000 * far + 10 * twice + j
          }
          if i == 1 { calc 7 } else if rank == 1 { calc 8 } else { calc 9 }
        }
        loop none 0 { calc 5 }
        if ranks == 2 { calc far } else { calc 1 / 0 }";
    let rank0 = [9, 100_020, 7, 100_040, 100_041, 9, 100];
    let rank1 = [8, 101_030, 7, 101_050, 101_051, 8, 101];
    assert_eq!(calcs(text, 2, 0), rank0);
    assert_eq!(calcs(text, 2, 1), rank1);
}

#[test]
fn an_operation_of_a_group_requires_all_of_the_group_before() {
    let text = "program 1
        calc 1
        together { }
        together { loop i 2 { send 5 to i tag i + 1 cpu 0 } recv 6 from 1 - rank tag any }
        recv 7 from any tag 3
        loop i 2 { calc i }";
    let goal = "num_ranks 2
        rank 0 {
        a: calc 1
        b: send 5b to 0 tag 1
        c: send 5b to 1 tag 2
        d: recv 6b from 1 tag -1
        e: recv 7b from -1 tag 3
        f: calc 0
        g: calc 1
        b requires a
        c requires a
        d requires a
        e requires b
        e requires c
        e requires d
        f requires e
        g requires f
        }
        rank 1 {
        a: calc 1
        b: send 5b to 0 tag 1
        c: send 5b to 1 tag 2
        d: recv 6b from 0 tag -1
        e: recv 7b from -1 tag 3
        f: calc 0
        g: calc 1
        b requires a
        c requires a
        d requires a
        e requires b
        e requires c
        e requires d
        f requires e
        g requires f
        }";
    assert_eq!(expand(text, 2).unwrap(), goal.parse().unwrap());
}

#[test]
fn parameters_are_set_by_the_caller_and_those_after_them_follow() {
    let program = read("program 1 ranks 4 param a = 10 param b = 2 * a + ranks calc a calc b");
    let calcs = |ranks, values: &[(&str, i64)]| {
        let values = values.iter().map(|&(name, value)| (name.to_owned(), value));
        let values = values.collect();
        let bound = program.bind(&Bindings { ranks, values }).unwrap();
        let schedule = bound.expand(1_000).unwrap();
        let all = schedule.rank(bound.ranks() - 1).map(|o| calc_ns(o.action));
        all.collect::<Vec<u64>>()
    };
    assert_eq!(calcs(None, &[]), [10, 24]);
    assert_eq!(calcs(Some(2), &[]), [10, 22]);
    assert_eq!(calcs(None, &[("a", 1), ("a", 3)]), [3, 10]);
    assert_eq!(calcs(None, &[("b", 1)]), [10, 1]);
    let bind = |ranks, name: &str| {
        let values = vec![(name.to_owned(), 1)];
        program
            .bind(&Bindings { ranks, values })
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        bind(None, "c"),
        "there is no parameter `c`: the program has a, b"
    );
    assert!(bind(Some(0), "a").starts_with("number of ranks 0 is out of range"));
    assert!(bind(Some(u32::MAX), "a").contains("out of range"));
    let none = read("program 1").bind(&Bindings::default()).unwrap_err();
    assert_eq!(none.problem, Problem::NoRanks);
    let late = read("program 1 ranks 1\nparam a = 1 / (ranks - 1)\n");
    let error = late.bind(&Bindings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2: 1 / 0 or 1 % 0: no division by 0"
    );
}

#[test]
fn a_rank_that_cannot_go_on_is_named_with_line_and_iteration() {
    for (text, place, what) in [
        (
            "program 1\nloop i 3 {\nloop j 2 {\nsend 1 to i + j + rank\n}\n}",
            "rank 0, line 4, i = 1, j = 1: ",
            "rank 2 is out of range: from 0 to 1",
        ),
        (
            "program 1\nsend 1 to rank - 1",
            "rank 0, line 2: ",
            "rank -1 is out of range: from 0 to 1",
        ),
        (
            "program 1\n\ncalc rank - 1",
            "rank 0, line 3: ",
            "computation of ns -1",
        ),
        (
            "program 1\nsend -1b to 0",
            "rank 0, line 2: ",
            "number of bytes -1",
        ),
        (
            "program 1\nrecv 1 from 0 tag 4294967295",
            "rank 0, line 2: ",
            "tag 4294967295 is out of range: from 0 to 4294967294",
        ),
        (
            "program 1\ncalc 1 cpu 1",
            "rank 0, line 2: ",
            "CPU 1 is out of range: from 0 to 0",
        ),
        (
            "program 1\ncpus 4\nsend 1 to 0 nic 1",
            "rank 0, line 3: ",
            "NIC 1",
        ),
        (
            "program 1\ncalc 7 / rank",
            "rank 0, line 2: ",
            "no division by 0",
        ),
        (
            "program 1\nlet a = 1 % (rank * 0)",
            "rank 0, line 2: ",
            "no division by 0",
        ),
        (
            "program 1\nif 1 << rank + 63 { }",
            "rank 0, line 2: ",
            "1 << 63 does not fit",
        ),
        (
            "program 1\nif 1 >> rank + 64 { }",
            "rank 0, line 2: ",
            "a shift by 64 places",
        ),
        (
            "program 1\ncalc log2floor(rank)",
            "rank 0, line 2: ",
            "logarithm of 0",
        ),
        (
            "program 1\ncalc 9223372036854775807 + rank\ncalc 9223372036854775807 + (rank + 1)",
            "rank 0, line 3: ",
            "9223372036854775807 + 1 does not fit 64 bits",
        ),
        (
            "program 1\ncalc -(rank - 9223372036854775807 - 1)",
            "rank 0, line 2: ",
            "-(-9223372036854775808)",
        ),
        (
            "program 1\nloop i rank - 1 {\n}",
            "rank 0, line 2: ",
            "count of the loop -1",
        ),
        (
            "program 1\nloop i 3 { loop j 1s * 1s { } }",
            "rank 0, line 2, i = 0, j = ",
            "steps without an operation",
        ),
        (
            "program 1\nif rank == 1 {\nsend 1 to 2\n}",
            "rank 1, line 3: ",
            "rank 2 is out of range",
        ),
        (
            "program 1\nloop i 2000 {\ncalc i\n}",
            "rank 0, line 3, i = 1000: ",
            "more than 1000 operations",
        ),
    ] {
        let error = expand(text, 2).unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.starts_with(place) && shown.contains(what),
            "{text}: {error}"
        );
    }
}

//! Programs as text: what is read, what is written, what is refused and where; what they stand for.

#![allow(clippy::unwrap_used)]

use idlewave_simulate::goal::{Operation, Schedule};
use idlewave_simulate::program::{
    Binary, Bindings, Expression, Parameter, Place, Problem, Program, ProgramError, Statement,
    Step, Unary,
};

fn read(text: &str) -> Program {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn refused(text: &str) -> ProgramError {
    match text.parse::<Program>() {
        Ok(program) => panic!("was read:\n{program}"),
        Err(error) => error,
    }
}

/// An expression, read from text.
fn expression(text: &str) -> Expression {
    let program = read(&format!(
        "program 1 param a = 1 param b = 2 param c = 3 calc {text}"
    ));
    match &program.body[0].step {
        Step::Calc { ns, .. } => ns.clone(),
        other => panic!("{other:?}"),
    }
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

/// Times of the computations of one rank of `ranks`, here to see values of expressions.
fn calcs(text: &str, ranks: u32, rank: usize) -> Vec<u64> {
    let all = operations(text, ranks).swap_remove(rank);
    all.iter()
        .map(|operation| operation.action)
        .map(calc_ns)
        .collect()
}

fn calc_ns(action: idlewave_simulate::goal::Action) -> u64 {
    match action {
        idlewave_simulate::goal::Action::Calc { ns } => ns,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_canonical_and_what_is_read_again_is_the_same() {
    let text = "\
program 1
ranks 16
cpus 2
nics 3
param work = 100000
let left = (rank + ranks - 1) % ranks
loop k 100 {
  calc work + 500 * (rank % 2)
  together {
    send 1024b to left tag 1
    recv 1024b from (rank + 1) % ranks tag 1 cpu 1 nic 2
    recv k from any tag any
  }
  if rank % 2 == 0 {
    calc 1
  } else if rank == 3 {
    calc 2 cpu 1
  } else {
    calc 3
    calc 4
  }
}
";
    let program = read(text);
    assert_eq!(program.to_string(), text);
    let crowded = text
        .replace('\n', " ")
        .replace("loop", "# a {\n// b }\r\nloop");
    assert_eq!(read(&crowded), program);
}

#[test]
fn operations_bind_as_the_table_says() {
    for (text, bracketed) in [
        ("a + b * c", "a + (b * c)"),
        ("a * b + c", "(a * b) + c"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c % 5", "((a / b) * c) % 5"),
        ("a << b + c", "a << (b + c)"),
        ("a & b << c", "a & (b << c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("a == b | c", "a == (b | c)"),
        ("not a == b", "not (a == b)"),
        ("not a and b", "(not a) and b"),
        ("a or b and c", "a or (b and c)"),
        ("a and not b or c", "(a and (not b)) or c"),
        ("-a * b", "(-a) * b"),
        ("a - -b", "a - (-b)"),
        ("- - a", "-(-a)"),
    ] {
        assert_eq!(expression(text), expression(bracketed), "{text}");
        let shown = expression(text).to_string();
        assert_eq!(expression(&shown), expression(text), "{shown}");
    }
    assert_eq!(expression("(a + b) * c").to_string(), "(a + b) * c");
    assert_eq!(expression("a - (b - c)").to_string(), "a - (b - c)");
    assert_eq!(expression("(a < b) < c").to_string(), "(a < b) < c");
    assert_eq!(expression("-5"), Expression::Number(-5));
    assert_eq!(expression("-(5)"), Expression::unary(Unary::Negative, 5));
    assert_eq!(expression("-(5)").to_string(), "-(5)");
    assert_eq!(
        expression("-9223372036854775808"),
        Expression::Number(i64::MIN)
    );
    assert_eq!(
        expression("min(a, max(b, 1))"),
        Expression::binary(
            Binary::Minimum,
            Expression::name("a"),
            Expression::binary(Binary::Maximum, Expression::name("b"), 1)
        )
    );
}

#[test]
fn numbers_may_have_units() {
    assert_eq!(expression("10us"), Expression::Number(10_000));
    assert_eq!(expression("3ms"), Expression::Number(3_000_000));
    assert_eq!(expression("2s"), Expression::Number(2_000_000_000));
    assert_eq!(expression("7ns + 8b"), expression("7 + 8"));
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
        // With the rank in every number nothing is known beforehand.
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
fn what_is_no_program_is_refused_with_its_line() {
    for (text, line, what) in [
        ("", 1, "expected `program`, found the end of the file"),
        (
            "# x\nnum_ranks 2",
            2,
            "expected `program`, found `num_ranks`",
        ),
        ("program 2", 1, "version 2 of programs is not known: 1 is"),
        (
            "program\n\ncalc 1",
            3,
            "expected the version, 1, found `calc`",
        ),
        ("program 1\nranks 0", 2, "number of ranks"),
        (
            "program 1\nranks 4294967295",
            2,
            "out of range: from 1 to 4294967294",
        ),
        ("program 1\nranks 1\nranks 2", 3, "`ranks` is said twice"),
        ("program 1\ncpus 257", 2, "from 1 to 256"),
        (
            "program 1\nnics rank",
            2,
            "expected number of NICs, found `rank`",
        ),
        ("program 1\nparam a = rank", 2, "the same for all ranks"),
        (
            "program 1\nparam a = b\nparam b = 1",
            2,
            "`b` is not defined here",
        ),
        (
            "program 1\ncalc 1\nparam a = 1",
            3,
            "expected a statement or the end of the file, found `param`",
        ),
        ("program 1\ncalc x", 2, "`x` is not defined here"),
        (
            "program 1\nloop i 3 {\ncalc i\n}\ncalc i",
            5,
            "`i` is not defined here",
        ),
        ("program 1\nloop i i { }", 2, "`i` is not defined here"),
        (
            "program 1\nif 1 { let a = 1 }\ncalc a",
            3,
            "`a` is not defined here",
        ),
        (
            "program 1\nlet a = 1\n\nloop a 2 { }",
            4,
            "`a` has a meaning here already, from line 2",
        ),
        ("program 1\nlet send = 1", 2, "`send` cannot be a name"),
        (
            "program 1\nlet 1a = 1",
            2,
            "a number, with b, ns, us, ms, s or without a unit",
        ),
        ("program 1\nlet a 1", 2, "expected `=`, found 1"),
        (
            "program 1\ntogether {\nloop i 2 {\ntogether { }\n}\n}",
            4,
            "`together` within `together`",
        ),
        (
            "program 1\nloop i 2 {\ncalc 1\n",
            4,
            "expected a statement or `}`, found the end of the file",
        ),
        ("program 1\ncalc 1\n}", 3, "found `}`"),
        (
            "program 1\nloop i 2\ncalc 1",
            3,
            "expected `{`, found `calc`",
        ),
        ("program 1\nsend 5 from 3", 2, "expected `to`, found `from`"),
        (
            "program 1\nsend 5 to any",
            2,
            "expected a number, a name or `(`, found `any`",
        ),
        ("program 1\nsend 5 to 3 cpu 1 tag 2", 2, "found `tag`"),
        ("program 1\ncalc 1 nic 1", 2, "found `nic`"),
        (
            "program 1\ncalc 1 < 2 < 3",
            2,
            "expected `and`, `or` or the end of the comparison, found `<`",
        ),
        (
            "program 1\ncalc (1",
            2,
            "expected `)`, found the end of the file",
        ),
        ("program 1\ncalc min(1)", 2, "expected `,`, found `)`"),
        ("program 1\ncalc 1 +\n* 2", 3, "found `*`"),
        (
            "program 1\ncalc 9223372036854775808",
            2,
            "more than 63 bits",
        ),
        ("program 1\ncalc \u{7}", 2, "`\\u{7}`"),
        ("program 1\nelse { }", 2, "found `else`"),
        ("program 1\nloop i 2 { calc 1 } 7", 2, "found 7"),
    ] {
        let error = refused(text);
        assert_eq!(error.place.line, Some(line), "{text}: {error}");
        assert!(error.to_string().contains(what), "{text}: {error}");
    }
}

#[test]
fn deep_and_long_texts_are_refused_before_they_are_too_deep_for_memory() {
    let deep = |open: &str, close: &str, times| open.repeat(times) + "1" + &close.repeat(times);
    for text in [
        format!("program 1\ncalc {}", deep("(", ")", 1_000_000)),
        format!("program 1\ncalc {}", deep("-", "", 1_000_000)),
        format!("program 1\ncalc {}", deep("1 + ", "", 1_000_000)),
        format!("program 1\ncalc {}", deep("log2ceil(", ")", 1_000_000)),
        format!("program 1\nif {}", deep("not ", "", 1_000_000)),
        format!("program 1\n{}", "if 1 {".repeat(1_000_000)),
        format!(
            "program 1\nif 1 {{ }} {}",
            "else if 1 { }".repeat(1_000_000)
        ),
    ] {
        let error = refused(&text);
        assert!(matches!(error.problem, Problem::TooDeep { .. }), "{error}");
        assert_eq!(error.place.line, Some(2));
    }
    let mut long = Expression::Number(1);
    for _ in 0..1_000 {
        long = long + 1;
    }
    let calc = Step::Calc {
        ns: long,
        cpu: 0.into(),
    };
    let program = Program {
        ranks: Some(1),
        body: vec![calc.into()],
        ..Program::default()
    };
    let error = program.bind(&Bindings::default()).unwrap_err();
    assert!(matches!(error.problem, Problem::TooDeep { .. }), "{error}");
    // What is read just about can be written and bound.
    let program = read(&format!("program 1 ranks 1\ncalc {}", deep("-(", ")", 98)));
    assert_eq!(read(&program.to_string()), program);
    program
        .bind(&Bindings::default())
        .unwrap()
        .expand(1)
        .unwrap();
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

#[test]
fn programs_made_without_text_are_checked_when_they_are_bound() {
    let bind = |program: Program| program.bind(&Bindings::default()).unwrap_err();
    let body = |step: Step| Program {
        ranks: Some(1),
        body: vec![step.into()],
        ..Program::default()
    };
    let name = |name: &str| Step::Let {
        name: name.to_owned(),
        value: 1.into(),
    };
    for wrong in ["", "a b", "1a", "rank", "\u{e4}", "together"] {
        let error = bind(body(name(wrong)));
        assert_eq!(error.problem, Problem::NoName(wrong.to_owned()));
    }
    let nested = Step::Together(vec![Step::Together(Vec::new()).into()]);
    assert_eq!(bind(body(nested)).problem, Problem::Nested);
    for (cpus, nics) in [(0, 1), (257, 1), (1, 0), (1, 257)] {
        let program = Program {
            cpus,
            nics,
            ..body(name("a"))
        };
        assert!(matches!(bind(program).problem, Problem::OutOfRange { .. }));
    }
    let parameter = Parameter {
        name: "a".to_owned(),
        value: Expression::Rank,
        line: Some(5),
    };
    let program = Program {
        parameters: vec![parameter],
        ..body(name("b"))
    };
    let error = bind(program);
    assert_eq!(
        error.place,
        Place {
            line: Some(5),
            ..Place::default()
        }
    );
    let statement = Statement {
        step: name("a"),
        line: Some(7),
    };
    assert_eq!(statement, name("a").into());
}

#[test]
fn a_file_says_in_its_first_word_that_it_is_a_program() {
    assert!(Program::begins(b"program 1"));
    assert!(Program::begins(b"program\n"));
    for other in ["", "progra", "programs 1", "num_ranks 1", " program 1"] {
        assert!(!Program::begins(other.as_bytes()), "{other}");
    }
    assert!(Program::read(&b"program 1 ranks 2"[..]).is_ok());
    assert!(Program::read(&b"program 1 \xff"[..]).is_err());
}

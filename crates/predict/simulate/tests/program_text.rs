//! Programs as text: what is read, what is written, what is refused, and where.

#![allow(clippy::unwrap_used)]

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
fn what_is_no_program_is_refused_with_its_line() {
    for (text, line, what) in [
        ("", 1, "expected `program`, found the end of the file"),
        (
            "# x\nnum_ranks 2",
            2,
            "expected `program`, found `num_ranks`",
        ),
        (
            "program 2",
            1,
            "version 2 of programs is not supported: only 1 is",
        ),
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
        (
            "program 1\nranks 1\nranks 2",
            3,
            "`ranks` is declared twice",
        ),
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
            "`a` is already defined here, from line 2",
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
    // A program just within the limit can be written and bound.
    let program = read(&format!("program 1 ranks 1\ncalc {}", deep("-(", ")", 98)));
    assert_eq!(read(&program.to_string()), program);
    program
        .bind(&Bindings::default())
        .unwrap()
        .expand(1)
        .unwrap();
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

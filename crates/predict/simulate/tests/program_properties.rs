//! Properties of programs: what is written reads back the same; the engine that executes a program
//! and the one that simulates its schedule agree on every rank; damaged texts are refused with
//! their line.

#![allow(clippy::unwrap_used)]

use idlewave_noise::CpuTime;
use idlewave_simulate::goal::{self, GoalError, Parameters, Stuck, Waiting};
use idlewave_simulate::program::{
    self, Binary, Bindings, Bound, Expression, Parameter, PlayError, Program, Statement, Step,
    Unary,
};
use idlewave_units::{Bytes, Nanos};
use proptest::prelude::*;

/// Any expression over the known names.
fn any_expression(names: Vec<String>) -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Expression::Number),
        (-3_i64..10).prop_map(Expression::Number),
        Just(Expression::Rank),
        Just(Expression::Ranks),
        prop::sample::select(names).prop_map(Expression::Name),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        let unary = prop::sample::select(UNARY.to_vec());
        let binary = prop::sample::select(BINARY.to_vec());
        prop_oneof![
            (unary, inner.clone()).prop_map(|(operator, of)| Expression::unary(operator, of)),
            (binary, inner.clone(), inner)
                .prop_map(|(operator, left, right)| Expression::binary(operator, left, right)),
        ]
    })
}

const UNARY: [Unary; 4] = [
    Unary::Negative,
    Unary::Not,
    Unary::Log2Floor,
    Unary::Log2Ceil,
];

const BINARY: [Binary; 20] = [
    Binary::Or,
    Binary::And,
    Binary::Equal,
    Binary::NotEqual,
    Binary::Less,
    Binary::LessOrEqual,
    Binary::Greater,
    Binary::GreaterOrEqual,
    Binary::BitOr,
    Binary::BitXor,
    Binary::BitAnd,
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::Add,
    Binary::Subtract,
    Binary::Multiply,
    Binary::Divide,
    Binary::Remainder,
    Binary::Minimum,
    Binary::Maximum,
];

fn name(number: u32) -> String {
    ["alpha", "b_2", "_c", "deep", "Even"][number as usize % 5].to_owned()
}

/// Statements with any expressions; each depth has its own name, so no name is defined twice.
fn any_block(depth: u32, names: &[String], nested: bool) -> BoxedStrategy<Vec<Statement>> {
    let names = names.to_vec();
    let more = [names.as_slice(), &[name(depth + 1)]].concat();
    let value = || any_expression(names.clone());
    let zero_or = || prop_oneof![3 => Just(Expression::Number(0)), 1 => value()];
    let operation = prop_oneof![
        (value(), zero_or()).prop_map(|(ns, cpu)| Step::Calc { ns, cpu }),
        (value(), value(), zero_or(), zero_or(), zero_or()).prop_map(
            |(bytes, to, tag, cpu, nic)| Step::Send {
                bytes,
                to,
                tag,
                cpu,
                nic
            }
        ),
        (
            value(),
            prop::option::of(value()),
            prop::option::of(zero_or()),
            zero_or(),
            zero_or()
        )
            .prop_map(|(bytes, from, tag, cpu, nic)| Step::Recv {
                bytes,
                from,
                tag,
                cpu,
                nic
            }),
    ];
    if depth == 3 {
        return prop::collection::vec(operation.prop_map(Statement::from), 0..3).boxed();
    }
    let inside = any_block(depth + 1, &names, nested);
    let mut steps = vec![
        operation.boxed(),
        (value(), any_block(depth + 1, &more, nested))
            .prop_map(move |(count, body)| Step::Loop {
                variable: name(depth + 1),
                count,
                body,
            })
            .boxed(),
        (value(), inside.clone(), inside)
            .prop_map(|(condition, then, otherwise)| Step::If {
                condition,
                then,
                otherwise,
            })
            .boxed(),
    ];
    if !nested {
        let body = any_block(depth + 1, &names, true);
        steps.push(body.prop_map(Step::Together).boxed());
    }
    let step = prop::strategy::Union::new(steps);
    let named = (
        value(),
        prop::collection::vec(step.prop_map(Statement::from), 0..4),
    );
    named
        .prop_map(move |(value, mut body)| {
            // The next deeper name is free only at the end of the block.
            if depth == 2 && body.len() == 1 {
                let name = name(4);
                body.push(Step::Let { name, value }.into());
            }
            body
        })
        .boxed()
}

fn any_program() -> impl Strategy<Value = Program> {
    let parameter = (
        any_expression(vec![name(0)]),
        any_block(0, &[name(0)], false),
    );
    (prop::option::of(1_u32..9), 1_u16..4, 1_u16..4, parameter).prop_map(
        |(ranks, cpus, nics, (value, body))| {
            let value = match value {
                Expression::Number(number) => Expression::Number(number),
                _ => Expression::Ranks,
            };
            let (name, line) = (name(0), None);
            Program {
                ranks,
                cpus,
                nics,
                parameters: vec![Parameter { name, value, line }],
                body,
            }
        },
    )
}

/// A program that a rank can execute: every number is in range.
#[derive(Clone, Debug)]
enum Piece {
    /// To a neighbour at this distance, and from the one as far on the other side; alone or
    /// together.
    Exchange(u32, u64, u32, bool, bool),
    /// To and from any rank: not all of these finish.
    Send(u32, u64, u32),
    Recv(Option<u32>, Option<u32>),
    Calc(u64),
    Loop(u32, Vec<Piece>),
    IfEven(Vec<Piece>, Vec<Piece>),
    Together(Vec<Piece>),
}

fn pieces(depth: u32) -> BoxedStrategy<Vec<Piece>> {
    let any = || prop::bool::weighted(0.2);
    let exchange = (0_u32..4, 0_u64..12, 0_u32..2, any(), any())
        .prop_map(|(far, bytes, tag, source, tags)| Piece::Exchange(far, bytes, tag, source, tags));
    let calc = (0_u64..9).prop_map(Piece::Calc);
    let send = (0_u32..4, 0_u64..12, 0_u32..2).prop_map(|(to, n, tag)| Piece::Send(to, n, tag));
    let recv = (prop::option::of(0_u32..4), prop::option::of(0_u32..2))
        .prop_map(|(from, tag)| Piece::Recv(from, tag));
    let leaf = prop_oneof![12 => exchange, 6 => calc, 1 => send, 1 => recv];
    if depth == 0 {
        return prop::collection::vec(leaf, 1..4).boxed();
    }
    let inner = pieces(depth - 1);
    let piece = prop_oneof![
        4 => leaf,
        1 => (0_u32..4, inner.clone()).prop_map(|(count, body)| Piece::Loop(count, body)),
        1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Piece::IfEven(a, b)),
        2 => inner.prop_map(Piece::Together),
    ];
    prop::collection::vec(piece, 1..4).boxed()
}

/// Text of pieces; `units` is the number of CPUs and NICs, which vary from piece to piece.
fn text_of(pieces: &[Piece], units: u32, together: bool, counter: &mut u32) -> String {
    let mut text = String::new();
    for piece in pieces {
        *counter += 1;
        let number = *counter;
        let unit = |salt: u32| number.wrapping_mul(7 + salt) / 3 % units;
        let cpu = format!("cpu {}", unit(1));
        let places = format!("{cpu} nic {}", unit(2));
        text += &match piece {
            Piece::Exchange(far, bytes, tag, any_source, any_tag) => {
                let (from, tagged) = (
                    if *any_source {
                        "any".to_owned()
                    } else {
                        format!("(rank - {far}) % ranks")
                    },
                    if *any_tag {
                        "any".to_owned()
                    } else {
                        tag.to_string()
                    },
                );
                let both = format!(
                    "send {bytes} to (rank + {far}) % ranks tag {tag} {places}\n\
                     recv {bytes} from {from} tag {tagged} {places}\n"
                );
                match together {
                    true => both,
                    false => format!("together {{\n{both}}}\n"),
                }
            }
            Piece::Send(to, bytes, tag) => {
                format!("send {bytes} to {to} % ranks tag {tag} {places}\n")
            }
            Piece::Recv(from, tag) => {
                let from = from.map_or("any".to_owned(), |from| format!("{from} % ranks"));
                let tag = tag.map_or("any".to_owned(), |tag| tag.to_string());
                format!("recv 9 from {from} tag {tag} {places}\n")
            }
            Piece::Calc(ns) => format!("calc {ns} + 3 * rank % 5 {cpu}\n"),
            Piece::Loop(count, body) => {
                let body = text_of(body, units, together, counter);
                format!(
                    "loop i{number} {count} {{\nlet x{number} = rank * i{number}\nif x{number} > 3 {{ calc x{number} % 4 {cpu} }}\n{body}}}\n"
                )
            }
            Piece::IfEven(then, otherwise) => {
                let then = text_of(then, units, together, counter);
                let otherwise = text_of(otherwise, units, together, counter);
                format!("if (rank + {number}) % 2 == 0 {{\n{then}}} else {{\n{otherwise}}}\n")
            }
            Piece::Together(body) if together => text_of(body, units, true, counter),
            Piece::Together(body) => {
                let body = text_of(body, units, true, counter);
                format!("together {{\n{body}}}\n")
            }
        };
    }
    text
}

fn bound(pieces: &[Piece], units: u32) -> Bound {
    let body = text_of(pieces, units, false, &mut 0);
    let text = format!("program 1\nranks 5\ncpus {units}\nnics {units}\n{body}");
    let program: Program = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
    program.bind(&Bindings::default()).unwrap()
}

/// Small parameters, so that many events coincide.
fn small_parameters() -> impl Strategy<Value = Parameters> {
    let per_byte = prop_oneof![Just("0"), Just("1"), Just("0.3")];
    (
        0_u64..6,
        0_u64..4,
        0_u64..4,
        per_byte.clone(),
        per_byte,
        0_u64..8,
    )
        .prop_map(|(latency, overhead, gap, g, o, rendezvous)| Parameters {
            latency: Nanos::from_nanos(latency),
            overhead: Nanos::from_nanos(overhead),
            gap: Nanos::from_nanos(gap),
            gap_per_byte: g.parse().unwrap(),
            overhead_per_byte: o.parse().unwrap(),
            rendezvous: Bytes::new(rendezvous),
        })
}

/// Once per period, each rank cannot run for a while.
#[derive(Clone, Copy)]
struct Ticks {
    period: u64,
    length: u64,
}

impl CpuTime for Ticks {
    fn end(&mut self, rank: u32, cpu: u8, start_ns: u64, work_ns: u64) -> u64 {
        let phase = u64::from(rank) * 3 + u64::from(cpu);
        let (mut now, mut left) = (start_ns, work_ns);
        while left > 0 {
            now += 1;
            left -= 1;
            if (now + phase) % self.period == 0 {
                now += self.length;
            }
        }
        now
    }
}

/// What both know about an operation.
fn known(all: &[Stuck]) -> Vec<(u32, u32, goal::Action)> {
    all.iter().map(|s| (s.rank, s.index, s.action)).collect()
}

fn agree(bound: &Bound, parameters: &Parameters, ticks: Option<Ticks>) {
    let schedule = bound.expand(100_000).unwrap();
    let (plain, lazy) = match ticks {
        None => (
            goal::simulate(&schedule, parameters),
            program::simulate(bound, parameters),
        ),
        Some(ticks) => (
            goal::simulate_with(&schedule, parameters, ticks),
            program::simulate_with(bound, parameters, ticks),
        ),
    };
    match (plain, lazy) {
        (Ok(plain), Ok(lazy)) => assert_eq!(plain, lazy),
        (Err(GoalError::Unfinished(plain)), Err(PlayError::Goal(GoalError::Unfinished(lazy)))) => {
            assert_eq!(known(&plain.receives), known(&lazy.receives));
            assert_eq!(known(&plain.messages), known(&lazy.messages));
            assert_eq!(plain.receives_in_all, lazy.receives_in_all);
            assert_eq!(plain.messages_in_all, lazy.messages_in_all);
            for (plain, lazy) in plain.receives.iter().zip(&lazy.receives) {
                assert_eq!(plain.line, lazy.line);
            }
            for (plain, lazy) in plain.messages.iter().zip(&lazy.messages) {
                assert_eq!(plain.line, lazy.line);
            }
            if plain.waiting != Waiting::Operations(0) {
                assert_ne!(lazy.waiting, Waiting::Ranks(0));
            }
        }
        (plain, lazy) => panic!("{plain:?}\n{lazy:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_read_again(program in any_program()) {
        let text = program.to_string();
        let again: Program = text.parse().unwrap_or_else(|error| panic!("{text}\n{error}"));
        prop_assert_eq!(&again, &program, "{}", text);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn any_program_is_bound_and_expanded_or_refused(program in any_program()) {
        let bindings = Bindings { ranks: Some(3), ..Bindings::default() };
        let Ok(bound) = program.bind(&bindings) else {
            return Ok(());
        };
        // Most numbers are out of range; the others mean the same to both.
        if let Ok(schedule) = bound.expand(1_000) {
            let parameters = Parameters::default();
            let plain = goal::simulate(&schedule, &parameters);
            let lazy = program::simulate(&bound, &parameters);
            prop_assert_eq!(plain.is_ok(), lazy.is_ok());
        }
    }

    #[test]
    fn both_engines_agree_on_every_rank(pieces in pieces(2), parameters in small_parameters()) {
        agree(&bound(&pieces, 1), &parameters, None);
    }

    #[test]
    fn both_engines_agree_with_several_cpus_and_nics(
        pieces in pieces(2),
        parameters in small_parameters(),
        units in 2_u32..4,
    ) {
        agree(&bound(&pieces, units), &parameters, None);
    }

    #[test]
    fn both_engines_agree_on_disturbed_cpus(
        pieces in pieces(2),
        parameters in small_parameters(),
        units in 1_u32..3,
        period in 2_u64..9,
        length in 0_u64..5,
    ) {
        agree(&bound(&pieces, units), &parameters, Some(Ticks { period, length }));
    }

    #[test]
    fn damaged_texts_are_read_or_refused_with_a_line(
        pieces in pieces(2),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..4),
    ) {
        let mut text = format!("program 1\nranks 3\n{}", text_of(&pieces, 2, false, &mut 0)).into_bytes();
        for (place, byte, how) in changes {
            if text.is_empty() {
                break;
            }
            let at = place.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => drop(text.remove(at)),
                2 => text.insert(at, byte % 128),
                _ => text.truncate(at + 1),
            }
        }
        let lines = text.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
        if let Err(program::ReadProgramError::Program(error)) = Program::read(text.as_slice()) {
            let line = error.place.line.unwrap();
            prop_assert!((1..=lines).contains(&line), "{}", error);
        }
    }
}

#[test]
fn most_of_the_programs_above_come_to_their_end() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let ended = (0..300).filter(|_| {
        let pieces = pieces(2).new_tree(&mut runner).unwrap().current();
        program::simulate(&bound(&pieces, 1), &Parameters::default()).is_ok()
    });
    let ended = ended.count();
    assert!((120..290).contains(&ended), "{ended} of 300");
}

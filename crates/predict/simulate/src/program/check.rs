//! Checks that need no run: names, nesting, depth.

use super::error::{Place, Problem, ProgramError};
use super::names::Names;
use super::tree::{Expression, Program, Statement, Step};

/// As many ranks as a schedule can have.
pub(super) const MOST_RANKS: u32 = u32::MAX - 1;
/// Most CPUs, and most NICs, of a rank: their numbers have 8 bits.
pub(super) const MOST_UNITS: u16 = 256;

/// Deepest nesting of blocks.
pub(super) const MOST_BLOCKS: usize = 100;

/// Most operations of an expression, and deepest nesting of expressions.
pub(super) const MOST_OPERATIONS: usize = 200;

/// Reserved words.
const WORDS: [&str; 27] = [
    "program",
    "ranks",
    "cpus",
    "nics",
    "param",
    "let",
    "loop",
    "if",
    "else",
    "together",
    "send",
    "recv",
    "calc",
    "to",
    "from",
    "any",
    "tag",
    "cpu",
    "nic",
    "rank",
    "and",
    "or",
    "not",
    "min",
    "max",
    "log2floor",
    "log2ceil",
];

/// Whether a word is a name: letters, digits and `_`, no leading digit, not reserved.
pub(super) fn is_name(word: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = |c: char| of_word(c) && !c.is_ascii_digit();
    word.starts_with(begins) && word.chars().all(of_word) && !WORDS.contains(&word)
}

/// Checks a program.
pub(super) fn check(program: &Program) -> Result<(), ProgramError> {
    let nowhere = Place::default;
    if let Some(ranks) = program.ranks {
        in_range("number of ranks", ranks.into(), MOST_RANKS.into())
            .map_err(|problem| nowhere().error(problem))?;
    }
    for (what, count) in [
        ("number of CPUs", program.cpus),
        ("number of NICs", program.nics),
    ] {
        in_range(what, count.into(), MOST_UNITS.into())
            .map_err(|problem| nowhere().error(problem))?;
    }
    let mut checker = Checker {
        names: Names::new(),
        line: None,
        in_parameter: true,
        together: false,
        blocks: 0,
    };
    for parameter in &program.parameters {
        checker.line = parameter.line;
        checker.expression(&parameter.value, MOST_OPERATIONS)?;
        checker.define(&parameter.name)?;
    }
    checker.in_parameter = false;
    checker.block(&program.body)
}

/// Checks that a number is in 1..=`most`.
pub(super) fn in_range(what: &'static str, found: i64, most: i64) -> Result<(), Problem> {
    match (1..=most).contains(&found) {
        true => Ok(()),
        false => Err(Problem::OutOfRange {
            what,
            found,
            least: 1,
            most,
        }),
    }
}

struct Checker<'a> {
    /// The names in scope, with the lines of their definitions.
    names: Names<&'a str, Option<u32>>,
    line: Option<u32>,
    in_parameter: bool,
    together: bool,
    blocks: usize,
}

impl<'a> Checker<'a> {
    fn refuse<T>(&self, problem: Problem) -> Result<T, ProgramError> {
        Err(Place::line(self.line).error(problem))
    }

    fn define(&mut self, name: &'a str) -> Result<(), ProgramError> {
        if !is_name(name) {
            return self.refuse(Problem::NoName(name.to_owned()));
        }
        if let Some(first) = self.names.get(name) {
            let name = name.to_owned();
            return self.refuse(Problem::Redefined { name, first });
        }
        self.names.define(name, self.line);
        Ok(())
    }

    fn block(&mut self, body: &'a [Statement]) -> Result<(), ProgramError> {
        let (what, most) = ("a nesting of blocks", MOST_BLOCKS);
        if self.blocks > most {
            return self.refuse(Problem::TooDeep { what, most });
        }
        let before = self.names.len();
        self.blocks += 1;
        for statement in body {
            self.line = statement.line;
            self.step(&statement.step)?;
        }
        self.blocks -= 1;
        self.names.truncate(before);
        Ok(())
    }

    fn step(&mut self, step: &'a Step) -> Result<(), ProgramError> {
        match step {
            Step::Let { name, value } => {
                self.value(value)?;
                self.define(name)
            }
            Step::Loop {
                variable,
                count,
                body,
            } => {
                self.value(count)?;
                let before = self.names.len();
                self.define(variable)?;
                self.block(body)?;
                self.names.truncate(before);
                Ok(())
            }
            Step::If {
                condition,
                then,
                otherwise,
            } => {
                self.value(condition)?;
                self.block(then)?;
                self.block(otherwise)
            }
            Step::Together(body) => {
                if self.together {
                    return self.refuse(Problem::Nested);
                }
                self.together = true;
                self.block(body)?;
                self.together = false;
                Ok(())
            }
            Step::Send {
                bytes,
                to,
                tag,
                cpu,
                nic,
            } => self.values(&[bytes, to, tag, cpu, nic]),
            Step::Recv {
                bytes,
                from,
                tag,
                cpu,
                nic,
            } => {
                self.values(&[bytes, cpu, nic])?;
                for value in [from, tag].into_iter().flatten() {
                    self.value(value)?;
                }
                Ok(())
            }
            Step::Calc { ns, cpu } => self.values(&[ns, cpu]),
        }
    }

    fn values(&self, all: &[&Expression]) -> Result<(), ProgramError> {
        all.iter().try_for_each(|value| self.value(value))
    }

    fn value(&self, expression: &Expression) -> Result<(), ProgramError> {
        self.expression(expression, MOST_OPERATIONS)
    }

    /// Checks an expression nested at most `depth` levels deep.
    fn expression(&self, expression: &Expression, depth: usize) -> Result<(), ProgramError> {
        let Some(inside) = depth.checked_sub(1) else {
            let (what, most) = ("expressions within each other", MOST_OPERATIONS);
            return self.refuse(Problem::TooDeep { what, most });
        };
        match expression {
            Expression::Rank if self.in_parameter => self.refuse(Problem::RankInParameter),
            Expression::Number(_) | Expression::Rank | Expression::Ranks => Ok(()),
            Expression::Name(name) if self.names.get(name).is_some() => Ok(()),
            Expression::Name(name) => self.refuse(Problem::UnknownName(name.clone())),
            Expression::Unary(_, of) => self.expression(of, inside),
            Expression::Binary(_, left, right) => {
                self.expression(left, inside)?;
                self.expression(right, inside)
            }
        }
    }
}

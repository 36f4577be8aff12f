//! Writes the text form; reading it back gives an equal program.

use super::tree::{Binary, Expression, Program, Statement, Step, Unary, binding};
use std::fmt;

/// Indentation of the statements of a block.
const INDENT: usize = 2;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program 1")?;
        if let Some(ranks) = self.ranks {
            writeln!(f, "ranks {ranks}")?;
        }
        for (what, count) in [("cpus", self.cpus), ("nics", self.nics)] {
            if count != 1 {
                writeln!(f, "{what} {count}")?;
            }
        }
        for parameter in &self.parameters {
            writeln!(f, "param {} = {}", parameter.name, parameter.value)?;
        }
        block(f, &self.body, 0)
    }
}

fn block(f: &mut fmt::Formatter<'_>, body: &[Statement], indent: usize) -> fmt::Result {
    for statement in body {
        write!(f, "{:indent$}", "")?;
        step(f, &statement.step, indent)?;
        writeln!(f)?;
    }
    Ok(())
}

/// A block with its braces.
fn braces(f: &mut fmt::Formatter<'_>, body: &[Statement], indent: usize) -> fmt::Result {
    writeln!(f, " {{")?;
    block(f, body, indent + INDENT)?;
    write!(f, "{:indent$}}}", "")
}

fn step(f: &mut fmt::Formatter<'_>, step: &Step, indent: usize) -> fmt::Result {
    match step {
        Step::Let { name, value } => write!(f, "let {name} = {value}"),
        Step::Loop {
            variable,
            count,
            body,
        } => {
            write!(f, "loop {variable} {count}")?;
            braces(f, body, indent)
        }
        Step::If { .. } => condition(f, step, indent),
        Step::Together(body) => {
            write!(f, "together")?;
            braces(f, body, indent)
        }
        Step::Send {
            bytes,
            to,
            tag,
            cpu,
            nic,
        } => {
            write!(f, "send {}", Length(bytes))?;
            write!(f, " to {to}")?;
            attributes(f, &[("tag", tag), ("cpu", cpu), ("nic", nic)])
        }
        Step::Recv {
            bytes,
            from,
            tag,
            cpu,
            nic,
        } => {
            write!(f, "recv {} from ", Length(bytes))?;
            match from {
                Some(from) => write!(f, "{from}")?,
                None => write!(f, "any")?,
            }
            match tag {
                Some(tag) => attributes(f, &[("tag", tag)])?,
                None => write!(f, " tag any")?,
            }
            attributes(f, &[("cpu", cpu), ("nic", nic)])
        }
        Step::Calc { ns, cpu } => {
            write!(f, "calc {ns}")?;
            attributes(f, &[("cpu", cpu)])
        }
    }
}

/// Keeps a chain of conditions at one level.
fn condition(f: &mut fmt::Formatter<'_>, mut step: &Step, indent: usize) -> fmt::Result {
    while let Step::If {
        condition,
        then,
        otherwise,
    } = step
    {
        write!(f, "if {condition}")?;
        braces(f, then, indent)?;
        match otherwise.as_slice() {
            [] => break,
            [next] if matches!(next.step, Step::If { .. }) => {
                write!(f, " else ")?;
                step = &next.step;
            }
            several => {
                write!(f, " else")?;
                return braces(f, several, indent);
            }
        }
    }
    Ok(())
}

/// Writes the attributes that are not 0.
fn attributes(f: &mut fmt::Formatter<'_>, all: &[(&str, &Expression)]) -> fmt::Result {
    for (name, value) in all {
        if **value != Expression::Number(0) {
            write!(f, " {name} {value}")?;
        }
    }
    Ok(())
}

/// A number of bytes with its unit.
struct Length<'a>(&'a Expression);

impl fmt::Display for Length<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expression::Number(_) => write!(f, "{}b", self.0),
            _ => write!(f, "{}", self.0),
        }
    }
}

/// The sign or word of an operator.
pub(super) fn sign(operator: Binary) -> &'static str {
    match operator {
        Binary::Or => "or",
        Binary::And => "and",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::BitOr => "|",
        Binary::BitXor => "^",
        Binary::BitAnd => "&",
        Binary::ShiftLeft => "<<",
        Binary::ShiftRight => ">>",
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Remainder => "%",
        Binary::Minimum => "min",
        Binary::Maximum => "max",
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Rank => write!(f, "rank"),
            Expression::Ranks => write!(f, "ranks"),
            Expression::Name(name) => write!(f, "{name}"),
            Expression::Unary(operator, of) => match operator {
                // `-5` is a number.
                Unary::Negative if matches!(**of, Expression::Number(_)) => write!(f, "-({of})"),
                Unary::Negative => write!(f, "-{}", Within(of, binding::SIGN)),
                Unary::Not => write!(f, "not {}", Within(of, binding::NOT)),
                Unary::Log2Floor => write!(f, "log2floor({of})"),
                Unary::Log2Ceil => write!(f, "log2ceil({of})"),
            },
            Expression::Binary(operator @ (Binary::Minimum | Binary::Maximum), left, right) => {
                write!(f, "{}({left}, {right})", sign(*operator))
            }
            Expression::Binary(operator, left, right) => {
                let tightness = binding::of_binary(*operator);
                // Comparisons make no chains.
                let before = tightness + u8::from(tightness == binding::COMPARISON);
                let (left, right) = (Within(left, before), Within(right, tightness + 1));
                write!(f, "{left} {} {right}", sign(*operator))
            }
        }
    }
}

/// An expression, in brackets if it binds less tightly.
struct Within<'a>(&'a Expression, u8);

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match binding::of(self.0) < self.1 {
            true => write!(f, "({})", self.0),
            false => write!(f, "{}", self.0),
        }
    }
}

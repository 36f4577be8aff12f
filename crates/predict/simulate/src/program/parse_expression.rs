//! Expressions of the text form.
//!
//! ```text
//! loosest    or
//!            and
//!            not a
//!            ==  !=  <  <=  >  >=     one of them, not a chain
//!            |
//!            ^
//!            &
//!            <<  >>
//!            +  -
//!            *  /  %
//!            -a
//! tightest   NUMBER  NAME  rank  ranks  (a)  min(a, b)  max(a, b)  log2floor(a)  log2ceil(a)
//! ```

use super::check::{MOST_OPERATIONS, is_name};
use super::error::{Problem, ProgramError};
use super::lex::Token;
use super::parse::Parser;
use super::tree::{Binary, Expression, Unary, binding};

impl Parser<'_> {
    pub fn expression(&mut self) -> Result<Expression, ProgramError> {
        self.operations = 0;
        self.bound(binding::LOOSEST)
    }

    fn count(&mut self) -> Result<(), ProgramError> {
        self.operations += 1;
        if self.operations > MOST_OPERATIONS {
            let (what, most) = ("an expression", MOST_OPERATIONS);
            return self.lexer.error(Problem::TooDeep { what, most });
        }
        Ok(())
    }

    /// Reads an expression that binds at least this tightly.
    fn bound(&mut self, least: u8) -> Result<Expression, ProgramError> {
        let mut left = self.signed(least)?;
        loop {
            let Some(operator) = self.operator() else {
                return Ok(left);
            };
            let tightness = binding::of_binary(operator);
            if tightness < least {
                return Ok(left);
            }
            self.count()?;
            self.lexer.advance()?;
            let right = self.bound(tightness + 1)?;
            left = Expression::binary(operator, left, right);
            if tightness == binding::COMPARISON && self.operator().is_some_and(is_comparison) {
                return self
                    .lexer
                    .unexpected("`and`, `or` or the end of the comparison");
            }
        }
    }

    /// The current operator, which is not consumed.
    fn operator(&self) -> Option<Binary> {
        Some(match self.lexer.token {
            Token::Word("or") => Binary::Or,
            Token::Word("and") => Binary::And,
            Token::Sign(sign) => match sign {
                "==" => Binary::Equal,
                "!=" => Binary::NotEqual,
                "<" => Binary::Less,
                "<=" => Binary::LessOrEqual,
                ">" => Binary::Greater,
                ">=" => Binary::GreaterOrEqual,
                "|" => Binary::BitOr,
                "^" => Binary::BitXor,
                "&" => Binary::BitAnd,
                "<<" => Binary::ShiftLeft,
                ">>" => Binary::ShiftRight,
                "+" => Binary::Add,
                "-" => Binary::Subtract,
                "*" => Binary::Multiply,
                "/" => Binary::Divide,
                "%" => Binary::Remainder,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Reads an operand with its signs; `not` is accepted only where an operator that loose is
    /// allowed.
    fn signed(&mut self, least: u8) -> Result<Expression, ProgramError> {
        if least <= binding::NOT && self.take_word("not")? {
            self.count()?;
            let of = self.bound(binding::NOT)?;
            return Ok(Expression::unary(Unary::Not, of));
        }
        if !self.take_sign("-")? {
            return self.value();
        }
        self.count()?;
        match self.lexer.token {
            // At most 2^63.
            Token::Number(number) => {
                self.lexer.advance()?;
                Ok(Expression::Number((number as i64).wrapping_neg()))
            }
            _ => Ok(Expression::unary(
                Unary::Negative,
                self.signed(binding::SIGN)?,
            )),
        }
    }

    fn value(&mut self) -> Result<Expression, ProgramError> {
        match self.lexer.token {
            Token::Number(number) => {
                let Ok(number) = i64::try_from(number) else {
                    return self.lexer.error(Problem::HugeNumber);
                };
                self.lexer.advance()?;
                Ok(Expression::Number(number))
            }
            Token::Sign("(") => {
                self.count()?;
                self.lexer.advance()?;
                let inside = self.bound(binding::LOOSEST)?;
                self.expect_sign(")")?;
                Ok(inside)
            }
            Token::Word(word) => self.named(word),
            _ => self.lexer.unexpected(WANTED),
        }
    }

    fn named(&mut self, word: &str) -> Result<Expression, ProgramError> {
        let unary = match word {
            "log2floor" => Some(Unary::Log2Floor),
            "log2ceil" => Some(Unary::Log2Ceil),
            _ => None,
        };
        let binary = match word {
            "min" => Some(Binary::Minimum),
            "max" => Some(Binary::Maximum),
            _ => None,
        };
        let plain = match word {
            "rank" => Some(Expression::Rank),
            "ranks" => Some(Expression::Ranks),
            _ => is_name(word).then(|| Expression::name(word)),
        };
        if unary.is_none() && binary.is_none() && plain.is_none() {
            return self.lexer.unexpected(WANTED);
        }
        self.lexer.advance()?;
        if let Some(plain) = plain {
            return Ok(plain);
        }
        self.count()?;
        self.expect_sign("(")?;
        let first = self.bound(binding::LOOSEST)?;
        let made = match (unary, binary) {
            (Some(operator), _) => Expression::unary(operator, first),
            (None, Some(operator)) => {
                self.expect_sign(",")?;
                Expression::binary(operator, first, self.bound(binding::LOOSEST)?)
            }
            (None, None) => first,
        };
        self.expect_sign(")")?;
        Ok(made)
    }
}

const WANTED: &str = "a number, a name or `(`";

fn is_comparison(operator: Binary) -> bool {
    binding::of_binary(operator) == binding::COMPARISON
}

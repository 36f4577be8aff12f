//! Reads the text form. Blanks and line ends only separate words.
//!
//! ```text
//! program    = "program" "1" { declaration } { statement }
//! declaration = "ranks" NUMBER | "cpus" NUMBER | "nics" NUMBER | "param" NAME "=" expression
//! statement  = "let" NAME "=" expression
//!            | "loop" NAME expression block
//!            | "if" expression block [ "else" ( block | if-statement ) ]
//!            | "together" block
//!            | "send" expression "to" expression [ "tag" expression ] places
//!            | "recv" expression "from" ( expression | "any" ) [ "tag" ( expression | "any" ) ] places
//!            | "calc" expression [ "cpu" expression ]
//! places     = [ "cpu" expression ] [ "nic" expression ]
//! block      = "{" { statement } "}"
//! ```

use super::check::{self, MOST_BLOCKS};
use super::error::{Problem, ProgramError, ReadProgramError};
use super::lex::{Lexer, Token};
use super::tree::{Expression, Parameter, Program, Statement, Step};
use std::io::Read;
use std::str::FromStr;

/// The first word of a program.
pub(super) const FIRST_WORD: &str = "program";

impl Program {
    /// Reads a program. It is held in memory as a whole.
    pub fn read(mut input: impl Read) -> Result<Self, ReadProgramError> {
        let mut text = String::new();
        input.read_to_string(&mut text)?;
        Ok(text.parse()?)
    }

    /// Whether a file that starts like this is meant to be a program.
    pub fn begins(head: &[u8]) -> bool {
        let word = FIRST_WORD.as_bytes();
        let next = head.get(word.len());
        head.starts_with(word) && next.is_none_or(u8::is_ascii_whitespace)
    }
}

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser {
            lexer: Lexer::new(text)?,
            blocks: 0,
            operations: 0,
        };
        let program = parser.program()?;
        check::check(&program)?;
        Ok(program)
    }
}

pub(super) struct Parser<'a> {
    pub lexer: Lexer<'a>,
    /// Number of blocks around the current token.
    blocks: usize,
    /// Number of operations of the current expression, with its brackets.
    pub operations: usize,
}

impl Parser<'_> {
    pub fn is_word(&self, word: &str) -> bool {
        self.lexer.token == Token::Word(word)
    }

    /// Consumes this word if it comes next.
    pub fn take_word(&mut self, word: &str) -> Result<bool, ProgramError> {
        let there = self.is_word(word);
        if there {
            self.lexer.advance()?;
        }
        Ok(there)
    }

    pub fn take_sign(&mut self, sign: &str) -> Result<bool, ProgramError> {
        let there = matches!(self.lexer.token, Token::Sign(s) if s == sign);
        if there {
            self.lexer.advance()?;
        }
        Ok(there)
    }

    fn expect_word(&mut self, word: &'static str) -> Result<(), ProgramError> {
        match self.take_word(word)? {
            true => Ok(()),
            false => self.lexer.unexpected(&format!("`{word}`")),
        }
    }

    pub fn expect_sign(&mut self, sign: &'static str) -> Result<(), ProgramError> {
        match self.take_sign(sign)? {
            true => Ok(()),
            false => self.lexer.unexpected(&format!("`{sign}`")),
        }
    }

    /// Reads a plain number, not an expression, in this range.
    fn number(&mut self, what: &'static str, least: i64, most: i64) -> Result<i64, ProgramError> {
        let Token::Number(found) = self.lexer.token else {
            return self.lexer.unexpected(what);
        };
        let found = i64::try_from(found).unwrap_or(i64::MAX);
        if !(least..=most).contains(&found) {
            return self.lexer.error(Problem::OutOfRange {
                what,
                found,
                least,
                most,
            });
        }
        self.lexer.advance()?;
        Ok(found)
    }

    fn name(&mut self) -> Result<String, ProgramError> {
        let Token::Word(word) = self.lexer.token else {
            return self.lexer.unexpected("a name");
        };
        if !check::is_name(word) {
            return self.lexer.error(Problem::NoName(word.to_owned()));
        }
        self.lexer.advance()?;
        Ok(word.to_owned())
    }

    fn program(&mut self) -> Result<Program, ProgramError> {
        self.expect_word(FIRST_WORD)?;
        if let Token::Number(version) = self.lexer.token {
            if version != 1 {
                let version = i64::try_from(version).unwrap_or(i64::MAX);
                return self.lexer.error(Problem::Version(version));
            }
        }
        self.number("the version, 1", 1, 1)?;
        let (mut ranks, mut cpus, mut nics) = (None, None, None);
        let mut parameters = Vec::new();
        loop {
            let line = Some(self.lexer.line);
            if self.is_word("ranks") {
                self.once(
                    "ranks",
                    "number of ranks",
                    &mut ranks,
                    i64::from(check::MOST_RANKS),
                )?;
            } else if self.is_word("cpus") {
                self.once(
                    "cpus",
                    "number of CPUs",
                    &mut cpus,
                    check::MOST_UNITS.into(),
                )?;
            } else if self.is_word("nics") {
                self.once(
                    "nics",
                    "number of NICs",
                    &mut nics,
                    check::MOST_UNITS.into(),
                )?;
            } else if self.take_word("param")? {
                let name = self.name()?;
                self.expect_sign("=")?;
                let value = self.expression()?;
                parameters.push(Parameter { name, value, line });
            } else {
                break;
            }
        }
        let body = self.statements()?;
        match self.lexer.token {
            Token::End => {}
            _ => return self.lexer.unexpected("a statement or the end of the file"),
        }
        // In range.
        Ok(Program {
            ranks: ranks.map(|number| number as u32),
            cpus: cpus.unwrap_or(1) as u16,
            nics: nics.unwrap_or(1) as u16,
            parameters,
            body,
        })
    }

    /// Reads a declaration with a number of at least 1, which is allowed only once.
    fn once(
        &mut self,
        word: &'static str,
        what: &'static str,
        known: &mut Option<i64>,
        most: i64,
    ) -> Result<(), ProgramError> {
        if known.is_some() {
            return self.lexer.error(Problem::SaidTwice(word));
        }
        self.lexer.advance()?;
        *known = Some(self.number(what, 1, most)?);
        Ok(())
    }

    fn block(&mut self) -> Result<Vec<Statement>, ProgramError> {
        self.expect_sign("{")?;
        self.blocks += 1;
        if self.blocks > MOST_BLOCKS {
            let (what, most) = ("a nesting of blocks", MOST_BLOCKS);
            return self.lexer.error(Problem::TooDeep { what, most });
        }
        let body = self.statements()?;
        self.blocks -= 1;
        match self.take_sign("}")? {
            true => Ok(body),
            false => self.lexer.unexpected("a statement or `}`"),
        }
    }

    fn statements(&mut self) -> Result<Vec<Statement>, ProgramError> {
        let mut all = Vec::new();
        while let Some(statement) = self.statement()? {
            all.push(statement);
        }
        Ok(all)
    }

    /// Reads a statement, if one starts here.
    fn statement(&mut self) -> Result<Option<Statement>, ProgramError> {
        let line = Some(self.lexer.line);
        let Token::Word(word) = self.lexer.token else {
            return Ok(None);
        };
        let step = match word {
            "let" | "loop" | "if" | "together" | "send" | "recv" | "calc" => {
                self.lexer.advance()?;
                self.step(word)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Statement { step, line }))
    }

    /// Reads a statement after its first word.
    fn step(&mut self, word: &str) -> Result<Step, ProgramError> {
        Ok(match word {
            "let" => {
                let name = self.name()?;
                self.expect_sign("=")?;
                let value = self.expression()?;
                Step::Let { name, value }
            }
            "loop" => Step::Loop {
                variable: self.name()?,
                count: self.expression()?,
                body: self.block()?,
            },
            "if" => self.condition()?,
            "together" => Step::Together(self.block()?),
            "send" => self.send()?,
            "recv" => self.recv()?,
            _ => Step::Calc {
                ns: self.expression()?,
                cpu: self.unit("cpu")?.unwrap_or(Expression::Number(0)),
            },
        })
    }

    /// Reads the rest of an `if`.
    fn condition(&mut self) -> Result<Step, ProgramError> {
        let condition = self.expression()?;
        let then = self.block()?;
        let mut otherwise = Vec::new();
        if self.take_word("else")? {
            let line = Some(self.lexer.line);
            if self.take_word("if")? {
                self.blocks += 1;
                if self.blocks > MOST_BLOCKS {
                    let (what, most) = ("a nesting of blocks", MOST_BLOCKS);
                    return self.lexer.error(Problem::TooDeep { what, most });
                }
                let step = self.condition()?;
                self.blocks -= 1;
                otherwise.push(Statement { step, line });
            } else {
                otherwise = self.block()?;
            }
        }
        Ok(Step::If {
            condition,
            then,
            otherwise,
        })
    }

    /// Reads an attribute with a number of its own.
    fn unit(&mut self, word: &str) -> Result<Option<Expression>, ProgramError> {
        Ok(match self.take_word(word)? {
            true => Some(self.expression()?),
            false => None,
        })
    }

    fn send(&mut self) -> Result<Step, ProgramError> {
        let bytes = self.expression()?;
        self.expect_word("to")?;
        let to = self.expression()?;
        let zero = || Expression::Number(0);
        Ok(Step::Send {
            bytes,
            to,
            tag: self.unit("tag")?.unwrap_or_else(zero),
            cpu: self.unit("cpu")?.unwrap_or_else(zero),
            nic: self.unit("nic")?.unwrap_or_else(zero),
        })
    }

    fn recv(&mut self) -> Result<Step, ProgramError> {
        let bytes = self.expression()?;
        self.expect_word("from")?;
        let from = match self.take_word("any")? {
            true => None,
            false => Some(self.expression()?),
        };
        let tag = match self.take_word("tag")? {
            true if self.take_word("any")? => None,
            true => Some(self.expression()?),
            false => Some(Expression::Number(0)),
        };
        let zero = || Expression::Number(0);
        Ok(Step::Recv {
            bytes,
            from,
            tag,
            cpu: self.unit("cpu")?.unwrap_or_else(zero),
            nic: self.unit("nic")?.unwrap_or_else(zero),
        })
    }
}

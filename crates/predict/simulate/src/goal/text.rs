//! The text form, read as a stream: memory holds the schedule, the labels of one rank, and 64 KiB
//! of text.
//!
//! Grammar, as LogGOPSim's txt2bin reads it, with comments allowed at the end of lines too:
//!
//! ```text
//! num_ranks N
//! rank R {
//! [label:] send BYTESb to RANK [tag T] [cpu C] [nic N]
//! [label:] recv BYTESb from RANK|-1 [tag T|-1] [cpu C] [nic N]
//! [label:] calc NS [cpu C]
//! LABEL requires LABEL
//! LABEL irequires LABEL
//! }
//! ```

use super::build::{BuildError, OperationId, ScheduleBuilder};
use super::lex::{Lexer, Token};
use super::read_error::{ReadError, TextProblem};
use super::schedule::{ANY, Action, Operation, Schedule};
use std::collections::HashMap;
use std::io::Read;

/// Reads a text.
pub(super) fn read(input: &mut dyn Read) -> Result<Schedule, ReadError> {
    let mut lexer = Lexer::new(input);
    let token = skip_newlines(&mut lexer)?;
    if token != Token::Word || lexer.word != b"num_ranks" {
        return unexpected(&lexer, "`num_ranks`", token);
    }
    let ranks = number(&mut lexer, "number of ranks", u64::from(ANY) - 1)? as u32;
    let builder = match ScheduleBuilder::new(ranks) {
        Ok(builder) => builder,
        Err(error) => return lexer.error(error),
    };
    let mut reader = Reader {
        lexer,
        builder,
        labels: HashMap::new(),
        label: Vec::new(),
    };
    while reader.rank()? {}
    let Reader { lexer, builder, .. } = reader;
    builder.finish().or_else(|error| lexer.error(error))
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    builder: ScheduleBuilder,
    /// Labels of the current rank.
    labels: HashMap<Box<[u8]>, OperationId>,
    /// The label at the beginning of the line.
    label: Vec<u8>,
}

fn unexpected<T>(lexer: &Lexer<'_>, expected: &'static str, found: Token) -> Result<T, ReadError> {
    let found = lexer.tell(found);
    lexer.error(TextProblem::Unexpected { expected, found })
}

fn skip_newlines(lexer: &mut Lexer<'_>) -> Result<Token, ReadError> {
    loop {
        let token = lexer.next()?;
        if token != Token::Newline {
            return Ok(token);
        }
    }
}

/// A number of at most `most`.
fn number(lexer: &mut Lexer<'_>, what: &'static str, most: u64) -> Result<u64, ReadError> {
    let token = lexer.next()?;
    number_of(lexer, token, what, most)
}

fn number_of(
    lexer: &Lexer<'_>,
    token: Token,
    what: &'static str,
    most: u64,
) -> Result<u64, ReadError> {
    match token {
        Token::Number(value) if value <= most => Ok(value),
        Token::Number(_) | Token::HugeNumber => {
            let found = match token {
                Token::HugeNumber => "of more than 64 bits".to_owned(),
                _ => lexer.tell(token),
            };
            lexer.error(TextProblem::OutOfRange { what, found, most })
        }
        _ => unexpected(lexer, what, token),
    }
}

impl Reader<'_> {
    /// Reads one rank; false at the end of the text.
    fn rank(&mut self) -> Result<bool, ReadError> {
        let token = skip_newlines(&mut self.lexer)?;
        match token {
            Token::End => return Ok(false),
            Token::Word if self.lexer.word == b"rank" => {}
            _ => return unexpected(&self.lexer, "`rank`", token),
        }
        let found = number(&mut self.lexer, "rank", u64::MAX)?;
        let expected = self.builder.rank();
        if found != u64::from(expected) {
            let problem = TextProblem::RankOrder { expected, found };
            return self.lexer.error(problem);
        }
        let token = self.lexer.next()?;
        if token != Token::Open {
            return unexpected(&self.lexer, "`{`", token);
        }
        self.labels.clear();
        while self.line()? {}
        match self.builder.end_rank() {
            Ok(()) => Ok(true),
            Err(error) => self.refuse_rank(error),
        }
    }

    /// The error of a rank as a whole. A cycle is reported by its labels, in the line of its first
    /// operation.
    fn refuse_rank<T>(&self, error: BuildError) -> Result<T, ReadError> {
        let BuildError::Circle(mut circle) = error else {
            return self.lexer.error(error);
        };
        let mut names = HashMap::new();
        for (label, id) in &self.labels {
            names.insert(id.index(), label);
        }
        let name = |index| {
            names
                .get(index)
                .map(|n| String::from_utf8_lossy(n).into_owned())
        };
        // Every operation in a dependency has a label.
        circle.labels = circle.operations.iter().filter_map(name).collect();
        Err(ReadError::Text {
            line: circle
                .lines
                .first()
                .map_or(self.lexer.line, |&line| u64::from(line)),
            problem: BuildError::Circle(circle).into(),
        })
    }

    /// Reads one line of a rank; false after its closing brace.
    fn line(&mut self) -> Result<bool, ReadError> {
        const WANTED: &str = "an operation, a label or `}`";
        let token = self.lexer.next()?;
        match token {
            Token::Newline => return Ok(true),
            Token::Close => return Ok(false),
            Token::Word => {}
            _ => return unexpected(&self.lexer, WANTED, token),
        }
        if self.operation(false)? {
            return Ok(true);
        }
        std::mem::swap(&mut self.label, &mut self.lexer.word);
        let token = self.lexer.next()?;
        let word = self.lexer.word.as_slice();
        match token {
            Token::Colon => {
                const WANTED: &str = "`send`, `recv` or `calc`";
                let token = self.lexer.next()?;
                if token != Token::Word || !self.operation(true)? {
                    return unexpected(&self.lexer, WANTED, token);
                }
            }
            Token::Word if word == b"requires" => self.dependency(ScheduleBuilder::requires)?,
            Token::Word if word == b"irequires" => self.dependency(ScheduleBuilder::irequires)?,
            _ => return unexpected(&self.lexer, "`:`, `requires` or `irequires`", token),
        }
        Ok(true)
    }

    fn dependency(
        &mut self,
        add: fn(&mut ScheduleBuilder, OperationId, OperationId) -> Result<(), BuildError>,
    ) -> Result<(), ReadError> {
        let later = self.find(&self.label)?;
        let token = self.lexer.next()?;
        if token != Token::Word {
            return unexpected(&self.lexer, "a label", token);
        }
        let earlier = self.find(&self.lexer.word)?;
        add(&mut self.builder, later, earlier).or_else(|error| self.lexer.error(error))?;
        let token = self.lexer.next()?;
        self.end_of_line(token, "the end of the line")
    }

    fn find(&self, label: &[u8]) -> Result<OperationId, ReadError> {
        match self.labels.get(label) {
            Some(id) => Ok(*id),
            None => self.lexer.error(TextProblem::UnknownLabel {
                label: String::from_utf8_lossy(label).into_owned(),
                rank: self.builder.rank(),
            }),
        }
    }

    /// The operation that starts with the last word; false if it starts none.
    fn operation(&mut self, labelled: bool) -> Result<bool, ReadError> {
        let line = self.lexer.line;
        let (operation, token) = match self.lexer.word.as_slice() {
            b"send" => self.send()?,
            b"recv" => self.recv()?,
            b"calc" => self.calc()?,
            _ => return Ok(false),
        };
        self.end_of_line(
            token,
            "an attribute (tag, cpu, nic, in this order) or the end of the line",
        )?;
        // The line break still belongs to the same line.
        let place = u32::try_from(line).unwrap_or(u32::MAX);
        let id = self.builder.push_at(operation, place);
        let id = id.or_else(|error| self.lexer.error(error))?;
        if labelled {
            let label = self.label.as_slice();
            if let Some(&first) = self.labels.get(label) {
                return self.lexer.error(TextProblem::DuplicateLabel {
                    label: String::from_utf8_lossy(label).into_owned(),
                    rank: self.builder.rank(),
                    first: self.builder.line(first),
                });
            }
            self.labels.insert(label.into(), id);
        }
        Ok(true)
    }

    fn end_of_line(&self, token: Token, expected: &'static str) -> Result<(), ReadError> {
        match token {
            Token::Newline => Ok(()),
            _ => unexpected(&self.lexer, expected, token),
        }
    }

    fn expect_word(&mut self, wanted: &str, expected: &'static str) -> Result<(), ReadError> {
        let token = self.lexer.next()?;
        if token != Token::Word || self.lexer.word != wanted.as_bytes() {
            return unexpected(&self.lexer, expected, token);
        }
        Ok(())
    }

    fn bytes(&mut self) -> Result<u64, ReadError> {
        let bytes = number(&mut self.lexer, "number of bytes", u64::MAX)?;
        self.expect_word("b", "`b` behind the number of bytes")?;
        Ok(bytes)
    }

    /// A rank or tag after a word; `None` means any, where that is allowed.
    fn value(&mut self, what: &'static str, or_any: bool) -> Result<Option<u32>, ReadError> {
        match self.lexer.next()? {
            Token::Any if or_any => Ok(None),
            token => {
                let value = number_of(&self.lexer, token, what, u64::from(ANY) - 1)?;
                Ok(Some(value as u32))
            }
        }
    }

    fn send(&mut self) -> Result<(Operation, Token), ReadError> {
        let bytes = self.bytes()?;
        self.expect_word("to", "`to`")?;
        let to = self.value("rank", false)?.unwrap_or(ANY);
        let mut token = self.lexer.next()?;
        let mut tag = 0;
        if self.is(token, b"tag") {
            tag = self.value("tag", false)?.unwrap_or(ANY);
            token = self.lexer.next()?;
        }
        self.place(Action::Send { bytes, to, tag }, token)
    }

    fn recv(&mut self) -> Result<(Operation, Token), ReadError> {
        let bytes = self.bytes()?;
        self.expect_word("from", "`from`")?;
        let from = self.value("rank or -1", true)?;
        let mut token = self.lexer.next()?;
        let mut tag = Some(0);
        if self.is(token, b"tag") {
            tag = self.value("tag or -1", true)?;
            token = self.lexer.next()?;
        }
        self.place(Action::Recv { bytes, from, tag }, token)
    }

    fn calc(&mut self) -> Result<(Operation, Token), ReadError> {
        let ns = number(&mut self.lexer, "number of nanoseconds", u64::MAX)?;
        let token = self.lexer.next()?;
        self.cpu(Action::Calc { ns }.into(), token)
    }

    fn is(&self, token: Token, word: &[u8]) -> bool {
        token == Token::Word && self.lexer.word == word
    }

    /// CPU and NIC, if given.
    fn place(&mut self, action: Action, token: Token) -> Result<(Operation, Token), ReadError> {
        let (mut operation, mut token) = self.cpu(action.into(), token)?;
        if self.is(token, b"nic") {
            operation.nic = number(&mut self.lexer, "nic", 255)? as u8;
            token = self.lexer.next()?;
        }
        Ok((operation, token))
    }

    fn cpu(
        &mut self,
        mut operation: Operation,
        token: Token,
    ) -> Result<(Operation, Token), ReadError> {
        if !self.is(token, b"cpu") {
            return Ok((operation, token));
        }
        operation.cpu = number(&mut self.lexer, "cpu", 255)? as u8;
        Ok((operation, self.lexer.next()?))
    }
}

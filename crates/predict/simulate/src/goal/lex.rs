//! Splits a schedule's text into words, numbers and signs as it is read.

use super::read_error::{ReadError, TextProblem};
use std::io::{ErrorKind, Read};

/// Longest label or word allowed. The longest word of the language itself has nine characters.
const LONGEST_WORD: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Its characters are in [`Lexer::word`].
    Word,
    Number(u64),
    /// More than 64 bits.
    HugeNumber,
    /// `-1`.
    Any,
    Colon,
    Open,
    Close,
    Newline,
    /// A byte that is not part of the language.
    Stray(u8),
    End,
}

/// Not generic over its input: it is compiled here, with this crate's optimisation, and once.
pub(super) struct Lexer<'a> {
    input: &'a mut dyn Read,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    /// Line of the next byte, from 1.
    next_line: u64,
    /// Line of the last token.
    pub line: u64,
    /// Characters of the last word, ASCII.
    pub word: Vec<u8>,
}

impl<'a> Lexer<'a> {
    pub fn new(input: &'a mut dyn Read) -> Self {
        Lexer {
            input,
            buffer: vec![0; 1 << 16].into_boxed_slice(),
            at: 0,
            end: 0,
            next_line: 1,
            line: 1,
            word: Vec::new(),
        }
    }

    /// The next byte, without consuming it.
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        if self.at == self.end {
            return self.fill();
        }
        Ok(Some(self.buffer[self.at]))
    }

    #[cold]
    fn fill(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => {
                    (self.at, self.end) = (0, count);
                    return Ok(Some(self.buffer[0]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Consumes the byte that `peek` returned.
    #[inline]
    fn take(&mut self, byte: u8) {
        self.at += 1;
        self.next_line += u64::from(byte == b'\n');
    }

    /// An error in the line of the last token.
    pub fn error<T>(&self, problem: impl Into<TextProblem>) -> Result<T, ReadError> {
        Err(ReadError::Text {
            line: self.line,
            problem: problem.into(),
        })
    }

    pub fn next(&mut self) -> Result<Token, ReadError> {
        loop {
            let byte = self.peek()?;
            self.line = self.next_line;
            let Some(byte) = byte else {
                return Ok(Token::End);
            };
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' => return self.read_word(),
                b'0'..=b'9' => return self.number(),
                _ => self.take(byte),
            }
            match byte {
                b' ' | b'\t' | b'\r' => {}
                b'\n' => return Ok(Token::Newline),
                b':' => return Ok(Token::Colon),
                b'{' => return Ok(Token::Open),
                b'}' => return Ok(Token::Close),
                b'-' => return self.any(),
                b'/' => match self.peek()? {
                    Some(b'/') => self.skip_line()?,
                    Some(b'*') => self.skip_comment()?,
                    _ => return Ok(Token::Stray(byte)),
                },
                _ => return Ok(Token::Stray(byte)),
            }
        }
    }

    fn read_word(&mut self) -> Result<Token, ReadError> {
        self.word.clear();
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_alphanumeric() && byte != b'_' {
                break;
            }
            if self.word.len() == LONGEST_WORD {
                return self.error(TextProblem::LongWord(LONGEST_WORD));
            }
            self.take(byte);
            self.word.push(byte);
        }
        Ok(Token::Word)
    }

    fn number(&mut self) -> Result<Token, ReadError> {
        let mut value = Some(0_u64);
        while let Some(byte @ b'0'..=b'9') = self.peek()? {
            self.take(byte);
            let digit = u64::from(byte - b'0');
            value = value.and_then(|v| v.checked_mul(10)?.checked_add(digit));
        }
        Ok(value.map_or(Token::HugeNumber, Token::Number))
    }

    /// The token after a minus sign.
    fn any(&mut self) -> Result<Token, ReadError> {
        let one = match self.peek()? {
            Some(b'0'..=b'9') => self.number()? == Token::Number(1),
            _ => false,
        };
        Ok(if one { Token::Any } else { Token::Stray(b'-') })
    }

    /// Skips to the end of the line, which is not consumed.
    fn skip_line(&mut self) -> Result<(), ReadError> {
        while let Some(byte) = self.peek()? {
            if byte == b'\n' {
                break;
            }
            self.take(byte);
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), ReadError> {
        let mut before = 0;
        // `/*/` does not close the comment: the star that opens it is not the one that ends it.
        self.take(b'*');
        while let Some(byte) = self.peek()? {
            self.take(byte);
            if (before, byte) == (b'*', b'/') {
                return Ok(());
            }
            before = byte;
        }
        self.error(TextProblem::OpenComment)
    }

    /// Describes the token.
    pub fn tell(&self, token: Token) -> String {
        match token {
            Token::Word => format!("`{}`", String::from_utf8_lossy(&self.word)),
            Token::Number(value) => value.to_string(),
            Token::HugeNumber => "a number of more than 64 bits".to_owned(),
            Token::Any => "-1".to_owned(),
            Token::Colon => "`:`".to_owned(),
            Token::Open => "`{`".to_owned(),
            Token::Close => "`}`".to_owned(),
            Token::Newline => "the end of the line".to_owned(),
            Token::Stray(byte) if byte.is_ascii_graphic() => format!("`{}`", char::from(byte)),
            Token::Stray(byte) => format!("byte 0x{byte:02x}"),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(Token, u64)> {
        let mut text = text.as_bytes();
        let mut lexer = Lexer::new(&mut text);
        let mut seen = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            seen.push((token, lexer.line));
            if token == Token::End {
                return seen;
            }
        }
    }

    #[test]
    fn tokens_need_no_space_between_them_and_know_their_line() {
        use Token::*;
        let seen = all("ab:calc 5b{\r\n-1 // x : }\n/* a\n * b **/ } 18446744073709551616 -2");
        let wanted = [
            (Word, 1),
            (Colon, 1),
            (Word, 1),
            (Number(5), 1),
            (Word, 1),
            (Open, 1),
            (Newline, 1),
            (Any, 2),
            (Newline, 2),
            (Close, 4),
            (HugeNumber, 4),
            (Stray(b'-'), 4),
            (End, 4),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn a_comment_without_end_is_named_by_the_line_in_which_it_began() {
        let mut text = "\n\n/*/\n\n".as_bytes();
        let mut lexer = Lexer::new(&mut text);
        while let Ok(token) = lexer.next() {
            assert_eq!(token, Token::Newline);
        }
        assert_eq!(lexer.line, 3);
    }
}

//! Splits a program's text into words, numbers and signs.

use super::error::{Place, Problem, ProgramError};

/// Longer words are abbreviated in messages.
const SHOWN: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a word of the language.
    Word(&'a str),
    /// At most 2^63; the largest one is valid only when negated.
    Number(u64),
    /// A bracket, brace, comma or operator.
    Sign(&'static str),
    /// A character that is not part of the language.
    Stray(char),
    End,
}

/// Longest first, so that `<=` is not `<` and then `=`.
const SIGNS: [&str; 22] = [
    "<<", ">>", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|", "^", "(",
    ")", "{", "}", ",",
];

/// Units that a number may have, in bytes or nanoseconds.
const UNITS: [(&str, u64); 5] = [
    ("b", 1),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the next token starts, and its line, from 1.
    at: usize,
    next_line: u32,
    /// The current token, and its line.
    pub token: Token<'a>,
    pub line: u32,
}

impl<'a> Lexer<'a> {
    /// Starts at the first token.
    pub fn new(text: &'a str) -> Result<Self, ProgramError> {
        let mut lexer = Lexer {
            text,
            at: 0,
            next_line: 1,
            token: Token::End,
            line: 1,
        };
        lexer.advance()?;
        Ok(lexer)
    }

    /// An error in the line of the current token.
    pub fn error<T>(&self, problem: Problem) -> Result<T, ProgramError> {
        Err(Place::line(Some(self.line)).error(problem))
    }

    /// The current token is not what was expected.
    pub fn unexpected<T>(&self, expected: &str) -> Result<T, ProgramError> {
        let found = match self.token {
            Token::Word(word) => format!("`{}`", word.chars().take(SHOWN).collect::<String>()),
            Token::Number(value) => value.to_string(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Stray(character) => format!("`{}`", character.escape_debug()),
            Token::End => "the end of the file".to_owned(),
        };
        let expected = expected.to_owned();
        self.error(Problem::Unexpected { expected, found })
    }

    /// Moves to the next token.
    pub fn advance(&mut self) -> Result<(), ProgramError> {
        self.skip_blanks();
        self.line = self.next_line;
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let length = |part: fn(&char) -> bool| rest.chars().take_while(part).count();
        let of_word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        if first.is_ascii_digit() {
            let digits = length(char::is_ascii_digit);
            let unit = &rest[digits..];
            let unit = &unit[..unit.chars().take_while(of_word).count()];
            self.at += digits + unit.len();
            return self.number(&rest[..digits], unit);
        }
        let (token, length) = if of_word(&first) {
            let length = length(of_word);
            (Token::Word(&rest[..length]), length)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            (Token::Stray(first), first.len_utf8())
        };
        self.token = token;
        self.at += length;
        Ok(())
    }

    fn number(&mut self, digits: &str, unit: &'a str) -> Result<(), ProgramError> {
        let scale = match UNITS.iter().find(|known| known.0 == unit) {
            Some(&(_, scale)) => scale,
            None if unit.is_empty() => 1,
            None => {
                self.token = Token::Word(unit);
                return self.unexpected("a number, with b, ns, us, ms, s or without a unit");
            }
        };
        let value = digits.parse::<u64>().ok();
        match value.and_then(|value| value.checked_mul(scale)) {
            Some(value) if value <= 1 << 63 => self.token = Token::Number(value),
            _ => return self.error(Problem::HugeNumber),
        }
        Ok(())
    }

    /// Skips blanks, line ends and comments.
    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\n' => self.next_line = self.next_line.saturating_add(1),
                b' ' | b'\t' | b'\r' => {}
                b'#' => {
                    self.skip_comment();
                    continue;
                }
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => {
                    self.skip_comment();
                    continue;
                }
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Skips to the end of the line, which is not consumed.
    fn skip_comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_need_no_blanks_between_them_and_know_their_line() {
        use Token::{End, Number, Sign, Stray, Word};
        let mut lexer =
            Lexer::new("ab<=1024b # x ( \n\n<5us// 1\n==\u{e4}!= \r_1 9223372036854775808 #")
                .unwrap();
        let wanted = [
            (Word("ab"), 1),
            (Sign("<="), 1),
            (Number(1_024), 1),
            (Sign("<"), 3),
            (Number(5_000), 3),
            (Sign("=="), 4),
            (Stray('\u{e4}'), 4),
            (Sign("!="), 4),
            (Word("_1"), 4),
            (Number(1 << 63), 4),
            (End, 4),
        ];
        for wanted in wanted {
            assert_eq!((lexer.token, lexer.line), wanted);
            lexer.advance().unwrap();
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused_in_their_line() {
        for text in [
            "\n9223372036854775809",
            "\n18446744073709551616",
            "\n9223372037s",
            "\n5kb",
        ] {
            let error = Lexer::new(text).err().unwrap();
            assert_eq!(error.place.line, Some(2), "{text}: {error}");
        }
    }
}

//! Words of TSDL, the language of a CTF trace's metadata.

/// Longest name, in bytes: LTTng's have 256 at most.
const LONGEST_NAME: usize = 1 << 10;

/// What is wrong with the metadata, and in which line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: u64,
    pub(crate) reason: String,
}

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word<'t> {
    Name(&'t str),
    Number(u64),
    Text(String),
    Sign(&'static str),
    End,
}

impl std::fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(_) => f.write_str("a text"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// Signs, the longer ones first.
const SIGNS: &[&str] = &[
    "...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", ".", "=", "*", "+",
    "-",
];

/// The words of a text, with one word of lookahead.
pub(crate) struct Words<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    next: Word<'t>,
    /// Line of `next`.
    next_line: u64,
}

impl<'t> Words<'t> {
    pub(crate) fn of(text: &'t str) -> Result<Self, Fault> {
        let mut words = Self {
            text,
            at: 0,
            line: 1,
            next: Word::End,
            next_line: 1,
        };
        words.take()?;
        Ok(words)
    }

    /// The next word, without taking it.
    pub(crate) fn peek(&self) -> &Word<'t> {
        &self.next
    }

    /// A fault at the next word, or at the one that is being read.
    pub(crate) fn fault<T>(&self, reason: impl Into<String>) -> Result<T, Fault> {
        Err(Fault {
            line: self.next_line,
            reason: reason.into(),
        })
    }

    /// Takes the next word.
    pub(crate) fn take(&mut self) -> Result<Word<'t>, Fault> {
        self.pass_space()?;
        self.next_line = self.line;
        let next = self.read()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes this sign if it is next.
    pub(crate) fn sign(&mut self, sign: &str) -> Result<bool, Fault> {
        let is_next = matches!(&self.next, Word::Sign(next) if *next == sign);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    /// Takes this name if it is next.
    pub(crate) fn name(&mut self, name: &str) -> Result<bool, Fault> {
        let is_next = matches!(&self.next, Word::Name(next) if *next == name);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    /// Takes this sign, which must be next.
    pub(crate) fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        match self.sign(sign)? {
            true => Ok(()),
            false => self.fault(format!("`{sign}` should stand before {}", self.next)),
        }
    }

    /// Takes a name, which must be next.
    pub(crate) fn any_name(&mut self) -> Result<&'t str, Fault> {
        match self.next {
            Word::Name(name) => {
                self.take()?;
                Ok(name)
            }
            _ => self.fault(format!("a name should stand before {}", self.next)),
        }
    }

    /// Takes a number, which must be next, perhaps with a sign before it.
    pub(crate) fn number(&mut self) -> Result<i128, Fault> {
        let minus = self.sign("-")?;
        if !minus {
            self.sign("+")?;
        }
        match self.next {
            Word::Number(number) => {
                self.take()?;
                let number = i128::from(number);
                Ok(if minus { -number } else { number })
            }
            _ => self.fault(format!("a number should stand before {}", self.next)),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn pass(&mut self, bytes: usize) {
        let passed = &self.text.as_bytes()[self.at..self.at + bytes];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.at += bytes;
    }

    fn pass_space(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            let length = match space {
                0 if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                0 if rest.starts_with("/*") => match rest[2..].find("*/") {
                    Some(end) => end + 4,
                    None => {
                        self.next_line = self.line;
                        return self.fault("a comment has no end");
                    }
                },
                0 => return Ok(()),
                space => space,
            };
            self.pass(length);
        }
    }

    fn read(&mut self) -> Result<Word<'t>, Fault> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Word::End);
        };
        if first.is_ascii_digit() {
            return self.read_number();
        }
        if first == '"' || rest.starts_with("L\"") {
            return self.read_text();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
            if length > LONGEST_NAME {
                return self.fault(format!("a name has more than {LONGEST_NAME} bytes"));
            }
            self.pass(length);
            return Ok(Word::Name(&rest[..length]));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                self.pass(sign.len());
                Ok(Word::Sign(sign))
            }
            None => {
                let sign = first.escape_default();
                self.fault(format!("`{sign}` is no word of this language"))
            }
        }
    }

    /// Decimal, `0x..`, `0b..`, or `0..` in octal; a suffix as in C is ignored.
    fn read_number(&mut self) -> Result<Word<'t>, Fault> {
        let rest = self.rest();
        let of_number = |c: char| c.is_ascii_alphanumeric();
        let length = rest.find(|c| !of_number(c)).unwrap_or(rest.len());
        let all = &rest[..length];
        let digits = all.trim_end_matches(['u', 'U', 'l', 'L']);
        let number = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2),
            [b'0', _, ..] => u64::from_str_radix(&digits[1..], 8),
            _ => digits.parse(),
        };
        let Ok(number) = number else {
            return self.fault(format!("`{all}` is no number of 64 bits"));
        };
        self.pass(length);
        Ok(Word::Number(number))
    }

    fn read_text(&mut self) -> Result<Word<'t>, Fault> {
        let rest = self.rest();
        let begin = if rest.starts_with('L') { 2 } else { 1 };
        let mut text = String::new();
        let mut chars = rest[begin..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.pass(begin + at + 1);
                    return Ok(Word::Text(text));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                c => text.push(c),
            }
        }
        self.fault("a text has no end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_and_know_their_lines() {
        let text = "a_1 := 0x1F /*/ x\n */ [-017] 0b101ul \"q\\\"\\\\\" // end\n ... y";
        let mut words = Words::of(text).unwrap();
        let mut found = Vec::new();
        while *words.peek() != Word::End {
            let line = words.next_line;
            found.push((line, words.take().unwrap()));
        }
        let expected = [
            (1, Word::Name("a_1")),
            (1, Word::Sign(":=")),
            (1, Word::Number(31)),
            (2, Word::Sign("[")),
            (2, Word::Sign("-")),
            (2, Word::Number(15)),
            (2, Word::Sign("]")),
            (2, Word::Number(5)),
            (2, Word::Text("q\"\\".to_owned())),
            (3, Word::Sign("...")),
            (3, Word::Name("y")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_word_is_told_with_its_line() {
        for (text, line) in [
            ("\n\"abc", 2),
            ("/* x", 1),
            ("1x", 1),
            ("18446744073709551616", 1),
            ("\n\n\u{e9}", 3),
            ("a\n#", 2),
        ] {
            let mut words = Words::of(text);
            while let Ok(ok) = &mut words {
                if *ok.peek() == Word::End {
                    break;
                }
                if let Err(fault) = ok.take() {
                    words = Err(fault);
                }
            }
            assert_eq!(words.err().map(|fault| fault.line), Some(line), "{text}");
        }
    }
}

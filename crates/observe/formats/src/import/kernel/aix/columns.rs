//! The columns of a report, and what a line holds in them.
//!
//! `trcrpt -O` chooses them, so they are found by the names in the header. Names of processes and
//! of system calls may hold blanks or be missing. So times and numbers are found by their form, and
//! where several places fit, the one below the column's name counts.

use memchr::memmem;

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Cpu,
    Pid,
    Tid,
}

/// Names of the columns of numbers.
const NUMBERS: [(&[u8], Number); 3] = [
    (b"CPU", Number::Cpu),
    (b"PID", Number::Pid),
    (b"TID", Number::Tid),
];

/// A word of a line: its start and its end.
type Word = (usize, usize);

/// Words searched for the time: a name with more words is damage.
const MOST_WORDS: usize = 64;

/// What the header of a report says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The columns of numbers, with the start of each and the start of the next column of any kind.
    numbers: Vec<(Number, usize, usize)>,
    /// Whether a second time, since the previous line, follows the first.
    delta: bool,
    /// Decimal places between the unit of the time and a nanosecond.
    places: u32,
}

/// One line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The hook; `None` if it has a fourth digit that is not 0.
    pub(crate) hook: Option<u16>,
    /// What comes before the numbers, usually the name of the process.
    pub(crate) name: &'a [u8],
    pub(crate) cpu: Option<u32>,
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
    /// Since the start of the trace.
    pub(crate) time_ns: u64,
    /// Decimal places of the time in seconds, 0..=9.
    pub(crate) digits: u32,
    /// What the hook says.
    pub(crate) text: &'a [u8],
}

/// Whether a line is the header over the columns.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"ID ") && memmem::find(line, b" ELAPSED").is_some()
}

impl Columns {
    /// Reads the header.
    ///
    /// # Errors
    /// What it lacks, in words.
    pub(crate) fn parse(header: &[u8]) -> Result<Self, &'static str> {
        let words = words(header, usize::MAX);
        let text = |word: &Word| &header[word.0..word.1];
        let time = words.iter().position(|w| text(w).starts_with(b"ELAPSED"));
        let time = time.ok_or("the column of elapsed times is missing")?;
        let places = match text(&words[time]) {
            b"ELAPSED_MSEC" => 6,
            b"ELAPSED_USEC" => 3,
            _ => 9,
        };
        let delta = words[time..].iter().any(|w| text(w).starts_with(b"DELTA"));
        let number = |word: &Word| NUMBERS.iter().find(|n| n.0 == text(word)).map(|n| n.1);
        let mut numbers: Vec<(Number, usize, usize)> = Vec::new();
        let mut last = None;
        for (place, word) in words[..time].iter().enumerate() {
            let Some(kind) = number(word) else {
                continue;
            };
            if last.is_some_and(|last| last + 1 != place) {
                return Err("the columns CPU, PID and TID do not stand side by side");
            }
            if numbers.iter().any(|(other, ..)| *other == kind) {
                return Err("a column stands there twice");
            }
            last = Some(place);
            numbers.push((kind, word.0, words[place + 1].0));
        }
        Ok(Self {
            numbers,
            delta,
            places,
        })
    }

    /// Reads a line; `None` if it is no event.
    ///
    /// # Errors
    /// What it lacks, in words.
    pub(crate) fn line<'a>(&self, line: &'a [u8]) -> Option<Result<Line<'a>, &'static str>> {
        let words = words(line, MOST_WORDS);
        let first = *words.first().filter(|w| w.0 == 0)?;
        let hook = hook(&line[first.0..first.1])?;
        Some(self.rest(line, hook, &words))
    }

    fn rest<'a>(
        &self,
        line: &'a [u8],
        hook: Option<u16>,
        words: &[Word],
    ) -> Result<Line<'a>, &'static str> {
        let text = |word: &Word| &line[word.0..word.1];
        let count = self.numbers.len();
        let is_time = |at: usize| {
            let here = words.get(at).is_some_and(|w| decimal(text(w)).is_some());
            let next = || {
                words
                    .get(at + 1)
                    .is_some_and(|w| decimal(text(w)).is_some())
            };
            here && (!self.delta || next())
        };
        let time = (1 + count..words.len()).find(|at| is_time(*at));
        let time = time.ok_or("its time is missing")?;
        let (time_ns, digits) = decimal(text(&words[time]))
            .and_then(|parts| nanoseconds(parts, self.places))
            .ok_or("its time is out of range")?;
        let is_number = |word: &Word| number(text(word)).is_some();
        let below = |at: usize| {
            let pairs = words[at..at + count].iter().zip(&self.numbers);
            pairs.filter(|(w, n)| w.0 < n.2 && w.1 > n.1).count()
        };
        let places = (1..=time - count).filter(|at| words[*at..at + count].iter().all(is_number));
        let place = places.rev().max_by_key(|at| below(*at));
        let place = place.ok_or("the numbers of CPU, process and thread are missing")?;
        let mut read = Line {
            hook,
            name: line[words[0].1..words[place].0].trim_ascii(),
            cpu: None,
            pid: None,
            tid: None,
            time_ns,
            digits,
            text: line[words[time + usize::from(self.delta)].1..].trim_ascii(),
        };
        for (word, (kind, ..)) in words[place..].iter().zip(&self.numbers) {
            let value = number(text(word)).flatten();
            match kind {
                Number::Cpu => read.cpu = value,
                Number::Pid => read.pid = value,
                Number::Tid => read.tid = value,
            }
        }
        Ok(read)
    }
}

fn words(line: &[u8], most: usize) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while words.len() < most {
        let blanks = line[at..].iter().take_while(|b| b.is_ascii_whitespace());
        let begin = at + blanks.count();
        let rest = line[begin..]
            .iter()
            .take_while(|b| !b.is_ascii_whitespace());
        at = begin + rest.count();
        if at == begin {
            break;
        }
        words.push((begin, at));
    }
    words
}

/// A hook of three hexadecimal digits. A fourth digit says nothing if it is 0 (`trcrpt` of AIX 6.1
/// and later).
fn hook(word: &[u8]) -> Option<Option<u16>> {
    let text = std::str::from_utf8(word).ok()?;
    let hexadecimal = word.iter().all(u8::is_ascii_hexdigit);
    let value = u16::from_str_radix(text, 16).ok().filter(|_| hexadecimal)?;
    match word.len() {
        3 => Some(Some(value)),
        4 if value % 16 == 0 => Some(Some(value / 16)),
        4 => Some(None),
        _ => None,
    }
}

/// A number that may be unknown: -1.
fn number(word: &[u8]) -> Option<Option<u32>> {
    match word {
        b"-1" => Some(None),
        _ => digits(word).and_then(|n| u32::try_from(n).ok()).map(Some),
    }
}

pub(crate) fn digits(word: &[u8]) -> Option<u64> {
    let sum = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    (!word.is_empty()).then(|| word.iter().try_fold(0, sum))?
}

/// The parts of a decimal number: whole, fraction, digits of the fraction.
fn decimal(word: &[u8]) -> Option<(u64, u64, u32)> {
    let point = memchr::memchr(b'.', word)?;
    let (whole, fraction) = (&word[..point], &word[point + 1..]);
    if fraction.len() > 18 {
        return None;
    }
    Some((digits(whole)?, digits(fraction)?, fraction.len() as u32))
}

/// Nanoseconds, and the decimal places of the seconds.
fn nanoseconds((whole, fraction, length): (u64, u64, u32), places: u32) -> Option<(u64, u32)> {
    let fraction = match places.checked_sub(length) {
        Some(more) => fraction.checked_mul(10_u64.pow(more))?,
        None => fraction / 10_u64.pow(length - places),
    };
    let ns = whole.checked_mul(10_u64.pow(places))?;
    Some((ns.checked_add(fraction)?, 9 - places + length.min(places)))
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;

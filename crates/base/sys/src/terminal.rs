//! The only way to standard output and standard error, and what is at their other end.
//!
//! Names of processes, hosts and files, replies of services, and files of other users may contain
//! terminal control sequences (ISO/IEC 6429). So nothing is printed elsewhere, and everything
//! printed here has its control characters escaped; a test checks this
//! (crates/apps/cli/tests/architecture.rs). Binary output for another program is not affected.

use idlewave_units::foreign::lines;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

/// The start of a control sequence.
const OPENING: &str = "\x1b[";
/// Moves to the upper left corner and clears from there to the end: less flicker than clearing the
/// whole screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Narrowest and widest lines: narrower tables, or wider paragraphs, are hard to read.
const WIDTHS: [usize; 2] = [40, 120];
/// Width if neither a terminal nor a variable sets it.
const USUAL_WIDTH: usize = 80;

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// Whether it is a terminal.
    pub fn is_terminal(self) -> bool {
        match self {
            Stream::Output => io::stdout().is_terminal(),
            Stream::Error => io::stderr().is_terminal(),
        }
    }

    /// Whether output to it is coloured.
    pub fn is_coloured(self) -> bool {
        coloured(self.is_terminal(), |name| std::env::var_os(name))
    }

    /// Whether lines can be redrawn, as progress bars are.
    pub fn redraws(self) -> bool {
        self.is_terminal() && obeys(|name| std::env::var_os(name))
    }

    /// Columns of the output: those of the terminal, or else of `COLUMNS`, or 80.
    pub fn width(self) -> usize {
        let size = match self {
            Stream::Output => rustix::termios::tcgetwinsize(io::stdout()),
            Stream::Error => rustix::termios::tcgetwinsize(io::stderr()),
        };
        let columns = size.map(|size| size.ws_col).unwrap_or_default();
        width(columns, std::env::var("COLUMNS").ok().as_deref())
    }

    /// Writes text with its control characters escaped.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn write(self, text: &str) -> io::Result<()> {
        self.put(&lines(text))
    }

    /// Writes our own text with its colours, in which foreign text is already escaped.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn write_coloured(self, text: &str) -> io::Result<()> {
        self.put(&with_colours(text))
    }

    /// Replaces everything that the terminal shows with this text.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn redraw(self, text: &str) -> io::Result<()> {
        let begin = if self.redraws() { HOME } else { "" };
        self.put(&format!("{begin}{}", lines(text)))
    }

    fn put(self, text: &str) -> io::Result<()> {
        match self {
            Stream::Output => put(io::stdout().lock(), text),
            Stream::Error => put(io::stderr().lock(), text),
        }
    }
}

/// In one write if it fits a pipe, so that lines of several processes do not mix.
fn put(mut out: impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes to standard error. Errors are ignored: there is nowhere to report them.
pub fn say(text: &str) {
    let _ = Stream::Error.write(text);
}

/// Standard output for text written in pieces of whole characters; control characters are escaped.
#[derive(Debug)]
pub struct Pieces(io::BufWriter<io::StdoutLock<'static>>);

/// Locks standard output for text written in pieces.
pub fn pieces() -> Pieces {
    Pieces(io::BufWriter::new(io::stdout().lock()))
}

impl Write for Pieces {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(piece).map_err(io::Error::other)?;
        self.0.write_all(lines(text).as_bytes())?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The text without control sequences except colours and weights (SGR).
fn with_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPENING) {
        let (before, sequence) = rest.split_at(at);
        out.push_str(&lines(before));
        // Any other sequence is not a colour: its opening is escaped, and the rest is text.
        let ours = colour(sequence).unwrap_or(&sequence[..1]);
        match ours.len() {
            1 => out.push_str(&lines(ours)),
            _ => out.push_str(ours),
        }
        rest = &sequence[ours.len()..];
    }
    out + &lines(rest)
}

/// The sequence at the start of the text, if it sets colours or weights.
fn colour(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix(OPENING)?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..]
        .starts_with('m')
        .then(|| &text[..OPENING.len() + end + 1])
}

/// Colours as <https://no-color.org> and <https://bixense.com/clicolors/> define them; an empty
/// variable counts as unset.
fn coloured(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    is_terminal && obeys(variable)
}

/// Whether the terminal supports control sequences: terminfo(5) calls one that does not `dumb`.
fn obeys(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

fn width(terminal: u16, variable: Option<&str>) -> usize {
    let told = || variable.and_then(|columns| columns.parse().ok());
    let known = Some(usize::from(terminal)).filter(|columns| *columns > 0);
    let [least, most] = WIDTHS;
    known
        .or_else(told)
        .unwrap_or(USUAL_WIDTH)
        .clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_goes_before_the_variable_and_both_before_what_is_usual() {
        assert_eq!(width(100, Some("60")), 100);
        assert_eq!(width(0, Some("60")), 60);
        for nothing in [None, Some(""), Some("wide")] {
            assert_eq!(width(0, nothing), 80);
        }
        assert_eq!((width(10, None), width(1000, None)), (40, 120));
    }

    #[test]
    fn colours_are_for_terminals_that_obey_and_for_people_who_want_them() {
        let asked = |is_terminal, set: &[(&str, &str)]| {
            coloured(is_terminal, |name| {
                let found = set.iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let xterm = ("TERM", "xterm");
        assert!(asked(true, &[xterm]));
        assert!(asked(true, &[xterm, ("NO_COLOR", "")]));
        assert!(!asked(true, &[xterm, ("NO_COLOR", "1")]));
        assert!(!asked(true, &[xterm, ("NO_COLOR", "0")]));
        assert!(!asked(true, &[("TERM", "dumb")]));
        assert!(!asked(true, &[]));
        assert!(!asked(false, &[xterm]));
        assert!(asked(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!asked(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!asked(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn nothing_but_colours_reaches_a_terminal() {
        assert_eq!(with_colours("\x1b[1;31ma\x1b[0m\n"), "\x1b[1;31ma\x1b[0m\n");
        for (text, shown) in [
            ("\x1b[2Ja", "\\u001b[2Ja"),
            ("\x1b]0;a\x07", "\\u001b]0;a\\u0007"),
            ("\x1b[1", "\\u001b[1"),
            ("\x1b[\x1b[m", "\\u001b[\x1b[m"),
            ("a\u{9b}1m\u{202e}", "a\\u009b1m\\u202e"),
        ] {
            assert_eq!(with_colours(text), shown);
        }
    }
}

//! Lines for a terminal of a given width: sections, wrapped text, commands and tables.

use crate::number::{fit, kept};
use idlewave_units::foreign::one_line;

/// How a line stands out if colour is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Ordinary text.
    Plain,
    /// Opens a section.
    Heading,
    /// Must not be overlooked.
    Alarm,
    /// A command to type.
    Command,
    /// Less important.
    Quiet,
}

impl Style {
    /// The SGR sequence of ECMA-48 that switches it on.
    const fn code(self) -> Option<&'static str> {
        match self {
            Style::Plain => None,
            Style::Heading => Some("\x1b[1m"),
            Style::Alarm => Some("\x1b[1;31m"),
            Style::Command => Some("\x1b[36m"),
            Style::Quiet => Some("\x1b[2m"),
        }
    }
}

/// Collects lines, none wider than its width.
pub(crate) struct Screen {
    width: usize,
    color: bool,
    text: String,
    /// Headers of columns that did not fit.
    left_out: Vec<String>,
}

impl Screen {
    /// An empty screen at least 20 columns wide: less cannot be laid out.
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Self {
            width: width.max(20),
            color,
            text: String::new(),
            left_out: Vec::new(),
        }
    }

    /// All lines so far, and the columns left out.
    pub(crate) fn into_text(mut self) -> String {
        if !self.left_out.is_empty() {
            let columns = std::mem::take(&mut self.left_out).join(", ");
            let text = format!("columns left out at this width: {columns}");
            self.line(Style::Plain, "");
            self.wrap(Style::Quiet, "", &text);
        }
        self.text
    }

    /// One line, cut if too long.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        let text = fit(&one_line(text.trim_end()), self.width);
        match style.code().filter(|_| self.color && !text.is_empty()) {
            Some(code) => {
                self.text.push_str(code);
                self.text.push_str(&text);
                self.text.push_str("\x1b[0m");
            }
            None => self.text.push_str(&text),
        }
        self.text.push('\n');
    }

    /// Text wrapped over as many lines as needed: the first starts with `first`, the others with as
    /// many blanks.
    pub(crate) fn wrap(&mut self, style: Style, first: &str, text: &str) {
        let indent = " ".repeat(first.chars().count());
        for (i, part) in broken(&kept(text, KEPT), self.width - indent.len())
            .iter()
            .enumerate()
        {
            let lead = if i == 0 { first } else { &indent };
            self.line(style, &format!("{lead}{}", part.replace(KEPT, " ")));
        }
    }

    /// A command after a prompt. If it is too long it continues after a backslash, as in a shell.
    pub(crate) fn command(&mut self, indent: usize, command: &str) {
        let lead = " ".repeat(indent);
        let parts = broken(command, self.width - indent - 4);
        for (i, part) in parts.iter().enumerate() {
            let prompt = if i == 0 { "$ " } else { "  " };
            let more = if i + 1 < parts.len() { " \\" } else { "" };
            self.line(Style::Command, &format!("{lead}{prompt}{part}{more}"));
        }
    }

    /// A table whose first column is text; the others are right-aligned. If it is too wide, it
    /// drops columns from the right, then cuts the texts.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        const LEAST_TEXT: usize = 12;
        self.table_keeping(LEAST_TEXT, header, rows);
    }

    /// The same; the texts are cut below `least` characters only if there is no other column left.
    pub(crate) fn table_keeping(&mut self, least: usize, header: &[&str], rows: &[Vec<String>]) {
        const INDENT: usize = 2;
        let natural = |column: usize| {
            let cells = rows
                .iter()
                .filter_map(|r| r.get(column))
                .map(|c| c.chars().count());
            cells.max().unwrap_or(0).max(header[column].chars().count())
        };
        let widths: Vec<usize> = (0..header.len()).map(natural).collect();
        let numbers = |columns: usize| widths[1..columns].iter().map(|w| w + 2).sum::<usize>();
        let mut columns = header.len();
        while columns > 1 && INDENT + least.min(widths[0]) + numbers(columns) > self.width {
            columns -= 1;
        }
        for head in &header[columns..] {
            if !self.left_out.iter().any(|known| known == head) {
                self.left_out.push((*head).to_owned());
            }
        }
        let text = widths[0].min(self.width - INDENT - numbers(columns));
        let mut put = |style, cells: &mut dyn Iterator<Item = &str>| {
            let mut line = format!("  {:text$}", fit(cells.next().unwrap_or(""), text));
            for (cell, width) in cells.zip(&widths[1..]).take(columns - 1) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            self.line(style, &line);
        };
        put(Style::Quiet, &mut header.iter().copied());
        for row in rows {
            put(Style::Plain, &mut row.iter().map(String::as_str));
        }
    }
}

/// A blank at which no line breaks; foreign text cannot contain it, because it is escaped.
const KEPT: char = '\u{1}';

/// Words wrapped into lines of at most `width` characters; longer words are broken.
fn broken(text: &str, width: usize) -> Vec<String> {
    let width = width.max(4);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while !rest.is_empty() {
            // There is always a last line: the vector starts with one and only grows.
            let used = lines.last().map_or(0, |l| l.chars().count());
            let blank = usize::from(used > 0);
            let takes = if used + blank + rest.len() <= width {
                rest.len()
            } else if used > 0 {
                lines.push(String::new());
                continue;
            } else {
                width
            };
            let tail = rest.split_off(takes);
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(' ');
                }
                line.extend(rest);
            }
            rest = tail;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_command_goes_on_as_a_shell_reads_it() {
        let mut screen = Screen::new(24, false);
        screen.command(2, "sudo chmod a+rx /sys/kernel/tracing");
        assert_eq!(
            screen.into_text(),
            "  $ sudo chmod a+rx \\\n    /sys/kernel/tracin \\\n    g\n"
        );
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        let mut screen = Screen::new(20, false);
        screen.wrap(Style::Plain, "", "every time after 100 ms, 3.1 % of it");
        assert_eq!(
            screen.into_text(),
            "every time after\n100 ms, 3.1 % of it\n"
        );
    }

    #[test]
    fn a_narrow_table_gives_up_its_last_columns_first() {
        let row = vec![
            "kworker/0:1-events".to_owned(),
            "1.2 ms".to_owned(),
            "50 ms".to_owned(),
        ];
        let mut wide = Screen::new(40, false);
        wide.table(&["name", "stolen", "period"], std::slice::from_ref(&row));
        assert_eq!(
            wide.into_text(),
            "  name                stolen  period\n  kworker/0:1-events  1.2 ms   50 ms\n"
        );
        let mut narrow = Screen::new(24, false);
        narrow.table(&["name", "stolen", "period"], &[row]);
        assert_eq!(
            narrow.into_text(),
            "  name            stolen\n  kworker/0:1-..  1.2 ms\n\ncolumns left out at this\nwidth: period\n"
        );
    }

    #[test]
    fn colour_adds_sequences_and_changes_no_text() {
        let mut screen = Screen::new(30, true);
        screen.line(Style::Alarm, "flagged");
        assert_eq!(screen.into_text(), "\x1b[1;31mflagged\x1b[0m\n");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(
            text in "[ -~]{0,200}", width in 20usize..100, rows in proptest::collection::vec("[ -~]{0,60}", 4),
        ) {
            let mut screen = Screen::new(width, false);
            screen.wrap(Style::Plain, "  1. ", &text);
            screen.command(5, &text);
            screen.table(&["a", "b", "c", "d"], &[rows]);
            for line in screen.into_text().lines() {
                prop_assert!(line.len() <= width, "{line:?}");
            }
        }
    }
}

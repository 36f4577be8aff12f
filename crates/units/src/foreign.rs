//! Foreign text: what messages say of it (where in it something is wrong, as much of it as a line can hold), and how the kernel
//! writes paths.

use std::ops::Range;

/// The line of a byte of the text, counted from 1. Bytes behind the end are of the last line.
pub fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|b| **b == b'\n').count() + 1
}

/// The text with its control characters written out (`\\n`), so that it stays in its line.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// In one line what is wrong, behind the number of the line where the place is known: `line 3: unknown field`.
pub fn at_line(text: &str, place: Option<Range<usize>>, wrong: &str) -> String {
    let wrong = one_line(&wrong.trim_end().replace('\n', ", "));
    match place {
        // What the whole text lacks is in no line of it.
        Some(bytes) if bytes.start == 0 && wrong.starts_with("missing field") => wrong,
        Some(bytes) => format!("line {}: {wrong}", line_of(text, bytes.start)),
        None => wrong,
    }
}

/// The first 60 characters, with `...` where there are more.
pub fn cut(text: &str) -> String {
    const MOST_CHARS: usize = 60;
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A path of mountinfo as it is (proc_pid_mountinfo(5)): there blank, tab, newline and backslash are octal.
pub fn mounted_path(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one_and_end_with_their_newline() {
        let text = "a\nbü\n\nc";
        let lines: Vec<usize> = (0..=text.len()).map(|byte| line_of(text, byte)).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 2, 3, 4, 4]);
        assert_eq!(line_of(text, 1000), 4);
        assert_eq!(line_of("", 0), 1);
    }

    #[test]
    fn a_message_of_several_lines_becomes_one_behind_the_line_it_is_about() {
        assert_eq!(at_line("a\nb", Some(2..3), "no\nyes\n"), "line 2: no, yes");
        assert_eq!(at_line("a\nb", None, "no"), "no");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(one_line("ü 'a\n\u{1b}'"), "ü 'a\\n\\u{1b}'");
        assert_eq!(at_line("", None, "a\rb"), "a\\rb");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut(&"ü".repeat(60)), "ü".repeat(60));
        assert_eq!(cut(&"ü".repeat(61)), "ü".repeat(60) + "...");
    }

    #[test]
    fn paths_of_mountinfo_have_their_blanks_and_backslashes_again() {
        assert_eq!(mounted_path("/a\\040b\\011c\\012d"), "/a b\tc\nd");
        // A backslash that is one does not begin a code.
        assert_eq!(mounted_path("/a\\134040"), "/a\\040");
    }
}

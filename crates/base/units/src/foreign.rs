//! Foreign text: positions in it for messages, shortening it to a line, and the kernel's notation
//! of paths.

use std::ops::Range;

/// The line of a byte of the text, counted from 1. Bytes beyond the end belong to the last line.
pub fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|b| **b == b'\n').count() + 1
}

/// Whether a character is not plain text: it moves the cursor or changes the terminal (ISO/IEC
/// 6429), changes the reading direction (Unicode Standard Annex #9), breaks the line or is
/// invisible.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text with hidden characters escaped (`\\n`, `\\u001b`), so that it stays on one line.
pub fn one_line(text: &str) -> String {
    written_out(text, is_hidden)
}

/// The text with hidden characters escaped, except line ends. The escapes are those of JSON and
/// TOML strings, so text in these formats stays valid and keeps its meaning.
pub fn lines(text: &str) -> String {
    written_out(text, |c| is_hidden(c) && c != '\n')
}

/// A word for a POSIX shell, in quotes where the shell would read more into it: whoever reads the command types it. `shlex` and
/// `shell-words` also quote `--np=4`, which people read more often than shells do.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words as one line that a shell takes apart again into the same words.
pub fn shell_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// [`one_line`] of at most this many characters: where more are cut off, it ends with `...`.
pub fn column(text: &str, width: usize) -> String {
    let line = one_line(text);
    match line.chars().count() <= width {
        true => line,
        false => {
            let kept = line.chars().take(width.saturating_sub(3));
            kept.chain("...".chars()).collect()
        }
    }
}

fn written_out(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if !hidden(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // All of them have four digits.
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    out
}

/// A parse error of serde (TOML or JSON) in the terms of these formats: keys and values. The line
/// comes first.
pub fn misfit(wrong: &str) -> String {
    const FORMS: [(&str, &str); 4] = [
        ("missing field ", "missing key "),
        ("unknown field ", "unknown key "),
        ("duplicate field ", "duplicate key "),
        ("unknown variant ", "unknown value "),
    ];
    // JSON errors end with the position.
    let (wrong, place) = match wrong.rsplit_once(" at line ") {
        Some((wrong, place)) => (wrong, place.split(' ').next()),
        None => (wrong, None),
    };
    let form = FORMS
        .iter()
        .find_map(|(serde, ours)| Some((wrong.strip_prefix(serde)?, ours)));
    let said = match form {
        Some((rest, ours)) => format!("{ours}{rest}"),
        None => wrong.to_owned(),
    };
    let said = one_line(&said);
    place.map_or(said.clone(), |line| format!("line {line}: {said}"))
}

/// An error in one line, after the line number if known: `line 3: unknown key`.
pub fn at_line(text: &str, place: Option<Range<usize>>, wrong: &str) -> String {
    // A key missing from the whole text has no line.
    let lacks = wrong.starts_with("missing field");
    let wrong = misfit(&wrong.trim_end().replace('\n', ", "));
    match place {
        Some(bytes) if bytes.start == 0 && lacks => wrong,
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

/// A path of mountinfo as it is (proc_pid_mountinfo(5)): there blank, tab, newline and backslash
/// are octal.
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
    fn words_for_a_shell_are_quoted_where_it_would_read_more_into_them() {
        for (word, quoted) in [
            ("--np=4", "--np=4"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $1", "'it'\\''s $1'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
        let words = ["echo", "a\nb", "*"].map(str::to_owned);
        assert_eq!(shell_line(&words), "echo 'a\nb' '*'");
    }

    #[test]
    fn a_message_of_several_lines_becomes_one_behind_the_line_it_is_about() {
        assert_eq!(at_line("a\nb", Some(2..3), "no\nyes\n"), "line 2: no, yes");
        assert_eq!(at_line("a\nb", None, "no"), "no");
    }

    #[test]
    fn what_does_not_fit_is_said_in_words_of_people() {
        for (serde, said) in [
            (
                "missing field `a` at line 3 column 7",
                "line 3: missing key `a`",
            ),
            (
                "unknown field `a`, expected one of `b`, `c`",
                "unknown key `a`, expected one of `b`, `c`",
            ),
            (
                "unknown field `a`, expected `b`",
                "unknown key `a`, expected `b`",
            ),
            (
                "invalid type: string \"x\", expected u32",
                "invalid type: string \"x\", expected u32",
            ),
            (
                "unknown variant `x`, expected `a` or `b`",
                "unknown value `x`, expected `a` or `b`",
            ),
            (
                "EOF while parsing a value at line 1 column 0",
                "line 1: EOF while parsing a value",
            ),
            (
                "string values must be quoted",
                "string values must be quoted",
            ),
        ] {
            assert_eq!(misfit(serde), said);
        }
    }

    #[test]
    fn hidden_characters_are_written_out() {
        assert_eq!(one_line("ü 'a\n\u{1b}'"), "ü 'a\\n\\u001b'");
        assert_eq!(lines("ü\n\t\u{9b}2J"), "ü\n\\t\\u009b2J");
        assert_eq!(at_line("", None, "a\rb"), "a\\rb");
        // Marks, embeddings, overrides and isolates of two directions; ends of lines and of
        // paragraphs.
        let turning = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let others = "\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\u{7f}\u{85}";
        for c in turning.chain(others.chars()) {
            let shown = format!("\\u{:04x}", u32::from(c));
            assert_eq!(one_line(&c.to_string()), shown);
            assert_eq!(lines(&c.to_string()), shown);
        }
    }

    #[test]
    fn a_column_is_no_wider_than_it_may_be() {
        assert_eq!(column("a\u{7}", 7), "a\\u0007");
        assert_eq!(column("a\u{7}bcd", 7), "a\\u0...");
        assert_eq!(column("abcd", 4), "abcd");
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

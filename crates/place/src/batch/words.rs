//! Words of a command for a POSIX shell.

/// The words as one line that a shell takes apart again into the same words.
pub(super) fn line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| word(w)).collect();
    words.join(" ")
}

/// One word, in quotes where the shell would read more into it.
pub(super) fn word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

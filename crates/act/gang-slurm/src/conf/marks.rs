//! Blocks in slurm.conf that record what they replace: comments hold the original lines.
//!
//! ```text
//! #idlewave< put back by: idlewave gang slurm uninstall
//! #idlewave| PreemptMode=GANG
//! PreemptMode=OFF
//! #idlewave>
//! ```
//! `#idlewave!` holds a last line that had no line end, and a block that starts with `#idlewave^`
//! follows such a line.

use super::ConfError;

const PUT_BACK: &str = " put back by: idlewave gang slurm uninstall";

/// A block that replaces these bytes, which are whole lines; the last one may lack its line end.
pub(crate) fn replaced(raw: &str, by: &str) -> String {
    let mut out = format!("#idlewave<{PUT_BACK}\n");
    for line in raw.split_inclusive('\n') {
        match line.ends_with('\n') {
            true => out.push_str(&format!("#idlewave| {line}")),
            false => out.push_str(&format!("#idlewave! {line}\n")),
        }
    }
    out.push_str(&format!("{by}\n#idlewave>\n"));
    out
}

/// A block that replaces nothing and follows `before`.
pub(crate) fn added(before: &str, lines: &[String]) -> String {
    let ended = before.is_empty() || before.ends_with('\n');
    let (end, begin) = if ended { ("", '<') } else { ("\n", '^') };
    format!(
        "{end}#idlewave{begin}{PUT_BACK}\n{}\n#idlewave>\n",
        lines.join("\n")
    )
}

/// The text with each block replaced by the lines it stands for. A text without blocks is returned
/// unchanged.
pub(crate) fn strip(text: &str) -> Result<String, ConfError> {
    let mut out = String::with_capacity(text.len());
    let mut begun = None;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let mark = line.strip_prefix("#idlewave");
        let held = mark.and_then(|rest| rest.get(2..)).unwrap_or_default();
        let mark = mark.and_then(|rest| rest.chars().next());
        match (mark, begun) {
            (Some('<'), None) => begun = Some(number),
            (Some('^'), None) => {
                if out.pop() != Some('\n') {
                    return Err(ConfError::Damaged(number));
                }
                begun = Some(number);
            }
            (Some('>'), Some(_)) => begun = None,
            (Some('|'), Some(_)) => out.push_str(held),
            (Some('!'), Some(_)) => out.push_str(held.strip_suffix('\n').unwrap_or(held)),
            (Some('<' | '^' | '>' | '|' | '!'), _) => return Err(ConfError::Damaged(number)),
            (_, Some(_)) => {}
            (_, None) => out.push_str(line),
        }
    }
    match begun {
        Some(number) => Err(ConfError::Damaged(number)),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_away_with_their_lines_put_back() {
        for (before, raw) in [
            ("A=1\n", "B=2\n"),
            ("", "B=2 \\\r\n C=3\r\n"),
            ("A=1\n", "B=2"),
            ("# idlewave\n#idlewave likes it\n", "\n"),
        ] {
            let block = replaced(raw, "B=3");
            assert_eq!(
                strip(&format!("{before}{block}")).unwrap(),
                format!("{before}{raw}")
            );
        }
        for before in ["", "A=1\n", "A=1", "A=1\r\n\n"] {
            let block = added(before, &["X=1".to_owned(), "Y=2".to_owned()]);
            assert_eq!(strip(&format!("{before}{block}")).unwrap(), before);
            assert!(block.contains("\nX=1\nY=2\n"));
        }
    }

    #[test]
    fn other_lines_may_change_between() {
        let text = format!("A=1\n{}Z=9\n", replaced("B=2\n", "B=3"));
        let edited = text.replace("A=1\n", "A=4\n").replace("Z=9\n", "");
        assert_eq!(strip(&edited).unwrap(), "A=4\nB=2\n");
    }

    #[test]
    fn blocks_that_are_torn_are_refused_at_their_line() {
        let block = replaced("B=2\n", "B=3");
        for (text, line) in [
            ("A\n#idlewave>\n".to_owned(), 2),
            ("#idlewave| A\n".to_owned(), 1),
            ("#idlewave! A\n".to_owned(), 1),
            ("#idlewave^\n#idlewave>\n".to_owned(), 1),
            (format!("{}#idlewave^\n#idlewave>\n", replaced("B", "C")), 5),
            (format!("{block}#idlewave<\n"), 5),
            (format!("#idlewave<\n{block}"), 2),
            (block.replace("#idlewave>\n", ""), 1),
        ] {
            assert_eq!(strip(&text), Err(ConfError::Damaged(line)), "{text}");
        }
    }
}

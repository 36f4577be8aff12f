//! Builds HTML from text of any origin: everything is escaped here and nowhere else.

use crate::number::kept;
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::DeflateEncoder};
use idlewave_units::foreign::is_hidden;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};

/// Text for HTML content and quoted attributes. Control and text-direction characters become
/// escapes, so that a name can neither break out of the markup nor reorder its line.
pub(crate) fn escape(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c if is_hidden(c) => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
            out
        })
}

/// A sentence: numbers keep their units on the line, and text between two backticks is code.
pub(super) fn prose(text: &str) -> String {
    let text = kept(text, '\u{a0}');
    let pieces: Vec<String> = text.split('`').map(escape).collect();
    let mut out = pieces[0].clone();
    for pair in pieces[1..].chunks(2) {
        match pair {
            [code, after] => out.push_str(&format!("<code>{code}</code>{after}")),
            // An unpaired backtick stays.
            alone => out.push_str(&format!("`{}", alone.concat())),
        }
    }
    out
}

/// JSON for a `script` element: no `<`, so neither `</script` nor `<!--`, and no mark that reorders
/// the text for a reader of the source.
pub(super) fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    Ok(text
        .chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            // Outside strings JSON has none of these, and each fits one \u escape.
            if c == '<' || is_hidden(c) {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                out.push(c);
            }
            out
        }))
}

/// Bytes for a `script` element or a file of the page: raw deflate (RFC 1951), base64.
pub(super) fn deflated(bytes: &[u8], level: Compression) -> io::Result<String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), level);
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// A number of the findings: what is shown, the exact value and its path in findings.json, so that
/// readers can copy it and tests can compare it.
pub(super) fn number(path: &str, value: impl Display, shown: &str) -> String {
    let path = escape(path);
    format!(
        r#"<data class="n" data-path="{path}" value="{value}">{}</data>"#,
        escape(shown)
    )
}

/// A section with its heading.
pub(super) fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// What to look for in a figure or a table.
pub(super) fn caption(text: &str) -> String {
    format!("<p class=\"caption\">{text}</p>\n")
}

/// Shown in place of missing content: why there is none.
pub(super) fn absent(why: &str) -> String {
    format!("<p class=\"absent\">{why}</p>\n")
}

/// A cell of a sortable table: sorted by the key, showing the content.
pub(super) fn cell(key: impl Display, content: &str) -> String {
    format!("<td data-key=\"{key}\">{content}</td>")
}

/// The content of a cell: a bar for the share of the maximum, and the number.
pub(super) fn barred(group: &str, part: f64, content: &str) -> String {
    let width = part * 100.0;
    format!(
        "<div class=\"barred\"><span class=\"track\"><i class=\"{group}\" style=\"width:{width:.2}%\"></i></span>{content}</div>"
    )
}

/// A table that scrolls sideways on a narrow page.
pub(super) fn table(class: &str, header: &[(&str, &str)], rows: &str) -> String {
    let mut head = String::new();
    for (label, hint) in header {
        head.push_str(&format!(
            "<th scope=\"col\" title=\"{}\">{}</th>",
            escape(hint),
            escape(label)
        ));
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_script_end_in_a_name_is_harmless() {
        assert_eq!(
            escape("</script><b>\u{202e}"),
            "&lt;/script&gt;&lt;b&gt;\\u{202e}"
        );
        assert_eq!(
            json(&"</script><!--").unwrap(),
            "\"\\u003c/script>\\u003c!--\""
        );
    }

    #[test]
    fn what_is_between_backticks_is_code_and_no_name_gets_out_of_it() {
        assert_eq!(
            prose("keep `kdamond.0` off, it took 3 us"),
            "keep <code>kdamond.0</code> off, it took 3\u{a0}us"
        );
        assert_eq!(prose("`a` and `b`"), "<code>a</code> and <code>b</code>");
        assert_eq!(
            prose("move `x`<b>` away"),
            "move <code>x</code>&lt;b&gt;` away"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_holds_no_markup(text in ".*") {
            let shown = escape(&text);
            prop_assert!(!shown.contains(['<', '>', '"', '\'']));
            let inside = json(&text).unwrap();
            prop_assert!(!inside.contains('<'));
            prop_assert_eq!(serde_json::from_str::<String>(&inside).unwrap(), text);
        }
    }
}

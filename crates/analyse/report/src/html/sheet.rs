//! What the pages of sheets share: numbers with their paths in the sheet, and the top and bottom of
//! a page.

use super::markup::{escape, number};
use crate::number::plain;
use idlewave_run::findings::Estimate;
use idlewave_units::foreign::shell_line;
use idlewave_units::show::{self, percent};

/// Foreign text, escaped.
pub(super) fn text(foreign: &str) -> String {
    escape(&plain(foreign))
}

/// A finite number with its path in the sheet, or a dash.
pub(super) fn value(path: &str, value: f64, shown: impl Fn(f64) -> String) -> String {
    match value.is_finite() {
        true => number(path, value, &shown(value)),
        false => "&ndash;".to_owned(),
    }
}

/// An estimate with its interval.
pub(super) fn estimate(path: &str, e: &Estimate, shown: impl Fn(f64) -> String) -> String {
    let of = |field: &str, v| value(&format!("{path}.{field}"), v, &shown);
    format!(
        "{} <small>{} to {}</small>",
        of("value", e.value),
        of("low", e.low),
        of("high", e.high)
    )
}

/// The sort key of a cell with this number: unknown numbers come first.
pub(super) fn key(value: f64) -> f64 {
    if value.is_finite() { value } else { -1.0 }
}

/// A section of a page: anchor, name in the links, content.
pub(super) type Part = (&'static str, &'static str, String);

/// The title bar, the links and the sections.
pub(super) fn body(run: &str, parts: Vec<Part>) -> String {
    let links: String = parts
        .iter()
        .map(|(id, name, _)| format!("<a href=\"#{id}\">{name}</a>"))
        .collect();
    let sections: String = parts.into_iter().map(|p| p.2).collect();
    format!(
        "<header class=\"top\"><div class=\"bar\"><span class=\"brand\">idlewave</span>\
         <span class=\"run\">{run}</span>\
         <button id=\"theme\" type=\"button\" aria-label=\"Switch between dark and light\">Dark</button></div>\
         <nav aria-label=\"Sections\">{links}</nav></header>\n<main>\n{sections}</main>\n"
    )
}

/// The bottom of the page: remarks, the command line and the line with the version.
pub(super) fn footer(remarks: &[&str], command: &[String], version: &str) -> String {
    let remarks: String = remarks.iter().map(|r| format!("<li>{r}</li>\n")).collect();
    let command = shell_line(command);
    format!(
        "<footer>\n<h2>For those who repeat or cite this</h2>\n<ul>\n{remarks}</ul>\n<p><code>{}</code></p>\n<p>{}</p>\n</footer>\n",
        escape(&command),
        escape(version)
    )
}

/// A list of foreign sentences.
pub(super) fn list(lines: &[String]) -> String {
    let items: String = lines
        .iter()
        .map(|line| format!("<li>{}</li>\n", text(line)))
        .collect();
    format!("<ul class=\"entries\">\n{items}</ul>\n")
}

/// Warnings, one alarm each, at the top of a page.
pub(super) fn alarms(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("<p class=\"alarm\" role=\"alert\">{}</p>\n", text(line)))
        .collect()
}

/// A ratio of two times in words: "times as long" from 2 on, "longer" below.
pub(super) fn longer(ratio: f64) -> String {
    match ratio >= 2.0 {
        true => format!("{} times as long", show::digits(ratio)),
        false => format!("{} longer", percent(ratio - 1.0)),
    }
}

/// Notes that are not warnings; empty without any.
pub(super) fn remarks(title: &str, lines: &[String]) -> String {
    match lines.is_empty() {
        true => String::new(),
        false => format!("<h3>{title}</h3>\n{}", list(lines)),
    }
}

/// A tile of the verdict.
pub(super) fn tile(title: &str, big: &str, sub: &str) -> String {
    format!("<div class=\"tile\"><h3>{title}</h3><p class=\"big\">{big}</p><p>{sub}</p></div>\n")
}

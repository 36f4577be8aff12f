//! The communication matrix and its heaviest pairs.

use super::markup::{absent, barred, caption, cell, escape, number, section as in_section, table};
use super::ranks;
use crate::story;
use idlewave_run::Manifest;
use idlewave_run::findings::ProgramFindings;
use idlewave_units::Bytes;
use idlewave_units::named;
use idlewave_units::show::count;
use std::cmp::Reverse;

/// Most pairs in the table.
const PAIRS_SHOWN: usize = 20;

/// Messages and bytes between ranks.
pub(super) fn section(manifest: &Manifest, program: &ProgramFindings) -> String {
    const TITLE: &str = "Communication";
    if program.messages == 0 {
        let why = format!(
            "No point-to-point message was recorded: the program uses collectives only (their bytes stand under {}), \
             or it never completed one.",
            ranks::operations_heading(program)
        );
        return in_section("communication", TITLE, &absent(&why));
    }
    let mut body = format!(
        "<p>{} point-to-point messages carried {} ({} B).</p>\n",
        number(
            "program.messages",
            program.messages,
            &count(program.messages)
        ),
        number(
            "program.message_bytes",
            program.message_bytes,
            &Bytes::new(program.message_bytes).to_string()
        ),
        program.message_bytes,
    );
    let mut order: Vec<usize> = (0..program.matrix.len()).collect();
    order.sort_by_key(|&i| (Reverse(program.matrix[i].3), i));
    let most = order.first().map_or(0, |&i| program.matrix[i].3);
    let shown = order.len().min(PAIRS_SHOWN);
    let rows: String = order[..shown]
        .iter()
        .map(|&i| pair(manifest, program, i, most))
        .collect();
    let header = [
        ("From", "Sender"),
        ("To", "Receiver"),
        ("Bytes", "Really transferred"),
        ("Messages", "Matched, both ends seen"),
        ("Per message", "Mean"),
    ];
    body.push_str(
        "<div class=\"split\"><div class=\"figure\"><h3>Sender to the right, receiver downwards \
         <select id=\"matrix-of\" aria-label=\"What the colour shows\"><option value=\"3\">bytes</option>\
         <option value=\"2\">messages</option></select></h3>\
         <canvas id=\"matrix\" tabindex=\"0\" role=\"img\" aria-label=\"Communication matrix\"></canvas></div>\n<div class=\"list\">",
    );
    body.push_str(&table("sortable", &header, &rows));
    body.push_str("</div></div>\n");
    if order.len() > shown {
        body.push_str(&caption(&format!(
            "The {shown} heaviest of {} {}; all are in findings.json.",
            count(order.len() as u64),
            named(order.len() as u64, "pair")
        )));
    }
    in_section("communication", TITLE, &body)
}

fn pair(manifest: &Manifest, program: &ProgramFindings, i: usize, most: u64) -> String {
    let (from, to, messages, bytes) = program.matrix[i];
    let path = |field: u32| format!("program.matrix.{i}.{field}");
    let rank = |field: u32, r: idlewave_units::Rank| {
        let node = story::node_of(manifest, r)
            .filter(|_| manifest.nodes.len() > 1)
            .map(|n| format!(" <em>{}</em>", escape(n)))
            .unwrap_or_default();
        format!("{}{node}", number(&path(field), r, &r.to_string()))
    };
    let shown = number(&path(3), bytes, &Bytes::new(bytes).to_string());
    format!(
        "<tr><th scope=\"row\" data-key=\"{from}\">{}</th>{}{}{}{}</tr>\n",
        rank(0, from),
        cell(to, &rank(1, to)),
        cell(
            bytes,
            &barred("g-interrupt", bytes as f64 / most.max(1) as f64, &shown)
        ),
        cell(messages, &number(&path(2), messages, &count(messages))),
        cell(
            bytes / messages.max(1),
            &Bytes::new(bytes / messages.max(1)).to_string()
        ),
    )
}

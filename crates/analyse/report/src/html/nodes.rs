//! The nodes of a run, compared: who is unusual, a map with a cell per node, and the worst in a table.

use super::markup::{caption, cell, escape, number, section as in_section, table};
use crate::facts;
use crate::number::capitalised;
use idlewave_run::findings::{Estimate, NodeRank, NodesFindings};
use idlewave_units::show::{count_f64, digits, percent};
use idlewave_units::{Cpu, grouped};

/// Most nodes in the table.
const ROWS: usize = 20;

/// Sentences, map and table.
pub(super) fn section(found: &NodesFindings) -> String {
    let mut body = format!(
        "<p>{}.</p>\n",
        escape(&capitalised(&facts::nodes_total(found)))
    );
    let mut sentences = String::new();
    for node in found.outliers() {
        for reason in &node.reasons {
            let text = facts::node_reason(node, reason);
            sentences.push_str(&format!("<p class=\"alarm\">{}.</p>\n", escape(&text)));
        }
    }
    if sentences.is_empty() && found.comparisons > 0 {
        sentences = "<p>No node differs significantly from the others.</p>\n".to_owned();
    }
    body.push_str(&sentences);
    body.push_str(
        "<div class=\"figure\"><h3>Map of nodes \
         <select id=\"nodes-of\" aria-label=\"What the colour shows\">\
         <option value=\"worst_stolen\">stolen from the worst CPU</option>\
         <option value=\"stolen\">stolen, mean over the CPUs</option>\
         <option value=\"slower\">slowness of the slowest CPU</option></select> \
         <select id=\"nodes-by\" aria-label=\"Order\"><option value=\"name\">by name</option>\
         <option value=\"rank\">worst first</option></select></h3>\
         <canvas id=\"nodes-map\" tabindex=\"0\" role=\"img\" aria-label=\"Map of nodes\"></canvas>",
    );
    body.push_str(&caption(
        "One cell per node; a frame marks those that differ from their peers. Point at a cell to see its values.",
    ));
    body.push_str("</div>\n");
    let rows: String = found
        .ranked
        .iter()
        .take(ROWS)
        .enumerate()
        .map(|(i, n)| row(i, n))
        .collect();
    let header = [
        ("Node", "Name of the host"),
        ("Stolen", "Share of the time in detours, mean over the CPUs"),
        ("Detours/s", "Detours per second and CPU"),
        ("Worst CPU", "The CPU that loses most"),
        ("of it", "Share stolen from it"),
        (
            "Work slower",
            "Mean of the fixed work quantum over its undisturbed duration, less 1",
        ),
        (
            "Slowest CPU",
            "The CPU that takes longest for the same work",
        ),
        (
            "than peers",
            "How much longer than the median of its peers, interruptions left out",
        ),
        (
            "Distance",
            "Largest distance from the peers, in robust standard deviations",
        ),
    ];
    body.push_str(&table("sortable scroll", &header, &rows));
    let more = found.ranked.len().saturating_sub(ROWS);
    let more = match more {
        0 => String::new(),
        n => format!(
            " {} more nodes are in the map and in findings.json.",
            grouped(n as u64)
        ),
    };
    body.push_str(&caption(&format!(
        "{}.{more}",
        escape(&capitalised(&found.test))
    )));
    in_section("nodes", "Nodes", &body)
}

fn row(i: usize, node: &NodeRank) -> String {
    let dash = || cell(-1, "&ndash;");
    let share = |field: &str, of: &Option<Estimate>| {
        of.as_ref().map_or_else(dash, |e| {
            let path = format!("nodes.ranked.{i}.{field}.value");
            cell(e.value, &number(&path, e.value, &percent(e.value)))
        })
    };
    let cpu = |cpu: Option<Cpu>| cpu.map_or_else(dash, |cpu| cell(cpu, &cpu.to_string()));
    let rate = node.rate.as_ref().map_or_else(dash, |r| {
        let path = format!("nodes.ranked.{i}.rate.value");
        cell(r.value, &number(&path, r.value, &count_f64(r.value)))
    });
    let distance = node.distance.map_or_else(dash, |d| {
        cell(
            d,
            &number(&format!("nodes.ranked.{i}.distance"), d, &digits(d)),
        )
    });
    let name = escape(&node.name);
    let unusual = if node.reasons.is_empty() {
        ""
    } else {
        " &#9888;"
    };
    format!(
        "<tr><th scope=\"row\" data-key=\"{name}\">{name}{unusual}</th>{}{rate}{}{}{}{}{}{distance}</tr>\n",
        share("stolen", &node.stolen),
        cpu(node.worst_cpu),
        share("worst_stolen", &node.worst_stolen),
        share("slowdown", &node.slowdown),
        cpu(node.slowest_cpu),
        share("slower", &node.slower),
    )
}

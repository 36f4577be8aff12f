//! The summary of nodes that were compared with each other.

use crate::facts;
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_run::findings::{Estimate, NodeRank, NodesFindings};
use idlewave_units::show::{count_f64, digits, percent};
use idlewave_units::{Cpu, counted, grouped};

/// Most nodes with a row of their own.
const ROWS: usize = 10;
/// Most outliers with a sentence of their own.
const SENTENCES: usize = 10;

/// Ranking, outliers and their reasons, and what takes most from all nodes.
pub(super) fn nodes(screen: &mut Screen, found: &NodesFindings) {
    let cpus: u64 = found.ranked.iter().map(|n| u64::from(n.cpus)).sum();
    let count = found.ranked.len() as u64;
    screen.line(
        Style::Heading,
        &format!("NODES: {} with {} CPUs", grouped(count), grouped(cpus)),
    );
    screen.wrap(Style::Plain, "  ", &plain(&facts::nodes_total(found)));
    let outliers: Vec<&NodeRank> = found.outliers().collect();
    let reasons = outliers
        .iter()
        .flat_map(|n| n.reasons.iter().map(move |r| (n, r)));
    for (node, reason) in reasons.take(SENTENCES) {
        let text = facts::node_reason(node, reason);
        screen.wrap(Style::Alarm, "  ! ", &plain(&text));
    }
    if outliers.len() > SENTENCES {
        let more = outliers.len() - SENTENCES;
        screen.line(
            Style::Alarm,
            &format!("  ! and {}", counted(more, "more unusual node")),
        );
    }
    if outliers.is_empty() && found.comparisons > 0 {
        screen.line(
            Style::Plain,
            "  no node differs significantly from the others",
        );
    }
    let shown = found.ranked.len().min(ROWS);
    let (first, rest) = found.ranked.split_at(shown);
    let rows: Vec<Vec<String>> = first.iter().map(row).collect();
    let header = [
        "node",
        "stolen",
        "rate",
        "worst CPU",
        "of it",
        "slowest CPU",
        "slower",
        "distance",
    ];
    screen.table(&header, &rows);
    if let Some(text) = others(rest) {
        screen.wrap(Style::Plain, "  ", &text);
    }
    screen.wrap(Style::Quiet, "  ", &plain(&found.test));
}

fn row(node: &NodeRank) -> Vec<String> {
    let dash = || "-".to_owned();
    let cpu = |cpu: Option<Cpu>| cpu.map_or_else(dash, |c| c.to_string());
    let share = |e: &Option<Estimate>| e.as_ref().map_or_else(dash, |e| percent(e.value));
    let rate = node.rate.as_ref();
    vec![
        plain(&node.name),
        share(&node.stolen),
        rate.map_or_else(dash, |r| format!("{}/s", count_f64(r.value))),
        cpu(node.worst_cpu),
        share(&node.worst_stolen),
        cpu(node.slowest_cpu),
        share(&node.slower),
        node.distance.map_or_else(dash, digits),
    ]
}

/// The nodes without a row.
fn others(rest: &[NodeRank]) -> Option<String> {
    let stolen = rest
        .iter()
        .filter_map(|n| Some(n.worst_stolen.as_ref()?.value));
    let mut stolen: Vec<f64> = stolen.collect();
    stolen.sort_by(f64::total_cmp);
    let (least, most) = (stolen.first()?, stolen.last()?);
    Some(format!(
        "{} between {} and {} stolen from the worst CPU",
        counted(rest.len(), "other"),
        percent(*least),
        percent(*most)
    ))
}

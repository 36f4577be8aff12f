//! What all pictures of loads share: boxes of nodes, and colours and words for a utilisation.

use super::sheet::text;
use crate::number::short;
use crate::placement::NodeLoad;
use idlewave_units::counted;
use idlewave_units::show::percent;

/// Colour of a utilisation.
pub(super) fn tone(utilisation: f64) -> String {
    let part = 100.0 * known(utilisation).clamp(0.0, 1.0);
    format!("color-mix(in srgb, var(--alarm) {part:.0}%, var(--faint))")
}

/// An unknown utilisation gets no colour.
pub(super) fn known(utilisation: f64) -> f64 {
    if utilisation.is_finite() {
        utilisation
    } else {
        0.0
    }
}

pub(super) fn said(utilisation: f64) -> String {
    if utilisation.is_finite() {
        percent(utilisation)
    } else {
        "not known".to_owned()
    }
}

/// A box: one node, or all nodes of a leaf.
pub(super) struct Drawn {
    pub name: String,
    pub title: String,
    /// Adapter out, adapter in, memory.
    pub load: [f64; 3],
}

impl Drawn {
    /// A single node, or the number of nodes with the highest of their loads.
    pub fn of(nodes: &[&NodeLoad]) -> Self {
        if let [node] = nodes {
            return Drawn {
                name: text(&node.name),
                title: node_title(node),
                load: [node.out, node.into, node.memory],
            };
        }
        let most = |load: fn(&NodeLoad) -> f64| {
            let loads = nodes.iter().map(|n| known(load(n)));
            loads.fold(0.0, f64::max)
        };
        let load = [most(|n| n.out), most(|n| n.into), most(|n| n.memory)];
        let ranks: usize = nodes.iter().map(|n| n.ranks.len()).sum();
        Drawn {
            name: format!("x {}", short(nodes.len() as u64)),
            title: format!(
                "{}, {ranks}\nat most: adapter out {}, in {}\nmemory {}",
                counted(nodes.len(), "node"),
                said(load[0]),
                said(load[1]),
                said(load[2]),
                ranks = counted(ranks, "rank")
            ),
            load,
        }
    }
}

fn node_title(node: &NodeLoad) -> String {
    let ranks: Vec<String> = node.ranks.iter().take(24).map(u32::to_string).collect();
    let more = if node.ranks.len() > 24 { ", .." } else { "" };
    format!(
        "{}: {} ({}{more})\nadapter out {}, in {}\nmemory {}",
        text(&node.name),
        counted(node.ranks.len(), "rank"),
        ranks.join(", "),
        said(node.out),
        said(node.into),
        said(node.memory)
    )
}

/// A name cut to fit its box.
pub(super) fn cut(name: &str, most: usize) -> String {
    // Do not cut an escape in two.
    match name.len() <= most || name.contains('&') {
        true => name.to_owned(),
        false => format!(
            "..{}",
            name.chars()
                .skip(name.chars().count() - most + 2)
                .collect::<String>()
        ),
    }
}

pub(super) fn bytes(bytes: f64) -> String {
    match bytes.is_finite() && bytes >= 0.0 {
        true => idlewave_units::Bytes::new(bytes as u64).to_string(),
        false => "bytes not known".to_owned(),
    }
}

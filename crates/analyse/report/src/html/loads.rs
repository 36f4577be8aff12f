//! Picture of the loads under a placement: nodes below their switches, and links between switches,
//! as SVG.

use super::load_box::{Drawn, bytes, cut, known, said, tone};
use super::markup::absent;
use super::sheet::text;
use crate::placement::{LoadPicture, NodeLoad};
use idlewave_units::counted;
use std::collections::BTreeMap;

/// Most nodes drawn individually; if there are more, each leaf is one box.
const MOST_NODES: usize = 64;
/// Most leaves and link directions drawn: the busiest.
const MOST_LEAVES: usize = 64;
const MOST_LINKS: usize = 600;

const BOX: (f64, f64) = (46.0, 40.0);
const GAP: f64 = 6.0;
const BETWEEN: f64 = 22.0;
const LEVEL: f64 = 92.0;
/// How far a wide picture shrinks before it scrolls.
const SMALLEST: f64 = 0.62;
const SWITCH: (f64, f64) = (64.0, 24.0);

/// What the colours mean.
pub(super) fn legend() -> String {
    let entries: String = [0, 25, 50, 75, 100]
        .iter()
        .map(|p| {
            format!(
                "<span><i class=\"swatch\" style=\"background:{}\"></i>{p} %</span>",
                tone(f64::from(*p) / 100.0)
            )
        })
        .collect();
    format!("<p class=\"legend\">{entries}</p>\n")
}

/// The nodes below one switch, side by side.
struct Group {
    leaf: Option<usize>,
    boxes: Vec<Drawn>,
    /// The highest load of any adapter.
    busiest: f64,
}

impl Group {
    fn columns(&self) -> usize {
        let n = self.boxes.len();
        // Wider than tall.
        ((n as f64).sqrt().ceil() as usize)
            .clamp(1, 8)
            .max(n.div_ceil(6))
    }

    fn width(&self) -> f64 {
        let columns = self.columns() as f64;
        (columns * (BOX.0 + GAP) - GAP).max(SWITCH.0)
    }
}

/// The picture, with a note on what is left out.
pub(super) fn picture(picture: &LoadPicture, name: &str) -> String {
    if picture.nodes.is_empty() {
        return absent("No node has a rank.");
    }
    let mut notes = Vec::new();
    if picture.links.is_empty() && picture.switches.len() > 1 {
        notes.push("No link between switches is drawn: their capacity is not known.".to_owned());
    }
    if super::loads_grid::has(picture) {
        return super::loads_grid::draw(picture, name) + &noted(&notes);
    }
    let mut groups = groups(picture);
    if picture.nodes.len() > MOST_NODES {
        notes.push(format!(
            "{} are too many to draw: each box is all nodes of a switch, with their number, coloured by the busiest of them.",
            counted(picture.nodes.len(), "node")
        ));
    }
    if groups.len() > MOST_LEAVES {
        notes.push(format!(
            "Of {} with nodes the {MOST_LEAVES} busiest are drawn.",
            counted(groups.len(), "switch")
        ));
        let mut order: Vec<f64> = groups.iter().map(|g| g.busiest).collect();
        order.sort_by(|a, b| b.total_cmp(a));
        let least = order[MOST_LEAVES - 1];
        groups.retain(|g| g.busiest >= least);
        groups.truncate(MOST_LEAVES);
    }
    let (svg, left_out) = draw(picture, &groups, name);
    if left_out > 0 {
        notes.push(format!("{left_out} less busy links are left out."));
    }
    svg + &noted(&notes)
}

fn noted(notes: &[String]) -> String {
    let note = |note: &String| format!("<p class=\"note\">{note}</p>\n");
    notes.iter().map(note).collect()
}

fn groups(picture: &LoadPicture) -> Vec<Group> {
    let mut of: BTreeMap<usize, Vec<&NodeLoad>> = BTreeMap::new();
    // Nodes without a switch come last.
    let place = |n: &NodeLoad| {
        n.leaf
            .filter(|&l| l < picture.switches.len())
            .unwrap_or(usize::MAX)
    };
    for node in &picture.nodes {
        of.entry(place(node)).or_default().push(node);
    }
    let apart = picture.nodes.len() <= MOST_NODES;
    let group = |(leaf, nodes): (usize, Vec<&NodeLoad>)| {
        let most =
            |load: fn(&NodeLoad) -> f64| nodes.iter().map(|n| known(load(n))).fold(0.0, f64::max);
        let busiest = most(|n| known(n.out).max(known(n.into)));
        let boxes = match apart {
            true => nodes.iter().map(|n| Drawn::of(&[n])).collect(),
            false => vec![Drawn::of(&nodes)],
        };
        Group {
            leaf: (leaf != usize::MAX).then_some(leaf),
            boxes,
            busiest,
        }
    };
    of.into_iter().map(group).collect()
}

/// The picture, and how many links it leaves out.
fn draw(picture: &LoadPicture, groups: &[Group], name: &str) -> (String, usize) {
    let width = groups
        .iter()
        .map(|g| g.width() + BETWEEN)
        .sum::<f64>()
        .max(320.0);
    let top = picture
        .switches
        .iter()
        .map(|s| s.level)
        .max()
        .unwrap_or(0)
        .min(6);
    // Otherwise lines across a wide picture would be nearly horizontal.
    let step = LEVEL + 0.06 * (width - 900.0).clamp(0.0, 1800.0);
    let level_y = |level: u32| 24.0 + step * f64::from(top - level.min(top));
    // Boxes below their switch; switches without nodes are spread over the width of their level.
    let mut at: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut boxes = String::new();
    let total: f64 = groups.iter().map(|g| g.width() + BETWEEN).sum();
    let mut x = (width - total) / 2.0 + BETWEEN / 2.0;
    let mut bottom = level_y(0) + SWITCH.1;
    for group in groups {
        let level = group.leaf.map_or(0, |l| picture.switches[l].level);
        let (middle, under) = (
            x + group.width() / 2.0,
            level_y(level) + SWITCH.1 / 2.0 + 18.0,
        );
        if let Some(leaf) = group.leaf {
            at.insert(leaf, (middle, level_y(level)));
            let y = under - 18.0;
            boxes.push_str(&format!(
                "<path class=\"stem\" d=\"M{middle:.1} {y:.1}v14\"/>"
            ));
        }
        let columns = group.columns();
        let inset =
            (group.width() - (columns.min(group.boxes.len()) as f64 * (BOX.0 + GAP) - GAP)) / 2.0;
        for (i, drawn) in group.boxes.iter().enumerate() {
            let (column, row) = ((i % columns) as f64, (i / columns) as f64);
            let (bx, by) = (
                x + inset + column * (BOX.0 + GAP),
                under + row * (BOX.1 + GAP),
            );
            boxes.push_str(&node(drawn, bx, by));
            bottom = bottom.max(by + BOX.1);
        }
        x += group.width() + BETWEEN;
    }
    for level in 0..=top {
        let of = |(i, s): (usize, &crate::placement::SwitchSheet)| {
            (s.level.min(top) == level).then_some(i)
        };
        let all: Vec<usize> = picture.switches.iter().enumerate().filter_map(of).collect();
        // A switch of the lowest level not placed yet has no nodes with ranks, or is a leaf left
        // out.
        let free: Vec<usize> = all
            .into_iter()
            .filter(|i| level > 0 && !at.contains_key(i))
            .collect();
        for (place, i) in free.iter().enumerate() {
            let x = width * (place as f64 + 0.5) / free.len() as f64;
            at.insert(*i, (x, level_y(level)));
        }
    }
    let (links, left_out) = links(picture, &at);
    let switches: String = at
        .iter()
        .map(|(&i, &(x, y))| {
            format!(
                "<g data-tip><rect class=\"switch\" x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" rx=\"4\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\">{}</text><title>switch {}</title></g>",
                x - SWITCH.0 / 2.0,
                y - SWITCH.1 / 2.0,
                SWITCH.0,
                SWITCH.1,
                y + 4.0,
                cut(&text(&picture.switches[i].name), 10),
                text(&picture.switches[i].name)
            )
        })
        .collect();
    let height = bottom + 10.0;
    let svg = format!(
        "<div class=\"figure drawn\"><svg class=\"loads\" role=\"img\" aria-label=\"{name}: loads\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         style=\"min-width:{:.0}px;max-width:{width:.0}px\">{links}{switches}{boxes}</svg></div>\n",
        width * SMALLEST
    );
    (svg, left_out)
}

fn node(drawn: &Drawn, x: f64, y: f64) -> String {
    let half = (BOX.1 - 8.0) / 2.0;
    let part = |load: f64, top: f64, height: f64| {
        format!(
            "<rect style=\"fill:{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{height:.1}\"/>",
            tone(load),
            BOX.0
        )
    };
    // The label lies on both halves.
    let class = if known(drawn.load[0]).max(known(drawn.load[1])) > 0.55 {
        "on"
    } else {
        "off"
    };
    format!(
        "<g data-tip>{}{}<rect class=\"rim\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{}\" height=\"6\"/>\
         <rect class=\"memory\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"6\"/>\
         <rect class=\"rim\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{}\" height=\"{:.1}\"/>\
         <text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text><title>{}</title></g>",
        part(drawn.load[0], y, half),
        part(drawn.load[1], y + half, half),
        y + BOX.1 - 6.0,
        BOX.0,
        y + BOX.1 - 6.0,
        BOX.0 * known(drawn.load[2]).clamp(0.0, 1.0),
        BOX.0,
        2.0 * half,
        x + BOX.0 / 2.0,
        y + half + 4.0,
        cut(&drawn.name, 8),
        drawn.title
    )
}

fn links(picture: &LoadPicture, at: &BTreeMap<usize, (f64, f64)>) -> (String, usize) {
    let mut drawn: Vec<_> = picture
        .links
        .iter()
        .filter_map(|l| Some((l, *at.get(&l.from)?, *at.get(&l.to)?)))
        .filter(|(l, ..)| l.from != l.to)
        .collect();
    // The busiest are drawn last, on top.
    drawn.sort_by(|a, b| known(a.0.utilisation).total_cmp(&known(b.0.utilisation)));
    let shown = &drawn[drawn.len().saturating_sub(MOST_LINKS)..];
    // Idle links do not count as left out.
    let busy = |link: &&crate::placement::LinkLoad| link.from != link.to && link.bytes > 0.0;
    let drawn_busy = shown.iter().filter(|(link, ..)| busy(link)).count();
    let left_out = picture.links.iter().filter(busy).count() - drawn_busy;
    let line = |(link, a, b): &(&crate::placement::LinkLoad, (f64, f64), (f64, f64))| {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy).max(1.0);
        // Each direction on its own side.
        let (ox, oy) = (-dy / length * 3.0, dx / length * 3.0);
        // On one level a straight line would cross the switches between.
        let bend = if dy.abs() < 1.0 {
            -0.18 * length.min(260.0) - 12.0
        } else {
            0.0
        };
        let used = known(link.utilisation);
        let name = |i: usize| text(&picture.switches[i].name);
        format!(
            "<path data-tip class=\"link\" style=\"stroke:{}\" stroke-width=\"{:.1}\" d=\"M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}\"><title>{} to \
             {}\n{} in use, {}</title></path>",
            tone(0.12 + 0.88 * used),
            1.2 + 4.0 * used.clamp(0.0, 1.0),
            a.0 + ox,
            a.1 + oy,
            (a.0 + b.0) / 2.0 + ox,
            (a.1 + b.1) / 2.0 + oy + bend,
            b.0 + ox,
            b.1 + oy,
            name(link.from),
            name(link.to),
            said(link.utilisation),
            bytes(link.bytes)
        )
    };
    (shown.iter().map(line).collect(), left_out)
}

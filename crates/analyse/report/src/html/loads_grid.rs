//! Picture of the loads of a torus, a mesh or a dragonfly: switches at their coordinates.

use super::load_box::{Drawn, bytes, cut, known, said, tone};
use super::sheet::text;
use crate::placement::{LinkLoad, LoadPicture, NodeLoad};
use std::collections::BTreeMap;

/// Most switches drawn at their coordinates; if there are more, the busiest are drawn as in a tree.
const MOST_SWITCHES: usize = 1_024;

/// Room per switch: the widest that fits is used. `GAP` is the share of it that separates switches.
const PITCHES: [f64; 3] = [64.0, 40.0, 26.0];
const GAP: f64 = 0.22;
/// Width of a picture on a page that is not narrow, and the height it should not exceed.
const ROOM: (f64, f64) = (1040.0, 900.0);
/// Room above each plane.
const TITLE: f64 = 20.0;
/// Most links listed in a title.
const MOST_LISTED: usize = 8;

/// Whether all switches have coordinates and are few enough.
pub(super) fn has(picture: &LoadPicture) -> bool {
    let switches = &picture.switches;
    let dims = switches.first().map_or(0, |s| s.at.len());
    let in_range = |s: &crate::placement::SwitchSheet| {
        s.at.len() == dims && s.at.iter().all(|&x| (x as usize) < MOST_SWITCHES)
    };
    dims > 0 && switches.len() <= MOST_SWITCHES && switches.iter().all(in_range)
}

/// Columns and rows of a plane, and the places of planes and switches.
struct Grid {
    columns: f64,
    rows: f64,
    pitch: f64,
    /// Coordinates of each plane beyond the first two, in order.
    planes: Vec<Vec<u32>>,
    /// Planes side by side.
    beside: usize,
}

impl Grid {
    fn of(picture: &LoadPicture) -> Self {
        let size = |d: usize| {
            let at = picture.switches.iter().filter_map(|s| s.at.get(d));
            f64::from(at.max().map_or(1, |most| most + 1))
        };
        let further = |at: &[u32]| at.iter().skip(2).copied().collect::<Vec<u32>>();
        let mut planes: Vec<Vec<u32>> = picture.switches.iter().map(|s| further(&s.at)).collect();
        // The last dimension varies slowest.
        planes.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        planes.dedup();
        let mut grid = Grid {
            columns: size(0),
            rows: size(1),
            pitch: PITCHES[0],
            planes,
            beside: 1,
        };
        for pitch in PITCHES {
            grid.pitch = pitch;
            let fits = (ROOM.0 / grid.plane().0).floor().max(1.0) as usize;
            grid.beside = fits.min(grid.planes.len());
            let (width, height) = grid.size();
            if width <= ROOM.0 && height <= ROOM.1 {
                break;
            }
        }
        grid
    }

    fn plane(&self) -> (f64, f64) {
        (
            (self.columns + 0.5) * self.pitch,
            (self.rows + 0.3) * self.pitch + TITLE,
        )
    }

    fn size(&self) -> (f64, f64) {
        let (width, height) = self.plane();
        let below = self.planes.len().div_ceil(self.beside);
        (width * self.beside as f64, height * below as f64)
    }

    fn corner(&self, plane: usize) -> (f64, f64) {
        let (width, height) = self.plane();
        let (x, y) = (plane % self.beside, plane / self.beside);
        (x as f64 * width, y as f64 * height + TITLE)
    }

    /// The centre of a switch.
    fn middle(&self, at: &[u32]) -> (f64, f64) {
        let plane = self
            .planes
            .iter()
            .position(|p| at.get(2..).unwrap_or(&[]) == p);
        let (x, y) = self.corner(plane.unwrap_or(0));
        let place = |d: usize| f64::from(at.get(d).copied().unwrap_or(0)) + 0.5;
        (x + place(0) * self.pitch, y + place(1) * self.pitch)
    }
}

/// Whether two switches are adjacent in the picture.
fn beside(a: &[u32], b: &[u32]) -> bool {
    let apart = |(d, (&a, &b)): (usize, (&u32, &u32))| match d {
        0 | 1 => a.abs_diff(b),
        // In another plane.
        _ => 2 * a.abs_diff(b).min(1),
    };
    a.iter().zip(b).enumerate().map(apart).sum::<u32>() == 1
}

/// The picture of a placement on switches with coordinates.
pub(super) fn draw(picture: &LoadPicture, name: &str) -> String {
    let grid = Grid::of(picture);
    let mut nodes: BTreeMap<usize, Vec<&NodeLoad>> = BTreeMap::new();
    for node in &picture.nodes {
        nodes
            .entry(node.leaf.unwrap_or(usize::MAX))
            .or_default()
            .push(node);
    }
    let mut elsewhere: BTreeMap<usize, Vec<&LinkLoad>> = BTreeMap::new();
    let mut lines = String::new();
    for link in &picture.links {
        let ends = (
            picture.switches.get(link.from),
            picture.switches.get(link.to),
        );
        let (Some(from), Some(to)) = ends else {
            continue;
        };
        match beside(&from.at, &to.at) {
            true => lines.push_str(&line(
                picture,
                link,
                [&from.at, &to.at].map(|at| grid.middle(at)),
                grid.pitch,
            )),
            false => elsewhere.entry(link.from).or_default().push(link),
        }
    }
    let mut out = lines;
    for (place, plane) in grid.planes.iter().enumerate().filter(|p| !p.1.is_empty()) {
        let (x, y) = grid.corner(place);
        let shown: Vec<String> = plane.iter().map(u32::to_string).collect();
        out.push_str(&format!(
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">plane {}</text>",
            x + grid.columns * grid.pitch / 2.0,
            y - 4.0,
            shown.join("-")
        ));
    }
    for (index, switch) in picture.switches.iter().enumerate() {
        let drawn = nodes.get(&index).map(|nodes| Drawn::of(nodes));
        let middle = grid.middle(&switch.at);
        out.push_str(&cell(&text(&switch.name), drawn, middle, grid.pitch));
        if let Some(links) = elsewhere.get(&index) {
            out.push_str(&mark(picture, links, middle, grid.pitch));
        }
    }
    let (width, height) = grid.size();
    format!(
        "<div class=\"figure drawn\"><svg class=\"loads\" role=\"img\" aria-label=\"{name}: loads\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         style=\"min-width:{:.0}px;max-width:{width:.0}px\">{out}</svg></div>\n",
        width * 0.62
    )
}

/// A switch with its nodes, or an empty frame.
fn cell(switch: &str, drawn: Option<Drawn>, (x, y): (f64, f64), pitch: f64) -> String {
    let side = pitch * (1.0 - GAP);
    let (left, top) = (x - side / 2.0, y - side / 2.0);
    let frame = format!(
        "<rect class=\"switch\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side:.1}\" height=\"{side:.1}\"/>"
    );
    let Some(drawn) = drawn else {
        return format!("<g data-tip>{frame}<title>{switch}: no rank</title></g>");
    };
    let strip = 0.15 * side;
    let half = (side - strip) / 2.0;
    let part = |load: f64, y: f64| {
        let fill = tone(load);
        format!(
            "<rect style=\"fill:{fill}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{side:.1}\" height=\"{half:.1}\"/>"
        )
    };
    let [out, into, memory] = drawn.load;
    let letters = if known(out).max(known(into)) > 0.55 {
        "on"
    } else {
        "off"
    };
    let label = match pitch == PITCHES[0] {
        true => format!(
            "<text class=\"{letters}\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            top + half + 4.0,
            cut(&drawn.name, 8)
        ),
        false => String::new(),
    };
    format!(
        "<g data-tip>{frame}{}{}<rect class=\"memory\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{strip:.1}\"/>{label}\
         <title>{switch}\n{}</title></g>",
        part(out, top),
        part(into, top + half),
        top + 2.0 * half,
        side * known(memory).clamp(0.0, 1.0),
        drawn.title
    )
}

fn said_of(picture: &LoadPicture, link: &LinkLoad) -> String {
    let name = |i: usize| text(&picture.switches[i].name);
    format!(
        "{} to {}: {} in use, {}",
        name(link.from),
        name(link.to),
        said(link.utilisation),
        bytes(link.bytes)
    )
}

/// One direction of a link between adjacent switches, on its own side.
fn line(picture: &LoadPicture, link: &LinkLoad, [a, b]: [(f64, f64); 2], pitch: f64) -> String {
    let length = (b.0 - a.0).hypot(b.1 - a.1).max(1.0);
    let (x, y) = (
        (a.1 - b.1) / length * pitch / 16.0,
        (b.0 - a.0) / length * pitch / 16.0,
    );
    format!(
        "<path data-tip class=\"link\" style=\"stroke:{}\" stroke-width=\"{:.1}\" d=\"M{:.1} {:.1}L{:.1} {:.1}\"><title>{}</title></path>",
        tone(0.12 + 0.88 * known(link.utilisation)),
        pitch / 32.0 + pitch / 16.0 * known(link.utilisation).clamp(0.0, 1.0),
        a.0 + x,
        a.1 + y,
        b.0 + x,
        b.1 + y,
        said_of(picture, link)
    )
}

/// The links of a switch to non-adjacent ones, as one mark in its corner, coloured by the busiest.
fn mark(picture: &LoadPicture, links: &[&LinkLoad], (x, y): (f64, f64), pitch: f64) -> String {
    let mut links = links.to_vec();
    links.sort_by(|a, b| known(b.utilisation).total_cmp(&known(a.utilisation)));
    let busiest = links.first().map_or(0.0, |l| known(l.utilisation));
    let mut said: Vec<String> = links
        .iter()
        .take(MOST_LISTED)
        .map(|l| said_of(picture, l))
        .collect();
    if links.len() > MOST_LISTED {
        said.push(format!("{} more", links.len() - MOST_LISTED));
    }
    let gap = pitch * GAP;
    let (right, top) = (x + (pitch - gap) / 2.0, y - (pitch - gap) / 2.0);
    format!(
        "<path data-tip class=\"elsewhere\" style=\"fill:{}\" d=\"M{:.1} {:.1}h{gap:.1}v{gap:.1}z\"><title>{}</title></path>",
        tone(0.12 + 0.88 * busiest),
        right - gap / 2.0,
        top - gap / 2.0,
        said.join("\n")
    )
}

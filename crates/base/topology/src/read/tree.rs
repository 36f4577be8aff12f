//! Switches with children, as Slurm describes them: checked and converted to a topology.

use crate::hostlist;
use crate::model::{Cable, Node, NodeIndex, Switch, SwitchIndex, Vertex};
use crate::read::ReadError;
use crate::topology::{MAX_NODES, MAX_SWITCHES, Topology, count};
use idlewave_units::BytesPerSecond;
use idlewave_units::foreign::cut;
use std::collections::HashMap;

/// Most names of a cycle in a message.
const MOST_NAMES: usize = 8;

/// A switch with the lists of its children.
#[derive(Clone, Debug, Default)]
pub(super) struct Parent {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) nodes: String,
    pub(super) switches: String,
    /// Capacity of the cables to its children.
    pub(super) capacity: Option<BytesPerSecond>,
}

/// Names in a list of a line; none if it is empty.
pub(super) fn expand(line: usize, list: &str) -> Result<Vec<String>, ReadError> {
    match list.trim().is_empty() {
        true => Ok(Vec::new()),
        false => hostlist::expand(list).map_err(|source| ReadError::Hostlist { line, source }),
    }
}

/// The parent of each child: line and name.
type Parents<'a> = HashMap<String, (usize, &'a str)>;

/// Builds a topology of switches with at most one parent each.
pub(super) fn topology(parents: &[Parent]) -> Result<Topology, ReadError> {
    count("switches", parents.len() as u64, 0, MAX_SWITCHES as u64)?;
    let mut places = HashMap::with_capacity(parents.len());
    for (place, parent) in parents.iter().enumerate() {
        if let Some(first) = places.insert(parent.name.as_str(), place) {
            return Err(ReadError::Repeated {
                line: parent.line,
                what: "switch",
                name: parent.name.clone(),
                first: parents[first].line,
            });
        }
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut cables = Vec::new();
    let mut above: Vec<Option<usize>> = vec![None; parents.len()];
    let mut seen = Parents::new();
    for (place, parent) in parents.iter().enumerate() {
        let up = Vertex::Switch(SwitchIndex::new(place));
        let mut cable = |down| {
            cables.push(Cable {
                capacity: parent.capacity,
                ..Cable::new(down, up)
            });
        };
        for name in expand(parent.line, &parent.nodes)? {
            adopt(&mut seen, parent, &name)?;
            cable(Vertex::Node(NodeIndex::new(nodes.len())));
            nodes.push(Node::new(name));
            count("nodes", nodes.len() as u64, 1, MAX_NODES as u64)?;
        }
        for name in expand(parent.line, &parent.switches)? {
            let Some(child) = places.get(name.as_str()).copied() else {
                return Err(ReadError::UnknownChild {
                    line: parent.line,
                    parent: parent.name.clone(),
                    name,
                });
            };
            if child == place {
                let line = parent.line;
                return Err(ReadError::Ancestor { line, name });
            }
            adopt(&mut seen, parent, &name)?;
            above[child] = Some(place);
            cable(Vertex::Switch(SwitchIndex::new(child)));
        }
    }
    if nodes.is_empty() {
        return Err(ReadError::Nothing { what: "any node" });
    }
    let levels = heights(parents, &above)?;
    let switch = |(parent, level): (&Parent, u32)| Switch {
        name: parent.name.clone(),
        level: Some(level),
    };
    let switches = parents.iter().zip(levels).map(switch).collect();
    Ok(Topology::from_cables(nodes, switches, &cables)?)
}

fn adopt<'a>(seen: &mut Parents<'a>, parent: &'a Parent, name: &str) -> Result<(), ReadError> {
    match seen.insert(name.to_owned(), (parent.line, &parent.name)) {
        None => Ok(()),
        Some((first, other)) if other == parent.name => Err(ReadError::Repeated {
            line: parent.line,
            what: "child",
            name: name.to_owned(),
            first,
        }),
        Some((_, other)) => Err(ReadError::TwoParents {
            line: parent.line,
            name: name.to_owned(),
            first: other.to_owned(),
            second: parent.name.clone(),
        }),
    }
}

/// 1 for a switch without switches below it, otherwise one more than the highest of those.
fn heights(parents: &[Parent], above: &[Option<usize>]) -> Result<Vec<u32>, ReadError> {
    let mut children = vec![0usize; parents.len()];
    for parent in above.iter().flatten() {
        children[*parent] += 1;
    }
    let mut levels = vec![1; parents.len()];
    let mut ready: Vec<usize> = (0..parents.len()).filter(|s| children[*s] == 0).collect();
    let mut done = 0;
    while let Some(switch) = ready.pop() {
        done += 1;
        if let Some(parent) = above[switch] {
            levels[parent] = levels[parent].max(levels[switch] + 1);
            children[parent] -= 1;
            if children[parent] == 0 {
                ready.push(parent);
            }
        }
    }
    // A switch that never gets ready is in a cycle, or above one.
    match children
        .iter()
        .position(|c| *c > 0)
        .filter(|_| done < parents.len())
    {
        None => Ok(levels),
        Some(first) => Err(circle(parents, above, first)),
    }
}

/// The cycle above a switch whose path upwards does not end.
fn circle(parents: &[Parent], above: &[Option<usize>], from: usize) -> ReadError {
    let up = |switch: usize| above[switch].unwrap_or(switch);
    // It is reached after at most as many steps as there are switches.
    let inside = (0..parents.len()).fold(from, |switch, _| up(switch));
    let mut all = vec![inside];
    let mut next = up(inside);
    while next != inside {
        all.push(next);
        next = up(next);
    }
    // From the top down, starting with the one that the file defines first.
    all.reverse();
    let first = (0..all.len()).min_by_key(|&at| all[at]).unwrap_or(0);
    all.rotate_left(first);
    let name = |&switch: &usize| cut(&parents[switch].name);
    let mut circle: Vec<String> = all.iter().take(MOST_NAMES).map(name).collect();
    if all.len() > MOST_NAMES {
        circle.push("...".to_owned());
    }
    circle.push(name(&all[0]));
    let line = parents[all[0]].line;
    ReadError::Circle { line, circle }
}

//! A directed graph: strongly connected components (Tarjan 1972), and the shortest cycle inside
//! them.

use std::collections::VecDeque;

/// Edges by node.
pub(super) struct Graph {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

/// A component of each node, numbered so that edges between components lead to lower numbers.
pub(super) struct Components {
    pub(super) of: Vec<u32>,
    pub(super) count: usize,
}

impl Graph {
    /// From pairs, in any order.
    pub(super) fn new(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        let mut offsets = vec![0; nodes + 1];
        for (from, _) in edges {
            offsets[*from as usize + 1] += 1;
        }
        for at in 0..nodes {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0; edges.len()];
        for (from, to) in edges {
            let at = &mut next[*from as usize];
            targets[*at] = *to;
            *at += 1;
        }
        Graph { offsets, targets }
    }

    /// Where the edges of a node lead.
    pub(super) fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    fn nodes(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Strongly connected components, without recursion.
    pub(super) fn components(&self) -> Components {
        let nodes = self.nodes();
        let mut found: Components = Components {
            of: vec![0; nodes],
            count: 0,
        };
        // 0: not seen yet.
        let mut seen = vec![0_u32; nodes];
        let mut low = vec![0_u32; nodes];
        let mut open = vec![false; nodes];
        let mut stack = Vec::new();
        let mut path: Vec<(u32, usize)> = Vec::new();
        let mut time = 0;
        for start in 0..nodes as u32 {
            if seen[start as usize] != 0 {
                continue;
            }
            path.push((start, 0));
            while let Some((node, edge)) = path.pop() {
                let at = node as usize;
                if edge == 0 {
                    time += 1;
                    seen[at] = time;
                    low[at] = time;
                    open[at] = true;
                    stack.push(node);
                } else {
                    let child = self.of(node)[edge - 1] as usize;
                    if open[child] {
                        low[at] = low[at].min(low[child]);
                    }
                }
                if let Some(next) = self.of(node).get(edge) {
                    path.push((node, edge + 1));
                    if seen[*next as usize] == 0 {
                        path.push((*next, 0));
                    }
                    continue;
                }
                if low[at] == seen[at] {
                    while let Some(member) = stack.pop() {
                        open[member as usize] = false;
                        found.of[member as usize] = found.count as u32;
                        if member == node {
                            break;
                        }
                    }
                    found.count += 1;
                }
            }
        }
        found
    }

    /// A cycle with the fewest of the first `counted` nodes, starting at its lowest one; and
    /// whether no smaller one exists. Examines at most `budget` edges after finding the first
    /// cycle. `None`: no cycle.
    pub(super) fn shortest_cycle(&self, counted: usize, budget: usize) -> Option<(Vec<u32>, bool)> {
        let components = self.components();
        let mut best: Option<Vec<u32>> = None;
        let mut left = budget;
        let mut parent = vec![None; self.nodes()];
        let mut touched = Vec::new();
        for start in 0..counted as u32 {
            let limit = best.as_ref().map(Vec::len);
            if limit == Some(1) {
                break;
            }
            if limit.is_some() && left == 0 {
                return best.map(|cycle| (turned(cycle), false));
            }
            let cycle = self.cycle_through(
                start,
                counted,
                &components,
                limit,
                &mut left,
                &mut parent,
                &mut touched,
            );
            for node in touched.drain(..) {
                parent[node as usize] = None;
            }
            best = cycle.or(best);
        }
        best.map(|cycle| (turned(cycle), true))
    }

    #[expect(clippy::too_many_arguments, reason = "buffers are kept between calls")]
    fn cycle_through(
        &self,
        start: u32,
        counted: usize,
        components: &Components,
        limit: Option<usize>,
        left: &mut usize,
        parent: &mut [Option<(u32, usize)>],
        touched: &mut Vec<u32>,
    ) -> Option<Vec<u32>> {
        let mut queue = VecDeque::from([(start, 1_usize)]);
        while let Some((node, length)) = queue.pop_front() {
            // Reached again by a shorter path since.
            if node != start && parent[node as usize].is_some_and(|(_, known)| known < length) {
                continue;
            }
            for next in self.of(node) {
                *left = left.saturating_sub(1);
                if *next == start {
                    let mut cycle = Vec::with_capacity(length);
                    let mut at = node;
                    while at != start {
                        if (at as usize) < counted {
                            cycle.push(at);
                        }
                        at = parent[at as usize]?.0;
                    }
                    cycle.push(start);
                    cycle.reverse();
                    return Some(cycle);
                }
                if components.of[*next as usize] != components.of[start as usize] {
                    continue;
                }
                let cost = usize::from((*next as usize) < counted);
                let reached = length + cost;
                if limit.is_some_and(|best| reached >= best) {
                    continue;
                }
                match parent[*next as usize] {
                    Some((_, known)) if known <= reached => continue,
                    Some(_) => {}
                    None => touched.push(*next),
                }
                parent[*next as usize] = Some((node, reached));
                if cost == 0 {
                    queue.push_front((*next, reached));
                } else {
                    queue.push_back((*next, reached));
                }
            }
        }
        None
    }
}

/// The same cycle from its lowest node.
fn turned(mut cycle: Vec<u32>) -> Vec<u32> {
    if let Some(lowest) = (0..cycle.len()).min_by_key(|at| cycle[*at]) {
        cycle.rotate_left(lowest);
    }
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_those_of_two_cycles_and_a_bridge() {
        let graph = Graph::new(6, &[(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 2), (5, 5)]);
        let found = graph.components();
        assert_eq!(found.count, 3);
        assert_eq!(found.of[0], found.of[1]);
        assert_eq!(found.of[2], found.of[3]);
        assert_eq!(found.of[2], found.of[4]);
        assert!(found.of[2] < found.of[0], "the bridge leads downwards");
    }

    #[test]
    fn the_shortest_of_several_cycles_is_found() {
        // 0-1-2-3-0 has four, 2-4-2 has two.
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 2)];
        assert_eq!(
            Graph::new(5, &edges).shortest_cycle(5, 1000),
            Some((vec![2, 4], true))
        );
        assert_eq!(
            Graph::new(5, &edges).shortest_cycle(5, 0),
            Some((vec![0, 1, 2, 3], false))
        );
    }

    #[test]
    fn nodes_that_are_not_counted_make_no_cycle_longer() {
        // Through 3, 4, 5 (not counted) there are two ranks; directly there are three.
        let edges = [
            (0, 1),
            (1, 2),
            (2, 0),
            (0, 3),
            (3, 4),
            (4, 5),
            (5, 2),
            (2, 4),
        ];
        assert_eq!(
            Graph::new(6, &edges).shortest_cycle(3, 1000),
            Some((vec![2], true)),
            "2 -> 4 -> 5 -> 2"
        );
        let edges = [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 5), (5, 2)];
        assert_eq!(
            Graph::new(6, &edges).shortest_cycle(3, 1000),
            Some((vec![0, 2], true))
        );
    }

    #[test]
    fn without_a_cycle_there_is_none() {
        let graph = Graph::new(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]);
        assert_eq!(graph.shortest_cycle(4, 1000), None);
        assert_eq!(graph.components().count, 4);
    }
}

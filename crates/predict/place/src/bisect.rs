//! Splits a graph into two parts of exact sizes with little communication between them.
//!
//! There are two starts: the ranks in order, and a part grown from a peripheral rank by adding the
//! rank most attached to it. Both are refined by moves back and forth between the parts, best
//! first, each rank once per pass, keeping the best prefix (B. Kernighan, S. Lin, "An efficient
//! heuristic procedure for partitioning graphs", 1970, with the single moves of C. Fiduccia, R.
//! Mattheyses, "A linear-time heuristic for improving network partitions", 1982); the better result
//! is taken. A heap replaces their buckets, as weights are bytes. Cost of a pass: each edge is
//! visited a few times, O(E log E).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A graph in rows: each edge is in the rows of both its ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub starts: Vec<u32>,
    pub edges: Vec<(u32, i64)>,
}

/// Passes of refinement: most of the gain comes from the first two.
const PASSES: usize = 3;

/// Moves without gain after which a pass ends.
const PATIENCE: usize = 64;

/// Whether each vertex is in the first part, with the state of a refinement pass.
pub(crate) struct Bisection {
    pub first: Vec<bool>,
    gains: Vec<i64>,
    locked: Vec<bool>,
    heaps: [BinaryHeap<(i64, Reverse<u32>)>; 2],
}

impl Graph {
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub fn row(&self, vertex: usize) -> &[(u32, i64)] {
        &self.edges[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// Weight of the edges between the parts.
    pub fn cut(&self, first: &[bool]) -> i64 {
        let row = |v: usize| {
            let others = self
                .row(v)
                .iter()
                .filter(move |e| first[v] && !first[e.0 as usize]);
            others.map(|e| e.1).sum::<i64>()
        };
        (0..self.len()).map(row).sum()
    }

    /// The part grown from the rim.
    fn grown(&self, size: usize) -> Vec<bool> {
        let mut first = vec![false; self.len()];
        let mut gains: Vec<i64> = (0..self.len())
            .map(|v| -self.row(v).iter().map(|e| e.1).sum::<i64>())
            .collect();
        let mut heap: BinaryHeap<(i64, Reverse<u32>)> = BinaryHeap::new();
        let mut untouched = 0;
        let mut seed = Some(self.rim());
        for _ in 0..size {
            let fresh =
                |&(gain, Reverse(v)): &(i64, Reverse<u32>), first: &[bool], gains: &[i64]| {
                    !first[v as usize] && gains[v as usize] == gain
                };
            let next = loop {
                match heap.pop() {
                    Some(top) if fresh(&top, &first, &gains) => break Some(top.1.0 as usize),
                    Some(_) => {}
                    None => break None,
                }
            };
            let next = next
                .or(seed.take().filter(|&v| !first[v]))
                .unwrap_or_else(|| {
                    while first[untouched] {
                        untouched += 1;
                    }
                    untouched
                });
            first[next] = true;
            for &(other, weight) in self.row(next) {
                if !first[other as usize] {
                    gains[other as usize] += 2 * weight;
                    heap.push((gains[other as usize], Reverse(other)));
                }
            }
        }
        first
    }

    /// The last vertex of a breadth-first search from the first one.
    fn rim(&self) -> usize {
        let mut seen = vec![false; self.len()];
        let mut queue = vec![0];
        let mut at = 0;
        if let Some(first) = seen.first_mut() {
            *first = true;
        }
        while at < queue.len() {
            for &(other, _) in self.row(queue[at]) {
                if !std::mem::replace(&mut seen[other as usize], true) {
                    queue.push(other as usize);
                }
            }
            at += 1;
        }
        queue.last().copied().unwrap_or(0)
    }

    /// Splits off this many vertices, at most all.
    pub fn bisect(&self, size: usize) -> Vec<bool> {
        let in_order: Vec<bool> = (0..self.len()).map(|v| v < size).collect();
        if size == 0 || size >= self.len() {
            return in_order;
        }
        let refined = [in_order, self.grown(size)].map(|start| self.refined(start));
        let [a, b] = refined;
        match self.cut(&b) < self.cut(&a) {
            true => b,
            false => a,
        }
    }

    /// Refines in passes for as long as they gain something.
    fn refined(&self, first: Vec<bool>) -> Vec<bool> {
        let mut bisection = Bisection {
            gains: vec![0; first.len()],
            locked: vec![false; first.len()],
            first,
            heaps: [BinaryHeap::new(), BinaryHeap::new()],
        };
        for _ in 0..PASSES {
            if !bisection.pass(self) {
                break;
            }
        }
        bisection.first
    }
}

impl Bisection {
    /// One pass of exchanges; returns whether it gained anything.
    fn pass(&mut self, graph: &Graph) -> bool {
        self.heaps.iter_mut().for_each(BinaryHeap::clear);
        self.locked.fill(false);
        for vertex in 0..graph.len() {
            let mut gain = 0;
            for &(other, weight) in graph.row(vertex) {
                let inside = self.first[other as usize] == self.first[vertex];
                gain += if inside { -weight } else { weight };
            }
            self.gains[vertex] = gain;
            let side = usize::from(!self.first[vertex]);
            self.heaps[side].push((gain, Reverse(vertex as u32)));
        }
        let mut moved = Vec::new();
        let (mut gained, mut best, mut kept) = (0, 0, 0);
        while moved.len() < kept + 2 * PATIENCE {
            let (Some(a), gain_a) = self.take(0, graph) else {
                break;
            };
            moved.push(a);
            let (Some(b), gain_b) = self.take(1, graph) else {
                break;
            };
            moved.push(b);
            gained += gain_a + gain_b;
            if gained > best {
                (best, kept) = (gained, moved.len());
            }
        }
        for &vertex in &moved[kept..] {
            self.first[vertex] = !self.first[vertex];
        }
        best > 0
    }

    /// Moves the best vertex of a side to the other one.
    fn take(&mut self, side: usize, graph: &Graph) -> (Option<usize>, i64) {
        while let Some((gain, Reverse(vertex))) = self.heaps[side].pop() {
            let vertex = vertex as usize;
            if self.locked[vertex] || self.gains[vertex] != gain {
                continue;
            }
            self.locked[vertex] = true;
            self.first[vertex] = !self.first[vertex];
            for &(other, weight) in graph.row(vertex) {
                let at = other as usize;
                if self.locked[at] {
                    continue;
                }
                let together = self.first[at] == self.first[vertex];
                self.gains[at] += if together { -2 * weight } else { 2 * weight };
                let side = usize::from(!self.first[at]);
                self.heaps[side].push((self.gains[at], Reverse(other)));
            }
            return (Some(vertex), gain);
        }
        (None, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn graph(vertices: usize, edges: &[(u32, u32, i64)]) -> Graph {
        let mut rows = vec![Vec::new(); vertices];
        for &(a, b, weight) in edges {
            rows[a as usize].push((b, weight));
            rows[b as usize].push((a, weight));
        }
        let mut graph = Graph {
            starts: vec![0],
            edges: Vec::new(),
        };
        for row in rows {
            graph.edges.extend(row);
            graph.starts.push(graph.edges.len() as u32);
        }
        graph
    }

    #[test]
    fn two_cliques_whose_ranks_alternate_are_told_apart() {
        let mut edges = vec![(0, 1, 1)];
        for a in 0..12 {
            edges.extend((a + 1..12).filter(|b| (a + b) % 2 == 0).map(|b| (a, b, 10)));
        }
        let graph = graph(12, &edges);
        let first = graph.bisect(6);
        assert_eq!(graph.cut(&first), 1);
        assert!((0..12).all(|v| first[v] == first[v % 2]));
    }

    #[test]
    fn a_line_is_cut_once_wherever_it_is_cut() {
        let edges: Vec<(u32, u32, i64)> = (0..99)
            .map(|v| (v * 37 % 100, (v + 1) * 37 % 100, 5))
            .collect();
        let graph = graph(100, &edges);
        for size in [1, 10, 33, 50, 90] {
            let first = graph.bisect(size);
            assert_eq!(first.iter().filter(|f| **f).count(), size);
            assert!(graph.cut(&first) <= 10, "{size}: {}", graph.cut(&first));
        }
    }

    proptest! {
        #[test]
        fn parts_have_their_sizes_and_are_not_worse_than_ranks_in_order(
            edges in prop::collection::vec((0u32..20, 0u32..20, 1i64..100), 0..60), size in 0usize..=20,
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|e| e.0 != e.1).collect();
            let graph = graph(20, &edges);
            let first = graph.bisect(size);
            prop_assert_eq!(first.iter().filter(|f| **f).count(), size);
            let in_order: Vec<bool> = (0..20).map(|v| v < size).collect();
            prop_assert!(graph.cut(&first) <= graph.cut(&in_order));
        }
    }
}

//! Lists of close pairs (Verlet lists), built with cells no narrower than the reach of the list.

use super::force::Pairs;
use super::particles::Vector;

/// Cells over a rank's box and the layer of ghosts around it.
#[derive(Clone, Copy, Debug)]
pub struct Cells {
    origin: Vector,
    per_length: Vector,
    counts: [usize; 3],
}

impl Cells {
    /// Cells over the box from `low` to `high` and `reach` beyond it.
    pub fn new(low: Vector, high: Vector, reach: f64) -> Self {
        let counts = [0, 1, 2].map(|d| (((high[d] - low[d]) / reach) as usize).max(1));
        Self {
            // One layer of cells around the box holds its ghosts.
            origin: [0, 1, 2].map(|d| low[d] - (high[d] - low[d]) / counts[d] as f64),
            per_length: [0, 1, 2].map(|d| counts[d] as f64 / (high[d] - low[d])),
            counts: counts.map(|n| n + 2),
        }
    }

    /// The cell of a position. An owned particle always gets a cell in the box, however its
    /// coordinates round.
    fn place(&self, position: &Vector, own: bool) -> [usize; 3] {
        let layer = usize::from(own);
        [0, 1, 2].map(|d| {
            let cell = ((position[d] - self.origin[d]) * self.per_length[d]) as usize;
            cell.clamp(layer, self.counts[d] - 1 - layer)
        })
    }

    fn index(&self, [x, y, z]: [usize; 3]) -> usize {
        x + self.counts[0] * (y + self.counts[1] * z)
    }

    fn total(&self) -> usize {
        self.counts.iter().product()
    }

    /// Indices of the owned particles sorted by cell; keeps the order within each cell.
    pub fn order(&self, own: &[Vector]) -> Vec<u32> {
        self.sorted(own, true).0
    }

    /// Indices sorted by cell, and where each cell starts among them, plus the end of the last one.
    fn sorted(&self, positions: &[Vector], own: bool) -> (Vec<u32>, Vec<u32>) {
        let cell_of: Vec<u32> = positions
            .iter()
            .map(|p| self.index(self.place(p, own)) as u32)
            .collect();
        let mut starts = vec![0_u32; self.total() + 1];
        for &cell in &cell_of {
            starts[cell as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut order = vec![0_u32; positions.len()];
        for (i, &cell) in cell_of.iter().enumerate() {
            let place = &mut next[cell as usize];
            order[*place as usize] = i as u32;
            *place += 1;
        }
        (order, starts)
    }

    /// Lists the pairs within `reach`. The first `own` of `positions` are the owned particles,
    /// sorted by cell.
    pub fn pairs(&self, positions: &[Vector], own: usize, reach: f64, pairs: &mut Pairs) {
        let reach_squared = reach * reach;
        let (_, own_starts) = self.sorted(&positions[..own], true);
        let (ghosts, ghost_starts) = self.sorted(&positions[own..], false);
        pairs.starts.clear();
        pairs.partners.clear();
        pairs.starts.push(0);
        for i in 0..own {
            let here = positions[i];
            let [x, y, z] = self.place(&here, true);
            let close = |j: usize| {
                let there = &positions[j];
                let d = [here[0] - there[0], here[1] - there[1], here[2] - there[2]];
                d[0] * d[0] + d[1] * d[1] + d[2] * d[2] < reach_squared
            };
            // Owned particles are in the inner cells, so there is a cell on every side. Three
            // adjacent cells along the first dimension are one contiguous run of the sorted
            // particles.
            for row_z in z - 1..=z + 1 {
                for row_y in y - 1..=y + 1 {
                    let first = self.index([x - 1, row_y, row_z]);
                    let begin = (own_starts[first] as usize).max(i + 1);
                    let end = own_starts[first + 3] as usize;
                    pairs
                        .partners
                        .extend((begin..end).filter(|&j| close(j)).map(|j| j as u32));
                    let stretch = ghost_starts[first] as usize..ghost_starts[first + 3] as usize;
                    pairs.partners.extend(
                        ghosts[stretch]
                            .iter()
                            .map(|&g| g + own as u32)
                            .filter(|&j| close(j as usize)),
                    );
                }
            }
            pairs.starts.push(pairs.partners.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_list_holds_every_close_pair_once(
            mut own in prop::collection::vec([1.0..9.0_f64, 2.0..8.5, -3.0..4.0], 1..80),
            ghosts in prop::collection::vec([-1.8..11.8_f64, -0.8..11.3, -5.8..6.8], 0..80),
        ) {
            let (low, high, reach) = ([1.0, 2.0, -3.0], [9.0, 8.5, 4.0], 2.8);
            let cells = Cells::new(low, high, reach);
            let inside = |p: &Vector| (0..3).all(|d| (low[d]..high[d]).contains(&p[d]));
            let ghosts: Vec<Vector> = ghosts.into_iter().filter(|g| !inside(g)).collect();
            let order = cells.order(&own);
            own = order.iter().map(|&i| own[i as usize]).collect();
            let mut all = own.clone();
            all.extend(&ghosts);
            let mut pairs = Pairs::default();
            cells.pairs(&all, own.len(), reach, &mut pairs);
            let mut listed: Vec<(usize, usize)> = (0..own.len())
                .flat_map(|i| pairs.of(i).iter().map(move |&j| (i, j as usize)))
                .collect();
            listed.sort_unstable();
            let distance = |i: usize, j: usize| -> f64 {
                (0..3).map(|d| (all[i][d] - all[j][d]).powi(2)).sum::<f64>().sqrt()
            };
            let want: Vec<(usize, usize)> = (0..own.len())
                .flat_map(|i| (i + 1..all.len()).map(move |j| (i, j)))
                .filter(|&(i, j)| distance(i, j) < reach)
                .collect();
            prop_assert_eq!(listed, want);
        }
    }
}

//! The lockstep model for any neighbourhood and any noise: slow and simple, the reference for the
//! fast engine.

/// Which ranks each rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the neighbours of each rank start in `targets`; one more than there are ranks.
    begins: Vec<usize>,
    targets: Vec<u32>,
}

impl Graph {
    /// `neighbours(rank)` are the ranks whose message `rank` waits for; it need not list itself.
    pub fn new<I: IntoIterator<Item = u32>>(ranks: u32, neighbours: impl Fn(u32) -> I) -> Self {
        let mut graph = Graph {
            begins: vec![0],
            targets: Vec::new(),
        };
        for rank in 0..ranks {
            graph.targets.extend(
                neighbours(rank)
                    .into_iter()
                    .inspect(|&n| assert!(n < ranks)),
            );
            graph.begins.push(graph.targets.len());
        }
        graph
    }

    /// Each rank waits for both neighbours on a ring.
    pub fn ring(ranks: u32) -> Self {
        Graph::new(ranks, |r| [(r + ranks - 1) % ranks, (r + 1) % ranks])
    }

    /// Each rank waits for its lower neighbour on a ring.
    pub fn one_sided_ring(ranks: u32) -> Self {
        Graph::new(ranks, |r| [(r + ranks - 1) % ranks])
    }

    /// Each rank waits for its neighbours on a torus, rank = (z * y_side + y) * x_side + x.
    pub fn torus(shape: crate::Shape) -> Self {
        let [nx, ny, nz] = [shape.x as u32, shape.y as u32, shape.z as u32];
        Graph::new(nx * ny * nz, |r| {
            let (x, y, z) = (r % nx, r / nx % ny, r / (nx * ny));
            let at = |x, y, z| (z * ny + y) * nx + x;
            [
                at((x + nx - 1) % nx, y, z),
                at((x + 1) % nx, y, z),
                at(x, (y + ny - 1) % ny, z),
                at(x, (y + 1) % ny, z),
                at(x, y, (z + nz - 1) % nz),
                at(x, y, (z + 1) % nz),
            ]
        })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        (self.begins.len() - 1) as u32
    }

    fn neighbours(&self, rank: usize) -> &[u32] {
        &self.targets[self.begins[rank]..self.begins[rank + 1]]
    }
}

/// Advances all ranks by one step, in nanoseconds: t' = max over itself and its neighbours of (t +
/// work + noise) + comm.
///
/// `noise` gives the time by which noise delays a rank in this step.
///
/// # Panics
/// If `times` has another length than the graph has ranks.
pub fn step(
    graph: &Graph,
    times: &mut Vec<u64>,
    work: u64,
    comm: u64,
    mut noise: impl FnMut(u32) -> u64,
) {
    assert_eq!(times.len(), graph.ranks() as usize);
    for (rank, t) in times.iter_mut().enumerate() {
        *t += work + noise(rank as u32);
    }
    *times = (0..times.len())
        .map(|rank| {
            let latest = graph
                .neighbours(rank)
                .iter()
                .map(|&n| times[n as usize])
                .max();
            times[rank].max(latest.unwrap_or(0)) + comm
        })
        .collect();
}

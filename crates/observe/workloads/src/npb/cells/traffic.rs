//! What a rank does in an iteration of BT or SP.

use super::cell::Cell;
use super::partition::Partition;
use super::sweep::{Scheme, Sweeps};
use crate::npb::traffic::{Message, Operation, Traffic};
use idlewave_units::Rank;

/// Relative times per point; see [`Operation::Compute`].
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Of the right-hand side, and what follows it before the sweeps.
    pub rhs: u64,
    /// Of elimination in a sweep.
    pub eliminate: u64,
    /// Of substitution in a sweep.
    pub substitute: u64,
    /// Of what comes after the sweeps.
    pub add: u64,
}

/// What a rank does: faces and the right-hand side, then a sweep along each direction.
pub fn traffic<S: Scheme<L, K>, const L: usize, const K: usize>(
    grid: u32,
    ranks: u32,
    rank: Rank,
    costs: Costs,
) -> Traffic {
    let partition = Partition::new(rank, ranks);
    let size = |direction: usize, slice: usize| {
        let place = partition.place_at(direction, slice);
        Cell::size(place, partition.side(), grid as usize)
    };
    let points = (0..partition.side()).map(|slice| size(2, slice).iter().product::<usize>());
    let points = points.sum::<usize>() as u64;
    let mut iteration = Vec::new();
    if partition.side() > 1 {
        let faces = partition.faces();
        let receives = faces.iter().map(|face| {
            let length = face.length(face.filled.clone(), |slice| size(face.direction, slice));
            Message::receive(face.from, length)
        });
        let sends = faces.iter().map(|face| {
            let length = face.length(face.sent.clone(), |slice| size(face.direction, slice));
            Message::send(face.to, length)
        });
        iteration.push(Operation::Exchange(receives.chain(sends).collect()));
    }
    iteration.push(Operation::Compute(costs.rhs * points));
    for direction in 0..3 {
        sweep::<S, L, K>(
            &partition,
            direction,
            |slice| size(direction, slice),
            costs,
            &mut iteration,
        );
    }
    iteration.push(Operation::Compute(costs.add * points));
    Traffic {
        before: Vec::new(),
        iteration,
        after: Vec::new(),
    }
}

/// Appends what [`Sweeps::sweep`] does; `size` is that of the cell in a slice.
fn sweep<S: Scheme<L, K>, const L: usize, const K: usize>(
    partition: &Partition,
    direction: usize,
    size: impl Fn(usize) -> [usize; 3],
    costs: Costs,
    to: &mut Vec<Operation>,
) {
    let [next, before] = partition.neighbours(direction);
    let last = partition.side() - 1;
    let points = |slice: usize| size(slice).iter().product::<usize>() as u64;
    let forwards =
        |slice: usize| Sweeps::<L, K>::forwards_through(size(slice), direction, S::REACH);
    let backwards =
        |slice: usize| Sweeps::<L, K>::backwards_through(size(slice), direction, S::REACH);
    let receive =
        |from: Rank, length: usize| Operation::Exchange(vec![Message::receive(from, length)]);
    for stage in 0..=last {
        if stage > 0 {
            to.push(receive(before, forwards(stage)));
        }
        if stage < last {
            to.push(Operation::Compute(costs.eliminate * points(stage)));
            to.push(Operation::send(next, forwards(stage)));
        } else {
            let both = costs.eliminate + costs.substitute;
            to.push(Operation::Compute(both * points(stage)));
            if stage > 0 {
                to.push(Operation::send(before, backwards(stage)));
            }
        }
    }
    for stage in (0..last).rev() {
        to.push(receive(next, backwards(stage)));
        to.push(Operation::Compute(costs.substitute * points(stage)));
        if stage > 0 {
            to.push(Operation::send(before, backwards(stage)));
        }
    }
    if last > 0 {
        to.push(Operation::Flush);
    }
}

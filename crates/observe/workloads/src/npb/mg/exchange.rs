//! Borders between ranks.
//!
//! Axes follow one another, and a plane includes the border of the axes before it, so that edges
//! and corners arrive without messages of their own.

use super::field::Field;
use super::level::{Level, Waking};
use crate::WorkloadError;
use crate::npb::traffic::{Message, Operation};
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Tag};

const UPWARDS: Tag = Tag(1);
const DOWNWARDS: Tag = Tag(2);

/// Cells that an exchange sends each way along an axis.
fn exchanged(level: &Level, axis: usize) -> usize {
    Field::plane_cells(level.cells, axis, axis)
}

/// The messages of [`Planes::exchange`].
pub fn exchanges(level: &Level) -> impl Iterator<Item = Operation> {
    let pairs = level.neighbours.into_iter().enumerate();
    pairs.filter_map(|(axis, pair)| {
        let ([below, above], cells) = (pair?, exchanged(level, axis));
        let receives = [below, above].map(|from| Message::receive(from, cells));
        let sends = [above, below].map(|to| Message::send(to, cells));
        Some(Operation::Exchange([receives, sends].concat()))
    })
}

/// Cells that are given, or taken from each side, along an axis.
fn given(level: &Level, axis: usize) -> usize {
    Field::plane_cells(level.cells, axis, 3)
}

/// What to do along an axis. What a rank without cells along a later axis has here, it gets with
/// that axis.
fn waking(level: &Level, axis: usize) -> Waking {
    match level.cells[axis + 1..].contains(&0) {
        true => Waking::None,
        false => level.waking[axis],
    }
}

/// The messages of [`Planes::wake`].
pub fn wakings(level: &Level) -> impl Iterator<Item = Operation> {
    (0..3).filter_map(|axis| {
        let cells = given(level, axis);
        let messages = match waking(level, axis) {
            Waking::None => return None,
            Waking::Give([below, above]) => [above, below].map(|to| Message::send(to, cells)),
            Waking::Take(both) => both.map(|from| Message::receive(from, cells)),
        };
        Some(Operation::Exchange(messages.to_vec()))
    })
}

/// Planes that are being sent and received.
#[derive(Debug)]
pub struct Planes {
    outgoing: Vec<f64>,
    incoming: Vec<f64>,
}

impl Planes {
    /// Room for a plane of this many cells.
    pub fn new(cells: usize) -> Self {
        Self {
            outgoing: vec![0.0; cells],
            incoming: vec![0.0; cells],
        }
    }

    /// Fills the border of an active level's field from the neighbours (NPB calls it comm3).
    ///
    /// # Errors
    /// Another rank failed.
    pub fn exchange<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        level: &Level,
        field: &mut Field,
    ) -> Result<(), WorkloadError> {
        watch.region("comm3");
        for axis in 0..3 {
            let Some([below, above]) = level.neighbours[axis] else {
                field.wrap(axis);
                continue;
            };
            let last = level.cells[axis];
            let cells = exchanged(level, axis);
            let from_below = watch.post(below, UPWARDS, cells)?;
            let from_above = watch.post(above, DOWNWARDS, cells)?;
            for (to, tag, layer) in [(above, UPWARDS, last), (below, DOWNWARDS, 1)] {
                let outgoing = &mut self.outgoing[..cells];
                field.put(axis, layer, axis, outgoing);
                watch.send(to, tag, outgoing)?;
            }
            for (incoming, layer) in [(from_below, 0), (from_above, last + 1)] {
                let plane = &mut self.incoming[..cells];
                watch.take(incoming, plane)?;
                field.take(axis, layer, axis, plane);
            }
            watch.flush()?;
        }
        Ok(())
    }

    /// Gives the cells of a level to the ranks that hold none of it but some of the next finer one.
    ///
    /// # Errors
    /// Another rank failed.
    pub fn wake<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        level: &Level,
        field: &mut Field,
    ) -> Result<(), WorkloadError> {
        for axis in 0..3 {
            let cells = given(level, axis);
            match waking(level, axis) {
                Waking::None => continue,
                Waking::Give([below, above]) => {
                    let outgoing = &mut self.outgoing[..cells];
                    field.put(axis, 1, 3, outgoing);
                    watch.send(above, UPWARDS, outgoing)?;
                    watch.send(below, DOWNWARDS, outgoing)?;
                }
                Waking::Take([below, above]) => {
                    let from_below = watch.post(below, UPWARDS, cells)?;
                    let from_above = watch.post(above, DOWNWARDS, cells)?;
                    for (incoming, layer) in [(from_below, 0), (from_above, 1)] {
                        let plane = &mut self.incoming[..cells];
                        watch.take(incoming, plane)?;
                        field.take(axis, layer, 3, plane);
                    }
                }
            }
            watch.flush()?;
        }
        Ok(())
    }

    /// Bytes held.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        8 * (self.outgoing.capacity() + self.incoming.capacity())
    }
}

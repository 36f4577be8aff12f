//! The exchange of the two outermost layers of points with the neighbours along x and y.

use super::field::{Field, HALO};
use super::share::{DIVIDED, Share};
use crate::WorkloadError;
use crate::npb::cfd::State;
use crate::npb::traffic::Message;
use crate::stopwatch::Stopwatch;
use idlewave_fabric::{Fabric, Tag};
use idlewave_units::Rank;

/// Calls `each` with the index of every point of the layers across a dimension that begin at
/// `layer`, counted from the outermost layer of the lower neighbour.
fn each_of(field: &Field, share: &Share, d: usize, layer: usize, mut each: impl FnMut(usize)) {
    let [x, y, z] = share.size;
    let (row, plane) = (field.strides[1], field.strides[2]);
    let own = |n: usize| HALO..HALO + n;
    let across = layer..layer + HALO;
    let (columns, rows) = match d {
        0 => (across, own(y)),
        _ => (own(x), across),
    };
    for k in 0..z {
        for j in rows.clone() {
            for i in columns.clone() {
                each(k * plane + j * row + i);
            }
        }
    }
}

/// Points of the layers of a face across a dimension.
fn layers(share: &Share, d: usize) -> usize {
    HALO * share.size[1 - d] * share.size[2]
}

/// Points of the largest message.
pub fn largest(share: &Share) -> usize {
    let exchanged = |&d: &usize| share.neighbours_across(d) > 0;
    let points = DIVIDED.into_iter().filter(exchanged);
    points.map(|d| layers(share, d)).max().unwrap_or(0)
}

/// Points of all messages, each way.
pub fn messages(share: &Share) -> usize {
    let points = |d: usize| 2 * share.neighbours_across(d) * layers(share, d);
    DIVIDED.into_iter().map(points).sum()
}

/// Each face with a neighbour, as its dimension, whether it is the upper one, and the neighbour.
fn faces(share: &Share) -> impl Iterator<Item = (usize, bool, Rank)> {
    let sides = DIVIDED.into_iter().flat_map(|d| [(d, false), (d, true)]);
    sides.filter_map(|(d, upper)| Some((d, upper, share.neighbours[d][usize::from(upper)]?)))
}

/// Numbers in the message of a face.
fn numbers(share: &Share, d: usize) -> usize {
    5 * layers(share, d)
}

/// The messages of [`exchange`].
pub fn traffic(share: &Share) -> Vec<Message> {
    let receives = faces(share).map(|(d, _, from)| Message::receive(from, numbers(share, d)));
    let sends = faces(share).map(|(d, _, to)| Message::send(to, numbers(share, d)));
    receives.chain(sends).collect()
}

/// Fetches the points of all neighbours. `buffer` is room for the layers of any face.
pub fn exchange<F: Fabric>(
    field: &mut Field,
    share: &Share,
    buffer: &mut Vec<State>,
    watch: &mut Stopwatch<'_, F>,
) -> Result<(), WorkloadError> {
    // A tag for each direction of travel.
    let tag = |d: usize, upwards: bool| Tag((2 * d) as u32 + u32::from(upwards));
    let mut incoming = Vec::with_capacity(4);
    for (d, upper, from) in faces(share) {
        let posted = watch.post(from, tag(d, !upper), numbers(share, d))?;
        incoming.push((d, upper, posted));
    }
    for (d, upper, to) in faces(share) {
        let layer = if upper { share.size[d] } else { HALO };
        buffer.clear();
        each_of(field, share, d, layer, |index| {
            buffer.push(field.states[index]);
        });
        watch.send(to, tag(d, upper), buffer.as_flattened())?;
    }
    for (d, upper, posted) in incoming {
        buffer.resize(layers(share, d), [0.0; 5]);
        watch.take(posted, buffer.as_flattened_mut())?;
        let layer = if upper { share.size[d] + HALO } else { 0 };
        let mut states = std::mem::take(&mut field.states);
        let mut values = buffer.iter();
        each_of(field, share, d, layer, |index| {
            if let Some(state) = values.next() {
                states[index] = *state;
            }
        });
        field.states = states;
    }
    watch.flush()
}

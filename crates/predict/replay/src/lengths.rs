//! How long messages are at another rank count.
//!
//! In an all-to-all, a rank sends its part of the data. Under weak scaling the part stays the same,
//! and each rank gets less of it if there are more. Under strong scaling the part shrinks too, so
//! that a pair exchanges 1 / P^2 of the data on P ranks. The results of a reduction, and what a
//! root sends to all, do not depend on the number of ranks. Neighbours exchange faces of a rank's
//! part: they stay the same if the part does, and otherwise shrink with its other sides.

use idlewave_simulate::bulk::Collective;
use idlewave_simulate::{Shape, Stencil};

/// What happens to the work of a rank when there are more ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// It stays the same.
    #[default]
    Weak,
    /// The work of all ranks together stays the same.
    Strong,
}

/// Size of a number in bytes. No message shrinks below it: counts and pivots are not divided.
const ELEMENT: u64 = 8;

/// Bytes times a factor, but at least one number, or the old length if that was shorter.
fn scaled(bytes: u64, factor: f64) -> u64 {
    let exact = (bytes as f64 * factor).ceil() as u64;
    exact.max(bytes.min(ELEMENT))
}

/// Bytes on `to` ranks of a collective recorded on `from`: per pair of ranks for an all-to-all,
/// otherwise per rank. Also says why.
pub(crate) fn of_collective(
    operation: Collective,
    bytes: u64,
    from: u32,
    to: u32,
    scaling: Scaling,
) -> (u64, Option<String>) {
    let fewer = f64::from(from) / f64::from(to);
    match operation {
        _ if bytes == 0 || from == to => (bytes, None),
        Collective::Alltoall => {
            let (factor, why) = match scaling {
                Scaling::Weak => (fewer, "what a rank sends to all others together"),
                Scaling::Strong => (fewer * fewer, "what all ranks send together"),
            };
            let length = scaled(bytes, factor);
            let said = match length == bytes {
                true => {
                    format!("messages of an {operation} have {bytes} bytes on any number of ranks")
                }
                false => format!(
                    "{why} in an {operation} stays: messages of {bytes} bytes on {from} ranks have {length} on {to}"
                ),
            };
            (length, Some(said))
        }
        Collective::Barrier
        | Collective::Allreduce
        | Collective::Broadcast
        | Collective::Reduce => (
            bytes,
            Some(format!("values of {operation} keep their length")),
        ),
    }
}

/// Bytes of a message between neighbours on `to` that was recorded on `from`. Also says why, if the
/// shapes differ.
pub(crate) fn of_neighbours(
    bytes: u64,
    from: &Stencil,
    to: &Stencil,
    scaling: Scaling,
) -> (u64, Option<String>) {
    if from.shape == to.shape {
        return (bytes, None);
    }
    let sides = |s: &Shape| [s.x, s.y, s.z].map(|side| side as f64);
    let (old, new) = (sides(&from.shape), sides(&to.shape));
    // A face has the extent of the part along the other axes; the one that shrinks least counts.
    let face = |axis: usize| -> f64 {
        let others = (0..3).filter(|&other| other != axis);
        others.map(|other| old[other] / new[other]).product()
    };
    let faces = (0..3).filter(|&axis| new[axis] > 1.0).map(face);
    let factor = match scaling {
        Scaling::Weak => 1.0,
        Scaling::Strong => faces.reduce(f64::max).unwrap_or(1.0),
    };
    let length = scaled(bytes, factor);
    let said = match (length == bytes, scaling) {
        (true, Scaling::Weak) => "messages between neighbours keep their length".to_owned(),
        (true, Scaling::Strong) => {
            "messages between neighbours keep their length: the faces of slabs are those of the whole".to_owned()
        }
        (false, _) => format!(
            "messages between neighbours are faces, which shrink with the part of a rank: of {bytes} bytes {length} are left"
        ),
    };
    (length, Some(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_one_of_as_many_sends_as_much() {
        for scaling in [Scaling::Weak, Scaling::Strong] {
            assert_eq!(of_collective(Collective::Alltoall, 77, 6, 6, scaling).0, 77);
            let plane = Stencil::nearest(Shape { x: 4, y: 3, z: 1 });
            assert_eq!(of_neighbours(77, &plane, &plane, scaling).0, 77);
        }
    }

    #[test]
    fn a_pair_shares_less_of_a_transpose_by_the_square_of_the_ranks() {
        let of = |scaling| of_collective(Collective::Alltoall, 33_554_432, 2, 64, scaling).0;
        assert_eq!(
            (of(Scaling::Weak), of(Scaling::Strong)),
            (1_048_576, 32_768)
        );
        // Fewer ranks exchange more.
        let fewer = of_collective(Collective::Alltoall, 1_000, 8, 2, Scaling::Strong).0;
        assert_eq!(fewer, 16_000);
    }

    #[test]
    fn the_face_that_shrinks_least_counts() {
        let of = |old, new| {
            let (old, new) = (Stencil::nearest(old), Stencil::nearest(new));
            of_neighbours(6_400, &old, &new, Scaling::Strong).0
        };
        let cuboid = |x, y, z| Shape { x, y, z };
        assert_eq!(of(cuboid(2, 2, 2), cuboid(4, 4, 4)), 1_600);
        // The face across the first axis has two sides halved. The others also shrink along that
        // axis, which was one rank long.
        assert_eq!(of(cuboid(1, 2, 2), cuboid(4, 4, 4)), 1_600);
        assert_eq!(of(cuboid(8, 1, 1), cuboid(64, 1, 1)), 6_400);
    }
}

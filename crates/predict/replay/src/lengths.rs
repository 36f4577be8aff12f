//! How long messages are among another number of ranks.
//!
//! What a rank sends in an all-to-all is its part of the data: with the work of a rank (weak
//! scaling) it stays, and each of more ranks gets less of it; if all ranks share the data (strong
//! scaling), it shrinks as well, so that a pair exchanges a part by the square of the number of
//! ranks. The results of a reduction, and what a root tells all, do not depend on the number of
//! ranks. The faces of a rank's part stay with the part, and shrink with the other sides of it.

use idlewave_simulate::bulk::Collective;
use idlewave_simulate::{Shape, Stencil};

/// What happens to the work of a rank when there are more of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// It stays.
    #[default]
    Weak,
    /// All ranks together do the same.
    Strong,
}

/// A message never has fewer bytes than a number: counts and pivots are not divided.
const ELEMENT: u64 = 8;

/// So many bytes times a factor, but not less than a number where it was one.
fn scaled(bytes: u64, factor: f64) -> u64 {
    let exact = (bytes as f64 * factor).ceil() as u64;
    exact.max(bytes.min(ELEMENT))
}

/// Bytes of a collective, recorded on `from` ranks, on `to` of them: of an all-to-all to each other
/// rank, otherwise of each. With why, in words.
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

/// Bytes of a message between neighbours that were `from` and are `to`. With why, in words, if they
/// are others.
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
        // On fewer ranks it is more.
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
        // Across the first axis two sides are halved; across the others one more, as it was a rank
        // long.
        assert_eq!(of(cuboid(1, 2, 2), cuboid(4, 4, 4)), 1_600);
        assert_eq!(of(cuboid(8, 1, 1), cuboid(64, 1, 1)), 6_400);
    }
}

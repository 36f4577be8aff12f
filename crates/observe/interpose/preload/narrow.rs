//! Large-count functions that the library does not have.
//!
//! A program may check at run time whether MPI_Send_c exists, as mpi4py does, and finds ours. If
//! the library has no such function, the plain one does the work, as the program itself would have
//! done, provided that the counts fit into an int.

use crate::call::Entry;
use crate::collective;
use crate::library::Library;
use crate::table::{How, Shape};
use std::sync::Arc;

/// MPI_ERR_COUNT of all families.
pub const ERR_COUNT: i32 = 2;

/// Arrays passed to the library in place of the program's own; a non-blocking call needs them
/// until it is complete.
pub type Kept = Option<Arc<Vec<Vec<i32>>>>;

/// Arguments that are one count each.
fn scalars(how: How, name: &[u8]) -> &'static [usize] {
    use Shape::*;
    match how {
        How::SendReceive => &[1, 6],
        How::Collective(shape) | How::StartCollective(shape) => match shape {
            Gather | Scatter | Allgather | Alltoall | NeighborAllgather | NeighborAlltoall => {
                &[1, 4]
            }
            Bcast | Gatherv | Allgatherv | NeighborAllgatherv => &[1],
            Scatterv => &[5],
            Reduce | Allreduce | Scan | Exscan | ReduceScatterBlock => &[2],
            _ => &[],
        },
        How::Loss if name.starts_with(b"PMPI_File_") => {
            let at = name.windows(4).any(|part| part == b"_at_");
            if at { &[3] } else { &[2] }
        }
        How::Loss if name.ends_with(b"et_accumulate_c") => &[1, 4, 8],
        How::Loss => &[1, 5],
        _ => &[1],
    }
}

/// Positions of arguments that are arrays of counts or displacements, for all members or for the
/// neighbours.
fn arrays(shape: Shape) -> &'static [usize] {
    use Shape::*;
    match shape {
        Gatherv | Allgatherv | NeighborAllgatherv => &[4, 5],
        Scatterv => &[1, 2],
        Alltoallv | Alltoallw | NeighborAlltoallv => &[1, 2, 5, 6],
        // The plain function, too, takes these displacements as addresses.
        NeighborAlltoallw => &[1, 5],
        ReduceScatter => &[2],
        _ => &[],
    }
}

/// Arguments for the plain function, and the arrays that they point to; `None` if a count is too
/// large or the function takes arrays that are not known.
pub fn arguments(entry: &Entry, library: &Library, wide: &[usize]) -> Option<(Vec<usize>, Kept)> {
    let mut narrow = wide.to_vec();
    let name = entry.name().to_bytes();
    if entry.how == How::Loss && name.ends_with(b"_init_c") {
        return None;
    }
    for &i in scalars(entry.how, name) {
        i32::try_from(wide[i] as i64).ok()?;
    }
    let (How::Collective(shape) | How::StartCollective(shape)) = entry.how else {
        return Some((narrow, None));
    };
    let mut kept = Vec::new();
    let comm = wide[collective::communicator_at(shape)];
    for &i in arrays(shape) {
        // Members other than the root do not use these arrays, which may be anything.
        let many = collective::elements(library, comm, shape, i, wide)?;
        if many == 0 {
            continue;
        }
        // SAFETY: the program's array has an element, of 64 bits, for each member or neighbour.
        let values = unsafe { std::slice::from_raw_parts(wide[i] as *const i64, many) };
        let values: Option<Vec<i32>> = values
            .iter()
            .map(|&value| i32::try_from(value).ok())
            .collect();
        kept.push(values?);
        narrow[i] = kept.last()?.as_ptr() as usize;
    }
    Some((narrow, Some(Arc::new(kept))))
}

/// Calls a function of which the library has only the plain form.
///
/// # Safety
/// `wide` are the arguments of a call of the entry's function, and `real` is the plain function.
pub unsafe fn invoke(entry: &Entry, library: &Library, real: usize, wide: &[usize]) -> (i32, Kept) {
    match arguments(entry, library, wide) {
        // SAFETY: the caller guarantees it; the arrays live as long as `kept`.
        Some((narrow, kept)) => (unsafe { crate::library::invoke(real, &narrow) }, kept),
        None => (ERR_COUNT, None),
    }
}

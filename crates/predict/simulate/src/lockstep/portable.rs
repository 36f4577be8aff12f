//! The inner loop of a sweep without explicit vector instructions.

/// What is added after a wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum After<'a> {
    /// The same time for all ranks: communication plus work, in nanoseconds.
    Same(i64),
    /// Communication, and the work of each rank of the row.
    Each(i64, &'a [i64]),
}

/// The arrays that a sweep writes or compares with, all as long as the swept range.
pub(super) struct Swept<'a> {
    /// Ends of the next computations if no noise strikes them.
    pub ends: &'a mut [i64],
    /// Until when no noise strikes each rank.
    pub quiet: &'a [i64],
    /// Added to a position in the range to get the rank number to note.
    pub first: u32,
    /// The disturbed ranks, in ascending order.
    pub disturbed: &'a mut Vec<u32>,
}

/// The latest of the ranks at the same position of several stretches, which start at `begins` and
/// are all as long as the output.
pub(super) fn inner(ends: &[i64], begins: &[usize], after: After<'_>, out: Swept<'_>) {
    let Some((&own, others)) = begins.split_first() else {
        return;
    };
    let count = out.ends.len();
    out.ends.copy_from_slice(&ends[own..own + count]);
    for &other in others {
        for (latest, &end) in out.ends.iter_mut().zip(&ends[other..other + count]) {
            *latest = end.max(*latest);
        }
    }
    match after {
        After::Same(ns) => out.ends.iter_mut().for_each(|end| *end += ns),
        After::Each(ns, work) => {
            let both = out.ends.iter_mut().zip(work);
            both.for_each(|(end, work)| *end += ns + work);
        }
    }
    for (place, (end, until)) in (out.first..).zip(out.ends.iter().zip(out.quiet)) {
        if end > until {
            out.disturbed.push(place);
        }
    }
}

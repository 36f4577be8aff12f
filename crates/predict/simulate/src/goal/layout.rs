//! A schedule laid out in the order in which it is played.
//!
//! A file holds one rank after the other, so the operations that all ranks execute at the same time
//! lie far apart: every access would be to a different page and cost a walk through the page tables
//! as well. Here the first operations of all ranks come first, then the next ones of all, so that
//! operations played together lie together.

use super::prefetch::prefetch;
use super::schedule::{AT_START, Record, Schedule, dependents_of};

/// Operations of a rank that stay together: their states fill one cache line.
const TOGETHER: usize = 8;

/// How many ranks ahead memory is prefetched.
const AHEAD: usize = 8;

/// The operations of a schedule in playing order.
pub(super) struct Layout {
    pub records: Vec<Record>,
    /// As in the schedule, with the new positions of the operations.
    pub dependents: Vec<u32>,
    /// New position of every operation of the schedule.
    pub places: Vec<u32>,
    /// Position of each of `records` in the schedule.
    pub originals: Vec<u32>,
}

impl Layout {
    pub fn of(schedule: &Schedule) -> Self {
        let count = schedule.records.len();
        let mut layout = Layout {
            records: Vec::with_capacity(count),
            dependents: Vec::with_capacity(schedule.dependents.len()),
            places: vec![0; count],
            originals: Vec::with_capacity(count),
        };
        // The operations of each rank that are not yet placed.
        let mut left: Vec<std::ops::Range<usize>> = (0..schedule.ranks())
            .map(|rank| schedule.span(rank))
            .collect();
        while !left.is_empty() {
            for at in 0..left.len() {
                if let Some(next) = left.get(at + AHEAD) {
                    prefetch(&layout.places, next.start);
                }
                let span = &mut left[at];
                let end = span.end.min(span.start + TOGETHER);
                for index in span.start..end {
                    layout.places[index] = layout.originals.len() as u32;
                    layout.originals.push(index as u32);
                }
                span.start = end;
            }
            left.retain(|span| !span.is_empty());
        }
        for at in 0..count {
            if let Some(&far) = layout.originals.get(at + 2 * AHEAD * TOGETHER) {
                prefetch(&schedule.records, far as usize);
                prefetch(&layout.places, far as usize);
            }
            if let Some(&near) = layout.originals.get(at + AHEAD * TOGETHER) {
                let first = schedule.records[near as usize].dependents;
                prefetch(&schedule.dependents, first as usize);
            }
            let original = layout.originals[at] as usize;
            layout.records.push(Record {
                dependents: layout.dependents.len() as u32,
                ..schedule.records[original]
            });
            let all = dependents_of(&schedule.records, &schedule.dependents, original);
            for &later in all {
                let place = layout.places[(later & !AT_START) as usize];
                layout.dependents.push(place | (later & AT_START));
            }
        }
        layout
    }
}

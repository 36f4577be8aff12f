//! The tree of time: exact events in its leaves, bins and sums above them.
//!
//! It is built in one pass over the ordered events. Memory holds the events of one leaf, those that
//! extend beyond it, and the bins of the nodes above it. Each bin of a node is the sum of four bins
//! of one of its parts, so every level adds up to exactly the same times and counts.

use super::merged::Merged;
use super::packed::{Built, Packs, leaf, node};
use super::scene::{CLASSES, Event, RowKind, Scene};
use super::sums::{PARTS, Shape, Summary, Total};
use super::survey::Density;
use crate::ReportError;
use idlewave_run::RunError;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A node with at most this many events is a leaf: a browser draws them in a few milliseconds.
pub(super) const LEAF: u64 = 12_288;
/// Most events kept in one leaf. Only simultaneous events can exceed this; the shortest are then
/// left out, and counted.
const MOST: usize = 1 << 18;
/// Most events kept that extend beyond a leaf. A row has one at a time, unless the run is damaged.
const MOST_CARRIED: usize = 1 << 13;

/// A node: level, start and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    level: u32,
    pub begin: u64,
    pub end: u64,
}

/// Builds the tree.
pub(super) struct Builder<'a, 'f> {
    scene: &'a Scene,
    shape: Shape,
    /// Start of every cell, and number of events before it.
    sums: Vec<(u64, u64)>,
    events: Merged<'a>,
    /// Events that began before the next leaf and extend into it.
    carried: Vec<Event>,
    packs: Packs<'f>,
}

impl<'a, 'f> Builder<'a, 'f> {
    pub(super) fn new(
        scene: &'a Scene,
        shape: Shape,
        density: Density,
        events: Merged<'a>,
        packs: Packs<'f>,
    ) -> Self {
        Self {
            scene,
            shape,
            sums: density.sums(scene.base),
            events,
            carried: Vec::new(),
            packs,
        }
    }

    /// Writes all nodes; returns what the page has to know about them, and the sums of the run.
    pub(super) fn build(mut self) -> Result<(Built, BTreeMap<u32, Total>), ReportError> {
        let root = Place {
            level: 0,
            begin: 0,
            end: self.shape.node(0),
        };
        let summary = self.node(root)?;
        Ok((self.packs.finish()?, summary.totals))
    }

    /// About how many events begin in a stretch, counted in whole cells.
    fn count(&self, begin: u64, end: u64) -> u64 {
        let before = |at| self.sums[self.sums.partition_point(|s| s.0 < at)].1;
        before(end) - before(begin)
    }

    fn node(&mut self, place: Place) -> Result<Summary, ReportError> {
        let is_leaf = place.level == self.shape.depth
            || self.count(place.begin, place.end) <= self.shape.leaf;
        let number = self.packs.begin(is_leaf);
        if is_leaf {
            return self.leaf(number, place);
        }
        let mut summary = Summary::new(self.shape, self.scene.rows.len());
        let mut parts = Vec::new();
        let length = self.shape.node(place.level + 1);
        for part in 0..PARTS {
            let begin = place.begin + part * length;
            let below = self.node(Place {
                level: place.level + 1,
                begin,
                end: begin + length,
            })?;
            summary.fold(&below, part, self.shape.bins);
            parts.push(below.totals);
        }
        self.packs
            .put(number, &node(&summary, &parts, self.shape.bins))?;
        Ok(summary)
    }

    fn leaf(&mut self, number: u32, place: Place) -> Result<Summary, ReportError> {
        let mut summary = Summary::new(self.shape, self.scene.rows.len());
        let mut events = std::mem::take(&mut self.carried);
        for event in &events {
            self.count_in(&mut summary, event, place);
        }
        let mut left_out = 0;
        while let Some(event) = self.events.before(place.end).map_err(as_report)? {
            self.count_in(&mut summary, &event, place);
            events.push(event);
            if events.len() >= 2 * MOST {
                left_out += shorten(&mut events, MOST);
            }
        }
        left_out += shorten(&mut events, MOST);
        self.carried = events
            .iter()
            .copied()
            .filter(|e| e.end > place.end)
            .collect();
        left_out += shorten(&mut self.carried, MOST_CARRIED);
        if !events.is_empty() {
            self.packs
                .put(number, &leaf(&events, place.begin, left_out))?;
        }
        Ok(summary)
    }

    /// Adds the part of an event that lies in a leaf to the bins and sums of the leaf.
    fn count_in(&self, summary: &mut Summary, event: &Event, place: Place) {
        let begins = event.begin >= place.begin;
        let is_late = self.scene.rows[event.row as usize].kind == RowKind::Late;
        let (from, to) = (event.begin.max(place.begin), event.end.min(place.end));
        let inside = to.saturating_sub(from);
        summary.totals.entry(event.what).or_default().add(&Total {
            count: begins.into(),
            // Steps of several runs may overlap, so their lateness is added up, not their length.
            time: match is_late {
                true if begins => event.weight,
                true => 0,
                false => inside,
            },
            greatest: if begins { event.weight } else { 0 },
        });
        // A nested interrupt takes no additional time from what was interrupted.
        let timed = event.depth == 0;
        self.bin(summary, event.row, event.class, event, place, timed);
        if let Some(row) = event.source {
            self.bin(summary, row, 0, event, place, true);
        }
    }

    fn bin(
        &self,
        summary: &mut Summary,
        row: u32,
        class: u8,
        event: &Event,
        place: Place,
        timed: bool,
    ) {
        let width = self.shape.bin(place.level);
        let (from, to) = (event.begin.max(place.begin), event.end.min(place.end));
        let line = row as usize * CLASSES + class as usize;
        summary.used[line] = true;
        let line = line * self.shape.bins as usize;
        let first = (from - place.begin) / width;
        if event.begin >= place.begin {
            summary.bins[line + first as usize].add(&Total {
                count: 1,
                time: 0,
                greatest: event.weight,
            });
        }
        if !timed || to <= from {
            return;
        }
        for bin in first..=(to - 1 - place.begin) / width {
            let begin = place.begin + bin * width;
            let inside = to.min(begin + width) - from.max(begin);
            summary.bins[line + bin as usize].time += inside;
        }
    }
}

fn as_report(error: RunError) -> ReportError {
    error.into()
}

/// Drops the shortest events above `most`, keeps the others in order, and returns how many it dropped.
fn shorten(events: &mut Vec<Event>, most: usize) -> u64 {
    if events.len() <= most {
        return 0;
    }
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|&i| Reverse(events[i].end - events[i].begin));
    let mut kept = vec![false; events.len()];
    order.iter().take(most).for_each(|&i| kept[i] = true);
    let dropped = events.len() - most;
    let mut kept = kept.into_iter();
    events.retain(|_| kept.next().unwrap_or(false));
    dropped as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_events_stay_in_order_and_the_others_are_counted() {
        let event = |(what, length): (u32, u64)| Event {
            row: 0,
            source: None,
            lane: 0,
            class: 0,
            what,
            begin: 7,
            end: 7 + length,
            depth: 0,
            certain: true,
            weight: length,
            more: [0; 3],
            mores: 0,
        };
        let all = [3, 9, 1, 5, 9].into_iter();
        let mut events: Vec<Event> = (0..).zip(all).map(event).collect();
        assert_eq!(shorten(&mut events, 5), 0);
        assert_eq!(shorten(&mut events, 3), 2);
        let kept: Vec<u32> = events.iter().map(|e| e.what).collect();
        assert_eq!(kept, [1, 3, 4]);
    }
}

//! How time is divided, and what is summed up in its parts.

use super::scene::CLASSES;
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts of a node.
pub(super) const PARTS: u64 = 4;
/// Most levels below the root: a million leaves.
const DEEPEST: u32 = 10;
/// Bins of all rows of a node together.
const BINS: u64 = 1 << 14;

/// How time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bins of a node.
    pub bins: u64,
    /// Nanoseconds of a bin of the deepest level.
    pub unit: u64,
    /// The deepest level; the root is level 0.
    pub depth: u32,
    /// Most events of a leaf, unless it is on the deepest level.
    pub leaf: u64,
}

impl Shape {
    /// For a run of this length, with this many events and rows, and at most `leaf` events in a
    /// leaf.
    pub(super) fn of(span: u64, events: u64, rows: usize, leaf: u64) -> Self {
        let bins = BINS / (rows as u64).max(1).next_power_of_two();
        let bins = bins.clamp(64, 512);
        // Two levels more than evenly distributed events need.
        let mut depth = 0;
        while depth < DEEPEST && leaf * PARTS.pow(depth) < events {
            depth += 1;
        }
        let depth = if depth == 0 {
            0
        } else {
            (depth + 2).min(DEEPEST)
        };
        let unit = span.div_ceil(bins * PARTS.pow(depth)).max(1);
        Self {
            bins,
            unit,
            depth,
            leaf,
        }
    }

    /// Nanoseconds of a bin of a level.
    pub(super) fn bin(&self, level: u32) -> u64 {
        self.unit * PARTS.pow(self.depth - level)
    }

    /// Nanoseconds of a node of a level.
    pub(super) fn node(&self, level: u32) -> u64 {
        self.bin(level) * self.bins
    }
}

/// What is summed up: events that begin in a stretch, time inside it, and the greatest weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Total {
    pub count: u64,
    pub time: u64,
    pub greatest: u64,
}

impl Total {
    pub(super) fn add(&mut self, other: &Total) {
        self.count += other.count;
        self.time += other.time;
        self.greatest = self.greatest.max(other.greatest);
    }
}

/// Bins by row and class, and sums by name.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// Index: (row * CLASSES + class) * bins + bin.
    pub bins: Vec<Total>,
    /// Whether any bin of a row and class has content.
    pub used: Vec<bool>,
    pub totals: BTreeMap<u32, Total>,
}

impl Summary {
    pub(super) fn new(shape: Shape, rows: usize) -> Self {
        Self {
            bins: vec![Total::default(); rows * CLASSES * shape.bins as usize],
            used: vec![false; rows * CLASSES],
            totals: BTreeMap::new(),
        }
    }

    /// Adds one of the four parts.
    pub(super) fn fold(&mut self, part: &Summary, number: u64, bins: u64) {
        let bins = bins as usize;
        let first = number as usize * bins / PARTS as usize;
        for line in (0..part.used.len()).filter(|&line| part.used[line]) {
            self.used[line] = true;
            let at = line * bins;
            for i in 0..bins {
                let bin = &part.bins[at + i];
                if *bin != Total::default() {
                    self.bins[at + first + i / PARTS as usize].add(bin);
                }
            }
        }
        for (&what, total) in &part.totals {
            self.totals.entry(what).or_default().add(total);
        }
    }
}

//! Lanes of tracks: slices of a lane never overlap.
//!
//! Viewers pair the ends of slices with their beginnings by nesting. Slices of a track that overlap
//! (several waits of one call, marks within marks) would exchange their ends there, so each goes to
//! the first lane that is free when it begins.

use super::slice::Slice;
use super::track::{Group, Track};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Maximum number of lanes of a track. Only rows out of order need so many.
const MOST_LANES: usize = 64;

/// Where a slice is drawn. Numbers of lanes and groups count from 1 together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) group: u64,
    pub(crate) lane: u64,
    /// Whether the viewer does not know the group yet.
    pub(crate) new_group: bool,
    /// Whether the viewer does not know the lane yet.
    pub(crate) new_lane: bool,
}

/// The lanes of all tracks.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    groups: HashMap<Group, u64>,
    /// Per track: number and end of the last slice of each lane.
    tracks: HashMap<Track, Vec<(u64, u64)>>,
    last: u64,
    /// Slices for which no lane was free.
    pub(crate) overlapping: u64,
}

impl Lanes {
    /// The lane for a slice. A point needs no room.
    pub(crate) fn place(&mut self, slice: &Slice<'_>) -> Lane {
        let (group, new_group) = match self.groups.entry(slice.track.group()) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                self.last += 1;
                (*new.insert(self.last), true)
            }
        };
        let lanes = self.tracks.entry(slice.track).or_default();
        let point = slice.begin_ns == slice.end_ns;
        let free = lanes
            .iter()
            .position(|(_, end)| point || *end <= slice.begin_ns);
        let new_lane = free.is_none() && lanes.len() < MOST_LANES;
        if new_lane {
            self.last += 1;
            lanes.push((self.last, 0));
        } else if free.is_none() {
            self.overlapping += 1;
        }
        let at = free.unwrap_or(lanes.len() - 1);
        let lane = &mut lanes[at];
        lane.1 = lane.1.max(slice.end_ns);
        Lane {
            group,
            lane: lane.0,
            new_group,
            new_lane,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Rank;

    fn lanes_of(slices: &[(u64, u64)]) -> Vec<u64> {
        let mut lanes = Lanes::default();
        let track = Track::Waits(Rank::new(0));
        let place =
            |&(begin, end): &(u64, u64)| lanes.place(&Slice::new(track, begin, end, "")).lane;
        slices.iter().map(place).collect()
    }

    #[test]
    fn slices_that_follow_each_other_share_a_lane_and_others_do_not() {
        // The group is number 1.
        assert_eq!(
            lanes_of(&[(0, 10), (10, 20), (15, 18), (18, 30), (20, 40)]),
            [2, 2, 3, 3, 2]
        );
        // An outer region that is written when it ends, after those within it.
        assert_eq!(lanes_of(&[(5, 6), (7, 8), (0, 10), (10, 11)]), [2, 2, 3, 2]);
    }

    #[test]
    fn a_point_needs_no_room() {
        assert_eq!(
            lanes_of(&[(0, 10), (5, 5), (10, 10), (10, 12)]),
            [2, 2, 2, 2]
        );
    }

    #[test]
    fn rows_out_of_order_fill_no_more_than_the_most_lanes() {
        let mut lanes = Lanes::default();
        let track = Track::Waits(Rank::new(0));
        for begin in (0..100).rev() {
            lanes.place(&Slice::new(track, begin, 200, ""));
        }
        assert_eq!((lanes.last, lanes.overlapping), (65, 36));
    }
}

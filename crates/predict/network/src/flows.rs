//! Flows that start and end: how much each has moved, and which ends next.
//!
//! All flows of a class have the same rate, so a class keeps one count: the bytes that a flow would
//! have moved since the class started. A flow ends when that count has grown by the flow's length
//! since its start. Times are whole nanoseconds; ends are rounded up.

use crate::maxmin::{Limit, Sharing, Use};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tolerance for rounding at the end of a flow, in bytes.
const ROUNDING: f64 = 1e-6;

/// The byte count at which a flow of a class ends, its name and its length. Counts are not
/// negative, so their bit patterns have the same order.
type Ending = Reverse<(u64, u32, u64)>;

/// Flows on shared resources over time.
#[derive(Clone, Debug)]
pub struct Flows {
    sharing: Sharing,
    classes: Vec<Class>,
    now_ns: u64,
    /// Whether flows started or ended since the rates were computed.
    stale: bool,
    next_ns: Option<u64>,
    slack: f64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    /// Bytes that a flow would have moved by `since_ns` if present from the start.
    moved: f64,
    since_ns: u64,
    ends: BinaryHeap<Ending>,
}

impl Class {
    /// `moved` at `now_ns`, if the flows move at this rate.
    fn moved_by(&self, rate: f64, now_ns: u64) -> f64 {
        self.moved + rate * (now_ns - self.since_ns) as f64 * 1e-9
    }

    fn settle(&mut self, rate: f64, now_ns: u64) {
        (self.moved, self.since_ns) = (self.moved_by(rate, now_ns), now_ns);
    }

    /// When its next flow ends, after `since_ns`.
    fn next_end(&self, rate: f64) -> Option<u64> {
        let Reverse((end, ..)) = self.ends.peek()?;
        let left = f64::from_bits(*end) - self.moved - ROUNDING;
        // At least a nanosecond, so that time advances.
        let ns = (left * 1e9 / rate).ceil().max(1.0);
        Some(self.since_ns.saturating_add(ns as u64))
    }
}

/// A completed flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its name, given at the start.
    pub flow: u32,
    /// What limited it at its end.
    pub limit: Limit,
}

impl Flows {
    /// No flows yet, at nanosecond 0, on resources with these bytes per second.
    pub fn new(capacity: Vec<f64>) -> Self {
        Flows {
            sharing: Sharing::new(capacity),
            classes: Vec::new(),
            now_ns: 0,
            stale: false,
            next_ns: None,
            slack: 0.0,
        }
    }

    /// From now on, a flow ends together with another one if at most this share (0 to 1) of it is
    /// left. No flow is shortened by more. This saves most rate computations if many flows end
    /// shortly after each other.
    pub fn with_slack(mut self, slack: f64) -> Self {
        self.slack = slack;
        self
    }

    /// Adds a class of flows: see [`Sharing::add_class`].
    pub fn add_class(&mut self, uses: &[Use], limit: f64) -> u32 {
        self.classes.push(Class::default());
        self.sharing.add_class(uses, limit)
    }

    /// Starts a flow of this many bytes under a name that the caller chooses. `now_ns` must not be
    /// before the previous time, nor after [`next_end`](Self::next_end).
    pub fn start(&mut self, now_ns: u64, class: u32, bytes: u64, flow: u32) {
        self.now_ns = self.now_ns.max(now_ns);
        let of = &mut self.classes[class as usize];
        if of.ends.is_empty() {
            (of.moved, of.since_ns) = (0.0, self.now_ns);
        }
        of.settle(self.sharing.rate(class), self.now_ns);
        let end = of.moved + bytes as f64;
        of.ends.push(Reverse((end.to_bits(), flow, bytes)));
        self.sharing.start(class);
        self.stale = true;
    }

    /// When the next flow ends if none starts before; `None` without flows.
    pub fn next_end(&mut self) -> Option<u64> {
        if self.stale {
            for &class in self.sharing.active() {
                self.classes[class as usize].settle(self.sharing.rate(class), self.now_ns);
            }
            self.sharing.solve();
            let active = self.sharing.active();
            self.stale = false;
            let of = |&class: &u32| self.classes[class as usize].next_end(self.sharing.rate(class));
            self.next_ns = active.iter().filter_map(of).min();
        }
        self.next_ns
    }

    /// Advances to the [next end](Self::next_end), if any, and adds all flows that end then to
    /// `ended`.
    pub fn end_next(&mut self, ended: &mut Vec<Ended>) {
        let Some(now_ns) = self.next_end() else {
            return;
        };
        self.now_ns = now_ns;
        let first = ended.len();
        let mut at = 0;
        while let Some(&class) = self.sharing.active().get(at) {
            let (limit, rate) = (self.sharing.limit(class), self.sharing.rate(class));
            let of = &mut self.classes[class as usize];
            let mut left = self.sharing.flows(class);
            let moved = of.moved_by(rate, now_ns);
            while let Some(&Reverse((end, flow, bytes))) = of.ends.peek() {
                let remaining = f64::from_bits(end) - moved;
                if remaining > ROUNDING.max(self.slack * bytes as f64) {
                    break;
                }
                of.ends.pop();
                ended.push(Ended { flow, limit });
                self.sharing.end(class);
                left -= 1;
            }
            // A class that ran out of flows was replaced by the last active one.
            at += usize::from(left > 0);
        }
        self.stale = true;
        ended[first..].sort_unstable_by_key(|e| e.flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link() -> Vec<Use> {
        vec![Use {
            resource: 0,
            share: 1.0,
        }]
    }

    /// Plays flows, given by start, bytes and class, to the end; returns the end of each flow.
    fn play(flows: &mut Flows, starts: &[(u64, u64, u32)]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by_key(|&at| starts[at].0);
        let mut ends = vec![0; starts.len()];
        let mut ended = Vec::new();
        let mut coming = order.into_iter().peekable();
        loop {
            let start = coming.peek().map(|&at| starts[at].0);
            let end = flows.next_end();
            match (start, end) {
                (None, None) => return ends,
                (start, Some(end)) if start.is_none_or(|start| end <= start) => {
                    flows.end_next(&mut ended);
                    for one in ended.drain(..) {
                        ends[one.flow as usize] = end;
                    }
                }
                _ => {
                    let at = coming.next().unwrap();
                    flows.start(starts[at].0, starts[at].2, starts[at].1, at as u32);
                }
            }
        }
    }

    #[test]
    fn flows_that_come_and_go_share_what_there_is_at_every_moment() {
        // 1 byte per ns. The first flow is alone until 100, then each gets half: the second has
        // moved 50 at 200, when the third starts.
        let mut flows = Flows::new(vec![1e9]);
        let class = flows.add_class(&link(), f64::INFINITY);
        let ends = play(
            &mut flows,
            &[(0, 150, class), (100, 200, class), (200, 30, class)],
        );
        // The first has 50 left at 100 and ends at 200. Then two share: the third's 30 bytes at
        // half rate end at 260. Of the second, 200 - 50 - 30 = 120 are left.
        assert_eq!(ends, [200, 380, 260]);
    }

    #[test]
    fn equal_flows_end_together_and_the_end_is_not_before_the_last_byte() {
        let mut flows = Flows::new(vec![3e9]);
        let classes = [
            flows.add_class(&link(), f64::INFINITY),
            flows.add_class(&link(), f64::INFINITY),
        ];
        let ends = play(
            &mut flows,
            &[
                (5, 100, classes[0]),
                (5, 100, classes[1]),
                (5, 100, classes[0]),
            ],
        );
        assert_eq!(ends, [105; 3]);
        // 7 bytes at 3 per nanosecond end in the third nanosecond.
        assert_eq!(play(&mut Flows::clone(&flows), &[]), Vec::<u64>::new());
        let mut alone = Flows::new(vec![3e9]);
        let class = alone.add_class(&link(), f64::INFINITY);
        assert_eq!(play(&mut alone, &[(0, 7, class)]), [3]);
    }

    #[test]
    fn flows_of_which_hardly_anything_is_left_end_with_the_first() {
        let ends = |slack: f64| {
            let mut flows = Flows::new(vec![2e9, 2e9]).with_slack(slack);
            let other = vec![Use {
                resource: 1,
                share: 1.0,
            }];
            let classes = [link(), other].map(|uses| flows.add_class(&uses, f64::INFINITY));
            play(
                &mut flows,
                &[
                    (0, 1_000, classes[0]),
                    (0, 1_008, classes[1]),
                    (0, 1_100, classes[1]),
                ],
            )
        };
        // The first is alone; the others share, and the last one ends up alone on the link.
        assert_eq!(ends(0.0), [500, 1_008, 1_054]);
        // When the second ends, 92 of 1100 bytes are left, a twelfth.
        assert_eq!(ends(0.08), [500, 1_008, 1_054]);
        assert_eq!(ends(0.09), [500, 1_008, 1_008]);
    }

    #[test]
    fn what_held_a_flow_down_is_told_at_its_end() {
        let mut flows = Flows::new(vec![2e9]);
        let slow = flows.add_class(&link(), 0.5e9);
        let fast = flows.add_class(&link(), f64::INFINITY);
        flows.start(0, slow, 100, 7);
        flows.start(0, fast, 150, 8);
        let mut ended = Vec::new();
        assert_eq!(flows.next_end(), Some(100));
        flows.end_next(&mut ended);
        let limit = Limit::Resource(0);
        assert_eq!(ended, [Ended { flow: 8, limit }]);
        assert_eq!(flows.next_end(), Some(200));
        flows.end_next(&mut ended);
        assert_eq!(
            ended[1],
            Ended {
                flow: 7,
                limit: Limit::Own
            }
        );
        assert_eq!(flows.next_end(), None);
        flows.end_next(&mut ended);
        assert_eq!(ended.len(), 2);
    }

    proptest! {
        /// Conservation: a link that is never idle is done when all bytes have passed.
        #[test]
        fn a_busy_link_is_done_when_all_bytes_are_through(sizes in prop::collection::vec((0_u64..500, 1_u64..100_000), 1..40)) {
            let mut flows = Flows::new(vec![1e9]);
            let classes = [flows.add_class(&link(), f64::INFINITY), flows.add_class(&link(), f64::INFINITY)];
            let total: u64 = 1_000_000 + sizes.iter().map(|s| s.1).sum::<u64>();
            let mut starts = vec![(0, 1_000_000, classes[0])];
            starts.extend(sizes.iter().enumerate().map(|(i, &(at, bytes))| (at, bytes, classes[i % 2])));
            let ends = play(&mut flows, &starts);
            let last = *ends.iter().max().unwrap();
            // Ends are rounded up, each by less than a nanosecond.
            prop_assert!(last >= total && last <= total + 2 + sizes.len() as u64, "{last} {total}");
            for (end, (start, bytes, _)) in ends.iter().zip(&starts) {
                prop_assert!(end - start >= *bytes);
            }
        }
    }
}

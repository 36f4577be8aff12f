//! Events of one source along the time line of a CPU or a node.

/// When a CPU (or a node) was watched, and the events of one source there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The node, from 0.
    pub node: u32,
    /// The CPU within the node, from 0; 0 for the line of a node.
    pub cpu: u32,
    /// Starts and ends of watching in nanoseconds, in order, without overlap.
    pub watched: Vec<(u64, u64)>,
    /// Start and length of each event in nanoseconds, in order of start.
    pub events: Vec<(u64, u64)>,
}

impl Line {
    /// Time watched in nanoseconds.
    pub fn time(&self) -> u64 {
        self.watched.iter().map(|&(b, e)| e - b).sum()
    }

    /// Starts of the events.
    pub fn begins(&self) -> Vec<u64> {
        self.events.iter().map(|e| e.0).collect()
    }

    /// Watched time before `at`.
    fn watched_before(&self, at: u64) -> u64 {
        let until = |&(b, e): &(u64, u64)| e.min(at).saturating_sub(b);
        self.watched.iter().map(until).sum()
    }
}

/// Lines joined end to end, without unwatched time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Length in nanoseconds, 1 or more.
    pub time: u64,
    /// Start and length of each event, in order.
    pub events: Vec<[u64; 2]>,
}

impl Joined {
    /// Joins lines.
    pub fn new(lines: &[Line]) -> Self {
        let mut joined = Joined::default();
        for line in lines {
            let time = line.time();
            if time == 0 {
                continue;
            }
            for &(begin, length) in &line.events {
                let at = line.watched_before(begin).min(time - 1);
                joined.events.push([joined.time + at, length]);
            }
            joined.time += time;
        }
        joined.time = joined.time.max(1);
        joined
    }

    /// Distance of each event from the one before, and of the first from the start.
    pub fn gaps(&self) -> Vec<u64> {
        let before = std::iter::once(0).chain(self.events.iter().map(|e| e[0]));
        before.zip(&self.events).map(|(b, e)| e[0] - b).collect()
    }

    /// Sum of the lengths.
    pub fn stolen(&self) -> u64 {
        self.events.iter().map(|e| e[1]).sum()
    }
}

/// The time during which all of several lines were watched.
pub fn watched_together(lines: &[&Line]) -> Vec<(u64, u64)> {
    let Some((first, others)) = lines.split_first() else {
        return Vec::new();
    };
    let mut spans = first.watched.clone();
    for other in others {
        let (mut i, mut j) = (0, 0);
        let mut both = Vec::new();
        while i < spans.len() && j < other.watched.len() {
            let (a, b) = (spans[i], other.watched[j]);
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            if from < to {
                both.push((from, to));
            }
            if a.1 < b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        spans = both;
    }
    spans
}

/// The events that start within spans of time.
pub fn within<'a>(
    events: &'a [(u64, u64)],
    spans: &'a [(u64, u64)],
) -> impl Iterator<Item = (u64, u64)> + 'a {
    events.iter().copied().filter(|&(begin, _)| {
        let after = spans.partition_point(|s| s.1 <= begin);
        spans.get(after).is_some_and(|s| s.0 <= begin)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_cuts_out_what_nobody_watched() {
        let a = Line {
            watched: vec![(100, 200), (300, 350)],
            events: vec![(110, 1), (199, 2), (310, 3), (350, 4)],
            ..Line::default()
        };
        let b = Line {
            watched: vec![(0, 10)],
            events: vec![(5, 5)],
            ..Line::default()
        };
        let joined = Joined::new(&[a, Line::default(), b]);
        assert_eq!(joined.time, 160);
        assert_eq!(
            joined.events,
            [[10, 1], [99, 2], [110, 3], [149, 4], [155, 5]]
        );
        assert_eq!(joined.gaps(), [10, 89, 11, 39, 6]);
        assert_eq!(joined.stolen(), 15);
        assert_eq!(Joined::new(&[]).time, 1);
    }

    #[test]
    fn common_time_is_where_all_were_watched() {
        let line = |watched: &[(u64, u64)]| Line {
            watched: watched.to_vec(),
            ..Line::default()
        };
        let (a, b) = (line(&[(0, 10), (20, 40)]), line(&[(5, 25), (30, 50)]));
        assert_eq!(watched_together(&[&a, &b]), [(5, 10), (20, 25), (30, 40)]);
        assert_eq!(watched_together(&[&a]), [(0, 10), (20, 40)]);
        assert!(watched_together(&[]).is_empty());
        let kept: Vec<_> = within(&[(4, 1), (5, 1), (10, 1), (24, 1)], &[(5, 10), (20, 25)])
            .map(|e| e.0)
            .collect();
        assert_eq!(kept, [5, 24]);
    }
}

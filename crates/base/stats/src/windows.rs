//! Cuts a duration series into short windows of time with a median each, for speed levels and
//! warm-up. A series is read once, and at most some thousand windows of it are held.

/// A window lasts at least this long, in nanoseconds ...
const AT_LEAST_NS: u64 = 5_000_000;
/// ... and holds at least this many durations, so that one detour cannot move its median.
const AT_LEAST_COUNT: usize = 5;
/// Longer series get longer windows; half a minute still has windows of 5 ms.
const AT_MOST_WINDOWS: u64 = 6_000;

/// One window of successive durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Index of the first duration.
    pub first: usize,
    /// Index after the last duration.
    pub after: usize,
    /// Start of the first quantum, nanoseconds.
    pub begin: u64,
    /// End of the last quantum, nanoseconds.
    pub end: u64,
    /// Median duration, nanoseconds; at least 1, so that it has a logarithm.
    pub median: u64,
    /// Quarter, half and three quarters of the durations lie below these, nanoseconds.
    pub quartiles: [u64; 3],
    /// Sum of the durations, nanoseconds.
    pub sum: u64,
}

/// Cuts a series into windows in one pass; it holds the durations of two windows.
#[derive(Clone, Debug)]
pub struct Windows {
    long: u64,
    done: Vec<Window>,
    /// The last whole window, which a remainder may join.
    last: Part,
    open: Part,
    /// End of the last whole window, from which the open one is measured.
    since: Option<u64>,
    /// Durations so far.
    seen: usize,
}

/// Successive durations of a window.
#[derive(Clone, Debug, Default)]
struct Part {
    first: usize,
    begin: u64,
    end: u64,
    durations: Vec<u64>,
}

impl Part {
    /// As a window; the durations lose their order.
    fn window(&mut self) -> Option<Window> {
        let sum = self
            .durations
            .iter()
            .fold(0, |s: u64, d| s.saturating_add(*d));
        let (first, after) = (self.first, self.first + self.durations.len());
        if first == after {
            return None;
        }
        let quartiles = quartiles(&mut self.durations);
        Some(Window {
            first,
            after,
            begin: self.begin,
            end: self.end,
            median: quartiles[1].max(1),
            quartiles,
            sum,
        })
    }
}

impl Windows {
    /// For a series that lasts `span` nanoseconds; a longer one has more windows, with the same
    /// result otherwise.
    pub fn new(span: u64) -> Self {
        Self {
            long: (span / AT_MOST_WINDOWS).max(AT_LEAST_NS),
            done: Vec::new(),
            last: Part::default(),
            open: Part::default(),
            since: None,
            seen: 0,
        }
    }

    /// Adds the next duration, with the time at which it ended.
    #[inline]
    pub fn push(&mut self, end: u64, duration: u64) {
        let open = &mut self.open;
        if open.durations.is_empty() {
            open.first = self.seen;
            open.begin = end.saturating_sub(duration);
        }
        open.durations.push(duration);
        open.end = end;
        self.seen += 1;
        let since = *self.since.get_or_insert(open.begin);
        if end.saturating_sub(since) >= self.long && open.durations.len() >= AT_LEAST_COUNT {
            self.close();
        }
    }

    fn close(&mut self) {
        self.since = Some(self.open.end);
        self.done.extend(self.last.window());
        std::mem::swap(&mut self.last, &mut self.open);
        self.open.durations.clear();
    }

    /// The windows in order of time. A remainder too short for a window joins the last one.
    pub fn finish(mut self) -> Vec<Window> {
        if self.last.durations.is_empty() {
            self.last = self.open;
        } else if !self.open.durations.is_empty() {
            self.last.durations.append(&mut self.open.durations);
            self.last.end = self.open.end;
        }
        self.done.extend(self.last.window());
        self.done
    }
}

/// Windows of a series in order of time. A remainder too short for a window joins the last one.
pub fn windows(ends: &[u64], durations: &[u64]) -> Vec<Window> {
    let begin = ends
        .iter()
        .zip(durations)
        .next()
        .map(|(e, d)| e.saturating_sub(*d));
    let last = ends.iter().zip(durations).next_back().map(|(e, _)| *e);
    let span = last.zip(begin).map_or(0, |(l, b)| l.saturating_sub(b));
    let mut windows = Windows::new(span);
    for (end, duration) in ends.iter().zip(durations) {
        windows.push(*end, *duration);
    }
    windows.finish()
}

/// Upper quartiles of `values`, which must not be empty and lose their order.
fn quartiles(values: &mut [u64]) -> [u64; 3] {
    let n = values.len();
    let (below, &mut median, above) = values.select_nth_unstable(n / 2);
    let at = |part: &mut [u64], rank: usize| match part.len() {
        0 => median,
        many => *part.select_nth_unstable(rank.min(many - 1)).1,
    };
    [at(below, n / 4), median, at(above, 3 * n / 4 - n / 2)]
}

/// Upper median of `values`, which must not be empty; `buffer` is scratch space.
pub fn median(values: &[u64], buffer: &mut Vec<u64>) -> u64 {
    buffer.clear();
    buffer.extend_from_slice(values);
    *buffer.select_nth_unstable(values.len() / 2).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_series_without_overlap() {
        let durations = vec![1_000_000; 103];
        let ends: Vec<u64> = (1..=103).map(|i| i * 1_000_000).collect();
        let got = windows(&ends, &durations);
        assert_eq!(got.len(), 20);
        assert_eq!(
            got[0],
            Window {
                first: 0,
                after: 5,
                begin: 0,
                end: 5_000_000,
                median: 1_000_000,
                quartiles: [1_000_000; 3],
                sum: 5_000_000
            }
        );
        assert_eq!(
            (got[19].first, got[19].after, got[19].end),
            (95, 103, 103_000_000)
        );
        assert!(
            got.windows(2)
                .all(|w| w[0].after == w[1].first && w[0].end == w[1].begin)
        );
    }

    #[test]
    fn nothing_gives_nothing_and_a_little_gives_one_window() {
        assert!(windows(&[], &[]).is_empty());
        let got = windows(&[5, 9], &[3, 4]);
        assert_eq!(
            got,
            [Window {
                first: 0,
                after: 2,
                begin: 2,
                end: 9,
                median: 4,
                quartiles: [3, 4, 4],
                sum: 7
            }]
        );
    }

    #[test]
    fn a_minute_has_six_thousand_windows_at_most() {
        let durations = vec![100_000; 600_000];
        let ends: Vec<u64> = (1..=600_000).map(|i| i * 100_000).collect();
        assert!(windows(&ends, &durations).len() <= 6000);
    }
}

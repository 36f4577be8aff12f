//! Cuts a duration series into short windows of time with a median each, for speed levels and
//! warm-up.

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
}

/// Windows of a series in order of time. A remainder too short for a window joins the last one.
pub fn windows(ends: &[u64], durations: &[u64]) -> Vec<Window> {
    let n = ends.len().min(durations.len());
    if n == 0 {
        return Vec::new();
    }
    let begin_of = |i: usize| ends[i].saturating_sub(durations[i]);
    let long = (ends[n - 1].saturating_sub(begin_of(0)) / AT_MOST_WINDOWS).max(AT_LEAST_NS);
    let mut edges = vec![0];
    let mut first = 0;
    let mut begin = begin_of(0);
    for (i, &end) in ends.iter().enumerate().take(n) {
        if i + 1 - first >= AT_LEAST_COUNT && end.saturating_sub(begin) >= long {
            edges.push(i + 1);
            first = i + 1;
            begin = end;
        }
    }
    if edges.len() > 1 {
        edges.pop();
    }
    edges.push(n);
    let mut buffer = Vec::new();
    edges
        .windows(2)
        .map(|edge| {
            let (first, after) = (edge[0], edge[1]);
            Window {
                first,
                after,
                begin: begin_of(first),
                end: ends[after - 1],
                median: median(&durations[first..after], &mut buffer).max(1),
            }
        })
        .collect()
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
                median: 1_000_000
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
                median: 4
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

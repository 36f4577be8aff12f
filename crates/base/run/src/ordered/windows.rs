//! Windows of time with a bounded number of rows each, for a table in no order.
//!
//! The time of the table is divided into equal buckets, and neighbouring ones are joined as long as
//! their rows are few enough. A bucket alone may have more.

use crate::{RunError, Table, TableReader};
use std::collections::VecDeque;
use std::ops::Range;

/// Parts of the time of a table whose rows are counted.
const BUCKETS: usize = 1 << 16;

/// The windows that are still to be read.
#[derive(Debug, Default)]
pub(super) struct Windows {
    first: u64,
    /// Nanoseconds from the first row to behind the last.
    length: u128,
    /// As ranges of buckets.
    left: VecDeque<Range<usize>>,
}

impl Windows {
    /// Reads the table that `read` opens twice: for its span, and to count its rows.
    pub(super) fn of<T: Table>(
        read: impl Fn() -> Result<Option<TableReader<T>>, RunError>,
        key: fn(&T::Row) -> u64,
        most: u64,
    ) -> Result<Self, RunError> {
        let each = |take: &mut dyn FnMut(u64)| -> Result<(), RunError> {
            let Some(mut reader) = read()? else {
                return Ok(());
            };
            let mut rows = T::default();
            while reader.next_into(&mut rows)? {
                rows.rows().for_each(|row| take(key(&row)));
                rows.clear();
            }
            Ok(())
        };
        let (mut first, mut last) = (u64::MAX, 0);
        each(&mut |time| (first, last) = (first.min(time), last.max(time)))?;
        let mut windows = Self {
            first,
            length: u128::from(last.saturating_sub(first)) + 1,
            left: VecDeque::new(),
        };
        let mut counts = vec![0_u64; BUCKETS];
        each(&mut |time| counts[windows.bucket(time)] += 1)?;
        let (mut begin, mut rows) = (0, 0);
        for (bucket, count) in counts.into_iter().enumerate() {
            if rows > 0 && count > 0 && rows + count > most {
                windows.left.push_back(begin..bucket);
                (begin, rows) = (bucket, 0);
            }
            rows += count;
        }
        windows.left.push_back(begin..BUCKETS);
        Ok(windows)
    }

    /// The bucket of a time.
    pub(super) fn bucket(&self, time: u64) -> usize {
        let at = u128::from(time.saturating_sub(self.first));
        ((at * BUCKETS as u128 / self.length.max(1)) as usize).min(BUCKETS - 1)
    }

    /// The next window, as a range of buckets.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        self.left.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Quanta, Quantum};
    use idlewave_units::{Cpu, Nanos};

    #[test]
    fn windows_join_buckets_up_to_the_rows_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut out = crate::RunWriter::create(&path, crate::testing::empty_manifest()).unwrap();
        let mut rows = Quanta::default();
        for begin_ns in [u64::MAX, 7, 0, 7, 1 << 63] {
            rows.push(Quantum {
                phase: 0,
                cpu: Cpu::new(0),
                begin_ns,
                duration: Nanos::ZERO,
                units: None,
            });
        }
        out.write_table(&rows).unwrap();
        out.close(None).unwrap();
        let run = crate::RunReader::open(&path).unwrap();
        let read = || run.table::<Quanta>().map(Some);
        let windows = |most| {
            let windows = Windows::of(read, |q: &Quantum| q.begin_ns, most).unwrap();
            let ends = windows.left.into_iter().map(|w| (w.start, w.end));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(windows(9), [(0, BUCKETS)]);
        // 0 and twice 7 share a bucket, which is more than two rows.
        let (half, last) = (BUCKETS / 2, BUCKETS - 1);
        assert_eq!(windows(2), [(0, half), (half, BUCKETS)]);
        assert_eq!(windows(1), [(0, half), (half, last), (last, BUCKETS)]);
    }
}

//! The rows of a table in order of time, one batch of every stretch in memory.
//!
//! The kernel's tables are written CPU by CPU, so a table is a few stretches of rising time, one per
//! CPU and node. A first pass finds where the stretches begin; then each has a reader of its own,
//! and the earliest row of all is next. A table of more stretches than [`MOST_STRETCHES`] (one
//! sorted by thread, say) is read once for every [window](windows) of time with about [`MOST_ROWS`]
//! rows, which are sorted in memory.

mod windows;

use crate::batches::BatchReader;
use crate::{RunError, Table, TableReader};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use windows::Windows;

/// Stretches read side by side. Each takes an open file and a batch of 16,384 rows; half of the
/// usual limit of 1024 open files.
pub(crate) const MOST_STRETCHES: usize = 256;
/// Rows sorted in memory at once: 50 MB of the widest table, `bursts`.
pub(crate) const MOST_ROWS: u64 = 1 << 20;

/// Where a stretch lies: batch and row of its start, and how many rows it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    batch: usize,
    row: usize,
    rows: u64,
}

/// A stretch while it is read.
struct Open<T: Table> {
    reader: TableReader<T>,
    batch: T,
    next: usize,
    left: u64,
}

impl<T: Table> Open<T> {
    /// The next row; `None` at the end of the stretch.
    fn next(&mut self) -> Result<Option<T::Row>, RunError> {
        if self.left == 0 {
            return Ok(None);
        }
        while self.next >= self.batch.len() {
            self.batch.clear();
            self.next = 0;
            if !self.reader.next_into(&mut self.batch)? {
                self.left = 0;
                return Ok(None);
            }
        }
        let row = self.batch.row(self.next);
        (self.next, self.left) = (self.next + 1, self.left - 1);
        Ok(Some(row))
    }
}

/// Where rows come from, in order of time.
enum Source<T: Table> {
    Stretch(Open<T>),
    Window(std::vec::IntoIter<T::Row>),
}

impl<T: Table> Source<T> {
    fn next(&mut self) -> Result<Option<T::Row>, RunError> {
        match self {
            Self::Stretch(stretch) => stretch.next(),
            Self::Window(rows) => Ok(rows.next()),
        }
    }
}

/// Opens the table, from its first batch on; `None` if the run has none.
type Opener<'a> = Box<dyn Fn() -> Result<Option<BatchReader>, RunError> + 'a>;

/// Rows of a table in rising order of a time of theirs; rows of equal times come in the order of
/// the table.
pub struct Ordered<'a, T: Table> {
    open: Opener<'a>,
    key: fn(&T::Row) -> u64,
    sources: Vec<Source<T>>,
    heads: Vec<Option<T::Row>>,
    /// Time and source of every head.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// What is still to be read of a table in no order.
    windows: Windows,
}

impl<'a, T: Table> Ordered<'a, T> {
    /// Over the table that `open` opens; `most` are stretches, and rows in memory.
    pub(crate) fn new(
        open: impl Fn() -> Result<Option<BatchReader>, RunError> + 'a,
        key: fn(&T::Row) -> u64,
        (most_stretches, most_rows): (usize, u64),
    ) -> Result<Self, RunError> {
        let mut all = Self {
            open: Box::new(open),
            key,
            sources: Vec::new(),
            heads: Vec::new(),
            order: BinaryHeap::new(),
            windows: Windows::default(),
        };
        let Some(batches) = (all.open)()? else {
            return Ok(all);
        };
        let Some(found) = stretches::<T>(TableReader::on(batches), key, most_stretches)? else {
            let read = || Ok((all.open)()?.map(TableReader::<T>::on));
            all.windows = Windows::of(read, key, most_rows)?;
            all.add(Source::Window(Vec::new().into_iter()))?;
            all.next_window()?;
            return Ok(all);
        };
        for stretch in found {
            let Some(mut batches) = (all.open)()? else {
                break;
            };
            batches.skip(stretch.batch)?;
            let mut open = Open {
                reader: TableReader::on(batches),
                batch: T::default(),
                next: 0,
                left: stretch.rows,
            };
            open.reader.next_into(&mut open.batch)?;
            open.next = stretch.row;
            all.add(Source::Stretch(open))?;
        }
        Ok(all)
    }

    fn add(&mut self, source: Source<T>) -> Result<(), RunError> {
        self.sources.push(source);
        self.heads.push(None);
        self.advance(self.sources.len() - 1)
    }

    fn advance(&mut self, source: usize) -> Result<(), RunError> {
        let next = self.sources[source].next()?;
        if let Some(row) = &next {
            self.order.push(Reverse(((self.key)(row), source)));
        }
        self.heads[source] = next;
        Ok(())
    }

    /// Reads the next window that has rows, if there is one.
    fn next_window(&mut self) -> Result<(), RunError> {
        while self.order.is_empty() {
            let Some(window) = self.windows.next() else {
                return Ok(());
            };
            let Some(batches) = (self.open)()? else {
                return Ok(());
            };
            let mut reader = TableReader::<T>::on(batches);
            let (mut batch, mut rows) = (T::default(), Vec::new());
            while reader.next_into(&mut batch)? {
                let here = |row: &T::Row| window.contains(&self.windows.bucket((self.key)(row)));
                rows.extend(batch.rows().filter(here));
                batch.clear();
            }
            // Rows of equal time keep their order.
            rows.sort_by_key(self.key);
            self.sources[0] = Source::Window(rows.into_iter());
            self.advance(0)?;
        }
        Ok(())
    }

    /// The time of the next row; `None` at the end.
    pub fn peek(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((time, _))| *time)
    }

    /// The next row; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<T::Row>, RunError> {
        let Some(Reverse((_, source))) = self.order.pop() else {
            return Ok(None);
        };
        let row = self.heads[source].take();
        self.advance(source)?;
        if self.order.is_empty() {
            self.next_window()?;
        }
        Ok(row)
    }
}

/// The stretches of a table; `None` if there are more than `most`.
fn stretches<T: Table>(
    mut reader: TableReader<T>,
    key: fn(&T::Row) -> u64,
    most: usize,
) -> Result<Option<Vec<Stretch>>, RunError> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut last = 0;
    let mut rows = T::default();
    let mut batch = 0;
    while reader.next_into(&mut rows)? {
        for (row, time) in rows.rows().map(|r| key(&r)).enumerate() {
            if let Some(stretch) = found.last_mut().filter(|_| time >= last) {
                stretch.rows += 1;
            } else if found.len() == most {
                return Ok(None);
            } else {
                let rows = 1;
                found.push(Stretch { batch, row, rows });
            }
            last = time;
        }
        rows.clear();
        batch += 1;
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Quanta, Quantum};
    use crate::testing::empty_manifest;
    use crate::{RunReader, RunWriter};
    use idlewave_units::{Cpu, Nanos};
    use proptest::prelude::*;

    /// A run with a table of these times, in batches of `batch` rows; the CPU is the place of a row.
    fn run(times: &[u64], batch: usize) -> (tempfile::TempDir, RunReader) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut out = RunWriter::create(&path, empty_manifest()).unwrap();
        let mut table = out.table::<Quanta>().unwrap();
        for (first, part) in times.chunks(batch).enumerate() {
            let mut rows = Quanta::default();
            for (i, &begin_ns) in part.iter().enumerate() {
                rows.push(Quantum {
                    phase: 0,
                    cpu: Cpu::new((first * batch + i) as u32),
                    begin_ns,
                    duration: Nanos::ZERO,
                    units: None,
                });
            }
            table.extend(&rows).unwrap();
        }
        out.finish_table(table).unwrap();
        out.close(None).unwrap();
        (dir, RunReader::open(&path).unwrap())
    }

    fn read(run: &RunReader, most: (usize, u64)) -> Vec<(u64, u32)> {
        let mut rows = run.in_order_of::<Quanta>(|q| q.begin_ns, most).unwrap();
        let mut out = Vec::new();
        while let Some(peeked) = rows.peek() {
            let row = rows.next_row().unwrap().unwrap();
            assert_eq!(row.begin_ns, peeked);
            out.push((row.begin_ns, row.cpu.get()));
        }
        assert_eq!(rows.next_row().unwrap(), None);
        out
    }

    #[test]
    fn two_cpus_one_after_the_other_are_read_as_one() {
        let (_dir, run) = run(&[1, 5, 9, 2, 5, 6], 4);
        let want = [(1, 0), (2, 3), (5, 1), (5, 4), (6, 5), (9, 2)];
        assert_eq!(read(&run, (2, 1)), want);
        assert_eq!(
            read(&run, (1, 9)),
            want,
            "the same if it is sorted in memory"
        );
        assert_eq!(read(&run, (1, 2)), want, "the same in several windows");
    }

    #[test]
    fn a_table_that_is_missing_or_empty_has_no_rows() {
        let (_dir, run) = run(&[], 1);
        assert_eq!(read(&run, (2, 1)), []);
        assert_eq!(read(&run, (0, 1)), []);
        let mut none = run
            .in_order::<crate::tables::Bursts>(|b| b.begin_ns)
            .unwrap();
        assert_eq!(none.next_row().unwrap(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_table_comes_in_order_and_whole(
            times in prop::collection::vec(0_u64..50, 0..60), batch in 1_usize..20,
            most in (1_usize..40, 1_u64..40),
        ) {
            let (_dir, run) = run(&times, batch);
            let mut want: Vec<(u64, u32)> = times.iter().enumerate().map(|(i, &t)| (t, i as u32)).collect();
            want.sort_unstable();
            prop_assert_eq!(read(&run, most), want);
        }
    }
}

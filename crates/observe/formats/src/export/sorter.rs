//! Sorts any number of records by their keys in bounded memory: sorted runs go to temporary files
//! beside the output and are merged. Records with equal keys stay in the order in which they came.
//!
//! The records come from several tables and most rows give two, for their begin and their end, so
//! the order of a single table (`RunReader::in_order`) would not help.

use crate::export::ExportError;
use bytemuck::Pod;
use idlewave_sys::files::Replacement;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Records kept in memory: 14 MiB for Paraver, and 20 MiB more while they are sorted.
const MOST: usize = 1 << 18;
/// Records of each run that are in memory during the merge.
const PIECE: usize = 1 << 12;

/// A record that has a place in time.
pub(crate) trait Sorted: Pod {
    /// The sort key.
    type Key: Ord + Copy;
    fn key(&self) -> Self::Key;
    fn time(&self) -> u64;
}

/// Takes records in any order.
pub(crate) struct Sorter<R> {
    /// The output: temporary files go to its directory.
    beside: PathBuf,
    most: usize,
    kept: Vec<R>,
    runs: Vec<Replacement>,
    len: u64,
    span: Option<(u64, u64)>,
}

impl<R: Sorted> Sorter<R> {
    pub(crate) fn new(beside: &Path) -> Self {
        Self::with(beside, MOST)
    }

    fn with(beside: &Path, most: usize) -> Self {
        Self {
            beside: beside.to_owned(),
            most,
            kept: Vec::new(),
            runs: Vec::new(),
            len: 0,
            span: None,
        }
    }

    /// Records so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// First and last time of all records, and of the times they cover; `None` without any.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Extends the span to another time of a record, such as its end.
    pub(crate) fn cover(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }

    pub(crate) fn push(&mut self, record: R) -> Result<(), ExportError> {
        self.cover(record.time());
        self.kept.push(record);
        self.len += 1;
        match self.kept.len() < self.most {
            true => Ok(()),
            false => self.spill().map_err(ExportError::io(&self.beside)),
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let kept = sorted(&self.kept);
        // Never committed, so it is removed when it is dropped.
        let mut run = Replacement::begin(&self.beside)?;
        run.file().write_all(bytemuck::cast_slice(&kept))?;
        run.file().rewind()?;
        self.runs.push(run);
        self.kept.clear();
        Ok(())
    }

    /// Passes on all records in order of their keys.
    pub(crate) fn finish(
        self,
        mut pass: impl FnMut(R) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let kept = sorted(&self.kept);
        if self.runs.is_empty() {
            return kept.into_iter().try_for_each(pass);
        }
        let failed = ExportError::io;
        let mut runs: Vec<Run<R>> = self.runs.into_iter().map(Run::on).collect();
        // What is left in memory came last.
        runs.push(Run {
            file: None,
            piece: kept,
            at: 0,
        });
        let mut first = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            if let Some(record) = run.peek().map_err(failed(&self.beside))? {
                first.push(Reverse((record.key(), index)));
            }
        }
        while let Some(Reverse((_, index))) = first.pop() {
            let run = &mut runs[index];
            // As long as this run has the earliest record, the heap is not needed.
            while let Some(record) = run.peek().map_err(failed(&self.beside))? {
                let place = (record.key(), index);
                if first.peek().is_some_and(|Reverse(other)| *other < place) {
                    first.push(Reverse(place));
                    break;
                }
                run.at += 1;
                pass(record)?;
            }
        }
        Ok(())
    }
}

/// The records in order. Only the keys are sorted, with the place of each, since records are large.
fn sorted<R: Sorted>(records: &[R]) -> Vec<R> {
    let keys = records.iter().map(R::key).zip(0_u32..);
    let mut order: Vec<(R::Key, u32)> = keys.collect();
    order.sort_unstable();
    let record = |(_, at)| records[at as usize];
    order.into_iter().map(record).collect()
}

/// A sorted run being read.
struct Run<R> {
    file: Option<Replacement>,
    piece: Vec<R>,
    at: usize,
}

impl<R: Sorted> Run<R> {
    fn on(file: Replacement) -> Self {
        Self {
            file: Some(file),
            piece: Vec::new(),
            at: 0,
        }
    }

    fn peek(&mut self) -> io::Result<Option<R>> {
        if self.at == self.piece.len() {
            self.fill()?;
        }
        Ok(self.piece.get(self.at).copied())
    }

    fn fill(&mut self) -> io::Result<()> {
        self.at = 0;
        self.piece.clear();
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        self.piece.resize(PIECE, R::zeroed());
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.piece);
        let mut filled = 0;
        while filled < bytes.len() {
            match file.file().read(&mut bytes[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        self.piece.truncate(filled / size_of::<R>());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::paraver::record::Record;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_in_order_and_equal_ones_as_they_were_given(
            times in proptest::collection::vec((0_u64..20, 0_u32..3), 0..200), most in 1_usize..50,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut sorter = Sorter::with(&dir.path().join("out"), most);
            let mut expected = Vec::new();
            for (at, (time, kind)) in times.into_iter().enumerate() {
                sorter.push(Record::new(kind, time, at as u32)).unwrap();
                expected.push((time, kind, at as u32));
            }
            // The last component makes this the stable order.
            expected.sort_unstable();
            let mut found = Vec::new();
            sorter.finish(|r| { found.push((r.time, r.kind, r.object)); Ok(()) }).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        }
    }
}

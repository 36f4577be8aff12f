//! Tests the reader with rings that are made here word by word.

use idlewave_interpose::ring::{HEADER_BYTES, Header, MAGIC, WORDS};
use idlewave_interpose::{RingError, RingReader};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const CAPACITY: u64 = 16;

struct Made {
    file: std::fs::File,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Made {
    /// All zero, as a writer has it before it stores the first word.
    fn zeros(bytes: usize) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("1.2.ring");
        std::fs::write(&path, vec![0; bytes]).expect("a file");
        let file = std::fs::File::options().read(true).write(true).open(&path);
        Self {
            file: file.expect("a file"),
            path,
            _directory: directory,
        }
    }

    fn ring() -> Self {
        let made = Self::zeros(HEADER_BYTES + CAPACITY as usize * 8 * WORDS);
        made.set(offset_of!(Header, capacity), CAPACITY);
        made.set(offset_of!(Header, magic), MAGIC);
        made
    }

    fn set(&self, at: usize, word: u64) {
        let done = self.file.write_all_at(&word.to_le_bytes(), at as u64);
        done.expect("a word");
    }

    fn get(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        let done = self.file.read_exact_at(&mut bytes, at as u64);
        done.expect("a word");
        u64::from_le_bytes(bytes)
    }

    /// Record `n` is `n` in each of its words.
    fn write(&self, records: std::ops::Range<u64>) {
        for n in records.clone() {
            let place = HEADER_BYTES + (n % CAPACITY) as usize * 8 * WORDS;
            for word in 0..WORDS {
                self.set(place + 8 * word, n);
            }
        }
        self.set(offset_of!(Header, written), records.end);
    }

    fn read(&self) -> u64 {
        self.get(offset_of!(Header, read))
    }

    fn open(&self) -> RingReader {
        RingReader::open(&self.path).expect("a ring")
    }
}

/// The next records, each once, by the number in them.
fn take(reader: &mut RingReader, most: u64) -> Vec<u64> {
    let mut words = Vec::new();
    let count = reader.take(most, &mut words);
    assert_eq!(words.len() as u64, count * WORDS as u64);
    let records = words.chunks_exact(WORDS).map(|record| {
        assert!(record.iter().all(|word| *word == record[0]));
        record[0]
    });
    records.collect()
}

#[test]
fn records_come_in_order_around_the_end_of_the_ring() {
    let made = Made::ring();
    let mut reader = made.open();
    made.write(0..10);
    assert_eq!(take(&mut reader, 4), [0, 1, 2, 3]);
    assert_eq!((reader.waiting(), made.read()), (6, 0));
    assert_eq!(take(&mut reader, 100), [4, 5, 6, 7, 8, 9]);
    reader.release();
    assert_eq!(made.read(), 10);
    made.write(10..26);
    assert_eq!(take(&mut reader, 100), (10..26).collect::<Vec<_>>());
    assert_eq!(take(&mut reader, 100), [0; 0]);
}

#[test]
fn a_successor_begins_behind_what_was_released_or_is_known_to_be_taken() {
    let made = Made::ring();
    made.write(0..10);
    let mut reader = made.open();
    take(&mut reader, 3);
    reader.release();
    take(&mut reader, 3);
    drop(reader);
    let mut again = made.open();
    assert_eq!(take(&mut again, 1), [3], "4 and 5 were not released");
    let mut told = made.open();
    told.skip_to(6);
    assert_eq!(take(&mut told, 1), [6]);
    told.skip_to(2);
    assert_eq!(take(&mut told, 1), [7], "never back");
    told.skip_to(1000);
    assert_eq!(take(&mut told, 1), [0; 0], "nor behind the last one");
    made.write(10..11);
    assert_eq!(take(&mut told, 1), [10]);
}

#[test]
fn counters_gone_mad_are_not_followed() {
    let made = Made::ring();
    let mut reader = made.open();
    made.set(offset_of!(Header, written), u64::MAX);
    assert_eq!(take(&mut reader, u64::MAX).len() as u64, CAPACITY);
    made.set(offset_of!(Header, written), 0);
    assert_eq!((reader.waiting(), take(&mut reader, 5).len()), (0, 0));
    made.set(offset_of!(Header, read), u64::MAX);
    assert_eq!(take(&mut made.open(), 5), [0; 0]);
}

#[test]
fn what_is_no_ring_yet_is_told_from_what_is_none_at_all() {
    let not_ready = |made: &Made| {
        let opened = RingReader::open(&made.path);
        assert!(matches!(opened, Err(RingError::NotReady(_))), "{opened:?}");
    };
    not_ready(&Made::zeros(0));
    not_ready(&Made::zeros(HEADER_BYTES - 1));
    let made = Made::ring();
    made.set(offset_of!(Header, magic), 0);
    not_ready(&made);

    let says = |at: usize, word: u64| {
        let made = Made::ring();
        made.set(at, word);
        match RingReader::open(&made.path) {
            Err(error @ RingError::Damaged { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let magic = offset_of!(Header, magic);
    assert!(says(magic, MAGIC.swap_bytes()).ends_with("it was written in the other byte order"));
    assert!(says(magic, MAGIC + 1).ends_with("it is not a ring file"));
    for capacity in [0, 15, 32, 1 << 27, u64::MAX] {
        let text = says(offset_of!(Header, capacity), capacity);
        assert!(
            text.ends_with(&format!("it cannot hold {capacity} records")),
            "{text}"
        );
    }
}

/// A program may do so with its own ring; this must not end the process that records it.
#[test]
fn a_ring_that_its_program_cuts_short_gives_nothing_more_and_ends_no_reader() {
    for left in [0, HEADER_BYTES as u64] {
        let made = Made::ring();
        made.write(0..10);
        let mut reader = made.open();
        assert_eq!(take(&mut reader, 4), [0, 1, 2, 3]);
        made.file.set_len(left).expect("shorter");
        assert_eq!(take(&mut reader, 16), [0; 0], "{left}");
        assert!(reader.is_torn());
        reader.state();
        reader.release();
    }
}

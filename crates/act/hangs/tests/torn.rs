//! Pages that their programs truncate while they are watched.

use idlewave_hangs::{Job, Settings, Watch};
use idlewave_interpose::state::{
    Communicator, EXTENSION, MAGIC, Page, Want, kind, mode, phase, unknown,
};
use std::fs::{self, File};
use std::mem::offset_of;
use std::path::Path;
use std::time::Duration;

const WORLD: u64 = 9;

/// Bytes of a page, word by word.
struct Made(Vec<u8>);

impl Made {
    fn new(number: u32) -> Self {
        let mut made = Self(vec![0; size_of::<Page>()]);
        made.long(offset_of!(Page, magic), MAGIC);
        made.short(offset_of!(Page, pid), number);
        made
    }

    fn long(&mut self, at: usize, word: u64) {
        self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn short(&mut self, at: usize, word: u32) {
        self.0[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    fn write(&self, directory: &Path, number: u32) {
        fs::write(directory.join(format!("{number}.{EXTENSION}")), &self.0).expect("a page");
    }
}

/// The page of one of `size` ranks, which waits for a message from another one.
fn waits(rank: u32, size: u32, from: u32) -> Made {
    let mut made = Made::new(rank);
    made.short(offset_of!(Page, phase), phase::RUNNING);
    made.short(offset_of!(Page, rank_plus_one), rank + 1);
    made.short(offset_of!(Page, size), size);
    made.long(offset_of!(Page, epoch), 2);
    made.long(offset_of!(Page, doing), 1 << 32 | u64::from(mode::ALL));
    let want = offset_of!(Page, waits);
    let what = u64::from(from + 1) << 32 | u64::from(kind::RECEIVE);
    made.long(want + offset_of!(Want, what), what);
    made.long(want + offset_of!(Want, communicator), WORLD);
    made.short(offset_of!(Page, communicators_used), 1);
    let world = offset_of!(Page, communicators);
    made.long(world + offset_of!(Communicator, key), WORLD);
    let members = 1 << 32 | u64::from(size);
    made.long(world + offset_of!(Communicator, members), members);
    made
}

fn cut(directory: &Path, number: u32) {
    let path = directory.join(format!("{number}.{EXTENSION}"));
    let file = File::options().write(true).open(path).expect("a page");
    file.set_len(0).expect("it is ours");
}

#[test]
fn a_page_that_is_cut_short_is_not_known_and_takes_no_part_in_a_verdict() {
    let directory = tempfile::tempdir().expect("a directory");
    for (rank, from) in [(0, 1), (1, 0)] {
        waits(rank, 2, from).write(directory.path(), rank);
    }
    let settings = Settings {
        apart: Duration::ZERO,
        ..Settings::default()
    };
    let mut watch = Watch::with(directory.path(), settings);
    let look = watch.look().expect("a look");
    assert!(
        look.deadlock().is_some(),
        "they wait for each other: {look:?}"
    );
    assert!(watch.initialised().expect("pages").all());

    cut(directory.path(), 1);
    for _ in 0..3 {
        let look = watch.look().expect("a look");
        assert_eq!(look.job, Job::Progressing, "{look:?}");
        assert!(look.shown().is_none(), "{look:?}");
        // What was known about it before remains.
        let rank = &look.ranks[1];
        assert_eq!(rank.rank, 1, "{look:?}");
        assert_ne!(rank.record.unknown & unknown::TORN, 0, "{look:?}");
        let place = look.place(rank);
        assert!(
            place.contains("not tracked: its program truncated"),
            "{place}"
        );
        let initialised = watch.initialised().expect("pages");
        assert_eq!((initialised.past, initialised.within), (2, 0));
        assert!(!watch.is_still());
    }
}

#[test]
fn a_page_that_is_cut_short_before_its_rank_is_known_is_not_in_mpi_init() {
    let directory = tempfile::tempdir().expect("a directory");
    waits(0, 2, 1).write(directory.path(), 0);
    Made::new(1).write(directory.path(), 1);
    let mut watch = Watch::new(directory.path());
    let look = watch.look().expect("a look");
    assert_eq!(look.job, Job::Initialising);
    cut(directory.path(), 1);
    let look = watch.look().expect("a look");
    assert_eq!(look.job, Job::Incomplete { seen: 1, size: 2 }, "{look:?}");
    let initialised = watch.initialised().expect("pages");
    assert_eq!((initialised.past, initialised.within), (1, 0));
}

//! State pages that are still being made, files that are no pages, and pages with arbitrary
//! content.

use idlewave_interpose::state::{MAGIC, Page};
use idlewave_interpose::{InterposeError, StatePage, StateRecord};
use proptest::prelude::*;
use std::path::PathBuf;

fn page(directory: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join("1.state");
    std::fs::write(&path, bytes).expect("a file");
    path
}

#[test]
fn a_page_that_is_being_made_can_be_opened_later_and_another_file_never() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut bytes = vec![0; size_of::<Page>()];
    let short = page(&directory, &bytes[..100]);
    assert!(matches!(
        StatePage::open(&short),
        Err(InterposeError::NotReady(_))
    ));
    let zero = page(&directory, &bytes);
    assert!(matches!(
        StatePage::open(&zero),
        Err(InterposeError::NotReady(_))
    ));
    bytes[..8].copy_from_slice(b"IWSTAT99");
    let other = page(&directory, &bytes);
    let error = StatePage::open(&other).expect_err("another version");
    assert!(
        error
            .to_string()
            .contains("not a state page of this version")
    );
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    let empty = StatePage::open(&page(&directory, &bytes)).expect("a page");
    let mut record = StateRecord::default();
    empty.read(&mut record);
    assert_eq!(record, StateRecord::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_a_page_holds_it_is_read(words in prop::collection::vec(any::<u64>(), 400), seed: u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut bytes = Vec::with_capacity(size_of::<Page>() + 8);
        for (at, word) in words.iter().cycle().enumerate().take(size_of::<Page>() / 8 + 1) {
            bytes.extend((word ^ seed.rotate_left(at as u32)).to_le_bytes());
        }
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let found = StatePage::open(&page(&directory, &bytes)).expect("a page");
        let mut record = StateRecord::default();
        found.read(&mut record);
        prop_assert!(record.wants.len() <= idlewave_interpose::state::WAITS);
        prop_assert!(record.posted.len() <= idlewave_interpose::state::POSTED);
        prop_assert!(found.process().host.len() <= 3 * 64);
    }
}

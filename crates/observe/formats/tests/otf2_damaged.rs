//! OTF2 archives that are damaged or incomplete: refused with a next step, or read as far as they
//! go.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use crate::otf2_file::{Archive, COMPRESSION, SUBSTRATE};
use idlewave_formats::import::ImportError;
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use proptest::prelude::*;
use std::fs;

/// The error for an archive that was changed, and its next step.
fn refused(change: impl FnOnce(&mut Archive)) -> (ImportError, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::new(false);
    change(&mut archive);
    let anchor = archive.write(dir.path());
    let to = dir.path().join("run");
    let error = back(&anchor, &to).unwrap_err();
    assert!(!to.exists(), "half a run is left");
    let next = error.next_step();
    (error, next)
}

#[test]
fn archives_that_cannot_be_read_are_refused_with_a_next_step() {
    let (error, next) = refused(|archive| archive.remove("a.def"));
    assert!(error.to_string().contains("there is no "), "{error}");
    assert!(next.contains("NAME.def"), "{next}");
    let (error, next) = refused(|archive| {
        archive.remove("a/10.evt");
        archive.remove("a/11.evt");
    });
    assert!(error.to_string().contains("events are missing"), "{error}");
    assert!(next.contains("directory NAME"), "{next}");
    let (error, next) = refused(|archive| archive.file("a.otf2")[COMPRESSION] = 2);
    assert!(error.to_string().contains("compressed"), "{error}");
    assert!(next.contains("without compression"), "{next}");
    let (error, next) = refused(|archive| archive.file("a.otf2")[SUBSTRATE] = 2);
    assert!(error.to_string().contains("SIONlib"), "{error}");
    assert!(next.contains("without SIONlib"), "{next}");
    for (name, at) in [
        ("a.otf2", 15),
        ("a.def", 19),
        ("a.def", 0),
        ("a/11.def", 1),
        ("a/11.def", 19),
    ] {
        let (error, _) = refused(|archive| archive.file(name)[at] ^= 0x0f);
        assert!(
            matches!(error, ImportError::Damaged { .. }),
            "{name} {at}: {error}"
        );
    }
    // Definitions without a clock.
    let (error, _) = refused(|archive| archive.file("a.def")[18] = 2);
    assert!(
        error.to_string().contains("how fast the clock ticks"),
        "{error}"
    );
    let (error, _) = refused(|archive| archive.file("a/10.evt")[1 << 18] = 9);
    assert!(
        error
            .to_string()
            .ends_with("no chunk begins here at byte 262144"),
        "{error}"
    );
    // A length that leads beyond the end of a whole chunk.
    let (error, _) = refused(|archive| {
        let file = archive.file("a/10.evt");
        let end = (1 << 18) - 11;
        file[end..end + 11]
            .copy_from_slice(&[120, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
        file[200..end].fill(5);
        let start = file.iter().position(|b| *b == 13).unwrap();
        file[start + 2..end].fill(0);
        file[start + 2] = 120;
        file[start + 3..start + 12].fill(255);
    });
    assert!(
        error.to_string().contains("goes beyond its chunk"),
        "{error}"
    );
}

#[test]
fn directories_are_asked_for_the_one_archive_that_they_hold() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("run");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = back(&empty, &to).unwrap_err();
    assert!(error.to_string().contains("OTF2 archive"), "{error}");
    let anchor = Archive::new(false).write(dir.path());
    fs::copy(&anchor, dir.path().join("b.otf2")).unwrap();
    let error = back(dir.path(), &to).unwrap_err();
    assert!(
        error.to_string().contains("several OTF2 archives"),
        "{error}"
    );
    fs::remove_file(dir.path().join("b.otf2")).unwrap();
    assert!(back(dir.path(), &to).is_ok());
}

#[test]
fn what_is_cut_or_missing_is_in_the_ledger() {
    let ledger = |change: &dyn Fn(&mut Archive)| {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::new(false);
        change(&mut archive);
        let anchor = archive.write(dir.path());
        let to = dir.path().join("run");
        let imported = back(&anchor, &to).unwrap();
        let run = RunReader::open(&to).unwrap();
        let mut found = entries(&imported.losses);
        assert_eq!(
            found.pop().unwrap(),
            "who had the CPUs, interrupts and wake-ups x1"
        );
        (found, run.read::<Calls>().unwrap().len())
    };
    let cut = |archive: &mut Archive| {
        let file = archive.file("a/11.evt");
        let length = file.len();
        file.truncate(length - 20);
    };
    let (found, calls) = ledger(&cut);
    assert_eq!(
        found,
        [
            "files of events that are cut short x1",
            "events that the definitions announce and the files lack x2",
            "calls of MPI that do not end x1"
        ]
    );
    assert_eq!(calls, 4);
    let (found, calls) = ledger(&|archive: &mut Archive| archive.remove("a/11.evt"));
    assert_eq!(
        found,
        [
            "files of events that are missing x1",
            "events that the definitions announce and the files lack x12"
        ]
    );
    assert_eq!(calls, 2);
    let (found, _) = ledger(&|archive: &mut Archive| archive.remove("a/10.def"));
    assert_eq!(found, ["locations without local definitions x1"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Changed bytes are refused, or become a run whose rows lie within its time.
    #[test]
    fn no_bytes_are_too_strange(
        big: bool,
        file in 0..6_usize,
        changes in prop::collection::vec((0..1_000_usize, any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, 0..1_000_usize),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Archive::new(big);
        let bytes = &mut archive.0[file].1;
        for (at, value) in changes {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        if let Some(cut) = cut {
            let length = bytes.len();
            bytes.truncate(cut % length);
        }
        let anchor = archive.write(dir.path());
        let to = dir.path().join("run");
        if back(&anchor, &to).is_ok() {
            let run = RunReader::open(&to).unwrap();
            let phase = &run.manifest().phases[0];
            for call in run.read::<Calls>().unwrap().rows() {
                prop_assert!(phase.begin_ns <= call.begin_ns);
                prop_assert!(call.begin_ns <= call.end_ns && call.end_ns <= phase.end_ns);
            }
            for end in run.read::<Transfers>().unwrap().rows() {
                prop_assert!(end.posted_ns <= end.completed_ns.unwrap_or(u64::MAX));
            }
            run.read::<Marks>().unwrap();
            run.read::<Communicators>().unwrap();
        } else {
            prop_assert!(!to.exists());
        }
    }
}

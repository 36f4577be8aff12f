//! An export that the user interrupts leaves nothing behind, and a file that was there stays.

#![allow(clippy::unwrap_used)]

use crate::common;
use crate::small_run;

use idlewave_formats::export::{ExportError, Format, Job};
use idlewave_run::RunReader;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn an_export_that_is_ended_leaves_nothing_and_what_is_there_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = small_run::run(dir.path());
    let run = RunReader::open(&path).unwrap();
    for &format in Format::ALL {
        let output = format.place(&dir.path().join("trace"));
        let write = |stop: bool| {
            format.write(&Job {
                run: &run,
                output: &output,
                stop: &AtomicBool::new(stop),
                progress: &|_| (),
            })
        };
        // Without the pages as recorded, there is nothing to interrupt.
        if format != Format::TraceDat {
            let ended = write(true);
            assert!(matches!(ended, Err(ExportError::Interrupted)), "{format:?}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        for place in format.places(&output).unwrap() {
            fs::write(&place, "old").unwrap();
            match write(false) {
                Err(ExportError::Exists(there)) => assert_eq!(there, place),
                other => panic!("{format:?}: {other:?}"),
            }
            assert_eq!(fs::read_to_string(&place).unwrap(), "old");
            fs::remove_file(&place).unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn what_was_written_before_an_export_failed_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = small_run::run(dir.path());
    let run = RunReader::open(&path).unwrap();
    let output = dir.path().join("trace.prv");
    // It is in the way of the last file but one.
    let row = output.with_extension("row");
    let failed = Format::Paraver.write(&Job {
        run: &run,
        output: &output,
        stop: &AtomicBool::new(false),
        progress: &|share| {
            if share >= 0.6 && !row.exists() {
                fs::create_dir(&row).unwrap();
            }
        },
    });
    assert!(matches!(failed, Err(ExportError::Io { .. })), "{failed:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let output = dir.path().join("tables");
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    let ended = Format::Csv.write(&Job {
        run: &run,
        output: &output,
        stop: &stop,
        progress: &|_| {
            begun.store(output.exists(), Relaxed);
            stop.store(true, Relaxed);
        },
    });
    assert!(matches!(ended, Err(ExportError::Interrupted)), "{ended:?}");
    assert!(begun.into_inner());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // Its directory is there as soon as records are written.
    let output = dir.path().join("archive");
    let failed = Format::Otf2.write(&Job {
        run: &run,
        output: &output,
        stop: &AtomicBool::new(false),
        progress: &|share| {
            if share >= 0.5 && !output.exists() {
                fs::create_dir_all(output.join("traces.otf2")).unwrap();
            }
        },
    });
    match failed {
        Err(ExportError::Library { .. }) => common::skip("there is no library of OTF2"),
        Err(ExportError::Io { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_trace_for_paraver_has_a_name_that_paraver_opens() {
    for name in ["trace", "trace.pcf", "trace.prv.old"] {
        match Format::Paraver.places(name.as_ref()) {
            Err(ExportError::Name { instead, .. }) => {
                assert_eq!(instead.to_str().unwrap(), format!("{name}.prv"));
            }
            other => panic!("{other:?}"),
        }
    }
}

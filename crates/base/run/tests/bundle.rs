//! A bundle is whole, or it says what it lacks: whatever happened to its writer or its files.

#![allow(clippy::unwrap_used)]

use idlewave_run::tables::{Detour, Detours, Quanta, Regions, Table};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Incomplete, RunError, RunReader, RunState, RunWriter, is_run};
use idlewave_units::{Cpu, Nanos, Rank};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn detour(i: u64) -> Detour {
    Detour {
        phase: 0,
        cpu: Cpu::new((i % 3) as u32),
        rank: (i % 2 == 0).then(|| Rank::new(i as u32)),
        begin_ns: 1_000 * i,
        length: Nanos::from_nanos(i * i),
    }
}

/// A complete bundle with `rows` detours.
fn complete(path: &Path, rows: u64) -> Detours {
    let mut writer = RunWriter::create(path, empty_manifest()).unwrap();
    let mut table = writer.table::<Detours>().unwrap();
    let mut expected = Detours::default();
    for i in 0..rows {
        table.push(detour(i)).unwrap();
        expected.push(detour(i));
    }
    writer.finish_table(table).unwrap();
    writer.close(None).unwrap();
    expected
}

#[test]
fn what_is_written_is_read_back_over_several_batches() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let expected = complete(&path, 40_000);
    let run = RunReader::open(&path).unwrap();
    assert_eq!(run.manifest().state, RunState::Complete);
    assert_eq!(run.read::<Detours>().unwrap(), expected);
    assert_eq!(run.read::<Quanta>().unwrap().len(), 0);
    assert!(matches!(
        run.table::<Quanta>(),
        Err(RunError::NoTable { .. })
    ));
}

#[test]
fn a_directory_with_something_in_it_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "x").unwrap();
    let refused = RunWriter::create(dir.path(), empty_manifest())
        .err()
        .unwrap();
    assert!(matches!(refused, RunError::Exists(_)));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn after_a_kill_whole_batches_are_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let writer = RunWriter::create(&path, empty_manifest()).unwrap();
    let mut table = writer.table::<Detours>().unwrap();
    for i in 0..20_000 {
        table.push(detour(i)).unwrap();
    }
    table.flush().unwrap();
    for i in 20_000..20_010 {
        table.push(detour(i)).unwrap();
    }
    // As SIGKILL would: no destructor runs, nothing is finished.
    std::mem::forget(table);
    std::mem::forget(writer);
    let run = RunReader::open(&path).unwrap();
    assert_eq!(run.manifest().state, RunState::Recording);
    let rows = run.read::<Detours>().unwrap();
    assert_eq!(rows.len(), 20_000);
    assert_eq!(rows.row(19_999), detour(19_999));
    assert_eq!(run.read::<Quanta>().unwrap().len(), 0);
}

#[test]
fn what_a_killed_writer_left_becomes_a_whole_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let writer = RunWriter::create(&path, empty_manifest()).unwrap();
    let mut table = writer.table::<Detours>().unwrap();
    for i in 0..20_000 {
        table.push(detour(i)).unwrap();
    }
    table.flush().unwrap();
    let begun = writer.table::<Quanta>().unwrap();
    std::mem::forget((table, begun, writer));
    let mut writer = RunReader::open(&path).unwrap().into_writer();
    let mut seen = 0;
    assert!(
        writer
            .salvage::<Detours>(|rows| seen += rows.len())
            .unwrap()
    );
    assert!(
        writer.salvage::<Quanta>(|_| ()).unwrap(),
        "begun, without a batch"
    );
    assert!(!writer.salvage::<Regions>(|_| ()).unwrap(), "never begun");
    assert!(!writer.salvage::<Detours>(|_| ()).unwrap(), "whole already");
    writer.close(Some(Incomplete::Killed)).unwrap();
    let run = RunReader::open(&path).unwrap();
    assert_eq!(seen, 20_000);
    assert_eq!(run.read::<Detours>().unwrap().row(19_999), detour(19_999));
    assert_eq!(run.read::<Quanta>().unwrap().len(), 0);
    let files = fs::read_dir(&path).unwrap().count();
    assert_eq!(files, 3, "manifest and two tables, nothing aside");
}

#[test]
fn an_early_end_is_recorded_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut writer = RunWriter::create(&path, empty_manifest()).unwrap();
    writer.close(Some(Incomplete::Signal(2))).unwrap();
    let run = RunReader::open(&path).unwrap();
    assert_eq!(run.manifest().state, RunState::Incomplete);
    assert_eq!(run.manifest().incomplete, Some(Incomplete::Signal(2)));
}

#[test]
fn a_bundle_of_a_newer_schema_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    complete(&path, 1);
    let file = path.join("run.json");
    // Even if nothing else in it can be understood.
    fs::write(
        &file,
        r#"{"schema":{"major":3,"minor":0},"ranks":"a new idea"}"#,
    )
    .unwrap();
    let refused = RunReader::open(&path).unwrap_err();
    assert!(matches!(&refused, RunError::NewerSchema { found, .. } if found.major == 3));
    assert!(
        refused
            .to_string()
            .contains("its schema is 3.0, this idlewave reads up to 2.0")
    );
}

#[test]
fn what_is_no_bundle_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!is_run(dir.path()));
    assert!(matches!(
        RunReader::open(dir.path()),
        Err(RunError::NotARun(_))
    ));
    assert!(matches!(
        RunReader::open(Path::new("/dev/null")),
        Err(RunError::NotARun(_))
    ));
}

#[test]
fn a_table_name_cannot_lead_out_of_the_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    complete(&path, 3);
    let file = path.join("run.json");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("detours.arrow", "../detours.arrow");
    fs::write(&file, text).unwrap();
    let run = RunReader::open(&path).unwrap();
    assert!(matches!(
        run.read::<Detours>(),
        Err(RunError::Manifest { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_change_to_a_complete_table_is_noticed(at in 0usize..6_000, flip in 1u8..=255, cut in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        complete(&path, 100);
        let file = path.join("detours.arrow");
        let mut bytes = fs::read(&file).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        fs::write(&file, bytes).unwrap();
        let run = RunReader::open(&path).unwrap();
        let refused = matches!(run.read::<Detours>(), Err(RunError::Table { .. }));
        prop_assert!(refused);
    }

    #[test]
    fn damage_to_a_killed_writers_table_never_panics(
        changes in proptest::collection::vec((0usize..60_000, any::<u8>()), 0..6),
        length in 0usize..60_000,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let writer = RunWriter::create(&path, empty_manifest()).unwrap();
        let mut table = writer.table::<Detours>().unwrap();
        for i in 0..1_000 { table.push(detour(i)).unwrap(); }
        table.flush().unwrap();
        std::mem::forget((table, writer));
        let file = path.join("detours.arrow");
        let mut bytes = fs::read(&file).unwrap();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(length);
        fs::write(&file, bytes).unwrap();
        let run = RunReader::open(&path).unwrap();
        // Rows or a clear error; in no case more rows than were written.
        if let Ok(rows) = run.read::<Detours>() {
            prop_assert!(rows.len() <= 1_000);
        }
    }
}

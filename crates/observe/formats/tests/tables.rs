//! Tables as CSV and Parquet, and noise as files of detours.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use idlewave_formats::export::{ExportError, Format, Job};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{DetourLoop, Phase, PhaseKind, RunReader, SourceKind};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn detour(cpu: u32, begin_ns: u64, length: u64) -> Detour {
    Detour {
        phase: 0,
        cpu: Cpu::new(cpu),
        rank: None,
        begin_ns,
        length: Nanos::from_nanos(length),
    }
}

fn measured(path: &Path) -> RunReader {
    let mut manifest = empty_manifest();
    let of = |cpu, not_kept| DetourLoop {
        cpu: Cpu::new(cpu),
        begin_ns: 1_000,
        end_ns: 2_001_000,
        turns: 1,
        turn_quanta: 1.0,
        recording: Nanos::ZERO,
        not_kept,
        stolen: Nanos::ZERO,
        involuntary_switches: None,
        moved: false,
    };
    manifest.phases.push(Phase {
        kind: PhaseKind::Detour {
            node: NodeId::new(0),
            threshold: Nanos::from_nanos(100),
            floor: Nanos::from_nanos(100),
            loops: vec![of(0, 0), of(1, 3)],
        },
        begin_ns: 1_000,
        end_ns: 2_001_000,
    });
    write(path, manifest, |run| {
        let rows = [
            detour(0, 3_000, 300),
            detour(1, 5_000, 20_000),
            detour(0, 9_000, 7_000),
        ];
        run.write_table(&table::<Detours>(rows)).unwrap();
    })
}

#[test]
fn tables_become_csv_with_exact_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), empty_manifest(), |run| {
        let mut strange = task(u32::MAX, "a,\"b\"\nc", TaskKind::User);
        strange.process = None;
        run.write_table(&table::<Tasks>([strange, task(3, "", TaskKind::Kernel)]))
            .unwrap();
        let message = Message {
            from: Rank::new(0),
            to: Rank::new(1),
            comm: 0,
            tag: i32::MIN,
            bytes: idlewave_units::Bytes::new(u64::MAX),
            sent_ns: 1,
            posted_ns: 2,
            wait_ns: 3,
            completed_ns: 4,
        };
        run.write_table(&table::<Messages>([message])).unwrap();
        run.write_table(&table::<Bursts>([burst(0, 3, 1, 2, EndReason::Exited)]))
            .unwrap();
    });
    let to = dir.path().join("csv");
    let export = export(&run, Format::Csv, &to);
    assert!(export.losses.is_empty());
    let text = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    assert_eq!(
        text("tasks.csv"),
        "node,pid,process,name,kind\n0,4294967295,,\"a,\"\"b\"\"\nc\",2\n0,3,3,\"\",1\n"
    );
    assert_eq!(
        text("messages.csv"),
        "from,to,comm,tag,bytes,sent_ns,posted_ns,wait_ns,completed_ns\n\
         0,1,0,-2147483648,18446744073709551615,1,2,3,4\n"
    );
    assert_eq!(
        text("bursts.csv"),
        "node,cpu,pid,begin_ns,end_ns,end_reason,certain\n0,0,3,1,2,4,true\n"
    );
    let records: Vec<Option<u64>> = export.files.iter().map(|f| f.records).collect();
    assert_eq!(records, [Some(2), Some(1), Some(1)]);
}

#[test]
fn measured_detours_keep_their_nanoseconds() {
    let dir = tempfile::tempdir().unwrap();
    let run = measured(&dir.path().join("run"));
    let to = dir.path().join("noise");
    let export = export(&run, Format::Selfish, &to);
    let lines = |cpu: u32| -> Vec<String> {
        let text = fs::read_to_string(to.join(format!("cpu{cpu}.selfish"))).unwrap();
        let period = "# Measurement period: 0.002000000 s\n";
        assert!(text.contains(period), "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    // Times count from the start of the loop.
    assert_eq!(lines(0), ["2000\t300", "8000\t7000"]);
    assert_eq!(lines(1), ["4000\t20000"]);
    let records: Vec<Option<u64>> = export.files.iter().map(|f| f.records).collect();
    assert_eq!(records, [Some(2), Some(1)]);
    let losses = export.losses.entries();
    assert_eq!((losses.len(), losses[0].count), (1, 3), "{losses:?}");
}

/// On CPU 0: the rank from 0, an interrupt 1000..1300, then a daemon 2000..2500 that an interrupt
/// prolongs to 2600; the rank again, and a daemon at the end.
#[test]
fn noise_of_a_kernel_trace_is_what_had_the_cpu_instead_of_a_rank() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), two_ranks(), |run| {
        let tasks = [
            task(100, "app", TaskKind::Rank),
            task(101, "app", TaskKind::Rank),
            task(7, "daemon", TaskKind::User),
        ];
        run.write_table(&table::<Tasks>(tasks)).unwrap();
        let bursts = [
            burst(0, 100, 10_000, 12_000, EndReason::Preempted),
            burst(0, 7, 12_000, 12_500, EndReason::Sleeping),
            burst(0, 100, 12_500, 14_000, EndReason::Preempted),
            burst(0, 7, 14_000, 14_100, EndReason::Sleeping),
            burst(1, 101, 10_000, 14_000, EndReason::Unknown),
        ];
        run.write_table(&table::<Bursts>(bursts)).unwrap();
        run.write_table(&table::<Sources>([source(0, SourceKind::Irq, "eth0")]))
            .unwrap();
        let interrupts = [
            interrupt(0, 0, 100, 11_000, 11_300, 0),
            interrupt(0, 0, 7, 12_500, 12_600, 0),
        ];
        run.write_table(&table::<Interrupts>(interrupts)).unwrap();
    });
    let to = dir.path().join("noise");
    let export = export(&run, Format::Selfish, &to);
    assert_eq!(export.files.len(), 1, "CPU 1 has no noise");
    let text = fs::read_to_string(to.join("cpu0.selfish")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(lines, ["1000\t300", "2000\t600", "4000\t100"]);
    assert!(
        text.contains("# Measurement period: 0.000004100 s\n"),
        "{text}"
    );
}

#[test]
fn a_run_without_noise_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), empty_manifest(), |_| ());
    let output = dir.path().join("noise");
    let job = |stop: &AtomicBool| {
        Format::Selfish.write(&Job {
            run: &run,
            output: &output,
            stop,
            progress: &|_| (),
        })
    };
    assert!(matches!(
        job(&AtomicBool::new(false)),
        Err(ExportError::Lacks { .. })
    ));
    assert!(!output.exists());
}

#[test]
fn an_export_that_is_ended_after_a_table_leaves_none_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), two_ranks(), |run| {
        run.write_table(&table::<Tasks>([task(100, "app", TaskKind::Rank)]))
            .unwrap();
        let bursts = [burst(0, 100, 1, 2, EndReason::Sleeping)];
        run.write_table(&table::<Bursts>(bursts)).unwrap();
    });
    let to = dir.path().join("csv");
    let stop = AtomicBool::new(false);
    let ended = Format::Csv.write(&Job {
        run: &run,
        output: &to,
        stop: &stop,
        // The first table is done by then.
        progress: &|_| stop.store(true, Ordering::Relaxed),
    });
    assert!(matches!(ended, Err(ExportError::Interrupted)));
    assert!(!to.exists());
}

#[test]
fn names_of_formats_are_different_and_found_again() {
    for format in Format::ALL {
        assert_eq!(Format::named(format.name()), Some(*format));
    }
    assert_eq!(Format::named("nonsense"), None);
    assert_eq!(
        Format::Csv.place(Path::new("a/before")),
        Path::new("a/before-csv")
    );
    assert_eq!(
        Format::Paraver.place(Path::new("before/")),
        Path::new("before.prv")
    );
    assert_eq!(Pid::IDLE.get(), 0);
}

#[cfg(feature = "parquet")]
#[test]
fn tables_become_parquet_with_all_rows() {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let dir = tempfile::tempdir().unwrap();
    let run = measured(&dir.path().join("run"));
    let to = dir.path().join("parquet");
    let export = export(&run, Format::Parquet, &to);
    assert_eq!(export.files[0].records, Some(3));
    let file = fs::File::open(to.join("detours.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    let mut rows = Detours::default();
    for batch in reader {
        rows.append_batch(&batch.unwrap()).unwrap();
    }
    assert_eq!(rows, run.read::<Detours>().unwrap());
}

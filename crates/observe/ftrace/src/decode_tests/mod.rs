//! Captures written by hand and what they must become.

mod captures;
mod golden;

use super::*;
use crate::DecodeSummary;
use crate::testing::{Payload, pages, task, write_capture};
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Sources, Syscall, Syscalls, Wakeups};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RunReader, Table};

type Events = Vec<(u64, Payload)>;

/// A decoded capture, with its tables as lines that can be compared by eye.
struct Decoded {
    summary: DecodeSummary,
    run: RunReader,
    /// Keeps the directory until the tables have been read.
    _dir: tempfile::TempDir,
}

impl Decoded {
    fn bursts(&self) -> Vec<String> {
        let table = self.run.read::<Bursts>().unwrap();
        let line = |b: idlewave_run::tables::Burst| {
            let mark = if b.certain { "" } else { " ?" };
            let (cpu, pid, reason) = (b.cpu, b.pid, b.end_reason.code());
            format!(
                "cpu{cpu} {pid}: {}..{} r{reason}{mark}",
                b.begin_ns, b.end_ns
            )
        };
        table.rows().map(line).collect()
    }
    fn interrupts(&self) -> Vec<String> {
        let sources = self.run.read::<Sources>().unwrap();
        let table = self.run.read::<Interrupts>().unwrap();
        let line = |i: idlewave_run::tables::Interrupt| {
            let mark = if i.certain { "" } else { " ?" };
            let name = &sources.name[i.source as usize];
            format!(
                "{name}@{} {}..{} d{}{mark}",
                i.pid, i.begin_ns, i.end_ns, i.depth
            )
        };
        table.rows().map(line).collect()
    }
    fn losses(&self) -> Vec<(String, u64)> {
        let entries = self.summary.losses.entries().iter();
        entries.map(|l| (l.what.clone(), l.count)).collect()
    }
}

fn decode_with(change: impl FnOnce(&Path, &mut RawCapture), cpus: &[Vec<u8>]) -> Decoded {
    let (result, dir) = try_decode(change, cpus, &AtomicBool::new(false));
    let run = RunReader::open(&dir.path().join("run")).unwrap();
    Decoded {
        summary: result.unwrap(),
        run,
        _dir: dir,
    }
}

fn try_decode(
    change: impl FnOnce(&Path, &mut RawCapture),
    cpus: &[Vec<u8>],
    stop: &AtomicBool,
) -> (Result<DecodeSummary, FtraceError>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut out = RunWriter::create(&dir.path().join("run"), empty_manifest()).unwrap();
    let raw = out.path().join("raw");
    fs::create_dir(&raw).unwrap();
    let mut capture = write_capture(&raw, (100, Some(10_000)), cpus, vec![task(7, "rank")]);
    change(&raw, &mut capture);
    capture.save(&raw).unwrap();
    let result = decode_capture(&raw, NodeId::new(0), &mut out, stop, &|_| {});
    out.close(None).unwrap();
    (result, dir)
}

fn decode(cpus: &[Events]) -> Decoded {
    let cpus: Vec<_> = cpus.iter().map(|events| pages(4096, events)).collect();
    decode_with(|_, _| {}, &cpus)
}

fn switch(time: u64, prev: u32, state: u64, next: u32) -> (u64, Payload) {
    let name = |pid| if pid == 0 { "swapper/0" } else { "thread" };
    (
        time,
        Payload::switch((prev, name(prev)), state, (next, name(next))),
    )
}

fn number(time: u64, pid: u32, event: &str, number: u32) -> (u64, Payload) {
    (time, Payload::number(event, pid, number))
}

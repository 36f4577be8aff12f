//! Shared by the tests of exports and imports: small runs, and what an independent reader finds.

#![allow(clippy::unwrap_used)]

use idlewave_formats::export::{Export, ExportError, Format, Job};
use idlewave_formats::import::{Ask, ImportError, Imported, Program, import};
use idlewave_run::tables::*;
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Ledger, Manifest, Phase, PhaseKind, RankSheet, RunReader, RunWriter, SourceKind,
};
use idlewave_units::{Cpu, NodeId, Pid, Rank};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

pub const NODE: NodeId = NodeId::new(0);

/// Time and number of bursts by thread and CPU.
pub type Matrix = BTreeMap<(u32, u32), (u64, u64)>;

pub fn task(pid: u32, name: &str, kind: TaskKind) -> Task {
    Task {
        node: NODE,
        pid: Pid::new(pid),
        process: Some(Pid::new(pid)),
        name: name.to_owned(),
        kind,
    }
}

/// A call that is neither collective nor starts a request.
pub fn call(rank: u32, thread: u32, operation: u32, begin: u64, end: u64) -> Call {
    Call {
        rank: Rank::new(rank),
        thread: Pid::new(thread),
        operation,
        begin_ns: begin,
        end_ns: end,
        comm: None,
        sequence: None,
        root: None,
        sent: None,
        received: None,
        request: None,
    }
}

pub fn burst(cpu: u32, pid: u32, begin_ns: u64, end_ns: u64, end_reason: EndReason) -> Burst {
    Burst {
        node: NODE,
        cpu: Cpu::new(cpu),
        pid: Pid::new(pid),
        begin_ns,
        end_ns,
        end_reason,
        certain: true,
    }
}

pub fn interrupt(
    source: u32,
    cpu: u32,
    pid: u32,
    begin_ns: u64,
    end_ns: u64,
    depth: u8,
) -> Interrupt {
    Interrupt {
        node: NODE,
        cpu: Cpu::new(cpu),
        source,
        pid: Pid::new(pid),
        begin_ns,
        end_ns,
        depth,
        certain: true,
    }
}

pub fn source(id: u32, kind: SourceKind, name: &str) -> Source {
    Source {
        id,
        kind,
        name: name.to_owned(),
    }
}

/// The manifest of a recorded program of two ranks, threads 100 and 101, on CPUs 0 and 1.
pub fn two_ranks() -> Manifest {
    let mut manifest = empty_manifest();
    let rank = |rank| RankSheet {
        rank: Rank::new(rank),
        node: NODE,
        cpu: Some(Cpu::new(rank)),
        threads: vec![Pid::new(100 + rank)],
        process: Some(Pid::new(100 + rank)),
        priority: None,
    };
    manifest.ranks = vec![rank(0), rank(1)];
    manifest.nodes[0].host.online = [0, 1].map(Cpu::new).into_iter().collect();
    manifest.phases.push(Phase {
        kind: PhaseKind::Recorded {
            library: Some("test".to_owned()),
            exit_code: Some(0),
        },
        begin_ns: 1_000_000,
        end_ns: 1_010_000,
    });
    manifest
}

/// A table of these rows.
pub fn table<T: Table>(rows: impl IntoIterator<Item = T::Row>) -> T {
    let mut table = T::default();
    rows.into_iter().for_each(|row| table.push(row));
    table
}

/// Writes a run.
pub fn write(path: &Path, manifest: Manifest, fill: impl FnOnce(&mut RunWriter)) -> RunReader {
    let mut writer = RunWriter::create(path, manifest).unwrap();
    fill(&mut writer);
    writer.close(None).unwrap();
    RunReader::open(path).unwrap()
}

pub fn try_export(run: &RunReader, format: Format, output: &Path) -> Result<Export, ExportError> {
    format.write(&Job {
        run,
        output,
        stop: &AtomicBool::new(false),
        progress: &|share| assert!((0.0..=1.0).contains(&share), "{share}"),
    })
}

pub fn export(run: &RunReader, format: Format, output: &Path) -> Export {
    try_export(run, format, output).unwrap()
}

/// "What xCOUNT" of every entry.
pub fn entries(losses: &Ledger) -> Vec<String> {
    let entry = |loss: &idlewave_run::Loss| format!("{} x{}", loss.what, loss.count);
    losses.entries().iter().map(entry).collect()
}

/// Prints why a check is skipped, or fails it if `IDLEWAVE_REQUIRE_ALL` is set.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("IDLEWAVE_REQUIRE_ALL").is_none(),
        "IDLEWAVE_REQUIRE_ALL is set, but {why}"
    );
    println!("skipped: {why}");
}

/// The files of a tar packed with Zstandard, by name.
pub fn unpacked(packed: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut tar = Vec::new();
    let mut unpacked = ruzstd::decoding::StreamingDecoder::new(packed).unwrap();
    unpacked.read_to_end(&mut tar).unwrap();
    let mut files = BTreeMap::new();
    let mut at = 0;
    // A block of 512 bytes with name and size (in octal), then as many blocks as the file needs.
    while tar[at] != 0 {
        let text = |from: usize, length: usize| {
            let bytes = tar[at + from..][..length].split(|b| *b == 0).next();
            String::from_utf8(bytes.unwrap().to_vec()).unwrap()
        };
        let size = usize::from_str_radix(text(124, 12).trim(), 8).unwrap();
        files.insert(text(0, 100), tar[at + 512..][..size].to_vec());
        at += 512 + size.next_multiple_of(512);
    }
    files
}

/// Imports `file` into a run at `to`.
pub fn back(file: &Path, to: &Path) -> Result<Imported, ImportError> {
    import_of(file, to, &Program::Busiest)
}

/// The same for a given program.
pub fn import_of(file: &Path, to: &Path, program: &Program) -> Result<Imported, ImportError> {
    let command = ["idlewave", "import"].map(str::to_owned);
    import(&Ask {
        command: &command,
        program,
        progress: &|share| assert!((0.0..=1.0).contains(&share), "{share}"),
        ..Ask::new(file, to)
    })
}

/// What the independent reader finds in a trace, which it must accept without complaint.
#[track_caller]
pub fn checked(prv: &Path) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prv.py");
    let output = match Command::new("python3").arg(script).arg(prv).output() {
        Ok(output) => output,
        Err(error) => {
            skip(&format!("there is no python3: {error}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The matrix that the independent reader computed from a trace of one node.
pub fn matrix_of_trace(found: &Value) -> Matrix {
    let mut matrix = Matrix::new();
    for (thread, row) in found["matrix"].as_object().unwrap() {
        let pid = match thread.starts_with("idle CPU ") {
            true => 0,
            false => thread
                .rsplit_once('(')
                .unwrap()
                .1
                .trim_end_matches(')')
                .parse()
                .unwrap(),
        };
        for (cpu, cell) in row.as_object().unwrap() {
            let cpu = cpu.split(' ').nth(1).unwrap().parse().unwrap();
            let sum: &mut (u64, u64) = matrix.entry((pid, cpu)).or_default();
            sum.0 += cell[0].as_u64().unwrap();
            sum.1 += cell[1].as_u64().unwrap();
        }
    }
    matrix
}

/// The matrix of a run's bursts.
pub fn matrix_of_run(run: &RunReader) -> Matrix {
    let mut matrix = Matrix::new();
    run.for_each::<Bursts>(|row| {
        let sum = matrix.entry((row.pid.get(), row.cpu.get())).or_default();
        sum.0 += row.end_ns - row.begin_ns;
        sum.1 += 1;
    })
    .unwrap();
    matrix
}

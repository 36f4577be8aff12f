//! How fast Paraver traces are written and read, for docs/export.md: `paraver_speed [BURSTS [TIMES]]`.
//!
//! The run has this many bursts of 200 threads on four CPUs and half as many regions of four ranks.
//! Records a second are those of the thread's CPU time, so that a busy machine does not count; and the
//! median over all times.

use idlewave_formats::export::{Format, Job};
use idlewave_formats::import::{Ask, import};
use idlewave_run::tables::{Burst, Bursts, EndReason, Region, RegionKind, Regions};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{RankSheet, RunReader, RunWriter};
use idlewave_sys::clock::thread_time;
use idlewave_sys::terminal::say;
use idlewave_units::{Cpu, NodeId, Pid, Rank};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, usual: u64| words.get(at).map_or(Ok(usual), |word| word.parse::<u64>());
    let (bursts, times) = (number(0, 1_000_000)?, number(1, 5)?);
    let dir = tempfile::tempdir()?;
    let run = make(&dir.path().join("run"), bursts)?;
    let (mut written, mut read) = (Vec::new(), Vec::new());
    let mut records = 0;
    for time in 0..times {
        let output = dir.path().join(format!("trace{time}.prv"));
        let never = AtomicBool::new(false);
        let begin = thread_time();
        let export = Format::Paraver.write(&Job {
            run: &run,
            output: &output,
            stop: &never,
            progress: &|_| (),
        })?;
        written.push(thread_time().saturating_sub(begin).as_secs_f64());
        records = export.files.iter().filter_map(|f| f.records).sum::<u64>();
        let begin = thread_time();
        import(&Ask::new(&output, &dir.path().join(format!("read{time}"))))?;
        read.push(thread_time().saturating_sub(begin).as_secs_f64());
    }
    for (what, mut took) in [("written", written), ("read", read)] {
        took.sort_by(f64::total_cmp);
        let rate = |s: f64| records as f64 / s / 1e6;
        let (first, median) = (took[took.len() - 1], took[took.len() / 2]);
        say(&format!(
            "{records} records {what}: median {:.2} M/s, {:.2} to {:.2}, n = {times}\n",
            rate(median),
            rate(first),
            rate(took[0]),
        ));
    }
    Ok(())
}

fn make(path: &Path, bursts: u64) -> Result<RunReader, Box<dyn Error>> {
    let mut manifest = empty_manifest();
    manifest.ranks = (0..4)
        .map(|rank| RankSheet {
            rank: Rank::new(rank),
            node: NodeId::new(0),
            cpu: Some(Cpu::new(rank)),
            threads: vec![Pid::new(1 + rank)],
            process: None,
            priority: None,
        })
        .collect();
    let mut run = RunWriter::create(path, manifest)?;
    let mut table = run.table::<Bursts>()?;
    let mut free = [1_000_000_u64; 4];
    for n in 0..bursts {
        let cpu = (n % 4) as usize;
        let begin_ns = free[cpu];
        free[cpu] += 300 + n * 7_919 % 20_000;
        table.push(Burst {
            node: NodeId::new(0),
            cpu: Cpu::new(cpu as u32),
            // A thread stays on its CPU.
            pid: Pid::new((1 + cpu as u64 + 4 * (n / 4 % 50)) as u32),
            begin_ns,
            end_ns: free[cpu],
            end_reason: if n % 3 == 0 {
                EndReason::Preempted
            } else {
                EndReason::Sleeping
            },
            certain: true,
        })?;
    }
    run.finish_table(table)?;
    let mut table = run.table::<Regions>()?;
    for n in 0..bursts / 2 {
        let begin_ns = 1_000_000 + n / 4 * 15_000;
        table.push(Region {
            rank: Rank::new((n % 4) as u32),
            phase: 0,
            iteration: n / 4,
            kind: RegionKind::Compute,
            begin_ns,
            end_ns: begin_ns + 12_000,
            bytes: None,
        })?;
    }
    run.finish_table(table)?;
    run.close(None)?;
    Ok(RunReader::open(path)?)
}

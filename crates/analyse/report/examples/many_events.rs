//! Writes and explains a run of ten million events, renders its page and the files beside it, and
//! prints how long each took: `cargo run --release -p idlewave-report --example many_events -- DIR
//! [EVENTS]`. DIR must not exist. Then `node tests/browser/many_events.mjs DIR/report.html
//! [SCREENSHOTS]` measures the page.
//!
//! Eight ranks compute for 20 us, with jitter, and meet in a barrier. Ticks, softirqs, a kernel
//! thread and a daemon take their CPUs. Only the computations are simulated; the analysis is the
//! same as for any run.

use idlewave_explain::{Explanation, explain};
use idlewave_report::render_page;
use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupt, Interrupts, Region, RegionKind, Regions, Source, Sources,
    Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Coupling, Phase, PhaseKind, RankSheet, RunError, RunReader, RunWriter, SourceKind, Table,
};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const RANKS: u32 = 8;
const BEGIN: u64 = 1 << 54;
const NODE: NodeId = NodeId::new(0);
const WORK_NS: u64 = 20_000;
const DAEMON: Pid = Pid::new(4_242);
const KERNEL: Pid = Pid::new(37);

/// Pseudo-random numbers, the same every time (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// What takes a CPU.
#[derive(Clone, Copy)]
enum By {
    Tick,
    Softirq,
    Thread(Pid),
}

#[derive(Clone, Copy)]
struct Taken {
    begin: u64,
    end: u64,
    by: By,
}

/// Strikes on one CPU, in order; none overlaps the one before it.
fn strikes(cpu: u32, until: u64) -> Vec<Taken> {
    let mut random = Random(0x9e37_79b9 + u64::from(cpu));
    let (mut tick, mut kernel, mut daemon) = (
        BEGIN + u64::from(cpu) * 137_000,
        BEGIN + 30_000_000 + u64::from(cpu) * 1_000_000,
        BEGIN + 11_000_000 + u64::from(cpu) * 7_000_000,
    );
    let (mut all, mut free) = (Vec::new(), BEGIN);
    while free < until {
        let begin = tick.min(kernel).min(daemon).max(free);
        let mut put = |length: u64, by| {
            let begin = free.max(begin);
            free = begin + length;
            all.push(Taken {
                begin,
                end: free,
                by,
            });
        };
        if tick <= kernel && tick <= daemon {
            tick += 4_000_000;
            put(1_800 + random.below(3_000), By::Tick);
            if random.below(8) == 0 {
                put(900 + random.below(9_000), By::Softirq);
            }
        } else if kernel <= daemon {
            kernel += 60_000_000 + random.below(90_000_000);
            put(15_000 + random.below(60_000), By::Thread(KERNEL));
        } else {
            daemon += 400_000_000 + random.below(10_000_000);
            put(120_000 + random.below(700_000), By::Thread(DAEMON));
        }
    }
    all
}

/// How long each rank computes in each step, and when the barrier releases the ranks.
struct Steps {
    done: Vec<Vec<u32>>,
    released: Vec<u64>,
}

fn steps(count: u64, all: &[Vec<Taken>]) -> Steps {
    let mut random = Random(77);
    let mut next = vec![0; RANKS as usize];
    let mut steps = Steps {
        done: vec![Vec::new(); RANKS as usize],
        released: Vec::new(),
    };
    let mut begin = BEGIN;
    for _ in 0..count {
        let mut last = 0;
        for rank in 0..RANKS as usize {
            let mut end = begin + WORK_NS + random.below(300);
            // What struck while the rank waited costs it nothing, unless it lasts beyond the wait.
            while let Some(taken) = all[rank].get(next[rank]).filter(|t| t.begin < end) {
                end += taken.end.saturating_sub(taken.begin.max(begin));
                next[rank] += 1;
            }
            steps.done[rank].push((end - begin) as u32);
            last = last.max(end);
        }
        begin = last + 900 + random.below(120);
        steps.released.push(begin);
    }
    steps
}

fn write(path: &Path, events: u64) -> Result<RunReader, RunError> {
    let count = events / (2 * u64::from(RANKS));
    let all: Vec<Vec<Taken>> = (0..RANKS)
        .map(|cpu| strikes(cpu, BEGIN + count * 24_000))
        .collect();
    let steps = steps(count, &all);
    let end = steps.released.last().copied().unwrap_or(BEGIN);
    let mut manifest = empty_manifest();
    manifest.phases = vec![Phase {
        kind: PhaseKind::Lockstep {
            coupling: Coupling::Barrier,
            work_steps: 12_345,
            work_target: Nanos::from_nanos(WORK_NS),
            message_bytes: 0,
            sides: Vec::new(),
            neighbourhood: Default::default(),
            variant: Default::default(),
            ranks: Some(RANKS),
            iterations: count,
            threshold: Nanos::from_nanos(1_000),
            turn: None,
        },
        begin_ns: BEGIN,
        end_ns: end,
    }];
    manifest.ranks = (0..RANKS)
        .map(|r| RankSheet {
            process: None,
            rank: Rank::new(r),
            node: NODE,
            cpu: Some(Cpu::new(r)),
            threads: vec![Pid::new(1_000 + r)],
            priority: None,
        })
        .collect();
    let mut out = RunWriter::create(path, manifest)?;
    names(&mut out)?;
    kernel(&mut out, &all, end)?;
    regions(&mut out, &steps)?;
    out.close(None)?;
    RunReader::open(path)
}

fn names(out: &mut RunWriter) -> Result<(), RunError> {
    let mut tasks = Tasks::default();
    let mut task = |pid, name: &str, kind| {
        tasks.push(Task {
            node: NODE,
            pid,
            process: Some(pid),
            name: name.to_owned(),
            kind,
        });
    };
    task(DAEMON, "collectd", TaskKind::User);
    task(KERNEL, "kworker/u8:2", TaskKind::Kernel);
    for rank in 0..RANKS {
        task(Pid::new(1_000 + rank), "app", TaskKind::Rank);
    }
    out.write_table(&tasks)?;
    let mut sources = Sources::default();
    for (id, kind, name) in [
        (0, SourceKind::TimerTick, "timer tick"),
        (1, SourceKind::Softirq, "RCU"),
    ] {
        sources.push(Source {
            id,
            kind,
            name: name.to_owned(),
        });
    }
    out.write_table(&sources)
}

/// Bursts and interrupts of every CPU. Its rank has the CPU unless another thread does.
fn kernel(out: &mut RunWriter, all: &[Vec<Taken>], end: u64) -> Result<(), RunError> {
    let (mut bursts, mut interrupts) = (out.table::<Bursts>()?, out.table::<Interrupts>()?);
    for (n, strikes) in (0..).zip(all) {
        let (cpu, own) = (Cpu::new(n), Pid::new(1_000 + n));
        let burst = |pid, begin_ns, end_ns, end_reason| Burst {
            node: NODE,
            cpu,
            pid,
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        };
        let mut since = BEGIN;
        for taken in strikes.iter().filter(|t| t.end < end) {
            let (begin_ns, end_ns) = (taken.begin, taken.end);
            let source = match taken.by {
                By::Tick => 0,
                By::Softirq => 1,
                By::Thread(pid) => {
                    bursts.push(burst(own, since, begin_ns, EndReason::Preempted))?;
                    bursts.push(burst(pid, begin_ns, end_ns, EndReason::Sleeping))?;
                    since = end_ns;
                    continue;
                }
            };
            interrupts.push(Interrupt {
                node: NODE,
                cpu,
                source,
                pid: own,
                begin_ns,
                end_ns,
                depth: 0,
                certain: true,
            })?;
        }
        bursts.push(burst(own, since, end, EndReason::Exited))?;
    }
    out.finish_table(bursts)?;
    out.finish_table(interrupts)
}

fn regions(out: &mut RunWriter, steps: &Steps) -> Result<(), RunError> {
    let mut table = out.table::<Regions>()?;
    for (rank, done) in (0..).zip(&steps.done) {
        let mut begin = BEGIN;
        for (iteration, (&done, &released)) in (0..).zip(done.iter().zip(&steps.released)) {
            let arrived = begin + u64::from(done);
            for (kind, begin_ns, end_ns) in [
                (RegionKind::Compute, begin, arrived),
                (RegionKind::Barrier, arrived, released),
            ] {
                table.push(Region {
                    rank: Rank::new(rank),
                    phase: 0,
                    iteration,
                    kind,
                    begin_ns,
                    end_ns,
                    bytes: None,
                })?;
            }
            begin = released;
        }
    }
    out.finish_table(table)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: many_events DIR [EVENTS]")?;
    let path = Path::new(&path);
    let events = arguments.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let mut since = Instant::now();
    let mut took = |what: &str| {
        println!("{what}: {:.1} s", since.elapsed().as_secs_f64());
        since = Instant::now();
    };
    let run = write(path, events)?;
    took("made");
    let Explanation {
        findings,
        late_steps,
        late_parts,
        ..
    } = explain(&run, &AtomicBool::new(false))?;
    let mut out = run.into_writer();
    out.write_table(&late_steps)?;
    out.write_table(&late_parts)?;
    out.save()?;
    let run = RunReader::open(path)?;
    run.write_findings(&findings)?;
    took("explained");
    let folder = path.join("report_files");
    std::fs::create_dir_all(&folder)?;
    let (mut count, mut bytes) = (0, 0);
    let mut put = |name: &str, text: &[u8]| {
        (count, bytes) = (count + 1, bytes + text.len());
        std::fs::write(folder.join(name), text)
    };
    let page = render_page(&run, &findings, None, Some(&mut put))?;
    std::fs::write(path.join("report.html"), &page)?;
    took("page and files");
    let rows: u64 = run.manifest().tables.iter().map(|t| t.rows).sum();
    println!(
        "{rows} rows, page {} bytes, {count} files, {bytes} bytes: {:.2} bytes a row",
        page.len(),
        bytes as f64 / rows as f64
    );
    Ok(())
}

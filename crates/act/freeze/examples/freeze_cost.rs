//! The cost of stopping and thawing busy processes: `freeze_cost [SWITCHES]`, a minute at most.
//!
//! SWITCHES is the largest number of switches measured of each sort, 60 by default.
//!
//! For 2, 4 and 8 processes of 1 and 3 busy threads: the time from the order to stop until it is
//! confirmed, and from the order to thaw until the first thread of every process has computed. All
//! methods that the machine supports, with the caller at SCHED_FIFO 50 and without, alternate
//! switch by switch, so that other load disturbs them alike. The example starts the processes
//! itself and kills them at the end; by themselves they end after a minute.

use idlewave_freeze::clock::{now, sleep_until};
use idlewave_freeze::{Freezer, Group, Kind, become_realtime};
use idlewave_sys::Uid;
use idlewave_sys::mapping::{Access, Mapping};
use idlewave_units::{Nanos, Pid};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Words per cache line: what one process writes does not disturb the others.
const STRIDE: usize = 8;
const MOST_PROCESSES: usize = 8;
const LIFE: Nanos = Nanos::from_secs(60);
/// How long each number of processes and threads is measured; a busy machine fits fewer switches.
const SET: Nanos = Nanos::from_secs(10);

/// Shared words: word 0 is the number of the switch. Cache line p + 1 holds the last switch that
/// process p saw, and when.
struct Shared {
    memory: Mapping,
    words: usize,
}

impl Shared {
    fn open(path: &Path) -> Outcome<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let words = STRIDE * (MOST_PROCESSES + 1);
        file.set_len((words * 8) as u64)?;
        let memory = Mapping::new(&file, words * 8, Access::Write)?;
        Ok(Shared { memory, words })
    }
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.words);
        // SAFETY: within the mapping, aligned, and only accessed as atomics by all processes.
        unsafe { self.memory.base().cast::<AtomicU64>().add(at).as_ref() }
    }
    fn switch(&self) -> &AtomicU64 {
        self.word(0)
    }
    fn seen(&self, process: usize) -> &AtomicU64 {
        self.word((process + 1) * STRIDE)
    }
    fn when(&self, process: usize) -> &AtomicU64 {
        self.word((process + 1) * STRIDE + 1)
    }
}

/// A worker process: one thread that answers, and others that only compute, for [`LIFE`].
fn work(path: &Path, process: usize, threads: usize) -> Outcome<()> {
    let shared = Shared::open(path)?;
    let end = now() + LIFE;
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| while now() < end {});
        }
        let mut last = u64::MAX;
        while now() < end {
            // The time is written before the number that announces it.
            let switch = shared.switch().load(Ordering::Acquire);
            if switch != last {
                shared.when(process).store(now().get(), Ordering::Relaxed);
                shared.seen(process).store(switch, Ordering::Release);
                last = switch;
            }
        }
    });
    Ok(())
}

/// Processes that are killed and reaped when this is dropped.
struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn become_normal() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters) };
}

/// Waits until all processes have seen this switch; returns when the last one saw it.
fn await_all(shared: &Shared, processes: usize, switch: u64) -> Outcome<Nanos> {
    let end = now() + Nanos::from_secs(5);
    while now() < end {
        if (0..processes).all(|p| shared.seen(p).load(Ordering::Acquire) == switch) {
            let last = (0..processes).map(|p| shared.when(p).load(Ordering::Relaxed));
            return Ok(Nanos::from_nanos(last.max().unwrap_or_default()));
        }
        sleep_until(now() + Nanos::from_micros(200));
    }
    Err("some processes have not run for 5 s".into())
}

/// One row of the table.
#[derive(Default)]
struct Row {
    freeze: Vec<Nanos>,
    thaw: Vec<Nanos>,
    progress: Vec<Nanos>,
    late: usize,
}

/// Median, 99th percentile (nearest rank) and maximum in microseconds.
fn text(mut times: Vec<Nanos>) -> String {
    times.sort();
    let rank = |percent: usize| (times.len() * percent).div_ceil(100).saturating_sub(1);
    let us = |index: usize| times.get(index).map_or(0, |t| t.get() / 1_000);
    let last = times.len().saturating_sub(1);
    format!("{:>7} {:>7} {:>7}", us(rank(50)), us(rank(99)), us(last))
}

fn switch(group: &mut Group, shared: &Shared, processes: usize, row: &mut Row) -> Outcome<()> {
    sleep_until(now() + Nanos::from_millis(2));
    let Ok(frozen) = group.freeze(Nanos::from_millis(500)) else {
        row.late += 1;
        return Ok(());
    };
    row.freeze.push(frozen.after);
    sleep_until(now() + Nanos::from_millis(1));
    let number = shared.switch().fetch_add(1, Ordering::Release) + 1;
    let start = now();
    row.thaw.push(group.thaw()?);
    let last = await_all(shared, processes, number)?;
    row.progress.push(last.saturating_sub(start));
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, act, path, process, threads] = arguments.as_slice() {
        if act == "work" {
            return work(Path::new(path), process.parse()?, threads.parse()?);
        }
    }
    let switches: usize = arguments.get(1).map_or(Ok(60), |n| n.parse())?;
    let mut freezers = Vec::new();
    for kind in [Kind::V2, Kind::V1, Kind::Signals] {
        match Freezer::of_kind(kind) {
            Ok(freezer) => freezers.push(freezer),
            Err(e) => println!("not measured: {e}"),
        }
    }
    let mut classes = vec![None];
    match become_realtime(50) {
        Ok(()) => classes.push(Some(50)),
        Err(e) => println!("not measured: {e}"),
    }
    become_normal();
    println!(
        "us: median, p99, maximum          freeze to confirmed      thaw ordered             thaw to all compute"
    );
    let directory = tempfile::tempdir()?;
    for (processes, threads) in [(2, 1), (2, 3), (4, 1), (4, 3), (8, 1), (8, 3)] {
        let path = directory.path().join(format!("{processes}-{threads}"));
        File::create_new(&path)?;
        let shared = Shared::open(&path)?;
        let mut workers = Workers(Vec::new());
        for process in 0..processes {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("work").arg(&path);
            command.args([process.to_string(), threads.to_string()]);
            workers.0.push(command.spawn()?);
        }
        shared.switch().store(1, Ordering::Release);
        await_all(&shared, processes, 1)?;
        // Each process is in a group of every kind at once.
        let mut rows = Vec::new();
        for freezer in &freezers {
            let mut group = Group::create(freezer, Uid::own())?;
            for child in &workers.0 {
                group.add(Pid::new(child.id()))?;
            }
            let of_classes: Vec<Row> = classes.iter().map(|_| Row::default()).collect();
            rows.push((freezer.kind(), group, of_classes));
        }
        let end = now() + SET;
        for _ in 0..switches {
            if now() > end {
                break;
            }
            for (_, group, of_classes) in &mut rows {
                for (priority, row) in classes.iter().zip(of_classes) {
                    if let Some(priority) = priority {
                        become_realtime(*priority)?;
                    }
                    let switched = switch(group, &shared, processes, row);
                    become_normal();
                    switched?;
                }
            }
        }
        for (kind, _, of_classes) in rows {
            for (class, row) in ["normal", "FIFO"].into_iter().zip(of_classes) {
                println!(
                    "{kind:<9} {processes} x {threads} {class:<6} n={:<4} {} {} {}{}",
                    row.freeze.len(),
                    text(row.freeze),
                    text(row.thaw),
                    text(row.progress),
                    match row.late {
                        0 => String::new(),
                        n => format!("  {n} not confirmed within 500 ms"),
                    }
                );
            }
        }
    }
    Ok(())
}

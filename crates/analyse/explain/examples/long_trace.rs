//! Creates a run with a long kernel trace, to measure how much time and memory its explanation
//! takes: `cargo run --release -p idlewave-explain --example long_trace -- DIR [EVENTS] [watched]`.
//! DIR must not exist. Then `idlewave explain DIR`.
//!
//! On each of four CPUs a program computes for some 40 us; then an interrupt strikes, or a daemon
//! is woken, has the CPU for some microseconds and sleeps. An event is a switch, a wake-up, or the
//! start or end of an interrupt. With `watched`, the program is the one that was recorded: each of
//! its interruptions is a strike. Without it, the trace is of a whole machine, like an imported
//! one.

use idlewave_run::tables::{
    Burst, Bursts, EndReason, Interrupt, Interrupts, Source, Sources, Task, TaskKind, Tasks,
    Wakeup, Wakeups,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{Phase, PhaseKind, RunError, RunWriter, SourceKind, Table};
use idlewave_stats::random::SplitMix;
use idlewave_units::{Cpu, NodeId, Pid};
use std::error::Error;
use std::path::Path;

const NODE: NodeId = NodeId::new(0);
const CPUS: u32 = 4;
const BEGIN: u64 = 1 << 54;
/// Daemons on each CPU.
const DAEMONS: u32 = 10;

/// What happens to a CPU: the program has it from `since` on and is interrupted at `begin`.
struct Turn {
    since: u64,
    begin: u64,
    end: u64,
    /// The daemon that takes the CPU, otherwise an interrupt.
    daemon: Option<Pid>,
}

fn program(cpu: u32) -> Pid {
    Pid::new(1_000 + cpu)
}

/// All turns of a CPU until `events` have happened; the same every time.
fn turns(
    cpu: u32,
    events: u64,
    mut visit: impl FnMut(Turn) -> Result<(), RunError>,
) -> Result<u64, RunError> {
    let mut random = SplitMix::new(u64::from(cpu));
    let (mut since, mut now, mut left) = (BEGIN, BEGIN, events);
    while left > 0 {
        let begin = now + 30_000 + random.below(20_000);
        let end = begin + 1_500 + random.below(9_000);
        let daemon = random.below(4) > 0;
        let number = 2_000 + 100 * cpu + random.below(u64::from(DAEMONS)) as u32;
        let daemon = daemon.then(|| Pid::new(number));
        let turn = Turn {
            since,
            begin,
            end,
            daemon,
        };
        if daemon.is_some() {
            since = end;
        }
        now = end;
        left = left.saturating_sub(if daemon.is_some() { 3 } else { 2 });
        visit(turn)?;
    }
    Ok(now)
}

fn write(path: &Path, events: u64, watched: bool) -> Result<(), RunError> {
    let each = events / u64::from(CPUS);
    let mut end = BEGIN;
    for cpu in 0..CPUS {
        end = end.max(turns(cpu, each, |_| Ok(()))?);
    }
    let mut manifest = empty_manifest();
    manifest.phases = vec![Phase {
        kind: PhaseKind::Recorded {
            library: None,
            exit_code: Some(0),
        },
        begin_ns: BEGIN,
        end_ns: end,
    }];
    let mut out = RunWriter::create(path, manifest)?;
    names(&mut out, watched)?;

    let mut bursts = out.table::<Bursts>()?;
    for number in 0..CPUS {
        let cpu = Cpu::new(number);
        let burst = |pid, begin_ns, end_ns, end_reason| Burst {
            node: NODE,
            cpu,
            pid,
            begin_ns,
            end_ns,
            end_reason,
            certain: true,
        };
        turns(number, each, |turn| {
            if let Some(daemon) = turn.daemon {
                let (begin, end) = (turn.begin, turn.end);
                bursts.push(burst(
                    program(number),
                    turn.since,
                    begin,
                    EndReason::Preempted,
                ))?;
                bursts.push(burst(daemon, begin, end, EndReason::Sleeping))?;
            }
            Ok(())
        })?;
    }
    out.finish_table(bursts)?;

    let mut wakeups = out.table::<Wakeups>()?;
    for number in 0..CPUS {
        turns(number, each, |turn| match turn.daemon {
            Some(pid) => wakeups.push(Wakeup {
                node: NODE,
                time_ns: turn.begin - 800,
                cpu: Cpu::new(number),
                waker: program(number),
                pid,
                target_cpu: Cpu::new(number),
            }),
            None => Ok(()),
        })?;
    }
    out.finish_table(wakeups)?;

    let mut interrupts = out.table::<Interrupts>()?;
    for number in 0..CPUS {
        turns(number, each, |turn| match turn.daemon {
            None => interrupts.push(Interrupt {
                node: NODE,
                cpu: Cpu::new(number),
                source: 0,
                pid: program(number),
                begin_ns: turn.begin,
                end_ns: turn.end,
                depth: 0,
                certain: true,
            }),
            Some(_) => Ok(()),
        })?;
    }
    out.finish_table(interrupts)?;
    out.close(None)
}

fn names(out: &mut RunWriter, watched: bool) -> Result<(), RunError> {
    let mut tasks = Tasks::default();
    let mut task = |pid: Pid, name: &str, kind| {
        tasks.push(Task {
            node: NODE,
            pid,
            process: Some(pid),
            name: name.to_owned(),
            kind,
        });
    };
    let kind = if watched {
        TaskKind::Program
    } else {
        TaskKind::User
    };
    for cpu in 0..CPUS {
        task(program(cpu), "app", kind);
        for daemon in 0..DAEMONS {
            let name = format!("daemon-{daemon}");
            task(Pid::new(2_000 + 100 * cpu + daemon), &name, TaskKind::User);
        }
    }
    out.write_table(&tasks)?;
    let mut sources = Sources::default();
    sources.push(Source {
        id: 0,
        kind: SourceKind::TimerTick,
        name: "timer tick".to_owned(),
    });
    out.write_table(&sources)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: long_trace DIR [EVENTS] [watched]")?;
    let events = arguments.next().map_or(Ok(100_000_000), |n| n.parse())?;
    let watched = arguments.next().is_some_and(|word| word == "watched");
    write(Path::new(&path), events, watched)?;
    Ok(())
}

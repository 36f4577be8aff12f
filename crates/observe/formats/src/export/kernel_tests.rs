#![allow(clippy::unwrap_used)]

use super::*;
use idlewave_run::RunWriter;
use idlewave_run::testing::empty_manifest;

fn burst(cpu: u32, pid: u32, (begin_ns, end_ns): (u64, u64)) -> Burst {
    Burst {
        node: NodeId::new(0),
        cpu: Cpu::new(cpu),
        pid: Pid::new(pid),
        begin_ns,
        end_ns,
        end_reason: EndReason::Sleeping,
        certain: true,
    }
}

fn interrupt(source: u32, (begin_ns, end_ns): (u64, u64), depth: u8) -> Interrupt {
    Interrupt {
        node: NodeId::new(0),
        cpu: Cpu::new(0),
        source,
        pid: Pid::new(7),
        begin_ns,
        end_ns,
        depth,
        certain: depth == 0,
    }
}

fn wakeup(time_ns: u64, waker: u32, pid: u32) -> Wakeup {
    Wakeup {
        node: NodeId::new(0),
        time_ns,
        cpu: Cpu::new(0),
        waker: Pid::new(waker),
        pid: Pid::new(pid),
        target_cpu: Cpu::new(0),
    }
}

/// All that happens in a run with these rows, and the number of uncertain rows.
fn all(bursts: Vec<Burst>, interrupts: Vec<Interrupt>, wakeups: Vec<Wakeup>) -> (Vec<String>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut out = RunWriter::create(&path, empty_manifest()).unwrap();
    let (mut b, mut i, mut w) = (Bursts::default(), Interrupts::default(), Wakeups::default());
    bursts.into_iter().for_each(|row| b.push(row));
    interrupts.into_iter().for_each(|row| i.push(row));
    wakeups.into_iter().for_each(|row| w.push(row));
    let mut m = Migrations::default();
    m.push(Migration {
        node: NodeId::new(0),
        time_ns: 15,
        pid: Pid::new(9),
        from: Cpu::new(1),
        to: Cpu::new(0),
    });
    // By the thread that leaves at that time, and by the one that comes.
    let mut s = Syscalls::default();
    for (pid, returned) in [(7, false), (8, true)] {
        s.push(Syscall {
            node: NodeId::new(0),
            time_ns: 20,
            cpu: Cpu::new(0),
            pid: Pid::new(pid),
            number: Some(24),
            returned,
        });
    }
    out.write_table(&s).unwrap();
    out.write_table(&b).unwrap();
    out.write_table(&i).unwrap();
    out.write_table(&w).unwrap();
    out.write_table(&m).unwrap();
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    let mut seen = Vec::new();
    let uncertain = for_each(&run, &mut |h| {
        let by = h.by.map_or("?".to_owned(), |pid| pid.to_string());
        let what = match h.what {
            What::Switch { prev, next } => {
                let name = |pid: Option<Pid>| pid.map_or("?".to_owned(), |pid| pid.to_string());
                format!("{} -> {}", name(prev.map(|p| p.0)), name(next))
            }
            What::Enter { source, ends_ns } => format!("enter {source} until {ends_ns}"),
            What::Leave { source, began_ns } => format!("leave {source} since {began_ns}"),
            What::Wake { pid, .. } => format!("wake {pid}"),
            What::Syscall { number, returned } => {
                let what = if returned { "return" } else { "call" };
                format!("{what} {}", number.unwrap())
            }
            What::Migrate { pid, to } => format!("move {pid} to {to}"),
        };
        seen.push(format!("{} {} {by}: {what}", h.place.1, h.time_ns));
        Ok(())
    });
    (seen, uncertain.unwrap())
}

#[test]
fn the_events_of_a_cpu_come_in_the_order_in_which_the_kernel_recorded_them() {
    let bursts = vec![
        burst(0, 7, (0, 20)),
        // Directly after it, then a hole.
        burst(0, 8, (20, 30)),
        burst(0, 7, (40, 50)),
        burst(1, 9, (5, 15)),
    ];
    let interrupts = vec![
        interrupt(1, (2, 10), 0),
        interrupt(2, (4, 10), 1),
        // A point in time, at the end of the one before.
        interrupt(3, (10, 10), 0),
        interrupt(1, (45, 50), 0),
    ];
    // By the thread that leaves at that time, and by the one that comes.
    let wakeups = vec![wakeup(20, 7, 8), wakeup(40, 7, 9)];
    let expected = [
        "0 0 ?: ? -> 7",
        "0 2 7: enter 1 until 10",
        "0 4 7: enter 2 until 10",
        "0 10 7: leave 2 since 4",
        "0 10 7: leave 1 since 2",
        "0 10 7: enter 3 until 10",
        "0 10 7: leave 3 since 10",
        "0 20 7: wake 8",
        "0 20 7: call 24",
        "0 20 7: 7 -> 8",
        "0 20 8: return 24",
        "0 30 8: 8 -> ?",
        "0 40 ?: ? -> 7",
        "0 40 7: wake 9",
        "0 45 7: enter 1 until 50",
        "0 50 7: leave 1 since 45",
        "0 50 7: 7 -> ?",
        "1 5 ?: ? -> 9",
        "1 15 9: 9 -> ?",
        "1 15 ?: move 9 to 0",
    ];
    assert_eq!(
        all(bursts.clone(), interrupts.clone(), wakeups.clone()),
        (expected.map(str::to_owned).to_vec(), 1)
    );
    // The order of the rows does not matter.
    let mixed = [3, 0, 2, 1].map(|at| bursts[at].clone()).to_vec();
    assert_eq!(all(mixed, interrupts, wakeups).0, expected);
}

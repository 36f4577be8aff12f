//! What took the CPU from a thread of the program, in OTF2 archives that the real library writes.

#![allow(clippy::unwrap_used)]

use crate::common::*;
use crate::otf2_print::{exported, listed, regions};
use crate::small_run;
use idlewave_run::tables::*;
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::{Pid, Rank};
use std::collections::BTreeMap;

#[test]
fn what_took_the_cpu_of_a_rank_is_a_region_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunReader::open(&small_run::run(dir.path())).unwrap();
    let Some((anchor, export)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    assert_eq!(
        entries(&export.losses),
        [
            "communicators of calls that neither communicate nor wait x2",
            "numbers of iterations, and bytes of their parts x4",
            "switches and interrupts beside the threads of the program x5",
            "bursts and interrupts whose start or end was inferred x2",
            "wake-ups and migrations x2",
            "entries into system calls and returns x5",
            "late steps and waits that the analysis found x2",
            "marked regions that end within a call x2",
            "marked regions that last longer than one that they begin in x1",
            "regions that were never left x1",
        ]
    );
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    // In the story, a rank enters its barrier while it has no CPU: times are complete all the same.
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let mut open: Vec<(String, u64)> = Vec::new();
    for (enters, name, time) in regions(&listing, 0) {
        if enters {
            open.push((name, time));
            continue;
        }
        let (last, begin) = open.pop().unwrap();
        assert_eq!(last, name, "regions do not lie within each other");
        *taken.entry(name).or_default() += time - begin;
    }
    assert!(open.is_empty());
    for (name, ns) in [
        ("timer tick", 300),
        ("virtio3-tx (irq)", 900),
        ("RCU (softirq)", 300),
        ("cr\"ond (task)", 1_500),
        ("reschedule (ipi)", 200),
        ("compute", 5_000),
        ("MPI_Barrier", 100),
    ] {
        assert_eq!(taken.get(name), Some(&ns), "{name}");
    }
    // They are not marks of the program.
    back(&anchor, &dir.path().join("back")).unwrap();
    let found = RunReader::open(&dir.path().join("back")).unwrap();
    let names = found.read::<Marks>().unwrap().name;
    assert!(names.iter().all(|name| !name.contains('(')), "{names:?}");
    assert!(names.iter().any(|name| name == "compute"), "{names:?}");
}

#[test]
fn only_what_ran_while_a_thread_was_preempted_took_its_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = two_ranks();
    manifest.ranks.truncate(1);
    let run = write(&dir.path().join("run"), manifest, |run| {
        let tasks = [
            task(0, "swapper", TaskKind::Idle),
            task(7, "kworker/0:1", TaskKind::Kernel),
            task(8, "idle", TaskKind::Idle),
            task(9, "indexd", TaskKind::User),
            task(100, "app", TaskKind::Rank),
        ];
        run.write_table(&table::<Tasks>(tasks)).unwrap();
        use EndReason::{Preempted, Sleeping};
        let bursts = [
            // It sleeps, so indexd takes nothing from it.
            burst(0, 100, 1_000, 2_000, Sleeping),
            burst(0, 9, 2_000, 2_500, Sleeping),
            // It is preempted twice in a row, and goes on on the other CPU meanwhile.
            burst(0, 100, 2_500, 3_000, Preempted),
            burst(0, 7, 3_000, 3_080, Sleeping),
            burst(0, 8, 3_080, 3_100, Preempted),
            burst(0, 9, 3_100, 3_700, Sleeping),
            // What has its last CPU after that takes nothing from it.
            burst(0, 7, 3_700, 3_800, Sleeping),
            burst(0, 0, 3_800, 5_000, Preempted),
            burst(1, 100, 3_400, 5_000, Preempted),
        ];
        run.write_table(&table::<Bursts>(bursts)).unwrap();
        let sources = [
            source(0, SourceKind::Irq, "eth0"),
            source(1, SourceKind::Softirq, "NET_RX"),
        ];
        run.write_table(&table::<Sources>(sources)).unwrap();
        let interrupts = [
            interrupt(0, 1, 100, 4_000, 4_400, 0),
            interrupt(1, 1, 100, 4_100, 4_300, 1),
        ];
        run.write_table(&table::<Interrupts>(interrupts)).unwrap();
        let mark = Mark {
            rank: Some(Rank::new(0)),
            node: NODE,
            thread: Pid::new(100),
            name: "solve".to_owned(),
            begin_ns: 1_000,
            // Within the softirq, because the clocks differ.
            end_ns: Some(4_200),
        };
        let namesake = Mark {
            name: "indexd (task)".to_owned(),
            begin_ns: 4_500,
            end_ns: Some(4_600),
            ..mark.clone()
        };
        run.write_table(&table::<Marks>([mark, namesake])).unwrap();
    });
    let Some((anchor, _)) = exported(&run, &dir.path().join("out")) else {
        return;
    };
    let Some(listing) = listed(&anchor, &["-Werror"]) else {
        return;
    };
    let found: Vec<String> = regions(&listing, 0)
        .into_iter()
        .map(|(enters, name, time)| format!("{} {name} {time}", if enters { '+' } else { '-' }))
        .collect();
    let expected = "\
+ solve 1000
+ kworker/0:1 (kernel thread) 3000
- kworker/0:1 (kernel thread) 3080
+ indexd (task) 3100
- indexd (task) 3400
+ eth0 (irq) 4000
+ NET_RX (softirq) 4100
- NET_RX (softirq) 4200
- eth0 (irq) 4200
- solve 4200
+ eth0 (irq) 4200
+ NET_RX (softirq) 4200
- NET_RX (softirq) 4300
- eth0 (irq) 4400
+ indexd (task) 4500
- indexd (task) 4600";
    assert_eq!(found.join("\n"), expected);
    back(&anchor, &dir.path().join("back")).unwrap();
    let found = RunReader::open(&dir.path().join("back")).unwrap();
    let marks = found.read::<Marks>().unwrap();
    assert_eq!(marks.name, ["solve", "indexd (task)"]);
}

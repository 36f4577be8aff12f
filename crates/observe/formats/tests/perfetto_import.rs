//! Runs exported to Perfetto and imported again.

#![allow(clippy::unwrap_used)]

use crate::common::{back, entries};
use crate::small_run::{export, kernel_run, run};
use idlewave_formats::export::Format;
use idlewave_run::RunReader;
use idlewave_run::tables::*;
use idlewave_units::{Cpu, NodeId, Pid};

fn rows<T: Table>(run: &RunReader) -> Vec<T::Row> {
    run.read::<T>().unwrap().rows().collect()
}

#[test]
fn what_the_kernel_recorded_comes_back_and_what_it_did_not_record_is_nobodys() {
    let dir = tempfile::tempdir().unwrap();
    let at = run(dir.path());
    let (file, _) = export(&at, "trace", Format::Perfetto).unwrap();
    let to = dir.path().join("back");
    let imported = back(&file, &to).unwrap();
    let (before, after) = (RunReader::open(&at).unwrap(), RunReader::open(&to).unwrap());

    let in_order = |run: &RunReader| {
        let mut bursts = rows::<Bursts>(run);
        bursts.sort_by_key(|b| (b.cpu, b.begin_ns));
        bursts.into_iter().map(|burst| Burst {
            // The format has no place for this.
            certain: true,
            ..burst
        })
    };
    assert!(in_order(&before).eq(in_order(&after)));
    assert_eq!(rows::<Wakeups>(&after), rows::<Wakeups>(&before));
    assert_eq!(rows::<Migrations>(&after), rows::<Migrations>(&before));
    assert_eq!(rows::<Syscalls>(&after), rows::<Syscalls>(&before));
    let named = |run: &RunReader| {
        let sources = rows::<Sources>(run);
        let mut found: Vec<_> = rows::<Interrupts>(run)
            .into_iter()
            .map(|i| {
                let source = &sources[i.source as usize];
                let place = (i.cpu, i.begin_ns, i.end_ns, i.depth, i.pid);
                (place, source.kind, source.name.clone())
            })
            .collect();
        found.sort();
        found
    };
    let mut expected = named(&before);
    // Perfetto has no event for it: it becomes a slice there.
    expected.retain(|(_, _, name)| name != "reschedule");
    assert_eq!(named(&after), expected);

    // No task stands for what was not recorded, and nothing counts as a loss that is none.
    let tasks: Vec<Pid> = rows::<Tasks>(&after).into_iter().map(|t| t.pid).collect();
    assert!(tasks.iter().all(|pid| pid.get() < 100), "{tasks:?}");
    assert_eq!(imported.missed, Some(0));
    let lost = entries(&imported.losses).join("\n");
    assert!(!lost.contains("gap") && !lost.contains("missing"), "{lost}");
}

#[test]
fn lists_of_threads_and_of_machines_tell_names_processes_kinds_and_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let at = run(dir.path());
    let (file, _) = export(&at, "trace", Format::Perfetto).unwrap();
    let to = dir.path().join("back");
    back(&file, &to).unwrap();
    let (before, after) = (RunReader::open(&at).unwrap(), RunReader::open(&to).unwrap());
    let task = |run: &RunReader, pid| {
        let mut tasks = rows::<Tasks>(run).into_iter();
        let task = tasks.find(|t| t.pid == Pid::new(pid)).unwrap();
        (task.name, task.process, task.kind)
    };
    assert_eq!(task(&after, 20), task(&before, 20));
    for pid in [10, 11] {
        let (name, process, _) = task(&before, pid);
        // The trace has no ranks.
        assert_eq!(task(&after, pid), (name, process, TaskKind::Program));
    }
    let host = |run: &RunReader| {
        let host = run.manifest().nodes[0].host.clone();
        (host.name, host.kernel, host.kernel_build, host.architecture)
    };
    assert_eq!(host(&after), host(&before));
    // All kinds are known, and none is inferred.
    let lost = entries(&after.manifest().losses).join("\n");
    assert!(!lost.contains("threads whose kind is inferred"), "{lost}");
}

#[test]
fn of_several_machines_the_first_is_imported_and_the_others_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let burst = |node, begin_ns| Burst {
        node: NodeId::new(node),
        cpu: Cpu::new(0),
        pid: Pid::new(1),
        begin_ns,
        end_ns: begin_ns + 10,
        end_reason: EndReason::Sleeping,
        certain: true,
    };
    let at = kernel_run(
        dir.path(),
        2,
        vec![burst(0, 10), burst(1, 10), burst(1, 30)],
        Vec::new(),
    );
    let (file, _) = export(&at, "trace", Format::Perfetto).unwrap();
    let to = dir.path().join("back");
    let imported = back(&file, &to).unwrap();
    assert_eq!(
        rows::<Bursts>(&RunReader::open(&to).unwrap()),
        [burst(0, 10)]
    );
    let lost = entries(&imported.losses);
    let elsewhere = "events of other machines in the Perfetto trace x4".to_owned();
    assert!(lost.contains(&elsewhere), "{lost:?}");
}

#[test]
fn a_damaged_trace_is_refused_with_its_offset_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = export(&run(dir.path()), "trace", Format::Perfetto).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let second = 2 + usize::from(bytes[1]);
    bytes[second] = 0x13;
    std::fs::write(&file, bytes).unwrap();
    let to = dir.path().join("back");
    let error = back(&file, &to).unwrap_err().to_string();
    assert!(error.contains(&format!("offset {second}")), "{error}");
    assert!(!to.exists());
}

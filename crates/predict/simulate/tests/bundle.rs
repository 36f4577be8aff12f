//! The bundle of a simulated run: what it says, what it refuses, and what users see of it.

#![allow(clippy::unwrap_used)]

use crate::made::*;
use idlewave_noise::{Clock, NoiseModel};
use idlewave_run::tables::{Bursts, Table, Tasks};
use idlewave_run::{RunReader, RunState, SourceKind};
use idlewave_simulate::bulk::OneOff;
use idlewave_simulate::bundle::{BundleError, MOST_RANK_STEPS, MOST_RANKS, Run, write_run};
use idlewave_units::Rank;
use std::sync::atomic::AtomicBool;

#[test]
fn the_manifest_says_what_was_simulated_and_nothing_of_a_machine() {
    let daemon = source(SourceKind::Task, "daemon", poisson(1_000.0), 50_000);
    let tick = source(SourceKind::TimerTick, "tick", poisson(100.0), 5_000);
    let (program, model) = (ring(5), model(2, vec![daemon, tick]));
    let delays = [OneOff {
        rank: 1,
        step: 2,
        ns: 3,
    }];
    let command = ["idlewave".to_owned(), "simulate".to_owned()];
    let run = Run {
        replication: 4,
        without: &[0],
        delays: &delays,
        command: &command,
        ..run(&program, &model, 20)
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let end = written(&path, &run).finish_ns;
    let reader = RunReader::open(&path).unwrap();
    let manifest = reader.manifest();
    let simulated = manifest.simulated.as_ref().unwrap();
    assert_eq!(NoiseModel::read(&simulated.noise_model).unwrap(), model);
    assert_eq!(
        (manifest.seed, simulated.replication, simulated.steps),
        (7, 4, 20)
    );
    assert_eq!(simulated.without, ["daemon"]);
    let delay = simulated.delays[0];
    assert_eq!(
        (delay.rank, delay.step, delay.length.get()),
        (Rank::new(1), 2, 3)
    );
    assert_eq!(manifest.command, command);
    assert_eq!(
        (manifest.state, manifest.phases[0].end_ns),
        (RunState::Complete, end)
    );
    // Five ranks on two CPUs of each node.
    let places: Vec<_> = manifest
        .ranks
        .iter()
        .map(|r| (r.node.get(), r.cpu.unwrap().get()))
        .collect();
    assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
    let online: Vec<_> = manifest
        .nodes
        .iter()
        .map(|n| n.host.online.to_string())
        .collect();
    assert_eq!(online, ["0-1", "0-1", "0"]);
    assert!(
        manifest
            .nodes
            .iter()
            .all(|n| n.host.cpu_model.is_none() && n.host.memory.is_none())
    );
    // The source left out does not appear.
    let tasks = reader.read::<Tasks>().unwrap();
    assert_eq!(tasks.len(), 5);
    assert_eq!(reader.read::<Bursts>().unwrap().len(), 5);
}

#[test]
fn the_same_run_gives_the_same_bytes_and_another_seed_others() {
    let daemon = source(SourceKind::Task, "daemon", poisson(200.0), 50_000);
    let (program, model) = (ring(6), model(3, vec![daemon]));
    let dir = tempfile::tempdir().unwrap();
    let bytes = |name: &str, seed| {
        let path = dir.path().join(name);
        let run = Run {
            seed,
            ..run(&program, &model, 100)
        };
        written(&path, &run);
        [
            "run.json",
            "bursts.arrow",
            "regions.arrow",
            "interrupts.arrow",
            "tasks.arrow",
        ]
        .map(|file| std::fs::read(path.join(file)).unwrap())
    };
    let first = bytes("a", 1);
    assert_eq!(first, bytes("b", 1));
    assert_ne!(first[1], bytes("c", 2)[1]);
}

#[test]
fn what_is_too_large_or_not_there_is_refused_with_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let model = NoiseModel::default();
    let refused = |run: &Run<'_>| {
        let error = write_run(&dir.path().join("run"), run, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "nothing is left"
        );
        error.to_string()
    };
    let (small, large) = (ring(64), ring(MOST_RANKS + 1));
    assert!(refused(&run(&large, &model, 1)).contains("4097 ranks are too many"));
    let steps = MOST_RANK_STEPS / 64 + 1;
    assert!(refused(&run(&small, &model, steps)).contains("6400000 at most"));
    assert!(refused(&run(&small, &model, 0)).contains("no step"));
    let without = Run {
        without: &[0],
        ..run(&small, &model, 1)
    };
    assert!(refused(&without).contains("source 0 is to be left out"));
    let exposed = NoiseModel {
        clock: Clock::Work,
        ..NoiseModel::default()
    };
    assert!(refused(&run(&small, &exposed, 1)).contains("noise by exposure"));
    for (rank, step) in [(64, 0), (0, 1)] {
        let delays = [OneOff { rank, step, ns: 1 }];
        let outside = Run {
            delays: &delays,
            ..run(&small, &model, 1)
        };
        assert!(refused(&outside).contains(&format!("a delay of rank {rank} in step {step}")));
    }
    let stopped = write_run(
        &dir.path().join("run"),
        &run(&small, &model, 1),
        &AtomicBool::new(true),
    );
    assert!(matches!(stopped, Err(BundleError::Interrupted)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_is_there_already_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let (program, model) = (ring(4), NoiseModel::default());
    for path in [dir.path(), file.as_path()] {
        let error =
            write_run(path, &run(&program, &model, 3), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, BundleError::Exists(_)), "{error}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    written(&empty, &run(&program, &model, 3));
    assert!(RunReader::open(&empty).is_ok());
}

/// Page and summary first say that the run is simulated, and say nothing about a machine, advice or
/// measurements.
#[test]
fn page_and_summary_say_that_the_run_is_simulated() {
    let daemon = source(SourceKind::Task, "daemon & <co>", poisson(20.0), 400_000);
    let (program, model) = (ring(8), model(8, vec![daemon]));
    let delays = [OneOff {
        rank: 2,
        step: 9,
        ns: 7_000_000,
    }];
    let run = Run {
        delays: &delays,
        ..run(&program, &model, 200)
    };
    let (explanation, reader, _dir) = explained(&run);
    let findings = explanation.findings;
    let page = idlewave_report::render_html(&reader, &findings).unwrap();
    assert!(page.contains("<strong>SIMULATED:</strong> nothing on this page was measured"));
    assert!(page.contains("<title>idlewave: a simulated run</title>"));
    for section in [
        "verdict",
        "sources",
        "late",
        "spacetime",
        "slowest",
        "simulation",
    ] {
        assert!(
            page.contains(&format!("<section id=\"{section}\">")),
            "{section}"
        );
    }
    for section in [
        "advice",
        "scale",
        "noise",
        "contamination",
        "machine",
        "recording",
    ] {
        assert!(
            !page.contains(&format!("<section id=\"{section}\">")),
            "{section}"
        );
    }
    assert!(page.contains("rank 2 in step 9 for 7.00 ms"));
    assert!(
        page.contains("name = &quot;daemon &amp; &lt;co&gt;&quot;"),
        "the model is there"
    );
    assert!(!page.contains("this machine"));
    let summary = idlewave_report::render_text(reader.manifest(), &findings, 80, false);
    let head: Vec<&str> = summary.lines().take(8).collect();
    assert_eq!(
        head,
        [
            "SIMULATED RUN: nothing below was measured on any machine",
            "  8 ranks on 1 node, 200 steps; seed 7, replication 0",
            "  - compute 1.00 ms",
            "  - exchange 8 B with neighbours on 8 x 1 x 1 ranks, reach 1, periodic, both",
            "    ways, all at once",
            "  - messages: latency 10000 ns, overhead 0 ns, gap 0 ns, gap per byte 0 ns,",
            "    overhead per byte 0 ns, no rendezvous",
            "  - rank 2 delayed once, in step 9, for 7.00 ms",
        ]
    );
    for word in [
        "not measured",
        "kernel trace",
        "NOT RECORDED",
        "ADVICE",
        "WHAT TO DO",
    ] {
        assert!(!summary.contains(word), "{word}\n{summary}");
    }
}

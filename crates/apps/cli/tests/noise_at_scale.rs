//! `idlewave simulate stencil`, `collective` and `like`: what they print, what they refuse, and
//! that the result is the same everywhere.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, lockstep, run};
use serde_json::Value;
use std::fs;

fn simulate(options: &[&str]) -> Ended {
    run(idlewave().arg("simulate").args(options))
}

fn json(options: &[&str]) -> Value {
    let ended = simulate(&[options, &["--json"]].concat());
    ended.succeeded();
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn rare_noise_of_a_large_ring_costs_what_the_law_says_with_an_interval_and_a_source() {
    // A strike has probability 0.001 per step and lasts a tenth of it: D sqrt(2 q), and the ring is
    // finite.
    let options = [
        "stencil",
        "--noise",
        "poisson:100ms:10us",
        "--ranks",
        "2e3",
        "--steps",
        "3000",
    ];
    let seen = json(&options);
    let point = &seen["points"][0];
    let law = 0.1 * (2.0 * 1e-3_f64).sqrt();
    let slowdown = point["slowdown"]["value"].as_f64().unwrap();
    assert!((slowdown / law - 1.0).abs() < 0.08, "{point}");
    assert!(point["slowdown"]["low"].as_f64().unwrap() < slowdown);
    assert_eq!(point["undisturbed_step_ns"], 100_000.0);
    let amplification = point["amplification"].as_f64().unwrap();
    assert!((amplification - slowdown / 1e-4).abs() < 1e-6 * amplification);
    // It is the only source: without it there is no noise.
    assert_eq!(point["without"][0]["slowdown"]["value"], 0.0);
    let path = &seen["critical_path"];
    let share = |of: &Value| of["value"].as_f64().unwrap();
    let noise = share(&path["noise"][0]["share"]);
    assert!((share(&path["work"]) + share(&path["communication"]) + noise - 1.0).abs() < 1e-9);
    let short = [&options[..5], &["--steps", "300", "--json"]].concat();
    let again = simulate(&short);
    let other = run(idlewave()
        .env("RAYON_NUM_THREADS", "3")
        .arg("simulate")
        .args(&short));
    assert_eq!(again.stdout, other.stdout);
    assert_ne!(
        again.stdout,
        simulate(&[&short[..], &["--seed", "2"]].concat()).stdout
    );
}

#[test]
fn the_text_fits_eighty_columns_and_says_what_to_do_next() {
    for options in [
        &["stencil"][..],
        &[
            "stencil",
            "--noise",
            "poisson:1ms:20us",
            "--ranks",
            "1e2..1e4",
            "--dims",
            "1,3",
            "--steps",
            "100",
            "--replications",
            "4",
        ],
        &[
            "stencil",
            "--ranks",
            "200",
            "--delay",
            "100,10,1ms",
            "--steps",
            "10",
            "--wait",
            "blocking",
        ],
        &[
            "collective",
            "allreduce",
            "--noise",
            "periodic:10ms:25us",
            "--cosched",
            "--ranks",
            "64",
            "--steps",
            "100",
            "--latency",
            "1us",
        ],
    ] {
        let ended = simulate(options);
        ended.succeeded();
        assert!(ended.stdout.contains("\nNEXT\n"), "{}", ended.stdout);
        for line in ended.stdout.lines() {
            assert!(line.chars().count() <= 80, "{options:?}: {line}");
        }
    }
}

#[test]
fn by_exposure_regular_noise_meets_computations_that_the_wall_clock_keeps_out_of_its_way() {
    // Noise every 2 ms, with a random phase: by the wall clock it always hits the same one of two
    // steps of 1 ms, or their communication.
    let options = [
        "stencil",
        "--noise",
        "periodic:2ms:10us",
        "--ranks",
        "1",
        "--granularity",
        "100us",
    ];
    let steps = ["--comm", "900us", "--steps", "2000", "--replications", "2"];
    let slowdown = |more: &[&str]| {
        let seen = json(&[&options[..], &steps[..], more].concat());
        seen["points"][0]["slowdown"]["value"].as_f64().unwrap()
    };
    // 10 us in 2 ms of computation, that is 20 steps.
    let exposed = slowdown(&["--exposure"]);
    assert!((exposed - 0.01 / 20.0).abs() < 2e-5, "{exposed}");
    let wall = slowdown(&[]);
    assert!((wall - exposed).abs() > 1e-4, "{wall}");
}

#[test]
fn an_idle_wave_is_described() {
    let seen = json(&[
        "stencil",
        "--ranks",
        "200",
        "--delay",
        "100,10,1ms",
        "--reach",
        "2",
    ]);
    let wave = &seen["idle_wave"];
    assert_eq!(wave["speed_ranks_per_step"], 2.0);
    assert_eq!(wave["decay_ns_per_rank"], 0.0);
    assert_eq!(wave["steps"][4]["up"], 10);
}

#[test]
fn noise_that_strikes_all_at_once_costs_no_more_than_it_takes() {
    let of = |more: &[&str]| {
        let options = [
            "collective",
            "barrier",
            "--noise",
            "poisson:10ms:100us",
            "--ranks",
            "256",
            "--steps",
            "3000",
            "--sources",
            "0",
        ];
        let seen = json(&[&options[..], more].concat());
        seen["points"][0]["slowdown"]["value"].as_f64().unwrap()
    };
    let together = of(&["--cosched"]);
    assert!((together / 0.0101 - 1.0).abs() < 0.1, "{together}");
    assert!(of(&["--replications", "2"]) > 10.0 * together);
}

#[test]
fn a_quiet_cpu_takes_the_daemons_and_leaves_the_tick() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("noise.toml");
    let source = |kind, name| {
        format!(
            "[[source]]\nkind = \"{kind}\"\nname = \"{name}\"\narrivals = {{ process = \"poisson\", rate_per_s = 50.0 }}\n\
             length = {{ law = \"fixed\", ns = 20000 }}\n"
        )
    };
    let text = format!(
        "schema = 1\ncpus_per_node = 4\n{}{}",
        source("task", "crond"),
        source("timer_tick", "timer tick")
    );
    fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    let seen = json(&[
        "stencil",
        "--noise",
        file,
        "--quiet-cpu",
        "1",
        "--steps",
        "200",
        "--ranks",
        "90",
    ]);
    assert_eq!(seen["noise"]["sources"], serde_json::json!(["timer tick"]));
    assert_eq!(seen["noise"]["cpus_per_node"], 3);
    let seen = json(&[
        "stencil",
        "--noise",
        file,
        "--without",
        "task:*",
        "--steps",
        "200",
        "--ranks",
        "90",
    ]);
    let without: Vec<&str> = seen["points"][0]["without"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["source"].as_str().unwrap())
        .collect();
    assert_eq!(without[0], "task:*");
    // Errors in a file are reported with their line.
    fs::write(file, text.replace("rate_per_s", "rate")).unwrap();
    let [what, next] = simulate(&["stencil", "--noise", file]).failed(5);
    assert!(what.contains(file) && what.contains("line 6"), "{what}");
    assert!(next.contains("docs/noise-model.md"), "{next}");
    fs::write(file, text.replace("20000", "20000000")).unwrap();
    let [what, _] = simulate(&["stencil", "--noise", file]).failed(5);
    assert!(what.contains("they must leave at least 1 %"), "{what}");
    let [what, next] = simulate(&["stencil", "--noise", "/dev/zero"]).failed(5);
    assert_eq!(what, "read /dev/zero: it is not text");
    assert!(next.contains("periodic:PERIOD:LENGTH"), "{next}");
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (options, said, next_step) in [
        (
            &["stencil", "--noise", "/nowhere/x.toml"][..],
            "/nowhere/x.toml",
            "periodic:PERIOD:LENGTH",
        ),
        (
            &[
                "stencil",
                "--noise",
                "poisson:1ms:10us",
                "--without",
                "crond",
            ],
            "crond",
            "poisson:1",
        ),
        (&["stencil", "--without", "crond"], "crond", "--noise"),
        (
            &[
                "stencil",
                "--noise",
                "poisson:1ms:1us",
                "--exposure",
                "--ranks",
                "8",
                "-o",
                "never",
            ],
            "noise by exposure",
            "omit -o",
        ),
        (&["stencil", "--cosched"], "none was given", "--noise"),
        (
            &["stencil", "--ranks", "1e4", "-o", "never"],
            "too many for a run bundle",
            "omit -o",
        ),
        (
            &["stencil", "--ranks", "100", "--delay", "100,0,1ms"],
            "rank 100",
            "from 0",
        ),
        (
            &[
                "stencil", "--ranks", "9", "--steps", "30", "--delay", "3,40,1ms",
            ],
            "there are 40",
            "--steps",
        ),
        (
            &["stencil", "--ranks", "100", "--slow", "100=2"],
            "rank 100",
            "from 0",
        ),
        (
            &["stencil", "--noise", "poisson:1ms:1us", "--quiet-cpu", "1"],
            "none is left",
            "--cpus-per-node",
        ),
        (
            &["stencil", "--noise", "poisson:1ms:1ms"],
            "they must leave at least 1 %",
            "rates",
        ),
        (
            &["collective", "bcast", "--algorithm", "ring"],
            "binomial",
            "algorithm",
        ),
    ] {
        let ended = simulate(options);
        let code = if options.contains(&"/nowhere/x.toml") {
            4
        } else {
            2
        };
        let [what, next] = ended.failed(code);
        assert!(what.contains(said), "{what}");
        assert!(next.contains(next_step), "{next}");
        assert_eq!(ended.stdout, "");
    }
    for options in [
        ["--ranks", "0"],
        ["--ranks", "1e12"],
        ["--granularity", "0us"],
        ["--dims", "4"],
        ["--noise", "poisson:0us:1us"],
        ["--noise", "periodic:1ms"],
        ["--delay", "1,2"],
        ["--precision", "101"],
    ] {
        let ended = simulate(&[&["stencil"], &options[..]].concat());
        let [what, _] = ended.failed(2);
        assert!(what.contains(options[0]), "{what}");
    }
}

#[test]
fn a_run_is_predicted_and_compared() {
    let lockstep = lockstep();
    let run = lockstep.path().join("run");
    let path = run.to_str().unwrap();
    let seen = json(&["like", path, "--replications", "4", "--steps", "500"]);
    let runs = seen["runs"].as_array().unwrap();
    assert!(!runs.is_empty());
    for one in runs {
        let measured = one["measured_step_ns"]["value"].as_f64().unwrap();
        let predicted = one["predicted_step_ns"]["value"].as_f64().unwrap();
        assert!(measured > 0.0 && predicted > 0.0);
        let error = one["error"].as_f64().unwrap();
        assert!((predicted / measured - 1.0 - error).abs() < 1e-9);
        let quiet = one["own_scale"]["points"][0]["undisturbed_step_ns"]
            .as_f64()
            .unwrap();
        assert!(quiet <= predicted, "{one}");
    }
    let dir = tempfile::tempdir().unwrap();
    simulate(&["like", dir.path().to_str().unwrap()]).failed(5);
}

#[test]
fn schedules_are_disturbed_too() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/examples/pingpong.goal"
    );
    let seen = json(&["goal", example, "--noise", "poisson:5us:1us"]);
    assert_eq!(seen["noise"]["undisturbed_makespan_ns"], 35_776);
    assert!(seen["makespan_ns"].as_u64().unwrap() > 36_000);
    assert_eq!(seen, json(&["goal", example, "--noise", "poisson:5us:1us"]));
    assert_ne!(
        seen,
        json(&["goal", example, "--noise", "poisson:5us:1us", "--seed", "7"])
    );
    let not: Vec<&str> = seen["not_modelled"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(!not.contains(&"noise"), "{not:?}");
}

#[test]
fn of_runs_on_several_numbers_of_ranks_the_one_with_the_fewest_predicts_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (few, many) = (path("few"), path("many"));
    for (ranks, run) in [("8", &few), ("24", &many)] {
        let noise = ["stencil", "--noise", "poisson:1ms:20us", "--steps", "1500"];
        simulate(&[&noise[..], &["--ranks", ranks, "-o", run]].concat()).succeeded();
    }
    // In any order.
    let seen = json(&["like", &many, &few]);
    let runs = seen["runs"].as_array().unwrap();
    assert_eq!(
        (&runs[0]["ranks"], &runs[1]["ranks"]),
        (&24.into(), &8.into())
    );
    let scaling = seen["scaling"].as_array().unwrap();
    assert_eq!(scaling.len(), 1);
    assert_eq!(scaling[0]["of"], many.as_str());
    assert_eq!(scaling[0]["by"], few.as_str());
    assert_eq!(scaling[0]["measured_step_ns"], runs[0]["measured_step_ns"]);
    // Both come from the same noise; 1,500 steps on eight ranks show only 250 ms of it.
    let error = scaling[0]["error"].as_f64().unwrap();
    assert!(error.abs() < 0.03, "{error}");
    let text = simulate(&["like", &many, &few]);
    text.succeeded();
    for line in [
        "SCALING, from the work",
        "many: NEIGHBOUR EXCHANGE, 24 RANKS\n",
        "few: neighbour",
    ] {
        assert!(text.stdout.contains(line), "{line}: {}", text.stdout);
    }
    assert!(
        text.stdout.lines().all(|l| l.chars().count() <= 80),
        "{}",
        text.stdout
    );
    let [what, _] = simulate(&["like", &few, "--strong"]).failed(2);
    assert!(what.contains("--strong for a lockstep run"), "{what}");
    let [what, _] = simulate(&["like", &few, "--latency", "1us"]).failed(2);
    assert!(what.contains("for a lockstep run"), "{what}");
}

#[test]
fn the_sources_of_the_critical_path_are_left_out_and_not_those_that_take_most() {
    // Short ones take 1 %, long ones 0.1 %; a step of many ranks waits for a long one.
    let options = [
        "collective",
        "barrier",
        "--noise",
        "poisson:100us:1us",
        "--noise",
        "poisson:1s:1ms",
    ];
    let more = [
        "--ranks",
        "500",
        "--steps",
        "100",
        "--replications",
        "4",
        "--sources",
        "1",
    ];
    let seen = json(&[&options[..], &more[..]].concat());
    let without = seen["points"][0]["without"].as_array().unwrap();
    assert_eq!(without.len(), 1, "{without:?}");
    assert_eq!(without[0]["source"], "task:poisson:1.00s:1.00ms", "{seen}");
    assert_eq!(
        seen["critical_path"]["noise"][0]["source"],
        without[0]["source"]
    );
}

#[test]
fn ranks_are_averaged_once_they_are_as_disturbed_as_they_will_be() {
    // The slow rank first has to delay all 1,000 ranks, half of them on each side. From then on
    // only its own noise counts: 0.5 %, not that of all ranks.
    let options = [
        "stencil",
        "--noise",
        "poisson:10ms:50us",
        "--comm",
        "20us",
        "--slow",
        "3=1.5",
    ];
    let point = |more: &[&str]| json(&[&options[..], more].concat())["points"][0].clone();
    let settled = point(&[]);
    let slowdown = settled["slowdown"]["value"].as_f64().unwrap();
    assert!((0.0045..0.0065).contains(&slowdown), "{settled}");
    assert_eq!(settled["still_rises"], false, "{settled}");
    // A request for fewer steps is met, but the result is marked.
    let early = ["--warm-up", "0", "--steps", "400"];
    let rising = point(&early);
    assert_eq!(rising["warm_up"], 0);
    assert_eq!(rising["still_rises"], true, "{rising}");
    let text = simulate(&[&options[..], &early[..]].concat());
    assert!(
        text.stdout.contains("a longer --warm-up gives more"),
        "{}",
        text.stdout
    );
}

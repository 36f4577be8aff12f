//! `idlewave measure` as ranks of a gang, on a network device named by the environment.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Ended, idlewave, run, wait};
use idlewave_fabric::netctx::device::{Gang, Setup};
use idlewave_fabric::netctx::{Device, Memory};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A node with a running gang of two ranks.
fn node(path: &Path) -> Device<Memory> {
    let memory = Memory::all(1).remove(0);
    let device = Device::new(&Setup::new(path.to_owned()), memory).unwrap();
    let nodes = vec![0, 0];
    device.admit(&Gang { gang: 4, nodes }).unwrap();
    device.switch(4, Duration::from_secs(1)).unwrap();
    device.resume(1).unwrap();
    device
}

fn ranks(path: &Path, words: &[&str]) -> Vec<Ended> {
    let start = |rank| {
        let variable = format!("{},4,{rank},2,sleep", path.display());
        let mut command = idlewave();
        command.arg("measure").args(words).arg("--json");
        command.env("IDLEWAVE_NETCTX", variable);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    [0, 1].map(start).into_iter().map(wait).collect()
}

#[test]
fn every_measurement_runs_as_a_gang() {
    let directory = tempfile::tempdir().unwrap();
    for (i, words) in [
        &["exchange", "--duration", "200ms"][..],
        &["allreduce", "--duration", "200ms"],
        &["md", "--steps", "20"],
        &["is"],
    ]
    .iter()
    .enumerate()
    {
        let path = directory.path().join(i.to_string());
        let device = node(&path);
        let ended = ranks(&path, words);
        ended.iter().for_each(Ended::succeeded);
        assert!(ended[0].stdout.contains("network contexts"), "{ended:?}");
        assert_eq!(ended[1].stdout, "", "the first rank tells");
        assert!(device.counts().sent > 0 && !device.has_failed(4).unwrap());
    }
}

#[test]
fn a_rank_whose_device_cannot_be_used_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none");
    let missing = format!("{},4,0,2", path.display());
    for (variable, words, code) in [
        ("x", "understand IDLEWAVE_NETCTX=x", 3),
        (&missing, "open ", 3),
    ] {
        let mut command = idlewave();
        let [what, next] = run(command
            .args(["measure", "is"])
            .env("IDLEWAVE_NETCTX", variable))
        .failed(code);
        assert!(what.starts_with(words), "{what}");
        assert!(next.contains("IDLEWAVE_NETCTX"), "{next}");
    }
    let device = node(&path);
    let refused = |fabric: &str, variable: Option<String>| {
        let mut command = idlewave();
        command.args(["measure", "is", "--fabric", fabric]);
        if let Some(variable) = variable {
            command.env("IDLEWAVE_NETCTX", variable);
        }
        run(&mut command).failed(2)
    };
    refused("threads", Some(missing));
    refused("netctx", None);
    assert!(!device.has_failed(4).unwrap(), "nobody has come");
}

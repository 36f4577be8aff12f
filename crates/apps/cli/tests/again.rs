//! The same bundle gives the same bytes: on a second run, with any number of threads, in another
//! directory, read-only.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Mount, again, bundle, copy, files, idlewave, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of the files that differ or exist in only one of the two directories.
fn differing(a: &Path, b: &Path) -> BTreeSet<PathBuf> {
    let (a, b) = (files(a), files(b));
    let names = a.keys().chain(b.keys());
    names.filter(|&n| a.get(n) != b.get(n)).cloned().collect()
}

/// A copy of the recorded bundle without the results of any analysis.
fn unexplained(to: &Path) {
    copy(bundle(), to);
    let made = [
        "findings.json",
        "report.html",
        "late_steps.arrow",
        "late_parts.arrow",
    ];
    for name in made {
        fs::remove_file(to.join(name)).unwrap();
    }
    // The manifest names the late tables; the kernel trace stays decoded.
    let manifest = to.join("run.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tables = json["tables"].as_array_mut().unwrap();
    tables.retain(|t| !t["name"].as_str().unwrap().starts_with("late_"));
    fs::write(manifest, serde_json::to_string_pretty(&json).unwrap()).unwrap();
}

#[test]
fn explain_and_report_give_the_bytes_that_study_gave() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("copied");
    copy(bundle(), &other);
    for round in 0..2 {
        again("explain", &other).succeeded();
        again("report", &other).succeeded();
        assert_eq!(
            differing(bundle(), &other),
            BTreeSet::new(),
            "round {round}"
        );
    }
}

#[test]
fn explaining_a_copy_without_findings_gives_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("copied");
    unexplained(&other);
    // `report` explains a run that has not been explained.
    again("report", &other).succeeded();
    assert_eq!(differing(bundle(), &other), BTreeSet::new());
}

#[test]
fn the_kernel_view_decodes_to_the_same_tables() {
    if !bundle().join("raw").exists() {
        println!("skipped: no kernel trace was recorded here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let manifest = fs::read_to_string(bundle().join("run.json")).unwrap();
    for (path, threads) in [(&first, "1"), (&second, "2")] {
        copy(bundle(), path);
        let mut json: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        json["tables"]
            .as_array_mut()
            .unwrap()
            .retain(|t| t["name"] != "bursts");
        json["losses"].as_array_mut().unwrap().clear();
        fs::write(path.join("run.json"), json.to_string()).unwrap();
        let explain = run(idlewave()
            .env("RAYON_NUM_THREADS", threads)
            .arg("explain")
            .arg(path));
        explain.succeeded();
    }
    assert_eq!(differing(&first, &second), BTreeSet::new());
    for table in [
        "bursts",
        "interrupts",
        "wakeups",
        "migrations",
        "sources",
        "tasks",
    ] {
        let name = format!("{table}.arrow");
        let [was, is] = [bundle(), &first].map(|b| fs::read(b.join(&name)).unwrap());
        assert!(was == is, "{name}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for threads in ["1", "2", "5"] {
        let other = dir.path().join(threads);
        unexplained(&other);
        let mut command = idlewave();
        command
            .env("RAYON_NUM_THREADS", threads)
            .arg("report")
            .arg(&other);
        run(&mut command).succeeded();
        assert_eq!(
            differing(bundle(), &other),
            BTreeSet::new(),
            "{threads} threads"
        );
    }
}

#[test]
fn standard_output_is_the_same_again_and_says_what_the_findings_say() {
    let dir = tempfile::tempdir().unwrap();
    let [first, other] = ["first", "copied"].map(|name| dir.path().join(name));
    let texts = [&first, &other].map(|path| {
        copy(bundle(), path);
        let ended = again("explain", path);
        ended.succeeded();
        ended.stdout
    });
    assert_eq!(texts[0], texts[1]);
    let json = run(idlewave().args(["explain", "--json"]).arg(&other));
    json.succeeded();
    assert_eq!(json.stderr, "");
    assert_eq!(
        json.stdout,
        fs::read_to_string(bundle().join("findings.json")).unwrap()
    );
}

#[test]
fn a_bundle_that_cannot_be_written_is_explained_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let [source, shown, written] = ["source", "shown", "written"].map(|name| dir.path().join(name));
    unexplained(&source);
    copy(bundle(), &written);
    fs::create_dir(&shown).unwrap();
    let source_text = source.to_str().unwrap();
    let mounted = Mount::new(&["--bind", "-o", "ro", source_text], &shown);
    let _mount = match mounted {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: no read-only mount: {why}"),
    };
    let before = files(&source);

    let explain = again("explain", &shown);
    explain.succeeded();
    assert_eq!(explain.stdout, again("explain", &written).stdout);
    let json = run(idlewave().args(["explain", "--json"]).arg(&shown));
    assert_eq!(
        json.stdout,
        fs::read_to_string(bundle().join("findings.json")).unwrap()
    );

    let [what, next] = again("report", &shown).failed_at_last(4);
    assert!(
        what.contains("report.html") && what.contains("Read-only"),
        "{what}"
    );
    assert!(next.contains("-o"), "{next}");
    let page = dir.path().join("page.html");
    run(idlewave().arg("report").arg(&shown).arg("-o").arg(&page)).succeeded();
    let [elsewhere, inside] = [page, bundle().join("report.html")].map(|p| fs::read(p).unwrap());
    assert!(elsewhere == inside);
    assert!(files(&source) == before);
}

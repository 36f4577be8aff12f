//! The dependencies go one way: a crate imports only crates of its own folder and of earlier ones,
//! and no modules use each other in circles.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "architecture/modules.rs"]
mod modules;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The packages of the workspace, as listed by `cargo metadata`.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it can be run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no packages: {other}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The folder of a package below `crates`, such as `base`; `None` for a package elsewhere.
fn folder(package: &Value) -> Option<String> {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let crates = root().canonicalize().unwrap().join("crates");
    let below = manifest.strip_prefix(crates).ok()?;
    let first = below.iter().next()?;
    Some(first.to_str()?.to_owned())
}

/// Folders in the order of the flow, as the workspace manifest lists its members.
fn folders() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().filter_map(|line| {
        let line = line.trim().strip_prefix("\"crates/")?;
        line.strip_suffix("/*\",").map(str::to_owned)
    });
    members.collect()
}

#[test]
fn every_crate_imports_only_from_its_own_folder_or_one_before_it() {
    let order = folders();
    assert_eq!(order.first().map(String::as_str), Some("base"));
    let packages = packages();
    let place = |package: &Value| {
        let folder = folder(package);
        folder.and_then(|f| order.iter().position(|other| *other == f))
    };
    let places: BTreeMap<String, usize> = packages
        .iter()
        .filter_map(|p| Some((text(&p["name"]), place(p)?)))
        .collect();
    assert!(places.len() >= 30, "only {} crates found", places.len());
    let mut seen = 0;
    for package in &packages {
        let name = text(&package["name"]);
        let own = places
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is in no folder of the workspace"));
        let dependencies = package["dependencies"].as_array().unwrap();
        // This includes those of tests and examples: what needs a later crate is tested in that
        // crate.
        for other in dependencies.iter().map(|d| text(&d["name"])) {
            let Some(theirs) = places.get(&other) else {
                continue;
            };
            seen += 1;
            assert!(
                theirs <= own,
                "{name} in {} imports {other} of {}",
                order[*own],
                order[*theirs]
            );
        }
    }
    assert!(seen > 100, "only {seen} imports");
}

/// If the tests of a crate are one program, cargo does not look for others.
#[test]
fn every_file_of_tests_is_a_program_or_a_module_of_one() {
    let mut modules = 0;
    for package in packages() {
        let directory = PathBuf::from(text(&package["manifest_path"])).with_file_name("tests");
        let targets = package["targets"].as_array().unwrap().iter();
        let programs: Vec<PathBuf> = targets
            .map(|target| PathBuf::from(text(&target["src_path"])))
            .filter(|path| path.parent() == Some(&directory))
            .collect();
        let listed: String = programs
            .iter()
            .map(|program| fs::read_to_string(program).unwrap())
            .collect();
        let listed: BTreeSet<&str> = listed.lines().collect();
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let file = entry.unwrap().path();
            if file.extension().is_none_or(|e| e != "rs") || programs.contains(&file) {
                continue;
            }
            let line = format!("mod {};", file.file_stem().unwrap().to_str().unwrap());
            assert!(listed.contains(&*line), "{}: not run", file.display());
            modules += 1;
        }
    }
    assert!(modules > 0);
}

/// docs/architecture.md has a table of folders and crates: `| base | units | ...`, with the folder
/// in the first row only.
#[test]
fn the_map_has_every_crate_in_its_folder() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let table = page.split("| folder | crate |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    let mut last = String::new();
    let mut told = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if !cells[1].is_empty() {
            last = cells[1].to_owned();
        }
        told.push((last.clone(), cells[2].to_owned()));
    }
    let mut there: Vec<(String, String)> = packages()
        .iter()
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let name = manifest.parent().unwrap().file_name().unwrap();
            (folder(package).unwrap(), name.to_str().unwrap().to_owned())
        })
        .collect();
    let order: Vec<&String> = told.iter().map(|(folder, _)| folder).collect();
    let folders = folders();
    assert!(order.is_sorted_by_key(|folder| folders.iter().position(|f| f == *folder)));
    told.sort();
    there.sort();
    assert_eq!(told, there);
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    let mut crates = 0;
    for package in packages() {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let src = manifest.parent().unwrap().join("src");
        let of_tests = |path: &Path| {
            let parts = path.iter().map(|part| part.to_string_lossy());
            parts.into_iter().any(|part| part.contains("test"))
        };
        let files: Vec<PathBuf> = sources(&src)
            .into_iter()
            .filter(|file| !of_tests(file.strip_prefix(&src).unwrap()))
            .collect();
        crates += 1;
        for circle in modules::circles(&src, &files) {
            let names = circle
                .iter()
                .map(|f| f.strip_prefix(&src).unwrap().display().to_string());
            found.push(format!(
                "{}: {}",
                text(&package["name"]),
                names.collect::<Vec<_>>().join(", ")
            ));
        }
    }
    assert!(crates >= 30, "{crates} crates");
    assert!(
        found.is_empty(),
        "{} circles:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Rust files below a directory.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rust = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs");
    let below = directories.iter().flat_map(|d| sources(d));
    files.into_iter().filter(rust).chain(below).collect()
}

/// Whether a source has an example in a comment that `cargo test --doc` would run.
fn has_example(source: &str) -> bool {
    let comments = source.lines().map(str::trim_start);
    let comments = comments.filter_map(|l| l.strip_prefix("///").or_else(|| l.strip_prefix("//!")));
    // Every second fence closes one.
    let fences = comments.filter_map(|l| l.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| language != "text")
}

/// Searching for examples takes a second per crate, so it is skipped for crates without any.
#[test]
fn examples_in_comments_are_run() {
    assert!(has_example(
        "//! ```text\n//! ```\n    /// ```\n    /// 1\n    /// ```"
    ));
    assert!(!has_example(
        "//! ```text\n//! ```\nlet fence = \"/// ```\";"
    ));
    let (mut run, mut libraries) = (0, 0);
    for package in packages() {
        let targets = package["targets"].as_array().unwrap();
        let Some(library) = targets.iter().find(|t| text(&t["kind"][0]) == "lib") else {
            continue;
        };
        libraries += 1;
        let root = PathBuf::from(text(&library["src_path"]));
        let mut files = sources(root.parent().unwrap()).into_iter();
        let with = files.find(|file| has_example(&fs::read_to_string(file).unwrap()));
        let runs = library["doctest"].as_bool().unwrap();
        run += usize::from(runs);
        assert_eq!(with.is_some(), runs, "{}: {with:?}", package["name"]);
    }
    assert!(run >= 1 && libraries >= 30, "{run} of {libraries}");
}

/// Functions of the standard library that create, change or open a file and follow a link that
/// somebody else may have put there.
const FOLLOW: [&str; 6] = [
    "File::create",
    "File::options",
    "OpenOptions::new",
    "fs::write(",
    "fs::copy(",
    "create_dir_all(",
];

/// The same for reading, where a FIFO or a device could stand in for the file.
const WAIT: [&str; 3] = ["File::open(", "fs::read(", "fs::read_to_string("];

/// Sources that may do so, and why.
const MAY_FOLLOW: [(&str, &str); 15] = [
    ("base/sys/src/files.rs", "the one place for it"),
    (
        "observe/interpose/preload/",
        "has no dependencies; makes files with O_EXCL only",
    ),
    (
        "observe/interpose/src/bell.rs",
        "makes its file with O_EXCL in a private directory",
    ),
    (
        "observe/interpose/src/reader.rs",
        "opens rings with O_NOFOLLOW",
    ),
    (
        "observe/interpose/src/state_reader.rs",
        "opens pages with O_NOFOLLOW",
    ),
    (
        "observe/fabric/src/netctx/device/memory.rs",
        "opens devices and pipes with O_NOFOLLOW and looks at their owner",
    ),
    ("observe/capture/src/tracefs/", "files of the kernel"),
    ("act/freeze/src/control.rs", "files of the kernel"),
    ("act/freeze/src/freezer.rs", "files of the kernel"),
    ("act/freeze/src/realtime.rs", "files of the kernel"),
    ("act/link/src/key.rs", "the file that the user named"),
    (
        "apps/pipeline/src/show.rs",
        "the device or pipe that the user named",
    ),
    (
        "apps/cli/src/files.rs",
        "the device or pipe that the user named",
    ),
    (
        "apps/record/src/node_place.rs",
        "a lock in a private directory",
    ),
    (
        "apps/record/src/node_frames.rs",
        "directories in one that it has just made",
    ),
];

/// Crates that read runs, which may come from somebody else.
const READ_RUNS: [&str; 10] = [
    "base/run/",
    "observe/ftrace/",
    "analyse/explain/",
    "base/noise/",
    "analyse/fit/",
    "predict/simulate/",
    "predict/replay/",
    "analyse/report/",
    "observe/session/",
    "apps/pipeline/",
];

/// Sources in them that read files outside runs, and why.
const MAY_WAIT: [(&str, &str); 3] = [
    (
        "observe/session/src/program/drain.rs",
        "files of the kernel",
    ),
    ("observe/session/src/node_facts.rs", "files of the kernel"),
    ("observe/session/src/lock.rs", "a directory"),
];

/// The part of a source that goes into the product.
fn product(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let lines = source[..end].lines();
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// Files are created and opened in `idlewave_sys::files`, so that no planted link redirects them.
#[test]
fn files_are_made_and_opened_in_one_place() {
    let crates = &root().join("crates");
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in sources(crates) {
        let name = file.strip_prefix(crates).unwrap().to_str().unwrap();
        let part = |part: &str| name.contains(part);
        let aside = [
            "/tests/",
            "/examples/",
            "/benches/",
            "testing",
            "/fake.rs",
            "tests.rs",
            "_tests/",
            "build.rs",
        ];
        if aside.into_iter().any(part) {
            continue;
        }
        seen += 1;
        let text = product(&fs::read_to_string(&file).unwrap());
        let listed = |list: &[(&str, &str)]| list.iter().any(|(path, _)| name.starts_with(path));
        let has = |ways: &[&str]| {
            ways.iter()
                .find(|way| text.contains(**way))
                .map(|w| w.to_string())
        };
        if let Some(way) = has(&FOLLOW).filter(|_| !listed(&MAY_FOLLOW)) {
            wrong.push(format!("{name}: {way}"));
        }
        let reads = READ_RUNS.iter().any(|start| name.starts_with(start));
        if let Some(way) = has(&WAIT).filter(|_| reads && !listed(&MAY_WAIT)) {
            wrong.push(format!("{name}: {way}"));
        }
    }
    assert!(seen > 400, "{seen} sources");
    assert!(
        wrong.is_empty(),
        "use idlewave_sys::files instead: {wrong:#?}"
    );
}

/// Files that write bytes for other programs, which no terminal shows.
const FOR_PROGRAMS: [&str; 3] = [
    "apps/cli/src/gang/lookout.rs",
    "act/freeze/src/watchdog/serve.rs",
    "apps/record/src/node_send.rs",
];

/// Code that writes to a standard stream, or asks what it is.
const STREAMS: [&str; 6] = [
    "print!(",
    "println!(",
    "dbg!(",
    "stdout()",
    "stderr()",
    "\\x1b[",
];

#[test]
fn all_text_goes_one_way_to_the_terminal_and_one_function_decides_on_colour() {
    let crates = &root().join("crates");
    let mut looked_at = 0;
    let mut found = Vec::new();
    for file in sources(crates) {
        let name = file.strip_prefix(crates).unwrap().to_str().unwrap();
        let of_tests = name.contains("/test")
            || name.contains("_tests.rs")
            || name == "observe/fabric/src/netctx/device/switches.rs";
        let of_tools = name.ends_with("/build.rs");
        if of_tests || of_tools || name.contains("/examples/") || name.contains("/benches/") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        // Tests are at the end of a file.
        let code = text.split("#[cfg(test)]").next().unwrap();
        looked_at += 1;
        let hits = code
            .lines()
            .filter(|line| STREAMS.iter().any(|s| line.contains(s)));
        let hits: Vec<_> = hits
            .map(|line| format!("{name}: {}", line.trim()))
            .collect();
        let allowed = match name {
            "base/sys/src/terminal.rs" => true,
            // Colours: only `Screen` puts them around text, after escaping its hidden characters.
            "analyse/report/src/screen.rs" => hits.iter().all(|hit| hit.contains("\\x1b[")),
            _ if FOR_PROGRAMS.contains(&name) => hits.len() == 1,
            _ => hits.is_empty(),
        };
        if !allowed {
            found.extend(hits);
        }
    }
    assert!(looked_at > 300, "only {looked_at} files");
    assert!(
        found.is_empty(),
        "use idlewave_sys::terminal:\n{}",
        found.join("\n")
    );
}

//! The examples of docs/regions.md do what they say: unchanged without a recorder, marked under the
//! preloaded library.

#[allow(dead_code)]
mod common;

use common::{Place, Process, read};
use idlewave_interpose::ring::DIRECTORY_VARIABLE;
use idlewave_interpose::{Mark, Record};
use idlewave_mpi::in_path;
use idlewave_mpi::testing::skip;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The only example in a language.
fn example(language: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("docs/regions.md")).expect("the page");
    let fence = format!("```{language}\n");
    let mut found = text.split(&fence).skip(1);
    let (example, rest) = (found.next().expect("an example"), found.next());
    assert!(rest.is_none(), "one example in {language}");
    let (example, _) = example.split_once("\n```").expect("its end");
    format!("{example}\n")
}

/// Writes the example and compiles it, with all warnings as errors.
fn compile(
    place: &Place,
    compiler: &str,
    file: &str,
    language: &str,
    options: &[&str],
) -> Option<PathBuf> {
    if !in_path(Path::new(compiler)).is_absolute() {
        skip(&format!("there is no {compiler}"));
        return None;
    }
    let (source, program) = (place.file(file), place.file(&format!("{file}.out")));
    std::fs::write(&source, example(language)).expect("the example");
    let include = workspace().join("include");
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror"]).args(options);
    // Fortran's module file goes into the current directory.
    command.current_dir(source.parent().expect("a directory"));
    if language == "fortran" {
        command.arg(include.join("idlewave.f90"));
    } else {
        command.arg("-I").arg(&include);
    }
    let output = command
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(program)
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Marks in order, with their names.
fn marks(process: &Process) -> Vec<(Mark, String)> {
    let mut names = HashMap::new();
    let mut marks = Vec::new();
    let mut last = 0;
    for record in process.records() {
        match record {
            Record::MarkName { number, name } => {
                names.insert(*number, name.clone());
            }
            Record::Mark { what, time, number } => {
                assert!(*time >= last, "marks are in the order of time");
                last = *time;
                marks.push((*what, names[number].clone()));
            }
            _ => {}
        }
    }
    marks
}

/// The output is the same with and without the library, and the marks are these.
fn check(place: &Place, program: impl Fn() -> Command, expected: &[(Mark, &str)]) {
    let plain = succeed(
        program()
            .env_remove("LD_PRELOAD")
            .env_remove(DIRECTORY_VARIABLE),
    );
    let rings = place.file("rings");
    let _ = std::fs::remove_dir_all(&rings);
    std::fs::create_dir(&rings).expect("a directory for the rings");
    let mut recorded = program();
    recorded
        .env("LD_PRELOAD", place.library())
        .env(DIRECTORY_VARIABLE, &rings);
    let recorded = succeed(&mut recorded);
    assert_eq!(
        plain, recorded,
        "the recorder changes nothing that the program prints"
    );
    let processes = read(&rings);
    assert_eq!(processes.len(), 1);
    let found = marks(&processes[0]);
    let found: Vec<_> = found
        .iter()
        .map(|(what, name)| (*what, name.as_str()))
        .collect();
    assert_eq!(found, expected);
}

const C: [(Mark, &str); 5] = [
    (Mark::Begin, "step"),
    (Mark::Begin, "assemble"),
    (Mark::End, "assemble"),
    (Mark::Point, "assembled"),
    (Mark::End, "step"),
];

#[test]
fn the_example_in_c_is_marked_however_it_is_compiled() {
    let place = Place::new();
    let strict = ["-std=c99", "-pedantic"];
    // In a program at a fixed address, a weak symbol can be found only through the global offset
    // table.
    for kind in [
        &["-O2"][..],
        &["-O0"],
        &["-O2", "-no-pie", "-fno-pie"],
        &["-O2", "-flto"],
        &["-Wl,-z,now"],
    ] {
        let options = [&strict[..], kind].concat();
        let Some(program) = compile(&place, "cc", "app.c", "c", &options) else {
            return;
        };
        check(&place, || Command::new(&program), &C);
    }
}

#[test]
fn a_static_program_runs_without_marks() {
    let place = Place::new();
    let Some(program) = compile(&place, "cc", "app.c", "c", &["-static"]) else {
        return;
    };
    let output = succeed(&mut Command::new(program));
    assert_eq!(output.stdout, b"7.485\n");
}

#[test]
fn the_example_in_cpp_leaves_its_region_by_an_exception() {
    let place = Place::new();
    for kind in ["-O2", "-O0"] {
        let options = ["-std=c++11", "-pedantic", kind];
        let Some(program) = compile(&place, "c++", "app.cpp", "cpp", &options) else {
            return;
        };
        let expected = [
            (Mark::Begin, "step"),
            (Mark::Begin, "solve"),
            (Mark::End, "solve"),
            (Mark::Point, "restarted"),
            (Mark::End, "step"),
        ];
        check(&place, || Command::new(&program), &expected);
    }
}

#[test]
fn the_example_in_fortran_is_marked() {
    let place = Place::new();
    let Some(program) = compile(&place, "gfortran", "app.f90", "fortran", &["-std=f2008"]) else {
        return;
    };
    let expected = [
        (Mark::Begin, "step"),
        (Mark::Begin, "smooth"),
        (Mark::End, "smooth"),
        (Mark::Point, "smoothed"),
        (Mark::End, "step"),
    ];
    check(&place, || Command::new(&program), &expected);
}

#[test]
fn the_example_in_python_is_marked() {
    let place = Place::new();
    let python = in_path(Path::new("python3"));
    if !python.is_absolute() {
        skip("there is no python3");
        return;
    }
    let script = place.file("app.py");
    std::fs::write(&script, example("python")).expect("the example");
    let program = || {
        let mut command = Command::new(&python);
        command
            .arg("-B")
            .arg(&script)
            .env("PYTHONPATH", workspace().join("include"));
        command
    };
    let expected = [
        (Mark::Begin, "step"),
        (Mark::Begin, "integrate"),
        (Mark::End, "integrate"),
        (Mark::Point, "integrated"),
        (Mark::End, "step"),
    ];
    check(&place, program, &expected);
}

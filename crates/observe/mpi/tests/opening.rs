//! Each step of the search finds, opens and recognises the installed libraries.

#![allow(clippy::unwrap_used)]

use idlewave_mpi::testing::{Installation, installations, output, skip};
use idlewave_mpi::{Calls, Family, Library, MpiError, Search};
use std::path::Path;
use std::process::Command;

const INNER: &str = "IDLEWAVE_TEST_OPEN";

/// The smallest program that needs the library.
const PROGRAM: &str = "#include <mpi.h>\nint main(void) { return MPI_Init(0, 0); }\n";

/// Opens the library that the environment variable asks for and prints it. Runs in a process of its
/// own, since an MPI library cannot be closed again.
#[test]
fn inner_process() {
    let Ok(what) = std::env::var(INNER) else {
        return;
    };
    let path = |text: &str| Some(Path::new(text).to_owned());
    let search = match what.split_once('=') {
        Some(("library", file)) => Search {
            library: path(file),
            program: None,
        },
        Some(("program", file)) => Search {
            library: None,
            program: path(file),
        },
        _ => Search::default(),
    };
    let library = Library::open(&search).unwrap();
    Calls::of(&library).unwrap();
    println!(
        "found {:?} {} {}",
        library.family(),
        library.file().display(),
        library.describe()
    );
}

fn open_in_new_process(installation: &Installation, what: &str, path: Option<&Path>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    installation.prepare(&mut command);
    run(command, what, path)
}

fn run(mut command: Command, what: &str, path: Option<&Path>) -> String {
    command.args([
        "--exact",
        "inner_process",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(INNER, what);
    if let Some(directory) = path {
        let old = std::env::var_os("PATH").unwrap();
        let mut all = vec![directory.to_owned()];
        all.extend(std::env::split_paths(&old));
        command.env("PATH", std::env::join_paths(all).unwrap());
    }
    let output = output(&mut command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text
        .lines()
        .find_map(|line| line.split_once("found ").map(|(_, rest)| rest));
    match found {
        Some(found) => found.to_owned(),
        None => panic!("{text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_library_that_is_named_is_opened_and_recognised() {
    for installation in installations() {
        for (i, library) in installation.libraries.iter().enumerate() {
            let family = if i == 0 {
                installation.family
            } else {
                Family::Standard
            };
            let found = open_in_new_process(
                &installation,
                &format!("library={}", library.display()),
                None,
            );
            assert!(found.starts_with(&format!("{family:?} ")), "{found}");
            let name = if installation.family == Family::OpenMpi {
                "Open MPI v"
            } else {
                "MPICH Version"
            };
            assert!(found.contains(name), "{found}");
        }
    }
}

#[test]
fn the_library_that_a_program_needs_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("empty.c");
    std::fs::write(&source, PROGRAM).unwrap();
    for installation in installations() {
        let program = directory.path().join(installation.name);
        if installation.compile_c(&source, &program).is_none() {
            continue;
        }
        let found = open_in_new_process(
            &installation,
            &format!("program={}", program.display()),
            None,
        );
        let expected = std::fs::canonicalize(&installation.libraries[0]).unwrap();
        let file = found.split(' ').nth(1).unwrap();
        assert_eq!(std::fs::canonicalize(file).unwrap(), expected, "{found}");
    }
}

#[test]
fn of_several_libraries_that_of_the_loader_is_opened() {
    let root = tempfile::tempdir().unwrap();
    let source = root.path().join("empty.c");
    std::fs::write(&source, PROGRAM).unwrap();
    for installation in installations().iter().filter(|i| i.name.ends_with('4')) {
        let Some(mpicc) = &installation.mpicc else {
            skip(&format!("{} has no mpicc", installation.name));
            continue;
        };
        let library = &installation.libraries[0];
        let name = library.file_name().unwrap();
        let [linked, variable] = ["linked", "variable"].map(|directory| {
            let directory = root.path().join(installation.name).join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            std::os::unix::fs::symlink(library, directory.join(name)).unwrap();
            directory
        });
        // The first comes before LD_LIBRARY_PATH (DT_RPATH), the second after it (DT_RUNPATH).
        let files = ["--disable-new-dtags", "--enable-new-dtags"].map(|order| {
            let program = linked.with_file_name(order);
            let rpath = format!("-Wl,{order},-rpath,{}", linked.display());
            let mut compiler = Command::new(mpicc);
            compiler.arg(&source).arg("-o").arg(&program).arg(rpath);
            assert!(compiler.status().unwrap().success());
            let mut command = Command::new(std::env::current_exe().unwrap());
            installation.prepare(&mut command);
            command.env("LD_LIBRARY_PATH", &variable);
            let found = run(command, &format!("program={}", program.display()), None);
            let file = found.split(' ').nth(1).unwrap().to_owned();
            let listed = Command::new(&program)
                .env("LD_TRACE_LOADED_OBJECTS", "1")
                .env("LD_LIBRARY_PATH", &variable)
                .output()
                .unwrap();
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            assert!(listed.contains(&format!("=> {file} ")), "{file}\n{listed}");
            file
        });
        assert_ne!(files[0], files[1]);
    }
}

#[test]
fn libraries_of_a_program_that_are_not_there_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let open_without = |name: &str| {
        let [library, program] = [name, "program"].map(|file| directory.path().join(file));
        let source = directory.path().join("empty.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-shared").arg(format!("-Wl,-soname,{name}"));
        compiler.arg(&source).arg("-o").arg(&library);
        assert!(compiler.status().unwrap().success());
        let mut compiler = Command::new("cc");
        compiler.arg(&source).arg("-Wl,--no-as-needed");
        compiler.arg(&library).arg("-o").arg(&program);
        assert!(compiler.status().unwrap().success());
        std::fs::remove_file(library).unwrap();
        let search = Search {
            library: None,
            program: Some(program),
        };
        Library::open(&search).unwrap_err()
    };
    if Command::new("cc").arg("--version").output().is_err() {
        return skip("cc is not installed");
    }
    let error = open_without("libmpich.so.999");
    assert!(matches!(error, MpiError::NotOfProgram(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("libmpich.so.999, needed by "), "{text}");
    // Whether that one needs MPI is unknown.
    let error = open_without("libsolver.so.3");
    let text = error.to_string();
    assert!(
        text.ends_with("as far as is known without libsolver.so.3"),
        "{text}"
    );
}

#[test]
fn the_library_beside_mpirun_is_opened() {
    for installation in installations().iter().filter(|i| i.name.ends_with('5')) {
        let bin = installation.mpirun.parent().unwrap();
        let found = open_in_new_process(installation, "any", Some(bin));
        let expected = std::fs::canonicalize(&installation.libraries[0]).unwrap();
        let file = found.split(' ').nth(1).unwrap();
        assert_eq!(std::fs::canonicalize(file).unwrap(), expected, "{found}");
    }
}

#[test]
fn each_launcher_finds_its_own_library() {
    for installation in installations() {
        let mut command = installation.launch(1);
        command.arg(std::env::current_exe().unwrap());
        let found = run(command, "any", None);
        let expected = std::fs::canonicalize(&installation.libraries[0]).unwrap();
        let file = found.split(' ').nth(1).unwrap();
        assert_eq!(
            std::fs::canonicalize(file).unwrap(),
            expected,
            "{}: {found}",
            installation.name
        );
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    let open = |file: &str| {
        Library::open(&Search {
            library: Some(file.into()),
            program: None,
        })
    };
    let missing = open("/nowhere/libmpi.so.40").unwrap_err();
    assert!(matches!(missing, MpiError::Unusable { .. }));
    let text = missing.to_string();
    assert!(
        text.contains("/nowhere/libmpi.so.40") && text.contains("No such file"),
        "{text}"
    );
    let other = open("libm.so.6").unwrap_err().to_string();
    assert!(other.contains("no known MPI library"), "{other}");

    let open_of = |file: &Path| {
        let search = Search {
            library: None,
            program: Some(file.to_owned()),
        };
        Library::open(&search).unwrap_err()
    };
    let none = open_of(&std::env::current_exe().unwrap());
    assert!(matches!(none, MpiError::NotNeeded { .. }), "{none}");
    for no_program in ["/nowhere/program", "/proc/self/status"] {
        let error = open_of(Path::new(no_program));
        assert!(matches!(error, MpiError::Elf { .. }), "{error}");
        assert!(error.to_string().contains(no_program), "{error}");
    }
}

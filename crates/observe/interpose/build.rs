//! Compiles the preloaded library so that it can be embedded in the installed program.
//!
//! `cargo install` installs programs, never libraries. So the library is compiled here with rustc
//! alone, from sources that use only the standard library, and embedded in the crate as bytes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt::Write, fs};

#[allow(dead_code)]
#[path = "src/table.rs"]
mod table;

use table::{How, TABLE};

fn main() {
    for path in [
        "build.rs",
        "preload",
        "src/ring.rs",
        "src/state.rs",
        "src/table.rs",
        "../mpi/src/abi.rs",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    write(&out.join("functions.rs"), &functions());
    write(&out.join("wrappers.rs"), &wrappers());
    let library = out.join("libidlewave_interpose.so");
    let status = Command::new(variable("RUSTC"))
        .args([
            "--crate-type=cdylib",
            "--crate-name=idlewave_interpose",
            "--edition=2024",
        ])
        .args([
            "-O",
            "-Cpanic=abort",
            "-Ccodegen-units=1",
            "-Cstrip=symbols",
        ])
        .args(["--cap-lints=warn", "--target", &variable("TARGET"), "-o"])
        .arg(&library)
        .arg("preload/lib.rs")
        .env("IDLEWAVE_WRAPPERS", out.join("wrappers.rs"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("failed to compile the preloaded library: rustc: {status}"),
        Err(error) => panic!("failed to compile the preloaded library: rustc: {error}"),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}

fn write(path: &Path, text: &str) {
    if let Err(error) = fs::write(path, text) {
        panic!("failed to write {}: {error}", path.display());
    }
}

/// Names and classes in numerical order: all rows of the table, then their large-count variants.
fn functions() -> String {
    let plain = TABLE
        .iter()
        .map(|row| (format!("MPI_{}", row.name), row.class));
    let large = TABLE.iter().filter(|row| row.large);
    let large = large.map(|row| (format!("MPI_{}_c", row.name), row.class));
    let all: Vec<_> = plain.chain(large).collect();
    let mut text = format!("static FUNCTIONS: [Function; {}] = [\n", all.len());
    for (name, class) in all {
        let _ = writeln!(text, "    Function {{ name: {name:?}, class: {class} }},");
    }
    text + "];\n"
}

/// For each function and each of its forms, a wrapper with its name and number of arguments.
fn wrappers() -> String {
    let mut text = String::new();
    let mut number = 0;
    for row in TABLE {
        let low = row.name.to_lowercase();
        let (c, fortran) = (usize::from(row.arguments), fortran_arguments(row));
        let name = row.name;
        wrapper(
            &mut text,
            number,
            row.how,
            "C",
            false,
            c,
            &format!("MPI_{name}"),
            &[format!("PMPI_{name}")],
        );
        let name = format!("mpi_{low}_");
        wrapper(
            &mut text,
            number,
            row.how,
            "Mpif",
            false,
            fortran,
            &name,
            &[format!("p{name}")],
        );
        for (form, suffix) in [("F08", "f08_"), ("F08ts", "f08ts_")] {
            let name = format!("mpi_{low}_{suffix}");
            let real = [format!("p{name}"), format!("pmpir_{low}_{suffix}")];
            wrapper(
                &mut text, number, row.how, form, false, fortran, &name, &real,
            );
        }
        number += 1;
    }
    for row in TABLE.iter().filter(|row| row.large) {
        let low = row.name.to_lowercase();
        let (c, fortran) = (usize::from(row.arguments), fortran_arguments(row));
        let name = row.name;
        wrapper(
            &mut text,
            number,
            row.how,
            "C",
            true,
            c,
            &format!("MPI_{name}_c"),
            &[format!("PMPI_{name}_c")],
        );
        for (form, suffix) in [("F08", "f08_large_"), ("F08ts", "f08ts_large_")] {
            let name = format!("mpi_{low}_{suffix}");
            let real = [format!("p{name}"), format!("pmpir_{low}_{suffix}")];
            wrapper(
                &mut text, number, row.how, form, true, fortran, &name, &real,
            );
        }
        number += 1;
    }
    text
}

/// Arguments including the error code and the lengths of up to two strings, which Fortran appends.
fn fortran_arguments(row: &table::Row) -> usize {
    let arguments = usize::from(row.arguments);
    match row.how {
        How::Init | How::InitThread => arguments - 2 + 1,
        How::Loss | How::Outside => arguments + 1 + 2,
        _ => arguments + 1,
    }
}

#[allow(clippy::too_many_arguments)]
fn wrapper(
    text: &mut String,
    number: usize,
    how: How,
    form: &str,
    large: bool,
    arguments: usize,
    name: &str,
    real: &[String],
) {
    let list: Vec<String> = (0..arguments).map(|i| format!("a{i}")).collect();
    let typed: Vec<String> = list.iter().map(|a| format!("{a}: usize")).collect();
    let names: Vec<String> = real.iter().map(|name| format!("c\"{name}\"")).collect();
    let how = format!("{how:?}").replace('(', "(Shape::");
    // Only the shapes of collectives are enums; flags and positions are plain values.
    let how = if how.contains("ollective") {
        how
    } else {
        how.replace("Shape::", "")
    };
    let _ = writeln!(
        text,
        "#[unsafe(no_mangle)] unsafe extern \"C\" fn {name}({typed}) -> i32 {{ \
         static E: Entry = Entry::new({number}, How::{how}, Form::{form}, {large}, &[{names}]); \
         unsafe {{ enter(&E, &mut [{list}]) }} }}",
        typed = typed.join(", "),
        names = names.join(", "),
        list = list.join(", "),
    );
}

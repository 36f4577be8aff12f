//! The tables agree with the header of every installed library.

#![allow(clippy::unwrap_used)]

use idlewave_mpi::abi::{Abi, Constant, Family, Handle};
use idlewave_mpi::testing::installations;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A program that prints each constant as the compiler sees it; for handles that are addresses, the
/// offset from the object that the table names.
fn program(abi: &Abi) -> String {
    let mut text = String::from(
        "#define _GNU_SOURCE\n#include <mpi.h>\n#include <stdio.h>\n#include <stddef.h>\n#include <stdint.h>\n\
         #include <dlfcn.h>\nint main(void) {\n",
    );
    for (name, constant) in abi.constants() {
        match constant {
            Constant::Handle(Handle::Symbol(symbol)) => {
                let symbol = symbol.to_str().unwrap();
                writeln!(
                    text,
                    "printf(\"{name} %td\\n\", (char *){name} - (char *)dlsym(RTLD_DEFAULT, \"{symbol}\"));"
                )
            }
            Constant::Int(_) => writeln!(text, "printf(\"{name} %td\\n\", (ptrdiff_t)(int){name});"),
            _ => writeln!(text, "printf(\"{name} %td\\n\", (intptr_t){name});"),
        }
        .unwrap();
    }
    text.push_str(
        "MPI_Status s;\n\
         printf(\"handle %zu\\nrequest %zu\\nstatus %zu\\n\", sizeof(MPI_Comm), sizeof(MPI_Request), sizeof s);\n\
         printf(\"source %zu\\ntag %zu\\nerror %zu\\n\", offsetof(MPI_Status, MPI_SOURCE),\n\
         offsetof(MPI_Status, MPI_TAG), offsetof(MPI_Status, MPI_ERROR));\n\
         return 0; }\n",
    );
    text
}

fn printed_by(wrapper: &Path, source: &str) -> BTreeMap<String, isize> {
    let directory = tempfile::tempdir().unwrap();
    let (c, exe) = (
        directory.path().join("constants.c"),
        directory.path().join("constants"),
    );
    std::fs::write(&c, source).unwrap();
    let compiled = Command::new(wrapper)
        .args(["-Wno-deprecated-declarations", "-o"])
        .arg(&exe)
        .arg(&c)
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let output = Command::new(&exe).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

fn compare(abi: &Abi, wrapper: &Path) {
    let header = printed_by(wrapper, &program(abi));
    let told = |name: &str| header[name];
    for (name, constant) in abi.constants() {
        let expected = match constant {
            Constant::Int(value) => value as isize,
            Constant::Address(value) | Constant::Handle(Handle::Number(value)) => value,
            // The distance from the object of that name.
            Constant::Handle(Handle::Symbol(_)) => 0,
        };
        assert_eq!(told(name), expected, "{name} of {}", wrapper.display());
    }
    let status = abi.status;
    for (name, expected) in [
        ("handle", abi.handle_size),
        ("request", abi.handle_size),
        ("status", status.size),
        ("source", status.source),
        ("tag", status.tag),
        ("error", status.error),
    ] {
        assert_eq!(
            told(name),
            expected as isize,
            "{name} of {}",
            wrapper.display()
        );
    }
}

#[test]
fn every_constant_is_that_of_the_installed_headers() {
    for installation in installations() {
        if let Some(mpicc) = &installation.mpicc {
            compare(installation.family.abi(), mpicc);
        }
        if let Some(mpicc) = &installation.mpicc_abi {
            compare(Family::Standard.abi(), mpicc);
        }
    }
}

#[test]
fn sonames_tell_the_family() {
    for (soname, family) in [
        ("libmpi.so.40", Some(Family::OpenMpi)),
        ("libmpi.so.12", Some(Family::Mpich)),
        ("libmpich.so.12", Some(Family::Mpich)),
        ("libmpi_abi.so.1", Some(Family::Standard)),
        ("libmpi_abi.so", Some(Family::Standard)),
        ("libmpi.so", None),
        ("libmpifort.so.12", None),
        ("libc.so.6", None),
    ] {
        assert_eq!(Family::of_soname(soname), family, "{soname}");
    }
}

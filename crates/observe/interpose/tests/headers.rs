//! The argument counts in the table match the headers of the installed libraries.

use idlewave_interpose::functions;
use idlewave_interpose::table::TABLE;
use idlewave_mpi::testing::{installations, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Functions that the headers declare, with their argument counts.
fn declared() -> BTreeMap<String, BTreeSet<usize>> {
    let mut all: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut headers: Vec<PathBuf> = vec![
        "/usr/include/x86_64-linux-gnu/mpich/mpi_proto.h".into(),
        "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h".into(),
    ];
    for mpi in installations() {
        let include = mpi
            .mpirun
            .parent()
            .and_then(|bin| bin.parent())
            .map(|prefix| prefix.join("include"));
        headers.extend(
            include
                .iter()
                .flat_map(|include| [include.join("mpi_proto.h"), include.join("mpi.h")]),
        );
    }
    for text in headers
        .iter()
        .filter_map(|header| std::fs::read_to_string(header).ok())
    {
        for (at, _) in text.match_indices("int MPI_") {
            let rest = &text[at + 4..];
            let Some(end) = rest.find('(') else { continue };
            let name = &rest[..end];
            if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            // Read up to the parenthesis that closes the first one: function pointers have their
            // own.
            let (mut depth, mut commas, mut inside) = (0, 0, String::new());
            for c in rest[end..].chars() {
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    ',' if depth == 1 => commas += 1,
                    _ => {}
                }
                inside.push(c);
                if depth == 0 {
                    break;
                }
            }
            let nothing = matches!(inside.replace(' ', "").as_str(), "()" | "(void)");
            all.entry(name.to_owned())
                .or_default()
                .insert(if nothing { 0 } else { commas + 1 });
        }
    }
    all
}

#[test]
fn every_function_has_as_many_arguments_as_the_headers_say() {
    let declared = declared();
    if declared.len() < 100 {
        skip("no header of MPI was found");
        return;
    }
    let mut compared = 0;
    for row in TABLE {
        let names = [format!("MPI_{}", row.name), format!("MPI_{}_c", row.name)];
        for name in names.iter().take(if row.large { 2 } else { 1 }) {
            if let Some(arguments) = declared.get(name) {
                assert_eq!(
                    arguments,
                    &BTreeSet::from([usize::from(row.arguments)]),
                    "{name}"
                );
                compared += 1;
            }
        }
    }
    assert!(
        compared > TABLE.len() / 2,
        "{compared} functions were found in headers"
    );
}

#[test]
fn functions_have_numbers_that_fit_and_names_of_their_own() {
    let names: BTreeSet<_> = functions().iter().map(|function| function.name).collect();
    assert_eq!(names.len(), functions().len());
    // The preloaded library counts what it does not follow in an array of this length.
    assert!(functions().len() <= 512);
}

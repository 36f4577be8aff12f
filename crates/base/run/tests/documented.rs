//! docs/run-bundle.md describes the tables as they are: every column, its type, and what it means.

#![allow(clippy::unwrap_used)]

use idlewave_run::spill::RecordKind;
use idlewave_run::tables::all_schemas;
use idlewave_run::{SchemaVersion, SourceKind};
use std::fs;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/run-bundle.md");
    fs::read_to_string(path).unwrap()
}

/// The text below a heading, up to the next one of any level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("the page has no heading `{heading}`"));
    let body = &page[begin + heading.len() + 2..];
    body.find("\n#").map_or(body, |end| &body[..end])
}

/// Cells of the rows below the first table's rule.
fn rows(section: &str) -> Vec<Vec<&str>> {
    section
        .lines()
        .skip_while(|l| !l.starts_with("|---"))
        .skip(1)
        .take_while(|l| l.starts_with('|'))
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn every_table_is_described_column_by_column() {
    let page = page();
    for (name, doc, schema) in all_schemas() {
        let section = section(&page, &format!("### `{name}`"));
        let about = section.trim().lines().next().unwrap();
        assert_eq!(about, doc.trim(), "what a row of `{name}` is");
        let described: Vec<[String; 3]> = rows(section)
            .iter()
            .map(|cells| [cells[0], cells[1], cells[3]].map(str::to_owned))
            .collect();
        let columns: Vec<[String; 3]> = schema
            .fields()
            .iter()
            .map(|f| {
                let empty = if f.is_nullable() {
                    ", may be empty"
                } else {
                    ""
                };
                [
                    format!("`{}`", f.name()),
                    format!("{}{empty}", f.data_type()),
                    f.metadata()["doc"].clone(),
                ]
            })
            .collect();
        assert_eq!(described, columns, "columns of `{name}`");
    }
}

#[test]
fn no_table_is_described_that_does_not_exist() {
    let page = page();
    let known: Vec<String> = all_schemas()
        .iter()
        .map(|(name, ..)| format!("### `{name}`"))
        .collect();
    let described: Vec<&str> = page.lines().filter(|l| l.starts_with("### `")).collect();
    assert_eq!(described, known);
}

#[test]
fn units_are_given_where_there_are_units() {
    let page = page();
    for (name, _, schema) in all_schemas() {
        for (cells, field) in rows(section(&page, &format!("### `{name}`")))
            .iter()
            .zip(schema.fields())
        {
            let instant = field.name().ends_with("_ns");
            assert_eq!(cells[2] == "ns, clock", instant, "`{name}`.{}", cells[0]);
            assert!(
                ["", "ns", "ns, clock", "bytes"].contains(&cells[2]),
                "`{name}`.{}",
                cells[0]
            );
        }
    }
}

#[test]
fn classes_of_sources_have_the_numbers_and_names_of_the_code() {
    let page = page();
    let described: Vec<[String; 3]> = rows(section(&page, "### Classes of sources"))
        .iter()
        .map(|cells| [cells[0], cells[1], cells[2]].map(str::to_owned))
        .collect();
    let kinds: Vec<[String; 3]> = SourceKind::ALL
        .iter()
        .map(|kind| {
            let json = serde_json::to_string(kind).unwrap();
            [
                kind.code().to_string(),
                json.replace('"', "`"),
                kind.label().to_owned(),
            ]
        })
        .collect();
    assert_eq!(described, kinds);
}

#[test]
fn records_of_the_spill_have_the_numbers_and_lengths_of_the_code() {
    let page = page();
    let described: Vec<[String; 2]> = rows(section(&page, "### Kinds of records"))
        .iter()
        .map(|cells| [cells[0], cells[1]].map(str::to_owned))
        .collect();
    let kinds = [
        RecordKind::Detour,
        RecordKind::Quantum,
        RecordKind::Iteration,
        RecordKind::RankGap,
        RecordKind::MdStep,
        RecordKind::RingState,
        RecordKind::RingRecord,
    ];
    let kinds = kinds.map(|kind| [(kind as u64).to_string(), kind.words().to_string()]);
    assert_eq!(described, kinds);
}

#[test]
fn the_page_names_the_schema_version_it_describes() {
    let version = format!("Schema version {}.", SchemaVersion::CURRENT);
    assert!(page().contains(&version), "{version}");
}

#[test]
fn every_class_is_in_the_glossary() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/glossary.md");
    let glossary = fs::read_to_string(path).unwrap();
    let terms: Vec<String> = rows(&glossary)
        .iter()
        .map(|r| r[0].to_lowercase())
        .collect();
    for kind in SourceKind::ALL {
        let defined = terms
            .iter()
            .any(|t| t == kind.label() || t.contains(&format!("({})", kind.label())));
        assert!(defined, "{}", kind.label());
    }
    assert!(terms.is_sorted(), "terms in order of the alphabet");
}

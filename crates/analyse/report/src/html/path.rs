//! The critical path of a recorded program as one stacked bar, with its table.

use super::markup::{caption, cell, escape, number, section as in_section, table};
use super::sources;
use crate::facts::source_name;
use crate::story;
use idlewave_run::Manifest;
use idlewave_run::findings::{Findings, ProgramFindings};
use idlewave_units::Nanos;
use idlewave_units::show::percent;

/// What the run time is made of; empty if no rank got from MPI_Init to MPI_Finalize.
pub(super) fn section(
    manifest: &Manifest,
    findings: &Findings,
    program: &ProgramFindings,
) -> String {
    let path = &program.path;
    if path.ranks.is_empty() {
        return String::new();
    }
    let total = program.total.as_f64().max(1.0);
    let (mut bar, mut rows) = (String::new(), String::new());
    let mut part = |name: &str, class: &str, field: &str, time: Nanos| {
        let share = time.as_f64() / total;
        let name = escape(name);
        bar += &format!(
            "<i class=\"{class}\" style=\"width:{:.3}%\" title=\"{name}: {}\"></i>",
            100.0 * share,
            percent(share)
        );
        rows += &format!(
            "<tr><th scope=\"row\" data-key=\"{name}\"><i class=\"swatch {class}\"></i> {name}</th>{}{}</tr>\n",
            cell(
                time.get(),
                &number(
                    &format!("program.path.{field}"),
                    time.get(),
                    &time.to_string()
                )
            ),
            cell(share, &percent(share)),
        );
    };
    let computing = story::path_computing(manifest, program);
    part(computing, "t-computing", "computing", path.computing);
    part(
        "communicating",
        "t-communicating",
        "communicating",
        path.communicating,
    );
    for (i, &(source, time)) in path.sources.iter().enumerate() {
        let source = &findings.sources[source as usize];
        let name = source_name(source.kind, &source.name);
        let class = sources::group(source.kind);
        part(&name, class, &format!("sources.{i}.1"), time);
    }
    let header = [
        ("Part", "What the time was spent on"),
        ("Time", "On the critical path"),
        ("Share", "Of the time of the program"),
    ];
    let body = caption(&format!(
        "The way back from the end of the last rank. Where a rank waited, it goes on at the rank that was waited for, so all parts add \
         up to the {} of the program. What happens off this way was waited out and cost nothing; without a source, the program would \
         be shorter by its share here at most. {}",
        program.total,
        escape(&story::path_ranks(program, path)),
    )) + &format!("<div class=\"stack tall-stack\" id=\"path-bar\">{bar}</div>\n")
        + &table("sortable narrow", &header, &rows);
    in_section("path", "What the run time is made of", &body)
}

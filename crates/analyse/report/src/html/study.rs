//! The page of a study that measured placements: the table over ranks, nodes and ranks per node,
//! and measured next to predicted times.

use super::markup::{absent, caption, cell, json, number, section, table as wide_table};
use super::sheet::{alarms, body, estimate, footer, key, list, longer, remarks, text};
use super::{document, placement::SCRIPT, placement_chart as chart};
use crate::placement::{StudyRow, StudySheet};
use idlewave_run::findings::Estimate;
use idlewave_units::counted;
use idlewave_units::show::{self, percent};

/// Renders the page of a placement study: one file that loads nothing. The same sheet gives the
/// same bytes.
///
/// Non-finite numbers are shown as not known.
pub fn study_page(sheet: &StudySheet) -> String {
    let parts = vec![
        ("verdict", "Verdict", verdict(sheet)),
        ("chart", "Times", times(sheet)),
        ("table", "All measurements", table(sheet)),
        (
            "details",
            "Details",
            section("details", "What was measured where", &list(&sheet.details)),
        ),
    ];
    let run = format!("study of placements: {}", text(&sheet.what));
    let said = [
        "Times are measured; predictions are the model's, with the computation that was measured, and are marked as such.",
        "Collective and point-to-point times need not add up to less than the total: each may be that of another rank.",
    ];
    let version = format!("idlewave {}.", sheet.idlewave);
    let body = body(&run, parts) + &footer(&said, &sheet.command, &version);
    // Plain structs of texts, numbers and lists always encode as JSON.
    let data = json(sheet).expect("every field has a form in JSON");
    document("a study of placements", &body, &data, "", &SCRIPT)
}

/// Error of a prediction as a share of the measurement.
fn off(row: &StudyRow) -> Option<f64> {
    let predicted = row.predicted.as_ref()?;
    let off = predicted.value / row.total.value - 1.0;
    off.is_finite().then_some(off)
}

/// The rank counts, each once, ascending.
fn ranks(sheet: &StudySheet) -> Vec<u32> {
    let all: std::collections::BTreeSet<u32> = sheet.rows.iter().map(|r| r.ranks).collect();
    all.into_iter().collect()
}

fn verdict(sheet: &StudySheet) -> String {
    let mut body = alarms(&sheet.warnings);
    body.push_str(&format!("<p class=\"note\">{}</p>\n", text(&sheet.what)));
    if sheet.rows.is_empty() {
        body.push_str(&absent("Nothing was measured."));
        return section("verdict", "Verdict", &body);
    }
    body.push_str("<div class=\"words\">\n");
    for p in ranks(sheet) {
        let of = || {
            sheet
                .rows
                .iter()
                .enumerate()
                .filter(move |(_, r)| r.ranks == p)
        };
        let Some((i, best)) = of().find(|(_, r)| r.is_minimum) else {
            continue;
        };
        let layouts = of().count();
        let worst = of()
            .map(|(_, r)| r.total.value / best.total.value)
            .filter(|v| v.is_finite());
        let worst = worst.fold(1.0, f64::max);
        let path = |field: &str| format!("rows.{i}.{field}");
        body.push_str(&format!(
            "<p>{p} {} on {} node{} with {} on each: {}. {}</p>\n",
            if layouts == 1 { "ran" } else { "are fastest" },
            number(&path("nodes"), best.nodes, &best.nodes.to_string()),
            if best.nodes == 1 { "" } else { "s" },
            number(
                &path("ranks_per_node"),
                best.ranks_per_node,
                &best.ranks_per_node.to_string()
            ),
            super::sheet::value(&path("total.value"), best.total.value, show::seconds),
            match layouts {
                1 => "No other layout was measured.".to_owned(),
                _ => format!("The slowest of {layouts} layouts takes {}.", longer(worst)),
            },
            p = counted(p, "rank")
        ));
    }
    let offs: Vec<f64> = sheet.rows.iter().filter_map(off).map(f64::abs).collect();
    if !offs.is_empty() {
        let mean = offs.iter().sum::<f64>() / offs.len() as f64;
        let most = offs.iter().copied().fold(0.0, f64::max);
        body.push_str(&format!(
            "<p>Predictions of {} of {} layouts are off by {} on average, and by {} at most.</p>\n",
            offs.len(),
            sheet.rows.len(),
            percent(mean),
            percent(most)
        ));
    }
    body.push_str("</div>\n");
    body.push_str(&remarks("Left out", &sheet.notes));
    section("verdict", "Verdict", &body)
}

fn times(sheet: &StudySheet) -> String {
    let title = "Measured and predicted";
    if sheet.rows.is_empty() {
        return section("chart", title, &absent("Nothing was measured."));
    }
    let body = caption("Layouts of as many ranks stand together; whiskers are the intervals.")
        + &chart::measured(&sheet.rows);
    section("chart", title, &body)
}

fn table(sheet: &StudySheet) -> String {
    if sheet.rows.is_empty() {
        return section(
            "table",
            "All measurements",
            &absent("Nothing was measured."),
        );
    }
    let rows: String = sheet.rows.iter().enumerate().map(row).collect();
    let header = [
        ("Ranks", "Number of ranks"),
        ("Nodes", "Number of nodes"),
        ("Per node", "Ranks on each node but the last ones"),
        ("Total", "Run time with its interval"),
        ("Collective", "Time in collective operations"),
        ("Point to point", "Time in point-to-point operations"),
        ("Predicted", "Run time as it was predicted before"),
        ("Off by", "Predicted over measured, less 1"),
    ];
    let class = if sheet.rows.len() > 24 {
        "sortable tall"
    } else {
        "sortable"
    };
    section(
        "table",
        "All measurements",
        &wide_table(class, &header, &rows),
    )
}

fn row((i, row): (usize, &StudyRow)) -> String {
    let path = |field: &str| format!("rows.{i}.{field}");
    let whole = |field: &str, v: u32| cell(v, &number(&path(field), v, &v.to_string()));
    let time = |field: &str, e: Option<&Estimate>| match e {
        Some(e) => cell(key(e.value), &estimate(&path(field), e, show::seconds)),
        None => cell(-1, "&ndash;"),
    };
    let (class, mark) = match row.is_minimum {
        true => (" class=\"chosen\"", " <em>fastest</em>"),
        false => ("", ""),
    };
    let off = off(row).map_or_else(|| cell(-1, "&ndash;"), |off| cell(off, &percent(off)));
    format!(
        "<tr{class}><th scope=\"row\" data-key=\"{}\">{}{mark}</th>{}{}{}{}{}{}{off}</tr>\n",
        row.ranks,
        number(&path("ranks"), row.ranks, &row.ranks.to_string()),
        whole("nodes", row.nodes),
        whole("ranks_per_node", row.ranks_per_node),
        time("total", Some(&row.total)),
        time("collective", row.collective.as_ref()),
        time("point_to_point", row.point_to_point.as_ref()),
        time("predicted", row.predicted.as_ref()),
    )
}

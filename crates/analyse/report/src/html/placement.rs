//! The page of a placement: which to take and why, the table over ranks per node, what the time
//! consists of, the loads of nodes and links, and the files that apply it.

use super::markup::{absent, caption, cell, escape, json, number, section, table as wide_table};
use super::sheet::{alarms, body, estimate, footer, key, list, longer, remarks, text, tile, value};
use super::{document, loads, placement_chart as chart};
use crate::placement::{MemoryFit, PlacementRow, PlacementSheet};
use idlewave_units::show::{self, percent};

pub(super) const SCRIPT: [&str; 3] = [
    include_str!("../../assets/page.js"),
    include_str!("../../assets/placement.js"),
    include_str!("../../assets/start_placement.js"),
];

/// Most node names in the verdict.
const MOST_NAMES: usize = 16;

/// Renders the page of a placement: one file that loads nothing. The same sheet gives the same
/// bytes.
///
/// Non-finite numbers are shown as not known. If the sheet has no rows, or its best row does not
/// exist, the page says that there is no answer.
pub fn placement_page(sheet: &PlacementSheet) -> String {
    let parts = vec![
        ("verdict", "Verdict", verdict(sheet)),
        ("time", "Time", time(sheet)),
        ("table", "All placements", table(sheet)),
        ("loads", "Loads", picture(sheet)),
        ("files", "Files", files(sheet)),
        ("model", "Not modelled", not_modelled(sheet)),
        ("details", "Details", details(sheet)),
    ];
    let run = format!("placement: {}", text(&sheet.what));
    let said = [
        "Every time on this page is predicted by a model; nothing was run.",
        "Placements whose difference to the best is not significant are as good as it.",
        "The same command gives the same numbers.",
    ];
    let version = format!("idlewave {}, seed {}.", sheet.idlewave, sheet.seed);
    let body = body(&run, parts) + &footer(&said, &sheet.command, &version);
    // Plain structs of texts, numbers and lists always encode as JSON.
    let data = json(sheet).expect("every field has a form in JSON");
    document("a placement", &body, &data, "", &SCRIPT)
}

/// "2 processes on each of 8 nodes", with the paths of the numbers.
fn layout(sheet: &PlacementSheet, i: usize, row: &PlacementRow) -> String {
    let ranks = sheet
        .chosen
        .as_ref()
        .map(|c| c.nodes.iter().map(|n| n.ranks.len() as u64).sum());
    let slots = u64::from(row.ranks_per_node) * u64::from(row.nodes);
    let most = match ranks {
        Some(ranks) if slots > ranks => "up to ",
        _ => "",
    };
    let path = |field: &str| format!("rows.{i}.{field}");
    let k = number(
        &path("ranks_per_node"),
        row.ranks_per_node,
        &row.ranks_per_node.to_string(),
    );
    let n = number(&path("nodes"), row.nodes, &row.nodes.to_string());
    let process = if row.ranks_per_node == 1 {
        "process"
    } else {
        "processes"
    };
    match row.nodes {
        1 => format!("{most}{k} {process} on {n} node"),
        _ => format!("{most}{k} {process} on each of {n} nodes"),
    }
}

fn verdict(sheet: &PlacementSheet) -> String {
    let mut body = String::new();
    let Some(best) = sheet.rows.get(sheet.best) else {
        body.push_str(&alarms(&sheet.warnings));
        body.push_str(&absent("There is no answer: no placement was found."));
        return section("verdict", "Verdict", &body);
    };
    let i = sheet.best;
    let path = |field: &str| format!("rows.{i}.{field}");
    let of = |field: &str, v: f64| value(&path(&format!("seconds.{field}")), v, show::seconds);
    let time = &best.seconds;
    body.push_str(&format!(
        "<p class=\"headline\">{} {}: {} ({} to {}), limited by {}{}.</p>\n",
        match best.memory {
            MemoryFit::Exceeds => "No placement fits into memory; the fastest that does not:",
            MemoryFit::Fits | MemoryFit::Unknown => "Take",
        },
        layout(sheet, i, best),
        of("value", time.value),
        of("low", time.low),
        of("high", time.high),
        text(&best.limit),
        against(sheet, best),
    ));
    body.push_str(&format!(
        "<p class=\"note\">{} on {}; {}.{}</p>\n",
        text(&sheet.what),
        text(&sheet.network),
        text(&best.how),
        names(sheet)
    ));
    body.push_str("<div class=\"tiles\">\n");
    body.push_str(&tile(
        "Predicted time",
        &of("value", time.value),
        &format!("{} to {}", of("low", time.low), of("high", time.high)),
    ));
    if let Some((b, base)) = baseline(sheet) {
        let path = format!("rows.{b}.seconds.value");
        let sub = format!("by default: {}", layout(sheet, b, base));
        body.push_str(&tile(
            "Default",
            &value(&path, base.seconds.value, show::seconds),
            &sub,
        ));
    }
    body.push_str(&tile(
        "Limit",
        &value(&path("limit_share"), best.limit_share, percent),
        &format!("of the critical path: {}", text(&best.limit)),
    ));
    body.push_str(&tile(
        "Node-seconds",
        &value(&path("node_seconds"), best.node_seconds, show::digits),
        &cheapest(sheet, best),
    ));
    body.push_str(&tile(
        "Cannot be below",
        &value(
            &path("lower_bound_seconds"),
            best.lower_bound_seconds,
            show::seconds,
        ),
        "with as many processes per node, whatever the nodes and the order",
    ));
    body.push_str("</div>\n");
    body.push_str(&alarms(&sheet.warnings));
    if !sheet.files.is_empty() && best.memory != MemoryFit::Exceeds {
        let names: Vec<String> = sheet.files.iter().map(|f| text(&f.name)).collect();
        body.push_str(&format!(
            "<p>To run it so: <a href=\"#files\">{}</a>.</p>\n",
            names.join(", ")
        ));
    }
    body.push_str(&remarks("Assumed or left out", &sheet.assumed));
    section("verdict", "Verdict", &body)
}

fn baseline(sheet: &PlacementSheet) -> Option<(usize, &PlacementRow)> {
    let b = sheet.baseline?;
    sheet.rows.get(b).map(|row| (b, row))
}

/// What the best placement gains over the default, to end a sentence.
fn against(sheet: &PlacementSheet, best: &PlacementRow) -> String {
    let Some((b, base)) = baseline(sheet) else {
        return String::new();
    };
    let ratio = base.seconds.value / best.seconds.value;
    if b == sheet.best {
        return "; this is the default".to_owned();
    }
    match base.same_as_best {
        true => "; the default is not significantly slower".to_owned(),
        false if ratio.is_finite() => format!("; the default takes {}", longer(ratio)),
        false => String::new(),
    }
}

/// The nodes to take, by name.
fn names(sheet: &PlacementSheet) -> String {
    let Some(chosen) = &sheet.chosen else {
        return String::new();
    };
    let shown: Vec<String> = chosen
        .nodes
        .iter()
        .take(MOST_NAMES)
        .map(|n| text(&n.name))
        .collect();
    let more = chosen.nodes.len().saturating_sub(MOST_NAMES);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(" The nodes: {}{more}.", shown.join(", "))
}

/// Whether another placement costs less of the budget.
fn cheapest(sheet: &PlacementSheet, best: &PlacementRow) -> String {
    let rows = sheet
        .rows
        .iter()
        .filter(|r| r.node_seconds.is_finite() && r.memory != MemoryFit::Exceeds);
    match rows.min_by(|a, b| a.node_seconds.total_cmp(&b.node_seconds)) {
        Some(row) if row.node_seconds < best.node_seconds => format!(
            "time times nodes; {} per node cost least: {}",
            row.ranks_per_node,
            show::digits(row.node_seconds)
        ),
        _ if best.memory == MemoryFit::Exceeds => "time times nodes".to_owned(),
        _ => "time times nodes; no other placement costs less".to_owned(),
    }
}

fn time(sheet: &PlacementSheet) -> String {
    let title = "Time against processes per node";
    if sheet.rows.is_empty() {
        return section("time", title, &absent("No placement was considered."));
    }
    let body = caption(
        "Each bar is a placement, its colours what the time is made of, its whisker the interval. The dashes are the lower bound. \
         The table says which of them cannot be told from the best.",
    ) + &chart::times(&sheet.rows, sheet.best, sheet.baseline);
    section("time", title, &body)
}

fn table(sheet: &PlacementSheet) -> String {
    if sheet.rows.is_empty() {
        return section(
            "table",
            "All placements",
            &absent("No placement was considered."),
        );
    }
    let rows: String = sheet
        .rows
        .iter()
        .enumerate()
        .map(|(i, r)| row(sheet, i, r))
        .collect();
    let header = [
        (
            "Per node",
            "Most processes on a node, which nodes, and in which order the ranks go over them",
        ),
        ("Nodes", "Number of nodes"),
        ("Time", "Predicted run time with its interval"),
        (
            "Against best",
            "Whether the difference to the best is significant",
        ),
        (
            "Node-seconds",
            "Time times nodes: what the budget is charged",
        ),
        ("Limited by", "What takes most of the critical path"),
        ("Memory", "Whether the program fits into the nodes' memory"),
        (
            "Quick bound",
            "Bytes over capacity of the busiest resource, and computation",
        ),
        (
            "Lower bound",
            "No placement with as many processes per node is faster",
        ),
    ];
    let class = if sheet.rows.len() > 24 {
        "sortable tall"
    } else {
        "sortable"
    };
    let body = wide_table(class, &header, &rows);
    section("table", "All placements", &body)
}

fn row(sheet: &PlacementSheet, i: usize, row: &PlacementRow) -> String {
    let path = |field: &str| format!("rows.{i}.{field}");
    let mark = match (i == sheet.best, sheet.baseline == Some(i)) {
        (true, true) => " <em>best, default</em>",
        (true, false) => " <em>best</em>",
        (false, true) => " <em>default</em>",
        _ => "",
    };
    let against = match (i == sheet.best, row.same_as_best) {
        (true, _) => "&ndash;".to_owned(),
        (_, true) => "no significant difference".to_owned(),
        _ => match sheet.rows.get(sheet.best) {
            Some(best) if best.seconds.value > 0.0 => {
                let ratio = row.seconds.value / best.seconds.value;
                if ratio.is_finite() {
                    longer(ratio)
                } else {
                    "&ndash;".to_owned()
                }
            }
            _ => "&ndash;".to_owned(),
        },
    };
    let memory = match row.memory {
        MemoryFit::Fits => "fits",
        MemoryFit::Exceeds => "<strong>does not fit</strong>",
        MemoryFit::Unknown => "<span class=\"unknown\">not known</span>",
    };
    let limit = format!(
        "{}<small>{} of the critical path</small>",
        text(&row.limit),
        value(&path("limit_share"), row.limit_share, percent)
    );
    let class = if i == sheet.best {
        " class=\"chosen\""
    } else {
        ""
    };
    let k = row.ranks_per_node;
    format!(
        "<tr{class}><th scope=\"row\" data-key=\"{k}\">{}{mark}<small>{}</small></th>{}{}{}{}{}{}{}{}</tr>\n",
        number(&path("ranks_per_node"), k, &k.to_string()),
        text(&row.how),
        cell(
            row.nodes,
            &number(&path("nodes"), row.nodes, &row.nodes.to_string())
        ),
        cell(
            key(row.seconds.value),
            &estimate(&path("seconds"), &row.seconds, show::seconds)
        ),
        words(key(row.seconds.value), &against),
        cell(
            key(row.node_seconds),
            &value(&path("node_seconds"), row.node_seconds, show::digits)
        ),
        words(text(&row.limit), &limit),
        words(memory_key(row.memory), memory),
        cell(
            key(row.bound_seconds),
            &value(&path("bound_seconds"), row.bound_seconds, show::seconds)
        ),
        cell(
            key(row.lower_bound_seconds),
            &value(
                &path("lower_bound_seconds"),
                row.lower_bound_seconds,
                show::seconds
            )
        ),
    )
}

fn memory_key(fit: MemoryFit) -> u32 {
    match fit {
        MemoryFit::Fits => 0,
        MemoryFit::Unknown => 1,
        MemoryFit::Exceeds => 2,
    }
}

/// A cell with text.
fn words(key: impl std::fmt::Display, content: &str) -> String {
    format!("<td class=\"text\" data-key=\"{key}\">{content}</td>")
}

fn picture(sheet: &PlacementSheet) -> String {
    let title = "Loads of nodes and links";
    let pictures = [
        ("The placement to take", &sheet.chosen),
        ("By default", &sheet.baseline_loads),
    ];
    if pictures.iter().all(|(_, p)| p.is_none()) {
        return section("loads", title, &absent("The loads were not computed."));
    }
    let mut body = caption(
        "The stronger the colour, the longer in full use: the upper half of a box is the node's adapter outwards, the lower half inwards, the strip \
         below it its memory. Lines are the links between switches, one for each direction. Point at anything for its numbers.",
    );
    if pictures
        .iter()
        .any(|(_, p)| p.as_ref().is_some_and(super::loads_grid::has))
    {
        body.push_str(&caption(
            "Each box is a switch with its nodes, at its place in the torus, mesh or dragonfly; further dimensions are further planes. The mark in a \
             corner has the links to switches that are not beside it in the picture: round the end, to another plane, or to another group.",
        ));
    }
    body.push_str(&loads::legend());
    for (name, picture) in pictures {
        if let Some(picture) = picture {
            body.push_str(&format!(
                "<h3>{name}</h3>\n{}",
                loads::picture(picture, name)
            ));
        }
    }
    section("loads", title, &body)
}

fn files(sheet: &PlacementSheet) -> String {
    let title = "Files for the batch system";
    if sheet.files.is_empty() {
        return section("files", title, &absent("No file was asked for."));
    }
    let file = |file: &crate::placement::PlacementFile| {
        // Escape line by line, so that line breaks survive.
        let lines: Vec<String> = file.content.lines().map(escape).collect();
        format!(
            "<div class=\"file\"><div class=\"tools\"><h3>{}</h3><button type=\"button\" data-copy>Copy</button></div>\
             <pre tabindex=\"0\"><code>{}</code></pre></div>\n",
            text(&file.name),
            lines.join("\n")
        )
    };
    let blocks: String = sheet.files.iter().map(file).collect();
    section("files", title, &blocks)
}

fn not_modelled(sheet: &PlacementSheet) -> String {
    let title = "What is not modelled";
    let body = match sheet.not_modelled.is_empty() {
        true => absent("Nothing was named."),
        false => {
            caption("Where one of these matters, the machine is slower than this page says.")
                + &list(&sheet.not_modelled)
        }
    };
    section("model", title, &body)
}

fn details(sheet: &PlacementSheet) -> String {
    let mut lines = vec![sheet.what.clone(), sheet.network.clone()];
    lines.extend(sheet.details.iter().cloned());
    section("details", "What was placed where", &list(&lines))
}

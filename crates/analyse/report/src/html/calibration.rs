//! The page of a calibration: bandwidth over message length for each number of pairs, all-to-all
//! over ranks per node, and the parameters.

use super::document;
use super::markup::table as wide_table;
use super::markup::{absent, caption, cell, escape, json, number, section};
use super::sheet::{alarms, remarks};
use crate::calibration::{CalibratedParameter, CalibrationSheet, ParameterUnit};
use crate::number::plain;
use idlewave_run::findings::Estimate;
use idlewave_units::foreign::shell_line;
use idlewave_units::show::{self, percent};
use idlewave_units::{BytesPerSecond, counted};

const SCRIPT: [&str; 5] = [
    include_str!("../../assets/vendor/uPlot.iife.min.js"),
    include_str!("../../assets/page.js"),
    include_str!("../../assets/lines.js"),
    include_str!("../../assets/calibration.js"),
    include_str!("../../assets/start_calibration.js"),
];

/// Renders the page of a calibration: one file that loads nothing. The same sheet gives the same
/// bytes.
///
/// Non-finite numbers are shown as not known.
pub fn calibration_page(sheet: &CalibrationSheet) -> String {
    let sections = [
        ("verdict", "Verdict", verdict(sheet)),
        ("bandwidth", "Bandwidth", bandwidth(sheet)),
        ("alltoall", "All-to-all", all_to_all(sheet)),
        ("pingpong", "One message", ping_pong(sheet)),
        ("memory", "Memory", memory(sheet)),
        ("parameters", "Parameters", parameters(sheet)),
        ("table", "All numbers", numbers(sheet)),
        ("measured", "Measurement", details(sheet)),
    ];
    let links: String = sections
        .iter()
        .map(|(id, name, _)| format!("<a href=\"#{id}\">{name}</a>"))
        .collect();
    let mut body = format!(
        "<header class=\"top\"><div class=\"bar\"><span class=\"brand\">idlewave</span>\
         <span class=\"run\">calibrated: {}</span>\
         <button id=\"theme\" type=\"button\" aria-label=\"Switch between dark and light\">Dark</button></div>\
         <nav aria-label=\"Sections\">{links}</nav></header>\n<main>\n",
        text(&sheet.what),
    );
    body.extend(sections.into_iter().map(|s| s.2));
    let command = shell_line(&sheet.command);
    body.push_str(&format!(
        "</main>\n<footer>\n<h2>For those who repeat or cite this</h2>\n<ul>\n\
         <li>Times are medians over rounds; intervals of 95 % are from drawing whole rounds anew.</li>\n\
         <li>The model knows what is shared, not how: congestion trees, incast and adaptive routing are not in it.</li>\n\
         </ul>\n<p><code>{}</code></p>\n<p>idlewave {}, seed {}.</p>\n</footer>\n",
        escape(&command),
        escape(&sheet.idlewave),
        sheet.seed
    ));
    // Plain structs of texts, numbers and lists always encode as JSON.
    let data = json(sheet).expect("every field has a form in JSON");
    document("a calibration", &body, &data, "", &SCRIPT)
}

fn text(foreign: &str) -> String {
    escape(&plain(foreign))
}

/// Bytes of a message.
fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 1_048_576.0 => format!("{} MiB", show::digits(b / 1_048_576.0)),
        b if b >= 1_024.0 => format!("{} KiB", show::digits(b / 1_024.0)),
        b => format!("{b:.0} B"),
    }
}

/// A finite number with its path in the sheet, or a dash.
fn value(path: &str, value: f64, shown: fn(f64) -> String) -> String {
    match value.is_finite() {
        true => number(path, value, &shown(value)),
        false => "&ndash;".to_owned(),
    }
}

fn estimate(path: &str, e: &Estimate, shown: fn(f64) -> String) -> String {
    let of = |field: &str, v| value(&format!("{path}.{field}"), v, shown);
    format!(
        "{} <small>{} to {}</small>",
        of("value", e.value),
        of("low", e.low),
        of("high", e.high)
    )
}

fn verdict(sheet: &CalibrationSheet) -> String {
    let tile = |title: &str, big: &str, sub: &str| {
        format!(
            "<div class=\"tile\"><h3>{title}</h3><p class=\"big\">{big}</p><p>{sub}</p></div>\n"
        )
    };
    let mut body = String::from("<div class=\"tiles\">\n");
    // This curve shows whether pairs share a node's link.
    let between = |(_, s): &(usize, &crate::calibration::StreamPoint)| {
        s.way == "between nodes" && !s.both_ways
    };
    let long: Vec<_> = sheet.streams.iter().enumerate().filter(between).collect();
    let longest = long.iter().map(|(_, s)| s.bytes).max();
    let mut long: Vec<_> = long
        .into_iter()
        .filter(|(_, s)| Some(s.bytes) == longest)
        .collect();
    long.sort_by_key(|(_, s)| s.pairs);
    if let (Some((i, one)), Some((j, most))) = (long.first(), long.last()) {
        let path = |i: usize| format!("streams.{i}.per_pair.value");
        body.push_str(&tile(
            "One pair alone",
            &value(&path(*i), one.per_pair.value, BytesPerSecond::scaled_text),
            "between two nodes, one way",
        ));
        body.push_str(&tile(
            &format!("Each of {}", counted(most.pairs, "pair")),
            &value(&path(*j), most.per_pair.value, BytesPerSecond::scaled_text),
            &format!(
                "{} of what a single one gets",
                percent(most.per_pair.value / one.per_pair.value)
            ),
        ));
    }
    if let Some(misfit) = &sheet.misfit {
        body.push_str(&tile(
            "The model is off by",
            &value("misfit.value", misfit.value, percent),
            &format!("typically: long messages {}", misfit.of),
        ));
    }
    body.push_str("</div>\n");
    body.push_str(&alarms(&sheet.warnings));
    body.push_str("<p>To place a program with these numbers: <code>idlewave place --network FILE</code>, with the file of <code>-o</code>.</p>\n");
    body.push_str(&remarks("Left out", &sheet.notes));
    section("verdict", "Verdict", &body)
}

fn bandwidth(sheet: &CalibrationSheet) -> String {
    let title = "Bandwidth of pairs that share a link";
    if sheet.streams.is_empty() {
        return section("bandwidth", title, &absent("No pairs were measured."));
    }
    let body = caption(
        "Of each pair in one direction, against the length of its messages, for each number of pairs at the same time. Bands are the \
         intervals. Curves that lie apart share something; those that lie on each other do not. Choose where, and in how many directions.",
    ) + "<div class=\"figure\"><div class=\"tools\"><select id=\"bandwidth-way\" aria-label=\"Where\"></select></div>\
         <div class=\"chart\" id=\"chart-bandwidth\"></div></div>\n";
    section("bandwidth", title, &body)
}

fn all_to_all(sheet: &CalibrationSheet) -> String {
    let title = "All-to-all against ranks per node";
    if sheet.all_to_all.is_empty() {
        return section("alltoall", title, &absent("No all-to-all was measured."));
    }
    let body = caption(
        "Time of one call with so many ranks on every node. Dashes are the model: with k ranks per node k x k messages leave each node for \
         each other one, so that the time rises with the square of k where the adapter is the limit.",
    ) + "<div class=\"figure\"><div class=\"chart\" id=\"chart-alltoall\"></div></div>\n";
    section("alltoall", title, &body)
}

fn ping_pong(sheet: &CalibrationSheet) -> String {
    let title = "One message alone";
    if sheet.ping_pongs.is_empty() {
        return section("pingpong", title, &absent("No ping-pong was measured."));
    }
    let body = caption(
        "Half a round trip against the length of the message. Dashes are the model: latency, overhead, and the bandwidth of one message.",
    ) + "<div class=\"figure\"><div class=\"chart\" id=\"chart-pingpong\"></div></div>\n";
    section("pingpong", title, &body)
}

fn memory(sheet: &CalibrationSheet) -> String {
    let title = "Computation that shares memory";
    if sheet.slow_down.is_empty() {
        return section("memory", title, &absent("It was not measured."));
    }
    let first = sheet.slow_down.iter().find(|p| p.ranks == 1);
    let row = |(i, p): (usize, &crate::calibration::SlowDownPoint)| {
        let factor = first.map(|f| p.time_ns.value / f.time_ns.value);
        let note = if p.shared_cpus {
            "ranks waited for CPUs"
        } else {
            ""
        };
        format!(
            "<tr><th scope=\"row\" data-key=\"{}\">{}</th>{}{}<td class=\"text\">{note}</td></tr>\n",
            p.ranks,
            number(
                &format!("slow_down.{i}.ranks"),
                p.ranks,
                &p.ranks.to_string()
            ),
            cell(
                p.time_ns.value,
                &estimate(&format!("slow_down.{i}.time_ns"), &p.time_ns, show::time)
            ),
            cell(
                factor.unwrap_or(0.0),
                &factor.map_or("&ndash;".to_owned(), show::factor)
            ),
        )
    };
    let rows: String = sheet.slow_down.iter().enumerate().map(row).collect();
    let body = caption(
        "Every rank streams through arrays of its own that no cache holds. A factor that rises says how much longer computation takes \
         where more ranks of a job share a node.",
    ) + &wide_table(
        "sortable",
        &[
            ("Ranks", "Ranks of one node at the same time"),
            ("One pass", "Of the slowest rank"),
            ("Factor", "Over the time of one rank"),
            ("", ""),
        ],
        &rows,
    );
    section("memory", title, &body)
}

fn parameters(sheet: &CalibrationSheet) -> String {
    let row = |(i, p): (usize, &CalibratedParameter)| {
        let shown: fn(f64) -> String = match p.unit {
            ParameterUnit::Nanoseconds => show::time,
            ParameterUnit::BytesPerSecond => BytesPerSecond::scaled_text,
            ParameterUnit::Bytes => size,
            ParameterUnit::Factor => show::factor,
        };
        let origin = if p.assumed { "assumed" } else { "measured" };
        format!(
            "<tr><th scope=\"row\">{}</th>{}<td class=\"text\">{origin}</td></tr>\n",
            text(&p.name),
            cell(
                p.value.value,
                &estimate(&format!("parameters.{i}.value"), &p.value, shown)
            ),
        )
    };
    let rows: String = sheet.parameters.iter().enumerate().map(row).collect();
    let body = wide_table(
        "sortable",
        &[
            ("Parameter", "As in the file"),
            ("Value", "With its interval"),
            ("Origin", "Measured, or assumed because nothing told it"),
        ],
        &rows,
    );
    section("parameters", "Parameters", &body)
}

fn numbers(sheet: &CalibrationSheet) -> String {
    let model = |path: &str, v: Option<f64>, shown: fn(f64) -> String| {
        let known = v.filter(|v| v.is_finite());
        cell(
            known.unwrap_or(0.0),
            &known.map_or("&ndash;".to_owned(), |v| value(path, v, shown)),
        )
    };
    let mut rows = String::new();
    let mut put = |name: String, measured: String, key: f64, model: String| {
        rows.push_str(&format!(
            "<tr><th scope=\"row\">{}</th>{}{model}</tr>\n",
            text(&name),
            cell(key, &measured)
        ));
    };
    for (i, p) in sheet.streams.iter().enumerate() {
        let ways = if p.both_ways { "both ways" } else { "one way" };
        let name = format!("{} x {} {ways}, {}", p.pairs, size(p.bytes as f64), p.way);
        let path = format!("streams.{i}");
        put(
            name,
            estimate(
                &format!("{path}.per_pair"),
                &p.per_pair,
                BytesPerSecond::scaled_text,
            ),
            p.per_pair.value,
            model(
                &format!("{path}.model_per_pair"),
                p.model_per_pair,
                BytesPerSecond::scaled_text,
            ),
        );
    }
    for (i, p) in sheet.all_to_all.iter().enumerate() {
        let name = format!(
            "all-to-all, {} x {}, {}",
            p.nodes,
            counted(p.per_node, "rank"),
            size(p.bytes as f64)
        );
        let path = format!("all_to_all.{i}");
        put(
            name,
            estimate(&format!("{path}.time_ns"), &p.time_ns, show::time),
            p.time_ns.value,
            model(&format!("{path}.model_ns"), p.model_ns, show::time),
        );
    }
    for (i, p) in sheet.ping_pongs.iter().enumerate() {
        let name = format!("ping-pong, {}, {}", size(p.bytes as f64), p.way);
        let path = format!("ping_pongs.{i}");
        put(
            name,
            estimate(&format!("{path}.time_ns"), &p.time_ns, show::time),
            p.time_ns.value,
            model(&format!("{path}.model_ns"), p.model_ns, show::time),
        );
    }
    let body = wide_table(
        "tall",
        &[
            ("Point", "Pairs or ranks, length of the messages, where"),
            (
                "Measured",
                "Of each pair, or of one call; with its interval",
            ),
            ("Model", "What the parameters give for it"),
        ],
        &rows,
    );
    section("table", "All numbers", &body)
}

fn details(sheet: &CalibrationSheet) -> String {
    let items: String = sheet
        .details
        .iter()
        .map(|line| format!("<li>{}</li>\n", text(line)))
        .collect();
    section(
        "measured",
        "How it was measured",
        &format!("<ul class=\"entries\">\n{items}</ul>\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::calibration_sheet;

    #[test]
    fn the_same_sheet_gives_the_same_page_with_all_its_numbers() {
        let sheet = calibration_sheet(4);
        let page = calibration_page(&sheet);
        assert_eq!(page, calibration_page(&sheet));
        for shown in ["One pair alone", "12 MB/s", "Each of 4 pairs", "25.0 %"] {
            assert!(page.contains(shown), "{shown}");
        }
        for (i, point) in sheet.streams.iter().enumerate() {
            let exact = format!(
                "data-path=\"streams.{i}.per_pair.value\" value=\"{}\"",
                point.per_pair.value
            );
            assert!(page.contains(&exact), "{exact}");
        }
    }

    #[test]
    fn what_makes_parameters_doubtful_is_an_alarm_and_what_was_left_out_is_none() {
        let mut sheet = calibration_sheet(2);
        sheet.warnings = vec!["the model does not explain <everything>".to_owned()];
        sheet.notes = vec!["ping-pong ends before 4 MiB".to_owned()];
        let page = calibration_page(&sheet);
        assert_eq!(page.matches("role=\"alert\"").count(), 1);
        assert!(page.contains("role=\"alert\">the model does not explain &lt;everything&gt;</p>"));
        assert!(page.contains("<li>ping-pong ends before 4 MiB</li>"));
    }

    #[test]
    fn a_sheet_without_points_says_what_is_missing() {
        let mut sheet = calibration_sheet(1);
        sheet.streams.clear();
        sheet.all_to_all.clear();
        sheet.ping_pongs.clear();
        sheet.slow_down.clear();
        let page = calibration_page(&sheet);
        assert_eq!(page.matches("class=\"absent\"").count(), 4);
    }
}

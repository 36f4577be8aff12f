//! The page of a gang-switching study: what each case cost the programs, and where switches spend
//! their time.

use super::markup::{caption, cell, json, number, section, table as wide_table};
use super::sheet::{alarms, body, footer, list, text, tile};
use super::{document, placement::SCRIPT};
use crate::gang::{GangContexts, GangNumber, GangRow, GangSheet, GangSwitches, GangTable};
use idlewave_units::show;

/// Widths of the labels and of one bar.
const LEFT: f64 = 330.0;
const STEP: f64 = 30.0;
const WIDTH: f64 = 1040.0;
const TOP: f64 = 26.0;
const BAR: f64 = 20.0;

/// Renders the page of a gang-switching study: one file that loads nothing. The same sheet gives
/// the same bytes.
pub fn gang_page(sheet: &GangSheet) -> String {
    let mut parts = vec![("verdict", "Verdict", verdict(sheet))];
    parts.push(("compared", "Compared", compared(sheet)));
    parts.push(("switches", "Switches", switches(sheet)));
    parts.push(("contexts", "Contexts", contexts(sheet)));
    parts.push((
        "details",
        "Details",
        section("details", "What was measured", &list(&sheet.details)),
    ));
    let run = format!("study of gang switching: {}", text(&sheet.machine));
    let said = [
        "Times are measured inside the programs, from the first step of the first rank to the last step of the last; cases run in turns, and each is compared with the programs alone in the same repeat.",
        "Numbers and bars are medians over the repeats, with their 95 % intervals; with fewer than 6 repeats, and for programs that arrive, from the least to the most.",
    ];
    let version = format!("idlewave {}.", sheet.idlewave);
    let body = body(&run, parts) + &footer(&said, &sheet.command, &version);
    // Plain structs of texts, numbers and lists always encode as JSON.
    let data = json(sheet).expect("every field has a form in JSON");
    document("a study of gang switching", &body, &data, "", &SCRIPT)
}

fn verdict(sheet: &GangSheet) -> String {
    let mut tiles = String::new();
    for (t, table) in sheet.tables.iter().enumerate() {
        let best = |switched: bool| {
            let rows = table
                .rows
                .iter()
                .enumerate()
                .filter(|(_, row)| row.switched == switched);
            rows.min_by(|a, b| a.1.ratio.median.total_cmp(&b.1.ratio.median))
        };
        let Some((at, row)) = best(true) else {
            continue;
        };
        let big = number(
            &format!("tables.{t}.rows.{at}.ratio.median"),
            row.ratio.median,
            &show::factor(row.ratio.median),
        );
        let against = match best(false) {
            Some((_, other)) => format!(
                "{}; best without: {}",
                text(&row.label),
                show::factor(other.ratio.median)
            ),
            None => text(&row.label),
        };
        tiles.push_str(&tile(&text(&table.name), &big, &against));
    }
    let body = format!(
        "{}<div class=\"tiles\">\n{tiles}</div>\n",
        alarms(&sheet.warnings)
    );
    section("verdict", "Verdict", &body)
}

/// A cell that names its row.
fn named(label: &str) -> String {
    let label = text(label);
    format!("<td class=\"text\" data-key=\"{label}\">{label}</td>")
}

fn compared(sheet: &GangSheet) -> String {
    let mut content = String::new();
    for (t, table) in sheet.tables.iter().enumerate() {
        content.push_str(&format!("<h3>{}</h3>\n", text(&table.name)));
        content.push_str(&chart(t, table));
        content.push_str(&caption(&format!(
            "{}. 1 is as long; gang switching is coloured, what it is compared with is grey.",
            text(&table.ratio)
        )));
        content.push_str(&rows(t, table));
    }
    let alone: String = sheet
        .alone
        .iter()
        .enumerate()
        .map(|(i, (name, time))| {
            let path = format!("alone.{i}.1");
            format!(
                "<tr>{}{}</tr>\n",
                named(name),
                cell(time.median, &spread(&path, time, show::seconds))
            )
        })
        .collect();
    content.push_str("<h3>alone</h3>\n");
    content.push_str(&wide_table(
        "",
        &[("program", "What ran"), ("time", "Median and interval")],
        &alone,
    ));
    section("compared", "Compared with the programs alone", &content)
}

fn spread(path: &str, n: &GangNumber, shown: fn(f64) -> String) -> String {
    format!(
        "{} <small>{} to {}</small>",
        number(&format!("{path}.median"), n.median, &shown(n.median)),
        number(&format!("{path}.low"), n.low, &shown(n.low)),
        number(&format!("{path}.high"), n.high, &shown(n.high))
    )
}

fn rows(t: usize, table: &GangTable) -> String {
    let line = |(r, row): (usize, &GangRow)| {
        let path = format!("tables.{t}.rows.{r}");
        let more = |field: &str, found: &Option<GangNumber>, shown: fn(f64) -> String| match found {
            Some(more) => cell(
                more.median,
                &spread(&format!("{path}.{field}"), more, shown),
            ),
            None => cell("", "<small>not measured</small>"),
        };
        format!(
            "<tr>{}{}{}{}{}{}{}</tr>\n",
            named(&row.label),
            cell(
                row.ratio.median,
                &spread(&format!("{path}.ratio"), &row.ratio, show::factor)
            ),
            cell(
                row.seconds.median,
                &spread(&format!("{path}.seconds"), &row.seconds, show::seconds)
            ),
            more("switching", &row.switching, show::percent),
            more("cpu_time", &row.cpu_time, show::factor),
            more("cache_misses", &row.cache_misses, show::factor),
            cell(
                row.ratio.n,
                &number(
                    &format!("{path}.ratio.n"),
                    row.ratio.n,
                    &row.ratio.n.to_string()
                )
            ),
        )
    };
    let lines: String = table.rows.iter().enumerate().map(line).collect();
    let header = [
        ("case", "What was done to the programs"),
        ("ratio", "Time over that of the programs alone"),
        ("time", "Median and interval"),
        (
            "switches",
            "Time in switches, during which no program runs, over the time of the programs alone",
        ),
        ("CPU time", "Of the ranks, over that of the programs alone"),
        ("cache misses", "Over those of the programs alone"),
        ("n", "Repeats"),
    ];
    wide_table("sortable", &header, &lines)
}

/// Bars from 0, with a line at 1.
fn chart(t: usize, table: &GangTable) -> String {
    let most = table
        .rows
        .iter()
        .map(|row| row.ratio.high)
        .fold(1.0, f64::max)
        * 1.05;
    let x = |ratio: f64| LEFT + (WIDTH - LEFT - 70.0) * (ratio / most).clamp(0.0, 1.0);
    let height = TOP + STEP * table.rows.len() as f64 + 10.0;
    let mut content = format!(
        "<line class=\"bound\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>\
         <text class=\"tick\" x=\"{3:.1}\" y=\"16\">as long as alone</text>",
        x(1.0),
        TOP - 4.0,
        height - 6.0,
        x(1.0),
    );
    for (i, row) in table.rows.iter().enumerate() {
        let y = TOP + STEP * i as f64;
        let colour = if row.switched {
            "var(--compute)"
        } else {
            "var(--rank)"
        };
        let (label, name) = (LEFT - 8.0, text(&row.label));
        let (below, middle) = (y + 15.0, y + BAR / 2.0);
        let (low, high) = (x(row.ratio.low), x(row.ratio.high));
        let wide = x(row.ratio.median) - LEFT;
        let after = high + 28.0;
        let shown = show::factor(row.ratio.median);
        content.push_str(&format!(
            "<text class=\"tick end\" x=\"{label:.1}\" y=\"{below:.1}\">{name}</text>\
             <rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" style=\"fill:{colour}\"/>\
             <line class=\"whisker\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>\
             <text class=\"tick\" x=\"{after:.1}\" y=\"{below:.1}\">{shown}</text>"
        ));
    }
    format!(
        "<div class=\"figure drawn\"><svg id=\"gang{t}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         width=\"{WIDTH:.0}\" height=\"{height:.0}\">{content}</svg></div>\n",
        text(&table.name)
    )
}

fn switches(sheet: &GangSheet) -> String {
    let line = |(i, s): (usize, &GangSwitches)| {
        let mut cells = named(&s.label);
        cells.push_str(&cell(
            s.n,
            &number(&format!("switches.{i}.n"), s.n, &s.n.to_string()),
        ));
        for (p, (_, median, high)) in s.phases.iter().enumerate() {
            let path = format!("switches.{i}.phases.{p}");
            cells.push_str(&cell(
                median,
                &format!(
                    "{} <small>{}</small>",
                    number(&format!("{path}.1"), median, &show::seconds(*median)),
                    number(&format!("{path}.2"), high, &show::seconds(*high))
                ),
            ));
        }
        let skew = match &s.skew {
            Some((median, high, _)) => format!(
                "{} <small>{}</small>",
                number(
                    &format!("switches.{i}.skew.0"),
                    median,
                    &show::seconds(*median)
                ),
                number(&format!("switches.{i}.skew.1"), high, &show::seconds(*high))
            ),
            None => "not seen".to_owned(),
        };
        cells.push_str(&cell(s.skew.map_or(-1.0, |s| s.0), &skew));
        format!("<tr>{cells}</tr>\n")
    };
    let Some(first) = sheet.switches.first() else {
        return section("switches", "Switches", "<p>Nothing was switched.</p>\n");
    };
    let mut header = vec![("case", "What was switched"), ("n", "Switches")];
    header.extend(
        first
            .phases
            .iter()
            .map(|(name, ..)| (name.as_str(), "Median and 0.99 quantile")),
    );
    header.push((
        "ranks' skew",
        "From the first to the last rank that goes on: median and 0.99 quantile",
    ));
    let lines: String = sheet.switches.iter().enumerate().map(line).collect();
    let said = caption(
        "Time of a switch by phase, each on its slowest node: median, and the 0.99 quantile in small type. During all of it no gang computes.",
    );
    section(
        "switches",
        "Where switches spend their time",
        &(wide_table("sortable", &header, &lines) + &said),
    )
}

fn contexts(sheet: &GangSheet) -> String {
    if sheet.contexts.is_empty() {
        return section(
            "contexts",
            "Network contexts",
            "<p>They were not measured.</p>\n",
        );
    }
    let line = |(i, c): (usize, &GangContexts)| {
        let path = format!("contexts.{i}");
        let one = |field: &str, value: f64| {
            cell(
                value,
                &number(&format!("{path}.{field}"), value, &show::seconds(value)),
            )
        };
        let (median, low, high) = c.whole;
        let whole = format!(
            "{} <small>{} to {}</small>",
            number(&format!("{path}.whole.0"), median, &show::seconds(median)),
            number(&format!("{path}.whole.1"), low, &show::seconds(low)),
            number(&format!("{path}.whole.2"), high, &show::seconds(high))
        );
        let n = cell(c.n, &number(&format!("{path}.n"), c.n, &c.n.to_string()));
        format!(
            "<tr>{}{n}{}{}{}</tr>\n",
            named(&c.label),
            one("drain", c.drain),
            one("context", c.context),
            cell(median, &whole)
        )
    };
    let lines: String = sheet.contexts.iter().enumerate().map(line).collect();
    let header = [
        (
            "contexts",
            "Bytes of a context, and what a switch does with it",
        ),
        ("n", "Switches"),
        ("drain", "From the stop until nothing is under way: median"),
        ("context", "Change of the context: median"),
        ("whole", "Median with its interval of 95 %"),
    ];
    let said = caption(
        "Two gangs of two processes that speak all the time, on one network device of this node; processes are not frozen here.",
    );
    section(
        "contexts",
        "Network contexts",
        &(wide_table("sortable", &header, &lines) + &said),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(median: f64) -> GangNumber {
        GangNumber {
            median,
            low: median * 0.9,
            high: median * 1.2,
            n: 5,
        }
    }

    fn sheet() -> GangSheet {
        let row = |label: &str, switched, ratio| GangRow {
            label: label.to_owned(),
            switched,
            ratio: number(ratio),
            seconds: number(ratio * 2.0),
            cache_misses: switched.then(|| number(1.37)),
            switching: switched.then(|| number(0.011)),
            cpu_time: Some(number(1.043)),
        };
        GangSheet {
            machine: "2 CPUs <of> something".to_owned(),
            details: vec!["5 of 5 repeats".to_owned()],
            alone: vec![("allreduce every 100 us".to_owned(), number(1.0))],
            tables: vec![GangTable {
                name: "two equal programs".to_owned(),
                ratio: "Time over one after the other".to_owned(),
                rows: vec![
                    row("gang switching, 40.0 ms", true, 1.02),
                    row("no coscheduling", false, 1.87),
                ],
            }],
            switches: vec![GangSwitches {
                label: "two programs, 40.0 ms".to_owned(),
                n: 51,
                phases: vec![
                    ("whole".to_owned(), 3.0e-4, 5.0e-4),
                    ("freeze".to_owned(), 1.5e-4, 4.0e-4),
                ],
                skew: Some((3.0e-5, 8.0e-5, 50)),
            }],
            contexts: vec![GangContexts {
                label: "1 MiB, whole".to_owned(),
                n: 300,
                drain: 2.0e-5,
                context: 9.2e-5,
                whole: (1.2e-4, 1.1e-4, 1.3e-4),
            }],
            warnings: vec!["RESULTS DIFFER".to_owned()],
            command: vec!["idlewave".to_owned(), "gang".to_owned(), "study".to_owned()],
            idlewave: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn the_same_sheet_gives_the_same_page_with_all_its_numbers() {
        let page = gang_page(&sheet());
        assert_eq!(page, gang_page(&sheet()));
        for shown in [
            "x1.02",
            "x1.87",
            "x1.37",
            "1.10 %",
            "x1.04",
            "not measured",
            "92.0 us",
            "300 us",
            "30.0 us",
            "RESULTS DIFFER",
            "2 CPUs &lt;of&gt; something",
        ] {
            assert!(page.contains(shown), "{shown}");
        }
        assert!(!page.contains("<of>"));
    }

    #[test]
    fn bars_are_as_long_as_their_ratios_and_the_line_is_at_one() {
        let sheet = sheet();
        let drawn = chart(0, &sheet.tables[0]);
        let widths: Vec<f64> = drawn
            .split("<rect")
            .skip(1)
            .map(|rect| {
                let (_, rest) = rect.split_once("width=\"").unwrap();
                rest.split_once('"').unwrap().0.parse().unwrap()
            })
            .collect();
        assert!(
            (widths[1] / widths[0] - 1.87 / 1.02).abs() < 1e-3,
            "{widths:?}"
        );
        assert_eq!(drawn.matches("height=\"20\"").count(), 2);
        let (_, line) = drawn.split_once("<line class=\"bound\" x1=\"").unwrap();
        let at: f64 = line.split_once('"').unwrap().0.parse().unwrap();
        assert!(
            ((at - LEFT) * 1.02 - widths[0]).abs() < 0.2,
            "{at} {widths:?}"
        );
    }

    #[test]
    fn without_switches_it_says_so() {
        let mut sheet = sheet();
        sheet.switches.clear();
        assert!(gang_page(&sheet).contains("Nothing was switched."));
    }
}

//! The pages of a placement and of a study show what their sheets hold, and say when there is
//! nothing to show.

#![allow(clippy::unwrap_used)]

use idlewave_report::testing::{placement_sheet, study_sheet};
use idlewave_report::{MemoryFit, PlacementSheet, StudySheet, placement_page, study_page};
use serde_json::Value;

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = &text[text.find(begin).unwrap() + begin.len()..];
    &rest[..rest.find(end).unwrap()]
}

fn data(page: &str) -> &str {
    between(page, "id=\"findings\">", "</script>")
}

#[test]
fn the_sheets_are_in_the_pages_and_come_back() {
    let sheet = placement_sheet(16, 4);
    let page = placement_page(&sheet);
    let back: PlacementSheet = serde_json::from_str(data(&page)).unwrap();
    assert_eq!(back, sheet);
    assert_eq!(page, placement_page(&sheet));
    let sheet = study_sheet();
    let page = study_page(&sheet);
    let back: StudySheet = serde_json::from_str(data(&page)).unwrap();
    assert_eq!(back, sheet);
    assert_eq!(page, study_page(&sheet));
}

/// Compares every number on the page with the sheet; returns the paths.
fn checked_paths(page: &str, values: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    for piece in page.split("data-path=\"").skip(1) {
        let (path, rest) = piece.split_once("\" value=\"").unwrap();
        let value: f64 = rest[..rest.find('"').unwrap()].parse().unwrap();
        let found = path
            .split('.')
            .fold(values, |at, key| match key.parse::<usize>() {
                Ok(i) => &at[i],
                Err(_) => &at[key],
            });
        assert_eq!(found.as_f64(), Some(value), "{path}");
        paths.push(path.to_owned());
    }
    paths
}

#[test]
fn every_number_is_one_of_the_sheet() {
    let sheet = placement_sheet(64, 4);
    let shown = checked_paths(
        &placement_page(&sheet),
        &serde_json::to_value(&sheet).unwrap(),
    );
    for i in 0..sheet.rows.len() {
        for field in [
            "ranks_per_node",
            "nodes",
            "seconds.value",
            "seconds.low",
            "seconds.high",
            "node_seconds",
            "limit_share",
            "bound_seconds",
            "lower_bound_seconds",
        ] {
            assert!(shown.contains(&format!("rows.{i}.{field}")), "{i} {field}");
        }
    }
    let sheet = study_sheet();
    let shown = checked_paths(&study_page(&sheet), &serde_json::to_value(&sheet).unwrap());
    for (i, row) in sheet.rows.iter().enumerate() {
        let has = |field: &str| shown.contains(&format!("rows.{i}.{field}"));
        assert!(has("ranks") && has("nodes") && has("ranks_per_node"));
        assert!(has("total.low") && has("collective.value"));
        assert_eq!(has("point_to_point.value"), row.point_to_point.is_some());
        assert_eq!(has("predicted.high"), row.predicted.is_some());
    }
}

#[test]
fn the_verdict_says_what_to_take_and_what_it_brings() {
    let mut sheet = placement_sheet(16, 4);
    sheet.rows[1].seconds.value = 1.0;
    sheet.rows[3].seconds.value = 1.5;
    let headline = |sheet: &PlacementSheet| {
        let page = placement_page(sheet);
        let html = between(&page, "class=\"headline\">", "</p>").to_owned();
        let mut words = String::new();
        for piece in html.split('<') {
            words.push_str(piece.split_once('>').map_or(piece, |p| p.1));
        }
        words
    };
    let said = headline(&sheet);
    assert!(
        said.starts_with("Take 2 processes on each of 8 nodes: 1.00 s ("),
        "{said}"
    );
    assert!(
        said.contains("limited by core 0 of n1; the default takes 50.0 % longer."),
        "{said}"
    );
    sheet.rows[3].same_as_best = true;
    assert!(headline(&sheet).contains("the default is not significantly slower"));
    sheet.baseline = Some(1);
    assert!(headline(&sheet).contains("this is the default"));
    sheet.baseline = None;
    assert!(!headline(&sheet).contains("default"));
    (sheet.rows[1].ranks_per_node, sheet.rows[1].nodes) = (1, 1);
    assert!(headline(&sheet).starts_with("Take 1 process on 1 node:"));
    sheet.rows[1].memory = MemoryFit::Exceeds;
    assert!(headline(&sheet).starts_with("No placement fits into memory"));
    sheet = placement_sheet(15, 4);
    let said = headline(&sheet);
    assert!(
        said.starts_with("Take up to 2 processes on each of 8 nodes:"),
        "{said}"
    );
    sheet.rows[3].seconds.value = 3.0 * sheet.rows[1].seconds.value;
    let said = headline(&sheet);
    assert!(
        said.contains("the default takes 3.00 times as long"),
        "{said}"
    );
}

#[test]
fn what_was_assumed_is_no_alarm() {
    let alarms = |page: &str| -> Vec<String> {
        let all = page.split("role=\"alert\">").skip(1);
        all.map(|rest| rest[..rest.find('<').unwrap()].to_owned())
            .collect()
    };
    let (placed, study) = (
        placement_page(&placement_sheet(16, 4)),
        study_page(&study_sheet()),
    );
    assert_eq!(alarms(&placed), ["the memory of n7 is not known"]);
    assert!(placed.contains("<li>2 of 1000 steps are played</li>"));
    assert_eq!(
        alarms(&study),
        ["one of the nodes was busy with something else"]
    );
    assert!(study.contains("<li>8 ranks, 2 per node: not enough free memory</li>"));
}

#[test]
fn a_study_says_how_much_the_layout_matters() {
    let mut sheet = study_sheet();
    sheet.rows[1].total.value = 3.0 * 14.11;
    let words = |sheet: &StudySheet| {
        let page = study_page(sheet);
        let html = between(&page, "<div class=\"words\">", "</div>").to_owned();
        html.split('<')
            .map(|piece| piece.split_once('>').map_or(piece, |p| p.1))
            .collect::<String>()
    };
    let said = words(&sheet);
    for part in [
        "4 ranks are fastest on 1 node with 4 on each: 14.1 s. The slowest of 3 layouts takes 3.00 times as long.",
        "8 ranks are fastest on 8 nodes with 1 on each: 10.8 s. The slowest of 4 layouts takes 60.3 % longer.",
    ] {
        assert!(said.contains(part), "{said}");
    }
    sheet.rows.truncate(1);
    assert!(
        words(&sheet).contains(
            "4 ranks ran on 1 node with 4 on each: 14.1 s. No other layout was measured."
        )
    );
}

/// Each part's share of the bar's height equals its share of the time.
#[test]
fn parts_of_a_bar_add_up_to_it() {
    let page = placement_page(&placement_sheet(16, 4));
    let chart = between(&page, "id=\"chart-times\"", "</svg>");
    let bars: Vec<&str> = chart.split("<g data-tip>").skip(1).collect();
    assert_eq!(bars.len(), 4);
    let mut heights = Vec::new();
    for bar in bars {
        let parts: Vec<(f64, f64)> = bar
            .split("data-share=\"")
            .skip(1)
            .map(|p| {
                let share = p[..p.find('"').unwrap()].parse().unwrap();
                (share, between(p, " height=\"", "\"").parse().unwrap())
            })
            .collect();
        assert_eq!(parts.len(), 6);
        // Each part stands on the previous one.
        let at = |p: &str, of: &str| between(p, of, "\"").parse::<f64>().unwrap();
        let ends: Vec<(f64, f64)> = bar
            .split("data-share=\"")
            .skip(1)
            .map(|p| (at(p, " y=\""), at(p, " y=\"") + at(p, " height=\"")))
            .collect();
        assert!(ends.windows(2).all(|w| (w[1].1 - w[0].0).abs() < 0.02));
        let whole: f64 = parts.iter().map(|p| p.1).sum();
        for (share, height) in parts {
            assert!(
                (height / whole - share).abs() < 1e-3,
                "{share} {height} of {whole}"
            );
        }
        heights.push(whole);
    }
    let seconds: Vec<f64> = placement_sheet(16, 4)
        .rows
        .iter()
        .map(|r| r.seconds.value)
        .collect();
    for (height, seconds) in heights.iter().zip(&seconds) {
        assert!((height / heights[0] - seconds / 0.96).abs() < 1e-3);
    }
}

#[test]
fn however_many_placements_there_are_their_bars_fit_on_the_page() {
    let mut sheet = placement_sheet(16, 4);
    let row = sheet.rows[0].clone();
    for (count, per_k, drawn) in [(120, 1, 120), (121, 1, 120), (1_000, 2, 122), (300, 10, 32)] {
        let rows = (0..count).map(|i| {
            let mut row = row.clone();
            row.ranks_per_node = 1 + i / per_k;
            // Of the placements with the same ranks per node, the second is the fastest.
            row.seconds.value *= if i % per_k == 1 { 1.0 } else { 1.5 };
            row
        });
        sheet.rows = rows.collect();
        // Neither is the fastest for its ranks per node, yet both are drawn.
        sheet.best = count as usize - 2;
        sheet.baseline = Some(2);
        let page = placement_page(&sheet);
        let chart = between(&page, "id=\"chart-times\"", "</svg>");
        let width: f64 = between(chart, " width=\"", "\"").parse().unwrap();
        assert!(width <= 1_050.0, "{count}: {width}");
        assert_eq!(chart.matches("<g data-tip>").count(), drawn, "{count}");
        assert!(chart.contains(">best<") && chart.contains(">default<"));
        let said = format!("; {drawn} of {count} placements");
        assert_eq!(page.contains(&said), drawn != count as usize);
        // One bar for each number of ranks per node.
        if per_k == 10 {
            assert_eq!(chart.matches("<title>15 per node").count(), 1);
        }
    }
}

#[test]
fn however_many_layouts_were_measured_their_bars_fit_on_the_page() {
    let mut sheet = study_sheet();
    let row = sheet.rows[0].clone();
    let rows = (0..90).map(|i| {
        let mut row = row.clone();
        (row.ranks, row.ranks_per_node) = (2 << (i / 9), 1 << (i % 9));
        row.is_minimum = false;
        row
    });
    sheet.rows = rows.collect();
    let page = study_page(&sheet);
    let chart = between(&page, "id=\"chart-study\"", "</svg>");
    let width: f64 = between(chart, " width=\"", "\"").parse().unwrap();
    assert!(width <= 1_050.0, "{width}");
    // Labels of bars are at least 66 pixels apart, and every number of ranks is labelled.
    let names = chart.split("<text class=\"tick\" x=\"").skip(1);
    let at = names.map(|n| n[..n.find('"').unwrap()].parse::<f64>().unwrap());
    let mut at: Vec<f64> = at.collect();
    at.dedup();
    assert!(
        at.len() >= 10 && at.windows(2).all(|w| w[1] - w[0] > 65.0),
        "{at:?}"
    );
    for name in [
        "2", "4", "8", "16", "32", "64", "128", "256", "512", "1,024",
    ] {
        assert!(chart.contains(&format!(">{name} ranks<")), "{name}");
    }
}

#[test]
fn nodes_are_drawn_one_by_one_up_to_64_and_by_leaf_above() {
    let boxes = |ranks: u32, leaf: u32| {
        let sheet = placement_sheet(ranks, leaf);
        let page = placement_page(&sheet);
        let svg = between(&page, "class=\"loads\"", "</svg>").to_owned();
        let links = svg.matches("class=\"link\"").count();
        (
            svg.matches("class=\"memory\"").count(),
            links,
            page.contains("too many to draw"),
        )
    };
    // Two ranks per node; two core switches, two directions.
    assert_eq!(boxes(16, 4), (8, 8, false));
    assert_eq!(boxes(128, 16), (64, 16, false));
    assert_eq!(boxes(130, 16), (5, 20, true));
    // 100 leaves of one node exceed the limit: 64 are drawn, with their links.
    assert_eq!(boxes(200, 1), (64, 4 * 64, true));
}

#[test]
fn what_is_not_there_is_said() {
    let mut sheet = placement_sheet(16, 4);
    (sheet.chosen, sheet.baseline_loads) = (None, None);
    sheet.files.clear();
    sheet.not_modelled.clear();
    sheet.rows.clear();
    let page = placement_page(&sheet);
    for said in [
        "no placement was found",
        "The loads were not computed",
        "No file was asked for",
        "No placement was considered",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let mut sheet = study_sheet();
    sheet.rows.clear();
    assert!(study_page(&sheet).contains("Nothing was measured."));
}

#[test]
fn what_is_not_finite_or_out_of_range_breaks_no_page() {
    let mut sheet = placement_sheet(16, 4);
    sheet.rows[1].seconds.value = f64::NAN;
    sheet.rows[0].seconds.high = f64::INFINITY;
    sheet.rows[2].parts[0].1 = f64::NAN;
    sheet.rows[2].lower_bound_seconds = f64::NEG_INFINITY;
    let loads = sheet.chosen.as_mut().unwrap();
    loads.nodes[0].out = f64::NAN;
    loads.nodes[1].into = 7.5;
    loads.nodes[2].leaf = Some(99);
    loads.nodes[3].leaf = None;
    loads.links[0].from = 99;
    loads.links[1].bytes = f64::NAN;
    loads.switches[0].level = u32::MAX;
    sheet.baseline = Some(77);
    let page = placement_page(&sheet);
    let shown = &page[..page.find("<script").unwrap()];
    assert!(!shown.contains("NaN") && !shown.contains("\"inf\""));
    let mut sheet = study_sheet();
    for row in &mut sheet.rows {
        row.total.value = f64::NAN;
        row.total.high = f64::NAN;
        row.predicted = None;
    }
    assert!(study_page(&sheet).contains("No time was measured."));
}

#[test]
fn foreign_text_is_no_markup() {
    let mut sheet = placement_sheet(16, 4);
    let bad = || "</script><b>x".to_owned();
    (sheet.what, sheet.network, sheet.warnings[0]) = (bad(), bad(), bad());
    (sheet.rows[0].how, sheet.rows[0].limit) = (bad(), bad());
    sheet.rows[0].parts[0].0 = bad();
    sheet.files[0].name = bad();
    sheet.files[0].content = bad();
    let loads = sheet.chosen.as_mut().unwrap();
    (loads.nodes[0].name, loads.switches[0].name) = (bad(), bad());
    assert!(!placement_page(&sheet).contains("</script><b>"));
    let mut sheet = study_sheet();
    (sheet.what, sheet.details[0], sheet.warnings[0]) = (bad(), bad(), bad());
    assert!(!study_page(&sheet).contains("</script><b>"));
}

/// Two planes of 3 x 2 switches, with a node on each switch but the last, and four links from the
/// first.
fn grid() -> PlacementSheet {
    let mut sheet = placement_sheet(11, 1);
    let picture = sheet.chosen.as_mut().unwrap();
    let at = |i: u32| vec![i % 3, i / 3 % 2, i / 6];
    picture.switches = (0..12)
        .map(|i| idlewave_report::SwitchSheet {
            name: format!("s{i}"),
            level: 0,
            at: at(i),
        })
        .collect();
    let node = picture.nodes[0].clone();
    picture.nodes = (0..11)
        .map(|i| idlewave_report::NodeLoad {
            leaf: Some(i),
            ..node.clone()
        })
        .collect();
    let link = picture.links[0].clone();
    // To the right, below, around the end, and to the other plane.
    picture.links = [1, 3, 2, 6]
        .map(|to| idlewave_report::LinkLoad {
            from: 0,
            to,
            utilisation: 0.1 * to as f64,
            ..link.clone()
        })
        .to_vec();
    sheet.baseline_loads = None;
    sheet
}

#[test]
fn switches_with_coordinates_are_drawn_at_their_places() {
    let page = placement_page(&grid());
    let svg = between(&page, "class=\"loads\"", "</svg>");
    let places: std::collections::BTreeSet<&str> = svg
        .split("<g data-tip>")
        .skip(1)
        .map(|cell| between(cell, "class=\"switch\" ", "width"))
        .collect();
    assert_eq!(places.len(), 12);
    assert_eq!(svg.matches("class=\"memory\"").count(), 11);
    assert!(svg.contains("s11: no rank"));
    assert!(svg.contains("plane 0") && svg.contains("plane 1"));
    // Two neighbours in the picture; the other links in one mark, the busiest first.
    assert_eq!(svg.matches("class=\"link\"").count(), 2);
    assert_eq!(svg.matches("class=\"elsewhere\"").count(), 1);
    let mark = between(svg, "class=\"elsewhere\"", "</title>");
    let (other_plane, round) = (mark.find("s0 to s6: 60"), mark.find("s0 to s2: 20"));
    assert!(other_plane.unwrap() < round.unwrap(), "{mark}");
}

#[test]
fn links_that_nobody_told_of_are_said_to_be_left_out() {
    let mut sheet = grid();
    let said = "their capacity is not known";
    assert!(!placement_page(&sheet).contains(said));
    sheet.chosen.as_mut().unwrap().links.clear();
    assert!(placement_page(&sheet).contains(said));
    sheet.chosen.as_mut().unwrap().switches[3].at.pop();
    let page = placement_page(&sheet);
    // Unless every switch has coordinates, the picture is a tree.
    assert!(!page.contains("no rank<") && page.contains("class=\"stem\""));
}

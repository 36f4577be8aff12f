//! The page of a simulation shows what its sheet holds, and says when there is nothing to show.

#![allow(clippy::unwrap_used)]

use idlewave_report::testing::simulation_sheet;
use idlewave_report::{SimulationSheet, simulation_page};
use serde_json::Value;

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = &text[text.find(begin).unwrap() + begin.len()..];
    &rest[..rest.find(end).unwrap()]
}

#[test]
fn the_sheet_is_in_the_page_and_comes_back() {
    let sheet = simulation_sheet(4, 2);
    let page = simulation_page(&sheet);
    let data = between(&page, "id=\"findings\">", "</script>");
    assert_eq!(
        serde_json::from_str::<SimulationSheet>(data).unwrap(),
        sheet
    );
    assert_eq!(page, simulation_page(&sheet));
    assert!(page.contains("SIMULATED"));
}

/// Every number shown has the path of its exact value in the sheet.
#[test]
fn every_number_is_one_of_the_sheet() {
    let sheet = simulation_sheet(3, 2);
    let page = simulation_page(&sheet);
    let values = serde_json::to_value(&sheet).unwrap();
    let mut shown = 0;
    for piece in page.split("data-path=\"").skip(1) {
        let (path, rest) = piece.split_once("\" value=\"").unwrap();
        let value: f64 = rest[..rest.find('"').unwrap()].parse().unwrap();
        let found = path
            .split('.')
            .fold(&values, |at, key| match key.parse::<usize>() {
                Ok(i) => &at[i],
                Err(_) => &at[key],
            });
        assert_eq!(found.as_f64(), Some(value), "{path}");
        shown += 1;
    }
    // Each point has five numbers and two more intervals.
    assert!(shown > 18 * 9, "{shown}");
    for i in 0..sheet.points.len() {
        assert!(page.contains(&format!("data-path=\"points.{i}.amplification.high\"")));
    }
    for i in 0..3 {
        assert!(page.contains(&format!("data-path=\"path.noise.{i}.share.value\"")));
    }
}

#[test]
fn curves_and_map_are_there_where_there_is_something_to_draw() {
    let has = |sheet: &SimulationSheet| {
        let page = simulation_page(sheet);
        [
            "id=\"chart-ranks\"",
            "id=\"map-canvas\"",
            "id=\"chart-amplification\"",
            "id=\"finish-bar\"",
        ]
        .map(|id| page.contains(id))
    };
    assert_eq!(has(&simulation_sheet(4, 2)), [true; 4]);
    assert_eq!(has(&simulation_sheet(4, 1)), [true, false, true, true]);
    assert_eq!(has(&simulation_sheet(1, 2)), [false, false, false, true]);
    let mut quiet = simulation_sheet(2, 2);
    quiet.path = None;
    quiet.points.iter_mut().for_each(|p| p.amplification = None);
    assert_eq!(has(&quiet), [true, true, false, false]);
    assert!(simulation_page(&quiet).contains("no noise that could be amplified"));
    let mut nothing = quiet;
    nothing.points.clear();
    let page = simulation_page(&nothing);
    assert!(page.contains("no point was simulated"));
}

#[test]
fn the_worst_point_is_the_headline_and_vague_ones_are_counted() {
    let mut sheet = simulation_sheet(3, 1);
    sheet.points[4].slowdown.value = 3.5;
    let page = simulation_page(&sheet);
    let tiles = between(&page, "class=\"tiles\"", "</section>");
    assert!(tiles.contains("data-path=\"points.4.slowdown.value\" value=\"3.5\""));
    // The largest number of ranks in each of three layouts.
    assert!(
        tiles.contains("3 of 9 points have a wider interval"),
        "{tiles}"
    );
    assert!(
        tiles.contains("1 of 9 points still rose while they were averaged"),
        "{tiles}"
    );
    for point in &mut sheet.points {
        (point.precise, point.still_rises) = (true, false);
    }
    let page = simulation_page(&sheet);
    assert!(!page.contains("wider interval") && !page.contains("still rose"));
}

#[test]
fn what_is_not_finite_is_not_known_and_foreign_text_is_no_markup() {
    let mut sheet = simulation_sheet(2, 1);
    sheet.points[0].slowdown.value = f64::NAN;
    sheet.points[0].slowdown.high = f64::INFINITY;
    sheet.points[1].layout = "</script><b>".to_owned();
    sheet.what = "<img src=x>".to_owned();
    let page = simulation_page(&sheet);
    assert!(!page.contains("value=\"NaN\"") && !page.contains("value=\"inf\""));
    assert!(!page.contains("<img src=x>") && !page.contains("</script><b>"));
    let data: Value =
        serde_json::from_str(between(&page, "id=\"findings\">", "</script>")).unwrap();
    assert_eq!(data["points"][0]["slowdown"]["value"], Value::Null);
}

//! The summary's part on ways that took turns: each against the first.

use crate::facts;
use crate::screen::{Screen, Style};
use idlewave_explain::way_change;
use idlewave_run::findings::Ways;
use idlewave_units::counted;
use idlewave_units::show::time;

/// What every way takes, and how much longer it is than the first.
pub(super) fn ways(screen: &mut Screen, found: &Ways, ranks: u32) {
    let Some(first) = found.ways.first() else {
        return;
    };
    let rounds = counted(found.rounds, "round");
    let heading = format!(
        "{}, {}, in turn over {rounds}",
        facts::ways_heading(found).to_uppercase(),
        counted(ranks, "rank")
    );
    screen.line(Style::Heading, &heading);
    let rows: Vec<Vec<String>> = found
        .ways
        .iter()
        .map(|way| {
            vec![
                way.name().to_owned(),
                time(way.step.value),
                time(way.exchange.value),
                time(way.noise.value),
                way_change(way),
            ]
        })
        .collect();
    let against = format!("step against {} (95 %)", first.name());
    let header = [
        facts::ways_column(found),
        "step",
        "exchange",
        "noise",
        &against,
    ];
    screen.table(&header, &rows);
    for text in facts::way_sentences(found) {
        screen.wrap(Style::Plain, "  ", &text);
    }
}

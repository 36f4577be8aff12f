//! The head of a simulated run's summary: that the run is simulated, and what was simulated.

use crate::facts::size;
use crate::number::plain;
use crate::screen::{Screen, Style};
use idlewave_run::{Manifest, Simulated};
use idlewave_units::named;
use idlewave_units::show::count;

/// What was simulated, in place of the machine.
pub(super) fn head(screen: &mut Screen, manifest: &Manifest, simulated: &Simulated) {
    screen.line(
        Style::Alarm,
        "SIMULATED RUN: nothing below was measured on any machine",
    );
    let text = format!(
        "{}, {} {}; seed {}, replication {}",
        size(manifest),
        count(simulated.steps),
        named(simulated.steps, "step"),
        manifest.seed,
        simulated.replication
    );
    screen.wrap(Style::Plain, "  ", &text);
    for line in &simulated.program {
        screen.wrap(Style::Plain, "  - ", &plain(line));
    }
    if !simulated.without.is_empty() {
        let text = format!("without {}", plain(&simulated.without.join(", ")));
        screen.wrap(Style::Plain, "  - ", &text);
    }
    match simulated.delays.as_slice() {
        [] => {}
        [d] => {
            let text = format!(
                "rank {} delayed once, in step {}, for {}",
                d.rank, d.step, d.length
            );
            screen.wrap(Style::Plain, "  - ", &text);
        }
        many => {
            let text = format!("{} delays that happen once", count(many.len() as u64));
            screen.wrap(Style::Plain, "  - ", &text);
        }
    }
}

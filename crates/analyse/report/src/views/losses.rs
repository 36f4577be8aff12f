//! What a run lacks.

use crate::screen::{Screen, Style};
use crate::text::machine;
use idlewave_explain::views::Losses;

/// What could not be recorded, and what was lost or is uncertain, with what to do about it.
pub(super) fn losses(screen: &mut Screen, found: &Losses) {
    if found.unavailable.is_empty() && found.losses.is_empty() {
        let text = "everything was recorded, nothing was lost and nothing is uncertain";
        return screen.wrap(Style::Plain, "", text);
    }
    if !found.unavailable.is_empty() {
        machine::unavailable(screen, &found.unavailable);
    }
    if !found.losses.is_empty() {
        screen.line(Style::Heading, "LOST OR UNCERTAIN, largest count first");
    }
    for loss in &found.losses {
        machine::loss(screen, loss);
        if !loss.advice.starts_with("none needed") {
            screen.wrap(Style::Quiet, "    ", &crate::number::plain(&loss.advice));
        }
    }
}

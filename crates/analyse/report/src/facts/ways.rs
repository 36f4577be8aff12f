//! What is said of ways that took turns.

use idlewave_explain::way_sentence;
use idlewave_run::findings::Ways;

/// What took turns, as a title.
pub(crate) fn ways_heading(found: &Ways) -> &'static str {
    match found.ways.iter().any(|way| way.siblings.is_some()) {
        true => "Siblings of the cores",
        false => "Ways to exchange",
    }
}

/// The same as the head of a column.
pub(crate) fn ways_column(found: &Ways) -> &'static str {
    match found.ways.iter().any(|way| way.siblings.is_some()) {
        true => "siblings",
        false => "way",
    }
}

/// How each way differs from the first.
pub(crate) fn way_sentences(found: &Ways) -> Vec<String> {
    let Some((first, others)) = found.ways.split_first() else {
        return Vec::new();
    };
    let said = others.iter().filter_map(|way| way_sentence(first, way));
    said.collect()
}

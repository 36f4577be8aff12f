//! The section of the page that holds the explorer.

use super::super::markup::{caption, section as in_section};
use idlewave_units::show::time;
use idlewave_units::{counted, grouped};

/// The search box, the timeline of the whole run, and the table of a selected stretch.
///
/// `hidden`: CPUs and ranks without a row.
pub(super) fn section(events: u64, span: u64, hidden: (usize, usize), has_files: bool) -> String {
    let intro = format!(
        "{} events over {}. Zoom in until you see each of them; late steps, sources and waits link here.",
        grouped(events),
        time(span as f64),
    );
    let mut missing = Vec::new();
    for (number, what) in [(hidden.0, "CPU"), (hidden.1, "rank")] {
        if number > 0 {
            missing.push(counted(number as u64, what));
        }
    }
    let missing = match missing.is_empty() {
        true => String::new(),
        false => caption(&format!(
            "Without a row here: {}. Those that delays began on come first, then some at even distances.",
            missing.join(" and ")
        )),
    };
    let folder = match has_files {
        true => caption(
            "Zoomed in, the timeline reads files from a folder beside this page: <span id=\"folder\">its name, less the \
             ending, and <code>_files</code></span>. Copy or rename both.",
        ),
        false => String::new(),
    };
    let body = caption(&intro) + SEARCH + FIGURE + HOW + &missing + &folder;
    in_section("explorer", "The whole run", &body)
}

const SEARCH: &str = "<form id=\"search\" role=\"search\"><label for=\"find\">Find</label>\
<input id=\"find\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\" list=\"find-names\" placeholder=\"a process, an interrupt, late &gt; 50 us\">\
<datalist id=\"find-names\"></datalist>\
<button type=\"button\" data-find=\"-1\">Previous</button><button type=\"submit\" data-find=\"1\">Next</button>\
<output id=\"found\" for=\"find\"></output></form>\n";

const FIGURE: &str = "<div class=\"figure\" id=\"explorer-figure\">\
<div class=\"tools\"><output id=\"explorer-range\"></output>\
<button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button>\
<button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;</button>\
<button type=\"button\" data-zoom=\"all\">Whole run</button>\
<button type=\"button\" id=\"select-view\">Sum up what is shown</button></div>\
<canvas id=\"explorer-canvas\" class=\"pane\" tabindex=\"0\" role=\"img\" aria-label=\"Timeline of the whole run: late steps, sources, CPUs and ranks\" aria-describedby=\"explorer-range pinned\"></canvas>\
<p class=\"legend\" id=\"explorer-legend\"></p>\
<p class=\"note\" id=\"pinned\" role=\"status\">Click an event for its exact times.</p></div>\n\
<div id=\"selection\" aria-live=\"polite\"></div>\n";

const HOW: &str = "<p class=\"caption\">Wheel or <kbd>w</kbd> <kbd>s</kbd> zoom; drag or <kbd>a</kbd> <kbd>d</kbd> pan; <kbd>0</kbd> shows the whole run. \
Drag with <kbd>Shift</kbd> to select a stretch: a table says who took time in it. Where events are closer than pixels, a column \
stands for them: interrupts hang from the top of a CPU's row, programs stand below. The height is the share of time, on a logarithmic scale: \
full height is all of it, each fifth less is a tenth of that. The height of a late step is its lateness.</p>\n";

//! Views on the terminal: `idlewave explain RUN --view NAME`.
//!
//! Every table names what it leaves out for lack of width. Rows are never left out: whoever asks
//! for every process gets every process.

mod daemons;
mod interrupts;
mod latency;
mod losses;
mod mpi;
mod pieces;
mod processes;
mod syscalls;
mod wakeups;

pub(crate) use pieces::dash;

use crate::screen::{Screen, Style};
use crate::text::machine::alarms;
use idlewave_explain::views::{Filter, View};
use idlewave_run::{Manifest, TraceMode};
use idlewave_units::counted;

/// Renders a view: ASCII, no line wider than `width` columns (at least 20), with the SGR colours of
/// ECMA-48 only if `color`.
pub fn render_view(
    manifest: &Manifest,
    filter: &Filter,
    view: &View,
    width: usize,
    color: bool,
) -> String {
    let mut screen = Screen::new(width, color);
    let several = manifest.nodes.len() > 1;
    alarms(&mut screen, &manifest.busy_nodes());
    if let Some(text) = pieces::filter(filter) {
        screen.wrap(Style::Quiet, "", &text);
    }
    match view {
        View::Processes(found) => processes::processes(&mut screen, found, filter, several),
        View::Matrix(found) => processes::matrix(&mut screen, found, several),
        View::States(found) => processes::states(&mut screen, found, several),
        View::Daemons(found) => daemons::daemons(&mut screen, found, several),
        View::Interrupts(found) => interrupts::interrupts(&mut screen, found, filter, several),
        View::Latency(found) => latency::latency(&mut screen, found, several),
        View::Losses(found) => {
            losses::losses(&mut screen, found);
            return screen.into_text();
        }
        View::Mpi(found) => mpi::mpi(&mut screen, found),
        View::Syscalls(found) => syscalls::syscalls(&mut screen, found, several),
        View::Wakeups(found) => wakeups::wakeups(&mut screen, found),
    }
    not_traced(&mut screen, manifest);
    lost(&mut screen, manifest);
    screen.into_text()
}

/// Says that the trace has holes.
fn lost(screen: &mut Screen, manifest: &Manifest) {
    let lost: u64 = manifest.nodes.iter().map(|n| n.trace.cost.lost).sum();
    if lost > 0 {
        let text = format!(
            "the kernel trace lost {}: numbers of events and times are lower bounds. `idlewave \
             explain RUN` says where it has holes.",
            counted(lost, "event")
        );
        screen.wrap(Style::Alarm, "! ", &text);
    }
}

/// Says what the run cannot show, and how to record it.
fn not_traced(screen: &mut Screen, manifest: &Manifest) {
    let traced = |mode: TraceMode| mode == TraceMode::Tracefs;
    if manifest.simulated.is_some() || manifest.nodes.iter().all(|n| traced(n.trace.mode)) {
        return;
    }
    screen.wrap(
        Style::Alarm,
        "! ",
        "the kernel was not traced on every node of this run: what ran there, and when, is not \
         known. Record it as root, or see docs/tracing-permissions.md.",
    );
}

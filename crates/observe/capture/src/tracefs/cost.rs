//! The cost of writing one event on this machine.
//!
//! Pages of fresh memory are touched with and without the event `page_fault_user`, in turn; the
//! difference of the medians over the faults of a round is the cost of one event. The difference is
//! small, so the rounds alternate and the median is taken.

use super::{Instance, TraceError};
use idlewave_sys::mapping::touch_new_pages;

const EVENT: &str = "events/exceptions/page_fault_user/enable";
/// Rounds of each kind, and pages of a round.
const ROUNDS: usize = 21;
const PAGES: usize = 200;

/// Cost of one event in nanoseconds; `None` if this kernel has no such event or the cost is lost in
/// the scatter.
pub fn event_ns(instance: &Instance) -> Option<f64> {
    let mut with = Vec::new();
    let mut without = Vec::new();
    for round in 0..2 * ROUNDS {
        let traced = round % 2 == 0;
        set(instance, traced).ok()?;
        let faults = touch_fresh_pages()?;
        if traced {
            with.push(faults)
        } else {
            without.push(faults)
        }
    }
    set(instance, false).ok()?;
    let cost = median(&mut with) - median(&mut without);
    (cost > 0.0).then_some(cost)
}

fn set(instance: &Instance, traced: bool) -> Result<(), TraceError> {
    instance.write(EVENT, if traced { "1" } else { "0" })?;
    instance.write("tracing_on", if traced { "1" } else { "0" })
}

/// Mean time of a fault in nanoseconds.
fn touch_fresh_pages() -> Option<f64> {
    let time = touch_new_pages(PAGES).ok()?;
    Some(time.as_nanos() as f64 / PAGES as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

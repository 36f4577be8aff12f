//! What writing one event costs on this machine.
//!
//! Pages of fresh memory are touched with and without the event `page_fault_user` enabled, in turn; the
//! difference of the medians over the faults of a round is the cost of one event. It is a fault
//! more or less in thousands of instructions, so the rounds alternate and the median is taken.

use super::{Instance, TraceError};
use std::time::Instant;

const EVENT: &str = "events/exceptions/page_fault_user/enable";
/// Rounds of each kind, and pages of a round.
const ROUNDS: usize = 21;
const PAGES: usize = 200;

/// Cost of one event in nanoseconds; `None` if this kernel has no such event or the noise is larger.
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
    // SAFETY: takes a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let length = page * PAGES;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: asks for new memory anywhere; nothing existing is touched.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // A huge page would be one fault for all.
    // SAFETY: the range is the mapping just made. Whether the advice is taken does not matter for safety.
    unsafe { libc::madvise(memory, length, libc::MADV_NOHUGEPAGE) };
    let begin = Instant::now();
    for offset in (0..length).step_by(page) {
        // SAFETY: inside the mapping, which is writable; volatile so that the write happens.
        unsafe { memory.cast::<u8>().add(offset).write_volatile(1) };
    }
    let time = begin.elapsed();
    // SAFETY: unmaps exactly what was mapped above; no reference into it exists.
    unsafe { libc::munmap(memory, length) };
    Some(time.as_nanos() as f64 / PAGES as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

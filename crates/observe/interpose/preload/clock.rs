//! The clock of the records: the CPU's counter if the kernel trusts it, otherwise CLOCK_MONOTONIC.

use crate::ring;
use crate::sys::monotonic;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Forces CLOCK_MONOTONIC: for the benchmark, and for machines where the kernel trusts a counter
/// that is wrong.
const VARIABLE: &str = "IDLEWAVE_RING_CLOCK";

/// One of [`ring::clock`]; 0 before [`choose`].
static KIND: AtomicU32 = AtomicU32::new(0);

/// Value of `KIND` after [`unneeded`].
const UNNEEDED: u32 = u32::MAX;

/// Says that this process needs no times.
pub fn unneeded() {
    KIND.store(UNNEEDED, Relaxed);
}

/// Chooses the clock, once per process.
pub fn choose() -> u32 {
    let kind = KIND.load(Relaxed);
    if kind != 0 {
        return kind;
    }
    let counter = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
        && std::env::var(VARIABLE).map_or(true, |value| value != "monotonic")
        && std::fs::read_to_string(SOURCE)
            .is_ok_and(|name| matches!(name.trim(), "tsc" | "arch_sys_counter"));
    let kind = if counter {
        ring::clock::COUNTER
    } else {
        ring::clock::MONOTONIC
    };
    KIND.store(kind, Relaxed);
    kind
}

/// The current time.
#[inline(always)]
pub fn now() -> u64 {
    if KIND.load(Relaxed) == UNNEEDED {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    if KIND.load(Relaxed) == ring::clock::COUNTER {
        // SAFETY: every x86-64 CPU has the instruction, and the kernel permits it because the
        // counter is its own clock source.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    #[cfg(target_arch = "aarch64")]
    if KIND.load(Relaxed) == ring::clock::COUNTER {
        let value: u64;
        // SAFETY: reads the counter that the kernel's own vDSO reads in user mode.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        return value;
    }
    monotonic()
}

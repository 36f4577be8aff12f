//! The counters.

/// A steady counter that can be read in a few nanoseconds.
///
/// Loops are generic over it, so that a reading is one instruction where the processor has one, and
/// so that tests can use a counter of their own.
pub trait Source: Copy + Send + Sync + 'static {
    /// The counter now. The processor may move it past neighbouring instructions.
    fn now(self) -> u64;
    /// The counter, read after everything before this call has completed.
    fn now_ordered(self) -> u64 {
        self.now()
    }
}

/// The time stamp counter of x86-64.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Tsc;

#[cfg(target_arch = "x86_64")]
impl Source for Tsc {
    #[inline(always)]
    fn now(self) -> u64 {
        // SAFETY: every x86-64 processor has the instruction; it reads no memory. Linux leaves it
        // permitted for user space unless a process asked otherwise for itself (PR_SET_TSC).
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[inline(always)]
    fn now_ordered(self) -> u64 {
        // SAFETY: as above; SSE2, which brings the fence, is part of x86-64.
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
}

/// The virtual counter of aarch64.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub struct Cntvct;

#[cfg(target_arch = "aarch64")]
impl Source for Cntvct {
    #[inline(always)]
    fn now(self) -> u64 {
        let counts: u64;
        // SAFETY: reads a register that Linux keeps readable for user space; touches no memory.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) counts, options(nomem, nostack, preserves_flags))
        };
        counts
    }
    #[inline(always)]
    fn now_ordered(self) -> u64 {
        let counts: u64;
        // SAFETY: as above, behind an instruction barrier.
        unsafe {
            core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) counts, options(nomem, nostack, preserves_flags))
        };
        counts
    }
}

/// `clock_gettime(CLOCK_MONOTONIC)`: works everywhere, 20 to 30 ns through the vDSO.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic;

impl Source for Monotonic {
    #[inline(always)]
    fn now(self) -> u64 {
        monotonic_ns()
    }
}

/// CLOCK_MONOTONIC of this node in nanoseconds: the clock of every table of a run and of the kernel
/// tracer.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec. The call cannot fail for this clock
    // (POSIX), so its result carries no information.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

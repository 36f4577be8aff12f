//! The measuring thread, its CPU and its policy.

use crate::WorkloadError;
use idlewave_sys::{affinity, realtime};
use idlewave_units::Cpu;

/// Binds the calling thread to one CPU. Works for any number of CPUs.
///
/// # Errors
/// The CPU does not exist or is not allowed for this process.
pub fn pin(cpu: Cpu) -> Result<(), WorkloadError> {
    let bound = affinity::bind(&[cpu].into_iter().collect());
    bound.map_err(|source| WorkloadError::Pin { cpu, source })
}

/// Gives the calling thread a priority under SCHED_FIFO, 1 to 99.
///
/// # Errors
/// The user may not have it.
pub fn enter_realtime(priority: u8) -> Result<(), WorkloadError> {
    let taken = realtime::take_fifo(priority);
    taken.map_err(|source| WorkloadError::Realtime { priority, source })
}

/// Involuntary context switches of the calling thread so far; `None` if the system does not say.
fn involuntary_switches() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for one rusage, the call writes no more than that, and all-zero
    // bytes are a valid rusage.
    let (done, usage) = unsafe {
        (
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()),
            usage.assume_init(),
        )
    };
    (done == 0).then_some(usage.ru_nivcsw as u64)
}

/// What the system reports about a thread's stay on its CPU between two checks.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    cpu: Cpu,
    switches: Option<u64>,
    moved: bool,
}

impl Settled {
    /// First check.
    pub fn begin(cpu: Cpu) -> Self {
        Self {
            cpu,
            switches: involuntary_switches(),
            moved: affinity::current() != cpu,
        }
    }
    /// Last check: involuntary context switches since the first, and whether either check found the
    /// thread on another CPU.
    pub fn end(self) -> (Option<u64>, bool) {
        let switches = self
            .switches
            .and_then(|begin| Some(involuntary_switches()?.saturating_sub(begin)));
        (switches, self.moved || affinity::current() != self.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_cannot_be_bound_to() {
        let refused = pin(Cpu::new(100_000)).expect_err("no machine has that many CPUs");
        assert!(refused.to_string().contains("CPU 100000"), "{refused}");
    }
}

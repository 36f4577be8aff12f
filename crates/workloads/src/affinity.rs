//! The measuring thread and its CPU.

use crate::WorkloadError;
use idlewave_units::{Cpu, Pid};
use std::io;

/// Bits of a CPU mask word as the kernel counts them.
const WORD_BITS: usize = usize::BITS as usize;

/// Binds the calling thread to one CPU. Works for any number of CPUs.
///
/// # Errors
/// The CPU does not exist or is not allowed for this process.
pub fn pin(cpu: Cpu) -> Result<(), WorkloadError> {
    let mut mask = vec![0_usize; cpu.index() / WORD_BITS + 1];
    mask[cpu.index() / WORD_BITS] = 1 << (cpu.index() % WORD_BITS);
    // SAFETY: the pointer and the length in bytes describe `mask`, which the call only reads;
    // thread 0 is the caller.
    let done =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    if done == 0 {
        Ok(())
    } else {
        Err(WorkloadError::Pin {
            cpu,
            source: io::Error::last_os_error(),
        })
    }
}

/// Number of the calling thread.
pub(crate) fn thread_id() -> Pid {
    // SAFETY: the call takes nothing and cannot fail (gettid(2)).
    Pid::new(unsafe { libc::gettid() } as u32)
}

/// The CPU on which the calling thread is now; `None` where the system does not tell.
fn current_cpu() -> Option<u32> {
    // SAFETY: the call takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Involuntary switches of the calling thread so far; `None` where the system does not tell.
fn involuntary_switches() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for one rusage, all-zero bytes are one, and the call writes no more.
    let (done, usage) = unsafe {
        (
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()),
            usage.assume_init(),
        )
    };
    (done == 0).then_some(usage.ru_nivcsw as u64)
}

/// What the system says about a thread's stay on its CPU, from a first look to a last one.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    cpu: Cpu,
    switches: Option<u64>,
    moved: bool,
}

impl Settled {
    /// First look.
    pub fn begin(cpu: Cpu) -> Self {
        Self {
            cpu,
            switches: involuntary_switches(),
            moved: current_cpu().is_some_and(|c| c != cpu.get()),
        }
    }
    /// Last look: involuntary switches in between, and whether the thread was seen on another CPU.
    pub fn end(self) -> (Option<u64>, bool) {
        let switches = self
            .switches
            .and_then(|begin| Some(involuntary_switches()?.saturating_sub(begin)));
        (
            switches,
            self.moved || current_cpu().is_some_and(|c| c != self.cpu.get()),
        )
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

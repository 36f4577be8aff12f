//! The choice of a counter.

use crate::{Source, quantum_of, read_time};
use std::path::Path;

/// Why a clock cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The counter did not advance in thousands of readings.
    #[error("the clock `{0}` does not advance")]
    StandsStill(&'static str),
}

/// A counter of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Time stamp counter of x86-64.
    #[cfg(target_arch = "x86_64")]
    Tsc,
    /// Virtual counter of aarch64.
    #[cfg(target_arch = "aarch64")]
    Cntvct,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

/// Calls a generic function with the source of a counter, so that its loops are specialised.
#[macro_export]
macro_rules! with_source {
    ($counter:expr, $source:ident => $body:expr) => {
        match $counter {
            #[cfg(target_arch = "x86_64")]
            $crate::Counter::Tsc => {
                let $source = $crate::Tsc;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            $crate::Counter::Cntvct => {
                let $source = $crate::Cntvct;
                $body
            }
            $crate::Counter::Monotonic => {
                let $source = $crate::Monotonic;
                $body
            }
        }
    };
}

impl Counter {
    /// The processor's counter if the kernel (below `root`) keeps its own time by it, otherwise
    /// `clock_gettime`: a counter that the kernel distrusts is not steady enough here either.
    pub fn choose(root: &Path) -> Self {
        let current = root.join("sys/devices/system/clocksource/clocksource0/current_clocksource");
        match std::fs::read_to_string(current).unwrap_or_default().trim() {
            #[cfg(target_arch = "x86_64")]
            "tsc" => Counter::Tsc,
            #[cfg(target_arch = "aarch64")]
            "arch_sys_counter" => Counter::Cntvct,
            _ => Counter::Monotonic,
        }
    }

    /// Name in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Counter::Tsc => "tsc",
            #[cfg(target_arch = "aarch64")]
            Counter::Cntvct => "cntvct",
            Counter::Monotonic => "clock_gettime",
        }
    }

    /// The counter, read after everything before. For loops use
    /// [`with_source!`](crate::with_source).
    #[inline]
    pub fn now_ordered(self) -> u64 {
        with_source!(self, s => s.now_ordered())
    }

    /// Whether the processor reports a constant rate in all power states; `None` if it does not
    /// say.
    pub fn is_invariant(self) -> Option<bool> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Counter::Tsc => {
                // Leaf 8000_0007h, EDX bit 8 (AMD64 manual vol. 3, Intel SDM vol. 2: invariant
                // TSC).
                use core::arch::x86_64::__cpuid;
                #[allow(unused_unsafe)]
                // SAFETY: every x86-64 processor has the instruction; it only reads processor data.
                let (highest, edx) = unsafe {
                    let highest = __cpuid(0x8000_0000).eax;
                    (
                        highest,
                        if highest >= 0x8000_0007 {
                            __cpuid(0x8000_0007).edx
                        } else {
                            0
                        },
                    )
                };
                (highest >= 0x8000_0007).then_some(edx & (1 << 8) != 0)
            }
            #[cfg(target_arch = "aarch64")]
            Counter::Cntvct => Some(true),
            Counter::Monotonic => None,
        }
    }

    /// Smallest step and reading time of this counter.
    pub fn measure(self) -> Result<Readings, ClockError> {
        with_source!(self, s => {
            let quantum = quantum_of(s).ok_or(ClockError::StandsStill(self.name()))?;
            Ok(Readings { quantum_counts: quantum.counts, read_counts: read_time(s) })
        })
    }
}

/// Properties of a counter, from reading it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readings {
    /// Smallest step observed, in counts.
    pub quantum_counts: u64,
    /// Median time of one reading, in counts.
    pub read_counts: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_trusted_clock_source_the_kernel_is_asked() {
        let root = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Counter::choose(root.path()), Counter::Monotonic);
        let dir = root
            .path()
            .join("sys/devices/system/clocksource/clocksource0");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("current_clocksource"), "hpet\n").expect("a file");
        assert_eq!(Counter::choose(root.path()), Counter::Monotonic);
    }

    #[test]
    fn the_real_counter_advances() {
        let readings = Counter::choose(Path::new("/"))
            .measure()
            .expect("a running clock");
        assert!(readings.quantum_counts >= 1 && readings.read_counts > 0.0);
    }
}

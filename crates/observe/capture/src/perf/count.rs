//! A counter of the calling thread.

use super::error::PerfError;
use super::event::{
    Attributes, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, HARDWARE, READ_TIME_ENABLED, READ_TIME_RUNNING,
    explain, open,
};
use idlewave_sys::process::own_thread;
use std::fs::File;
use std::io::{Error, Read};

/// `PERF_COUNT_HW_CACHE_MISSES`: last-level cache misses, as the CPU's maker defines them.
const CACHE_MISSES: u64 = 3;

/// Counts the last-level cache misses of the thread that opened it, in user space only.
#[derive(Debug)]
pub struct CacheMisses(Counter);

impl CacheMisses {
    /// Starts to count.
    ///
    /// # Errors
    /// [`PerfError::NoCounter`] if the CPU, or its hypervisor, has no such counter; otherwise see
    /// [`PerfError`].
    pub fn of_this_thread() -> Result<Self, PerfError> {
        Counter::open(HARDWARE, CACHE_MISSES).map(Self)
    }

    /// Misses so far, scaled up if the counter was multiplexed.
    ///
    /// # Errors
    /// The counter was never scheduled, or cannot be read.
    pub fn count(&mut self) -> Result<u64, PerfError> {
        self.0.read()
    }
}

/// A counter of a thread.
#[derive(Debug)]
struct Counter(File);

impl Counter {
    fn open(kind: u32, config: u64) -> Result<Self, PerfError> {
        let attributes = Attributes {
            kind,
            config,
            read_format: READ_TIME_ENABLED | READ_TIME_RUNNING,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        let thread = own_thread();
        let opened = open(attributes, thread).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => PerfError::NoCounter,
            _ => explain(thread, error),
        });
        opened.map(Self)
    }

    fn read(&mut self) -> Result<u64, PerfError> {
        let mut words = [[0u8; 8]; 3];
        let read = self.0.read_exact(words.as_flattened_mut());
        read.map_err(PerfError::Count)?;
        let [count, enabled, running] = words.map(u64::from_ne_bytes);
        scaled(count, enabled, running)
            .ok_or_else(|| PerfError::Count(Error::other("it was never scheduled")))
    }
}

/// The total of a counter that counted only part of the time.
fn scaled(count: u64, enabled: u64, running: u64) -> Option<u64> {
    let whole = (u128::from(count) * u128::from(enabled)).checked_div(u128::from(running))?;
    Some(u64::try_from(whole).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::event::SOFTWARE;
    use super::*;
    use idlewave_sys::mapping::touch_new_pages;

    /// `PERF_COUNT_SW_PAGE_FAULTS`: available everywhere.
    const PAGE_FAULTS: u64 = 2;

    #[test]
    fn what_a_thread_does_after_it_began_to_count_is_counted() {
        let mut counter = match Counter::open(SOFTWARE, PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(error) => return println!("skipped: {error}"),
        };
        let before = counter.read().unwrap();
        touch_new_pages(500).unwrap();
        let faults = counter.read().unwrap() - before;
        assert!((500..1_500).contains(&faults), "{faults}");
    }

    #[test]
    fn a_counter_that_is_not_there_is_told_so_or_counts() {
        match CacheMisses::of_this_thread() {
            Ok(mut counter) => {
                let before = counter.count().unwrap();
                // More than the caches hold, in a pattern that no prefetcher follows.
                let words = vec![1u64; 16 << 20];
                let sum =
                    (0..words.len()).fold(0, |sum, i| sum + words[(i * 7_919_003) % words.len()]);
                assert_eq!(sum, words.len() as u64);
                assert!(counter.count().unwrap() > before);
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.starts_with("open a perf event: "), "{text}");
                println!("skipped: {error}");
            }
        }
    }

    #[test]
    fn a_counter_that_had_half_of_the_turns_saw_half() {
        assert_eq!(scaled(10, 200, 100), Some(20));
        assert_eq!(scaled(10, 100, 100), Some(10));
        assert_eq!(scaled(0, 100, 0), None);
        assert_eq!(scaled(u64::MAX, 4, 2), Some(u64::MAX));
    }
}

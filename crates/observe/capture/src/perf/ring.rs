//! One perf event of one thread, with its ring of records.

use super::error::PerfError;
use super::event::{
    Attributes, CONTEXT_SWITCH, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, READ_TIME_RUNNING,
    SAMPLE_ID_ALL, SOFTWARE, TASK, USE_CLOCK, explain, open,
};
use idlewave_sys::mapping::{Access, Mapping};
use idlewave_units::Pid;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts nothing; carries the records.
const DUMMY: u64 = 9;
const SAMPLE_TID_TIME_CPU: u64 = 1 << 1 | 1 << 2 | 1 << 7;
/// Lost records of the event (since Linux 6.0).
const READ_LOST: u64 = 1 << 4;

/// Bytes of one ring: 8,192 records of 32 bytes. `perf_event_mlock_kb` allows users 516 KiB per
/// CPU.
const RING_BYTES: usize = 256 << 10;
/// Where `struct perf_event_mmap_page` has `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A perf event that records the switches of one thread.
#[derive(Debug)]
pub(crate) struct Ring {
    file: File,
    /// Control page, then `data_bytes` of records.
    map: Mapping,
    page: usize,
    data_bytes: usize,
    reads_lost: bool,
}

/// What the event itself counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Time for which the thread had a CPU since the event was opened.
    pub(crate) running_ns: u64,
    /// Records lost; `None` before Linux 6.0.
    pub(crate) lost: Option<u64>,
}

impl Ring {
    /// Opens the event for a thread of this process; recording starts immediately.
    pub(crate) fn open(pid: Pid) -> Result<Ring, PerfError> {
        let attempt = |format| open_event(pid, format);
        let (file, reads_lost) = match attempt(READ_TIME_RUNNING | READ_LOST) {
            Ok(file) => (file, true),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (
                attempt(READ_TIME_RUNNING).map_err(|e| explain(pid, e))?,
                false,
            ),
            Err(e) => return Err(explain(pid, e)),
        };
        let page = rustix::param::page_size();
        let mut pages = (RING_BYTES / page).max(1);
        loop {
            match Mapping::new(&file, page * (pages + 1), Access::Write) {
                Ok(map) => {
                    return Ok(Ring {
                        file,
                        map,
                        page,
                        data_bytes: page * pages,
                        reads_lost,
                    });
                }
                // The limit on locked memory is reached. A smaller ring is drained as often, but
                // overflows earlier.
                Err(e) if e.kind() == ErrorKind::PermissionDenied && pages > 1 => pages /= 2,
                Err(source) => return Err(PerfError::Map { pid, source }),
            }
        }
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped for the life of `self`, readable and writable; both
        // offsets lie in it and are aligned to 8. The kernel accesses them as single words.
        unsafe { self.map.base().add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Appends all new records to `bytes` and frees their space.
    pub(crate) fn drain(&mut self, bytes: &mut Vec<u8>) {
        // Acquire: what the kernel wrote before moving the head is visible after this load.
        let head = self.position(HEAD).load(Ordering::Acquire);
        // Only we write the tail.
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX);
        let length = length.min(self.data_bytes);
        // The ring's size is a power of two, so the position wraps with the counter.
        let start = (tail % self.data_bytes as u64) as usize;
        let until_end = length.min(self.data_bytes - start);
        for (offset, count) in [(start, until_end), (0, length - until_end)] {
            // SAFETY: `offset + count` is at most `data_bytes`, all of it mapped. The kernel does
            // not write between tail and head until the tail moves below.
            let part = unsafe {
                let begin = self.map.base().add(self.page + offset);
                std::slice::from_raw_parts(begin.as_ptr(), count)
            };
            bytes.extend_from_slice(part);
        }
        // Release: our reads complete before the kernel sees the space as free.
        self.position(TAIL).store(head, Ordering::Release);
    }

    /// What the event counted up to now.
    pub(crate) fn totals(&mut self) -> Option<Totals> {
        let mut words = [[0u8; 8]; 3];
        let length = if self.reads_lost { 24 } else { 16 };
        let read = self
            .file
            .read(&mut words.as_flattened_mut()[..length])
            .ok()?;
        let [_, running, lost] = words.map(u64::from_ne_bytes);
        (read == length).then_some(Totals {
            running_ns: running,
            lost: self.reads_lost.then_some(lost),
        })
    }
}

fn open_event(pid: Pid, read_format: u64) -> Result<File, Error> {
    let attributes = Attributes {
        kind: SOFTWARE,
        config: DUMMY,
        sample_type: SAMPLE_TID_TIME_CPU,
        read_format,
        flags: EXCLUDE_KERNEL
            | EXCLUDE_HYPERVISOR
            | TASK
            | SAMPLE_ID_ALL
            | USE_CLOCK
            | CONTEXT_SWITCH,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    open(attributes, pid)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Event, parse};
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// How often the calling thread has left its CPU.
    fn switches() -> u64 {
        // SAFETY: an all-zero value of this plain structure is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live structure of the right type.
        let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        assert_eq!(done, 0);
        (usage.ru_nvcsw + usage.ru_nivcsw) as u64
    }

    #[test]
    fn a_ring_that_nobody_drains_counts_what_it_loses() {
        let (tell, told) = channel();
        let (go, gone) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(idlewave_sys::process::own_thread()).unwrap();
            gone.recv().unwrap();
            let before = switches();
            (0..6_000).for_each(|_| std::thread::sleep(Duration::from_nanos(1)));
            let switches = switches() - before;
            let _ = gone.recv();
            switches
        });
        let mut ring = match Ring::open(told.recv().unwrap()) {
            Ok(ring) => ring,
            Err(e) => {
                println!("skipped: {e}");
                drop(go);
                let _ = thread.join();
                return;
            }
        };
        go.send(()).unwrap();
        drop(go);
        let switches = thread.join().unwrap();
        let mut bytes = Vec::new();
        ring.drain(&mut bytes);
        let mut kept = 0u64;
        parse(&bytes, |event| {
            assert!(!matches!(event, Event::Lost { .. }));
            kept += 1;
        });
        let totals = ring.totals().unwrap();
        println!("{kept} records kept, {totals:?}");
        // Sleeps that end before the thread has left its CPU cause no switch.
        assert!(switches > 5_000, "{switches}");
        assert!(kept <= ring.data_bytes as u64 / 32);
        if let Some(lost) = totals.lost {
            // Each switch has two records: out and in.
            assert!(
                kept + lost >= 2 * switches && lost > 0,
                "{switches} switches"
            );
        }
        assert!(totals.running_ns > 0);
    }
}

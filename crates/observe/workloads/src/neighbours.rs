//! Neighbours: load on CPUs that do not measure, while others do.
//!
//! They are threads of this process under the ordinary policy, each bound to a CPU. The file of the
//! I/O neighbour has no name, so nothing of it remains, however this process ends.

use crate::WorkloadError;
use crate::affinity::pin;
use crate::kernel::Kernel;
use idlewave_run::{Neighbour, WorkKernel};
use idlewave_units::{Bytes, Cpu};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Steps of computing between two looks at the halt flag: well below a millisecond.
const STEPS: u64 = 100_000;
/// Bytes that the I/O neighbour writes before it waits for the disk, and the size of its file.
const WRITE: usize = 1 << 20;
const FILE: u64 = 64 << 20;

/// Running neighbours; dropping them ends them.
#[derive(Debug)]
pub struct Neighbours {
    halt: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), WorkloadError>>>,
}

impl Neighbours {
    /// Starts neighbours of these kinds on these CPUs, and returns when all are at work. The kinds are
    /// dealt out over the CPUs in turn; if there are fewer CPUs than kinds, some share one. `array`:
    /// the size of the arrays of a memory neighbour. `place`: a directory for the file of an I/O
    /// neighbour.
    ///
    /// # Errors
    /// A CPU is not allowed, or there is no room for the file.
    pub fn start(
        kinds: &[Neighbour],
        cpus: &[Cpu],
        array: Option<Bytes>,
        place: &Path,
    ) -> Result<Self, WorkloadError> {
        let mut all = Self {
            halt: Arc::default(),
            threads: Vec::new(),
        };
        if kinds.is_empty() || cpus.is_empty() {
            return Ok(all);
        }
        let (report, reports) = mpsc::channel();
        for i in 0..kinds.len().max(cpus.len()) {
            let (kind, cpu) = (kinds[i % kinds.len()], cpus[i % cpus.len()]);
            let (halt, report) = (Arc::clone(&all.halt), report.clone());
            let place = place.to_owned();
            let run = move || {
                pin(cpu)?;
                let failed = |source| WorkloadError::Neighbour {
                    neighbour: kind.name(),
                    source,
                };
                let mut work = Work::new(kind, array, &place).map_err(failed)?;
                while !halt.load(Ordering::Relaxed) {
                    work.go_on().map_err(failed)?;
                    // Whoever started it may no longer listen.
                    let _ = report.send(i);
                }
                Ok(())
            };
            let thread = std::thread::Builder::new().name(format!("iw-load-{}", kind.name()));
            all.threads
                .push(thread.spawn(run).map_err(WorkloadError::Spawn)?);
        }
        drop(report);
        let mut waiting: Vec<usize> = (0..all.threads.len()).collect();
        while !waiting.is_empty() {
            match reports.recv() {
                Ok(i) => waiting.retain(|w| *w != i),
                // All have failed.
                Err(_) => break,
            }
            if all.threads.iter().any(JoinHandle::is_finished) {
                break;
            }
        }
        match waiting.is_empty() {
            true => Ok(all),
            false => Err(all.stop().err().unwrap_or(WorkloadError::Panicked(
                "a neighbour ended early".to_owned(),
            ))),
        }
    }

    /// Ends them.
    ///
    /// # Errors
    /// One of them could not go on.
    pub fn stop(mut self) -> Result<(), WorkloadError> {
        self.halt.store(true, Ordering::Relaxed);
        let mut all = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            let panicked = |_| Err(WorkloadError::Panicked("a neighbour".to_owned()));
            all = all.and(ended.unwrap_or_else(panicked));
        }
        all
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.halt.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Whoever wants to know why it ended calls `stop`.
            let _ = thread.join();
        }
    }
}

/// What a neighbour does.
enum Work {
    Steps(Box<Kernel>),
    Writes { file: File, bytes: Vec<u8>, at: u64 },
}

impl Work {
    fn new(kind: Neighbour, array: Option<Bytes>, place: &Path) -> io::Result<Self> {
        Ok(match kind {
            Neighbour::Cpu => Self::steps(WorkKernel::Integer, None),
            Neighbour::Memory => Self::steps(WorkKernel::Stream, array),
            Neighbour::Io => Self::Writes {
                file: tempfile::tempfile_in(place)?,
                // Not zeros, which some file systems do not store.
                bytes: (0..WRITE).map(|i| (i % 251) as u8).collect(),
                at: 0,
            },
        })
    }

    fn steps(kernel: WorkKernel, array: Option<Bytes>) -> Self {
        Self::Steps(Box::new(Kernel::new(kernel, array)))
    }

    fn go_on(&mut self) -> io::Result<()> {
        match self {
            Self::Steps(work) => work.advance(STEPS),
            Self::Writes { file, bytes, at } => {
                if *at >= FILE {
                    *at = 0;
                    file.seek(SeekFrom::Start(0))?;
                }
                file.write_all(bytes)?;
                file.sync_data()?;
                *at += bytes.len() as u64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn neighbours_work_until_they_are_stopped_and_leave_nothing() {
        let place = tempfile::tempdir().expect("a directory");
        let kinds = [Neighbour::Cpu, Neighbour::Memory, Neighbour::Io];
        let cpu = idlewave_sys::affinity::current();
        let array = Some(Bytes::from_kib(64));
        let all = Neighbours::start(&kinds, &[cpu], array, place.path()).expect("neighbours");
        assert_eq!(all.threads.len(), 3);
        assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), 0);
        all.stop().expect("an orderly end");
    }

    #[test]
    fn a_neighbour_that_cannot_work_says_why() {
        let cpu = idlewave_sys::affinity::current();
        let nowhere = Path::new("/nonexistent");
        let failed = Neighbours::start(&[Neighbour::Cpu, Neighbour::Io], &[cpu], None, nowhere);
        let text = failed.expect_err("no directory").to_string();
        assert!(text.contains("neighbour io"), "{text}");
    }

    #[test]
    fn the_file_does_not_grow_without_end() {
        let place = tempfile::tempdir().expect("a directory");
        let mut work = Work::new(Neighbour::Io, None, place.path()).expect("a file");
        let Work::Writes { at, .. } = &mut work else {
            panic!("it writes");
        };
        *at = FILE;
        work.go_on().expect("a write");
        let Work::Writes { file, at, .. } = &work else {
            panic!("it writes");
        };
        let size = file.metadata().expect("a file").len();
        assert_eq!((*at, size), (WRITE as u64, WRITE as u64));
    }
}

//! The reader thread: copies sub-buffers from the kernel to files, a few times per second.

use super::TraceError;
use idlewave_ftrace::pages_path;
use idlewave_sys::clock::thread_time;
use idlewave_sys::files;
use idlewave_sys::process::own_thread;
use idlewave_units::{Cpu, Nanos, Pid};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the thread: it is a source of noise like any other and must be recognisable in the
/// table.
pub const NAME: &str = "idlewave-reader";
/// Time between two rounds.
const PACE: Duration = Duration::from_millis(150);
/// Sub-buffers collected before they are written to the file.
const GATHER: usize = 32;

/// Report of the reader.
#[derive(Clone, Debug, Default)]
pub struct ReaderReport {
    /// Bytes copied, per CPU in the order given.
    pub bytes: Vec<u64>,
    /// CPU time it took.
    pub cpu_time: Nanos,
}

/// The running reader.
#[derive(Debug)]
pub struct Reader {
    thread: JoinHandle<Result<ReaderReport, TraceError>>,
    finish: mpsc::Sender<()>,
    failed: Arc<AtomicBool>,
    copied: Arc<AtomicU64>,
    tid: Pid,
}

struct Pipe {
    source: File,
    source_path: PathBuf,
    target: File,
    target_path: PathBuf,
    bytes: u64,
}

impl Reader {
    /// Starts the thread. `pipes` are the `trace_pipe_raw` files of the CPUs.
    pub fn start(
        pipes: Vec<(Cpu, PathBuf)>,
        raw_dir: &Path,
        page_size: usize,
    ) -> Result<Self, TraceError> {
        let mut open = Vec::new();
        for (cpu, source_path) in pipes {
            let source = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&source_path)
                .map_err(TraceError::io("open", &source_path))?;
            let target_path = pages_path(raw_dir, cpu);
            let target =
                files::create_over(&target_path).map_err(TraceError::io("create", &target_path))?;
            open.push(Pipe {
                source,
                source_path,
                target,
                target_path,
                bytes: 0,
            });
        }
        let failed = Arc::new(AtomicBool::new(false));
        let (finish, finishing) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let flag = Arc::clone(&failed);
        let copied = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&copied);
        let run = move || {
            let _ = tell.send(own_thread());
            let done = run(open, page_size, &count, &finishing);
            flag.store(done.is_err(), Ordering::Relaxed);
            done
        };
        let thread = std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(run)
            .map_err(TraceError::io("start the reader for", raw_dir))?;
        let tid = told.recv().unwrap_or(Pid::IDLE);
        Ok(Self {
            thread,
            finish,
            failed,
            copied,
            tid,
        })
    }

    /// Its thread number.
    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Whether it failed: the disk may be full.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Bytes copied, all CPUs together.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Reads the rest, and ends the thread.
    pub fn finish(self) -> Result<ReaderReport, TraceError> {
        // It may have ended with an error, which join returns.
        let _ = self.finish.send(());
        match self.thread.join() {
            Ok(done) => done,
            Err(_) => Err(TraceError::Io {
                action: "run",
                path: PathBuf::from(NAME),
                source: io::Error::other("the thread panicked"),
            }),
        }
    }
}

fn run(
    mut pipes: Vec<Pipe>,
    page_size: usize,
    copied: &AtomicU64,
    finish: &mpsc::Receiver<()>,
) -> Result<ReaderReport, TraceError> {
    let mut buffer = vec![0_u8; page_size * GATHER];
    loop {
        let last = !matches!(
            finish.recv_timeout(PACE),
            Err(mpsc::RecvTimeoutError::Timeout)
        );
        for pipe in &mut pipes {
            pipe.drain(&mut buffer, page_size)?;
        }
        copied.store(pipes.iter().map(|p| p.bytes).sum(), Ordering::Relaxed);
        if last {
            break;
        }
    }
    Ok(ReaderReport {
        bytes: pipes.iter().map(|p| p.bytes).collect(),
        cpu_time: thread_time(),
    })
}

impl Pipe {
    /// Copies all available sub-buffers. One read returns at most one; for a partly filled
    /// sub-buffer, it returns what that holds so far.
    fn drain(&mut self, buffer: &mut [u8], page_size: usize) -> Result<(), TraceError> {
        loop {
            let mut filled = 0;
            let mut more = true;
            while more && filled + page_size <= buffer.len() {
                match self.source.read(&mut buffer[filled..filled + page_size]) {
                    Ok(0) => more = false,
                    Ok(n) => filled += n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => more = false,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(TraceError::io("read", &self.source_path)(e)),
                }
            }
            self.target
                .write_all(&buffer[..filled])
                .map_err(TraceError::io("write", &self.target_path))?;
            self.bytes += filled as u64;
            if !more {
                return Ok(());
            }
        }
    }
}

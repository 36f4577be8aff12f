//! The reader thread: moves sub-buffers from the kernel to files, a few times per second.

use super::TraceError;
use idlewave_ftrace::pages_path;
use idlewave_units::{Cpu, Nanos, Pid};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the thread: it is a source of noise like any other and is to be found in the table.
pub const NAME: &str = "idlewave-reader";
/// Time between two rounds.
const PACE: Duration = Duration::from_millis(150);
/// Sub-buffers gathered before they are written to the file.
const GATHER: usize = 32;

/// What the reader has done.
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
                File::create(&target_path).map_err(TraceError::io("create", &target_path))?;
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
        let run = move || {
            // SAFETY: takes nothing, cannot fail.
            let _ = tell.send(Pid::new(unsafe { libc::gettid() } as u32));
            let done = run(open, page_size, &finishing);
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
            tid,
        })
    }

    /// Its thread number.
    pub fn tid(&self) -> Pid {
        self.tid
    }

    /// Whether it gave up: the disk may be full.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Lets it read what is left, and ends it.
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
        if last {
            break;
        }
    }
    Ok(ReaderReport {
        bytes: pipes.iter().map(|p| p.bytes).collect(),
        cpu_time: thread_cpu_time(),
    })
}

impl Pipe {
    /// Copies all sub-buffers that are there. One read gives at most one, and of a sub-buffer that is still
    /// being filled what is in it so far.
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

/// CPU time of the calling thread.
fn thread_cpu_time() -> Nanos {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec; the call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

//! The layout of the directory `raw/` of a bundle: what the recorder leaves for the decoder.
//!
//! ```text
//! raw/capture.json                 RawCapture
//! raw/header_page                  copy of tracefs events/header_page
//! raw/formats/<system>/<event>     copies of tracefs events/<system>/<event>/format
//! raw/cpu<N>.pages                 sub-buffers of CPU N, in order, as read from trace_pipe_raw
//! ```
//! The recorder saves `capture.json` twice: when tracing begins and again when it has ended. If it
//! is killed in between, the first version stays, and the last sub-buffer of a CPU may be cut
//! short.

use crate::FtraceError;
use idlewave_sys::files;
use idlewave_units::foreign::misfit;
use idlewave_units::{Cpu, Pid};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Longest `capture.json` in bytes; a longer one is damage.
const LONGEST: u64 = 1 << 30;

/// What is known about a raw capture besides the sub-buffers: `raw/capture.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCapture {
    /// Size of a sub-buffer in bytes, its header included (`buffer_subbuf_size_kb`, or one memory
    /// page).
    pub page_size: u32,
    /// The trace clock; only `mono` (CLOCK_MONOTONIC) can be decoded.
    pub clock: String,
    /// The CPUs recorded, ascending.
    pub cpus: Vec<Cpu>,
    /// Byte order of the recorded machine.
    pub little_endian: bool,
    /// Size of the recorded kernel's `long` in bytes: 4 or 8.
    pub long_bytes: u8,
    /// When tracing was switched on, CLOCK_MONOTONIC nanoseconds.
    pub on_ns: u64,
    /// When tracing was switched off; `None` while it is on, or if the recorder was killed.
    pub off_ns: Option<u64>,
    /// Final statistics of the ring buffer, per CPU; empty while tracing is on, or if the recorder
    /// was killed.
    #[serde(default)]
    pub stats: Vec<CpuStats>,
    /// The threads of the machine, as far as they could be listed.
    #[serde(default)]
    pub tasks: Vec<RawTask>,
}

/// The ring buffer's own account of one CPU (tracefs `per_cpu/cpuN/stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStats {
    /// The CPU.
    pub cpu: Cpu,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost to a writer that was interrupted for too long.
    pub commit_overrun: u64,
    /// Events not written because the buffer was full.
    pub dropped: u64,
    /// Bytes copied to `cpuN.pages`.
    pub bytes: u64,
}

impl CpuStats {
    /// All events lost.
    pub fn lost(&self) -> u64 {
        self.overrun
            .saturating_add(self.commit_overrun)
            .saturating_add(self.dropped)
    }
}

/// A thread, as listed by the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawTask {
    /// The thread.
    pub pid: Pid,
    /// Its process (thread group), if it could be read.
    pub process: Option<Pid>,
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Whether it is a rank of the run.
    pub rank: bool,
    /// Whether it belongs to idlewave without being a rank.
    pub own: bool,
    /// Whether it belongs to a recorded program; then so do all threads that it starts.
    #[serde(default)]
    pub program: bool,
}

impl RawCapture {
    /// Writes `capture.json` into `raw_dir`, which must exist. Readers see the old file or the new
    /// one.
    pub fn save(&self, raw_dir: &Path) -> Result<(), FtraceError> {
        let path = capture_path(raw_dir);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| FtraceError::Capture {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        text.push('\n');
        files::replace_on_disk(&path, text.as_bytes()).map_err(FtraceError::io("write", &path))
    }

    /// Reads `capture.json`, even the first version that a killed recorder left.
    pub fn load(raw_dir: &Path) -> Result<Self, FtraceError> {
        let path = capture_path(raw_dir);
        let text = files::read_text(&path, LONGEST).map_err(FtraceError::io("read", &path))?;
        serde_json::from_str(&text).map_err(|e| FtraceError::Capture {
            path,
            reason: misfit(&e.to_string()),
        })
    }

    /// The final statistics of a CPU, if the recorder got to write them.
    pub fn stats_of(&self, cpu: Cpu) -> Option<&CpuStats> {
        self.stats.iter().find(|s| s.cpu == cpu)
    }
}

/// `raw/capture.json`.
pub fn capture_path(raw_dir: &Path) -> PathBuf {
    raw_dir.join("capture.json")
}

/// `raw/header_page`: the copy of tracefs `events/header_page`.
///
/// The kernel returns this file in one `read` only: a second one, at an offset, gets nothing
/// (`show_header` in `kernel/trace/trace_events.c`). `std::fs::read` begins with 32 bytes and gets
/// only these: use one call and a buffer of a memory page.
pub fn header_page_path(raw_dir: &Path) -> PathBuf {
    raw_dir.join("header_page")
}

/// `raw/formats/<system>/<event>`: the copy of tracefs `events/<system>/<event>/format`.
pub fn format_path(raw_dir: &Path, system: &str, event: &str) -> PathBuf {
    raw_dir.join("formats").join(system).join(event)
}

/// `raw/cpu<N>.pages`: the sub-buffers of one CPU.
pub fn pages_path(raw_dir: &Path, cpu: Cpu) -> PathBuf {
    raw_dir.join(format!("cpu{}.pages", cpu.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn capture() -> RawCapture {
        RawCapture {
            page_size: 4096,
            clock: "mono".to_owned(),
            cpus: vec![Cpu::new(0), Cpu::new(3)],
            little_endian: true,
            long_bytes: 8,
            on_ns: 17,
            off_ns: None,
            stats: Vec::new(),
            tasks: vec![RawTask {
                pid: Pid::new(12),
                process: Some(Pid::new(10)),
                name: "crond".to_owned(),
                kernel: false,
                rank: false,
                own: false,
                program: false,
            }],
        }
    }

    #[test]
    fn a_capture_reads_back_as_written_and_the_second_save_replaces_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = capture();
        capture.save(dir.path()).unwrap();
        assert_eq!(RawCapture::load(dir.path()).unwrap(), capture);
        capture.off_ns = Some(99);
        capture.stats.push(CpuStats {
            cpu: Cpu::new(3),
            overrun: 1,
            commit_overrun: 2,
            dropped: 4,
            bytes: 8192,
        });
        capture.save(dir.path()).unwrap();
        let back = RawCapture::load(dir.path()).unwrap();
        assert_eq!(back, capture);
        assert_eq!(back.stats_of(Cpu::new(3)).unwrap().lost(), 7);
        assert_eq!(back.stats_of(Cpu::new(0)), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_capture_without_statistics_and_tasks_loads() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"page_size":4096,"clock":"mono","cpus":[0],"little_endian":true,
            "long_bytes":8,"on_ns":5,"off_ns":null}"#;
        fs::write(capture_path(dir.path()), text).unwrap();
        let capture = RawCapture::load(dir.path()).unwrap();
        assert!(capture.stats.is_empty() && capture.tasks.is_empty() && capture.off_ns.is_none());
    }

    #[test]
    fn a_capture_that_is_not_one_is_named_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = RawCapture::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("capture.json"), "{error}");
        fs::write(capture_path(dir.path()), "{").unwrap();
        let error = RawCapture::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}

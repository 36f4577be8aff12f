//! Detects the format of a file by its content.

use crate::import::error::ImportError;
use crate::import::kernel::{aix, ctf, perf, perfetto, text};
use crate::import::{kineto, otf2, paraver, start};
use idlewave_ftrace::capture_path;
use std::path::{Path, PathBuf};

/// First bytes of a trace.dat.
pub(crate) const DAT_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// A format that can be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// A trace of the kernel.
    Kernel(Recorder),
    /// Paraver's .prv.
    Paraver,
    /// An OTF2 archive with this anchor.
    Otf2(PathBuf),
    /// Traces of PyTorch's profiler: these files, one for each rank.
    Kineto(Vec<PathBuf>),
}

/// A format of kernel traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// A file of trace-cmd.
    Dat,
    /// A directory of raw sub-buffers as idlewave records it.
    Raw(PathBuf),
    /// What perf record writes.
    PerfData,
    /// The directory of a kernel trace in CTF, as LTTng writes it.
    Ctf(PathBuf),
    /// Text of tracefs, trace-cmd report or perf script.
    Text,
    /// The report of AIX's trcrpt.
    Aix,
    /// Perfetto's protobuf.
    Perfetto,
}

/// Formats that are recognised but not read: first bytes, name, what to do instead.
const OTHERS: &[(&[u8], &str, &str)] = &[
    (
        b"PERFFILE",
        "it is a perf.data of before Linux 3.4",
        "write it as text with `perf script --ns -i FILE > FILE.txt` and import that",
    ),
    (
        b"\x1f\x8b",
        "it is compressed with gzip",
        "unpack it with gunzip and import the result",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "it is compressed with Zstandard",
        "unpack it with unzstd and import the result",
    ),
    (
        b"\xfd7zXZ\0",
        "it is compressed with xz",
        "unpack it with unxz and import the result",
    ),
    (
        b"\x7fELF",
        "it is a program, not a trace",
        "give the trace file",
    ),
];

/// Detects what `path` is.
///
/// # Errors
/// It cannot be read, or has no known format.
pub fn detect(path: &Path) -> Result<Format, ImportError> {
    if path.is_dir() {
        return directory(path);
    }
    let start = start::of_file(path)?;
    if otf2::is_anchor(&start) {
        return Ok(Format::Otf2(path.to_owned()));
    }
    if kineto::is_trace(&start) {
        return Ok(Format::Kineto(vec![path.to_owned()]));
    }
    of_start(&start).map_err(|(reason, next)| ImportError::Format {
        path: path.to_owned(),
        reason,
        next,
    })
}

fn directory(path: &Path) -> Result<Format, ImportError> {
    let inner = path.join("raw");
    for candidate in [path, &inner] {
        if capture_path(candidate).is_file() {
            return Ok(Format::Kernel(Recorder::Raw(candidate.to_owned())));
        }
    }
    if let Some(trace) = ctf::find(path)? {
        return Ok(Format::Kernel(Recorder::Ctf(trace)));
    }
    let traces = kineto::of_directory(path)?;
    if !traces.is_empty() {
        return Ok(Format::Kineto(traces));
    }
    let mut anchors = otf2::inside(path);
    if let (1, Some(anchor)) = (anchors.len(), anchors.pop()) {
        return Ok(Format::Otf2(anchor));
    }
    let has = |name| path.join(name).is_file();
    let (reason, next) = if !anchors.is_empty() {
        (
            "it holds several OTF2 archives",
            "give the file that ends with .otf2 of one of them",
        )
    } else if has("data.0") {
        (
            "it is a directory of perf record --threads, which is not read",
            "write it as text with `perf script --ns -i DIRECTORY > FILE.txt` and import that",
        )
    } else if has("run.json") {
        (
            "it is a run, but without a directory raw/ as a recording of the kernel has it",
            "read the run as it is, with `idlewave explain` or `idlewave report`",
        )
    } else {
        (
            "the directory holds neither a capture.json, a CTF trace, an OTF2 archive nor traces of PyTorch's profiler",
            "give a trace file, the directory of an LTTng session, or the directory raw/ of a run",
        )
    };
    Err(ImportError::Format {
        path: path.to_owned(),
        reason: reason.to_owned(),
        next: next.to_owned(),
    })
}

/// The format of a file that starts with these bytes; otherwise the reason and the next step.
fn of_start(start: &[u8]) -> Result<Format, (String, String)> {
    if start.starts_with(DAT_MAGIC) {
        return Ok(Format::Kernel(Recorder::Dat));
    }
    if start.starts_with(paraver::MAGIC) {
        return Ok(Format::Paraver);
    }
    if perf::is_perf_data(start) {
        return Ok(Format::Kernel(Recorder::PerfData));
    }
    for (magic, reason, next) in OTHERS {
        if start.starts_with(magic) {
            return Err(((*reason).to_owned(), (*next).to_owned()));
        }
    }
    if ctf::is_metadata(start) {
        let reason = "it is the metadata of a CTF trace".to_owned();
        return Err((reason, "give the directory that it is in".to_owned()));
    }
    if start.is_empty() {
        let next = "record again: nothing was written to it".to_owned();
        return Err(("it is empty".to_owned(), next));
    }
    if start.trim_ascii_start().starts_with(b"{") {
        let next = "give traces of torch.profiler, as export_chrome_trace writes them";
        let reason = "it is JSON, but not of PyTorch's profiler";
        return Err((reason.to_owned(), next.to_owned()));
    }
    if start.split(|b| *b == b'\n').any(text::is_event) {
        return Ok(Format::Kernel(Recorder::Text));
    }
    if start.split(|b| *b == b'\n').any(aix::is_header) {
        return Ok(Format::Kernel(Recorder::Aix));
    }
    // After the text formats, because its first byte is a newline.
    if perfetto::is_trace(start) {
        return Ok(Format::Kernel(Recorder::Perfetto));
    }
    if otf2::is_part(start) {
        let next = "give the archive's NAME.otf2, or the directory that holds it";
        let reason = "it is only a part of an OTF2 archive";
        return Err((reason.to_owned(), next.to_owned()));
    }
    let reason = match start.contains(&0) {
        true => "it has no known format",
        false => "none of its first lines is an event with a CPU and a time",
    };
    let next = "give a trace.dat, a perf.data, a directory of LTTng or raw/, a Perfetto, Paraver or OTF2 trace, \
                traces of PyTorch's profiler, or text of `trace-cmd report`, `perf script`, tracefs or AIX's `trcrpt`; \
                docs/import.md shows each";
    Err((reason.to_owned(), next.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_content() {
        assert_eq!(
            of_start(b"\x17\x08\x44tracing6\0"),
            Ok(Format::Kernel(Recorder::Dat))
        );
        for magic in [b"PERFILE2", b"2ELIFREP"] {
            assert_eq!(of_start(magic), Ok(Format::Kernel(Recorder::PerfData)));
        }
        let line = b"# tracer: nop\n  sh-1 [001] d..2. 3458.296365: sched_switch: x\n";
        assert_eq!(of_start(line), Ok(Format::Kernel(Recorder::Text)));
        let report = b"Thu Oct 28 13:34:05 1999\n\nID  PID  ELAPSED_SEC  DELTA_MSEC  APPL\n";
        assert_eq!(of_start(report), Ok(Format::Kernel(Recorder::Aix)));
        assert_eq!(
            of_start(b"\x0a\x04\x40\0\x50\x01"),
            Ok(Format::Kernel(Recorder::Perfetto))
        );
        assert_eq!(of_start(b"#Paraver (01/02/2026 at"), Ok(Format::Paraver));
        let refused = |bytes: &[u8]| of_start(bytes).unwrap_err();
        assert!(refused(b"PERFFILE....").1.contains("perf script --ns"));
        assert!(refused(b"\x1f\x8b\x08").0.contains("gzip"));
        assert!(refused(b"").0.contains("empty"));
        assert!(
            refused(b"hello\nworld\n")
                .0
                .contains("none of its first lines")
        );
        assert!(refused(b"\x03\x42\0\0").1.contains("NAME.otf2"));
        assert!(refused(b"\0\x01\x02").0.contains("no known format"));
    }
}

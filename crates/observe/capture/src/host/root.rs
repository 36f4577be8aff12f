//! Reads small files below a root directory: the live `/`, or a fake one in tests.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Most bytes read of one file: /proc/interrupts of a node with 512 CPUs and 2,000 interrupts has
/// about 12 MiB.
pub(crate) const FILE_CAP: usize = 32 << 20;

/// Most directory entries examined; the kernel's default limit on threads is lower.
pub(crate) const ENTRY_CAP: usize = 1 << 20;

/// A directory used as `/`.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    path: PathBuf,
}

impl Root {
    /// `path` is `/` for the live machine.
    pub(crate) fn new(path: &Path) -> Self {
        Root {
            path: path.to_owned(),
        }
    }

    /// Whether this is the live machine, so that system calls and files agree.
    pub(crate) fn is_live(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The path below the root; leading slashes of `relative` do not lead out of it.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        let inside = relative
            .split('/')
            .filter(|part| !matches!(*part, "" | "." | ".."));
        inside.fold(self.path.clone(), |path, part| path.join(part))
    }

    /// The bytes of a file: `Ok(None)` if it does not exist, an error with the reason if it cannot
    /// be read. Cut at `cap` bytes.
    pub(crate) fn bytes(&self, relative: &str, cap: usize) -> Result<Option<Vec<u8>>, String> {
        let mut buffer = Vec::new();
        let read = File::open(self.path(relative))
            .and_then(|file| file.take(cap as u64).read_to_end(&mut buffer));
        match read {
            Ok(_) => Ok(Some(buffer)),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(format!(
                "/{}: {}",
                relative.trim_start_matches('/'),
                reason(&e)
            )),
        }
    }

    /// Like [`bytes`](Self::bytes), as text; invalid bytes become U+FFFD. A file longer than the
    /// cap ends with its last complete line.
    pub(crate) fn text(&self, relative: &str) -> Result<Option<String>, String> {
        self.text_up_to(relative, FILE_CAP)
    }

    /// Like [`text`](Self::text) with another cap.
    pub(crate) fn text_up_to(&self, relative: &str, cap: usize) -> Result<Option<String>, String> {
        let Some(mut bytes) = self.bytes(relative, cap)? else {
            return Ok(None);
        };
        if bytes.len() == cap {
            let end = bytes.iter().rposition(|b| *b == b'\n').unwrap_or(0);
            bytes.truncate(end);
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Names in a directory, unsorted; empty if it cannot be read.
    pub(crate) fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else {
            return Vec::new();
        };
        entries
            .take(ENTRY_CAP)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    /// Numbers among the names in a directory, ascending: processes of /proc, threads of a process.
    pub(crate) fn numbers(&self, relative: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .names(relative)
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Whether an error means that this machine lacks the feature, as opposed to denied access. ENODEV
/// and EOPNOTSUPP come from files whose feature is compiled in but off.
fn is_absent(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || matches!(
            error.raw_os_error(),
            Some(libc::ENOTDIR | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP | libc::ESRCH)
        )
}

/// The reason in words, without "(os error 13)".
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.to_lowercase()
}

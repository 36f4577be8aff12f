//! Where tracefs is.

use super::TraceError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Usual places, newest first.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
/// `fsconfig` command: create the file system (include/uapi/linux/mount.h).
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// A tracefs that can be reached.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Holds a mount that is nowhere attached: it goes away with this process, however that ends.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds a mounted tracefs below `root`; if there is none and `root` is the machine's own, mounts one
    /// that only this process can reach.
    ///
    /// # Errors
    /// There is none, or this process may not use it.
    pub fn find(root: &Path) -> Result<Self, TraceError> {
        let mounted = PLACES
            .iter()
            .map(|place| root.join(place))
            .find(|p| is_tracefs(p));
        match mounted {
            Some(root) => Ok(Self { root, _mount: None }),
            None if root == Path::new("/") => Self::detached(),
            None => Err(TraceError::Absent("it is not mounted".to_owned())),
        }
    }

    /// Mounts tracefs without attaching it to any directory (fsopen(2), fsmount(2); Linux 5.2).
    ///
    /// # Errors
    /// The kernel has none, is older, or this process lacks CAP_SYS_ADMIN.
    pub fn detached() -> Result<Self, TraceError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => TraceError::NotPermitted {
                path: PathBuf::from("mount of tracefs"),
                source,
            },
            _ => TraceError::Absent(format!("it is not mounted and cannot be: {source}")),
        };
        // SAFETY: the name is a string with its end; the flags ask for nothing but close-on-exec.
        let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) };
        let context = owned(context).map_err(refused)?;
        let no_string = std::ptr::null::<libc::c_char>();
        // SAFETY: this command takes neither key nor value.
        let created = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                FSCONFIG_CMD_CREATE,
                no_string,
                no_string,
                0,
            )
        };
        if created != 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: takes the context by number; flags ask for close-on-exec, attributes for none.
        let mount = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) };
        let mount = owned(mount).map_err(refused)?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self {
            root,
            _mount: Some(mount),
        })
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(fd) {
        // SAFETY: the system call has just given it to us, and nobody else knows of it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A directory that is there but empty is a mount point without tracefs. One that cannot be read is
/// taken for tracefs, so that the reason given is that it is not permitted.
fn is_tracefs(path: &Path) -> bool {
    match std::fs::metadata(path.join("instances")) {
        Ok(metadata) => metadata.is_dir(),
        Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
    }
}

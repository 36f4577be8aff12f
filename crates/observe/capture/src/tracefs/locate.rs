//! Finds tracefs.

use super::TraceError;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Usual places, newest first.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// A tracefs that this process can reach.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Holds a detached mount, which disappears with this process however it ends.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds a mounted tracefs below `root`; if there is none and `root` is the live machine,
    /// mounts one that only this process can reach.
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

    /// Mounts tracefs without attaching it to a directory (fsopen(2), fsmount(2); Linux 5.2).
    ///
    /// # Errors
    /// The kernel has none or is older, or this process lacks CAP_SYS_ADMIN.
    pub fn detached() -> Result<Self, TraceError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => TraceError::NotPermitted {
                path: PathBuf::from("mount of tracefs"),
                source,
            },
            _ => TraceError::Absent(format!(
                "it is not mounted, and mounting it failed: {source}"
            )),
        };
        let mount = || {
            let context = fsopen(c"tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            fsmount(
                &context,
                FsMountFlags::FSMOUNT_CLOEXEC,
                MountAttrFlags::empty(),
            )
        };
        let mount = mount().map_err(|error| refused(error.into()))?;
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

/// A directory that is there but empty is a mount point without tracefs. One that cannot be read is
/// taken for tracefs, so that the reported reason is missing permission.
fn is_tracefs(path: &Path) -> bool {
    match std::fs::metadata(path.join("instances")) {
        Ok(metadata) => metadata.is_dir(),
        Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
    }
}

//! Directories into which only this user can put anything: those of sockets, logs, locks and shared
//! memory.
//!
//! If the name of such a directory can be guessed, as in /tmp, another user may have created it
//! first, with links and sockets in it. So it is used only after the kernel has confirmed what it
//! is: a directory and not a link, owned by this user, without excess rights for others, in a place
//! where no one else can replace it.

use crate::uid::Uid;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The rights of other users in a directory. They may never write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None.
    Nobody,
    /// Enter it and open names that they know.
    Passing,
    /// List it and open what is in it.
    Reading,
}

impl Access {
    /// The permissions with which it is created.
    const fn mode(self) -> u32 {
        match self {
            Access::Nobody => 0o700,
            Access::Passing => 0o711,
            Access::Reading => 0o755,
        }
    }
}

/// Why a directory is not used.
#[derive(Debug)]
pub enum PrivateDirError {
    /// It cannot be created or inspected.
    Io {
        /// `create` or `open`.
        doing: &'static str,
        /// Its path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It is a link, a file or something else.
    NoDirectory(PathBuf),
    /// Someone else created it.
    Foreign {
        /// Its path.
        path: PathBuf,
        /// Its owner.
        owner: Uid,
    },
    /// Others have rights in it that they should not have.
    Open {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The most permissions that are safe.
        most: u32,
    },
    /// Others can replace it, because of the directory above.
    Exposed {
        /// The directory above.
        above: PathBuf,
        /// Its owner.
        owner: Uid,
        /// Its permissions.
        mode: u32,
    },
}

impl std::fmt::Display for PrivateDirError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PrivateDirError::Io {
                doing,
                path,
                source,
            } => write!(out, "{doing} {}: {source}", path.display()),
            PrivateDirError::NoDirectory(path) => {
                write!(out, "use {}: it is not a directory", path.display())
            }
            PrivateDirError::Foreign { path, owner } => write!(
                out,
                "use {}: it belongs to user {owner}, not to user {}",
                path.display(),
                Uid::own()
            ),
            PrivateDirError::Open { path, mode, most } => write!(
                out,
                "use {}: its mode {mode:03o} gives other users access (safe: {most:03o} or less)",
                path.display()
            ),
            PrivateDirError::Exposed { above, owner, mode } => write!(
                out,
                "use a directory in {}: user {owner} or others can replace it there (mode {mode:04o})",
                above.display()
            ),
        }
    }
}

impl std::error::Error for PrivateDirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PrivateDirError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<PrivateDirError> for io::Error {
    fn from(error: PrivateDirError) -> Self {
        let kind = match &error {
            PrivateDirError::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, error)
    }
}

/// A directory that was found to be safe.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    directory: File,
}

impl PrivateDir {
    /// Creates it, or uses the existing one if it is safe.
    ///
    /// # Errors
    /// It cannot be created, or is not safe; then nothing in it was touched.
    pub fn make(path: &Path, access: Access) -> Result<Self, PrivateDirError> {
        match fs::DirBuilder::new().mode(access.mode()).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(PrivateDirError::Io {
                    doing: "create",
                    path: path.to_owned(),
                    source: error,
                });
            }
            _ => {}
        }
        Self::open(path, access)
    }

    /// Uses an existing directory if it is safe.
    ///
    /// # Errors
    /// It does not exist, or is not safe.
    pub fn open(path: &Path, access: Access) -> Result<Self, PrivateDirError> {
        let failed = |source: io::Error| PrivateDirError::Io {
            doing: "open",
            path: path.to_owned(),
            source,
        };
        // The name is resolved once; all checks apply to the open directory.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory: File = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(directory) => directory.into(),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                return Err(PrivateDirError::NoDirectory(path.to_owned()));
            }
            Err(rustix::io::Errno::ACCESS) => {
                // A user can open their own directory, so this one belongs to someone else or is
                // closed to its owner.
                let owner = Uid::of(&fs::symlink_metadata(path).map_err(failed)?);
                return Err(match owner == Uid::own() {
                    true => failed(rustix::io::Errno::ACCESS.into()),
                    false => PrivateDirError::Foreign {
                        path: path.to_owned(),
                        owner,
                    },
                });
            }
            Err(error) => return Err(failed(error.into())),
        };
        let about = directory.metadata().map_err(failed)?;
        if Uid::of(&about) != Uid::own() {
            return Err(PrivateDirError::Foreign {
                path: path.to_owned(),
                owner: Uid::of(&about),
            });
        }
        let mode = about.mode() & 0o777;
        if mode & !access.mode() & 0o077 != 0 {
            return Err(PrivateDirError::Open {
                path: path.to_owned(),
                mode,
                most: access.mode(),
            });
        }
        check_above(path)?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory; a lock on it holds whatever its name becomes.
    pub fn directory(&self) -> &File {
        &self.directory
    }
}

/// Any user with write access to the directory above can replace its entries, unless it is sticky
/// (`inode(7)`).
fn check_above(path: &Path) -> Result<(), PrivateDirError> {
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    let about = fs::metadata(above).map_err(|source| PrivateDirError::Io {
        doing: "open",
        path: above.to_owned(),
        source,
    })?;
    let (owner, mode) = (Uid::of(&about), about.mode() & 0o7777);
    let sticky = mode & 0o1000 != 0;
    let trusted = [Uid::own(), Uid::ROOT, unmapped()].contains(&owner);
    if trusted && (mode & 0o022 == 0 || sticky) {
        return Ok(());
    }
    Err(PrivateDirError::Exposed {
        above: above.to_owned(),
        owner,
        mode,
    })
}

/// The user that the kernel reports for users unknown in this user namespace; in unprivileged
/// containers root of the machine is one of them (`user_namespaces(7)`).
fn unmapped() -> Uid {
    let text = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    Uid::new(text.trim().parse().unwrap_or(65_534))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn refused(path: &Path, access: Access) -> String {
        let made = PrivateDir::make(path, access).unwrap_err().to_string();
        assert_eq!(
            made,
            PrivateDir::open(path, access).unwrap_err().to_string()
        );
        made
    }

    #[test]
    fn a_new_directory_is_the_users_alone_and_is_taken_again() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("own");
        assert!(matches!(
            PrivateDir::open(&path, Access::Nobody),
            Err(PrivateDirError::Io { .. })
        ));
        for access in [Access::Nobody, Access::Passing, Access::Reading] {
            let made = PrivateDir::make(&path, access).unwrap();
            assert_eq!(made.path(), path);
            let mode = made.directory().metadata().unwrap().mode() & 0o777;
            assert_eq!(mode & !access.mode(), 0);
        }
    }

    #[test]
    fn what_lets_others_in_is_refused_and_left_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("open");
        fs::create_dir(&path).unwrap();
        for (mode, nobody, reading) in [
            (0o700, true, true),
            (0o711, false, true),
            (0o755, false, true),
            (0o770, false, false),
            (0o777, false, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let safe = |access| PrivateDir::make(&path, access).is_ok();
            assert_eq!(safe(Access::Nobody), nobody, "{mode:o}");
            assert_eq!(safe(Access::Reading), reading, "{mode:o}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
        }
        let said = refused(&path, Access::Nobody);
        assert!(said.ends_with("its mode 777 gives other users access (safe: 700 or less)"));
    }

    #[test]
    fn a_link_or_a_file_is_no_directory_wherever_it_leads() {
        let base = tempfile::tempdir().unwrap();
        let own = base.path().join("own");
        PrivateDir::make(&own, Access::Nobody).unwrap();
        symlink(&own, base.path().join("link")).unwrap();
        fs::write(base.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            let said = refused(&base.path().join(name), Access::Nobody);
            assert!(said.ends_with("it is not a directory"), "{said}");
        }
    }

    #[test]
    fn what_another_user_has_made_or_can_exchange_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("theirs");
        PrivateDir::make(&path, Access::Nobody).unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let said = refused(&path, Access::Nobody);
        assert!(said.contains("can replace it there (mode 0777)"), "{said}");
        // Like /tmp.
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        PrivateDir::make(&path, Access::Nobody).unwrap();
        if Uid::own() != Uid::ROOT {
            println!("skipped: only root can create a directory of another user");
            return;
        }
        chown(&path, Some(4_711), None).unwrap();
        let said = refused(&path, Access::Nobody);
        assert!(
            said.ends_with("it belongs to user 4711, not to user 0"),
            "{said}"
        );
        chown(&path, Some(0), None).unwrap();
        chown(base.path(), Some(4_711), None).unwrap();
        let said = refused(&path, Access::Nobody);
        assert!(said.contains("user 4711 or others can replace"), "{said}");
    }
}

//! The right to serve at a control socket. Only its holder creates, replaces or removes what is at
//! the socket's path and beside it (key, log, sockets of agents), so that two services that start
//! at once cannot interfere.

use idlewave_sys::lock_file::LockFile;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The right, for as long as this lives: a lock beside the socket, `NAME.lock`.
#[derive(Debug)]
pub struct Seat {
    path: PathBuf,
    _lock: LockFile,
}

impl Seat {
    /// Takes the right to serve at `path`.
    ///
    /// # Errors
    /// Another service is active there, or starting; the lock cannot be created.
    pub fn take(path: &Path) -> io::Result<Seat> {
        let served = || {
            let why = "a gang service is already running there";
            io::Error::new(io::ErrorKind::AddrInUse, why)
        };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let lock = LockFile::take(&path.with_file_name(name))?.ok_or_else(served)?;
        // A service of an earlier version has no lock.
        if UnixStream::connect(path).is_ok() {
            return Err(served());
        }
        let path = path.to_owned();
        Ok(Seat { path, _lock: lock })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens there; an abandoned socket is replaced. With `all` every user of the machine may
    /// connect.
    ///
    /// # Errors
    /// The socket cannot be created, or another kind of file is there.
    pub(crate) fn listen(&self, all: bool) -> io::Result<UnixListener> {
        let path = &self.path;
        if let Ok(meta) = fs::symlink_metadata(path) {
            if !meta.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "the file there is not a socket",
                ));
            }
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let mode = if all { 0o666 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn of_those_that_start_at_once_one_serves_and_its_socket_is_there() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..40 {
            let path = directory.path().join(format!("control{round}"));
            let start = Barrier::new(4);
            let served: Vec<_> = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    let clients = crate::Clients::listen(&path, false);
                    // Until all have tried.
                    start.wait();
                    clients
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
                all.into_iter()
                    .filter_map(|t| t.join().unwrap().ok())
                    .collect()
            });
            assert_eq!(served.len(), 1, "round {round}");
            UnixStream::connect(&path).unwrap();
            drop(served);
            let left = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(left, 0, "round {round}");
        }
    }
}

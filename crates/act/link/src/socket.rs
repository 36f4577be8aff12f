//! The socket of a link: UDP, or a Unix datagram socket.

use crate::address::Address;
use crate::error::LinkError;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Device and inode of a file.
type Identity = (u64, u64);

#[derive(Debug)]
pub(crate) enum Socket {
    Udp(UdpSocket),
    Unix {
        socket: UnixDatagram,
        path: PathBuf,
        file: Identity,
    },
}

impl Socket {
    /// A non-blocking socket, and its address with the port that the kernel chose.
    pub(crate) fn bind(address: &Address) -> Result<(Self, Address), LinkError> {
        let failed = |why: String| LinkError::Bind {
            address: address.clone(),
            why,
        };
        match address {
            Address::Udp(wanted) => {
                let bound = || -> io::Result<_> {
                    let socket = UdpSocket::bind(wanted)?;
                    socket.set_nonblocking(true)?;
                    let given = socket.local_addr()?;
                    Ok((Socket::Udp(socket), Address::Udp(given)))
                };
                bound().map_err(|error| failed(error.to_string()))
            }
            Address::Unix(path) => {
                remove_stale(path).map_err(failed)?;
                let bound = || -> io::Result<_> {
                    let socket = bind_private(path)?;
                    socket.set_nonblocking(true)?;
                    let file = identity(path)?;
                    let path = path.clone();
                    Ok(Socket::Unix { socket, path, file })
                };
                let socket = bound().map_err(|error| failed(error.to_string()))?;
                Ok((socket, address.clone()))
            }
        }
    }

    /// Whether the kernel accepted the datagram; it may still be lost.
    pub(crate) fn send(&self, datagram: &[u8], to: &Address) -> io::Result<bool> {
        let sent = match (self, to) {
            (Socket::Udp(socket), Address::Udp(to)) => socket.send_to(datagram, to),
            (Socket::Unix { socket, .. }, Address::Unix(to)) => socket.send_to(datagram, to),
            (Socket::Udp(_), Address::Unix(_)) => {
                return Err(io::Error::other("a link of UDP does not reach a file"));
            }
            (Socket::Unix { .. }, Address::Udp(_)) => {
                return Err(io::Error::other("a link of files does not reach a port"));
            }
        };
        match sent {
            Ok(_) => Ok(true),
            Err(error) if is_loss(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The length of the next datagram, and its sender's address if it has one; `None` if none is
    /// waiting.
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, Option<Address>)>> {
        let received = match self {
            Socket::Udp(socket) => socket
                .recv_from(buffer)
                .map(|(length, from)| (length, Some(Address::Udp(from)))),
            Socket::Unix { socket, .. } => socket.recv_from(buffer).map(|(length, from)| {
                let path = from.as_pathname().map(Path::to_owned);
                (length, path.map(Address::Unix))
            }),
        };
        match received {
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The error concerns a datagram sent earlier, not those that arrive.
            Err(error) if is_loss(&error) => Ok(Some((0, None))),
            Err(error) => Err(error),
        }
    }
}

/// The peer is gone or too slow, or the path to it is down: whatever was lost is repeated later.
fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    ) || matches!(
        error.raw_os_error(),
        // EPERM comes from a packet filter. EACCES is left out: it means that the socket file
        // belongs to somebody else.
        Some(libc::ENOBUFS | libc::EPERM)
    )
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Udp(socket) => socket.as_fd(),
            Socket::Unix { socket, .. } => socket.as_fd(),
        }
    }
}

/// Removes the socket file, unless another has taken its place.
impl Drop for Socket {
    fn drop(&mut self) {
        if let Socket::Unix { path, file, .. } = self {
            if identity(path).is_ok_and(|there| there == *file) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let meta = std::fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// Removes a socket file whose process has ended.
fn remove_stale(path: &Path) -> Result<(), String> {
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !meta.file_type().is_socket() {
        return Err("an existing file there is not a socket; choose another name".to_owned());
    }
    let tried = UnixDatagram::unbound().and_then(|probe| probe.connect(path));
    match tried {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| format!("remove a stale socket: {error}"))
        }
        Err(error) => Err(format!("ask who listens there: {error}")),
        Ok(()) => Err("somebody listens there; end it or choose another name".to_owned()),
    }
}

/// A socket whose file is never writable by others: the kernel gives the file the mode of the
/// socket (`unix_bind` in net/unix/af_unix.c). The standard library binds before the mode can be
/// set.
fn bind_private(path: &Path) -> io::Result<UnixDatagram> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all fields are integers, for which zero is valid.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.len() >= name.sun_path.len() || bytes.is_empty() || bytes.contains(&0) {
        let most = name.sun_path.len() - 1;
        return Err(io::Error::other(format!(
            "the path of a socket has at most {most} bytes; choose a shorter one"
        )));
    }
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in name.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = std::fs::File::from(fd);
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    let fd = OwnedFd::from(file);
    let length = std::mem::size_of_val(&name) as libc::socklen_t;
    // SAFETY: `name` is a whole sockaddr_un of this length with a NUL-terminated path, and outlives
    // the call.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), length) };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UnixDatagram::from(fd))
}

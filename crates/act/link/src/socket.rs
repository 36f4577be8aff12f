//! The socket of a link: UDP, or datagrams by a file of the node.

use crate::address::Address;
use crate::error::LinkError;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Which file of the file system it is.
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
    /// A socket that does not block, and its address with the port that the kernel gave.
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

    /// The length of a datagram, and its origin if that can be answered; `None` if there is none
    /// now.
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
            // An error about a datagram sent earlier says nothing about those that arrive.
            Err(error) if is_loss(&error) => Ok(Some((0, None))),
            Err(error) => Err(error),
        }
    }
}

/// The peer is missing or too slow, or the path to it is cut: whatever was lost is repeated later.
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
        // EPERM is a filter of packets; EACCES, which is not here, the file of somebody else.
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

/// Removes its file, unless another has taken its place.
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

/// Removes the socket of a process that has ended.
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

/// A socket whose file nobody else can write to, at any moment: the kernel takes the mode of the
/// socket for that of its file (`unix_bind` of net/unix/af_unix.c). The standard library binds
/// before the mode could be set.
fn bind_private(path: &Path) -> io::Result<UnixDatagram> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all of its fields are numbers, for which zero is a value.
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
    // SAFETY: no pointer is handed over.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = std::fs::File::from(fd);
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    let fd = OwnedFd::from(file);
    let length = std::mem::size_of_val(&name) as libc::socklen_t;
    // SAFETY: `name` is a whole sockaddr_un of this length whose path ends with a zero, and lives
    // until the call returns.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), length) };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UnixDatagram::from(fd))
}

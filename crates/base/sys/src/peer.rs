//! Credentials of the peer of a local socket, as recorded by the kernel (`SO_PEERCRED` of
//! `unix(7)`).

use crate::uid::Uid;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The peer at the time when it connected or started to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub user: Uid,
    /// Its process; 0 if it is in another PID namespace.
    pub process: u32,
}

/// Asks the kernel.
///
/// # Errors
/// The kernel does not know.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut found = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length outlive the call, which writes no more than the length.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut found).cast(),
            &mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer {
        user: Uid::new(found.uid),
        process: u32::try_from(found.pid).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_this_process() {
        let (here, there) = UnixStream::pair().unwrap();
        for end in [here, there] {
            let own = Peer {
                user: Uid::own(),
                process: std::process::id(),
            };
            assert_eq!(peer(&end).unwrap(), own);
        }
    }
}

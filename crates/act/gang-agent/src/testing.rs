//! Processes for tests, and a connection to a test that plays the other end.

use crate::courier::Courier;
use crate::parcel::Place;
use idlewave_gang::protocol::Peer;
use idlewave_units::{Nanos, Pid};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A process that is killed when this is dropped.
pub struct Ended(pub Child);

impl Ended {
    pub fn pid(&self) -> Pid {
        Pid::new(self.0.id())
    }

    /// Kills it without reaping it.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program (sleep(1) sleeps for ten minutes) with only these variables in its environment.
pub fn start(program: &Path, variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(program);
    command.arg("600").env_clear();
    Ended(command.envs(variables.iter().copied()).spawn().unwrap())
}

/// A copy of sleep(1) under another name: a link to a program executes the original. Another
/// process makes the copy: children that other tests start meanwhile would inherit it open for
/// writing, and so keep it from being executed.
pub fn sleep_called(path: &Path) {
    let copied = Command::new("cp").arg("/bin/sleep").arg(path).status();
    assert!(copied.unwrap().success());
}

/// Like [`start`], for sleep(1).
pub fn sleep(variables: &[(&str, &str)]) -> Ended {
    start(Path::new("/bin/sleep"), variables)
}

/// The connection to the test. Nothing that is sent to the test is lost, however late it is read.
pub struct Wire {
    socket: UnixDatagram,
    tell: Sender<Vec<u8>>,
}

/// The test's end of a new connection: where it sends, and what was sent to it; and the other end.
/// Neither waits for the other.
pub fn wire() -> (UnixDatagram, Receiver<Vec<u8>>, Wire) {
    let (there, socket) = UnixDatagram::pair().unwrap();
    for end in [&there, &socket] {
        end.set_nonblocking(true).unwrap();
    }
    let (tell, told) = channel();
    (there, told, Wire { socket, tell })
}

impl Courier for Wire {
    fn send(&mut self, _: Nanos, _: Peer, payload: &[u8]) {
        // A failed test reads nothing.
        let _ = self.tell.send(payload.to_vec());
    }
    fn receive(&mut self, _: Nanos) -> Option<(Peer, Vec<u8>)> {
        let mut bytes = vec![0; 1 << 16];
        let n = self.socket.recv(&mut bytes).ok()?;
        bytes.truncate(n);
        Some((Peer::Controller, bytes))
    }
    fn due(&self) -> Option<Nanos> {
        None
    }
    fn know(&mut self, _: Peer, _: &Place) {}
    fn place(&self, _: Peer) -> Option<Place> {
        None
    }
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    fn trouble(&mut self) -> Option<String> {
        None
    }
}

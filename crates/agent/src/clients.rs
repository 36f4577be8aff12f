//! The control socket: who is connected, who they are, and what they ask. It never waits for anybody.

use crate::control::{Reply, Request};
use idlewave_freeze::clock;
use idlewave_units::Nanos;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request is not longer than this.
const LONGEST: usize = 64 << 10;
/// What is not taken by the other end, above this, ends its connection.
const UNREAD: usize = 4 << 20;
/// Connections at once.
const MOST: usize = 256;
/// Connections at once of one user who is not root: the others find a place as well.
const MOST_OF_USER: usize = 96;
/// From one request of a connection to its next. Answers cost time of a thread of real-time priority, which switches.
const BREATH: Nanos = Nanos::from_millis(1);
/// A service that takes nothing for so long has gone.
const TAKEN: Duration = Duration::from_secs(2);

/// A connection, by number.
pub type ClientId = u64;

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    user: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Nothing more comes from it.
    closed: bool,
    /// When its next request is taken.
    again: Nanos,
}

/// What came from a connection.
#[derive(Debug)]
pub enum Word {
    /// A request, of this user.
    Asked(Request, u32),
    /// It is closed, by whichever end.
    Gone,
}

/// Refuses a socket at which somebody answers.
pub fn refuse_served(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "a gang service answers there already",
        )),
        Err(_) => Ok(()),
    }
}

/// The control socket and its connections. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Clients {
    listener: UnixListener,
    path: PathBuf,
    clients: BTreeMap<ClientId, Client>,
    next: ClientId,
}

impl Clients {
    /// Listens at `path`; a socket there that nobody serves is replaced. With `all`, every user of the machine may connect
    /// (and is known by the kernel's word), else only the own one.
    ///
    /// # Errors
    /// Somebody serves it already, or the file cannot be made.
    pub fn listen(path: &Path, all: bool) -> io::Result<Clients> {
        refuse_served(path)?;
        if let Ok(meta) = fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt as _;
            if !meta.file_type().is_socket() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is a file that is no socket",
                ));
            }
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let mode = if all { 0o666 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Clients {
            listener,
            path: path.to_owned(),
            clients: BTreeMap::new(),
            next: 0,
        })
    }

    /// What becomes readable when somebody connects or asks.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let open = self.clients.values().filter(|client| !client.waits());
        let streams = open.map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd())
            .chain(streams)
            .collect()
    }

    /// Whether somebody has not taken all that was said yet, or was not answered all that was asked.
    pub fn behind(&self) -> bool {
        let behind = |client: &Client| !client.output.is_empty() || client.waits();
        self.clients.values().any(behind)
    }

    /// Takes what has come, in the order of the connections.
    pub fn take(&mut self) -> Vec<(ClientId, Word)> {
        while let Ok((stream, _)) = self.listener.accept() {
            self.welcome(stream);
        }
        let now = clock::now();
        let mut words = Vec::new();
        let mut gone = Vec::new();
        for (id, client) in &mut self.clients {
            if now < client.again {
                continue;
            }
            client.read();
            if let Some(line) = client.line() {
                client.again = now + BREATH;
                match serde_json::from_slice(&line) {
                    Ok(request) => words.push((*id, Word::Asked(request, client.user))),
                    Err(error) => client.say(&Reply::Failed(format!(
                        "understand a request: {error}; use the idlewave that started the service"
                    ))),
                }
            }
            let over = client.closed || client.input.len() > LONGEST;
            if !client.flush() || over && !client.asks() {
                gone.push(*id);
            }
        }
        for id in gone {
            self.clients.remove(&id);
            words.push((id, Word::Gone));
        }
        words
    }

    fn welcome(&mut self, stream: UnixStream) {
        let (Some(user), Ok(())) = (user(&stream), stream.set_nonblocking(true)) else {
            return;
        };
        let mut client = Client {
            stream,
            user,
            input: Vec::new(),
            output: Vec::new(),
            closed: false,
            again: Nanos::ZERO,
        };
        let of_user = self.clients.values().filter(|c| c.user == user).count();
        if self.clients.len() >= MOST || of_user >= MOST_OF_USER && user != 0 {
            client.say(&Reply::Failed(format!(
                "connect: user {user} has {of_user} connections of {} to the gang service; wait until some have ended",
                self.clients.len()
            )));
            client.flush();
            return;
        }
        self.clients.insert(self.next, client);
        self.next += 1;
    }

    /// Says something to a connection; to one that is gone, nothing.
    pub fn say(&mut self, to: ClientId, reply: &Reply) {
        if let Some(client) = self.clients.get_mut(&to) {
            client.say(reply);
            client.flush();
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    /// Whether a request has come that was not taken.
    fn asks(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Whether it has to wait for its turn: its socket is not looked at.
    fn waits(&self) -> bool {
        self.again > Nanos::ZERO
    }

    /// Takes what is there.
    fn read(&mut self) {
        self.again = Nanos::ZERO;
        let mut bytes = [0; 4096];
        while !self.closed && self.input.len() <= LONGEST {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line = self.input.drain(..=end).collect();
        Some(line)
    }

    fn say(&mut self, reply: &Reply) {
        // Writing to memory does not fail, and nothing in a reply does.
        let _ = serde_json::to_writer(&mut self.output, reply);
        self.output.push(b'\n');
    }

    /// Sends what the other end takes now; false if it takes nothing any more.
    fn flush(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return false,
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return self.output.len() <= UNREAD;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Who connected, by the kernel's word.
fn user(stream: &UnixStream) -> Option<u32> {
    let mut credentials = libc::ucred {
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
            std::ptr::from_mut(&mut credentials).cast(),
            &mut length,
        )
    };
    (done == 0).then_some(credentials.uid)
}

/// How long a service that lives may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The asking end, for commands: it waits.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    input: Vec<u8>,
}

impl Control {
    /// Connects to the service.
    ///
    /// # Errors
    /// Nobody serves there.
    pub fn connect(path: &Path) -> io::Result<Control> {
        let stream = UnixStream::connect(path)?;
        let input = Vec::new();
        Ok(Control { stream, input })
    }

    /// Asks, and waits for the next thing that is said.
    ///
    /// # Errors
    /// The service has gone, does not answer within 10 s, or is of another version.
    pub fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        // What was refused before it asked is there to be read.
        let told = self.tell(request);
        let limit = Some(ANSWER);
        let reply = self.next(limit).map_err(|e| told.err().unwrap_or(e))?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
    }

    /// Asks, and leaves what is answered to [`Self::next`].
    ///
    /// # Errors
    /// The service has gone, or takes nothing.
    pub fn tell(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(TAKEN))?;
        self.stream.write_all(&line)
    }

    /// The next thing that was said already; `None` if there is nothing.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn said(&mut self) -> io::Result<Option<Reply>> {
        self.stream.set_nonblocking(true)?;
        let said = self.read();
        self.stream.set_nonblocking(false)?;
        said
    }

    /// The next thing that is said; `None` if nothing was within `limit`.
    ///
    /// # Errors
    /// The service has gone, or is of another version.
    pub fn next(&mut self, limit: Option<Duration>) -> io::Result<Option<Reply>> {
        self.stream.set_read_timeout(limit)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Option<Reply>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Control {
    /// What becomes readable when the service says something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> u32 {
        idlewave_freeze::Uid::own().get()
    }

    fn until(clients: &mut Clients, n: usize) -> Vec<(ClientId, Word)> {
        let mut words = Vec::new();
        for _ in 0..1000 {
            words.extend(clients.take());
            if words.len() >= n {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        words
    }

    #[test]
    fn who_asks_is_known_and_answered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut clients = Clients::listen(&path, false).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let asking = std::thread::spawn({
            let path = path.clone();
            move || {
                Control::connect(&path)
                    .unwrap()
                    .ask(&Request::Cancel { gang: 3 })
            }
        });
        let words = until(&mut clients, 1);
        let [(id, Word::Asked(request, user))] = &words[..] else {
            panic!("{words:?}");
        };
        assert_eq!((request, *user), (&Request::Cancel { gang: 3 }, own()));
        clients.say(*id, &Reply::Done);
        assert_eq!(asking.join().unwrap().unwrap(), Reply::Done);
        let words = until(&mut clients, 1);
        assert!(matches!(words[..], [(_, Word::Gone)]), "{words:?}");
    }

    #[test]
    fn what_is_no_request_is_refused_and_what_never_ends_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut clients = Clients::listen(&path, true).unwrap();
        let mut control = Control::connect(&path).unwrap();
        control.stream.write_all(b"{\"no\": \xff}\n").unwrap();
        for _ in 0..1000 {
            assert!(clients.take().is_empty());
            if let Some(reply) = control.next(Some(Duration::from_millis(2))).unwrap() {
                let Reply::Failed(why) = reply else {
                    panic!("{reply:?}")
                };
                assert!(why.starts_with("understand a request: "), "{why}");
                break;
            }
        }
        control.stream.set_nonblocking(true).unwrap();
        let (much, mut sent) = (vec![b'x'; 1 << 16], 0);
        let mut words = Vec::new();
        while words.is_empty() && sent < 64 << 20 {
            sent += control.stream.write(&much).unwrap_or(0);
            words = clients.take();
        }
        assert!(matches!(words[..], [(_, Word::Gone)]), "{words:?}");
    }

    #[test]
    fn who_says_much_and_leaves_is_heard_to_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut clients = Clients::listen(&path, false).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&b"\"status\"\n".repeat(3)).unwrap();
        drop(stream);
        // One at a time.
        assert_eq!(clients.take().len(), 1);
        assert!(clients.behind());
        let words = until(&mut clients, 3);
        let [Word::Asked(..), Word::Asked(..), Word::Gone] =
            [&words[0].1, &words[1].1, &words[2].1]
        else {
            panic!("{words:?}");
        };
        assert!(!clients.behind());
    }

    #[test]
    fn a_second_service_finds_the_first_and_a_dead_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let first = Clients::listen(&path, false).unwrap();
        let error = Clients::listen(&path, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        // As after SIGKILL: the file is there, and nobody behind it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Clients::listen(&path, false).unwrap();
        fs::write(&path, "precious").unwrap();
        Clients::listen(&path, false).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}

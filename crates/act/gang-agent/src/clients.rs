//! The control socket: connections, their users and requests. It never blocks.

use crate::budget::Budget;
use crate::control::{Reply, Request};
use crate::seat::Seat;
use idlewave_freeze::clock;
use idlewave_sys::Uid;
use idlewave_sys::peer::{Peer, peer};
use idlewave_units::Nanos;
use idlewave_units::foreign::misfit;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest request.
const LONGEST: usize = 64 << 10;
/// Unread output above this closes the connection.
const UNREAD: usize = 4 << 20;
/// Most connections at a time.
const MOST: usize = 256;
/// Most connections at a time of one user other than root, to leave room for others.
const MOST_OF_USER: usize = 40;
/// Most connections accepted at a time.
const MOST_AT_ONCE: usize = 4;
/// Least interval between requests of a connection, and between rounds of accepting connections.
/// Both take time of the real-time thread that switches.
const BREATH: Nanos = Nanos::from_millis(1);
/// A service that accepts nothing for this long is gone.
const TAKEN: Duration = Duration::from_secs(2);

/// A connection, by number.
pub type ClientId = u64;

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    user: Uid,
    input: Vec<u8>,
    output: Vec<u8>,
    /// It will send nothing more.
    closed: bool,
    /// When its next request is accepted.
    again: Nanos,
}

/// Input from a connection.
#[derive(Debug)]
pub enum Word {
    /// A request of this user.
    Asked(Request, Uid),
    /// It was closed by either end.
    Gone,
}

/// The control socket and its connections. Dropping it removes the socket's file.
#[derive(Debug)]
pub struct Clients {
    listener: UnixListener,
    path: PathBuf,
    clients: BTreeMap<ClientId, Client>,
    next: ClientId,
    budget: Budget,
    /// When new connections are accepted again.
    welcomes: Nanos,
    /// The right to serve, if no one else holds it; released after the socket's file is removed.
    _seat: Option<Seat>,
}

impl Clients {
    /// Listens at `path`; an abandoned socket there is replaced. With `all`, every user of the
    /// machine may connect (and is identified by the kernel), otherwise only the service's own
    /// user.
    ///
    /// # Errors
    /// Another service is active there, or the file cannot be created.
    pub fn listen(path: &Path, all: bool) -> io::Result<Clients> {
        let seat = Seat::take(path)?;
        let mut clients = Self::listen_at(&seat, all)?;
        clients._seat = Some(seat);
        Ok(clients)
    }

    /// Like [`Self::listen`], with a right to serve that the caller holds.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn listen_at(seat: &Seat, all: bool) -> io::Result<Clients> {
        Ok(Clients {
            listener: seat.listen(all)?,
            path: seat.path().to_owned(),
            clients: BTreeMap::new(),
            next: 0,
            budget: Budget::new(Uid::own()),
            welcomes: Nanos::ZERO,
            _seat: None,
        })
    }

    /// Becomes readable with connections and requests.
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        let open = self.clients.values().filter(|client| !client.waits());
        let streams = open.map(|client| client.stream.as_fd());
        let listener = (!self.is_deaf()).then(|| self.listener.as_fd());
        listener.into_iter().chain(streams).collect()
    }

    /// Whether new connections have to wait at the moment.
    fn is_deaf(&self) -> bool {
        clock::now() < self.welcomes
    }

    /// Whether output is unread, or requests are unanswered.
    pub fn behind(&self) -> bool {
        let behind = |client: &Client| !client.output.is_empty() || client.waits();
        self.is_deaf() || self.clients.values().any(behind)
    }

    /// Charges these users for served requests.
    pub fn charge(&mut self, users: &BTreeSet<Uid>, took: Nanos) {
        let now = clock::now();
        for user in users {
            let part = Nanos::from_nanos(took.get() / users.len() as u64);
            self.budget.charge(*user, part, now);
        }
    }

    /// Takes the input so far, in the order of the connections.
    pub fn take(&mut self) -> Vec<(ClientId, Word)> {
        self.welcome_all();
        let now = clock::now();
        let mut words = Vec::new();
        let mut gone = Vec::new();
        for (id, client) in &mut self.clients {
            if now < client.again {
                continue;
            }
            if !self.budget.allows(client.user, now) {
                client.again = now + BREATH;
                continue;
            }
            client.read();
            if let Some(line) = client.line() {
                client.again = now + BREATH;
                match serde_json::from_slice(&line) {
                    Ok(request) => words.push((*id, Word::Asked(request, client.user))),
                    Err(error) => client.say(&Reply::Failed(format!(
                        "parse a request: {error}; use the idlewave that started the service"
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

    /// Accepts a few new connections, then none for a moment, so that clients that reconnect
    /// constantly cannot occupy this thread.
    fn welcome_all(&mut self) {
        if self.is_deaf() {
            return;
        }
        for _ in 0..MOST_AT_ONCE {
            let begin = clock::now();
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            self.welcomes = begin + BREATH;
            if let Some(user) = self.welcome(stream, begin) {
                let now = clock::now();
                self.budget.charge(user, now.saturating_sub(begin), now);
            }
        }
    }

    /// Adds a connection; returns its user, if known.
    fn welcome(&mut self, stream: UnixStream, now: Nanos) -> Option<Uid> {
        let (Ok(peer), Ok(())) = (peer(&stream), stream.set_nonblocking(true)) else {
            return None;
        };
        let user = peer.user;
        let mut client = Client {
            stream,
            user,
            input: Vec::new(),
            output: Vec::new(),
            closed: false,
            again: Nanos::ZERO,
        };
        let of_user = self.clients.values().filter(|c| c.user == user).count();
        if !self.budget.allows(user, now) {
            client.say(&Reply::Failed(format!(
                "connect: user {user} sends too many requests to the gang service; wait a second"
            )));
            client.flush();
            return Some(user);
        }
        if self.clients.len() >= MOST || of_user >= MOST_OF_USER && user != Uid::ROOT {
            client.say(&Reply::Failed(format!(
                "connect: user {user} has {of_user} of at most {} connections to the gang service; wait until some have ended",
                self.clients.len()
            )));
            client.flush();
            return Some(user);
        }
        self.clients.insert(self.next, client);
        self.next += 1;
        Some(user)
    }

    /// Sends a reply, unless the connection is gone.
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
    /// Whether a request has arrived but was not yet taken.
    fn asks(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Whether its next request has to wait; its socket is not polled then.
    fn waits(&self) -> bool {
        self.again > Nanos::ZERO
    }

    /// Reads available input.
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
        // Writing to memory cannot fail, nor can serialising a reply.
        let _ = serde_json::to_writer(&mut self.output, reply);
        self.output.push(b'\n');
    }

    /// Sends as much as the other end accepts; false if the connection is to be closed.
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

/// Longest time that a live service takes to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The client end, for commands; it blocks.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    process: u32,
    input: Vec<u8>,
}

impl Control {
    /// Connects to the service if it is this user's or root's: anyone could create a socket in a
    /// shared directory.
    ///
    /// # Errors
    /// No service is active there, or it belongs to another user.
    pub fn connect(path: &Path) -> io::Result<Control> {
        let stream = UnixStream::connect(path)?;
        let Peer { user, process } = peer(&stream)?;
        if user != Uid::ROOT && user != Uid::own() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("its service belongs to user {user}, who is neither this user nor root"),
            ));
        }
        Ok(Control {
            stream,
            process,
            input: Vec::new(),
        })
    }

    /// PID of the service.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Sends a request, and waits for the next reply.
    ///
    /// # Errors
    /// The service is gone, does not answer within 10 s, or is of another version.
    pub fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        // If the request was rejected before it was sent, the reply can still be read.
        let told = self.tell(request);
        let limit = Some(ANSWER);
        let reply = self.next(limit).map_err(|e| told.err().unwrap_or(e))?;
        reply.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))
    }

    /// Sends a request; [`Self::next`] returns its reply.
    ///
    /// # Errors
    /// The service is gone, or accepts nothing.
    pub fn tell(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.set_write_timeout(Some(TAKEN))?;
        self.stream.write_all(&line)
    }

    /// The next reply, if it has already arrived.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn said(&mut self) -> io::Result<Option<Reply>> {
        self.stream.set_nonblocking(true)?;
        let said = self.read();
        self.stream.set_nonblocking(false)?;
        said
    }

    /// The next reply; `None` if none arrives within `limit`.
    ///
    /// # Errors
    /// The service is gone, or is of another version.
    pub fn next(&mut self, limit: Option<Duration>) -> io::Result<Option<Reply>> {
        self.stream.set_read_timeout(limit)?;
        self.read()
    }

    fn read(&mut self) -> io::Result<Option<Reply>> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let reply = serde_json::from_slice::<Reply>(&line).map_err(other_version)?;
                return Ok(Some(reply.plain()));
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
    /// Becomes readable when the service replies.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The error for a reply that this version does not know.
fn other_version(error: serde_json::Error) -> io::Error {
    let why = misfit(&error.to_string());
    io::Error::other(format!(
        "its reply is from another version of idlewave, or from another program: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    fn until(clients: &mut Clients, n: usize) -> Vec<(ClientId, Word)> {
        let mut words = Vec::new();
        let begun = Instant::now();
        loop {
            words.extend(clients.take());
            if words.len() >= n || begun.elapsed() > Duration::from_secs(60) {
                return words;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
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
        assert_eq!((request, *user), (&Request::Cancel { gang: 3 }, Uid::own()));
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
                assert!(why.starts_with("parse a request: "), "{why}");
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
    fn who_has_used_its_time_is_heard_later_and_others_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let mut clients = Clients::listen(&path, false).unwrap();
        let mut ends = Vec::new();
        for user in [7, 8].map(Uid::new) {
            let (end, stream) = UnixStream::pair().unwrap();
            stream.set_nonblocking(true).unwrap();
            let client = Client {
                stream,
                user,
                input: Vec::new(),
                output: Vec::new(),
                closed: false,
                again: Nanos::ZERO,
            };
            clients.clients.insert(u64::from(user.get()), client);
            ends.push(end);
        }
        clients.charge(&BTreeSet::from([Uid::new(7)]), Nanos::from_secs(1));
        for end in &mut ends {
            end.write_all(b"\"status\"\n").unwrap();
        }
        let asked = |words: Vec<(ClientId, Word)>| -> Vec<ClientId> {
            words.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(asked(clients.take()), [8]);
        assert!(clients.behind(), "it is looked at again");
        // As if enough time had passed.
        clients.budget = Budget::new(Uid::ROOT);
        assert_eq!(asked(until(&mut clients, 1)), [7]);
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
        // As after SIGKILL: an abandoned socket file, and its lock file, which is free.
        drop(UnixListener::bind(&path).unwrap());
        fs::write(directory.path().join("control.lock"), "").unwrap();
        assert!(path.exists());
        Clients::listen(&path, false).unwrap();
        fs::write(&path, "precious").unwrap();
        Clients::listen(&path, false).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}

//! Measures what a link costs: `link_cost [MUNGE-SOCKET]`. Takes a few seconds.
//!
//! Without sockets: sealing and opening frames of 100 bytes and 1 KiB, refusing forged ones, making
//! and checking codes of frames between devices (36 bytes of an answer, and the most that fits into
//! 1,472 with the code), and whole handshakes. The same messages over UDP loopback and Unix
//! sockets, from `send` to `receive` in one thread. Given the socket of a munged, also handshakes
//! by munge. Each line gives the count, median, quartiles and 99th percentile in microseconds. The
//! lines are measured in turn, so that other load disturbs them alike.

use idlewave_link::session::{Secret, Secrets, Session};
use idlewave_link::{Address, Auth, Coder, Key, Link, Munge, Peer};
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

const A: Peer = Peer::Controller;
const B: Peer = Peer::Agent(NodeId::new(1));
const ROUNDS: usize = 5_000;

/// Times of each line, in nanoseconds.
#[derive(Default)]
struct Times(BTreeMap<String, Vec<u64>>);

impl Times {
    fn take<T>(&mut self, line: String, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = black_box(work());
        let time = start.elapsed().as_nanos() as u64;
        self.0.entry(line).or_default().push(time);
        result
    }

    fn print(mut self) {
        for (line, times) in &mut self.0 {
            times.sort_unstable();
            let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e3;
            println!(
                "{line:<44} n {:>5}  median {:>8.2}  {:>8.2} .. {:>8.2}  p99 {:>8.2} us",
                times.len(),
                at(0.5),
                at(0.25),
                at(0.75),
                at(0.99)
            );
        }
    }
}

/// Both ends of a session after the handshake and the first message.
fn handshake(
    now: Nanos,
    round: usize,
    secrets: &mut [&mut dyn Secrets; 2],
) -> Outcome<[Session; 2]> {
    let mut seed = [1; 32];
    seed[..8].copy_from_slice(&round.to_le_bytes());
    let mut ends = [
        Session::new(A, B, seed),
        Session::new(B, A, seed.map(|b| !b)),
    ];
    let mut flying = Vec::new();
    ends[0].send(now, b"first", &mut *secrets[0], &mut flying)?;
    let mut to = 1;
    while !flying.is_empty() {
        let mut answers = Vec::new();
        for datagram in flying {
            let handled = ends[to].handle(now, &datagram, &mut *secrets[to]);
            answers.extend(handled.map_err(|reason| reason.to_string())?.answers);
        }
        (flying, to) = (answers, 1 - to);
    }
    Ok(ends)
}

fn sessions(
    times: &mut Times,
    now: Nanos,
    secret: &mut Secret,
    ends: &mut [Session; 2],
    length: usize,
) -> Outcome<()> {
    let payload = vec![7; length];
    let mut sent = Vec::with_capacity(2);
    let line = |what: &str| format!("{what} {length} bytes");
    times.take(line("seal"), || {
        ends[0].send(now, &payload, secret, &mut sent)
    })?;
    let frame = sent.first().ok_or("nothing was sent")?;
    let mut forged = frame.clone();
    forged[40] ^= 1;
    let refused = times.take(line("refuse a forged frame of"), || {
        ends[1].handle(now, &forged, secret)
    });
    refused.err().ok_or("a forged frame passed")?;
    let opened = times.take(line("open"), || ends[1].handle(now, frame, secret));
    opened.map_err(|reason| reason.to_string())?;
    let mut back = Vec::new();
    ends[1].send(now, b"", secret, &mut back)?;
    ends[0]
        .handle(now, &back[0], secret)
        .map_err(|reason| reason.to_string())?;
    Ok(())
}

fn codes(times: &mut Times, coder: &Coder, length: usize) -> Outcome<()> {
    let frame = vec![7; length];
    let tag = times.take(format!("make a code of {length} bytes"), || {
        coder.tag(&frame)
    });
    let genuine = times.take(format!("check a code of {length} bytes"), || {
        coder.accepts(&frame, &tag)
    });
    genuine.then_some(()).ok_or("a code is wrong".into())
}

fn over(
    times: &mut Times,
    kind: &str,
    now: Nanos,
    links: &mut [Link; 2],
    length: usize,
) -> Outcome<()> {
    let payload = vec![7; length];
    let [a, b] = links;
    let got = times.take(format!("{kind}, {length} bytes, send to receive"), || {
        a.send(now, B, &payload)?;
        b.receive(now)
    })?;
    got.ok_or("a message was lost")?;
    b.send(now, A, b"")?;
    a.receive(now)?.ok_or("a message was lost")?;
    Ok(())
}

fn links(key: &Path, of: impl Fn(&str) -> Address) -> Outcome<[Link; 2]> {
    let mut a = Link::bind(A, Auth::Key(Key::load(key)?), &of("a"))?;
    let mut b = Link::bind(B, Auth::Key(Key::load(key)?), &of("b"))?;
    a.know(B, b.address().clone());
    b.know(A, a.address().clone());
    a.send(Nanos::ZERO, B, b"first")?;
    for _ in 0..4 {
        b.receive(Nanos::ZERO)?;
        a.receive(Nanos::ZERO)?;
    }
    Ok([a, b])
}

fn main() -> Outcome<()> {
    let mut times = Times::default();
    let mut secret = Secret::new([7; 32]);
    let directory = tempfile::tempdir()?;
    let key = directory.path().join("key");
    Key::create(&key)?;
    let port = "127.0.0.1:0".parse()?;
    let mut udp = links(&key, |_| Address::Udp(port))?;
    let mut unix = links(&key, |name| Address::Unix(directory.path().join(name)))?;
    let (mut one, mut other) = (secret.clone(), secret.clone());
    let mut ends = handshake(Nanos::ZERO, 0, &mut [&mut one, &mut other])?;
    let coder = Coder::new(&[7; 32]);
    for round in 0..ROUNDS {
        let now = Nanos::from_millis(round as u64);
        let mut both: [&mut dyn Secrets; 2] = [&mut one, &mut other];
        let line = "handshake and first message, both ends".to_owned();
        times.take(line, || handshake(now, round, &mut both))?;
        for length in [36, 1_456] {
            codes(&mut times, &coder, length)?;
        }
        for length in [100, 1_024] {
            sessions(&mut times, now, &mut secret, &mut ends, length)?;
            over(&mut times, "udp", now, &mut udp, length)?;
            over(&mut times, "unix", now, &mut unix, length)?;
        }
    }
    if let Some(socket) = std::env::args().nth(1) {
        let socket = Path::new(&socket);
        let (mut one, mut other) = (Munge::open(Some(socket))?, Munge::open(Some(socket))?);
        for round in 0..1_000 {
            let now = Nanos::from_millis(round as u64 * 10);
            let mut both: [&mut dyn Secrets; 2] = [&mut one, &mut other];
            let line = "handshake by munge, both ends".to_owned();
            times.take(line, || handshake(now, round, &mut both))?;
        }
    }
    times.print();
    Ok(())
}

//! Gang switching under attack: forged and replayed datagrams, other users, and garbage sent to the
//! control socket. None of it changes anything, and switching continues.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/gang.rs"]
mod gang;

use gang::{Ended, Job, Service, until};
use idlewave_gang_agent::control::{Reply, Request, Status};
use idlewave_gang_agent::{Control, Mark};
use idlewave_link::{Address, Auth, Key, Link, Peer};
use idlewave_units::{Nanos, NodeId};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The unprivileged user.
const NOBODY: u32 = 65534;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn skip(why: &str) {
    assert!(
        std::env::var_os("IDLEWAVE_REQUIRE_ALL").is_none(),
        "not to be skipped: {why}"
    );
    println!("skipped: {why}");
}

/// A recorded datagram: whether it went to the controller, and its bytes.
type Said = Vec<(bool, Vec<u8>)>;

/// Sits between an agent and its controller, and keeps their datagrams.
struct Relay {
    ends: [Arc<UdpSocket>; 2],
    agent: Arc<Mutex<Option<SocketAddr>>>,
    controller: SocketAddr,
    said: Arc<Mutex<Said>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn start(controller: SocketAddr) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let limit = Some(Duration::from_millis(50));
            socket.set_read_timeout(limit).unwrap();
            Arc::new(socket)
        };
        let mut relay = Relay {
            ends: [socket(), socket()],
            agent: Arc::default(),
            controller,
            said: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for up in [true, false] {
            let [to_agent, to_controller] = relay.ends.clone();
            let (agent, said) = (Arc::clone(&relay.agent), Arc::clone(&relay.said));
            let stop = Arc::clone(&relay.stop);
            relay.threads.push(std::thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                while !stop.load(Ordering::Relaxed) {
                    let from = if up { &to_agent } else { &to_controller };
                    let Ok((n, who)) = from.recv_from(&mut bytes) else {
                        continue;
                    };
                    said.lock().unwrap().push((up, bytes[..n].to_vec()));
                    if up {
                        *agent.lock().unwrap() = Some(who);
                        let _ = to_controller.send_to(&bytes[..n], controller);
                    } else if let Some(agent) = *agent.lock().unwrap() {
                        let _ = to_agent.send_to(&bytes[..n], agent);
                    }
                }
            }));
        }
        relay
    }

    fn address(&self) -> SocketAddr {
        self.ends[0].local_addr().unwrap()
    }

    fn said(&self) -> Said {
        self.said.lock().unwrap().clone()
    }

    /// Replays all of them, from the same addresses.
    fn replay(&self, said: &[(bool, Vec<u8>)]) {
        let agent = self.agent.lock().unwrap().unwrap();
        for (n, (up, bytes)) in said.iter().enumerate() {
            let _ = match up {
                true => self.ends[1].send_to(bytes, self.controller),
                false => self.ends[0].send_to(bytes, agent),
            };
            // Pause: overflowing sockets would prove nothing.
            if n % 50 == 49 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Sends other data to both, as a stranger.
    fn forge(&self, said: &[(bool, Vec<u8>)]) {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let agent = self.agent.lock().unwrap().unwrap();
        for (n, (up, bytes)) in said.iter().take(400).enumerate() {
            let to = if *up { self.controller } else { agent };
            let mut changed = bytes.clone();
            let which = (n * 7) % changed.len();
            changed[which] ^= 1 << (n % 8);
            let _ = stranger.send_to(bytes, to);
            let _ = stranger.send_to(&changed, to);
            let _ = stranger.send_to(&bytes[..bytes.len() - 1 - n % 20], to);
            let _ = stranger.send_to(&vec![n as u8; n * 3], to);
            if n % 20 == 19 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn agent(controller: SocketAddr, key: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
    command
        .args(["gang", "agent", "--node", "0", "--controller"])
        .arg(controller.to_string())
        .arg("--key")
        .arg(key)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Ended(command.spawn().unwrap())
}

/// Acts as a peer with a key, for a while.
fn speak(me: Peer, to: Peer, at: SocketAddr, key: &Key, words: &[&str]) {
    let begin = Instant::now();
    let enough = || begin.elapsed() >= Duration::from_millis(250);
    speak_until(me, to, at, key, words, enough);
}

/// The same until that is enough.
fn speak_until(
    me: Peer,
    to: Peer,
    at: SocketAddr,
    key: &Key,
    words: &[&str],
    mut enough: impl FnMut() -> bool,
) {
    let here = Address::Udp("127.0.0.1:0".parse().unwrap());
    let mut link = Link::bind(me, Auth::Key(key.clone()), &here).unwrap();
    link.know(to, Address::Udp(at));
    let begin = Instant::now();
    while !enough() {
        assert!(begin.elapsed() < gang::LIMIT, "{me:?} is not heard");
        let now = Nanos::from_nanos(begin.elapsed().as_nanos() as u64);
        for word in words {
            // State is distinguished from protocol messages by its first byte.
            link.send(now, to, &[b"\x01", word.as_bytes()].concat())
                .unwrap();
        }
        while link.receive(now).unwrap().is_some() {}
        std::thread::sleep(Duration::from_millis(10));
    }
}

const HELLO: &str = r#"{"hello":{"node":5,"host":"evil","cpus":64,"freezer":"none","limits":[]}}"#;
const LIES: [&str; 2] = [
    r#"{"sight":{"node":0,"version":1,"seen":[{"gang":1,"processes":0,"ranks":0,"size":null,"steady":0,"cpu":0,"others":0,"trouble":null}]}}"#,
    HELLO,
];
const ORDERS: [&str; 2] = [
    r#"{"gangs":{"version":99,"gangs":[],"eager":false}}"#,
    r#""farewell""#,
];

fn gangs(status: &Status) -> Vec<(u32, String)> {
    let gangs = status.gangs.iter();
    gangs.map(|g| (g.gang, format!("{:?}", g.stage))).collect()
}

fn in_step(service: &Service, when: &str) {
    let status = service.await_status(when, |s| s.rows.len() == 2 && s.nodes[0].coordinated);
    let more = |s: &Status| s.switches.switched > status.switches.switched + 5;
    service.await_status(when, more);
}

fn ask(service: &Service, request: &Request) -> Reply {
    service.control().ask(request).unwrap()
}

#[test]
fn what_is_forged_or_recorded_and_said_again_changes_nothing() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    let good = Key::create(&key).unwrap();
    let other = Key::create(&directory.path().join("other")).unwrap();
    // A port that was free a moment ago.
    let free = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (at, file) = (free.to_string(), key.display().to_string());
    let words = [
        "--listen",
        &at,
        "--key",
        &file,
        "--no-local",
        "--slice",
        "20ms",
        "--no-yield",
    ];
    let mut service = Service::start(directory.path(), &words);
    let relay = Relay::start(free);
    let mut first = agent(relay.address(), &key);
    service.await_status("the node greets", |s| s.nodes.len() == 1);
    let jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
    in_step(&service, "through the relay");

    assert_eq!(ask(&service, &Request::Drain { on: true }), Reply::Done);
    service.await_status("drained", |s| s.running.is_none());
    std::thread::sleep(Duration::from_millis(300));
    let before = service.await_status("drained and in step", |s| {
        s.running.is_none() && s.nodes[0].coordinated
    });
    let said = until("enough is said", || {
        Some(relay.said()).filter(|said| said.len() > 50)
    });
    relay.forge(&said);
    relay.replay(&said);
    let end = relay.agent.lock().unwrap().unwrap();
    speak(
        Peer::Agent(NodeId::new(5)),
        Peer::Controller,
        free,
        &other,
        &LIES,
    );
    speak(
        Peer::Agent(NodeId::new(0)),
        Peer::Controller,
        free,
        &other,
        &LIES,
    );
    speak(
        Peer::Controller,
        Peer::Agent(NodeId::new(0)),
        end,
        &other,
        &ORDERS,
    );
    std::thread::sleep(Duration::from_millis(300));
    let after = service.try_status().unwrap();
    assert_eq!(after.epoch, before.epoch);
    assert_eq!(after.nodes, before.nodes);
    assert_eq!(gangs(&after), gangs(&before));
    assert_eq!(after.switches.switched, before.switches.switched);
    assert!(after.running.is_none() && after.draining);
    assert!(first.0.try_wait().unwrap().is_none());

    assert_eq!(ask(&service, &Request::Drain { on: false }), Reply::Done);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            relay.replay(&said);
            relay.forge(&said);
        });
        in_step(&service, "while they speak");
    });
    // The replayed and forged messages may have filled the sockets' buffers, in which case the
    // farewell would be lost.
    in_step(&service, "when they are silent");
    let after = service.try_status().unwrap();
    assert_eq!(after.nodes, before.nodes);
    assert_eq!(gangs(&after), gangs(&before));

    // A farewell that was once genuine means nothing to later peers.
    assert_eq!(ask(&service, &Request::Stop), Reply::Done);
    until("the agent leaves", || first.0.try_wait().unwrap());
    let said = relay.said();
    service.again();
    let mut second = agent(relay.address(), &key);
    in_step(&service, "again");
    relay.replay(&said);
    in_step(&service, "after the farewell of others");
    assert!(second.0.try_wait().unwrap().is_none());

    // With the key, the same messages are accepted: they were not refused for another reason.
    drop(jobs);
    service.await_status("all gangs are over", |s| s.gangs.is_empty());
    speak_until(
        Peer::Agent(NodeId::new(5)),
        Peer::Controller,
        free,
        &good,
        &[HELLO],
        || service.try_status().is_some_and(|s| s.nodes.len() == 2),
    );
    speak_until(
        Peer::Controller,
        Peer::Agent(NodeId::new(0)),
        relay.agent.lock().unwrap().unwrap(),
        &good,
        &ORDERS,
        || second.0.try_wait().unwrap().is_some(),
    );
}

/// Sends one line to the service as that user, and returns the answer; again if the user has asked
/// too much for the moment.
fn said_by(user: u32, service: &Service, request: &Request) -> Reply {
    const ASK: &str = "import socket,sys
s=socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try: s.sendall(sys.argv[2].encode()+b'\\n')
except OSError: pass
print(s.makefile().readline())";
    until("the service answers that user", || {
        let out = Command::new("python3")
            .args(["-c", ASK])
            .arg(&service.socket)
            .arg(serde_json::to_string(request).unwrap())
            .uid(user)
            .current_dir("/")
            .output()
            .unwrap();
        let reply = serde_json::from_slice::<Reply>(&out.stdout);
        let reply = reply.unwrap_or_else(|_| panic!("{out:?}"));
        let busy = matches!(&reply, Reply::Failed(why) if why.contains("sends too many requests"));
        if busy {
            std::thread::sleep(Duration::from_secs(1));
        }
        (!busy).then_some(reply)
    })
}

fn refused(reply: Reply, why: &str) {
    let Reply::Failed(said) = reply else {
        panic!("{reply:?}")
    };
    assert!(said.contains(why), "{said}");
}

fn submit(token: &str, user: u32) -> Request {
    Request::Submit {
        name: "evil".to_owned(),
        mark: Mark::Token(token.to_owned()),
        user,
        interactive: true,
        weight: 10_000,
        keep: true,
        contexts: None,
    }
}

/// The value of a variable of a process.
fn variable(pid: u32, name: &str) -> String {
    let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let all = String::from_utf8_lossy(&all);
    let found = all
        .split('\0')
        .find_map(|v| v.strip_prefix(name)?.strip_prefix('='));
    found.unwrap().to_owned()
}

fn is_held(pid: u32) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.contains("idlewave-freeze")
}

/// A rank that was not submitted, with a mark.
fn stray(service: &Service, name: &str, token: &str, user: u32) -> Ended {
    let directory = service.socket.parent().unwrap();
    let file = directory.join(name);
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let child = Command::new("python3")
        .arg(directory.join("rank.py"))
        .arg(&file)
        .env("IDLEWAVE_GANG", token)
        .uid(user)
        .spawn()
        .unwrap();
    until("it runs", || gang::Rank(file.clone()).read());
    Ended(child)
}

#[test]
fn a_user_has_no_say_over_the_gangs_and_processes_of_others() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        return skip("only root can be two users");
    }
    let freezer = idlewave_freeze::Freezer::choose().freezer;
    if freezer.parent().is_none() {
        return skip("without control groups it cannot be seen who is held");
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = Service::start(directory.path(), &["--slice", "20ms", "--no-yield"]);
    let jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
    in_step(&service, "at the start");
    let gang = service.try_status().unwrap().gangs[0].gang;

    let by = |request: &Request| said_by(NOBODY, &service, request);
    refused(by(&Request::Cancel { gang }), "belongs to another user");
    refused(by(&Request::Drain { on: true }), "only root");
    refused(by(&Request::Stop), "only root");
    refused(by(&submit("of its own", 0)), "only root");
    refused(by(&submit(&"x".repeat(40_000), NOBODY)), "a mark must have");
    assert!(matches!(by(&Request::Status), Reply::Status(_)));

    // Its mark is visible to everybody who can read a command line. Another user who submits it
    // again gets only their own processes.
    let rank = jobs[0].ranks[0].pid();
    let token = variable(rank, "IDLEWAVE_GANG");
    let mut control = service.control();
    refused(
        control.ask(&submit(&token, 0)).unwrap(),
        "already has its mark",
    );
    let Reply::Submitted { gang: theirs } = by(&submit(&token, NOBODY)) else {
        panic!("their own gang was refused");
    };
    // The other user's process joins that user's gang, and the owner's stray process joins the
    // owner's: the service looked for both.
    let stranger = stray(&service, "stranger", &token, NOBODY);
    let own = stray(&service, "own", &token, 0);
    until("the owner's is held", || is_held(own.0.id()).then_some(()));
    let of = |status: &Status, gang: u32| {
        let found = status.gangs.iter().find(|g| g.gang == gang);
        found.map(|g| (g.user, g.processes))
    };
    service.await_status("each has its own", |s| {
        of(s, theirs) == Some((NOBODY, 1)) && of(s, gang) == Some((0, 4))
    });
    assert_eq!(by(&Request::Cancel { gang: theirs }), Reply::Done);
    let mut stranger = stranger;
    until("theirs is ended", || stranger.0.try_wait().unwrap());
    assert!(Path::new(&format!("/proc/{rank}")).exists());
    drop(own);

    // Without a gang of theirs, the mark has no effect on their process.
    service.await_status("theirs is over", |s| of(s, theirs).is_none());
    let stranger = stray(&service, "stranger", &token, NOBODY);
    let own = stray(&service, "own", &token, 0);
    until("the owner's is held", || {
        assert!(!is_held(stranger.0.id()));
        is_held(own.0.id()).then_some(())
    });
    std::thread::sleep(Duration::from_millis(600));
    assert!(!is_held(stranger.0.id()));
    in_step(&service, "at the end");
}

#[test]
fn the_control_socket_outlives_garbage_and_a_thousand_connections() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path(), &["--slice", "20ms", "--no-yield"]);
    let _jobs = ["a", "b"].map(|name| Job::start(&service, name, 2));
    in_step(&service, "at the start");
    let connect = || UnixStream::connect(&service.socket).unwrap();

    for n in 0..200_usize {
        let mut bytes: Vec<u8> = (0..n * 40).map(|i| (i * n * 7 + i) as u8).collect();
        bytes.push(b'\n');
        bytes.extend(b"{\"submit\":".repeat(n));
        let _ = connect().write_all(&bytes);
    }
    in_step(&service, "after garbage");

    let held: Vec<UnixStream> = (0..1000)
        .map_while(|_| UnixStream::connect(&service.socket).ok())
        .collect();
    println!("{} connections", held.len());
    assert!(held.len() > 300, "{}", held.len());
    // A late client is told why.
    let mut last = held.last().unwrap();
    let limit = Some(Duration::from_secs(300));
    last.set_read_timeout(limit).unwrap();
    let mut said = String::new();
    last.read_to_string(&mut said).unwrap();
    assert!(said.contains("connect: user"), "{said}");
    drop(held);
    in_step(&service, "after a thousand connections");

    // A client that asks without pause gets all answers, as fast as the service chooses, and
    // switching continues.
    let mut greedy = connect();
    greedy.set_write_timeout(limit).unwrap();
    let asked = 100;
    greedy.write_all(&b"\"status\"\n".repeat(asked)).unwrap();
    in_step(&service, "while somebody asks without a pause");
    greedy.set_read_timeout(limit).unwrap();
    let (mut bytes, mut answers) = (vec![0; 1 << 16], 0);
    while answers < asked {
        let n = greedy.read(&mut bytes).unwrap();
        assert!(n > 0, "{answers} answers");
        answers += bytes[..n].iter().filter(|b| **b == b'\n').count();
    }
    let mut control = Control::connect(&service.socket).unwrap();
    assert!(matches!(
        control.ask(&Request::Status),
        Ok(Reply::Status(_))
    ));
}

/// A prepared replacement of a user's own directory, removed at the end.
struct Prepared(std::path::PathBuf);

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Answers every client at that socket in the name of the service, as that user.
fn false_service(socket: &Path, user: u32) -> Ended {
    const ANSWER: &str = "import socket,sys,json
s=socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
import os
os.chmod(sys.argv[1],0o666)
s.listen()
print('ready',flush=True)
while True:
    c,_=s.accept()
    c.makefile().readline()
    c.sendall(json.dumps({'failed':'say \\x1b]0;owned\\x07'}).encode()+b'\\n')";
    let mut child = Command::new("python3")
        .args(["-c", ANSWER])
        .arg(socket)
        .uid(user)
        .current_dir("/")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let out = child.stdout.as_mut().unwrap();
    out.read_exact(&mut ready).unwrap();
    Ended(child)
}

#[test]
fn a_place_or_a_socket_that_another_user_has_made_is_neither_used_nor_believed() {
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        skip("only root can be two users");
        return;
    }
    // A number that no user has, and whose place no other check has taken.
    let place_of = |user: u32| format!("/tmp/idlewave-{user}");
    let first = std::process::id();
    let victim = (0..600)
        .map(|n| 60_578 + (first + n) % 600)
        .find(|user| std::fs::create_dir(place_of(*user)).is_ok())
        .unwrap();
    let place = Prepared(place_of(victim).into());
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = common::program_for_all(home.path());
    let ask = |what: &[&str]| {
        let mut command = Command::new(&program);
        command
            .arg("gang")
            .args(what)
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null())
            .uid(victim)
            .gid(victim)
            .current_dir("/");
        let out = command.output().unwrap();
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    std::os::unix::fs::chown(&place.0, Some(NOBODY), None).unwrap();
    std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    let precious = home.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::chown(&precious, Some(victim), None).unwrap();
    std::os::unix::fs::symlink(&precious, place.0.join("gang.log")).unwrap();
    let _false = false_service(&place.0.join("gang.sock"), NOBODY);

    let (code, said) = ask(&["start", "--background"]);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(code, Some(3), "{said}");
    let told = format!("failed to use {}: it belongs to user", place.0.display());
    assert!(
        said.contains(&told) && said.contains("XDG_RUNTIME_DIR"),
        "{said}"
    );
    let (code, said) = ask(&["status"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("it belongs to user 65534"), "{said}");
    assert!(!said.contains("owned"), "{said}");

    // At a named path, the peer behind the socket counts.
    let named = home.path().join("socket");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let _named = false_service(&named, NOBODY);
    let (code, said) = ask(&["status", "--socket", named.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("its service belongs to user 65534") && !said.contains("owned"),
        "{said}"
    );
}

//! Links with a real munged, if there is one.

#![allow(clippy::unwrap_used)]

mod common;

use common::{agent, exchange};
use idlewave_link::session::Secrets;
use idlewave_link::{Address, Auth, Link, Munge, Peer, Reason};
use idlewave_sys::Uid;
use idlewave_units::Nanos;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// A munged of our own, with a key of its own.
struct Daemon {
    child: Child,
    directory: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// `None`, with a message, if there is no munged here.
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str| directory.path().join(name);
        let random = std::fs::File::open("/dev/urandom").unwrap();
        let mut key = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(random, 128), &mut key).unwrap();
        std::fs::write(file("key"), key).unwrap();
        std::fs::set_permissions(file("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let option = |name: &str, path: &str| format!("--{name}={}", file(path).display());
        // Debian has it in /usr/sbin, which is not in everybody's path.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let spawned = Command::new("munged")
            .env("PATH", path)
            .args(["--foreground", "--force"])
            .args([
                option("socket", "socket"),
                option("key-file", "key"),
                option("pid-file", "pid"),
                option("log-file", "log"),
                option("seed-file", "seed"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: munged: {error}");
                return None;
            }
        };
        let daemon = Daemon { child, directory };
        let start = Instant::now();
        while !daemon.socket().exists() {
            assert!(
                start.elapsed() < Duration::from_secs(300),
                "munged does not start"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(daemon)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn open(&self) -> Munge {
        Munge::open(Some(&self.socket())).unwrap()
    }

    fn link(&self, me: Peer) -> Link {
        let address = Address::Udp("127.0.0.1:0".parse().unwrap());
        Link::bind(me, Auth::Munge(self.open()), &address).unwrap()
    }
}

#[test]
fn two_links_speak_by_munge_whoever_begins_and_after_a_restart() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    let mut controller = daemon.link(Peer::Controller);
    let mut node = daemon.link(agent(3));
    controller.know(agent(3), node.address().clone());
    node.know(Peer::Controller, controller.address().clone());
    // Both begin at once.
    controller.send(MS(1), agent(3), b"to the node").unwrap();
    node.send(MS(1), Peer::Controller, b"to the controller")
        .unwrap();
    let heard = exchange(MS(2), &mut controller, &mut node);
    assert_eq!(heard.0, [(agent(3), b"to the controller".to_vec())]);
    assert_eq!(heard.1, [(Peer::Controller, b"to the node".to_vec())]);

    drop(node);
    let mut node = daemon.link(agent(3));
    node.know(Peer::Controller, controller.address().clone());
    node.send(MS(3), Peer::Controller, b"again").unwrap();
    let heard = exchange(MS(4), &mut controller, &mut node);
    assert_eq!(heard.0, [(agent(3), b"again".to_vec())]);

    // The controller restarts too, while the node has something to say.
    let address = controller.address().clone();
    drop(controller);
    let bound = Link::bind(Peer::Controller, Auth::Munge(daemon.open()), &address);
    let mut controller = bound.unwrap();
    let mut heard = Vec::new();
    for at in (10..3_000).step_by(20) {
        node.send(MS(at), Peer::Controller, b"are you there")
            .unwrap();
        heard = exchange(MS(at), &mut controller, &mut node).0;
        if !heard.is_empty() {
            break;
        }
    }
    assert_eq!(heard.first(), Some(&(agent(3), b"are you there".to_vec())));
}

#[test]
fn nothing_comes_through_from_another_munge_key() {
    let (Some(here), Some(there)) = (Daemon::start(), Daemon::start()) else {
        return;
    };
    let mut controller = here.link(Peer::Controller);
    let mut node = there.link(agent(3));
    controller.know(agent(3), node.address().clone());
    for at in (0..1_000).step_by(50) {
        controller.send(MS(at), agent(3), b"x").unwrap();
        assert_eq!(
            exchange(MS(at), &mut controller, &mut node),
            (vec![], vec![])
        );
    }
    let counters = node.counters();
    assert!(counters.refused(Reason::Credential) > 3, "{counters:?}");
    assert_eq!(counters.refused(Reason::Credential), counters.all_refused());
}

#[test]
fn a_credential_is_remembered_by_who_decoded_it_and_refused_by_others() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    let (mut one, mut other) = (daemon.open(), daemon.open());
    let (secret, credential) = one.mine([7; 32]).unwrap();
    assert_eq!(secret, idlewave_link::session::Secret::new([7; 32]));
    assert_eq!(other.theirs(MS(1), &credential), Ok(secret.clone()));
    assert_eq!(other.theirs(MS(1), &credential), Ok(secret));
    assert_eq!(one.theirs(MS(1), &credential), Err(Reason::Credential));
    for foreign in [&b""[..], b"MUNGE:", b"MUNGE:AwQD\0:", b"x", &[b'A'; 2_000]] {
        assert_eq!(other.theirs(MS(1), foreign), Err(Reason::Credential));
    }
    // Strangers reach the daemon at a bounded rate only.
    let refused = (0..2_000).map(|_| other.theirs(MS(2), b"x").unwrap_err());
    let rate = refused.filter(|reason| *reason == Reason::Rate).count();
    assert!((970..=990).contains(&rate), "{rate}");
}

#[test]
fn credentials_of_other_users_and_for_other_users_are_refused() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    if Uid::own() != Uid::ROOT {
        println!("skipped: only root runs programs as other users");
        return;
    }
    let mut munge = daemon.open();
    let mut made = |uid: u32, restricted: u32, payload: &str| {
        let output = Command::new("munge")
            .arg(format!("--socket={}", daemon.socket().display()))
            .args(["-s", payload, "-u", &restricted.to_string()])
            .uid(uid)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        munge.theirs(MS(1), text.trim().as_bytes())
    };
    let secret = "0123456789abcdef0123456789abcdef";
    assert!(made(0, 0, secret).is_ok());
    assert_eq!(made(65_534, 0, secret), Err(Reason::Credential));
    assert_eq!(made(0, 65_534, secret), Err(Reason::Credential));
    assert_eq!(made(0, 0, "too short"), Err(Reason::Credential));
}

#[test]
fn a_credential_is_encrypted_and_for_the_own_user() {
    let Some(daemon) = Daemon::start() else {
        return;
    };
    let (_, credential) = daemon.open().mine([7; 32]).unwrap();
    let file = daemon.directory.path().join("credential");
    std::fs::write(&file, credential).unwrap();
    let output = Command::new("unmunge")
        .arg(format!("--socket={}", daemon.socket().display()))
        .arg("-i")
        .arg(&file)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: unmunge: {error}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    let uid = Uid::own();
    assert_eq!(value("CIPHER").as_deref(), Some("aes128 (4)"), "{text}");
    assert_eq!(value("TTL").as_deref(), Some("300"), "{text}");
    let restricted = value("UID_RESTRICTION").unwrap_or_default();
    assert!(restricted.ends_with(&format!("({uid})")), "{text}");
}

#[test]
fn a_missing_daemon_is_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let error = Munge::open(Some(&directory.path().join("none")))
        .unwrap_err()
        .to_string();
    if error.contains("install it") {
        println!("skipped: {error}");
        return;
    }
    assert!(error.starts_with("use munge: "), "{error}");
    assert!(error.contains("start munged"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

//! The provider in libfabric, and under the MPI libraries of this machine.

#![allow(clippy::unwrap_used)]

#[path = "provider/site.rs"]
mod site;

use idlewave_fabric::netctx::device::Attachment;
use idlewave_mpi::testing::{Installation, installation, skip};
use site::Site;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// The ranks spin.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn variables() -> Vec<(&'static str, OsString)> {
    let library = idlewave_fi::library(&std::env::current_exe().unwrap());
    idlewave_fi::variables(&library.expect("cargo has built it"), None)
}

fn source(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.join("tests/programs").join(name)
}

/// Runs `messages` on `ranks` ranks whose gang is switched every few milliseconds.
fn messages_are_whole(mpi: &Installation, ranks: u32, rounds: u32) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("messages");
    if mpi.compile_c(&source("messages.c"), &program).is_none() {
        return skip("there is no C compiler for MPI");
    }
    let mut site = Site::new(ranks);
    let mut command = mpi.launch(ranks);
    command.arg(program).arg(rounds.to_string());
    command.envs(variables());
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    site.prepare(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (status, switches, _) = site.wait(&mut child, Some(Duration::from_millis(3)));
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(status.success(), "{}: {status} {said}", mpi.name);
    assert!(
        said.contains(&format!("{ranks} ranks: all messages are whole")),
        "{said}"
    );
    assert!(!site.has_failed() && switches > 0);
}

#[test]
fn open_mpi_4_sends_over_contexts_while_they_are_switched() {
    if let Some(mpi) = installation("openmpi4") {
        messages_are_whole(&mpi, 2, 11);
    }
}

#[test]
fn open_mpi_5_sends_over_contexts_while_they_are_switched() {
    if let Some(mpi) = installation("openmpi5") {
        messages_are_whole(&mpi, 2, 11);
    }
}

#[test]
fn mpich_5_sends_over_contexts_while_they_are_switched() {
    if let Some(mpi) = installation("mpich5") {
        messages_are_whole(&mpi, 2, 11);
    }
}

/// A command of libfabric's, if it is installed.
fn libfabric(name: &str) -> Option<Command> {
    let found = idlewave_mpi::in_path(Path::new(name));
    if !found.is_file() {
        skip(&format!("{name} is not installed (libfabric-bin)"));
        return None;
    }
    let mut command = Command::new(found);
    command.envs(variables());
    Some(command)
}

#[test]
fn libfabric_offers_the_provider_to_ranks_only() {
    let Some(mut info) = libfabric("fi_info") else {
        return;
    };
    let none = info.args(["-p", "idlewave"]).output().unwrap();
    assert!(!none.status.success(), "{none:?}");
    let some = info.env(Attachment::VARIABLE, "/x,1,0,2").output().unwrap();
    let text = String::from_utf8_lossy(&some.stdout);
    assert!(
        text.contains("provider: idlewave") && text.contains("FI_EP_RDM"),
        "{some:?}"
    );
}

#[test]
fn ping_pong_of_libfabric_checks_its_messages() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let mut site = Site::new(2);
    let rank = |site: &Site, rank: u32, more: &[&str]| {
        let mut command = libfabric("fi_pingpong")?;
        command.args([
            "-p", "idlewave", "-e", "rdm", "-c", "-I", "5", "-S", "100000",
        ]);
        command.args(more).env(Attachment::RANK, rank.to_string());
        command.env(Attachment::SIZE, "2").stdout(Stdio::piped());
        site.prepare(&mut command);
        command.spawn().ok()
    };
    // The port by which the two find each other.
    let port = 40_000 + std::process::id() % 20_000;
    let Some(mut server) = rank(&site, 0, &["-B", &port.to_string()]) else {
        return;
    };
    while !listens(port) {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut client = rank(&site, 1, &["-P", &port.to_string(), "127.0.0.1"]).unwrap();
    let (status, ..) = site.wait(&mut client, None);
    assert!(status.success() && server.wait().unwrap().success());
    assert!(!site.has_failed());
}

/// Whether a process listens at this TCP port.
fn listens(port: u32) -> bool {
    let listening = format!(":{port:04X} 00000000:0000 0A ");
    let over_six = format!(":{port:04X} 00000000000000000000000000000000:0000 0A ");
    let has = |path: &str, text: &str| {
        std::fs::read_to_string(path).is_ok_and(|sockets| sockets.contains(text))
    };
    has("/proc/net/tcp", &listening) || has("/proc/net/tcp6", &over_six)
}

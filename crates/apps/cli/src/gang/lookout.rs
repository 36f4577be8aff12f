//! `idlewave gang relay`, which runs before each rank on a node other than the watching one, and
//! `idlewave gang lookout`, which the node's first rank starts.
//!
//! No failure here keeps the program from running: the shell that calls this command starts the
//! program.

use super::far::{Invitation, VARIABLE, number};
use clap::Args;
use idlewave_freeze::clock;
use idlewave_gang_agent::wait;
use idlewave_hangs::Lookout;
use idlewave_interpose::{FILE_NAME, write_library};
use idlewave_link::{Address, Auth, Key, Link, Peer};
use idlewave_record::Place;
use idlewave_sys::files::may_execute;
use idlewave_sys::host_name;
use idlewave_sys::terminal::say;
use idlewave_units::Nanos;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The time between two looks at the ranks.
const GLANCE: Nanos = Nanos::from_millis(10);
/// After this time without an answer, the next address is tried.
const NEXT: Duration = Duration::from_millis(250);
/// The watching process asks ten times a second, or less often with a long `--interval`. After this
/// long without a request it may have ended; the lookout then exits if its ranks have ended too.
const SILENCE: Duration = Duration::from_secs(12);

#[derive(Debug, Args)]
pub struct RelayArgs {
    /// The process that becomes the rank
    #[arg(value_name = "PID")]
    pid: u32,
}

#[derive(Debug, Args)]
pub struct LookoutArgs {
    /// Watch in this process instead of starting another one, so that the process that starts ranks
    /// is not its parent
    #[arg(long)]
    stay: bool,
}

/// Prints the directory for the rank's page and the library. The first process of the node to call
/// this starts the lookout.
pub fn run_relay(args: &RelayArgs) -> ExitCode {
    match join(args.pid) {
        Some(place) => {
            println!("{}", place.display());
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn join(pid: u32) -> Option<PathBuf> {
    let text = std::env::var(VARIABLE).ok()?;
    let invitation: Invitation = text.parse().ok()?;
    let place = Place::open_for(&invitation.job).ok()?;
    if !may_execute(place.path()) {
        return None;
    }
    // The lookout keeps running as long as this process exists.
    place.register(pid).ok()?;
    if !place.path().join(FILE_NAME).exists() {
        write_library(place.path()).ok()?;
    }
    if let Ok(Some(held)) = place.elect() {
        let mut lookout = Command::new(std::env::current_exe().ok()?);
        // Drop the variables that mark ranks: the lookout is not a rank.
        lookout.env_clear().env(VARIABLE, &text).current_dir("/");
        lookout.args(["gang", "lookout"]);
        // Whoever holds this file open is the lookout of this node.
        lookout.stdin(Stdio::from(held.file().try_clone().ok()?));
        lookout.stdout(Stdio::null()).stderr(Stdio::null());
        let _ = lookout.process_group(0).status();
    }
    Some(place.path().to_owned())
}

/// Watches until no more requests come.
pub fn run_lookout(args: &LookoutArgs) -> ExitCode {
    if !args.stay {
        return match std::env::current_exe() {
            Ok(own) => {
                keep_nothing();
                let mut other = Command::new(own);
                other.args(["gang", "lookout", "--stay"]).process_group(0);
                ExitCode::from(u8::from(other.spawn().is_err()))
            }
            Err(_) => ExitCode::FAILURE,
        };
    }
    let invitation = std::env::var(VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(invitation) = invitation else {
        say("idlewave: `gang lookout` is not meant to be called by hand\n");
        return ExitCode::from(2);
    };
    match look(&invitation) {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

/// Marks inherited descriptors other than the standard streams close-on-exec: a launcher waits
/// until every process that holds the socket it gave to a rank has ended.
fn keep_nothing() {
    for entry in std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        if let Some(fd) = number.filter(|fd| *fd > 2) {
            // SAFETY: sets a descriptor flag, which changes nothing in this process; a descriptor
            // closed in the meantime only yields an error.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

fn look(invitation: &Invitation) -> Option<()> {
    let place = Place::open_for(&invitation.job).ok()?;
    let mut lookout = Lookout::new(place.path(), host_name());
    let auth = Auth::Key(Key::from_text(&invitation.key)?);
    let any = Address::Udp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let mut link = Link::bind(Peer::Agent(number().ok()?), auth, &any).ok()?;
    let mut addresses = invitation.at.iter().cycle();
    let (mut next, mut heard) = (Instant::now(), Instant::now());
    while !lookout.is_ended() {
        let now = Instant::now();
        if !link.is_open(Peer::Controller) && now >= next {
            link.know(Peer::Controller, Address::Udp(*addresses.next()?));
            next = now + NEXT;
        }
        if let Some(bytes) = lookout.glance(now) {
            // A send that fails counts as a lost message.
            let _ = link.send(clock::now(), Peer::Controller, &bytes);
        }
        let until = clock::now() + GLANCE;
        let until = link.due().map_or(until, |due| until.min(due));
        wait(&[link.as_fd()], Some(until)).ok()?;
        while let Ok(Some((_, bytes))) = link.receive(clock::now()) {
            heard = Instant::now();
            // Messages that cannot be parsed get no answer.
            for answer in lookout.hear(heard, &bytes).unwrap_or_default() {
                let _ = link.send(clock::now(), Peer::Controller, &answer);
            }
        }
        if now >= heard + SILENCE {
            if !place.is_anybody_left() {
                break;
            }
            // The watching process may merely be stopped, and may resume.
            heard = now;
        }
    }
    let _ = place.remove();
    Some(())
}

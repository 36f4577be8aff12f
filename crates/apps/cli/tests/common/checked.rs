//! Gangs with network contexts whose ranks check every message that arrives and report their
//! progress.

// Each test program uses only a part of it.
#![allow(dead_code)]

use crate::gang::{LIMIT, Rank, Service, kill, until};
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::{PointToPoint, Tag};
use idlewave_mpi::testing::Installation;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The variable with the path prefix of the files of a gang's ranks.
pub const PLACE: &str = "IDLEWAVE_TEST_PLACE";
/// If set, a rank that cannot continue exits as if nothing were wrong, so that no launcher ends the
/// others because of it.
pub const LENIENT: &str = "IDLEWAVE_TEST_LENIENT";
/// The exit code of a rank that received a wrong message.
pub const WRONG: i32 = 99;

/// The message of a rank in a round: no two are alike, even between gangs. Most are a few frames
/// long.
fn message(place: &str, rank: u32, round: u64, last: bool) -> Vec<u8> {
    let seed = place.bytes().chain(rank.to_le_bytes());
    let mix = |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
    let seed = seed.fold(round, mix);
    let length = 8 + seed % 5000;
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut data: Vec<u8> = (0..length).map(|_| next()).collect();
    data[0] = u8::from(last);
    data
}

/// The body of a rank, in the test program that runs itself as the program of its gang: exchanges
/// messages with the other rank until the gang is told to end. Does nothing in a process that is
/// not a rank.
pub fn rank() {
    let Ok(Some(attachment)) = Attachment::of_this_process() else {
        return;
    };
    let number = attachment.rank;
    let place = std::env::var(PLACE).unwrap();
    let said = match exchange(&attachment, &place) {
        Ok(()) => std::process::exit(0),
        Err(said) => said,
    };
    // Two ranks write to one file, so write each line in one call.
    let said = format!("rank {number}: failed to go on: {said}\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
    std::process::exit(i32::from(std::env::var_os(LENIENT).is_none()));
}

fn exchange(attachment: &Attachment, place: &str) -> Result<(), String> {
    let mut fabric = attachment.attach().map_err(|error| error.to_string())?;
    let own = fabric.rank().get();
    let other = 1 - own;
    let peer = idlewave_units::Rank::new(other);
    let path = format!("{place}.{own}");
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let stop = PathBuf::from(format!("{place}.stop"));
    let spins = Path::new(&format!("{place}.polls")).exists();
    for round in 1_u64.. {
        let last = own == 0 && round % 64 == 0 && stop.exists();
        let sending = fabric.start_send(peer, Tag(7), message(place, own, round, last));
        let sending = sending.map_err(|error| error.to_string())?;
        let receiving = fabric.start_receive(Some(peer), Tag(7), 8192, Vec::new());
        let receiving = receiving.map_err(|error| error.to_string())?;
        // Programs that have other work meanwhile poll.
        while spins && !fabric.is_received(&receiving).map_err(|e| e.to_string())? {}
        let got = fabric.finish_receive(receiving, &mut || ());
        let got = got.map_err(|error| error.to_string())?.data;
        let sent = fabric.finish_send(sending, &mut || ());
        sent.map_err(|error| error.to_string())?;
        let theirs = got.first() == Some(&1);
        if got != message(place, other, round, theirs) {
            eprintln!("rank {own}: what came in round {round} is not what was sent");
            std::process::exit(WRONG);
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
        bytes[8..].copy_from_slice(&round.to_le_bytes());
        let _ = file.write_all_at(&bytes, 0);
        if last || theirs {
            break;
        }
    }
    Ok(())
}

/// What the ranks of a gang run.
pub enum Program<'a> {
    /// This test program, with the test of this name, which calls [`rank`]. Whether its ranks poll.
    Own(&'static str, bool),
    /// `tests/programs/checked.c`, compiled for this MPI library.
    Mpi(&'a Installation, &'a Path),
}

/// A gang of two ranks on this node that check what comes.
pub struct Team {
    place: PathBuf,
    submit: Child,
    pub ranks: Vec<Rank>,
    /// Whether they run an MPI library, which ends them in its own words.
    pub is_mpi: bool,
}

impl Team {
    /// Submits a gang.
    pub fn start(service: &Service, name: &str, program: &Program<'_>) -> Self {
        let directory = service.socket.parent().unwrap();
        let place = directory.join(name);
        let of = |more: &str| PathBuf::from(format!("{}.{more}", place.display()));
        let said = std::fs::File::create(of("said")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_idlewave"));
        command.args(["gang", "submit", "--socket"]);
        command.arg(&service.socket);
        command.args(["--context", "1MiB", "--name", name]);
        match program {
            Program::Own(test, polls) => {
                if *polls {
                    std::fs::write(of("polls"), "").unwrap();
                }
                command.args(["--ranks", "2", "--"]);
                command.arg(std::env::current_exe().unwrap());
                command.args(["--exact", test, "--nocapture"]);
                command.env(PLACE, &place);
            }
            Program::Mpi(mpi, checked) => {
                command.arg("--").arg(&mpi.mpirun).args(&mpi.options);
                command.args(["-n", "2"]).arg(checked).arg(&place);
                mpi.prepare(&mut command);
                Installation::kill_at_once(&mut command);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let submit = command.stderr(said).spawn().unwrap();
        let ranks = ["0", "1"].map(|rank| Rank(of(rank))).into();
        Self {
            place,
            submit,
            ranks,
            is_mpi: matches!(program, Program::Mpi(..)),
        }
    }

    /// What it has written to standard error.
    pub fn said(&self) -> String {
        let path = format!("{}.said", self.place.display());
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.submit.try_wait().unwrap()
    }

    /// Ends it cleanly; every message arrived as it was sent.
    pub fn finish(mut self) {
        std::fs::write(format!("{}.stop", self.place.display()), "").unwrap();
        let status = until("the gang ends", || self.ended());
        assert!(status.success(), "{status}: {}", self.said());
        let counts: Vec<u64> = self.ranks.iter().map(Rank::count).collect();
        assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.submit.try_wait() {
            return;
        }
        for rank in &self.ranks {
            if let Some((pid, _)) = rank.read() {
                kill(pid, 9);
            }
        }
        kill(self.submit.id(), 15);
        let end = Instant::now() + LIMIT;
        while Instant::now() < end && matches!(self.submit.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.submit.kill();
        let _ = self.submit.wait();
    }
}

//! The ranks of a command that are looked at: the library that is preloaded into them, their pages, and how they are ended.

use super::words::Words;
use crate::exit::{Exit, Failure};
use idlewave_interpose::state::DIRECTORY_VARIABLE;
use idlewave_interpose::write_library;
use idlewave_record::{descendants, send, was_given};
use idlewave_watch::{Job, Look, Paced, Watch};
use signal_hook::consts::{SIGKILL, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a job that is ended has before what is left of it is killed.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where directories of state pages are, and how their names begin; the number of the process follows.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "idlewave-watch-";
/// Stands before the program in a launcher's command: on other nodes, and where the library is not, it changes nothing.
const SHIM: &str = "d=$0 l=$1 h=$2; shift 3; read -r here </proc/sys/kernel/hostname; \
    if [ \"$here\" = \"$h\" ] && [ -f \"$l\" ]; then \
    LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}$l\"; IDLEWAVE_STATE=$d; export LD_PRELOAD IDLEWAVE_STATE; fi; exec \"$@\"";

/// Ranks that are looked at.
pub struct Ranks {
    paced: Paced,
    /// What was said of them.
    pub words: Words,
    place: TempDir,
    library: PathBuf,
    /// When what is left is killed.
    ending: Option<Instant>,
}

impl Ranks {
    /// Makes a place for their pages, with the library; no rank is there yet.
    pub fn prepare(words: Words, interval: Duration) -> Result<Self, Failure> {
        let place = place()?;
        let library = write_library(place.path()).map_err(|error| {
            Failure::new(Exit::Io, error.to_string()).with_next("make room in /dev/shm")
        })?;
        Ok(Self {
            paced: Paced::new(Watch::new(place.path()), interval),
            words,
            place,
            library,
            ending: None,
        })
    }

    /// Words that stand before the program in a launcher's command: the library is given to each program on this host.
    pub fn shim(&self) -> Vec<OsString> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let words: [&OsStr; 7] = [
            OsStr::new("sh"),
            OsStr::new("-c"),
            OsStr::new(SHIM),
            self.place.path().as_os_str(),
            self.library.as_os_str(),
            OsStr::new(host.trim()),
            OsStr::new("--"),
        ];
        words.map(OsStr::to_owned).to_vec()
    }

    /// Variables of a program without a launcher.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut preload = std::env::var_os("LD_PRELOAD").unwrap_or_default();
        if !preload.is_empty() {
            preload.push(":");
        }
        preload.push(&self.library);
        let place = self.place.path().as_os_str().to_owned();
        vec![
            (OsString::from("LD_PRELOAD"), preload),
            (OsString::from(DIRECTORY_VARIABLE), place),
        ]
    }

    /// When they are looked at again.
    pub fn due(&self) -> Instant {
        self.paced.due()
    }

    /// Looks if it is time, and says what is new. A look that fails says nothing of the ranks: the program is not to suffer from it.
    pub fn look(&mut self, now: Instant) -> Option<Look> {
        match self.paced.look(now)? {
            Ok(look) => {
                self.words.look(&look);
                Some(look)
            }
            Err(error) => {
                self.words.trouble(&error.to_string());
                None
            }
        }
    }

    /// Asks the launcher to end the job.
    pub fn end(&mut self, launcher: u32) {
        send(launcher, SIGTERM);
        self.ending = Some(Instant::now() + PATIENCE);
    }

    /// Whether the job was asked to end, and has had its time for that.
    pub fn overdue(&self, now: Instant) -> bool {
        self.ending.is_some_and(|at| now >= at)
    }

    /// Kills what is left of the job, and nothing else.
    pub fn kill(&self, launcher: u32) {
        for pid in descendants(launcher) {
            send(pid, SIGKILL);
        }
        self.kill_all();
    }

    /// Kills the ranks alone.
    pub fn kill_all(&self) {
        let own = self.place.path().as_os_str();
        for rank in self.paced.watch.processes() {
            if was_given(rank.pid, DIRECTORY_VARIABLE, own) {
                send(rank.pid, SIGKILL);
            }
        }
    }
}

/// Whether ranks wait for each other without any doubt about loops of tests.
pub fn certain(look: &Look) -> bool {
    matches!(&look.job, Job::Deadlocked(deadlock) if !deadlock.polling)
}

/// A private directory for pages, in memory where there is some.
fn place() -> Result<TempDir, Failure> {
    let memory = Path::new(MEMORY);
    let directory = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    sweep(&directory);
    let name = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&name)
        .tempdir_in(&directory)
        .map_err(|error| {
            let what = format!("make a directory in {}: {error}", directory.display());
            Failure::new(Exit::Io, what).with_next("make room there")
        })
}

/// Removes what watches have left that were killed.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            pid.parse::<u32>().ok()
        });
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Those of other users stay.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

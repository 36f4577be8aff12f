//! The ranks of a watched command: the preloaded library, the ranks' pages, and how the ranks are
//! ended.

use super::far::Lookouts;
use super::words::Words;
use crate::exit::{Exit, Failure};
use idlewave_hangs::{Look, Paced, Watch};
use idlewave_interpose::state::DIRECTORY_VARIABLE;
use idlewave_interpose::write_library;
use idlewave_record::{Launcher, descendants, send, was_given};
use idlewave_sys::files::may_execute;
use idlewave_sys::host_name;
use idlewave_sys::owner::Owner;
use idlewave_sys::process::Signal;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a job has to end before its remaining processes are killed.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where the directories of state pages are, and the prefix of their names; the owner follows it.
pub(super) const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "idlewave-watch";
/// Precedes the program in a launcher's command. On other nodes `idlewave gang relay` prints where
/// the pages are; if idlewave is missing there or has another version, the program runs unchanged.
const SHIM: &str = "d=$1 l=$2 h=$3 i=$4; shift 4; read -r here </proc/sys/kernel/hostname; \
    if [ \"$here\" != \"$h\" ]; then l=; \
    if [ -n \"$IDLEWAVE_LOOKOUT\" ] && [ -x \"$i\" ] && d=$(\"$i\" gang relay $$ 2>/dev/null); then l=$d/libidlewave_interpose.so; fi; fi; \
    if [ -n \"$l\" ] && [ -f \"$l\" ]; then \
    LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}$l\"; IDLEWAVE_STATE=$d; export LD_PRELOAD IDLEWAVE_STATE; fi; \
    unset IDLEWAVE_LOOKOUT; exec \"$@\"";

/// The watched ranks.
pub struct Ranks {
    paced: Paced,
    /// What has been printed about them.
    pub words: Words,
    place: TempDir,
    library: PathBuf,
    /// The link to the lookouts of other nodes; `None` without any.
    lookouts: Option<Lookouts>,
    /// When the remaining processes are killed.
    ending: Option<Instant>,
}

impl Ranks {
    /// Creates the directory for their pages, with the library; no rank exists yet.
    pub fn prepare(words: Words, interval: Duration) -> Result<Self, Failure> {
        let place = place()?;
        let library = write_library(place.path()).map_err(|error| {
            Failure::new(Exit::Io, error.to_string()).with_next("free space in /dev/shm")
        })?;
        Ok(Self {
            paced: Paced::new(Watch::new(place.path()), interval),
            words,
            place,
            library,
            lookouts: None,
            ending: None,
        })
    }

    /// Returns the words to put before the program in this launcher's `command`, and variables for
    /// the launcher. The words include `shim`, and preload the library into each program on this
    /// host and, from now on, on others.
    pub fn launch(
        &mut self,
        launcher: Launcher,
        command: &[OsString],
        shim: &[OsString],
    ) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
        // Without a port, ranks of other nodes are not seen; the end of the output says so.
        self.lookouts = Lookouts::listen().ok();
        let mut words = Vec::new();
        if self.lookouts.is_some() {
            words.extend(Lookouts::options(launcher, command));
        }
        words.extend_from_slice(shim);
        words.extend(self.shim());
        let variable = self.lookouts.iter().map(Lookouts::variable);
        (words, variable.collect())
    }

    fn shim(&self) -> Vec<OsString> {
        let host = host_name();
        let own = std::env::current_exe().unwrap_or_default();
        let words: [&OsStr; 8] = [
            OsStr::new("sh"),
            OsStr::new("-c"),
            OsStr::new(SHIM),
            // The shell's name in its own error messages ($0).
            OsStr::new("idlewave"),
            self.place.path().as_os_str(),
            self.library.as_os_str(),
            OsStr::new(&host),
            own.as_os_str(),
        ];
        words.map(OsStr::to_owned).to_vec()
    }

    /// The environment of a program that runs without a launcher.
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

    /// When to look at the ranks again.
    pub fn due(&self) -> Instant {
        self.paced.due()
    }

    /// The sockets that become readable when other nodes send something.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lookouts.iter().map(AsFd::as_fd)
    }

    /// Looks at the ranks if it is time, and prints what is new. A look that fails reports nothing
    /// about the ranks: the program must not suffer from it.
    pub fn look(&mut self, now: Instant) -> Option<Look> {
        let far = &mut self.paced.watch.far;
        if let Some(lookouts) = &mut self.lookouts {
            lookouts.hear(far);
        }
        let looked = self.paced.look(now);
        if let Some(lookouts) = &mut self.lookouts {
            lookouts.say(&mut self.paced.watch.far);
        }
        match looked? {
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

    /// Looks once more at the ranks' pages after the job has ended, `well` if its exit code was 0.
    /// Returns whether the last report proved wrong.
    pub fn ended(&mut self, well: bool) -> bool {
        match self.paced.watch.look() {
            Ok(look) => self.words.ended(&look, well),
            Err(_) => false,
        }
    }

    /// Asks the launcher to end the job.
    pub fn end(&mut self, launcher: u32) {
        send(launcher, Signal::TERM);
        self.ending = Some(Instant::now() + PATIENCE);
    }

    /// Whether the job was asked to end and has run out of time to do so.
    pub fn overdue(&self, now: Instant) -> bool {
        self.ending.is_some_and(|at| now >= at)
    }

    /// Kills the remaining processes of the job, and nothing else.
    pub fn kill(&self, launcher: u32) {
        for pid in descendants(launcher) {
            send(pid, Signal::KILL);
        }
        self.kill_all();
    }

    /// Kills only the ranks.
    pub fn kill_all(&self) {
        let own = self.place.path().as_os_str();
        for rank in self.paced.watch.processes() {
            if was_given(rank.pid, DIRECTORY_VARIABLE, own) {
                send(rank.pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Ranks {
    /// Tells the lookouts to end. One that misses the message ends after a timeout.
    fn drop(&mut self) {
        if let Some(lookouts) = &mut self.lookouts {
            for _ in 0..2 {
                self.paced.watch.far.end();
                lookouts.say(&mut self.paced.watch.far);
            }
        }
    }
}

/// Creates a private directory for the pages, in memory if possible.
fn place() -> Result<TempDir, Failure> {
    let memory = Path::new(MEMORY);
    let directory = match memory.is_dir() && may_execute(memory) {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    sweep(&directory);
    let owner = Owner::current().map_err(|error| {
        Failure::new(Exit::NotPossible, format!("look at this process: {error}"))
    })?;
    tempfile::Builder::new()
        .prefix(&format!("{}-", owner.name(PREFIX, 0)))
        .tempdir_in(&directory)
        .map_err(|error| {
            let what = format!("make a directory in {}: {error}", directory.display());
            Failure::new(Exit::Io, what).with_next("free space there")
        })
}

/// Removes directories left by killed watching processes.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| Owner::parse(PREFIX, name));
        if owner.is_some_and(|owner| owner.has_ended()) {
            // Those of other users stay.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

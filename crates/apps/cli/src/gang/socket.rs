//! The gang service's socket, and checks that nobody else could have put a socket there.

use crate::exit::{Exit, Failure};
use clap::Args;
use idlewave_gang_agent::Control;
use idlewave_sys::Uid;
use idlewave_sys::private_dir::{Access, PrivateDir, PrivateDirError};
use std::path::{Path, PathBuf};

/// The socket of root's service.
const ROOTS_SOCKET: &str = "/run/idlewave/gang.sock";

/// Which service to use.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Socket of the service [default: /run/idlewave/gang.sock, or the user's own]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Place {
    /// The absolute path of the socket, named or default; absolute because this node's agent runs
    /// in another directory.
    pub fn path(&self) -> PathBuf {
        let path = self.socket.clone().unwrap_or_else(usual_socket);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Whether no socket was named.
    pub fn is_usual(&self) -> bool {
        self.socket.is_none()
    }

    /// Connects to the service: at the named socket, at the user's own, or at root's, which is open
    /// to all users.
    pub fn connect(&self) -> Result<Control, Failure> {
        let failure = match self.reach(&self.path()) {
            Ok(control) => return Ok(control),
            Err(failure) => failure,
        };
        let roots = || Control::connect(Path::new(ROOTS_SOCKET)).ok();
        self.is_usual().then(roots).flatten().ok_or(failure)
    }

    /// Connects to the service at this socket. The default path is trusted only if nobody else
    /// could have put a socket there.
    fn reach(&self, path: &Path) -> Result<Control, Failure> {
        if self.is_usual() {
            match check_usual(path) {
                Ok(()) => {}
                Err(PrivateDirError::Io { source, .. }) => return Err(unreached(path, &source)),
                Err(error) => return Err(unsafe_place(error)),
            }
        }
        Control::connect(path).map_err(|error| unreached(path, &error))
    }
}

/// The failure when no service answers there, or none that can be trusted.
fn unreached(path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("reach the gang service at {}: {error}", path.display());
    Failure::new(Exit::NotPossible, what)
        .with_next("start it with `idlewave gang start`, or give its socket with --socket")
}

/// The default socket of the user's own service.
fn usual_socket() -> PathBuf {
    if Uid::own() == Uid::ROOT {
        return PathBuf::from(ROOTS_SOCKET);
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => Path::new(&directory).join("idlewave/gang.sock"),
        None => PathBuf::from(format!("/tmp/idlewave-{}/gang.sock", Uid::own())),
    }
}

/// Creates the directory of the default socket, or checks that it is safe; a directory that the
/// user names must exist.
pub fn make_directory(usual: bool, control: &Path) -> Result<(), Failure> {
    let directory = control.parent().unwrap_or(Path::new("/"));
    if !usual {
        if directory.is_dir() {
            return Ok(());
        }
        let what = format!(
            "listen at {}: there is no directory {}",
            control.display(),
            directory.display()
        );
        return Err(Failure::new(Exit::Usage, what)
            .with_next("create it, or choose another place with --socket"));
    }
    PrivateDir::make(directory, usual_access())
        .map(drop)
        .map_err(unsafe_place)
}

/// What others may do in the default socket's directory: all users may use root's service.
fn usual_access() -> Access {
    match Uid::own() {
        Uid::ROOT => Access::Reading,
        _ => Access::Nobody,
    }
}

/// Refuses the default socket's directory if somebody else could have put the socket there.
fn check_usual(control: &Path) -> Result<(), PrivateDirError> {
    let directory = control.parent().unwrap_or(Path::new("/"));
    PrivateDir::open(directory, usual_access()).map(drop)
}

/// Why the default directory is not used, and what to do.
fn unsafe_place(error: PrivateDirError) -> Failure {
    let exit = match &error {
        PrivateDirError::Io { .. } => Exit::Io,
        _ => Exit::NotPossible,
    };
    Failure::new(exit, error.to_string()).with_next(
        "set XDG_RUNTIME_DIR to a directory of your own, as /run/user/UID is, or choose another place with --socket",
    )
}

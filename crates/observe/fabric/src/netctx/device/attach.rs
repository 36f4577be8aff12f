//! Which rank of which gang a process is, and on which device, according to its environment.
//!
//! Whoever starts ranks on an existing device names the device. If an agent creates the device only
//! once it has seen all ranks of a gang, the ranks get the name of a ticket instead: a file in
//! which the agent will name the device and the gang.

use super::DeviceError;
use super::memory::is_own;
use idlewave_mpi::Launch;
use idlewave_sys::files;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The prefix of a ticket's path.
const TICKET: &str = "ticket:";
/// How long to wait for a ticket: it is written once all ranks have appeared, on all nodes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between checks for a ticket.
const LOOK: Duration = Duration::from_millis(2);
/// The longest ticket, bytes: a path and a number.
const LONGEST: u64 = 4_200;

/// What a waiting rank does while its gang runs. While the gang does not run, all waiting ranks
/// sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Keeps its CPU, as MPI libraries do.
    #[default]
    Spin,
    /// Yields its CPU after a short while.
    Yield,
    /// Sleeps after a short while, until something arrives.
    Sleep,
}

/// Where a gang's device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A device that exists.
    Device {
        /// Its file.
        path: PathBuf,
        /// The gang on it.
        gang: u32,
    },
    /// A ticket: the file that will name the device and the gang.
    Ticket(PathBuf),
}

/// A process's rank, its gang and its node's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The device of its node.
    pub at: At,
    /// Its rank.
    pub rank: u32,
    /// Ranks of the gang.
    pub size: u32,
    /// How it waits.
    pub idle: Idle,
}

impl Attachment {
    /// The environment variable that names a process's device.
    pub const VARIABLE: &str = "IDLEWAVE_NETCTX";
    /// With a ticket and without an MPI launcher: the variables for the rank and the number of
    /// ranks.
    pub const RANK: &str = "IDLEWAVE_RANK";
    /// See [`Self::RANK`].
    pub const SIZE: &str = "IDLEWAVE_SIZE";

    /// What this process's environment says; `None` if it says nothing.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub fn of_this_process() -> Result<Option<Self>, DeviceError> {
        match std::env::var_os(Self::VARIABLE) {
            None => Ok(None),
            Some(text) => Self::parse(&text.to_string_lossy()).map(Some),
        }
    }

    /// The value of [`Self::VARIABLE`] for ranks that wait for a ticket and learn their rank from
    /// their launcher.
    pub fn of_ticket(ticket: &Path) -> std::ffi::OsString {
        let mut text = std::ffi::OsString::from(TICKET);
        text.push(ticket);
        text
    }

    /// Reads `FILE,GANG,RANK,SIZE` or `ticket:FILE`, optionally followed by `,spin`, `,yield` or
    /// `,sleep`. A file's name may contain commas. With a ticket, the rank comes from this
    /// process's environment: from [`Self::RANK`], or from the launcher's variables.
    ///
    /// # Errors
    /// The text does not have this form.
    pub fn parse(text: &str) -> Result<Self, DeviceError> {
        Self::parse_with(text, |name| std::env::var(name).ok())
    }

    fn parse_with(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, DeviceError> {
        let parse = || {
            let (rest, last) = text.rsplit_once(',').unwrap_or((text, ""));
            let (rest, idle) = match last {
                "spin" => (rest, Idle::Spin),
                "yield" => (rest, Idle::Yield),
                "sleep" => (rest, Idle::Sleep),
                _ => (text, Idle::Spin),
            };
            let (at, rank, size) = match rest.strip_prefix(TICKET) {
                Some("") => return None,
                Some(path) => {
                    let (rank, size) = rank_of(&variable)?;
                    (At::Ticket(path.into()), rank, size)
                }
                None => {
                    let mut words = rest.rsplitn(4, ',');
                    let mut number = || words.next()?.parse().ok();
                    let (size, rank, gang) = (number()?, number()?, number()?);
                    let path = words.next().filter(|path| !path.is_empty())?.into();
                    (At::Device { path, gang }, rank, size)
                }
            };
            (rank < size).then_some(Self {
                at,
                rank,
                size,
                idle,
            })
        };
        parse().ok_or_else(|| DeviceError::Environment(text.to_owned()))
    }

    /// The device and the gang on it. If a ticket names them, waits for it.
    pub(super) fn device(&self) -> Result<(PathBuf, u32), DeviceError> {
        let ticket = match &self.at {
            At::Device { path, gang } => return Ok((path.clone(), *gang)),
            At::Ticket(ticket) => ticket,
        };
        let begin = Instant::now();
        loop {
            match read_ticket(ticket)? {
                Some(device) => return Ok(device),
                None if begin.elapsed() > PATIENCE => {
                    return Err(DeviceError::NoTicket(ticket.clone()));
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }
}

/// A process's rank and number of ranks.
fn rank_of(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let own = number(Attachment::RANK).zip(number(Attachment::SIZE));
    own.or_else(|| {
        let launch = Launch::from_variables(&variable)?;
        Some((launch.rank, launch.size?))
    })
}

/// Writes a ticket for ranks of `user`: where their device is, and which gang on it is theirs. The
/// file appears atomically, with its content.
///
/// # Errors
/// The file exists already or cannot be created.
pub fn write_ticket(ticket: &Path, device: &Path, gang: u32, user: u32) -> Result<(), DeviceError> {
    let mut part = ticket.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut text = device.as_os_str().to_owned();
    text.push(format!(",{gang}\n"));
    let write = || {
        let mut file = files::create_with(&part, 0o600)?;
        file.write_all(text.as_encoded_bytes())?;
        std::os::unix::fs::fchown(&file, Some(user), None)?;
        // Never overwrites an existing file.
        std::fs::hard_link(&part, ticket)
    };
    let written = write();
    // The temporary name is no longer needed.
    let _ = std::fs::remove_file(&part);
    written.map_err(|source| DeviceError::File {
        action: "create",
        path: ticket.to_owned(),
        source,
    })
}

/// What a ticket says; `None` if it is not there yet.
fn read_ticket(path: &Path) -> Result<Option<(PathBuf, u32)>, DeviceError> {
    let failed = |source| DeviceError::File {
        action: "read",
        path: path.to_owned(),
        source,
    };
    let file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    is_own(&file, path)?;
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text);
    read.map_err(failed)?;
    let words = text.trim_end().rsplit_once(',');
    let device = words.and_then(|(path, gang)| Some((PathBuf::from(path), gang.parse().ok()?)));
    device.map(Some).ok_or_else(|| DeviceError::Foreign {
        path: path.to_owned(),
        reason: "it is not a ticket file".to_owned(),
    })
}

impl std::fmt::Display for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let idle = match self.idle {
            Idle::Spin => "spin",
            Idle::Yield => "yield",
            Idle::Sleep => "sleep",
        };
        match &self.at {
            At::Device { path, gang } => {
                let (path, rank, size) = (path.display(), self.rank, self.size);
                write!(f, "{path},{gang},{rank},{size},{idle}")
            }
            At::Ticket(path) => write!(f, "{TICKET}{},{idle}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn with_a_ticket_the_launcher_tells_the_rank() {
        let parse = |text: &str, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Attachment::parse_with(text, variable).ok()
        };
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "3")];
        let own = [
            ("IDLEWAVE_RANK", "2"),
            ("IDLEWAVE_SIZE", "4"),
            mpi[0],
            mpi[1],
        ];
        let found = parse("ticket:/a,b,sleep", &own).unwrap();
        assert_eq!(found.at, At::Ticket("/a,b".into()));
        assert_eq!((found.rank, found.size, found.idle), (2, 4, Idle::Sleep));
        assert_eq!(found.to_string(), "ticket:/a,b,sleep");
        let found = parse("ticket:/a", &mpi).unwrap();
        assert_eq!((found.rank, found.size, found.idle), (1, 3, Idle::Spin));
        assert_eq!(parse("ticket:/a", &[]), None);
        assert_eq!(parse("ticket:", &mpi), None);
    }

    #[test]
    fn a_ticket_is_read_when_it_is_there_and_only_ones_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ticket");
        assert!(read_ticket(&path).unwrap().is_none());
        let user = idlewave_sys::Uid::own().get();
        write_ticket(&path, Path::new("/dev/shm/x,y"), 7, user).unwrap();
        let found = read_ticket(&path).unwrap();
        assert_eq!(found, Some((PathBuf::from("/dev/shm/x,y"), 7)));
        assert!(write_ticket(&path, Path::new("/z"), 8, user).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let all = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, all).unwrap();
        assert!(matches!(
            read_ticket(&path),
            Err(DeviceError::Foreign { .. })
        ));
    }
}

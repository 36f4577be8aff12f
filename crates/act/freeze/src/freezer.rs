//! The methods of stopping that this machine supports, and why others are not available.

use crate::control::{self, Control, Homes};
use crate::error::FreezeError;
use crate::kind::Kind;
use crate::mounts;
use crate::private_name::PrivateName;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A method of stopping, with the cgroup in which groups of processes are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freezer {
    /// The freezer of cgroup v2.
    V2 {
        /// The directory of the cgroup in which groups are created.
        parent: PathBuf,
    },
    /// The freezer of cgroup v1.
    V1 {
        /// The directory of the cgroup in which groups are created.
        parent: PathBuf,
    },
    /// Signals.
    Signals,
}

/// The chosen method, and why better ones were not.
#[derive(Debug)]
pub struct Choice {
    /// The chosen method.
    pub freezer: Freezer,
    /// Better methods that do not work, each with its reason: [`FreezeError::Unusable`].
    pub refused: Vec<FreezeError>,
}

impl Freezer {
    /// The best method that this machine and the caller's rights allow, under the caller's own
    /// cgroup: v2, v1, signals. A test group is created and removed to find out.
    pub fn choose() -> Choice {
        let mut refused = Vec::new();
        for kind in [Kind::V2, Kind::V1] {
            match Self::of_kind(kind) {
                Ok(freezer) => return Choice { freezer, refused },
                Err(e) => refused.push(e),
            }
        }
        Choice {
            freezer: Freezer::Signals,
            refused,
        }
    }

    /// The freezer of that kind under the caller's own cgroup, after a test.
    ///
    /// # Errors
    /// [`FreezeError::Unusable`] with the reason.
    pub fn of_kind(kind: Kind) -> Result<Self, FreezeError> {
        let unusable = |why| FreezeError::Unusable { kind, why };
        if kind == Kind::Signals {
            return Ok(Freezer::Signals);
        }
        let read = |path: &str| fs::read_to_string(path).map_err(|e| format!("read {path}: {e}"));
        let found = read("/proc/self/cgroup").and_then(|membership| {
            mounts::place(kind, &membership, &read("/proc/self/mountinfo")?)
        });
        let place = found.map_err(unusable)?;
        if !place.writable {
            return Err(unusable(format!(
                "{} is mounted read-only, as in containers: mount it writable there, or run outside",
                place.directory.display()
            )));
        }
        Self::under(kind, &place.directory)
    }

    /// The freezer of that kind in a given cgroup (of a job, or a delegated one), after a test;
    /// signals need none.
    ///
    /// # Errors
    /// [`FreezeError::Unusable`] with the reason.
    pub fn under(kind: Kind, parent: &Path) -> Result<Self, FreezeError> {
        let parent = parent.to_owned();
        let freezer = match kind {
            Kind::V2 => Freezer::V2 { parent },
            Kind::V1 => Freezer::V1 { parent },
            Kind::Signals => return Ok(Freezer::Signals),
        };
        match freezer.try_out() {
            Ok(()) => Ok(freezer),
            Err(why) => Err(FreezeError::Unusable { kind, why }),
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Freezer::V2 { .. } => Kind::V2,
            Freezer::V1 { .. } => Kind::V1,
            Freezer::Signals => Kind::Signals,
        }
    }

    /// The cgroup in which groups are created; none for signals.
    pub fn parent(&self) -> Option<&Path> {
        match self {
            Freezer::V2 { parent } | Freezer::V1 { parent } => Some(parent),
            Freezer::Signals => None,
        }
    }

    /// Creates a cgroup with a private name.
    pub(crate) fn make(kind: Kind, parent: &Path) -> Result<Control, FreezeError> {
        let directory = parent.join(PrivateName::next()?.to_string());
        fs::create_dir(&directory).map_err(FreezeError::file("create", &directory))?;
        Control::open(kind, &directory).inspect_err(|_| {
            let _ = fs::remove_dir(&directory);
        })
    }

    /// Creates a group, thaws it and removes it.
    fn try_out(&self) -> Result<(), String> {
        let (kind, Some(parent)) = (self.kind(), self.parent()) else {
            return Ok(());
        };
        let control = Self::make(kind, parent).map_err(|e| advise(kind, parent, e))?;
        let directory = control.directory().to_owned();
        let usable = control
            .thaw()
            .map_err(|e| e.to_string())
            .and_then(|_| takes_processes(kind, parent, &directory));
        let homes = Homes {
            default: parent.to_owned(),
            of: BTreeMap::new(),
        };
        let removed = control::release(kind, &directory, &homes).map_err(|e| e.to_string());
        usable.and(removed)
    }
}

/// Whether processes can enter the group: it must not be threaded, and the caller must have access
/// to the parent.
fn takes_processes(kind: Kind, parent: &Path, directory: &Path) -> Result<(), String> {
    if kind == Kind::V2 {
        let what = fs::read_to_string(directory.join("cgroup.type")).unwrap_or_default();
        if !matches!(what.trim(), "domain" | "domain threaded") {
            return Err(format!(
                "a group in {} is of type `{}`, which can hold threads but not processes: choose another parent",
                parent.display(),
                what.trim()
            ));
        }
    }
    for directory in [parent, directory] {
        let path = directory.join("cgroup.procs");
        if let Err(e) = fs::OpenOptions::new().write(true).open(&path) {
            return Err(format!("open {}: {e}: {}", path.display(), DELEGATE));
        }
    }
    Ok(())
}

const DELEGATE: &str =
    "run as root, or in a delegated group (systemd-run --user --scope -p Delegate=yes)";

/// Why a group could not be created, with advice.
fn advise(kind: Kind, parent: &Path, error: FreezeError) -> String {
    let parent = parent.display();
    let FreezeError::File { path, source, .. } = &error else {
        return error.to_string();
    };
    match (source.kind(), source.raw_os_error()) {
        (_, Some(libc::EROFS)) => format!("{parent} is read-only, as in containers"),
        (io::ErrorKind::PermissionDenied, _) => {
            format!(
                "user {} may not create groups in {parent}: {DELEGATE}",
                idlewave_sys::Uid::own()
            )
        }
        (io::ErrorKind::NotFound, _) if path.ends_with("cgroup.freeze") => {
            format!("a group in {parent} has no cgroup.freeze: it needs {kind} and Linux 5.2")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_control_group_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, told) in [(Kind::V2, "cgroup.freeze"), (Kind::V1, "freezer.state")] {
            let error = Freezer::under(kind, dir.path()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("freeze with {kind}: ")),
                "{error}"
            );
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let gone = Freezer::under(Kind::V2, &dir.path().join("gone"));
        assert!(matches!(gone, Err(FreezeError::Unusable { .. })));
    }

    #[test]
    fn reasons_say_what_would_help() {
        let told = |code| {
            let source = io::Error::from_raw_os_error(code);
            let path = PathBuf::from("/x/y");
            let doing = "create";
            advise(
                Kind::V2,
                Path::new("/x"),
                FreezeError::File {
                    doing,
                    path,
                    source,
                },
            )
        };
        assert!(told(libc::EROFS).contains("/x is read-only"));
        assert!(told(libc::EACCES).contains("Delegate=yes"));
        assert!(told(libc::ENOENT).starts_with("create /x/y: "));
    }

    #[test]
    fn a_group_of_threads_is_refused_and_one_of_processes_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("group");
        fs::create_dir(&group).unwrap();
        for directory in [dir.path(), &group] {
            fs::write(directory.join("cgroup.procs"), "").unwrap();
        }
        for (what, taken) in [
            ("domain", true),
            ("domain threaded", true),
            ("threaded", false),
            ("domain invalid", false),
        ] {
            fs::write(group.join("cgroup.type"), format!("{what}\n")).unwrap();
            let found = takes_processes(Kind::V2, dir.path(), &group);
            assert_eq!(found.is_ok(), taken, "{what}: {found:?}");
            if let Err(why) = found {
                assert!(why.contains(&format!("`{what}`")), "{why}");
            }
        }
        // Version 1 has no such file, and none is needed.
        takes_processes(Kind::V1, dir.path(), &group).unwrap();
    }

    #[test]
    fn something_always_works_and_what_does_not_has_a_reason() {
        let choice = Freezer::choose();
        let better = match choice.freezer.kind() {
            Kind::V2 => 0,
            Kind::V1 => 1,
            Kind::Signals => 2,
        };
        assert_eq!(choice.refused.len(), better);
        assert_eq!(Freezer::of_kind(Kind::Signals).unwrap(), Freezer::Signals);
    }

    #[test]
    fn a_process_that_has_ended_does_not_enter_a_group() {
        for kind in [Kind::V2, Kind::V1] {
            let made = Freezer::of_kind(kind).and_then(|f| {
                let parent = f.parent().unwrap().to_owned();
                Ok((Freezer::make(kind, &parent)?, parent))
            });
            let (control, default) = match made {
                Ok(made) => made,
                Err(e) => {
                    println!("skipped: {e}");
                    continue;
                }
            };
            // PIDs end at 2^22.
            let free = idlewave_units::Pid::new(1 << 30);
            let entered = control::enter(control.directory(), free);
            let of = BTreeMap::new();
            control::release(kind, control.directory(), &Homes { default, of }).unwrap();
            assert!(matches!(entered, Err(FreezeError::NoProcess(p)) if p == free));
        }
    }
}

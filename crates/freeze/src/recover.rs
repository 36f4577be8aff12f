//! Names of groups that tell their owner, so that what an owner left behind when it was killed can be found: no journal is
//! needed that could be lost, and nothing that another one made is ever touched.

use crate::control::{self, Homes};
use crate::error::FreezeError;
use crate::freezer::Freezer;
use crate::process;
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "idlewave-freeze";

/// How many groups this process has made; only that no two numbers are equal matters.
static MADE: AtomicU64 = AtomicU64::new(0);

/// `idlewave-freeze.NAMESPACE.PID.START.SERIAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrivateName {
    /// The namespace that the owner's number is of: in another one it is another process.
    namespace: u64,
    owner: Pid,
    /// When the owner started, as numbers are used again.
    start: u64,
    serial: u64,
}

impl PrivateName {
    /// A name that no other group has.
    pub(crate) fn next() -> Result<Self, FreezeError> {
        let owner = Pid::new(std::process::id());
        let stat = process::stat(owner).ok_or(FreezeError::NoProcess(owner))?;
        Ok(PrivateName {
            namespace: namespace()?,
            owner,
            start: stat.start,
            serial: MADE.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut fields = name.strip_prefix(PREFIX)?.strip_prefix('.')?.split('.');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let found = PrivateName {
            namespace: number()?,
            owner: Pid::new(u32::try_from(number()?).ok()?),
            start: number()?,
            serial: number()?,
        };
        fields.next().is_none().then_some(found)
    }

    /// Whether its owner is known to be gone.
    fn is_orphan(&self, here: u64) -> bool {
        self.namespace == here
            && process::stat(self.owner)
                .is_none_or(|stat| stat.start != self.start || matches!(stat.state, 'Z' | 'X'))
    }
}

impl fmt::Display for PrivateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ns, owner, start, serial) = (self.namespace, self.owner, self.start, self.serial);
        write!(f, "{PREFIX}.{ns}.{owner}.{start}.{serial}")
    }
}

/// The number of the namespace of process numbers: `pid:[4026531836]`.
fn namespace() -> Result<u64, FreezeError> {
    let path = Path::new("/proc/self/ns/pid");
    let target = fs::read_link(path).map_err(FreezeError::file("read", path))?;
    let text = target.to_string_lossy();
    let number = text.strip_prefix("pid:[").and_then(|t| t.strip_suffix(']'));
    number
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| FreezeError::Unknown {
            path: path.to_owned(),
            text: idlewave_units::foreign::cut(&text),
        })
}

/// Thaws and removes the groups that owners which no longer live left in the freezer's parent; their processes go to the
/// parent. Which ones were removed. For signals there is nothing to be found: only a [`crate::Watchdog`] helps.
///
/// # Errors
/// The first group that could not be removed, after all others were tried.
pub fn recover(freezer: &Freezer) -> Result<Vec<PathBuf>, FreezeError> {
    let Some(parent) = freezer.parent() else {
        return Ok(Vec::new());
    };
    let here = namespace()?;
    let homes = Homes {
        default: parent.to_owned(),
        of: BTreeMap::new(),
    };
    let mut recovered = Vec::new();
    let mut failed = None;
    for entry in fs::read_dir(parent).map_err(FreezeError::file("read", parent))? {
        let entry = entry.map_err(FreezeError::file("read", parent))?;
        let name = entry.file_name().to_str().and_then(PrivateName::parse);
        if name.is_some_and(|name| name.is_orphan(here)) {
            match control::release(freezer.kind(), &entry.path(), &homes) {
                Ok(()) => recovered.push(entry.path()),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
    }
    recovered.sort();
    failed.map_or(Ok(recovered), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_two_names_are_equal_and_their_owner_lives() {
        let (a, b) = (PrivateName::next().unwrap(), PrivateName::next().unwrap());
        assert_ne!(a.to_string(), b.to_string());
        assert_eq!(a.owner, Pid::new(std::process::id()));
        assert!(!a.is_orphan(a.namespace));
    }

    #[test]
    fn an_owner_is_gone_if_its_number_is_free_or_another_one_has_it() {
        let own = PrivateName::next().unwrap();
        let earlier = PrivateName {
            start: own.start - 1,
            ..own
        };
        assert!(earlier.is_orphan(own.namespace));
        // Numbers end at 2^22.
        let free = PrivateName {
            owner: Pid::new(1 << 30),
            ..own
        };
        assert!(free.is_orphan(own.namespace));
        // Who that is elsewhere is not known here.
        assert!(!free.is_orphan(own.namespace + 1));
    }

    #[test]
    fn names_that_others_gave_are_not_ours() {
        for name in [
            "idlewave-freeze",
            "idlewave-freeze.1.2.3",
            "idlewave-freeze.1.2.3.4.5",
            "idlewave-freeze.1.2.3.x",
            "idlewave-freeze.1.4294967296.3.4",
            "xidlewave-freeze.1.2.3.4",
            "user.slice",
        ] {
            assert_eq!(PrivateName::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_says_what_it_was_made_from(namespace: u64, owner: u32, start: u64, serial: u64) {
            let name = PrivateName { namespace, owner: Pid::new(owner), start, serial };
            prop_assert_eq!(PrivateName::parse(&name.to_string()), Some(name));
        }
    }
}

//! Names of groups that identify their owner, so that leftovers of a killed owner can be found: no
//! journal is needed that could be lost, and groups made by others are never touched.

use crate::error::FreezeError;
use crate::process;
use idlewave_units::Pid;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "idlewave-freeze";
/// Prefix of the files that record processes stopped by signals.
const JOURNAL: &str = "idlewave-stopped";

/// Groups created by this process; only uniqueness matters.
static MADE: AtomicU64 = AtomicU64::new(0);

/// `idlewave-freeze.NAMESPACE.PID.START.SERIAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrivateName {
    /// The PID namespace of the owner's PID: in another one the PID means another process.
    namespace: u64,
    owner: Pid,
    /// The owner's start time, since PIDs are reused.
    start: u64,
    serial: u64,
}

impl PrivateName {
    /// A unique name.
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

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::parse_after(PREFIX, name)
    }

    /// Parses the name of a journal.
    pub(crate) fn parse_journal(name: &str) -> Option<Self> {
        Self::parse_after(JOURNAL, name)
    }

    /// The name of a journal.
    pub(crate) fn of_journal(&self) -> String {
        self.after(JOURNAL)
    }

    fn after(&self, prefix: &str) -> String {
        let (ns, owner, start, serial) = (self.namespace, self.owner, self.start, self.serial);
        format!("{prefix}.{ns}.{owner}.{start}.{serial}")
    }

    fn parse_after(prefix: &str, name: &str) -> Option<Self> {
        let mut fields = name.strip_prefix(prefix)?.strip_prefix('.')?.split('.');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let found = PrivateName {
            namespace: number()?,
            owner: Pid::new(u32::try_from(number()?).ok()?),
            start: number()?,
            serial: number()?,
        };
        fields.next().is_none().then_some(found)
    }

    /// Whether its owner is known to be dead.
    pub(crate) fn is_orphan(&self, here: u64) -> bool {
        self.namespace == here
            && process::stat(self.owner)
                .is_none_or(|stat| stat.start != self.start || matches!(stat.state, 'Z' | 'X'))
    }
}

impl fmt::Display for PrivateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.after(PREFIX))
    }
}

#[cfg(test)]
impl PrivateName {
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }
    /// The same for an owner that has ended.
    pub(crate) fn of_nobody(self) -> Self {
        PrivateName {
            start: self.start - 1,
            ..self
        }
    }
}

/// The number of the PID namespace: `pid:[4026531836]`.
pub(crate) fn namespace() -> Result<u64, FreezeError> {
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
        // PIDs end at 2^22.
        let free = PrivateName {
            owner: Pid::new(1 << 30),
            ..own
        };
        assert!(free.is_orphan(own.namespace));
        // In another namespace the owner is unknown.
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

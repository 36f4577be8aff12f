//! Users by their kernel number.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A user, by kernel number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u32);

impl Uid {
    /// The superuser.
    pub const ROOT: Uid = Uid(0);

    /// Wraps a number of the system.
    pub const fn new(number: u32) -> Self {
        Uid(number)
    }
    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// The effective user of this process, as the kernel checks it (geteuid(2)).
    pub fn own() -> Self {
        Uid(rustix::process::geteuid().as_raw())
    }
    /// The owner of a file.
    pub fn of(file: &Metadata) -> Self {
        Uid(file.uid())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_this_process_makes_is_its_users() {
        let file = tempfile::NamedTempFile::new().expect("a file in the temporary directory");
        let about = file.as_file().metadata().expect("its owner");
        assert_eq!(Uid::of(&about), Uid::own());
    }
}

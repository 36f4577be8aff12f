//! Tickets: files in memory by which the ranks of a gang find their network device.

use crate::parcel::Mark;
use std::path::{Path, PathBuf};

/// Directory of tickets and devices.
pub const MEMORY: &str = "/dev/shm";

/// Prefix of the tickets' names; the mark of the gang follows.
pub const TICKET: &str = "idlewave-netctx-";

/// The ticket of the ranks with this mark; `None` if the mark cannot be part of a file name.
pub fn ticket_of(mark: &Mark) -> Option<PathBuf> {
    let Mark::Token(token) = mark else {
        return None;
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = !token.is_empty() && token.bytes().all(plain);
    fits.then(|| Path::new(MEMORY).join(format!("{TICKET}{token}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_named_by_a_mark_that_is_no_path() {
        let of = |token: &str| ticket_of(&Mark::Token(token.to_owned()));
        let path = Path::new("/dev/shm/idlewave-netctx-12.34");
        assert_eq!(of("12.34").as_deref(), Some(path));
        assert_eq!(of("../x"), None);
        assert_eq!(of(""), None);
        assert_eq!(ticket_of(&Mark::Slurm(3)), None);
    }
}

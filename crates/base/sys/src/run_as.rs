//! Runs as an ordinary user with root's capabilities: `sudo idlewave record -- mpirun ...` needs
//! root to trace the kernel, while the program, its files and the recording belong to the user.
//!
//! The process takes on the user and the groups and keeps its capabilities (`PR_SET_KEEPCAPS`,
//! capabilities(7)). Its files belong to the user, and its children are ordinary processes:
//! execve(2) drops all capabilities of a program whose user is not root.

use crate::uid::Uid;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_keep_capabilities};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// By number.
    pub number: Uid,
    /// Its group.
    pub group: u32,
    /// By name; `None` if the number has none.
    pub name: Option<OsString>,
    /// The home directory.
    pub home: OsString,
}

/// Why a process cannot continue as a user. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
pub enum RunAsError {
    /// No user has that name or number.
    #[error("run the program as user {0:?}: there is no such user")]
    Unknown(String),
    /// Only root may switch to another user.
    #[error("run the program as user {0}: only root may, and this is user {1}")]
    NotRoot(Uid, Uid),
    /// The kernel refused.
    #[error("run the program as user {user}: {source}")]
    Refused {
        /// The user.
        user: Uid,
        /// The kernel's error.
        source: io::Error,
    },
}

impl User {
    /// By name or number.
    ///
    /// # Errors
    /// There is no such user.
    pub fn find(who: &str) -> Result<Self, RunAsError> {
        let unknown = || RunAsError::Unknown(who.to_owned());
        match who.parse::<u32>() {
            // The kernel's "leave unchanged" value is not a user.
            Ok(u32::MAX) => Err(unknown()),
            Ok(number) => Ok(Self::of(Uid::new(number))),
            Err(_) => {
                let name = CString::new(who).map_err(|_| unknown())?;
                by_name(&name).ok_or_else(unknown)
            }
        }
    }

    /// By number, which need not have a name.
    fn of(number: Uid) -> Self {
        by_number(number).unwrap_or(Self {
            number,
            group: number.get(),
            name: None,
            home: OsString::from("/"),
        })
    }

    /// The user who called sudo(8), if this process runs as root for that reason.
    pub fn behind_sudo() -> Option<Self> {
        let number = Uid::new(std::env::var("SUDO_UID").ok()?.parse().ok()?);
        let sudo = Uid::own() == Uid::ROOT && ![Uid::ROOT, Uid::new(u32::MAX)].contains(&number);
        sudo.then(|| Self::of(number))
    }
}

/// Continues as `user` with root's capabilities. Call it as root and before starting threads, since
/// capabilities belong to a thread. The environment becomes that of the user. Nothing changes if
/// the user is the present one.
///
/// # Errors
/// This process is not root's, or the kernel refuses.
pub fn go_on_as(user: &User) -> Result<(), RunAsError> {
    let own = Uid::own();
    if own == user.number {
        return Ok(());
    }
    if own != Uid::ROOT {
        return Err(RunAsError::NotRoot(user.number, own));
    }
    change(user).map_err(|source| RunAsError::Refused {
        user: user.number,
        source,
    })?;
    let name = user.name.clone();
    let name = name.unwrap_or_else(|| user.number.to_string().into());
    // SAFETY: the caller has no other thread that could read the environment.
    unsafe {
        std::env::set_var("HOME", &user.home);
        std::env::set_var("USER", &name);
        std::env::set_var("LOGNAME", &name);
        // It belongs to root; others may not use it.
        std::env::remove_var("XDG_RUNTIME_DIR");
    }
    Ok(())
}

fn change(user: &User) -> io::Result<()> {
    let done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let name = user.name.as_deref().map(OsStr::as_bytes).map(CString::new);
    // SAFETY: numbers, and a name that outlives the call. The user's groups come from the system's
    // files.
    unsafe {
        match name {
            Some(Ok(name)) => done(libc::initgroups(name.as_ptr(), user.group as _))?,
            _ => done(libc::setgroups(1, &user.group))?,
        }
        set_keep_capabilities(true)?;
        done(libc::setresgid(user.group, user.group, user.group))?;
        let number = user.number.get();
        done(libc::setresuid(number, number, number))?;
    }
    // What is permitted was kept; it is in effect only if that is asked for.
    let mut sets = capabilities(None)?;
    sets.effective = sets.permitted;
    sets.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, sets)?)
}

fn by_number(number: Uid) -> Option<User> {
    // SAFETY: as `entry` demands.
    entry(|all, text, length, found| unsafe {
        libc::getpwuid_r(number.get(), all, text, length, found)
    })
}

fn by_name(name: &CStr) -> Option<User> {
    // SAFETY: as `entry` demands; the name lives through the call.
    entry(|all, text, length, found| unsafe {
        libc::getpwnam_r(name.as_ptr(), all, text, length, found)
    })
}

/// The system's entry for a user (getpwnam(3)): `ask` gets buffers for the entry and its strings,
/// and a flag for whether it exists.
fn entry(
    ask: impl Fn(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> i32,
) -> Option<User> {
    // No user's entry is longer.
    let mut texts = vec![0; 64 << 10];
    // SAFETY: all-zero bytes are a valid `passwd`.
    let mut all: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let done = ask(&mut all, texts.as_mut_ptr(), texts.len(), &mut found);
    if done != 0 || found.is_null() {
        return None;
    }
    let text = |of: *const libc::c_char| {
        // SAFETY: the call has made it point to a text that ends with a zero, in `texts`.
        let bytes = (!of.is_null()).then(|| unsafe { CStr::from_ptr(of) });
        bytes.map(|text| OsString::from_vec(text.to_bytes().to_vec()))
    };
    Some(User {
        number: Uid::new(all.pw_uid),
        group: all.pw_gid,
        name: text(all.pw_name),
        home: text(all.pw_dir).unwrap_or_else(|| "/".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_and_a_number_needs_no_name() {
        let root = User::find("root").expect("every system has it");
        assert_eq!((root.number, User::find("0").ok()), (Uid::ROOT, Some(root)));
        let nameless = User::find("3999999999").expect("any number");
        assert_eq!((nameless.group, nameless.name), (3_999_999_999, None));
        for nobody in ["no such user", "-1", "4294967295", "a\0b"] {
            let error = User::find(nobody).expect_err(nobody);
            assert!(matches!(error, RunAsError::Unknown(_)), "{error}");
        }
    }
}

//! Munge credentials (<https://dun.github.io/munge/>), which a site with Slurm has anyway.
//!
//! The interface is that of `munge.h` since version 0.5 (2007). The library is loaded only when
//! needed: neither the build nor a shared key requires it.

use crate::bucket::Bucket;
use crate::session::{Secret, Secrets};
use crate::{LinkError, Reason};
use idlewave_sys::Uid;
use idlewave_units::Nanos;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Soname of the library; 2 is the version of its interface.
const NAME: &str = "libmunge.so.2";

// From munge.h.
const SUCCESS: c_int = 0;
const SOCKET: c_int = 6;
const OPTION_CIPHER: c_int = 0;
const OPTION_TTL: c_int = 4;
const OPTION_SOCKET: c_int = 8;
const OPTION_UID: c_int = 9;
/// Cipher to request: the payload is a secret, and the site's daemon may be configured not to
/// encrypt.
const AES128: c_int = 4;
/// Lifetime of a credential in seconds: munge's usual default. Credentials are renewed long before.
const LIFETIME: c_int = 300;

/// How many decoded credentials to keep: munge decodes each only once, but HELLO is repeated.
const REMEMBERED: usize = 256;

type Context = *mut c_void;
type Encode = unsafe extern "C" fn(*mut *mut c_char, Context, *const c_void, c_int) -> c_int;
type Decode = unsafe extern "C" fn(
    *const c_char,
    Context,
    *mut *mut c_void,
    *mut c_int,
    *mut libc::uid_t,
    *mut libc::gid_t,
) -> c_int;

/// The functions of the library.
#[derive(Debug)]
struct Functions {
    create: unsafe extern "C" fn() -> Context,
    destroy: unsafe extern "C" fn(Context),
    set: unsafe extern "C" fn(Context, c_int, ...) -> c_int,
    says: unsafe extern "C" fn(c_int) -> *const c_char,
    explains: unsafe extern "C" fn(Context) -> *const c_char,
    encode: Encode,
    decode: Decode,
}

/// Proves through the site's credential daemon that both ends run as the same user.
///
/// Only the user of this end can decode its credentials; this end refuses credentials of other
/// users, except root's. Each call waits for the daemon, some 0.03 ms if it is otherwise idle; each
/// end makes two calls per session.
#[derive(Debug)]
pub struct Munge {
    functions: Functions,
    /// Holds the functions, so it is dropped after them.
    _library: Library,
    socket: Option<CString>,
    uid: Uid,
    /// Decoded credentials, with their contents.
    opened: VecDeque<(Vec<u8>, Secret)>,
    /// Limits the load that strangers can put on the daemon with bogus credentials: 200 decodes a
    /// second, after a burst large enough for a thousand agents that start at once.
    decodes: Bucket,
}

/// A munge context, destroyed on drop.
struct Options<'a> {
    functions: &'a Functions,
    context: Context,
}

impl Drop for Options<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is from `create` of the same library and is not used afterwards.
        unsafe { (self.functions.destroy)(self.context) }
    }
}

/// Memory that the library allocated, freed on drop.
struct Given(*mut c_void);

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: munge.h: the caller frees what the library returns; `free` ignores a null
        // pointer.
        unsafe { libc::free(self.0) }
    }
}

impl Munge {
    /// Opens the library and tries the daemon, at `socket` or at the library's default.
    ///
    /// # Errors
    /// The library is missing, or the daemon does not answer.
    pub fn open(socket: Option<&Path>) -> Result<Self, LinkError> {
        Self::open_library(NAME, socket)
    }

    fn open_library(name: &str, socket: Option<&Path>) -> Result<Self, LinkError> {
        let missing = |error: libloading::Error| {
            let why = match &error {
                libloading::Error::DlOpen { desc } => format!("{desc:?}"),
                other => other.to_string(),
            };
            LinkError::Munge(format!(
                "{}; install it (libmunge2, munge-libs) or use a shared key",
                why.trim_matches('"')
            ))
        };
        let socket = socket.map(|path| CString::new(path.as_os_str().as_bytes()));
        let socket = socket
            .transpose()
            .map_err(|_| LinkError::Munge("the path of its socket has a zero byte".to_owned()))?;
        // SAFETY: libmunge has no initialisers with effects outside itself.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(missing)?;
        // SAFETY: the types are those that munge.h declares for functions of these names.
        let functions = unsafe { Functions::of(&library) }.map_err(missing)?;
        let munge = Munge {
            functions,
            _library: library,
            socket,
            uid: Uid::own(),
            opened: VecDeque::new(),
            decodes: Bucket::new(1_024, Nanos::from_millis(5)),
        };
        let probe = Secret::new([0; 32]);
        let credential = munge.encode(&probe)?;
        let decoded = munge.decode(&credential);
        match decoded {
            Ok((uid, secret)) if uid == munge.uid && secret == probe => Ok(munge),
            Ok((uid, _)) => Err(LinkError::Munge(format!(
                "a credential of user {} came back as one of user {uid}",
                munge.uid
            ))),
            Err(code) => Err(munge.failed(code, None)),
        }
    }

    /// A context with the socket set.
    fn options(&self) -> Result<Options<'_>, LinkError> {
        // SAFETY: it takes no arguments and returns a null pointer if there is no memory.
        let context = unsafe { (self.functions.create)() };
        if context.is_null() {
            return Err(LinkError::Munge("no memory for its context".to_owned()));
        }
        let options = Options {
            functions: &self.functions,
            context,
        };
        if let Some(socket) = &self.socket {
            // SAFETY: munge.h: this option takes a string, which the library copies.
            let code = unsafe { (self.functions.set)(context, OPTION_SOCKET, socket.as_ptr()) };
            self.check(code, &options)?;
        }
        Ok(options)
    }

    fn encode(&self, secret: &Secret) -> Result<Vec<u8>, LinkError> {
        let options = self.options()?;
        for (option, value) in [(OPTION_CIPHER, AES128), (OPTION_TTL, LIFETIME)] {
            // SAFETY: munge.h: these options take an int.
            let code = unsafe { (self.functions.set)(options.context, option, value) };
            self.check(code, &options)?;
        }
        // SAFETY: munge.h: this option takes a uid_t.
        let code = unsafe { (self.functions.set)(options.context, OPTION_UID, self.uid.get()) };
        self.check(code, &options)?;
        let mut text: *mut c_char = ptr::null_mut();
        let bytes = secret.bytes();
        // SAFETY: `text` and the context are valid, and the payload has the given length.
        let code = unsafe {
            (self.functions.encode)(
                &raw mut text,
                options.context,
                bytes.as_ptr().cast(),
                bytes.len() as c_int,
            )
        };
        let given = Given(text.cast());
        self.check(code, &options)?;
        if given.0.is_null() {
            return Err(LinkError::Munge("it gave no credential".to_owned()));
        }
        // SAFETY: munge.h: a credential is a NUL-terminated string, ours until `given` is dropped.
        let text = unsafe { CStr::from_ptr(given.0.cast()) };
        Ok(text.to_bytes().to_vec())
    }

    /// The user who made a credential, and its secret; or the library's error code.
    fn decode(&self, credential: &[u8]) -> Result<(Uid, Secret), c_int> {
        /// From munge.h: an internal error.
        const SNAFU: c_int = 1;
        /// From munge.h: not a credential.
        const FORMAT: c_int = 8;
        let text = CString::new(credential).map_err(|_| FORMAT)?;
        let options = self.options().map_err(|_| SNAFU)?;
        let mut payload: *mut c_void = ptr::null_mut();
        let mut length: c_int = 0;
        let mut uid: libc::uid_t = libc::uid_t::MAX;
        // SAFETY: the string is NUL-terminated; all pointers are valid, or null for the group,
        // which is not wanted.
        let code = unsafe {
            (self.functions.decode)(
                text.as_ptr(),
                options.context,
                &raw mut payload,
                &raw mut length,
                &raw mut uid,
                ptr::null_mut(),
            )
        };
        // munge may return a payload even with an error.
        let given = Given(payload);
        if code != SUCCESS {
            return Err(code);
        }
        if given.0.is_null() || length != 32 {
            return Err(FORMAT);
        }
        // SAFETY: the payload is not null and has 32 bytes, ours until `given` is dropped.
        let bytes: [u8; 32] = unsafe { *given.0.cast::<[u8; 32]>() };
        Ok((Uid::new(uid), Secret::new(bytes)))
    }

    fn check(&self, code: c_int, options: &Options<'_>) -> Result<(), LinkError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the context is valid; the string lives as long as the context and is copied here.
        let more = unsafe { text((self.functions.explains)(options.context)) };
        Err(self.failed(code, more))
    }

    fn failed(&self, code: c_int, more: Option<String>) -> LinkError {
        // SAFETY: it takes any number and returns a string that is never freed.
        let what = unsafe { text((self.functions.says)(code)) };
        let what = more.or(what).unwrap_or_else(|| format!("error {code}"));
        let advice = match code {
            SOCKET => "; start munged (systemctl start munge) or use a shared key",
            _ => "",
        };
        LinkError::Munge(format!("{what}{advice}"))
    }
}

/// A copy of a string that the library owns; `None` for a null pointer.
///
/// # Safety
/// The pointer is null or points to a NUL-terminated string.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(pointer) };
    Some(text.to_string_lossy().into_owned())
}

impl Functions {
    /// # Safety
    /// The library is libmunge.
    unsafe fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the fields have the types of munge.h; whoever holds the functions keeps the
        // library open.
        unsafe {
            Ok(Functions {
                create: *library.get(b"munge_ctx_create\0")?,
                destroy: *library.get(b"munge_ctx_destroy\0")?,
                set: *library.get(b"munge_ctx_set\0")?,
                says: *library.get(b"munge_strerror\0")?,
                explains: *library.get(b"munge_ctx_strerror\0")?,
                encode: *library.get(b"munge_encode\0")?,
                decode: *library.get(b"munge_decode\0")?,
            })
        }
    }
}

impl Secrets for Munge {
    fn shared(&self) -> Option<Secret> {
        None
    }

    fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        let secret = Secret::new(fresh);
        let credential = self.encode(&secret)?;
        Ok((secret, credential))
    }

    fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        let known = self.opened.iter().find(|(known, _)| known == credential);
        if let Some((_, secret)) = known {
            return Ok(secret.clone());
        }
        if credential.is_empty() {
            return Err(Reason::Credential);
        }
        if !self.decodes.take(now) {
            return Err(Reason::Rate);
        }
        match self.decode(credential) {
            Ok((uid, secret)) if uid == Uid::ROOT || uid == self.uid => {
                if self.opened.len() == REMEMBERED {
                    self.opened.pop_front();
                }
                self.opened.push_back((credential.to_vec(), secret.clone()));
                Ok(secret)
            }
            Err(SOCKET) => Err(Reason::Unable),
            Ok(_) | Err(_) => Err(Reason::Credential),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_one_clear_line() {
        let error = Munge::open_library("libnotmunge.so.2", None).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("use munge: libnotmunge.so.2: "),
            "{error}"
        );
        assert!(error.ends_with("or use a shared key"), "{error}");
        assert!(!error.contains('\n') && !error.contains('"'), "{error}");
    }

    #[test]
    fn another_library_of_that_name_is_one_clear_line() {
        let error = Munge::open_library("libc.so.6", None).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("munge_ctx_create"), "{error}");
    }
}

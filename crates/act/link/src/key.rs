//! The key file: the secret that all ends of a link share.

use crate::LinkError;
use crate::coder::Coder;
use crate::derive::Secret;
use idlewave_sys::{Uid, files};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Shortest key in bytes, as long as a SHA-256 hash: a shorter key would be the weaker part (RFC
/// 2104, section 3).
const SHORTEST: usize = 32;
/// Longest key file in bytes; a longer file is not a key.
const LONGEST: u64 = 4_096;

/// The secret that all ends share. Debug output omits the bytes.
#[derive(Clone)]
pub struct Key(Secret);

impl Key {
    /// Reads a key. Every byte of the file counts, even a newline at its end: copy the file
    /// unchanged.
    ///
    /// # Errors
    /// The file is not a regular file (or a symlink to one) of 32 to 4,096 bytes, owned by the
    /// caller or root, with mode 0600 or stricter.
    pub fn load(path: &Path) -> Result<Self, LinkError> {
        let failed = |source| LinkError::KeyFile {
            doing: "read",
            path: path.to_owned(),
            source,
            advice: "; make it where the controller runs, and copy it to the nodes",
        };
        let unfit = |why| LinkError::Key {
            path: path.to_owned(),
            why,
        };
        // Without O_NONBLOCK, opening a pipe would block the caller.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        check(&meta, Uid::own(), path).map_err(unfit)?;
        let mut bytes = Vec::new();
        file.take(LONGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let length = bytes.len();
        if length < SHORTEST {
            return Err(unfit(format!(
                "it has {length} bytes, and {SHORTEST} are needed; make a new one"
            )));
        }
        if length as u64 > LONGEST {
            return Err(unfit(format!(
                "it has more than {LONGEST} bytes and is hardly a key; give the file of the key"
            )));
        }
        Ok(Self::from_bytes(&bytes))
    }

    /// Creates a key of 32 random bytes that only the caller can read (mode 0600). Never overwrites
    /// a file.
    ///
    /// # Errors
    /// The path exists, the file cannot be written, or the kernel gives no random numbers.
    pub fn create(path: &Path) -> Result<Self, LinkError> {
        let failed = |source: std::io::Error| LinkError::KeyFile {
            doing: "create",
            path: path.to_owned(),
            advice: match source.kind() {
                std::io::ErrorKind::AlreadyExists => "; use it, or remove it first",
                _ => "",
            },
            source,
        };
        let bytes: [u8; SHORTEST] = random()?;
        let mut file = files::create_with(path, 0o600).map_err(failed)?;
        let written = file.write_all(&bytes).and_then(|()| File::sync_all(&file));
        if let Err(source) = written {
            // An incomplete key would block the next attempt.
            let _ = std::fs::remove_file(path);
            return Err(failed(source));
        }
        Ok(Self::from_bytes(&bytes))
    }

    /// 32 random bytes as hexadecimal digits, for [`Key::from_text`]: a key that its holders keep
    /// only in memory.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn random_text() -> Result<String, LinkError> {
        let bytes: [u8; SHORTEST] = random()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The key of a [random text](Key::random_text); `None` if the text is not 64 hexadecimal
    /// digits.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.len() == 2 * SHORTEST && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| Self::from_bytes(text.as_bytes()))
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        Key(Secret::new(
            Coder::new(&[0; 32]).whole(&[b"idlewave link 1 key", bytes]),
        ))
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.0
    }
}

/// Checks type, mode and owner of a key file; the error says what is wrong and what to do.
fn check(meta: &std::fs::Metadata, caller: Uid, path: &Path) -> Result<(), String> {
    if !meta.is_file() {
        return Err("it is not a regular file; give the file of the key".to_owned());
    }
    let mode = meta.mode() & 0o7777;
    if mode & !0o600 != 0 {
        return Err(format!(
            "its mode is {mode:04o}, and others may have read it; `chmod 600 {}`, or make a new one",
            path.display()
        ));
    }
    let owner = Uid::of(meta);
    if owner != Uid::ROOT && owner != caller {
        return Err(format!(
            "user {owner} owns it, who is neither root nor user {caller} who uses it; `chown` it or make a new one"
        ));
    }
    Ok(())
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], LinkError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| LinkError::Random(error.to_string()))?;
    Ok(bytes)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

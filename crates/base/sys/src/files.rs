//! Files in directories that someone else may have prepared: a run copied from another user, or a
//! shared directory for temporary files.
//!
//! Nothing here follows a symbolic link as the last component of a path or opens anything but
//! regular files: a link could lead a writer to any file of the reader, a FIFO would block a reader
//! forever, and a device has no end. All of idlewave's files are created here, except those that a
//! user names on the command line, which may be links, pipes and devices;
//! crates/apps/cli/tests/files.rs checks this.
//!
//! Links among the parent directories are not detected here: [`check_tree`] refuses a directory
//! that contains any.

use rustix::fs::StatVfsMountFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Deepest nesting of directories below a run; idlewave creates four levels.
const DEEPEST: u32 = 16;

/// What a path is that should be a regular file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A symbolic link, whatever its target.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
    /// A directory.
    Directory,
    /// A file with several names, one of which may belong to another user.
    Shared,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Kind::Link => "it is a symbolic link",
            Kind::Fifo => "it is a FIFO",
            Kind::Socket => "it is a socket",
            Kind::Device => "it is a device",
            Kind::Directory => "it is a directory",
            Kind::Shared => "it is a hard link to another file",
        })
    }
}

impl std::error::Error for Kind {}

impl From<Kind> for io::Error {
    fn from(kind: Kind) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, kind)
    }
}

/// The kind of a file that is neither regular nor a directory.
fn odd(kind: fs::FileType) -> Option<Kind> {
    match kind {
        k if k.is_symlink() => Some(Kind::Link),
        k if k.is_fifo() => Some(Kind::Fifo),
        k if k.is_socket() => Some(Kind::Socket),
        k if k.is_char_device() || k.is_block_device() => Some(Kind::Device),
        _ => None,
    }
}

fn regular(kind: fs::FileType) -> io::Result<()> {
    match odd(kind) {
        Some(kind) => Err(kind.into()),
        None if kind.is_dir() => Err(Kind::Directory.into()),
        None => Ok(()),
    }
}

/// Opens an existing regular file.
fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Checked before opening, since opening some devices has effects, and again afterwards, since
    // the file may have been replaced.
    regular(fs::symlink_metadata(path)?.file_type())?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.custom_flags(flags).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => Kind::Link.into(),
        _ => error,
    })?;
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Bytes that this process may still write to the file system of this path (statvfs(3)); `None` if
/// unknown.
pub fn room(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether programs and libraries can be loaded from this directory: /dev/shm may be mounted `noexec`.
pub fn may_execute(directory: &Path) -> bool {
    let found = rustix::fs::statvfs(directory);
    found.is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Opens a regular file for reading.
///
/// # Errors
/// It cannot be read, or is not a regular file; then the cause is a [`Kind`].
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file for reading and writing in place.
///
/// # Errors
/// As for [`open`], or the file has several names.
pub fn open_to_change(path: &Path) -> io::Result<File> {
    let file = open_with(path, OpenOptions::new().read(true).write(true))?;
    match file.metadata()?.nlink() {
        0 | 1 => Ok(file),
        _ => Err(Kind::Shared.into()),
    }
}

/// Whether a write failed for lack of space: the disk or the user's quota is full, or the file has
/// reached the size limit.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// The bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// As for [`open`], or the file is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match read as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is longer than {most} bytes"),
        )),
        false => Ok(bytes),
    }
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// As for [`read`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("byte {at} is not valid UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// Creates a file. Nothing with that name may exist, not even a dangling link.
///
/// # Errors
/// It cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    create_with(path, 0o666)
}

/// The same, with these permissions (minus the umask).
///
/// # Errors
/// As for [`create`].
pub fn create_with(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Creates a directory, or accepts an existing one that is not a link.
///
/// # Errors
/// It cannot be created, or something else has that name.
pub fn create_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::symlink_metadata(path)?.file_type() {
                kind if kind.is_dir() => Ok(()),
                kind => Err(odd(kind).map_or(error, io::Error::from)),
            }
        }
        other => other,
    }
}

/// Creates a file in place of an existing one, if any. The old file loses its name and keeps its
/// content, as does the target of a link.
///
/// # Errors
/// It cannot be created.
pub fn create_over(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create(path)
}

/// Creates a new file with this content.
///
/// # Errors
/// It exists already, or cannot be written; then it is removed again.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?
        .write_all(bytes)
        .inspect_err(|_| discard(path))
}

/// Replaces or creates a file. Readers see the old file, or the new one with all of `bytes`. A link
/// is replaced, not followed.
///
/// # Errors
/// It cannot be written; the old file is unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = Replacement::begin(path)?;
    new.file().write_all(bytes)?;
    new.commit()
}

/// Creates a file of this many allocated bytes, for [`replace_by`] when the disk is full.
///
/// # Errors
/// There is not enough space; then there is no file either.
pub fn reserve(path: &Path, bytes: u64) -> io::Result<()> {
    allocate(&create_over(path)?, bytes).inspect_err(|_| discard(path))
}

/// Makes an open file so long at least, with its room there: no access to it fails for want of that. On file systems that cannot
/// (fallocate(2)) the C library writes zeros instead.
///
/// # Errors
/// There is no room.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: an open file; the call touches no memory of ours.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Like [`replace_on_disk`], but reuses the space of the file `reserved`, which takes the place of
/// `path`: the disk may be full.
///
/// # Errors
/// There is no such file, or its space is too small; the file at `path` is unchanged.
pub fn replace_by(reserved: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_to_change(reserved)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_data()?;
    fs::rename(reserved, path)
}

/// Like [`replace`], and on disk when it returns.
///
/// # Errors
/// As for [`replace`].
pub fn replace_on_disk(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = Replacement::begin(path)?;
    new.file().write_all(bytes)?;
    new.file().sync_data()?;
    new.commit()
}

/// The outcome matters more than a temporary file left behind.
fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}

/// A file written beside the one that it will replace; dropping it removes it.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    beside: Beside,
    target: PathBuf,
}

/// Removed unless it was renamed.
#[derive(Debug)]
struct Beside(Option<PathBuf>);

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            discard(path);
        }
    }
}

impl Replacement {
    /// Creates the file in the directory of `target`, under a unique name.
    ///
    /// # Errors
    /// It cannot be created, or its target is a directory.
    pub fn begin(target: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(target).is_ok_and(|there| there.is_dir()) {
            return Err(Kind::Directory.into());
        }
        let (file, path) = create_beside(target)?;
        Ok(Self {
            file,
            beside: Beside(Some(path)),
            target: target.to_owned(),
        })
    }

    /// The file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Its path until it is renamed.
    pub fn path(&self) -> &Path {
        self.beside.0.as_deref().unwrap_or(&self.target)
    }

    /// Renames it to its target.
    ///
    /// # Errors
    /// It cannot be renamed; it is removed.
    pub fn commit(mut self) -> io::Result<()> {
        fs::rename(self.path(), &self.target)?;
        self.beside.0 = None;
        Ok(())
    }
}

/// Creates a file beside `target`, `TARGET.PID.N.new`.
///
/// # Errors
/// It cannot be created.
pub fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut tries = 100;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{number}.new", std::process::id()));
        let path = target.with_file_name(name);
        match create(&path) {
            Ok(file) => return Ok((file, path)),
            // Left by a killed process with our PID, or put there by someone else.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries > 0 => tries -= 1,
            Err(error) => return Err(error),
        }
    }
}

/// Removes the files of [`create_beside`] that killed processes left in a directory to which no
/// other process writes now.
pub fn remove_left(directory: &Path) {
    let is_left = |name: &str| {
        let mut parts = name.rsplit('.');
        let number = |part: Option<&str>| part.is_some_and(|p| p.parse::<u32>().is_ok());
        parts.next() == Some("new") && number(parts.next()) && number(parts.next())
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left) {
            discard(&entry.path());
        }
    }
}

/// Something below a directory that is neither a regular file nor a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Its path.
    pub path: PathBuf,
    /// Its kind; a directory if directories are nested too deep.
    pub kind: Kind,
}

/// Looks for anything below `directory` that is neither a regular file nor a directory; `directory`
/// itself may be a link. Directories that cannot be listed are skipped, since nothing in them can
/// be opened by a listed name.
pub fn check_tree(directory: &Path) -> Result<(), Odd> {
    check_below(directory, 0)
}

fn check_below(directory: &Path, depth: u32) -> Result<(), Odd> {
    if depth > DEEPEST {
        return Err(Odd {
            path: directory.to_owned(),
            kind: Kind::Directory,
        });
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // It has gone in the meantime.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if let Some(kind) = odd(kind) {
            let path = entry.path();
            return Err(Odd { path, kind });
        }
        if kind.is_dir() {
            check_below(&entry.path(), depth + 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn kind(error: &io::Error) -> Option<Kind> {
        error.get_ref()?.downcast_ref().copied()
    }

    fn fifo(path: &Path) {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    }

    #[test]
    fn only_regular_files_are_opened_and_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        fifo(&at("fifo"));
        fs::create_dir(at("directory")).unwrap();
        let _listens = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_text(&at("file"), 4).unwrap(), "text");
        let odd = [
            ("link", Kind::Link),
            ("fifo", Kind::Fifo),
            ("directory", Kind::Directory),
            ("socket", Kind::Socket),
            ("/dev/zero", Kind::Device),
        ];
        for (name, is) in odd {
            for refused in [open(&at(name)), open_to_change(&at(name))] {
                assert_eq!(kind(&refused.unwrap_err()), Some(is), "{name}");
            }
        }
        let none = open(&at("none")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_longer_than_expected_or_no_text_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"abc\xff").unwrap();
        let long = read(&file, 3).unwrap_err().to_string();
        assert_eq!(long, "it is longer than 3 bytes");
        let text = read_text(&file, 4).unwrap_err().to_string();
        assert_eq!(text, "byte 3 is not valid UTF-8");
    }

    #[test]
    fn writers_never_follow_a_link_nor_change_what_has_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "old").unwrap();
        let fresh = || {
            let _ = fs::remove_file(at("link"));
            symlink("precious", at("link")).unwrap();
        };
        fresh();
        for made in [create(&at("link")), create_with(&at("link"), 0o600)] {
            assert_eq!(made.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert!(write_new(&at("link"), b"new").is_err());
        fs::create_dir(at("directory")).unwrap();
        symlink("directory", at("alias")).unwrap();
        create_directory(&at("directory")).unwrap();
        let alias = create_directory(&at("alias")).unwrap_err();
        assert_eq!(kind(&alias), Some(Kind::Link));
        fs::remove_file(at("alias")).unwrap();
        fs::remove_dir(at("directory")).unwrap();
        replace(&at("link"), b"new").unwrap();
        assert_eq!(fs::read(at("link")).unwrap(), b"new");
        fresh();
        replace_on_disk(&at("link"), b"new").unwrap();
        assert_eq!(fs::read(at("link")).unwrap(), b"new");
        fresh();
        create_over(&at("link")).unwrap().write_all(b"new").unwrap();
        assert!(!fs::symlink_metadata(at("link")).unwrap().is_symlink());
        fs::remove_file(at("link")).unwrap();
        fs::hard_link(at("precious"), at("link")).unwrap();
        let shared = open_to_change(&at("link")).unwrap_err();
        assert_eq!(kind(&shared), Some(Kind::Shared));
        assert_eq!(fs::read(at("precious")).unwrap(), b"old");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left beside"
        );
    }

    #[test]
    fn a_replacement_takes_its_place_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        let mut new = Replacement::begin(&file).unwrap();
        new.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        drop(new);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // A link is prepared under each name that could be guessed; they are skipped.
        let (_, first) = create_beside(&file).unwrap();
        let number: u32 = {
            let name = first.to_str().unwrap().strip_suffix(".new").unwrap();
            name.rsplit('.').next().unwrap().parse().unwrap()
        };
        for next in number + 1..number + 20 {
            let name = format!("file.{}.{next}.new", std::process::id());
            symlink("file", dir.path().join(name)).unwrap();
        }
        replace(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        remove_left(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let directory = replace(dir.path(), b"").unwrap_err();
        assert_eq!(kind(&directory), Some(Kind::Directory));
    }

    #[test]
    fn a_tree_with_a_link_or_a_fifo_anywhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        assert_eq!(check_tree(dir.path()), Ok(()));
        symlink("/", deep.join("link")).unwrap();
        let odd = Odd {
            path: deep.join("link"),
            kind: Kind::Link,
        };
        assert_eq!(check_tree(dir.path()), Err(odd));
        fs::remove_file(deep.join("link")).unwrap();
        fifo(&dir.path().join("a/fifo"));
        assert_eq!(check_tree(dir.path()).unwrap_err().kind, Kind::Fifo);
        fs::remove_file(dir.path().join("a/fifo")).unwrap();
        fs::create_dir_all(deep.join("d/".repeat(40))).unwrap();
        assert_eq!(check_tree(dir.path()).unwrap_err().kind, Kind::Directory);
    }
}

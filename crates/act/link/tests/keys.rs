//! Which files are accepted as keys.

#![allow(clippy::unwrap_used)]

use idlewave_link::Key;
use idlewave_sys::Uid;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

fn file(directory: &tempfile::TempDir, bytes: &[u8], mode: u32) -> PathBuf {
    let path = directory.path().join("key");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn error(path: &Path) -> String {
    let error = Key::load(path).unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert!(!error.contains('\n'), "{error}");
    error
}

/// Whether the caller is root, who may read everything and give files away.
fn root() -> bool {
    Uid::own() == Uid::ROOT
}

#[test]
fn a_key_is_made_once_with_random_bytes_that_only_its_owner_reads() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (directory.path().join("one"), directory.path().join("other"));
    Key::create(&one).unwrap();
    Key::create(&other).unwrap();
    let bytes = std::fs::read(&one).unwrap();
    assert_eq!(bytes.len(), 32);
    assert_ne!(bytes, std::fs::read(&other).unwrap());
    assert_eq!(
        std::fs::metadata(&one).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    Key::load(&one).unwrap();
    let again = Key::create(&one).unwrap_err().to_string();
    assert!(
        again.starts_with("create the key ") && again.ends_with("; use it, or remove it first"),
        "{again}"
    );
    assert_eq!(std::fs::read(&one).unwrap(), bytes);
    let nowhere = Key::create(&directory.path().join("no/key"))
        .unwrap_err()
        .to_string();
    assert!(nowhere.contains("No such file"), "{nowhere}");
}

#[test]
fn nothing_is_written_through_a_link_that_waits_there() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (
        directory.path().join("link"),
        directory.path().join("target"),
    );
    symlink(&target, &link).unwrap();
    assert!(Key::create(&link).is_err());
    assert!(!target.exists());
}

#[test]
fn a_key_that_others_may_have_read_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    for mode in [
        0o644, 0o640, 0o604, 0o602, 0o620, 0o601, 0o610, 0o700, 0o4600, 0o777,
    ] {
        let path = file(&directory, &[7; 32], mode);
        let error = error(&path);
        assert!(
            error.contains(&format!("its mode is {mode:04o}")),
            "{error}"
        );
        assert!(
            error.contains(&format!("`chmod 600 {}`", path.display())),
            "{error}"
        );
    }
    Key::load(&file(&directory, &[7; 32], 0o600)).unwrap();
    Key::load(&file(&directory, &[7; 32], 0o400)).unwrap();
}

#[test]
fn a_key_has_32_to_4096_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for length in [0, 1, 31] {
        let error = error(&file(&directory, &vec![7; length], 0o600));
        assert!(
            error.ends_with(&format!(
                "it has {length} bytes, and 32 are needed; make a new one"
            )),
            "{error}"
        );
    }
    for length in [32, 33, 4_096] {
        Key::load(&file(&directory, &vec![7; length], 0o600)).unwrap();
    }
    assert!(error(&file(&directory, &[7; 4_097], 0o600)).contains("more than 4096 bytes"));
}

#[test]
fn only_regular_files_are_keys_and_a_pipe_does_not_hold_the_caller() {
    let directory = tempfile::tempdir().unwrap();
    assert!(error(directory.path()).contains("not a regular file"));
    let pipe = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    assert!(error(&pipe).contains("not a regular file"));
    assert!(error(Path::new("/dev/zero")).contains("not a regular file"));
    let missing = error(&directory.path().join("none"));
    assert!(
        missing.contains("No such file") && missing.contains("copy it to the nodes"),
        "{missing}"
    );
    // A symlink to a key will do.
    let link = directory.path().join("link");
    symlink(file(&directory, &[7; 32], 0o600), &link).unwrap();
    Key::load(&link).unwrap();
}

#[test]
fn a_key_of_another_user_is_refused() {
    if !root() {
        println!("skipped: only root gives files away");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, &[7; 32], 0o600);
    chown(&path, Some(65_534), None).unwrap();
    let error = error(&path);
    assert!(
        error.contains("user 65534 owns it, who is neither root nor user 0"),
        "{error}"
    );
}

#[test]
fn a_key_is_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::load(&file(
        &directory,
        b"0123456789abcdef0123456789abcdef",
        0o600,
    ))
    .unwrap();
    assert_eq!(format!("{key:?}"), "Key(..)");
    assert_eq!(
        format!("{:?}", idlewave_link::Auth::Key(key)),
        "Key(Key(..))"
    );
}

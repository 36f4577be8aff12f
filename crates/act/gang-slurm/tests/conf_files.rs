//! slurm.conf as a file: its copy, its scripts, its permissions.

#![allow(clippy::unwrap_used)]

use idlewave_gang_slurm::conf::{Done, Setup};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TEXT: &str = "PartitionName=a\nEpilogSlurmctld=/site/epilog\n";

fn site(text: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, text).unwrap();
    (dir, conf)
}

fn install(setup: &Setup, sharing: u32) -> Done {
    setup
        .install(Path::new("/usr/bin/idlewave"), sharing, [])
        .unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_site_is_set_up_and_put_back_to_the_byte() {
    let (dir, conf) = site(TEXT.as_bytes());
    fs::set_permissions(&conf, fs::Permissions::from_mode(0o640)).unwrap();
    let setup = Setup::beside(&conf).unwrap();
    let done = install(&setup, 2);
    assert!(!done.unchanged);
    assert_eq!(done.plan.changes.len(), 3);
    let all = [
        "idlewave-epilog",
        "idlewave-prolog",
        "slurm.conf",
        "slurm.conf.before-idlewave",
    ];
    assert_eq!(names(dir.path()), all);
    assert_eq!(fs::read_to_string(&conf).unwrap(), done.plan.text);
    assert_eq!(fs::read_to_string(&setup.copy).unwrap(), TEXT);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&conf), mode(&setup.copy)), (0o640, 0o640));
    assert_eq!((mode(&setup.prolog), mode(&setup.epilog)), (0o755, 0o755));
    let script = |path: &Path| fs::read_to_string(path).unwrap();
    assert!(script(&setup.prolog).contains("timeout 30 /usr/bin/idlewave gang slurm prolog"));
    assert!(script(&setup.prolog).ends_with("exit 0\n"));
    assert!(script(&setup.epilog).contains("timeout 30 /usr/bin/idlewave gang slurm epilog"));
    assert!(script(&setup.epilog).ends_with("exec /site/epilog\n"));

    let inode = fs::metadata(&conf).unwrap().ino();
    assert!(install(&setup, 2).unchanged);
    assert_eq!(fs::metadata(&conf).unwrap().ino(), inode);
    assert!(!install(&setup, 3).unchanged);
    assert_eq!(fs::read_to_string(&setup.copy).unwrap(), TEXT);

    // slurmctld calls the scripts until it has read the file again.
    let early = setup.remove_scripts().unwrap_err().to_string();
    assert!(early.contains("still names the scripts"), "{early}");
    assert!(setup.uninstall().unwrap());
    assert_eq!(fs::read_to_string(&conf).unwrap(), TEXT);
    assert_eq!(mode(&conf), 0o640);
    assert_eq!(names(dir.path()), all[..3]);
    setup.remove_scripts().unwrap();
    assert_eq!(names(dir.path()), ["slurm.conf"]);
    assert!(!setup.uninstall().unwrap());
    setup.remove_scripts().unwrap();
}

#[test]
fn what_was_edited_meanwhile_stays_and_so_does_the_copy() {
    let (_dir, conf) = site(TEXT.as_bytes());
    let setup = Setup::beside(&conf).unwrap();
    install(&setup, 2);
    let edited = format!("# new\n{}", fs::read_to_string(&conf).unwrap());
    fs::write(&conf, edited).unwrap();
    assert!(setup.uninstall().unwrap());
    assert_eq!(fs::read_to_string(&conf).unwrap(), format!("# new\n{TEXT}"));
    assert_eq!(fs::read_to_string(&setup.copy).unwrap(), TEXT);
}

#[test]
fn a_link_is_followed_and_stays_one() {
    let (dir, conf) = site(TEXT.as_bytes());
    let other = tempfile::tempdir().unwrap();
    let link = other.path().join("slurm.conf");
    symlink(&conf, &link).unwrap();
    install(&Setup::beside(&link).unwrap(), 2);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&link).unwrap().contains("FORCE:2"));
    assert_eq!(names(other.path()), ["slurm.conf"]);
    assert_eq!(names(dir.path()).len(), 4);
}

#[test]
fn scripts_of_somebody_else_are_not_removed() {
    let (_dir, conf) = site(TEXT.as_bytes());
    let setup = Setup::beside(&conf).unwrap();
    fs::write(&setup.prolog, "#!/bin/sh\nexit 0\n").unwrap();
    setup.remove_scripts().unwrap();
    assert!(setup.prolog.exists());
}

#[test]
fn a_file_that_is_refused_is_left_with_nothing_beside_it() {
    let (dir, conf) = site(b"PartitionName=a\n# caf\xe9\n");
    let setup = Setup::beside(&conf).unwrap();
    let install = || {
        setup
            .install(Path::new("/usr/bin/idlewave"), 2, [])
            .unwrap_err()
    };
    let words = install().to_string();
    assert!(
        words.contains("slurm.conf: line 2 is not valid UTF-8"),
        "{words}"
    );
    fs::write(&conf, "ClusterName=c\n").unwrap();
    let words = install().to_string();
    assert!(
        words.contains("no line begins with PartitionName"),
        "{words}"
    );
    assert_eq!(names(dir.path()), ["slurm.conf"]);
    let missing = Setup::beside(Path::new("/nonexistent/slurm.conf")).unwrap_err();
    assert!(missing.to_string().contains("find /nonexistent/slurm.conf"));
}

#[test]
fn rights_are_kept_where_they_can_be() {
    if idlewave_sys::Uid::own() != idlewave_sys::Uid::ROOT {
        println!("skipped: only root gives files away");
        return;
    }
    let (_dir, conf) = site(TEXT.as_bytes());
    std::os::unix::fs::chown(&conf, Some(65534), Some(65534)).unwrap();
    let setup = Setup::beside(&conf).unwrap();
    let owner = || {
        let found = fs::metadata(&conf).unwrap();
        (found.uid(), found.gid())
    };
    install(&setup, 2);
    assert_eq!(owner(), (65534, 65534));
    setup.uninstall().unwrap();
    assert_eq!(owner(), (65534, 65534));
}

//! `sudo idlewave record`: root's rights trace the kernel, while the program and the recording are
//! the user's.

#![allow(clippy::unwrap_used)]

mod common;

use common::{command_at, idlewave, is_root, program_for_all, run};
use idlewave_mpi::testing::{installation, skip};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// The unprivileged user.
const NOBODY: u32 = 65534;

fn all_files(directory: &Path, found: &mut Vec<(std::path::PathBuf, u32)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        found.push((entry.path(), entry.metadata().unwrap().uid()));
        if entry.file_type().unwrap().is_dir() {
            all_files(&entry.path(), found);
        }
    }
}

#[test]
fn under_sudo_the_program_and_the_recording_are_the_users_and_the_kernel_is_traced() {
    if !is_root() {
        return skip("changing the user needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program_at = program_for_all(dir.path());
    let record = |name: &str, as_root: bool, options: &[&str], program: &[&str]| {
        let mut command = command_at(&program_at);
        command.current_dir(dir.path());
        command.env("XDG_RUNTIME_DIR", "/run/user/0");
        command.env_remove("OMPI_ALLOW_RUN_AS_ROOT");
        command.env_remove("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");
        if !as_root {
            command
                .env("SUDO_UID", NOBODY.to_string())
                .env("SUDO_USER", "nobody");
        }
        command.args(["record", "-o", name]).args(options).arg("--");
        let done = run(command.args(program));
        let mut found = vec![(dir.path().join(name), 0)];
        if done.code == Some(0) {
            found[0].1 = fs::metadata(&found[0].0).unwrap().uid();
            all_files(&dir.path().join(name), &mut found);
        }
        (done, found)
    };
    let who = "id -u; id -G; id -r -u; echo \"${XDG_RUNTIME_DIR-none} $USER\"; grep CapEff /proc/self/status";
    let (done, found) = record("own", false, &[], &["sh", "-c", who]);
    done.succeeded();
    let said: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(
        said[..4],
        ["65534", "65534", "65534", "none nobody"],
        "{done:?}"
    );
    assert!(said[4].ends_with("\t0000000000000000"), "{done:?}");
    let others: Vec<_> = found.iter().filter(|(_, user)| *user != NOBODY).collect();
    assert!(found.len() > 5 && others.is_empty(), "{others:?}");
    // Data that only root may see was recorded.
    let manifest = fs::read_to_string(dir.path().join("own/run.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let (reference, _) = record("root", true, &["--no-report"], &["true"]);
    reference.succeeded();
    let root = fs::read_to_string(dir.path().join("root/run.json")).unwrap();
    let root: serde_json::Value = serde_json::from_str(&root).unwrap();
    let mode = |of: &serde_json::Value| of["nodes"][0]["trace"]["mode"].clone();
    assert_eq!(mode(&manifest), mode(&root));
    // The user can explain it again.
    let mut explain = command_at(&program_at);
    explain.arg("explain").arg(dir.path().join("own"));
    run(explain.uid(NOBODY).gid(NOBODY)).succeeded();

    let (done, _) = record(
        "as-root",
        false,
        &["--user", "root", "--no-report"],
        &["id", "-u"],
    );
    assert_eq!(done.stdout, "0\n", "{done:?}");
    let (done, _) = record("no", true, &["--user", "no such user"], &["true"]);
    let [what, _] = done.failed(2);
    assert!(what.contains("there is no such user"), "{what}");
    assert!(!dir.path().join("no").exists());
    // Open MPI refuses to run as root: the launcher and everything before the ranks run as the user
    // too.
    let Some(mpi) = installation("openmpi4") else {
        return;
    };
    let mpirun = mpi.mpirun.to_str().unwrap();
    let launch = [mpirun, "--oversubscribe", "-n", "2", "sh", "-c", "id -u"];
    let (done, found) = record("mpi", false, &["--no-report"], &launch);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "65534\n65534\n"),
        "{done:?}"
    );
    assert!(found.iter().all(|(_, user)| *user == NOBODY), "{found:?}");
}

#[test]
fn the_run_of_a_study_under_sudo_is_the_users() {
    if !is_root() {
        return skip("changing the user needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = idlewave();
    command
        .current_dir(dir.path())
        .env("SUDO_UID", NOBODY.to_string());
    run(command.args(["study", "--duration", "2s", "--work", "200us", "-o", "run"])).succeeded();
    let mut found = Vec::new();
    all_files(&dir.path().join("run"), &mut found);
    let others: Vec<_> = found.iter().filter(|(_, user)| *user != NOBODY).collect();
    assert!(found.len() > 5 && others.is_empty(), "{others:?}");
}

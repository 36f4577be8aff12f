//! Tests with directories of plain files, which report states that a healthy kernel never reports.

use super::*;
use std::thread;
use std::time::Duration;

/// For what must happen, however late.
const LONG: Nanos = Nanos::from_secs(60);
/// Longer than that.
const LONGER: Nanos = Nanos::from_secs(70);

/// A group of version 2 whose state never changes.
fn fake_v2(events: &str) -> (tempfile::TempDir, Control) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.freeze"), "0").unwrap();
    fs::write(dir.path().join("cgroup.events"), events).unwrap();
    let control = Control::open(Kind::V2, dir.path()).unwrap();
    (dir, control)
}

/// A group of version 1 whose answer is in another file than the order, as in the kernel.
fn fake_v1(state: &str) -> (tempfile::TempDir, Control) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("freezer.state"), "").unwrap();
    fs::write(dir.path().join("answer"), state).unwrap();
    let control = Control::open_files(Kind::V1, dir.path(), "freezer.state", "answer").unwrap();
    (dir, control)
}

/// Writes another answer of the same length, so that a reader sees either the old or the new one.
fn say(answer: &Path, text: &str) {
    let file = OpenOptions::new().write(true).open(answer).unwrap();
    assert_eq!(file.write_at(text.as_bytes(), 0).unwrap(), 9);
}

fn text(dir: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap()
}

#[test]
fn a_group_that_never_says_frozen_is_an_error_at_the_limit_and_thawed() {
    let (dir, control) = fake_v2("populated 1\nfrozen 0\n");
    let limit = Nanos::from_millis(5);
    let start = now();
    let error = control.freeze(limit).unwrap_err();
    assert!(now() >= start + limit);
    let FreezeError::NotFrozen { after, .. } = &error else {
        panic!("{error}");
    };
    assert!(*after >= limit);
    assert_eq!(text(&dir, "cgroup.freeze"), "0");
    let message = error.to_string();
    assert!(
        message.starts_with("freeze within 5.00 ms: cgroup v2 says Thawed after "),
        "{message}"
    );
}

#[test]
fn a_group_of_version_1_that_stays_freezing_is_an_error_and_what_does_not_thaw_another() {
    let (dir, control) = fake_v1("FREEZING\n");
    let error = control.freeze(Nanos::from_millis(3)).unwrap_err();
    // The group does not report THAWED either: the caller must know that it may still be stopped.
    let FreezeError::NotThawedAgain { source, .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(**source, FreezeError::NotThawed { .. }));
    assert!(
        error.to_string().contains("cgroup v1 says Freezing"),
        "{error}"
    );
    assert_eq!(text(&dir, "freezer.state"), "THAWED");
}

#[test]
fn a_late_group_of_version_1_that_thaws_again_is_not_frozen() {
    let (dir, control) = fake_v1("FREEZING\n");
    let answer = dir.path().join("answer");
    let command = dir.path().join("freezer.state");
    // Like the kernel: answers THAWED once that is written.
    let kernel = thread::spawn(move || {
        let end = now() + LONG;
        while now() < end && !fs::read_to_string(&command).unwrap().contains("THAWED") {
            thread::sleep(Duration::from_micros(200));
        }
        say(&answer, "THAWED\n\n\n");
    });
    let error = control.freeze(Nanos::from_millis(3)).unwrap_err();
    kernel.join().unwrap();
    let message = error.to_string();
    assert!(
        matches!(
            error,
            FreezeError::NotFrozen { .. } | FreezeError::NotThawedAgain { .. }
        ),
        "{message}"
    );
}

#[test]
fn freezing_is_not_frozen_and_frozen_is_confirmed_when_it_is_said() {
    let (dir, control) = fake_v1("FREEZING\n");
    assert_eq!(control.state().unwrap(), State::Freezing);
    let answer = dir.path().join("answer");
    let command = dir.path().join("freezer.state");
    let kernel = thread::spawn(move || {
        let end = now() + LONG;
        while now() < end && !fs::read_to_string(&command).unwrap().contains("FROZEN") {
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_millis(20));
        say(&answer, "FROZEN\n\n\n");
    });
    let after = control.freeze(LONGER).unwrap();
    kernel.join().unwrap();
    assert!(after >= Nanos::from_millis(20), "{after}");
    assert_eq!(text(&dir, "freezer.state"), "FROZEN");
}

#[test]
fn a_group_that_stays_freezing_is_told_again() {
    let (dir, control) = fake_v1("FREEZING\n");
    let (command, answer) = (dir.path().join("freezer.state"), dir.path().join("answer"));
    // Misses the first order, like a process that forked in the meantime.
    let kernel = thread::spawn(move || {
        let ordered = || fs::read_to_string(&command).unwrap() == "FROZEN";
        let end = now() + LONG;
        for _ in 0..2 {
            while now() < end && !ordered() {
                thread::sleep(Duration::from_micros(200));
            }
            if now() < end {
                fs::write(&command, "").unwrap();
            }
        }
        if now() < end {
            say(&answer, "FROZEN\n\n\n");
        }
    });
    let frozen = control.freeze(LONGER);
    kernel.join().unwrap();
    frozen.unwrap();
}

#[test]
fn a_group_that_stays_frozen_is_not_thawed() {
    let (dir, control) = fake_v2("populated 1\nfrozen 1\n");
    control.freeze(Nanos::from_millis(1)).unwrap();
    assert_eq!(text(&dir, "cgroup.freeze"), "1");
    assert!(matches!(control.thaw(), Err(FreezeError::NotThawed { .. })));
    assert_eq!(text(&dir, "cgroup.freeze"), "0");
}

#[test]
fn answers_that_are_not_known_are_errors_with_their_text_and_leave_the_group_thawed() {
    for (kind, text) in [
        (Kind::V1, "frozen"),
        (Kind::V1, ""),
        (Kind::V2, "populated 1\n"),
        (Kind::V2, "frozen 2\n"),
        (Kind::V2, "unfrozen 1\n"),
    ] {
        assert_eq!(parse(kind, text), None, "{text}");
    }
    let (dir, control) = fake_v2("frozen maybe\n");
    let error = control.freeze(Nanos::from_millis(1)).unwrap_err();
    assert!(error.to_string().contains("`frozen maybe`"), "{error}");
    assert_eq!(text(&dir, "cgroup.freeze"), "0");
}

#[test]
fn members_are_numbers_and_what_is_not_a_process_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cgroup.procs"), "12\n7\n\n").unwrap();
    assert_eq!(members(dir.path()).unwrap(), [Pid::new(12), Pid::new(7)]);
    fs::write(dir.path().join("cgroup.procs"), "").unwrap();
    enter(dir.path(), Pid::new(345)).unwrap();
    assert_eq!(text(&dir, "cgroup.procs"), "345");
    let gone = dir.path().join("gone");
    assert!(matches!(
        enter(&gone, Pid::new(1)),
        Err(FreezeError::File { .. })
    ));
    let homes = Homes {
        default: dir.path().to_owned(),
        of: BTreeMap::new(),
    };
    release(Kind::V2, &gone, &homes).unwrap();
}

#[test]
fn a_group_that_cannot_be_removed_is_thawed_all_the_same() {
    let (dir, _) = fake_v2("frozen 0\n");
    fs::write(dir.path().join("cgroup.freeze"), "1").unwrap();
    let homes = Homes {
        default: dir.path().join("gone"),
        of: BTreeMap::new(),
    };
    let error = release(Kind::V2, dir.path(), &homes).unwrap_err();
    assert!(error.to_string().starts_with("remove "), "{error}");
    assert_eq!(text(&dir, "cgroup.freeze"), "0");
}

use super::*;
use crate::merge_testing::{All, Draw, node, recorded, write};
use idlewave_run::RunState;
use idlewave_session::Quiet;

/// A node with a clock of its own that says how good it is.
fn facts_of(boot_id: &str, realtime_ns: i64) -> NodeFacts {
    NodeFacts {
        host: boot_id.to_owned(),
        boot_id: boot_id.to_owned(),
        realtime_ns,
        realtime_error_ns: Some(1_000),
        time_namespace: None,
    }
}

fn put(path: PathBuf, facts: &NodeFacts) {
    fs::write(path, serde_json::to_vec(facts).unwrap()).unwrap();
}

fn bundle(path: PathBuf, name: &str, rank: u32) {
    write(path, name, &[rank], recorded(1_000, 2_000), &All::default());
}

/// What a killed front leaves: its own bundle, and below it the bundle that a node has handed over.
fn left(dir: &Path, front: &NodeFacts, node: &NodeFacts) -> PathBuf {
    let own = dir.join("run");
    bundle(own.clone(), "front", 0);
    let incoming = incoming(&own);
    fs::create_dir(&incoming).unwrap();
    put(incoming.join("front.json"), front);
    bundle(incoming.join("n1"), "other", 1);
    put(incoming.join("n1/node.json"), node);
    own
}

fn join(own: &Path) -> Result<bool, SessionError> {
    join_left(own, &AtomicBool::new(false), &Quiet)
}

#[test]
fn what_a_killed_front_has_not_merged_is_merged_later() {
    let dir = tempfile::tempdir().unwrap();
    let own = left(dir.path(), &facts_of("a", 0), &facts_of("a", 0));
    assert!(join(&own).unwrap());
    let run = RunReader::open(&own).unwrap();
    let manifest = run.manifest();
    assert_eq!(manifest.state, RunState::Complete);
    let names: Vec<&str> = manifest.nodes.iter().map(|n| &*n.host.name).collect();
    assert_eq!(names, ["front", "other"]);
    let places: Vec<u32> = manifest.ranks.iter().map(|r| r.node.get()).collect();
    assert_eq!(places, [0, 1]);
    // The front died before it knew the exit code.
    assert!(matches!(
        manifest.phases[0].kind,
        PhaseKind::Recorded {
            exit_code: None,
            ..
        }
    ));
    assert!(!incoming(&own).exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // The second time there is nothing to merge.
    assert!(!join(&own).unwrap());
}

#[test]
fn a_bundle_that_somebody_works_on_is_not_merged() {
    let dir = tempfile::tempdir().unwrap();
    let own = left(dir.path(), &facts_of("a", 0), &facts_of("a", 0));
    let lock = Lock::take(&own).unwrap();
    assert!(matches!(join(&own), Err(SessionError::Busy(_))));
    assert!(incoming(&own).join("n1/node.json").exists());
    drop(lock);
    assert!(join(&own).unwrap());
}

#[test]
fn clocks_are_compared_with_the_front_s_and_not_with_those_of_the_machine_that_merges() {
    let dir = tempfile::tempdir().unwrap();
    // The machine that merges is the other node.
    let here = NodeFacts {
        realtime_error_ns: Some(1_000),
        ..NodeFacts::here()
    };
    let front = facts_of("another boot", here.realtime_ns - 7_000_000);
    let own = left(dir.path(), &front, &here);
    assert!(join(&own).unwrap());
    let run = RunReader::open(&own).unwrap();
    let alignment = run.manifest().nodes[1].alignment.clone().unwrap();
    assert_eq!(alignment.points[0].offset_ns, 7_000_000);
    assert!(alignment.method.contains("time of day"), "{alignment:?}");
    let losses = run.manifest().losses.entries();
    assert!(
        losses[0]
            .what
            .contains("comparison of the clock of node other")
    );
}

#[test]
fn a_link_to_a_bundle_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let own = left(dir.path(), &facts_of("a", 0), &facts_of("a", 0));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    assert!(join(&link).unwrap());
    assert_eq!(fs::read_link(&link).unwrap(), own);
    assert_eq!(RunReader::open(&own).unwrap().manifest().nodes.len(), 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_rank_that_two_bundles_know_does_not_stand_for_one_that_none_knows() {
    let dir = tempfile::tempdir().unwrap();
    let mut draw = Draw(1);
    let mut bundle = |name: &str, ranks: &[u32]| {
        let all = node(&mut draw, ranks, 4);
        let path = dir.path().join(name);
        write(path.clone(), name, ranks, recorded(0, 1), &all);
        path
    };
    let (a, b, c) = (
        bundle("a", &[0, 1]),
        bundle("b", &[1, 2]),
        bundle("c", &[3]),
    );
    let missing = |paths: &[&PathBuf]| missing_ranks(paths.iter().map(|path| path.as_path()));
    assert_eq!(missing(&[&a]), Some(2));
    assert_eq!(missing(&[&a, &b]), Some(1));
    assert_eq!(missing(&[&a, &b, &c]), Some(0));
    assert_eq!(missing(&[]), None);
}

//! What `idlewave simulate like` prints for recorded programs about which it cannot answer
//! everything, on synthetic runs.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../../analyse/explain/tests/made/mod.rs"]
mod made;

use common::{idlewave, run};
use made::Made;
use made::world::World;
use std::path::Path;

const US: u64 = 1_000;

/// Ranks that repeatedly compute, exchange along a ring and meet.
fn ring(ranks: u32) -> World {
    let mut world = World::new(ranks);
    for _ in 0..10 {
        world.compute_all(100 * US);
        world.exchange(&[1, -1]);
        world.collective("MPI_Allreduce", 0);
    }
    world
}

/// One message, and no loop.
fn once() -> Made {
    let mut made = Made::new(2);
    made.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    made
}

fn like(paths: &[&Path], more: &[&str]) -> std::process::Command {
    let mut command = idlewave();
    command.args(["simulate", "like"]).args(paths).args(more);
    command
}

#[test]
fn numbers_of_ranks_that_cannot_be_told_end_with_the_code_of_a_part() {
    let (bundle, whole) = (once().write(), ring(4).made.write());
    let (lone, looped) = (bundle.open(), whole.open());
    let [what, next] = run(&mut like(&[lone.path()], &["--ranks", "16,64"])).failed(7);
    assert!(what.contains("on 16, 64 ranks: rank 0"), "{what}");
    assert!(next.contains("--ranks"), "{next}");
    // The available answers are printed.
    let ended = run(&mut like(&[lone.path()], &["--ranks", "16,64", "--json"]));
    assert_eq!(ended.code, Some(7));
    let seen: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(
        seen["no_pattern"].is_string() && seen["as_recorded"].is_object(),
        "{seen}"
    );
    run(&mut like(&[lone.path()], &[])).succeeded();
    run(&mut like(&[looped.path()], &["--ranks", "16,64"])).succeeded();
    // One run of a series is not compared with the others.
    let [what, _] = run(&mut like(&[looped.path(), lone.path()], &[])).failed(7);
    assert!(what.contains(&*lone.path().to_string_lossy()), "{what}");
}

#[test]
fn options_that_change_nothing_are_refused() {
    let bundle = ring(2).made.write();
    let looped = bundle.open();
    let [what, next] = run(&mut like(&[looped.path()], &["--strong"])).failed(2);
    assert!(
        what.contains("--strong") && next.contains("--ranks"),
        "{what} {next}"
    );
}

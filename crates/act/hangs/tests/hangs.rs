//! Programs that hang under real MPI libraries, and programs that do not.

#[allow(dead_code)]
mod common;

use common::{Place, send};
use idlewave_gang::state::{Cause, State};
use idlewave_hangs::{Doubt, Job, Look, Settings, Watch};
use idlewave_interpose::StateCount;
use idlewave_mpi::testing::{Installation, some_installations};
use idlewave_sys::process::Signal;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(10);
/// Far longer than a verdict takes: no test passes or fails by timing.
const LIMIT: Duration = Duration::from_secs(600);

fn each(case: &str, check: impl Fn(&Place, &Installation)) {
    let place = Place::shared();
    for mpi in some_installations(case) {
        check(&place, &mpi);
    }
}

/// The first look that shows a deadlock.
fn deadlock(place: &Place, mpi: &Installation, ranks: u32, what: &str) -> Option<Look> {
    let look = look_until(place, mpi, ranks, what, |look| look.stuck().is_some())?;
    assert!(look.stuck().is_some(), "{} {what}: {look:?}", mpi.name);
    Some(look)
}

fn look_until(
    place: &Place,
    mpi: &Installation,
    ranks: u32,
    what: &str,
    enough: impl FnMut(&Look) -> bool,
) -> Option<Look> {
    let mut job = place.start(mpi, ranks, &[what], Settings::default())?;
    job.until(INTERVAL, LIMIT, enough)
}

fn check(ranks: u32, what: &str, dead: &[u32], says: &[&str]) {
    each(what, |place, mpi| {
        // Some of them may wait for each other before others join them.
        let all = |look: &Look| common::stuck_ranks(look) == dead;
        let Some(look) = look_until(place, mpi, ranks, what, all) else {
            return;
        };
        assert!(all(&look), "{} {what}: {look:?}", mpi.name);
        assert!(look.suspicion().is_none(), "{} {what}", mpi.name);
        let found = look.deadlock().expect("a deadlock");
        assert_ne!(found.cause, Cause::Unnamed, "{} {what}", mpi.name);
        let report = look.report().expect("a report").join("\n");
        for words in says {
            assert!(report.contains(words), "{} {what}: {report}", mpi.name);
        }
    });
}

#[test]
fn a_cycle_of_receives_is_found() {
    let cycle = [
        "rank 0 waits in MPI_Recv for rank 2 (tag 7, MPI_COMM_WORLD)",
        "rank 2 waits in MPI_Recv for rank 1 (tag 7, MPI_COMM_WORLD)",
        "rank 1 waits in MPI_Recv for rank 0 (tag 7, MPI_COMM_WORLD)",
    ];
    check(3, "receive", &[0, 1, 2], &cycle);
}

#[test]
fn every_message_is_counted_once_at_both_ends_however_it_is_received() {
    each("counted", |place, mpi| {
        let Some(look) = deadlock(place, mpi, 3, "receive") else {
            return;
        };
        // Five by MPI_Sendrecv with two tags; four with a third tag, one for each kind of receive.
        let all = StateCount::Tags(vec![(0, 3), (1, 2), (3, 4)]);
        let none = StateCount::Tags(Vec::new());
        for of in &look.ranks {
            let [next, before] = [1, 2].map(|distance| (of.rank + distance) % 3);
            let pair = |peer| of.record.pairs.iter().find(|pair| pair.peer == peer);
            let counts = |peer| pair(peer).map(|pair| (&pair.sent, &pair.received));
            assert_eq!(counts(next), Some((&all, &none)), "{}", mpi.name);
            assert_eq!(counts(before), Some((&none, &all)), "{}", mpi.name);
        }
    });
}

#[test]
fn a_rank_in_a_receive_while_others_are_in_a_barrier_is_found() {
    let words = [
        "rank 0 waits in MPI_Recv for rank 1 (tag 7",
        "rank 1 waits in MPI_Barrier for rank 0",
    ];
    check(3, "mismatch", &[0, 1, 2], &words);
}

#[test]
fn different_collectives_are_found() {
    let words = ["rank 0 entered MPI_Barrier, rank 1 MPI_Allreduce"];
    check(2, "collectives", &[0, 1], &words);
    // MPICH may let a small broadcast pass; whoever is in the barrier waits in vain.
    let words = ["rank 0 entered MPI_Barrier, rank 1 MPI_Bcast with root 0"];
    each("bcast", |place, mpi| {
        if let Some(look) = deadlock(place, mpi, 2, "bcast") {
            let found = look.deadlock().expect("a deadlock");
            assert_eq!(found.ranks.first().map(|rank| rank.get()), Some(0));
            let report = look.report().expect("a report").join("\n");
            let named = words.iter().all(|words| report.contains(words));
            assert!(named || found.ranks.len() == 1, "{}: {report}", mpi.name);
        }
    });
}

#[test]
fn a_cycle_of_sends_is_found() {
    let words = ["rank 0 waits in MPI_Send for rank 1 (to receive tag 3, MPI_COMM_WORLD)"];
    check(2, "rendezvous", &[0, 1], &words);
    // 256 KiB: too small to count as stuck without CPU time.
    check(2, "small-rendezvous", &[0, 1], &words);
    let words = ["rank 1 waits in MPI_Ssend for rank 0"];
    check(2, "synchronous", &[0, 1], &words);
}

#[test]
fn receives_from_anyone_to_whom_nobody_sends_are_found() {
    let words = [
        "waits in MPI_Recv for anyone, as rank",
        "(any tag, MPI_COMM_WORLD)",
    ];
    check(3, "any-source", &[0, 1, 2], &words);
    check(2, "probe", &[0, 1], &["MPI_Probe for rank 1 (tag 9"]);
}

#[test]
fn a_message_with_another_tag_does_not_help() {
    let words = [
        "rank 0 waits in MPI_Recv for rank 1 (tag 5",
        "sent to them, but never received:\n  rank 1 sent tag 4; rank 0 waits for tag 5 (MPI_COMM_WORLD)",
    ];
    check(2, "wrong-tag", &[0, 1], &words);
}

#[test]
fn waits_for_several_requests_are_found() {
    check(2, "waitall", &[0, 1], &["waits in MPI_Waitall"]);
    check(3, "waitany", &[0, 1, 2], &["waits in MPI_Waitany"]);
    check(2, "persistent", &[0, 1], &["waits in MPI_Wait for"]);
    let words = ["rank 1 waits in MPI_Wait for rank 0 (collective"];
    check(2, "ibarrier", &[0, 1], &words);
}

#[test]
fn deadlocks_over_several_communicators_are_found() {
    let words = ["MPI_Barrier (collective 1 of communicator "];
    check(3, "split", &[0, 1, 2], &words);
}

#[test]
fn counters_of_communicators_that_were_freed_are_nobody_elses() {
    each("communicators", |place, mpi| {
        let Some(look) = deadlock(place, mpi, 2, "communicators") else {
            return;
        };
        for rank in &look.ranks {
            let record = &rank.record;
            let world = record.communicators.iter().find(|of| of.world);
            let world = world.expect("MPI_COMM_WORLD").key;
            let other = record.pairs.iter().filter(|of| of.communicator != world);
            let counts: Vec<_> = other.map(|of| (&of.sent, &of.received)).collect();
            let one = StateCount::Tags(vec![(2, 1)]);
            assert_eq!(counts, [(&one, &one)], "{}", mpi.name);
            assert_eq!(record.communicators.len(), 2);
        }
    });
}

#[test]
fn who_waits_for_a_rank_that_has_finalised_waits_for_ever() {
    each("finalised", |place, mpi| {
        let Some(look) = deadlock(place, mpi, 2, "finalised") else {
            return;
        };
        let found = look.deadlock().expect("a deadlock");
        assert!(matches!(found.cause, Cause::Exited { .. }), "{look:?}");
        assert_eq!(found.ranks.len(), 1);
    });
}

#[test]
fn a_loop_of_tests_is_named_as_one() {
    each("test", |place, mpi| {
        let Some(look) = deadlock(place, mpi, 2, "test") else {
            return;
        };
        let (_, doubt) = look.suspicion().expect("a suspicion");
        assert_eq!(doubt, Doubt::Polling);
        assert!(look.deadlock().is_none(), "{look:?}");
        let report = look.report().expect("a report").join("\n");
        assert!(
            report
                .starts_with("suspicion: 2 of 2 ranks are stuck, but ranks 0, 1 are only polling"),
            "{report}"
        );
        assert!(
            report.contains("polls with MPI_Test from rank 1 (tag 4"),
            "{report}"
        );
    });
}

/// Checks that a look shows no deadlock, and that what it read does not contradict itself.
#[track_caller]
fn check_well(look: &Look, what: &str) {
    assert!(look.shown().is_none(), "{what}: {look:?}");
    let state = look.verdict.as_ref().map(|verdict| &verdict.state);
    assert!(
        !matches!(state, Some(State::Unknown(_))),
        "{what}: {look:?}"
    );
}

/// Checks that no look shows a deadlock, and that the job ends.
fn no_verdict(ranks: u32, arguments: &[&str], settings: Settings, interval: Duration) {
    each(arguments[0], |place, mpi| {
        let mut progressing = 0;
        // On a busy machine one job may be over before a look.
        for _ in 0..20 {
            let Some(mut job) = place.start(mpi, ranks, arguments, settings) else {
                return;
            };
            let last = job.until(interval, LIMIT, |look| {
                check_well(look, mpi.name);
                progressing += u32::from(matches!(look.job, Job::Progressing | Job::Idle));
                false
            });
            assert!(job.ended(), "{} {arguments:?} ends: {last:?}", mpi.name);
            if progressing > 0 {
                return;
            }
        }
        panic!("{} {arguments:?}: no look saw all ranks", mpi.name);
    });
}

#[test]
fn slow_ranks_and_copied_sends_are_no_deadlock() {
    let often = Duration::from_millis(1);
    no_verdict(2, &["slow"], Settings::default(), often);
    no_verdict(3, &["eager"], Settings::default(), often);
    no_verdict(2, &["pingpong", "0.5"], Settings::default(), often);
    let eager = Settings {
        polls: 1,
        ..Settings::default()
    };
    // A loop that tests two requests in turn is not known to wait, however often it is seen.
    no_verdict(2, &["two-tests"], eager, often);
}

#[test]
fn programs_that_use_everything_have_no_deadlock_at_any_moment() {
    // Snapshots are taken as fast as possible, and each is judged alone.
    let settings = Settings {
        polls: u32::MAX,
        ..Settings::default()
    };
    let often = Duration::from_micros(100);
    no_verdict(2, &["mixed", "1"], settings, often);
    no_verdict(4, &["mixed", "1"], settings, often);
}

#[test]
fn ranks_that_are_stopped_at_random_are_no_deadlock() {
    each("random", |place, mpi| {
        for what in ["pingpong", "mixed"] {
            let settings = Settings {
                polls: u32::MAX,
                ..Settings::default()
            };
            let Some(mut job) = place.start(mpi, 2, &[what, "1.2"], settings) else {
                return;
            };
            let mut random = 1_u64;
            let mut next = move |below: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 33) % below
            };
            let (mut stops, mut seen_stopped, mut looks) = (0, 0, 0);
            let mut jobs = 1;
            loop {
                if job.ended() {
                    if stops > 20 && seen_stopped > 20 {
                        break;
                    }
                    // On a busy machine one job may be over too soon.
                    jobs += 1;
                    assert!(jobs < 50, "{stops} {seen_stopped}");
                    drop(job);
                    job = place
                        .start(mpi, 2, &[what, "1.2"], settings)
                        .expect("it was started before");
                }
                let pids = job.pids();
                let chosen: Vec<u32> = pids.into_iter().filter(|_| next(2) == 0).collect();
                chosen.iter().for_each(|pid| send(*pid, Signal::STOP));
                stops += chosen.len();
                for _ in 0..next(40) {
                    let look = job.watch.look().expect("a look");
                    looks += 1;
                    seen_stopped += look.ranks.iter().filter(|rank| rank.stopped).count();
                    check_well(&look, what);
                }
                chosen.iter().for_each(|pid| send(*pid, Signal::CONT));
                std::thread::sleep(Duration::from_micros(next(3000)));
            }
            println!("{} {what}: {looks} looks, {stops} stops", mpi.name);
        }
    });
}

#[test]
fn nothing_is_said_of_ranks_whose_threads_may_all_call_mpi() {
    each("threads", |place, mpi| {
        let Some(mut job) = place.start(mpi, 2, &["threads"], Settings::default()) else {
            return;
        };
        let look = job.until(INTERVAL, LIMIT, |look| {
            look.ranks.len() == 2 && look.ranks.iter().all(|rank| rank.record.unknown != 0)
        });
        let look = look.expect("a look");
        assert!(look.shown().is_none(), "{look:?}");
        assert_eq!(job.watch.initialised().expect("pages").past, 2);
    });
}

#[test]
fn initialisation_is_over_when_all_ranks_are_past_it() {
    each("initialisation", |place, mpi| {
        let mut seen_within = false;
        // On a busy machine all of it may be over between two glances.
        for _ in 0..20 {
            let Some(mut job) = place.start(mpi, 3, &["slow"], Settings::default()) else {
                return;
            };
            let begin = std::time::Instant::now();
            loop {
                let now = job.watch.initialised().expect("pages");
                seen_within |= now.within > 0;
                // A process past MPI_Init knows about the others, which are at least in it.
                if now.past > 0 {
                    assert_eq!(now.size, Some(3));
                    assert_eq!(now.past + now.within, 3);
                }
                if now.all() {
                    assert_eq!(now.past, 3);
                    break;
                }
                assert!(begin.elapsed() < LIMIT, "{now:?}");
            }
            if seen_within {
                return;
            }
        }
        panic!("{}", mpi.name);
    });
}

/// A job that hangs and has not been looked at yet.
fn hung(place: &Place, mpi: &Installation, what: &str, settings: Settings) -> Option<Hung> {
    let mut job = place.start(mpi, 2, &[what], settings)?;
    let hangs = job.hangs(INTERVAL, LIMIT);
    assert!(hangs, "{} {what}, ended: {}", mpi.name, job.ended());
    // Finds the pages, without a look.
    assert!(job.watch.initialised().expect("pages").all());
    Some(job)
}

type Hung = common::Running<'static>;

#[test]
fn one_look_alone_tells_of_no_deadlock() {
    let settings = Settings {
        apart: Duration::from_millis(50),
        ..Settings::default()
    };
    each("one look", |place, mpi| {
        let Some(mut job) = hung(place, mpi, "receive", settings) else {
            return;
        };
        let first = job.watch.look().expect("a look");
        assert!(first.shown().is_some(), "{first:?}");
        assert!(first.deadlock().is_none(), "{first:?}");
        std::thread::sleep(settings.apart);
        let second = job.watch.look().expect("a look");
        assert!(second.deadlock().is_some(), "{second:?}");
    });
}

#[test]
fn a_glance_tells_ranks_that_may_wait_for_ever_from_those_that_move_or_compute() {
    each("glance", |place, mpi| {
        let Some(mut job) = hung(place, mpi, "receive", Settings::default()) else {
            return;
        };
        job.watch.look().expect("a look");
        assert!(!job.watch.is_still(), "there was none before");
        assert!(job.watch.is_still());
        // Looks in between show the deadlock as well, but never idle ranks.
        let between = |watch: &mut Watch| watch.look_between().expect("a look");
        std::thread::sleep(Settings::default().apart);
        assert!(between(&mut job.watch).deadlock().is_some());
        drop(job);
        let Some(mut job) = place.start(mpi, 2, &["pingpong", "600"], Settings::default()) else {
            return;
        };
        job.until(INTERVAL, LIMIT, |look| matches!(look.job, Job::Progressing));
        // Ranks without a CPU are still for a while.
        let mut moved = 0;
        while moved < 10 {
            std::thread::sleep(Duration::from_millis(10));
            moved += u32::from(!job.watch.is_still());
            assert!(!job.ended(), "{moved}");
        }
        job.stop();
        let look = between(&mut job.watch);
        assert!(matches!(look.job, Job::Progressing), "{look:?}");
    });
}

#[test]
fn looks_in_between_do_not_count_as_polls() {
    let settings = Settings {
        polls: 5,
        apart: Duration::ZERO,
        ..Settings::default()
    };
    each("between", |place, mpi| {
        let Some(mut job) = hung(place, mpi, "test", settings) else {
            return;
        };
        for _ in 0..50 {
            let look = job.watch.look_between().expect("a look");
            assert!(look.shown().is_none(), "{} {look:?}", mpi.name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let look = job.until(INTERVAL, LIMIT, |look| look.stuck().is_some());
        assert!(look.is_some_and(|look| look.stuck().is_some()));
    });
}

#[test]
fn ranks_that_are_stopped_neither_poll_nor_end_their_sends() {
    let settings = Settings {
        polls: 3,
        ..Settings::default()
    };
    each("stopped", |place, mpi| {
        for what in ["test", "small-rendezvous"] {
            let Some(mut job) = hung(place, mpi, what, settings) else {
                return;
            };
            job.stop();
            for _ in 0..20 {
                let look = job.watch.look().expect("a look");
                assert!(look.shown().is_none(), "{} {what}: {look:?}", mpi.name);
                assert!(look.ranks.iter().all(|rank| rank.stopped), "{look:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
            job.pids().iter().for_each(|pid| send(*pid, Signal::CONT));
            let look = job.until(INTERVAL, LIMIT, |look| look.stuck().is_some());
            let look = look.expect("a look");
            assert!(look.stuck().is_some(), "{} {what}: {look:?}", mpi.name);
        }
    });
}

#[test]
fn what_was_told_stays_so_when_the_ranks_are_stopped() {
    each("told", |place, mpi| {
        for what in ["test", "small-rendezvous"] {
            let Some(mut job) = place.start(mpi, 2, &[what], Settings::default()) else {
                return;
            };
            let look = job.until(INTERVAL, LIMIT, |look| look.stuck().is_some());
            let look = look.expect("a look");
            assert!(look.stuck().is_some(), "{} {what}: {look:?}", mpi.name);
            job.stop();
            // One that polls may have been stopped between a look and its end.
            for _ in 0..20 {
                let look = job.watch.look().expect("a look");
                assert!(look.ranks.iter().all(|rank| rank.stopped), "{look:?}");
                assert!(look.stuck().is_some(), "{} {what}: {look:?}", mpi.name);
                std::thread::sleep(INTERVAL);
            }
        }
    });
}

#[test]
fn a_loop_of_tests_is_seen_in_turns_that_are_shorter_than_ten_looks() {
    each("turns", |place, mpi| {
        let Some(mut job) = place.start(mpi, 2, &["test"], Settings::default()) else {
            return;
        };
        job.until(INTERVAL, LIMIT, |look| !look.ranks.is_empty());
        let pids = job.pids();
        let turn = |signal| pids.iter().for_each(|pid| send(*pid, signal));
        let begin = std::time::Instant::now();
        // Five looks during a turn, and five between two turns.
        for n in 0.. {
            match n % 10 {
                0 => turn(Signal::CONT),
                5 => turn(Signal::STOP),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(20));
            let look = job.watch.look().expect("a look");
            if look.stuck().is_some() {
                break;
            }
            assert!(begin.elapsed() < LIMIT, "{}: {look:?}", mpi.name);
        }
    });
}

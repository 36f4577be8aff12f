//! Programs that hang under real MPI libraries, and programs that do not.

#[allow(dead_code)]
mod common;

use common::{Place, send};
use idlewave_gang::state::{Cause, State};
use idlewave_interpose::StateCount;
use idlewave_mpi::testing::{Installation, some_installations};
use idlewave_watch::{Job, Look, Settings, Watch};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(10);
/// Far above what a verdict takes: no test passes or fails on a timing.
const LIMIT: Duration = Duration::from_secs(30);

fn each(case: &str, check: impl Fn(&Place, &Installation)) {
    let place = Place::shared();
    for mpi in some_installations(case) {
        check(&place, &mpi);
    }
}

/// The first look that tells of a deadlock.
fn deadlock(place: &Place, mpi: &Installation, ranks: u32, what: &str) -> Option<Look> {
    let mut job = place.start(mpi, ranks, &[what], Settings::default())?;
    let look = job.until(INTERVAL, LIMIT, |look| look.deadlock().is_some())?;
    assert!(look.deadlock().is_some(), "{} {what}: {look:?}", mpi.name);
    Some(look)
}

fn check(ranks: u32, what: &str, dead: &[u32], says: &[&str]) {
    each(what, |place, mpi| {
        let Some(look) = deadlock(place, mpi, ranks, what) else {
            return;
        };
        let found = look.deadlock().expect("a deadlock");
        let named: Vec<u32> = found.ranks.iter().map(|rank| rank.get()).collect();
        assert_eq!(named, dead, "{} {what}", mpi.name);
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
        // Five of MPI_Sendrecv with two tags; four of a third to each kind of receive.
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
    // 256 KiB: too small to be taken for stuck without CPU time.
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
    let words = ["rank 0 waits in MPI_Recv for rank 1 (tag 5"];
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
        assert!(look.deadlock().expect("a deadlock").polling);
        let report = look.report().expect("a report").join("\n");
        assert!(report.contains("no other way out"), "{report}");
        assert!(
            report.contains("polls with MPI_Test from rank 1 (tag 4"),
            "{report}"
        );
    });
}

/// A look shows no deadlock, and what was read does not contradict itself.
#[track_caller]
fn check_well(look: &Look, what: &str) {
    assert!(look.suspected().is_none(), "{what}: {look:?}");
    let state = look.verdict.as_ref().map(|verdict| &verdict.state);
    assert!(
        !matches!(state, Some(State::Unknown(_))),
        "{what}: {look:?}"
    );
}

/// No look tells of a deadlock, and the job ends.
fn no_verdict(ranks: u32, arguments: &[&str], settings: Settings, interval: Duration) {
    each(arguments[0], |place, mpi| {
        let Some(mut job) = place.start(mpi, ranks, arguments, settings) else {
            return;
        };
        let mut progressing = 0;
        let last = job.until(interval, LIMIT, |look| {
            check_well(look, mpi.name);
            progressing += u32::from(matches!(look.job, Job::Progressing | Job::Idle));
            false
        });
        assert!(job.ended(), "{} {arguments:?} ends", mpi.name);
        assert!(progressing > 0, "{} {arguments:?}: {last:?}", mpi.name);
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
    // A loop that asks for two things in turn is not known to wait, however often it is seen.
    no_verdict(2, &["two-tests"], eager, often);
}

#[test]
fn programs_that_use_everything_have_no_deadlock_at_any_moment() {
    // Snapshots as fast as they can be taken; one after another of which each is judged alone.
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
            while !job.ended() {
                let pids = job.pids();
                let chosen: Vec<u32> = pids.into_iter().filter(|_| next(2) == 0).collect();
                chosen.iter().for_each(|pid| send(*pid, libc::SIGSTOP));
                stops += chosen.len();
                for _ in 0..next(40) {
                    let look = job.watch.look().expect("a look");
                    looks += 1;
                    seen_stopped += look.ranks.iter().filter(|rank| rank.stopped).count();
                    check_well(&look, what);
                }
                chosen.iter().for_each(|pid| send(*pid, libc::SIGCONT));
                std::thread::sleep(Duration::from_micros(next(3000)));
            }
            assert!(stops > 20 && seen_stopped > 20, "{stops} {seen_stopped}");
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
        assert!(look.suspected().is_none(), "{look:?}");
        assert_eq!(job.watch.initialised().expect("pages").past, 2);
    });
}

#[test]
fn initialisation_is_over_when_all_ranks_are_past_it() {
    each("initialisation", |place, mpi| {
        let Some(mut job) = place.start(mpi, 3, &["slow"], Settings::default()) else {
            return;
        };
        let mut seen_within = false;
        let begin = std::time::Instant::now();
        loop {
            let now = job.watch.initialised().expect("pages");
            seen_within |= now.within > 0;
            // Whoever is past MPI_Init knows of the others, which are at least in it.
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
        assert!(seen_within, "{}", mpi.name);
    });
}

/// A job that hangs, and that nobody has looked at yet.
fn hung(place: &Place, mpi: &Installation, what: &str, settings: Settings) -> Option<Hung> {
    let mut job = place.start(mpi, 2, &[what], settings)?;
    assert!(job.hangs(INTERVAL, LIMIT), "{} {what}", mpi.name);
    // Finds the pages, and looks at phases only.
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
        assert!(first.suspected().is_some(), "{first:?}");
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
        // Looks in between tell of it as well, and of nothing that is idle.
        let between = |watch: &mut Watch| watch.look_between().expect("a look");
        std::thread::sleep(Settings::default().apart);
        assert!(between(&mut job.watch).deadlock().is_some());
        drop(job);
        let Some(mut job) = place.start(mpi, 2, &["pingpong", "60"], Settings::default()) else {
            return;
        };
        job.until(INTERVAL, LIMIT, |look| matches!(look.job, Job::Progressing));
        let still = |job: &mut Hung| {
            std::thread::sleep(Duration::from_millis(10));
            job.watch.is_still()
        };
        let moved = (0..20).filter(|_| !still(&mut job)).count();
        assert!(moved >= 10, "{moved}");
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
            assert!(look.suspected().is_none(), "{} {look:?}", mpi.name);
            std::thread::sleep(Duration::from_millis(2));
        }
        let look = job.until(INTERVAL, LIMIT, |look| look.deadlock().is_some());
        assert!(look.is_some_and(|look| look.deadlock().is_some()));
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
                assert!(look.suspected().is_none(), "{} {what}: {look:?}", mpi.name);
                assert!(look.ranks.iter().all(|rank| rank.stopped), "{look:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
            job.pids().iter().for_each(|pid| send(*pid, libc::SIGCONT));
            let look = job.until(INTERVAL, LIMIT, |look| look.deadlock().is_some());
            let look = look.expect("a look");
            assert!(look.deadlock().is_some(), "{} {what}: {look:?}", mpi.name);
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
            let look = job.until(INTERVAL, LIMIT, |look| look.deadlock().is_some());
            assert!(look.is_some_and(|look| look.deadlock().is_some()));
            job.stop();
            // One that polls may have been stopped between a look and its end.
            for _ in 0..20 {
                let look = job.watch.look().expect("a look");
                assert!(look.ranks.iter().all(|rank| rank.stopped), "{look:?}");
                assert!(look.deadlock().is_some(), "{} {what}: {look:?}", mpi.name);
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
        let mut found = false;
        // Five looks of a turn, and five between two.
        for n in 0..1_500 {
            match n % 10 {
                0 => turn(libc::SIGCONT),
                5 => turn(libc::SIGSTOP),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(20));
            found |= job.watch.look().expect("a look").deadlock().is_some();
            if found {
                break;
            }
        }
        assert!(found, "{}", mpi.name);
    });
}

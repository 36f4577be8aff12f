//! Real processes, switched on one "node" by a real controller and a real agent.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Job, LIMIT, Service, await_runs, settings};
use idlewave_freeze::clock;
use idlewave_gang_agent::control::{Observation, Reply, Request, Stage, SwitchStatus};
use idlewave_units::Nanos;
use std::time::{Duration, Instant};

#[test]
fn two_gangs_run_in_turns_and_never_together() {
    let slice = Nanos::from_millis(40);
    let service = Service::start(1, settings(slice));
    let jobs = [Job::start(&service, "a", 2), Job::start(&service, "b", 2)];
    let status = service.await_status(|s| s.rows.len() == 2 && s.switches.switched > 10);
    assert_eq!(status.gangs.len(), 2);
    assert!(
        status
            .gangs
            .iter()
            .all(|g| g.stage == Stage::Running && g.ranks == 2 && g.size == Some(2))
    );
    let begin = clock::now().get();
    let before = service.status().switches.switched;
    // A recorded period ends at the last iteration of its loop, so it does not reach into the other
    // gang's turn.
    service.assert_turns([&jobs[0], &jobs[1]], true, Duration::from_secs(2));
    let SwitchStatus {
        switched,
        missing,
        cost,
        ..
    } = service
        .await_status(|s| s.switches.switched > before + 1)
        .switches;
    // A loaded machine does fewer.
    let slices = (clock::now().get() - begin) / slice.get();
    let switches = switched - before;
    assert!(switches <= slices + 2, "{switches} in {slices} slices");
    // Each was measured, but where the node did not answer in time.
    let measured = cost.unwrap().n;
    assert!(
        (switched.saturating_sub(missing)..=switched).contains(&measured),
        "{measured} of {switched} measured, {missing} without an answer"
    );
}

#[test]
fn one_gang_alone_is_not_switched_and_an_ended_one_leaves_the_cpus_to_the_other() {
    let service = Service::start(1, settings(Nanos::from_millis(20)));
    let first = Job::start(&service, "c", 1);
    service.await_status(|s| s.running.is_some());
    let switched_once_alone = || {
        let begin = Instant::now();
        loop {
            let before = service.status().switches.switched;
            let now = clock::now().get();
            await_runs(&[&first], true, now, Duration::from_millis(500));
            if service.status().switches.switched == before {
                return before;
            }
            // A switch may have been under way.
            assert!(begin.elapsed() < LIMIT, "it is switched");
        }
    };
    let before = switched_once_alone();
    let second = Job::start(&service, "d", 2);
    service.await_status(|s| s.rows.len() == 2 && s.switches.switched > before + 4);
    drop(second);
    service.await_status(|s| {
        s.gangs.len() == 1 && s.rows.len() == 1 && s.running == Some(s.rows[0].row)
    });
    switched_once_alone();
}

#[test]
fn a_gang_that_comes_does_not_run_beside_the_one_whose_turn_it_is() {
    let slice = Duration::from_secs(60);
    let service = Service::start(1, settings(Nanos::from_secs(slice.as_secs())));
    let first = Job::start(&service, "k", 2);
    let before = service.await_status(|s| s.running.is_some()).switches;
    let second = Job::start(&service, "l", 2);
    service.await_status(|s| s.rows.len() == 2);
    let admitted = Instant::now();
    let after = service
        .await_status(|s| s.switches.switched > before.switched)
        .switches;
    // Not at the end of the turn. A switch that a busy machine aborted is tried again only then.
    let took = admitted.elapsed();
    assert!(
        took < slice / 2 || after.aborted != before.aborted,
        "{took:?}"
    );
    service.assert_turns([&first, &second], false, Duration::from_millis(500));
}

#[test]
fn a_cancelled_gang_is_told_to_end_and_its_processes_do() {
    let service = Service::start(1, settings(Nanos::from_millis(20)));
    let mut job = Job::start(&service, "e", 2);
    let _other = Job::start(&service, "f", 2);
    service.await_status(|s| s.switches.switched > 4);
    let reply = service
        .control()
        .ask(&Request::Cancel { gang: job.gang })
        .unwrap();
    assert_eq!(reply, Reply::Done);
    let status = service.await_status(|s| s.gangs.iter().any(|g| g.stage == Stage::Ended));
    assert_eq!(status.rows.len(), 1);
    for child in &mut job.children {
        let ended = child.wait().unwrap();
        assert!(!ended.success());
    }
    let reply = service
        .control()
        .ask(&Request::Cancel { gang: 99 })
        .unwrap();
    assert!(matches!(reply, Reply::Failed(why) if why.starts_with("find gang 99")));
}

#[test]
fn everything_runs_when_the_service_is_drained_and_when_it_ends() {
    let service = Service::start(1, settings(Nanos::from_millis(40)));
    let jobs = [Job::start(&service, "g", 1), Job::start(&service, "h", 2)];
    service.await_status(|s| s.rows.len() == 2 && s.switches.switched > 4);
    assert_eq!(
        service.control().ask(&Request::Drain { on: true }).unwrap(),
        Reply::Done
    );
    service.await_status(|s| s.running.is_none());
    let both_run = || {
        let begin = clock::now().get();
        await_runs(&[&jobs[0], &jobs[1]], true, begin, Duration::ZERO);
    };
    both_run();
    assert_eq!(
        service
            .control()
            .ask(&Request::Drain { on: false })
            .unwrap(),
        Reply::Done
    );
    service.await_status(|s| s.running.is_some());
    assert_eq!(service.control().ask(&Request::Stop).unwrap(), Reply::Done);
    let begin = Instant::now();
    while service.connect().is_some() {
        assert!(begin.elapsed() < LIMIT, "the service does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    both_run();
}

#[test]
fn what_ranks_do_is_believed_of_the_connection_that_submitted_them_only() {
    let service = Service::start(1, settings(Nanos::from_millis(20)));
    let mut jobs = [Job::start(&service, "i", 1), Job::start(&service, "j", 1)];
    let stage = |gang: u32, wanted: Stage| {
        service.await_status(|s| s.gangs.iter().any(|g| g.gang == gang && g.stage == wanted))
    };
    for job in &jobs {
        stage(job.gang, Stage::Running);
    }
    let gang = jobs[0].gang;
    let initialising = Request::Observed {
        gang,
        initialised: Some(false),
        activity: Observation::Progressing,
    };
    for other in [&mut service.control(), &mut jobs[1]._control] {
        let mut reply = Some(other.ask(&initialising).unwrap());
        // Messages about its own gang come first.
        while matches!(reply, Some(Reply::Changed { .. })) {
            reply = other.next(None).unwrap();
        }
        let why = format!("observe gang {gang}: another connection submitted it");
        assert_eq!(reply, Some(Reply::Failed(why)));
    }
    let status = stage(gang, Stage::Running);
    assert!(status.gangs.iter().all(|g| g.observed.is_none()));
    jobs[0]._control.tell(&initialising).unwrap();
    let status = stage(gang, Stage::Starting);
    let own = status.gangs.iter().find(|g| g.gang == gang).unwrap();
    assert_eq!(own.observed, Some(Observation::Progressing));
}

//! The controller's decisions, from its input and the time: no processes, no clock.

mod admission;
mod turns;

use super::*;

pub(super) const SETTLE: Nanos = Nanos::from_secs(1);
pub(super) const HERE: NodeId = NodeId::new(0);
const THERE: NodeId = NodeId::new(1);

pub(super) fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn facts(cpus: u32) -> NodeFacts {
    NodeFacts {
        host: "host".to_owned(),
        cpus,
        freezer: "signals".to_owned(),
        limits: Vec::new(),
        version: 0,
    }
}

pub(super) fn job(token: &str) -> Job {
    Job {
        name: token.to_owned(),
        own: false,
        user: Uid::new(7),
        mark: Mark::Token(token.to_owned()),
        class: Class::Production,
        weight: 1,
        contexts: None,
    }
}

/// A report of `ranks` out of `size` ranks, each with one process, unchanged for `steady`.
pub(super) fn seen(gang: GangId, ranks: u32, size: Option<u32>, steady: Nanos) -> Seen {
    Seen {
        gang: gang.get(),
        processes: ranks,
        ranks,
        size,
        steady,
        ..Seen::default()
    }
}

pub(super) fn desk_of(nodes: &[u32], rows: usize) -> Desk {
    let settings = DeskSettings {
        policy: Settings::default(),
        rows,
        settle: SETTLE,
        yielding: true,
        copying: crate::contexts::Copying::Pointer,
    };
    let mut desk = Desk::new(settings).unwrap();
    for (node, cpus) in (0..).zip(nodes) {
        assert!(desk.hello(NodeId::new(node), facts(*cpus)));
    }
    desk
}

/// One node of two CPUs, four rows.
fn desk() -> Desk {
    desk_of(&[2], 4)
}

/// A gang of two ranks that is being switched.
fn running(desk: &mut Desk, token: &str) -> GangId {
    let gang = desk.submit(job(token), Nanos::ZERO).unwrap();
    desk.sight(HERE, desk.version(), vec![seen(gang, 2, Some(2), SETTLE)]);
    desk.advance(ms(0));
    assert_eq!(stage(desk, gang), Stage::Running);
    gang
}

fn status(desk: &Desk, gang: GangId) -> GangStatus {
    let all = desk.gangs(ms(1000));
    all.into_iter().find(|g| g.gang == gang.get()).unwrap()
}

fn stage(desk: &Desk, gang: GangId) -> Stage {
    status(desk, gang).stage
}

fn row(desk: &Desk, gang: GangId) -> RowId {
    desk.matrix().home(gang).unwrap().row
}

/// The gang has the CPUs for `time` and uses `used` of it; then its node reports.
fn turn(desk: &mut Desk, gang: GangId, time: Nanos, used: Nanos) {
    desk.ran(row(desk, gang), time, ms(0));
    let before = status(desk, gang);
    let tells = Seen {
        cpu: before.cpu + used,
        ..seen(gang, 2, Some(2), SETTLE)
    };
    desk.sight(HERE, desk.version(), vec![tells]);
}

/// The next turns, each of 10 ms.
fn turns(desk: &mut Desk, n: u64) -> Vec<RowId> {
    let mut all = Vec::new();
    for i in 0..n {
        let now = ms(10 * i);
        if let Some(Decision::Run { row, .. }) = desk.decide(now) {
            desk.ran(row, ms(10), now + ms(10));
            all.push(row);
        }
    }
    all
}

const DEAD: Observation = Observation::Deadlocked {
    ranks: 2,
    all: true,
    polling: false,
};

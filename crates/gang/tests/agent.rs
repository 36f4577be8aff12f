//! An agent alone, told what no controller that is as built would say.

use idlewave_gang::GangId;
use idlewave_gang::protocol::*;
use idlewave_units::{Nanos, NodeId};

const EPOCH: Epoch = Epoch::new(1);

fn order(epoch: Epoch, command: Command) -> Event {
    let members = Nodes::one(NodeId::new(0));
    let roster = Roster { members, arity: 8 };
    let lease_until = Nanos::from_nanos(1_000);
    let message = Message::Order(Order {
        epoch,
        lease_until,
        roster,
        command,
    });
    Event::Message {
        from: Peer::Controller,
        message,
    }
}

/// Ready for the second gang, and told to switch to it at 50.
fn switching() -> Agent {
    let wait = Nanos::from_nanos(100);
    let mut agent = Agent::new(AgentSettings {
        node: NodeId::new(0),
        repeat: wait,
        join: wait,
    });
    let (from, to) = (Slot::All, Slot::Gang(GangId::new(1)));
    let stop_at = Nanos::from_nanos(5);
    let prepare = Command::Prepare {
        from,
        to,
        stop_at,
        drain: false,
    };
    let at = Nanos::from_nanos;
    agent.handle(at(5), order(EPOCH, prepare));
    agent.handle(at(6), Event::Notice(Notice::Frozen { epoch: EPOCH }));
    assert!(agent.ready());
    agent.handle(at(7), order(EPOCH, Command::Switch { thaw_at: at(50) }));
    agent.handle(
        at(8),
        Event::Notice(Notice::ContextSwitched { epoch: EPOCH }),
    );
    agent
}

#[test]
fn what_is_switched_is_not_aborted_but_reported() {
    let mut agent = switching();
    let abort = Command::Abort { why: Why::Missing };
    let actions = agent.handle(Nanos::from_nanos(9), order(EPOCH, abort));
    assert!(actions.contains(&Action::Report(Report::Conflict(EPOCH))));
    assert!(!actions.iter().any(|a| matches!(a, Action::Thaw { .. })));
    assert_eq!(agent.carried_out(), Some(true));
}

#[test]
fn an_older_epoch_is_answered_and_not_obeyed() {
    let mut agent = switching();
    let actions = agent.handle(
        Nanos::from_nanos(9),
        order(Epoch::ZERO, Command::Abort { why: Why::Missing }),
    );
    let message = Message::Newer { epoch: EPOCH };
    assert_eq!(
        actions,
        [Action::Send {
            to: Peer::Controller,
            message
        }]
    );
}

#[test]
fn the_next_gang_is_thawed_at_its_moment_and_not_before() {
    let mut agent = switching();
    let timer = Event::Timer {
        name: Timer::Thaw,
        epoch: EPOCH,
    };
    let early = agent.handle(Nanos::from_nanos(49), timer.clone());
    assert!(!early.iter().any(|a| matches!(a, Action::Thaw { .. })));
    let slot = Slot::Gang(GangId::new(1));
    let due = agent.handle(Nanos::from_nanos(50), timer);
    assert!(due.contains(&Action::Thaw { slot, epoch: EPOCH }));
}

#[test]
fn an_agent_that_hears_nothing_for_its_lease_thaws_everything() {
    let mut agent = switching();
    let timer = Event::Timer {
        name: Timer::Lease,
        epoch: EPOCH,
    };
    let actions = agent.handle(Nanos::from_nanos(1_000), timer);
    assert!(actions.contains(&Action::Thaw {
        slot: Slot::All,
        epoch: EPOCH
    }));
    assert!(!agent.coordinated());
}

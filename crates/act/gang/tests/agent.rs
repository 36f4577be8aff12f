//! An agent alone, given orders that no correct controller would send.

use idlewave_gang::GangId;
use idlewave_gang::protocol::*;
use idlewave_units::{Nanos, NodeId};

const EPOCH: Epoch = Epoch::new(1);
const NEXT: Epoch = Epoch::new(2);
const LEASE: u64 = 1_000;

fn at(ns: u64) -> Nanos {
    Nanos::from_nanos(ns)
}

fn order(epoch: Epoch, command: Command) -> Event {
    until(LEASE, 1, epoch, command)
}

/// An order that is valid before `ns`, for a chain of `nodes` nodes.
fn until(ns: u64, nodes: u32, epoch: Epoch, command: Command) -> Event {
    let members = (0..nodes).map(NodeId::new).collect();
    let roster = Roster { members, arity: 1 };
    let lease_until = at(ns);
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

fn fresh() -> Agent {
    Agent::new(AgentSettings {
        node: NodeId::new(0),
        repeat: at(100),
        join: at(100),
    })
}

/// Stop `from` at 5, to run the second gang.
fn prepare(from: Slot, drain: bool) -> Command {
    Command::Prepare {
        from,
        to: Slot::Gang(GangId::new(1)),
        stop_at: at(5),
        drain,
    }
}

/// Ready for the second gang.
fn ready() -> Agent {
    let mut agent = fresh();
    agent.handle(at(5), order(EPOCH, prepare(Slot::All, false)));
    agent.handle(at(6), Event::Notice(Notice::Frozen { epoch: EPOCH }));
    assert!(agent.ready());
    agent
}

/// Ready for the second gang, and told to switch to it at 50.
fn switching() -> Agent {
    let mut agent = ready();
    agent.handle(at(7), order(EPOCH, Command::Switch { thaw_at: at(50) }));
    agent.handle(
        at(8),
        Event::Notice(Notice::ContextSwitched { epoch: EPOCH }),
    );
    agent
}

/// The second gang runs.
fn switched() -> Agent {
    let mut agent = switching();
    agent.handle(at(50), timer(Timer::Thaw));
    agent.handle(at(51), Event::Notice(Notice::Thawed { epoch: EPOCH }));
    assert!(agent.settled() && agent.coordinated());
    agent
}

fn timer(name: Timer) -> Event {
    Event::Timer { name, epoch: EPOCH }
}

fn thaws(actions: &[Action]) -> Vec<Slot> {
    let slot = |action: &Action| match action {
        Action::Thaw { slot, .. } => Some(*slot),
        _ => None,
    };
    actions.iter().filter_map(slot).collect()
}

/// The answers among the actions: epoch, nodes, and reasons for refusal.
fn answers(actions: &[Action]) -> Vec<(Epoch, Vec<u32>, Vec<Why>)> {
    let answer = |action: &Action| match action {
        Action::Send {
            to: Peer::Controller,
            message: Message::Answer { epoch, tally, .. },
        } => {
            let who = tally.who.iter().map(NodeId::get).collect();
            let why = tally.refused.iter().map(|(_, why)| *why).collect();
            Some((*epoch, who, why))
        }
        _ => None,
    };
    actions.iter().filter_map(answer).collect()
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

#[test]
fn an_order_whose_time_is_over_is_not_obeyed() {
    let mut agent = fresh();
    let command = prepare(Slot::All, false);
    assert!(agent.handle(at(LEASE), order(EPOCH, command)).is_empty());
    assert_eq!(agent.epoch(), Epoch::ZERO);
    agent.handle(at(LEASE - 1), order(EPOCH, command));
    assert_eq!(agent.epoch(), EPOCH);
}

#[test]
fn an_agent_that_starts_thaws_what_another_may_have_left_frozen() {
    assert_eq!(thaws(&fresh().handle(at(1), Event::Start)), [Slot::All]);
}

#[test]
fn who_is_ready_and_hears_of_the_next_epoch_leaves_and_freezes_all_again() {
    let mut agent = ready();
    let one = Slot::Gang(GangId::new(0));
    let actions = agent.handle(at(8), order(NEXT, prepare(one, false)));
    assert_eq!(thaws(&actions), [Slot::All]);
    assert!(actions.contains(&Action::Report(Report::Uncoordinated(EPOCH))));
    let (slot, epoch) = (Slot::All, NEXT);
    assert!(actions.contains(&Action::Freeze { slot, epoch }));
}

#[test]
fn what_is_switched_is_ended_before_the_next_epoch_is_taken() {
    let mut agent = switching();
    let next = order(NEXT, prepare(Slot::Gang(GangId::new(1)), false));
    assert!(agent.handle(at(9), next.clone()).is_empty());
    agent.handle(at(50), timer(Timer::Thaw));
    assert!(agent.handle(at(50), next.clone()).is_empty());
    assert_eq!(agent.epoch(), EPOCH);
    agent.handle(at(51), Event::Notice(Notice::Thawed { epoch: EPOCH }));
    agent.handle(at(52), next);
    assert_eq!(agent.epoch(), NEXT);
}

#[test]
fn answers_of_one_epoch_do_not_count_in_the_next() {
    let child = |epoch, question| {
        let from = Peer::Agent(NodeId::new(1));
        let tally = Tally::of(NodeId::new(1));
        let message = Message::Answer {
            epoch,
            question,
            tally,
        };
        Event::Message { from, message }
    };
    let mut agent = fresh();
    let two = |epoch, command| until(LEASE, 2, epoch, command);
    let thaw_at = at(7);
    agent.handle(at(5), two(EPOCH, prepare(Slot::All, false)));
    agent.handle(at(6), child(EPOCH, Question::Prepare));
    let told = agent.handle(at(6), Event::Notice(Notice::Frozen { epoch: EPOCH }));
    assert_eq!(answers(&told), [(EPOCH, vec![0, 1], vec![])]);
    agent.handle(at(7), two(EPOCH, Command::Switch { thaw_at }));
    let context = Notice::ContextSwitched { epoch: EPOCH };
    agent.handle(at(8), Event::Notice(context));
    agent.handle(at(8), child(EPOCH, Question::Switch));
    let told = agent.handle(at(9), Event::Notice(Notice::Thawed { epoch: EPOCH }));
    assert_eq!(answers(&told), [(EPOCH, vec![0, 1], vec![])]);
    // It missed PREPARE: it leaves, and asks the child again.
    let told = agent.handle(at(20), two(NEXT, Command::Switch { thaw_at }));
    assert!(answers(&told).is_empty(), "{told:?}");
    let to = Peer::Agent(NodeId::new(1));
    let sent_on = |a: &Action| matches!(a, Action::Send { to: t, .. } if *t == to);
    assert!(told.iter().any(sent_on));
    let told = agent.handle(at(21), child(NEXT, Question::Switch));
    assert_eq!(answers(&told), [(NEXT, vec![0, 1], vec![])]);
}

#[test]
fn what_a_dead_gang_has_under_way_is_not_waited_for() {
    let gang = GangId::new(0);
    let mut agent = fresh();
    let begun = agent.handle(at(5), order(EPOCH, prepare(Slot::Gang(gang), true)));
    assert!(begun.contains(&Action::Drain { gang, epoch: EPOCH }));
    // The end of another gang does not concern it.
    let other = Notice::RankDied(GangId::new(1));
    assert!(answers(&agent.handle(at(6), Event::Notice(other))).is_empty());
    let actions = agent.handle(at(6), Event::Notice(Notice::RankDied(gang)));
    // It answers once, since no node is below it.
    assert_eq!(answers(&actions), [(EPOCH, vec![0], vec![Why::GangGone])]);
    assert_eq!(thaws(&actions), [Slot::All]);
}

#[test]
fn a_thaw_that_failed_is_not_tried_again_for_who_is_to_be_stopped() {
    let mut agent = fresh();
    agent.handle(at(1), Event::Start);
    let gang = Slot::Gang(GangId::new(0));
    agent.handle(at(5), order(EPOCH, prepare(gang, true)));
    let failed = Event::Notice(Notice::ThawFailed { epoch: Epoch::ZERO });
    assert!(agent.handle(at(6), failed.clone()).is_empty());
    // Before the stop time, the failure is reported.
    let mut agent = fresh();
    agent.handle(at(1), Event::Start);
    agent.handle(at(2), order(EPOCH, prepare(gang, true)));
    let told = agent.handle(at(3), failed);
    assert!(told.contains(&Action::Report(Report::StillFrozen(EPOCH))));
}

#[test]
fn a_thaw_that_failed_in_an_earlier_epoch_is_tried_again() {
    let mut agent = fresh();
    agent.handle(at(1), Event::Start);
    let failed = Notice::ThawFailed { epoch: Epoch::ZERO };
    agent.handle(at(2), Event::Notice(failed));
    let abort = Command::Abort { why: Why::Missing };
    agent.handle(at(3), order(EPOCH, abort));
    assert!(!agent.settled());
    let over = Event::Timer {
        name: Timer::Again,
        epoch: Epoch::ZERO,
    };
    assert_eq!(thaws(&agent.handle(at(102), over)), [Slot::All]);
    agent.handle(at(103), Event::Notice(Notice::Thawed { epoch: EPOCH }));
    assert!(agent.settled());
}

#[test]
fn a_lease_holds_until_its_end_though_its_timer_comes_early() {
    let mut agent = switched();
    let lease = |at| Action::SetTimer {
        name: Timer::Lease,
        epoch: EPOCH,
        at,
    };
    let early = agent.handle(at(LEASE - 1), timer(Timer::Lease));
    assert_eq!(early, [lease(at(LEASE))]);
    assert!(agent.coordinated());
    assert_eq!(
        thaws(&agent.handle(at(LEASE), timer(Timer::Lease))),
        [Slot::All]
    );
}

#[test]
fn beats_keep_a_node_that_has_carried_out_their_epoch() {
    let mut agent = switched();
    let beat = until(LEASE + 500, 1, EPOCH, Command::Beat);
    agent.handle(at(LEASE - 1), beat);
    assert!(thaws(&agent.handle(at(LEASE), timer(Timer::Lease))).is_empty());
    let due = agent.handle(at(LEASE + 500), timer(Timer::Lease));
    assert_eq!(thaws(&due), [Slot::All]);
}

#[test]
fn beats_keep_nobody_waiting_who_missed_something() {
    // Beats of an epoch that the node has not heard of, and of one that it is in the middle of.
    let mut agents = [
        (switched(), NEXT),
        (ready(), EPOCH),
        (switching(), EPOCH),
        (switched(), EPOCH),
    ];
    // The last agent has heard of the next epoch, and waits for the stop time.
    let wait = Command::Prepare {
        from: Slot::Gang(GangId::new(1)),
        to: Slot::All,
        stop_at: at(LEASE + 100),
        drain: false,
    };
    agents[3].0.handle(at(60), order(NEXT, wait));
    agents[3].1 = NEXT;
    for (mut agent, epoch) in agents {
        assert!(agent.coordinated());
        let beat = until(LEASE + 500, 1, epoch, Command::Beat);
        assert!(agent.handle(at(LEASE - 1), beat).is_empty());
        let over = agent.handle(at(LEASE), timer(Timer::Lease));
        assert_eq!(thaws(&over), [Slot::All], "{agent:?}");
        assert!(!agent.coordinated());
    }
    // Where all gangs run, there is no lease to renew either.
    let mut agent = fresh();
    agent.handle(at(1), order(EPOCH, Command::Abort { why: Why::Missing }));
    assert_eq!(agent.carried_out(), Some(false));
    let beat = until(LEASE + 500, 1, EPOCH, Command::Beat);
    assert!(agent.handle(at(2), beat).is_empty());
}

#[test]
fn that_a_node_cannot_is_said_before_those_below_it_have_answered() {
    let mut agent = fresh();
    agent.handle(at(5), until(LEASE, 2, EPOCH, prepare(Slot::All, false)));
    let told = agent.handle(at(6), Event::Notice(Notice::FreezeFailed { epoch: EPOCH }));
    assert_eq!(answers(&told), [(EPOCH, vec![0], vec![Why::Freeze])]);
    // A child's refusal also reaches the controller at once, and the final answer contains both.
    let from = Peer::Agent(NodeId::new(1));
    let mut tally = Tally::of(NodeId::new(1));
    tally.refused.push((NodeId::new(1), Why::Leaving));
    let message = Message::Answer {
        epoch: EPOCH,
        question: Question::Prepare,
        tally,
    };
    let mut other = fresh();
    other.handle(at(5), until(LEASE, 2, EPOCH, prepare(Slot::All, false)));
    let (told, both) = [&mut other, &mut agent]
        .map(|agent| {
            let message = message.clone();
            answers(&agent.handle(at(7), Event::Message { from, message }))
        })
        .into();
    assert_eq!(told, [(EPOCH, vec![1], vec![Why::Leaving])]);
    let mut whys = both;
    assert_eq!(whys.len(), 1);
    let (_, who, why) = whys.remove(0);
    assert_eq!((who, why.len()), (vec![0, 1], 2));
}

#[test]
fn switch_prolongs_the_lease() {
    let mut agent = ready();
    let later = until(LEASE + 500, 1, EPOCH, Command::Switch { thaw_at: at(50) });
    agent.handle(at(7), later);
    assert!(thaws(&agent.handle(at(LEASE), timer(Timer::Lease))).is_empty());
    let over = agent.handle(at(LEASE + 500), timer(Timer::Lease));
    assert_eq!(thaws(&over), [Slot::All]);
}

#[test]
fn of_several_orders_to_thaw_the_last_one_has_to_be_confirmed() {
    let mut agent = switching();
    let one = agent.handle(at(50), timer(Timer::Thaw));
    let all = agent.handle(at(LEASE), timer(Timer::Lease));
    let gang = Slot::Gang(GangId::new(1));
    assert_eq!((thaws(&one), thaws(&all)), (vec![gang], vec![Slot::All]));
    agent.handle(at(LEASE), Event::Notice(Notice::Thawed { epoch: EPOCH }));
    assert!(!agent.settled());
    let failed = Event::Notice(Notice::ThawFailed { epoch: EPOCH });
    let told = agent.handle(at(LEASE), failed);
    assert!(told.contains(&Action::Report(Report::StillFrozen(EPOCH))));
    let again = agent.handle(at(LEASE + 100), timer(Timer::Again));
    assert_eq!(thaws(&again), [Slot::All]);
    agent.handle(
        at(LEASE + 101),
        Event::Notice(Notice::Thawed { epoch: EPOCH }),
    );
    assert!(agent.settled());
}

#[test]
fn an_agent_whose_watchdog_thawed_everything_is_in_step_no_more() {
    let thawn = Event::Notice(Notice::Thawn);
    let uncoordinated = |actions: &[Action]| {
        let thaw = |action: &Action| {
            matches!(
                action,
                Action::Thaw {
                    slot: Slot::All,
                    ..
                }
            )
        };
        let told = Action::Report(Report::Uncoordinated(EPOCH));
        actions.iter().any(thaw) && actions.contains(&told)
    };
    // An agent that was never in step has nothing to report.
    let mut agent = fresh();
    assert_eq!(agent.handle(at(1), thawn.clone()), []);
    let mut agent = ready();
    assert!(uncoordinated(&agent.handle(at(7), thawn.clone())));
    assert!(!agent.ready() && !agent.coordinated());
    // Told to switch, it says that it left, and freezes nothing.
    let switch = Command::Switch { thaw_at: at(8) };
    let answered = agent.handle(at(8), order(EPOCH, switch));
    assert!(
        !answered
            .iter()
            .any(|action| matches!(action, Action::Freeze { .. }))
    );
    assert!(!agent.coordinated());
}

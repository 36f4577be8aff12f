//! A controller alone, with nodes that answer late, in part or not at all.

use idlewave_gang::GangId;
use idlewave_gang::protocol::*;
use idlewave_units::{Nanos, NodeId};

const BASE: Epoch = Epoch::of_start(7);
const LEASE: u64 = 900;
const MARGIN: u64 = 30;
const LIMIT: u64 = 300;
const GANG: Slot = Slot::Gang(GangId::new(1));

fn at(ns: u64) -> Nanos {
    Nanos::from_nanos(ns)
}

fn timer(name: Timer) -> Event {
    Event::Timer { name, epoch: BASE }
}

fn agent(node: u32) -> Peer {
    Peer::Agent(NodeId::new(node))
}

fn controller() -> Controller {
    let settings = ControllerSettings {
        arity: 1,
        lease: at(LEASE),
        margin: at(MARGIN),
        repeat: at(50),
        limit: at(LIMIT),
        hop: at(10),
        beat: at(250),
    };
    Controller::new(settings, BASE)
}

#[test]
fn a_controller_whose_agents_knew_none_before_it_waits_for_no_leases() {
    for (start, from) in [(Event::Start, LEASE + MARGIN), (Event::First, 0)] {
        let mut controller = controller();
        let actions = controller.handle(at(0), start);
        let (name, epoch) = (Timer::Lease, BASE);
        let timer = Action::SetTimer {
            name,
            epoch,
            at: at(from),
        };
        assert!(actions.contains(&timer), "{actions:?}");
        if from > 0 {
            controller.handle(at(from - 1), self::timer(Timer::Lease));
            assert!(!controller.idle());
        }
        let open = controller.handle(at(from), self::timer(Timer::Lease));
        assert_eq!(open, [Action::Report(Report::Open)]);
    }
}

/// A controller above a chain of nodes that have all asked to join, and the time from which on it
/// accepts switches.
fn open(nodes: u32) -> (Controller, u64) {
    let mut controller = controller();
    controller.handle(at(0), Event::Start);
    for node in 0..nodes {
        let (from, node) = (agent(node), NodeId::new(node));
        let message = Message::Join { node };
        controller.handle(at(1), Event::Message { from, message });
    }
    let now = LEASE + MARGIN;
    let open = controller.handle(at(now), timer(Timer::Lease));
    assert_eq!(open, [Action::Report(Report::Open)]);
    (controller, now)
}

/// The first node's answer for these nodes: itself and those below it.
fn answer(controller: &Controller, question: Question, nodes: &[u32]) -> Event {
    let mut tally = Tally::default();
    for &node in nodes {
        tally.add(&Tally::of(NodeId::new(node)));
    }
    let message = Message::Answer {
        epoch: controller.epoch(),
        question,
        tally,
    };
    let from = agent(0);
    Event::Message { from, message }
}

fn ask(controller: &mut Controller, now: u64) {
    let asked = controller.handle(
        at(now),
        Event::Switch {
            to: GANG,
            drain: false,
        },
    );
    assert!(!asked.contains(&Action::Report(Report::Busy)));
    assert!(!controller.idle());
}

/// The outcome, the late nodes and the missing nodes of the one switch that has ended.
fn over(actions: &[Action]) -> Option<(Outcome, Vec<u32>, Vec<u32>)> {
    let numbers = |nodes: &Nodes| nodes.iter().map(NodeId::get).collect();
    actions.iter().find_map(|action| match action {
        Action::Report(Report::Over {
            outcome,
            late,
            missing,
            ..
        }) => Some((*outcome, numbers(late), numbers(missing))),
        _ => None,
    })
}

#[test]
fn an_answer_that_was_overtaken_by_a_later_one_takes_nothing_back() {
    let (mut controller, now) = open(3);
    ask(&mut controller, now);
    for nodes in [&[0, 1][..], &[0], &[0, 1]] {
        let event = answer(&controller, Question::Prepare, nodes);
        assert!(controller.handle(at(now + 1), event).is_empty());
    }
    let event = answer(&controller, Question::Prepare, &[0]);
    controller.handle(at(now + 2), event);
    controller.handle(at(now + LIMIT), timer(Timer::Limit));
    let event = answer(&controller, Question::Abort, &[0, 1, 2]);
    let actions = controller.handle(at(now + LIMIT + 1), event);
    let aborted = Outcome::Aborted(Why::Missing);
    assert_eq!(over(&actions), Some((aborted, vec![2], vec![])));
    assert!(controller.idle());
}

#[test]
fn who_does_not_acknowledge_is_waited_for_until_nothing_that_was_promised_holds() {
    let (mut controller, now) = open(2);
    ask(&mut controller, now);
    let event = answer(&controller, Question::Prepare, &[0, 1]);
    controller.handle(at(now), event);
    let event = answer(&controller, Question::Switch, &[0]);
    controller.handle(at(now + 1), event);
    // A node that heard of it at the last moment may act this late.
    let give_up = now + LEASE + MARGIN;
    let early = controller.handle(at(give_up - 1), timer(Timer::Lease));
    assert_eq!(over(&early), None);
    // A beat that only the missing node may have heard.
    let beat = give_up - 100;
    controller.handle(at(beat), timer(Timer::Beat));
    let actions = controller.handle(at(give_up), timer(Timer::Lease));
    assert_eq!(over(&actions), Some((Outcome::Switched, vec![], vec![1])));
    assert_eq!(controller.running(), GANG);
    let until = beat + LEASE + MARGIN;
    let timers = actions.iter().filter_map(|action| match action {
        Action::SetTimer { name, at, .. } if *name == Timer::Lease => Some(at.get()),
        _ => None,
    });
    assert_eq!(timers.collect::<Vec<_>>(), [until]);
    assert!(
        controller
            .handle(at(until - 1), timer(Timer::Lease))
            .is_empty()
    );
    assert!(!controller.idle());
    let open = controller.handle(at(until), timer(Timer::Lease));
    assert_eq!(open, [Action::Report(Report::Open)]);
    assert_eq!(controller.members(), Nodes::one(NodeId::new(0)));
}

#[test]
fn a_controller_that_has_switched_and_hears_of_higher_epochs_does_nothing_any_more() {
    let (mut controller, now) = open(1);
    ask(&mut controller, now);
    for question in [Question::Prepare, Question::Switch] {
        let event = answer(&controller, question, &[0]);
        controller.handle(at(now), event);
    }
    assert!(controller.idle());
    let epoch = Epoch::of_start(8);
    let from = agent(0);
    // Its own epoch is no news.
    let message = Message::Newer {
        epoch: controller.epoch(),
    };
    controller.handle(at(now), Event::Message { from, message });
    assert!(!controller.superseded());
    let message = Message::Newer { epoch };
    let actions = controller.handle(at(now), Event::Message { from, message });
    assert_eq!(actions, [Action::Report(Report::Superseded(epoch))]);
    assert!(controller.superseded() && !controller.idle());
    let to = Slot::All;
    for event in [Event::Switch { to, drain: false }, timer(Timer::Beat)] {
        assert!(controller.handle(at(now), event).is_empty());
    }
}

#[test]
fn a_controller_that_has_not_switched_goes_on_above_all_epochs_of_the_one_that_it_hears_of() {
    let (mut controller, now) = open(1);
    let epoch = Epoch::of_start(8).next().unwrap();
    let (from, message) = (agent(0), Message::Newer { epoch });
    controller.handle(at(now), Event::Message { from, message });
    ask(&mut controller, now);
    assert_eq!(Some(controller.epoch()), Epoch::of_start(9).next());
}

#[test]
fn after_the_last_start_there_is_no_next_one() {
    let last = Epoch::of_start(u32::MAX);
    assert_eq!(Epoch::of_start(u32::MAX - 1).next_start(), last);
    assert_eq!(last.next().unwrap().next_start(), last.next().unwrap());
    assert_eq!(Epoch::new(u64::MAX).next_start(), Epoch::new(u64::MAX));
}

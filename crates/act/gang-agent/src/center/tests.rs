//! When the controller wakes.

use super::steer::{AGAIN, PATIENCE};
use super::*;
use crate::contexts::Copying;
use crate::desk::Job;
use crate::parcel::{Mark, Seen};
use crate::testing::{Wire, wire};
use idlewave_gang::policy;
use idlewave_sys::Uid;

const HERE: NodeId = NodeId::new(0);

fn settings() -> CenterSettings {
    let ms = Nanos::from_millis;
    CenterSettings {
        protocol: ControllerSettings {
            arity: 2,
            lease: ms(1),
            margin: Nanos::ZERO,
            repeat: ms(5),
            limit: ms(300),
            hop: Nanos::ZERO,
            beat: ms(100),
        },
        desk: DeskSettings {
            policy: policy::Settings::default(),
            rows: 8,
            settle: Nanos::ZERO,
            yielding: true,
            copying: Copying::default(),
        },
        always: false,
        owner: Uid::ROOT,
        operators: Vec::new(),
        start: 1,
    }
}

/// Its only node has applied that version, and has a rank of the gang.
fn sight(center: &mut Center<Wire>, version: u64) {
    let seen = Seen {
        gang: 1,
        processes: 1,
        ranks: 1,
        ..Seen::default()
    };
    let state = State::Sight {
        node: HERE,
        version,
        seen: vec![seen],
        contexts: Vec::new(),
        devices: Vec::new(),
        forged: 0,
    };
    center.state(HERE, state);
    assert!(std::mem::take(&mut center.news));
    center.look(clock::now());
}

#[test]
fn it_wakes_at_the_end_of_a_turn_or_of_its_patience_and_sleeps_while_there_is_nobody_to_switch() {
    let directory = tempfile::tempdir().unwrap();
    let clients = Clients::listen(&directory.path().join("control"), false).unwrap();
    let (_there, _told, here) = wire();
    let mut center = Center::new(settings(), here, clients).unwrap();
    center.event(Event::Start);
    while !center.protocol.idle() {
        clock::sleep_until(clock::now() + Nanos::from_millis(1));
        if let Some((name, epoch)) = center.timers.due(clock::now()) {
            center.event(Event::Timer { name, epoch });
        }
    }
    let hello = State::Hello {
        node: HERE,
        host: "here".to_owned(),
        cpus: 1,
        freezer: "signals".to_owned(),
        limits: Vec::new(),
    };
    center.state(HERE, hello);
    assert_eq!(center.due(), None, "no node takes part");
    let message = Message::Join { node: HERE };
    let from = Peer::Agent(HERE);
    center.event(Event::Message { from, message });
    assert_eq!(center.due(), None, "there is no gang");
    sight(&mut center, 1);
    center.steer(clock::now());
    let job = Job {
        name: "a".to_owned(),
        own: false,
        user: Uid::ROOT,
        mark: Mark::Token("a".to_owned()),
        class: policy::Class::Production,
        weight: 1,
        contexts: None,
    };
    center.desk.submit(job, clock::now()).unwrap();
    sight(&mut center, 1);
    let now = clock::now();
    center.tell_agents(now);
    // Its node has not yet applied the gang's row.
    assert_eq!(center.due(), Some(now + PATIENCE));
    let version = center.desk.version();
    sight(&mut center, version);
    let due = center.due().unwrap();
    assert!(due <= clock::now() + AGAIN, "gangs that come are switched");
    center.turn.until = now + PATIENCE + PATIENCE;
    assert_eq!(center.due(), Some(center.turn.until));
    center.turn.until = now;
    let due = center.due().unwrap();
    assert!(due > now && due <= clock::now() + AGAIN, "never at once");
    center.desk.drain(true);
    assert_eq!(center.due(), None);
}

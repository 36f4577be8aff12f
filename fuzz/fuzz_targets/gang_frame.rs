//! Frames of gang switching: no panic; what is read is written the same again, and no agent or controller minds it.
#![no_main]

use idlewave_gang::protocol::{
    Agent, AgentSettings, Controller, ControllerSettings, Epoch, Event, Peer,
};
use idlewave_gang::wire::{decode, encode};
use idlewave_units::{Nanos, NodeId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(message) = decode(input) else {
        return;
    };
    assert_eq!(encode(&message), input);
    let ms = Nanos::from_millis;
    let mut controller = Controller::new(
        ControllerSettings {
            arity: 8,
            lease: ms(500),
            margin: ms(10),
            repeat: ms(5),
            limit: ms(100),
            hop: ms(1),
            beat: ms(100),
        },
        Epoch::of_start(1),
    );
    let mut agent = Agent::new(AgentSettings {
        node: NodeId::new(0),
        repeat: ms(5),
        join: ms(100),
    });
    for from in [Peer::Controller, Peer::Agent(NodeId::new(1))] {
        let message = message.clone();
        let event = Event::Message { from, message };
        controller.handle(ms(1), event.clone());
        agent.handle(ms(1), event);
    }
});

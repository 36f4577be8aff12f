//! Datagrams against a live session: no panic, nothing that was not said is given, and the session goes on.
#![no_main]

use idlewave_link::Peer;
use idlewave_link::session::{Secret, Session};
use idlewave_units::{Nanos, NodeId};
use libfuzzer_sys::fuzz_target;

const SECRET: [u8; 32] = [7; 32];

/// Two ends, and all that was sent between them.
struct World {
    ends: [Session; 2],
    secret: Secret,
    now: Nanos,
    recorded: Vec<(usize, Vec<u8>)>,
}

impl World {
    /// The other end gets what `from` says, and nothing else is given.
    fn speak(&mut self, from: usize, payload: &[u8]) {
        let mut sent = Vec::new();
        let said = self.ends[from].send(self.now, payload, &mut self.secret, &mut sent);
        said.expect("a shared secret needs nobody");
        let mut flying: Vec<_> = sent
            .into_iter()
            .map(|datagram| (1 - from, datagram))
            .collect();
        let mut given = Vec::new();
        while !flying.is_empty() {
            let (to, datagram) = flying.remove(0);
            if let Ok(handled) = self.ends[to].handle(self.now, &datagram, &mut self.secret) {
                given.extend(handled.payload.map(|payload| (to, payload)));
                flying.extend(handled.answers.into_iter().map(|answer| (1 - to, answer)));
            }
            self.recorded.push((to, datagram));
        }
        assert_eq!(given, [(1 - from, payload.to_vec())]);
    }

    /// Somebody sends this to one of them, who is given nothing.
    fn attack(&mut self, to: usize, datagram: &[u8]) {
        if let Ok(handled) = self.ends[to].handle(self.now, datagram, &mut self.secret) {
            assert_eq!(handled.payload, None);
            assert!(!handled.begun);
            for answer in handled.answers {
                assert!(answer.len() <= datagram.len());
                self.recorded.push((1 - to, answer));
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let names = [Peer::Controller, Peer::Agent(NodeId::new(3))];
    let mut world = World {
        ends: [
            Session::new(names[0], names[1], [1; 32]),
            Session::new(names[1], names[0], [2; 32]),
        ],
        secret: Secret::new(SECRET),
        now: Nanos::from_millis(1),
        recorded: Vec::new(),
    };
    world.speak(0, b"a first message");
    world.speak(1, b"its answer");
    let mut rest = input;
    while let [what, which, length, others @ ..] = rest {
        let (bytes, others) = others.split_at(others.len().min(usize::from(*length)));
        rest = others;
        let to = usize::from(what & 1);
        let count = world.recorded.len();
        let (receiver, recorded) = world.recorded[usize::from(*which) % count].clone();
        match what >> 1 & 3 {
            // Any bytes.
            0 => world.attack(to, bytes),
            // What was recorded, to either, with bytes changed.
            1 => {
                let mut changed = recorded;
                for (byte, mask) in changed.iter_mut().zip(bytes) {
                    *byte ^= mask;
                }
                world.attack(to, &changed);
            }
            // What was recorded, cut and continued with other bytes.
            2 => {
                let mut changed = recorded;
                changed.truncate(changed.len().saturating_sub(bytes.len()));
                changed.extend(bytes);
                world.attack(receiver, &changed);
            }
            _ => {
                world.now += Nanos::from_millis(u64::from(*which));
                world.speak(to, bytes);
            }
        }
    }
    world.speak(0, b"still there");
    world.speak(1, b"yes");
});

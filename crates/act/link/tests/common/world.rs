//! Two ends, a network that may do anything, and an eavesdropper who records everything.

use super::vault::{Daemon, Vault};
use idlewave_link::session::{ECHO, Secret, Secrets, Session};
use idlewave_link::{LinkError, Peer, Reason};
use idlewave_units::{Nanos, NodeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Which of the two ends.
pub type End = usize;

#[derive(Debug)]
pub enum Proof {
    Shared(Secret),
    Own(Vault),
}

impl Secrets for Proof {
    fn shared(&self) -> Option<Secret> {
        match self {
            Proof::Shared(secret) => secret.shared(),
            Proof::Own(vault) => vault.shared(),
        }
    }
    fn mine(&mut self, fresh: [u8; 32]) -> Result<(Secret, Vec<u8>), LinkError> {
        match self {
            Proof::Shared(secret) => secret.mine(fresh),
            Proof::Own(vault) => vault.mine(fresh),
        }
    }
    fn theirs(&mut self, now: Nanos, credential: &[u8]) -> Result<Secret, Reason> {
        match self {
            Proof::Shared(secret) => secret.theirs(now, credential),
            Proof::Own(vault) => vault.theirs(now, credential),
        }
    }
}

#[derive(Debug)]
pub struct World {
    pub now: Nanos,
    pub ends: [Session; 2],
    pub proofs: [Proof; 2],
    /// How often each end was started.
    pub lives: [u32; 2],
    /// Datagrams in flight, with their receivers.
    pub flying: Vec<(End, Vec<u8>)>,
    /// All datagrams ever sent, with their receivers.
    pub recorded: Vec<(End, Vec<u8>)>,
    /// Payloads sent: by whom, in which life.
    pub said: BTreeMap<Vec<u8>, (End, u32)>,
    pub given: BTreeSet<Vec<u8>>,
    /// For each end in its current life: the latest life of the other end from which it received a
    /// payload.
    heard: [u32; 2],
    pub refused: BTreeMap<Reason, u32>,
    /// Receiver, session and counter of all frames: what determines key and nonce.
    sealed: BTreeSet<(End, Vec<u8>)>,
    munge: Option<Rc<RefCell<Daemon>>>,
}

pub fn peer(end: End) -> Peer {
    match end {
        0 => Peer::Controller,
        _ => Peer::Agent(NodeId::new(5)),
    }
}

impl World {
    /// With one shared key, or with credentials.
    pub fn new(credentials: bool) -> Self {
        let munge = credentials.then(|| Rc::new(RefCell::new(Daemon::default())));
        let mut world = World {
            now: Nanos::from_secs(1),
            ends: [0, 1].map(|end| Session::new(peer(end), peer(1 - end), [0; 32])),
            proofs: [0, 1].map(|_| Proof::Shared(Secret::new([9; 32]))),
            lives: [0; 2],
            flying: Vec::new(),
            recorded: Vec::new(),
            said: BTreeMap::new(),
            given: BTreeSet::new(),
            heard: [0; 2],
            refused: BTreeMap::new(),
            sealed: BTreeSet::new(),
            munge,
        };
        world.restart(0);
        world.restart(1);
        world
    }

    /// Restarts one end, which forgets everything; what it sent may still be in flight.
    pub fn restart(&mut self, end: End) {
        self.lives[end] += 1;
        self.heard[end] = 0;
        let mut seed = [end as u8; 32];
        seed[..4].copy_from_slice(&self.lives[end].to_le_bytes());
        self.ends[end] = Session::new(peer(end), peer(1 - end), seed);
        self.proofs[end] = match &self.munge {
            Some(daemon) => Proof::Own(Vault::of(daemon)),
            None => Proof::Shared(Secret::new([9; 32])),
        };
    }

    /// Sends a new payload. Returns it, and how many datagrams were sent.
    pub fn say(&mut self, from: End) -> (Vec<u8>, usize) {
        let payload = format!("message {}", self.said.len()).into_bytes();
        let count = self.say_this(from, &payload);
        (payload, count)
    }

    /// Sends this payload. Returns how many datagrams were sent.
    pub fn say_this(&mut self, from: End, payload: &[u8]) -> usize {
        self.said.insert(payload.to_vec(), (from, self.lives[from]));
        let mut out = Vec::new();
        let said = self.ends[from].send(self.now, payload, &mut self.proofs[from], &mut out);
        said.unwrap();
        let count = out.len();
        self.fly(1 - from, out);
        count
    }

    fn fly(&mut self, to: End, datagrams: Vec<Vec<u8>>) {
        for datagram in datagrams {
            if datagram[1] >= DATA {
                let sealed = (to, datagram[12..28].to_vec());
                assert!(self.sealed.insert(sealed), "a nonce under one key once");
            }
            self.flying.push((to, datagram.clone()));
            self.recorded.push((to, datagram));
        }
    }

    /// Lets time pass; repeats HELLO if it is due.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
        for end in [0, 1] {
            let mut out = Vec::new();
            let repeated = self.ends[end].repeat(self.now, &mut self.proofs[end], &mut out);
            repeated.unwrap();
            self.fly(1 - end, out);
        }
    }

    /// Delivers a datagram, and checks what the end makes of it.
    pub fn arrive(&mut self, to: End, datagram: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
        let handled = self.ends[to].handle(self.now, datagram, &mut self.proofs[to]);
        let handled = match handled {
            Ok(handled) => handled,
            Err(reason) => {
                *self.refused.entry(reason).or_insert(0) += 1;
                return Err(reason);
            }
        };
        if let Some(payload) = &handled.payload {
            let (from, life) = *self.said.get(payload).expect("somebody said it");
            assert_eq!(from, 1 - to, "it was said by the other end");
            assert!(self.given.insert(payload.clone()), "it is given once");
            assert!(life >= self.heard[to], "an earlier life is not heard again");
            self.heard[to] = life;
        }
        let proven = handled.begun || handled.payload.is_some();
        if let Some(first) = handled.answers.first().filter(|_| !proven) {
            let is_note = first[1] == 4 || first[1] == 6;
            assert!(
                is_note || first.len() <= datagram.len(),
                "nothing is amplified"
            );
        }
        self.fly(1 - to, handled.answers);
        Ok(handled.payload)
    }

    /// Delivers everything in flight in order, the answers too.
    pub fn settle(&mut self) -> Vec<Vec<u8>> {
        let mut given = Vec::new();
        while !self.flying.is_empty() {
            let (to, datagram) = self.flying.remove(0);
            given.extend(self.arrive(to, &datagram).ok().flatten());
        }
        given
    }

    /// Kinds of the datagrams recorded from `first` on.
    pub fn kinds_since(&self, first: usize) -> Vec<u8> {
        self.recorded[first..].iter().map(|(_, d)| d[1]).collect()
    }
}

pub const HELLO: u8 = 1;
pub const BACK: u8 = 2;
pub const DATA: u8 = 3;
pub const NOTE: u8 = 4;
pub const OPENING: u8 = 5;

/// With one shared key, and with credentials.
pub fn worlds() -> [World; 2] {
    [World::new(false), World::new(true)]
}

/// Begins a session at the first end only. Returns the frame with which the other would begin it.
pub fn begin(world: &mut World) -> Vec<u8> {
    world.say(0);
    for (to, kind) in [(1, HELLO), (0, BACK)] {
        let (_, datagram) = world.flying.remove(0);
        assert_eq!(datagram[1], kind);
        world.arrive(to, &datagram).unwrap();
    }
    world.flying.remove(0).1
}

/// Begins a session in which both ends have heard each other.
pub fn open(world: &mut World) {
    world.say(0);
    world.settle();
    world.say(1);
    world.settle();
    assert!(world.ends[0].is_open() && world.ends[1].is_open());
    world.pass(ECHO + Nanos::from_millis(1));
}

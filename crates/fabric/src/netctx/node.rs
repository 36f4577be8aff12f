//! One node's end of the network: frames go between its transport and the active context. It waits for nothing and has no
//! clock; whoever moves it on says what time it is.

use super::context::{Context, ContextError, Counts, Layout};
use super::frame::{HEADER_BYTES, Header};
use super::policy::{Contexts, Policy};
use super::transport::Transport;
use super::{ChannelError, Phase};
use idlewave_units::Nanos;

/// Frames taken from the transport before others are sent again.
const AT_ONCE: u32 = 64;
/// A timer grows up to this many times its first length while no answer comes.
const PATIENCE: u32 = 8;

/// Frames that a node has seen since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Given to the transport, repetitions and answers counted.
    pub sent: u64,
    /// Taken by the active context.
    pub taken: u64,
    /// Dropped: not as they were sent, or no frames at all.
    pub damaged: u64,
    /// Dropped: of another gang or epoch, overtaken, or to somebody else.
    pub foreign: u64,
    /// Times that no answer came, and what was said was said again.
    pub timeouts: u64,
}

/// The timer of what one peer has to answer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    due: Nanos,
    times: u32,
    /// What the channel had heard when it was set.
    mark: (u32, u32, Phase),
}

/// The node of one rank of each gang.
pub struct Node<T> {
    contexts: Contexts,
    transport: T,
    timeout: Nanos,
    /// By peer: a frame that the transport had no room for; empty if there is none.
    waiting: Vec<Vec<u8>>,
    timers: Vec<Option<Timer>>,
    frame: Vec<u8>,
    traffic: Traffic,
}

impl<T: Transport> Node<T> {
    /// The node of `rank` of each of `gangs`, of the size that `layout` tells. What was not answered after `timeout` is
    /// said again.
    ///
    /// # Errors
    /// There are no gangs, or frames of this layout are longer than the transport carries.
    pub fn new(
        transport: T,
        layout: Layout,
        policy: Policy,
        gangs: &[u32],
        rank: u32,
        timeout: Nanos,
    ) -> Result<Self, ContextError> {
        if layout.payload() + HEADER_BYTES > transport.longest() {
            return Err(ContextError::Payload(layout.payload()));
        }
        let peers = layout.peers() as usize;
        Ok(Self {
            contexts: Contexts::new(policy, layout, gangs, rank)?,
            transport,
            timeout,
            waiting: vec![Vec::new(); peers],
            timers: vec![None; peers],
            frame: Vec::new(),
            traffic: Traffic::default(),
        })
    }

    /// Number of nodes.
    pub fn size(&self) -> u32 {
        self.contexts.layout().peers()
    }

    /// The place of the active gang.
    pub fn active(&self) -> u32 {
        self.contexts.active()
    }

    /// The context of the active gang.
    pub fn current(&mut self) -> Context<'_> {
        self.contexts.current()
    }

    /// Frames so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Frames of the active gang so far, each once.
    pub fn counts(&mut self) -> Counts {
        self.contexts.current().counts()
    }

    /// Makes another context the active one and gives the bytes that were copied; [`Context::resume`] lets it run.
    ///
    /// # Errors
    /// There is no such context.
    pub fn switch(&mut self, to: u32) -> Result<usize, ContextError> {
        self.contexts.switch(to)
    }

    /// Goes on in a later epoch.
    ///
    /// # Errors
    /// The epoch is not later than that of the active context.
    pub fn resume(&mut self, epoch: u32) -> Result<(), ChannelError> {
        self.timers.fill(None);
        self.contexts.current().resume(epoch)
    }

    /// Moves every frame on as far as it goes without waiting.
    pub fn progress(&mut self, now: Nanos) {
        self.listen();
        self.speak(now);
    }

    /// Takes what has come.
    pub fn listen(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        for _ in 0..AT_ONCE {
            if !self.transport.receive(&mut frame) {
                break;
            }
            self.hear(&frame);
        }
        self.frame = frame;
    }

    /// Sends what is to be said, and again what was not answered in time.
    pub fn speak(&mut self, now: Nanos) {
        for peer in 0..self.contexts.layout().peers() {
            self.say(peer);
            self.watch(peer, now);
        }
    }

    fn hear(&mut self, frame: &[u8]) {
        let Ok((header, payload)) = Header::decode(frame) else {
            self.traffic.damaged += 1;
            return;
        };
        let link = header.link;
        let mut context = self.contexts.current();
        // The ends know their links: what is not theirs they refuse.
        let taken = if header.kind.is_answer() {
            let sender = context.sender(link.destination);
            sender.is_some_and(|mut sender| sender.hear(&header))
        } else {
            let receiver = context.receiver(link.source);
            receiver.is_some_and(|mut receiver| receiver.hear(&header, payload))
        };
        match taken {
            true => self.traffic.taken += 1,
            false => self.traffic.foreign += 1,
        }
    }

    /// Says to a peer all that there is to say, as far as the transport has room.
    fn say(&mut self, peer: u32) {
        let frame = &mut self.waiting[peer as usize];
        let mut context = self.contexts.current();
        loop {
            if frame.is_empty() {
                // Answers first: others wait for them.
                let answer = context.receiver(peer).and_then(|mut r| r.poll());
                if let Some(header) = answer {
                    header.encode(&[], frame);
                } else if let Some(mut sender) = context.sender(peer) {
                    let Some((header, payload)) = sender.poll() else {
                        return;
                    };
                    header.encode(payload, frame);
                }
            }
            if frame.is_empty() || !self.transport.send(peer, frame) {
                return;
            }
            self.traffic.sent += 1;
            frame.clear();
        }
    }

    fn watch(&mut self, peer: u32, now: Nanos) {
        let timer = &mut self.timers[peer as usize];
        let mut context = self.contexts.current();
        let Some(mut sender) = context.sender(peer) else {
            return;
        };
        if !sender.wants_timer() {
            *timer = None;
            return;
        }
        let mark = sender.heard();
        let times = match *timer {
            Some(set) if set.mark == mark && now.get() < set.due.get() => return,
            Some(set) if set.mark == mark => {
                sender.time_out();
                self.traffic.timeouts += 1;
                (set.times * 2).min(PATIENCE)
            }
            _ => 1,
        };
        let due = Nanos::from_nanos(now.get() + self.timeout.get() * u64::from(times));
        *timer = Some(Timer { due, times, mark });
    }
}

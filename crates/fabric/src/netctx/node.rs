//! One node's end of the network: frames go between its transport and the active context. It waits for nothing and has no
//! clock; whoever moves it on says what time it is.

use super::ChannelError;
use super::context::{Context, ContextError, Counts, Layout};
use super::frame::{HEADER_BYTES, Header};
use super::policy::{Contexts, Policy};
use super::talk::{self, Talk};
use super::transport::Transport;
use idlewave_units::Nanos;

/// Frames taken from the transport before others are sent again.
const AT_ONCE: u32 = 64;
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

/// The node of one rank of each gang.
pub struct Node<T> {
    contexts: Contexts,
    transport: T,
    talk: Talk,
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
        Ok(Self {
            contexts: Contexts::new(policy, layout, gangs, rank)?,
            transport,
            talk: Talk::new(layout.peers(), timeout),
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
    pub fn resume(&mut self, epoch: u64) -> Result<(), ChannelError> {
        self.talk.reset();
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
        let Self {
            contexts,
            transport,
            talk,
            traffic,
            ..
        } = self;
        let mut context = contexts.current();
        for peer in 0..context.peers() {
            talk.speak(&mut context, (peer, peer), now, transport, traffic);
        }
    }

    fn hear(&mut self, frame: &[u8]) {
        let Ok((header, payload)) = Header::decode(frame) else {
            self.traffic.damaged += 1;
            return;
        };
        match talk::hear(&mut self.contexts.current(), &header, payload) {
            true => self.traffic.taken += 1,
            false => self.traffic.foreign += 1,
        }
    }
}

//! What one rank of a gang says to its peers, and says again where no answer comes: frames go
//! between its context and a transport. It waits for nothing and has no clock.

use super::Phase;
use super::context::Context;
use super::frame::Header;
use super::transport::Transport;
use idlewave_units::Nanos;

/// A timer grows up to this many times its first length while no answer comes.
const PATIENCE: u32 = 8;
/// Frames that one peer is told in one turn: others are told something as well, and what is heard
/// meanwhile may change it.
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

/// The timer of what one peer has to answer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    due: Nanos,
    times: u32,
    /// What the channel had heard when it was set.
    mark: (u32, u32, Phase),
}

/// What is beside the context: of the process that moves frames, and lost with it, which costs
/// repetitions.
#[derive(Debug)]
pub(super) struct Talk {
    timeout: Nanos,
    /// By peer: a frame that the transport had no room for; empty if there is none.
    waiting: Vec<Vec<u8>>,
    timers: Vec<Option<Timer>>,
}

impl Talk {
    /// With `peers` peers. Whatever is not answered within `timeout` is sent again.
    pub(super) fn new(peers: u32, timeout: Nanos) -> Self {
        Self {
            timeout,
            waiting: vec![Vec::new(); peers as usize],
            timers: vec![None; peers as usize],
        }
    }

    /// Another epoch has begun: nothing was said in it yet.
    pub(super) fn reset(&mut self) {
        self.timers.fill(None);
    }

    /// When something must be said again; `None` if everything was answered.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.timers.iter().flatten().map(|timer| timer.due).min()
    }

    /// Whether the transport had no room for all.
    pub(super) fn is_held_up(&self) -> bool {
        self.waiting.iter().any(|frame| !frame.is_empty())
    }

    /// Says to a peer, which is on node `to`, all that there is to say, as far as the transport has
    /// room, and again what was not answered in time.
    pub(super) fn speak(
        &mut self,
        context: &mut Context<'_>,
        (peer, to): (u32, u32),
        now: Nanos,
        transport: &mut impl Transport,
        traffic: &mut Traffic,
    ) {
        self.say(context, (peer, to), transport, traffic);
        self.watch(context, peer, now, traffic);
    }

    fn say(
        &mut self,
        context: &mut Context<'_>,
        (peer, to): (u32, u32),
        transport: &mut impl Transport,
        traffic: &mut Traffic,
    ) {
        let frame = &mut self.waiting[peer as usize];
        for _ in 0..AT_ONCE {
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
            if frame.is_empty() || !transport.send(to, frame) {
                return;
            }
            traffic.sent += 1;
            frame.clear();
        }
    }

    fn watch(&mut self, context: &mut Context<'_>, peer: u32, now: Nanos, traffic: &mut Traffic) {
        let timer = &mut self.timers[peer as usize];
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
                traffic.timeouts += 1;
                (set.times * 2).min(PATIENCE)
            }
            _ => 1,
        };
        let due = Nanos::from_nanos(now.get() + self.timeout.get() * u64::from(times));
        *timer = Some(Timer { due, times, mark });
    }
}

/// Gives a frame to the context whose rank it is for; false if it is not of its channels and its
/// epoch.
pub(super) fn hear(context: &mut Context<'_>, header: &Header, payload: &[u8]) -> bool {
    // The ends know their links: what is not theirs they refuse.
    if header.kind.is_answer() {
        let sender = context.sender(header.link.destination);
        return sender.is_some_and(|mut sender| sender.hear(header));
    }
    let receiver = context.receiver(header.link.source);
    receiver.is_some_and(|mut receiver| receiver.hear(header, payload))
}

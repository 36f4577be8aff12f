//! Moves one rank's frames between its context and a transport, and retransmits what gets no
//! answer. Never blocks and reads no clock.

use super::Phase;
use super::context::Context;
use super::frame::Header;
use super::transport::Transport;
use idlewave_units::Nanos;

/// The limit of a timer's backoff, as a multiple of its initial length.
const PATIENCE: u32 = 8;
/// The most frames sent to one peer in one turn: other peers must get their turn, and what arrives
/// meanwhile may change what to send.
const AT_ONCE: u32 = 64;

/// Frames that a node has seen since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Given to the transport, including retransmissions and answers.
    pub sent: u64,
    /// Accepted by the active context.
    pub taken: u64,
    /// Dropped: damaged, or not frames at all.
    pub damaged: u64,
    /// Dropped: of another gang or epoch, overtaken, or for another rank.
    pub foreign: u64,
    /// Time-outs: no answer came, and frames were retransmitted.
    pub timeouts: u64,
}

/// The timer for the answer that one peer owes.
#[derive(Clone, Copy, Debug)]
struct Timer {
    due: Nanos,
    times: u32,
    /// What the sender had heard when the timer was set.
    mark: (u32, u32, Phase),
}

/// State outside the context. It belongs to the process that moves frames and is lost with it,
/// which costs only retransmissions.
#[derive(Debug)]
pub(super) struct Talk {
    timeout: Nanos,
    /// By peer: a frame that the transport had no room for; empty if there is none.
    waiting: Vec<Vec<u8>>,
    timers: Vec<Option<Timer>>,
}

impl Talk {
    /// For `peers` peers. Whatever is not answered within `timeout` is sent again.
    pub(super) fn new(peers: u32, timeout: Nanos) -> Self {
        Self {
            timeout,
            waiting: vec![Vec::new(); peers as usize],
            timers: vec![None; peers as usize],
        }
    }

    /// A new epoch has started: nothing has been sent in it yet.
    pub(super) fn reset(&mut self) {
        self.timers.fill(None);
    }

    /// When something must be retransmitted; `None` if everything has been answered.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.timers.iter().flatten().map(|timer| timer.due).min()
    }

    /// Whether the transport had no room for some frame.
    pub(super) fn is_held_up(&self) -> bool {
        self.waiting.iter().any(|frame| !frame.is_empty())
    }

    /// Sends what there is for a peer, which is on node `to`, as far as the transport has room, and
    /// retransmits what was not answered in time.
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

/// Passes a frame to the context of the rank that it is for; false if it belongs to none of the
/// context's channels in the current epoch.
pub(super) fn hear(context: &mut Context<'_>, header: &Header, payload: &[u8]) -> bool {
    // The ends know their links and refuse all others.
    if header.kind.is_answer() {
        let sender = context.sender(header.link.destination);
        return sender.is_some_and(|mut sender| sender.hear(header));
    }
    let receiver = context.receiver(header.link.source);
    receiver.is_some_and(|mut receiver| receiver.hear(header, payload))
}

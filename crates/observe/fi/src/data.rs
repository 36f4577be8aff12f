//! Sending and receiving, for messages with tags and without.

use crate::abi::{FidEp, NO_ADDRESS, Span, code, flag};
use crate::done::{Context, Receive};
use crate::engine::{Endpoint, Engine, lock};
use crate::envelope::{Envelope, LONGEST_INJECT, Want};
use crate::ep::Ep;
use crate::matching::Found;
use crate::object::{self, guarded};
use crate::room::{Content, Room};
use std::ffi::c_void;

/// An endpoint.
pub type Ptr = *mut FidEp;
/// Any memory, or the context of an operation.
pub type Any = *mut c_void;

/// Flags that a send understands; completions come no earlier than the latest of these asks for.
const SEND_FLAGS: u64 = flag::COMPLETION
    | flag::MORE
    | flag::INJECT
    | flag::INJECT_COMPLETE
    | flag::TRANSMIT_COMPLETE
    | flag::REMOTE_CQ_DATA;
/// Flags that a receive understands.
const RECEIVE_FLAGS: u64 =
    flag::COMPLETION | flag::MORE | flag::MULTI_RECV | flag::PEEK | flag::CLAIM | flag::DISCARD;

/// Why a call has no flags of its own, or which.
pub enum Flags {
    /// Those of the endpoint.
    Default,
    /// The call's own.
    Own(u64),
    /// Copied before the call returns, and nothing is reported.
    Inject,
}

fn ready(engine: &mut Engine) -> Result<&mut Endpoint, isize> {
    if let Some(error) = engine.failed() {
        return Err(error);
    }
    let endpoint = engine.endpoint.as_mut().ok_or(code::EINVAL)?;
    match endpoint.enabled {
        true => Ok(endpoint),
        false => Err(code::EOPBADSTATE),
    }
}

/// # Safety
/// The pointers are as their documentation wants them: `spans` points to `count` spans of memory
/// that stays as it is until the send is complete.
pub unsafe fn send(
    ep: Ptr,
    (spans, count): (*const Span, usize),
    to: u64,
    (tag, data): (Option<u64>, Option<u64>),
    context: Any,
    flags: Flags,
) -> isize {
    guarded(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(ep) }.ok_or(code::EINVAL)?;
        // SAFETY: the caller's memory.
        let content = unsafe { Content::of(spans, count) }.ok_or(code::EINVAL)?;
        let length = content.bytes().len();
        let envelope = Envelope { tag, data, length };
        let mut engine = lock(&ep.shared);
        let to = engine.rank_of(to);
        let endpoint = ready(&mut engine)?;
        let to = to.ok_or(code::EHOSTUNREACH)?;
        let (flags, silent) = match flags {
            Flags::Default => (endpoint.send_flags, false),
            Flags::Own(flags) => (flags, false),
            Flags::Inject => (flag::INJECT, true),
        };
        if flags & !SEND_FLAGS != 0 {
            return Err(code::EBADFLAGS);
        }
        let reports = !silent && Endpoint::reports(&endpoint.send, flags);
        let Endpoint { port, matching, .. } = endpoint;
        let context = Context(context);
        let sent = if flags & flag::INJECT != 0 {
            if length > LONGEST_INJECT {
                return Err(code::EMSGSIZE);
            }
            let put = |rings: &mut _| matching.inject(rings, to, envelope, content.bytes());
            let sent = port.reach(put).0;
            if sent {
                matching.injected(&envelope, context, reports);
            }
            sent
        } else {
            port.reach(|rings| matching.send(rings, to, (envelope, content), context, reports));
            true
        };
        if !sent {
            // There is room only once others go on, which may wait for this rank to.
            engine.progress();
            return Err(engine.failed().unwrap_or(code::EAGAIN));
        }
        engine.report();
        Ok(0)
    })
}

/// # Safety
/// That of [`send`], for memory to be written.
pub unsafe fn receive(
    ep: Ptr,
    (spans, count): (*const Span, usize),
    from: u64,
    tag: Option<(u64, u64)>,
    context: Any,
    flags: Flags,
) -> isize {
    guarded(|| {
        // SAFETY: the caller's endpoint.
        let ep = unsafe { object::of::<Ep, _>(ep) }.ok_or(code::EINVAL)?;
        let mut engine = lock(&ep.shared);
        let rank = engine.rank_of(from);
        let endpoint = ready(&mut engine)?;
        let from = match from {
            NO_ADDRESS => None,
            _ if !endpoint.directed => None,
            _ => Some(rank.ok_or(code::EHOSTUNREACH)?),
        };
        let flags = match flags {
            Flags::Own(flags) => flags,
            _ => endpoint.receive_flags,
        };
        if flags & !RECEIVE_FLAGS != 0 {
            return Err(code::EBADFLAGS);
        }
        let (want, context) = (Want { from, tag }, Context(context));
        let is = |one: u64| flags & one != 0;
        if is(flag::PEEK) {
            let found = match () {
                () if is(flag::CLAIM) => Found::Claim,
                () if is(flag::DISCARD) => Found::Discard,
                () => Found::Keep,
            };
            endpoint.matching.look_for(want);
            engine.progress();
            let endpoint = ready(&mut engine)?;
            endpoint.matching.peek(&want, context, found);
            engine.report();
            return Ok(0);
        }
        let reports = Endpoint::reports(&endpoint.receive, flags);
        let least = endpoint.least;
        let matching = &mut endpoint.matching;
        if is(flag::DISCARD) {
            if !is(flag::CLAIM) {
                return Err(code::EBADFLAGS);
            }
            if !matching.discard_claimed(context, reports) {
                return Err(code::EINVAL);
            }
            engine.report();
            return Ok(0);
        }
        // SAFETY: the caller's memory.
        let room = unsafe { Room::of(spans, count) }.ok_or(code::EINVAL)?;
        let receive = Receive {
            want,
            room,
            context,
            reports,
        };
        if is(flag::CLAIM) {
            if !matching.receive_claimed(receive) {
                return Err(code::EINVAL);
            }
        } else if is(flag::MULTI_RECV) {
            // Tagged messages have receives of their own, and the room must be in one piece.
            if tag.is_some() || count != 1 {
                return Err(code::EBADFLAGS);
            }
            matching.receive_many(receive, least);
        } else {
            matching.receive(receive);
        }
        engine.report();
        Ok(0)
    })
}

/// One span.
pub fn one(base: Any, len: usize) -> Span {
    Span {
        base: base.cast(),
        len,
    }
}

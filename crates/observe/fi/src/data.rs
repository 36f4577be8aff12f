//! Sending and receiving (fi_msg(3), fi_tagged(3)).

use crate::abi::{FidEp, MessageOps, Msg, MsgTagged, NO_ADDRESS, Span, TaggedOps, code, flag};
use crate::engine::{Endpoint, Engine, lock};
use crate::ep::Ep;
use crate::matching::{Context, Envelope, Found, LONGEST_INJECT, Receive, Want};
use crate::object::{self, guarded};
use crate::room::{Content, Room};
use std::ffi::c_void;

pub static MESSAGE_OPS: MessageOps = MessageOps {
    size: size_of::<MessageOps>(),
    recv: message::recv,
    recvv: message::recvv,
    recvmsg: message::recvmsg,
    send: message::send,
    sendv: message::sendv,
    sendmsg: message::sendmsg,
    inject: message::inject,
    senddata: message::senddata,
    injectdata: message::injectdata,
};

pub static TAGGED_OPS: TaggedOps = TaggedOps {
    size: size_of::<TaggedOps>(),
    recv: tagged::recv,
    recvv: tagged::recvv,
    recvmsg: tagged::recvmsg,
    send: tagged::send,
    sendv: tagged::sendv,
    sendmsg: tagged::sendmsg,
    inject: tagged::inject,
    senddata: tagged::senddata,
    injectdata: tagged::injectdata,
};

type Ptr = *mut FidEp;
type Any = *mut c_void;

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
enum Flags {
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
unsafe fn send(
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
unsafe fn receive(
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
fn one(base: Any, len: usize) -> Span {
    Span {
        base: base.cast(),
        len,
    }
}

/// Messages without tags.
mod message {
    use super::*;

    pub unsafe extern "C" fn recv(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        from: u64,
        context: Any,
    ) -> isize {
        let span = one(buf, len);
        // SAFETY: the caller's arguments.
        unsafe { receive(ep, (&span, 1), from, None, context, Flags::Default) }
    }

    pub unsafe extern "C" fn recvv(
        ep: Ptr,
        spans: *const Span,
        _: *mut Any,
        count: usize,
        from: u64,
        context: Any,
    ) -> isize {
        // SAFETY: the caller's arguments.
        unsafe { receive(ep, (spans, count), from, None, context, Flags::Default) }
    }

    pub unsafe extern "C" fn recvmsg(ep: Ptr, msg: *const Msg, flags: u64) -> isize {
        // SAFETY: the caller's arguments.
        unsafe {
            let Some(m) = msg.as_ref() else {
                return -code::EINVAL;
            };
            let flags = Flags::Own(flags);
            receive(ep, (m.spans, m.count), m.addr, None, m.context, flags)
        }
    }

    pub unsafe extern "C" fn send(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        to: u64,
        context: Any,
    ) -> isize {
        let span = one(buf, len);
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (&span, 1), to, (None, None), context, Flags::Default) }
    }

    pub unsafe extern "C" fn sendv(
        ep: Ptr,
        spans: *const Span,
        _: *mut Any,
        count: usize,
        to: u64,
        context: Any,
    ) -> isize {
        // SAFETY: the caller's arguments.
        unsafe {
            super::send(
                ep,
                (spans, count),
                to,
                (None, None),
                context,
                Flags::Default,
            )
        }
    }

    pub unsafe extern "C" fn sendmsg(ep: Ptr, msg: *const Msg, flags: u64) -> isize {
        // SAFETY: the caller's arguments.
        unsafe {
            let Some(m) = msg.as_ref() else {
                return -code::EINVAL;
            };
            let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(m.data);
            let (spans, flags) = ((m.spans, m.count), Flags::Own(flags));
            super::send(ep, spans, m.addr, (None, data), m.context, flags)
        }
    }

    pub unsafe extern "C" fn inject(ep: Ptr, buf: Any, len: usize, to: u64) -> isize {
        let (span, nothing) = (one(buf, len), std::ptr::null_mut());
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (&span, 1), to, (None, None), nothing, Flags::Inject) }
    }

    pub unsafe extern "C" fn senddata(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        data: u64,
        to: u64,
        context: Any,
    ) -> isize {
        let (span, with) = (one(buf, len), (None, Some(data)));
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (&span, 1), to, with, context, Flags::Default) }
    }

    pub unsafe extern "C" fn injectdata(
        ep: Ptr,
        buf: Any,
        len: usize,
        data: u64,
        to: u64,
    ) -> isize {
        let (span, with) = (one(buf, len), (None, Some(data)));
        // SAFETY: the caller's arguments.
        unsafe {
            super::send(
                ep,
                (&span, 1),
                to,
                with,
                std::ptr::null_mut(),
                Flags::Inject,
            )
        }
    }
}

/// Messages with tags.
mod tagged {
    use super::*;

    pub unsafe extern "C" fn recv(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        from: u64,
        tag: u64,
        ignore: u64,
        context: Any,
    ) -> isize {
        let (span, tag) = (one(buf, len), Some((tag, ignore)));
        // SAFETY: the caller's arguments.
        unsafe { receive(ep, (&span, 1), from, tag, context, Flags::Default) }
    }

    pub unsafe extern "C" fn recvv(
        ep: Ptr,
        spans: *const Span,
        _: *mut Any,
        count: usize,
        from: u64,
        tag: u64,
        ignore: u64,
        context: Any,
    ) -> isize {
        let tag = Some((tag, ignore));
        // SAFETY: the caller's arguments.
        unsafe { receive(ep, (spans, count), from, tag, context, Flags::Default) }
    }

    pub unsafe extern "C" fn recvmsg(ep: Ptr, msg: *const MsgTagged, flags: u64) -> isize {
        // SAFETY: the caller's arguments.
        unsafe {
            let Some(m) = msg.as_ref() else {
                return -code::EINVAL;
            };
            let (tag, flags) = (Some((m.tag, m.ignore)), Flags::Own(flags));
            receive(ep, (m.spans, m.count), m.addr, tag, m.context, flags)
        }
    }

    pub unsafe extern "C" fn send(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        to: u64,
        tag: u64,
        context: Any,
    ) -> isize {
        let (span, with) = (one(buf, len), (Some(tag), None));
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (&span, 1), to, with, context, Flags::Default) }
    }

    pub unsafe extern "C" fn sendv(
        ep: Ptr,
        spans: *const Span,
        _: *mut Any,
        count: usize,
        to: u64,
        tag: u64,
        context: Any,
    ) -> isize {
        let with = (Some(tag), None);
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (spans, count), to, with, context, Flags::Default) }
    }

    pub unsafe extern "C" fn sendmsg(ep: Ptr, msg: *const MsgTagged, flags: u64) -> isize {
        // SAFETY: the caller's arguments.
        unsafe {
            let Some(m) = msg.as_ref() else {
                return -code::EINVAL;
            };
            let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(m.data);
            let (spans, flags) = ((m.spans, m.count), Flags::Own(flags));
            super::send(ep, spans, m.addr, (Some(m.tag), data), m.context, flags)
        }
    }

    pub unsafe extern "C" fn inject(ep: Ptr, buf: Any, len: usize, to: u64, tag: u64) -> isize {
        let (span, with) = (one(buf, len), (Some(tag), None));
        // SAFETY: the caller's arguments.
        unsafe {
            super::send(
                ep,
                (&span, 1),
                to,
                with,
                std::ptr::null_mut(),
                Flags::Inject,
            )
        }
    }

    pub unsafe extern "C" fn senddata(
        ep: Ptr,
        buf: Any,
        len: usize,
        _: Any,
        data: u64,
        to: u64,
        tag: u64,
        context: Any,
    ) -> isize {
        let (span, with) = (one(buf, len), (Some(tag), Some(data)));
        // SAFETY: the caller's arguments.
        unsafe { super::send(ep, (&span, 1), to, with, context, Flags::Default) }
    }

    pub unsafe extern "C" fn injectdata(
        ep: Ptr,
        buf: Any,
        len: usize,
        data: u64,
        to: u64,
        tag: u64,
    ) -> isize {
        let (span, with) = (one(buf, len), (Some(tag), Some(data)));
        // SAFETY: the caller's arguments.
        unsafe {
            super::send(
                ep,
                (&span, 1),
                to,
                with,
                std::ptr::null_mut(),
                Flags::Inject,
            )
        }
    }
}

//! Messages without tags (fi_msg(3)).

use crate::abi::{MessageOps, Msg, Span, code, flag};
use crate::data::{self, Any, Flags, Ptr, one};

pub static OPS: MessageOps = MessageOps {
    size: size_of::<MessageOps>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

unsafe extern "C" fn recv(ep: Ptr, buf: Any, len: usize, _: Any, from: u64, context: Any) -> isize {
    let span = one(buf, len);
    // SAFETY: the caller's arguments.
    unsafe { data::receive(ep, (&span, 1), from, None, context, Flags::Default) }
}

unsafe extern "C" fn recvv(
    ep: Ptr,
    spans: *const Span,
    _: *mut Any,
    count: usize,
    from: u64,
    context: Any,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe { data::receive(ep, (spans, count), from, None, context, Flags::Default) }
}

unsafe extern "C" fn recvmsg(ep: Ptr, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(m) = msg.as_ref() else {
            return -code::EINVAL;
        };
        let flags = Flags::Own(flags);
        data::receive(ep, (m.spans, m.count), m.addr, None, m.context, flags)
    }
}

unsafe extern "C" fn send(ep: Ptr, buf: Any, len: usize, _: Any, to: u64, context: Any) -> isize {
    let span = one(buf, len);
    // SAFETY: the caller's arguments.
    unsafe { data::send(ep, (&span, 1), to, (None, None), context, Flags::Default) }
}

unsafe extern "C" fn sendv(
    ep: Ptr,
    spans: *const Span,
    _: *mut Any,
    count: usize,
    to: u64,
    context: Any,
) -> isize {
    // SAFETY: the caller's arguments.
    unsafe {
        data::send(
            ep,
            (spans, count),
            to,
            (None, None),
            context,
            Flags::Default,
        )
    }
}

unsafe extern "C" fn sendmsg(ep: Ptr, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(m) = msg.as_ref() else {
            return -code::EINVAL;
        };
        let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(m.data);
        let (spans, flags) = ((m.spans, m.count), Flags::Own(flags));
        data::send(ep, spans, m.addr, (None, data), m.context, flags)
    }
}

unsafe extern "C" fn inject(ep: Ptr, buf: Any, len: usize, to: u64) -> isize {
    let (span, nothing) = (one(buf, len), std::ptr::null_mut());
    // SAFETY: the caller's arguments.
    unsafe { data::send(ep, (&span, 1), to, (None, None), nothing, Flags::Inject) }
}

unsafe extern "C" fn senddata(
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
    unsafe { data::send(ep, (&span, 1), to, with, context, Flags::Default) }
}

unsafe extern "C" fn injectdata(ep: Ptr, buf: Any, len: usize, data: u64, to: u64) -> isize {
    let (span, with) = (one(buf, len), (None, Some(data)));
    // SAFETY: the caller's arguments.
    unsafe {
        data::send(
            ep,
            (&span, 1),
            to,
            with,
            std::ptr::null_mut(),
            Flags::Inject,
        )
    }
}

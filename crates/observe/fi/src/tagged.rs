//! Messages with tags (fi_tagged(3)).

use crate::abi::{MsgTagged, Span, TaggedOps, code, flag};
use crate::data::{self, Any, Flags, Ptr, one};

pub static OPS: TaggedOps = TaggedOps {
    size: size_of::<TaggedOps>(),
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

unsafe extern "C" fn recv(
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
    unsafe { data::receive(ep, (&span, 1), from, tag, context, Flags::Default) }
}

unsafe extern "C" fn recvv(
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
    unsafe { data::receive(ep, (spans, count), from, tag, context, Flags::Default) }
}

unsafe extern "C" fn recvmsg(ep: Ptr, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(m) = msg.as_ref() else {
            return -code::EINVAL;
        };
        let (tag, flags) = (Some((m.tag, m.ignore)), Flags::Own(flags));
        data::receive(ep, (m.spans, m.count), m.addr, tag, m.context, flags)
    }
}

unsafe extern "C" fn send(
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
    unsafe { data::send(ep, (&span, 1), to, with, context, Flags::Default) }
}

unsafe extern "C" fn sendv(
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
    unsafe { data::send(ep, (spans, count), to, with, context, Flags::Default) }
}

unsafe extern "C" fn sendmsg(ep: Ptr, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(m) = msg.as_ref() else {
            return -code::EINVAL;
        };
        let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(m.data);
        let (spans, flags) = ((m.spans, m.count), Flags::Own(flags));
        data::send(ep, spans, m.addr, (Some(m.tag), data), m.context, flags)
    }
}

unsafe extern "C" fn inject(ep: Ptr, buf: Any, len: usize, to: u64, tag: u64) -> isize {
    let (span, with) = (one(buf, len), (Some(tag), None));
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

unsafe extern "C" fn senddata(
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
    unsafe { data::send(ep, (&span, 1), to, with, context, Flags::Default) }
}

unsafe extern "C" fn injectdata(
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

//! Receives, and the completions of operations.

use crate::abi::{CqEntry, flag};
use crate::envelope::{Envelope, Want};
use crate::room::Room;
use std::ffi::c_void;

/// What a program passes with an operation, to find it again in its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub *mut c_void);

// SAFETY: never followed.
unsafe impl Send for Context {}

/// A receive, or a peek.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// Which messages.
    pub want: Want,
    /// Where they go.
    pub room: Room,
    /// Names it.
    pub context: Context,
    /// Whether its completion is to be reported.
    pub reports: bool,
}

/// The completion of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What is reported of it.
    pub entry: CqEntry,
    /// The source of a message; `None` for sends, and if there is no message.
    pub source: Option<u32>,
    /// What went wrong, and the bytes that had no room.
    pub error: Option<(isize, usize)>,
    /// Whether a success is to be reported.
    pub reports: bool,
}

// SAFETY: its addresses are never followed.
unsafe impl Send for Done {}

impl Done {
    /// Whether it is that of a send.
    pub fn is_send(&self) -> bool {
        self.entry.flags & flag::SEND != 0
    }
}

/// What is reported of an operation, without a message.
pub fn entry(context: Context, flags: u64, len: usize) -> CqEntry {
    CqEntry {
        context: context.0,
        flags,
        len,
        buf: std::ptr::null_mut(),
        data: 0,
        tag: 0,
    }
}

/// The completion of a send.
pub fn sent(
    envelope: &Envelope,
    context: Context,
    reports: bool,
    error: Option<(isize, usize)>,
) -> Done {
    let kind = envelope.tag.map_or(flag::MSG, |_| flag::TAGGED);
    Done {
        entry: entry(context, flag::SEND | kind, 0),
        source: None,
        error,
        reports,
    }
}

/// The completion of a receive, or of a peek that found a message; `more` are its further flags.
pub fn arrived(
    (source, envelope): (u32, Envelope),
    context: Context,
    more: u64,
    reports: bool,
) -> Done {
    let flags = flag::RECV | envelope.flags() | more;
    Done {
        entry: CqEntry {
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag.unwrap_or(0),
            ..entry(context, flags, envelope.length)
        },
        source: Some(source),
        error: None,
        reports,
    }
}

/// A receive that is not to be matched.
pub fn failed(receive: &Receive) -> Done {
    let kind = receive.want.tag.map_or(flag::MSG, |_| flag::TAGGED);
    Done {
        entry: CqEntry {
            tag: receive.want.tag.map_or(0, |(tag, _)| tag),
            ..entry(receive.context, flag::RECV | kind, 0)
        },
        source: None,
        error: None,
        reports: true,
    }
}

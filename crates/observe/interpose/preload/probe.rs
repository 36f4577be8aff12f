//! Probes, and receives of probed messages.

use crate::call::Call;
use crate::communicators::{self, Comm, details};
use crate::library::Kind;
use crate::page::mode;
use crate::point_to_point::{Transfer, received, self_flag, wanted_tag};
use crate::requests::{self, What};
use crate::ring::kind;
use crate::state::Want;
use crate::thread::Thread;
use crate::{state, write_call};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Messages that were probed but not yet received, with their origin.
static MESSAGES: Mutex<Option<HashMap<usize, Probed>>> = Mutex::new(None);

struct Probed {
    comm: Arc<Comm>,
    source: i32,
    tag: i32,
}

/// MPI_Probe.
pub fn probe(call: &mut Call, thread: &mut Thread) {
    let comm = communicators::of(thread, call.library, call.handle(2, Kind::Comm));
    begins(call, comm.as_deref());
    call.run();
    let _ended = state::ended(call);
    write_call(call, thread, details(comm.as_deref()));
}

/// MPI_Iprobe.
pub fn iprobe(call: &mut Call, thread: &mut Thread) {
    let comm = communicators::of(thread, call.library, call.handle(2, Kind::Comm));
    call.poll();
    if call.failed() || call.out(3) != 0 {
        let _ended = state::ended(call);
        call.done();
        write_call(call, thread, details(comm.as_deref()));
    } else {
        polled(call, comm.as_deref());
        thread.poll(call.begin, call.entry.number);
    }
}

/// MPI_Mprobe and MPI_Improbe, which has a flag before the message.
pub fn mprobe(call: &mut Call, thread: &mut Thread, immediate: bool) {
    let comm = communicators::of(thread, call.library, call.handle(2, Kind::Comm));
    let (message, status) = if immediate { (4, 5) } else { (3, 4) };
    call.want_status(status);
    if !immediate {
        begins(call, comm.as_deref());
    }
    call.poll();
    if immediate && !call.failed() && call.out(3) == 0 {
        polled(call, comm.as_deref());
        thread.poll(call.begin, call.entry.number);
        return;
    }
    let ended = state::ended(call);
    call.done();
    if let (Some(comm), false) = (&comm, call.failed()) {
        let handle = call.handle_of(message, 0, Kind::Message);
        if handle != call.library.message_no_proc {
            let (layout, status) = (call.library.abi.status, call.arguments[status]);
            // SAFETY: the call has filled the status.
            let (source, tag) = unsafe {
                (
                    *((status + layout.source) as *const i32),
                    *((status + layout.tag) as *const i32),
                )
            };
            // From now on no other receive can match the message.
            if let Some(ended) = &ended {
                ended.received(comm, comm.peer(source), tag);
            }
            let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
            let probed = Probed {
                comm: comm.keep(),
                source,
                tag,
            };
            messages.get_or_insert_default().insert(handle, probed);
        }
    }
    write_call(call, thread, details(comm.as_deref()));
}

/// What a probe asks for: source and tag are its first arguments. `None` for MPI_PROC_NULL, which
/// always matches at once.
fn want(call: &Call, comm: Option<&Comm>) -> Option<Want> {
    let (comm, source) = (comm?, call.int(0));
    if source == call.library.abi.proc_null {
        return None;
    }
    let any = source == call.library.abi.any_source;
    Some(state::receive(
        comm,
        comm.peer(source),
        wanted_tag(call, call.int(1)),
        any,
    ))
}

fn begins(call: &Call, comm: Option<&Comm>) {
    if let Some(page) = call.page {
        let writing = state::write(page);
        if let Some(want) = want(call, comm) {
            state::waits_for(call, &writing, &want);
        }
    }
}

fn polled(call: &Call, comm: Option<&Comm>) {
    let key = comm.map_or(0, |comm| comm.key);
    let asked = state::mix(state::mix(key, call.int(0) as usize), call.int(1) as usize);
    state::polled(call, asked, |writing| {
        let want = std::iter::once(want(call, comm));
        writing.waits(call.entry.number, mode::POLL_ALL, want)
    });
}

fn take(handle: usize) -> Option<Probed> {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    messages.as_mut()?.remove(&handle)
}

/// MPI_Mrecv: buffer, count, type, message, status.
pub fn mreceive(call: &mut Call, thread: &mut Thread) {
    let probed = take(call.handle_of(3, 0, Kind::Message));
    call.want_status(4);
    // The receive waits for nothing that others still have to start, and the message was counted
    // when it was probed.
    drop(state::ended(call));
    call.run();
    let mut details = details(probed.as_ref().map(|probed| &*probed.comm));
    let transfer = match &probed {
        // SAFETY: the call has filled the status.
        Some(probed) if !call.failed() => unsafe {
            received(call, &probed.comm, call.arguments[4])
        },
        _ => None,
    };
    details.received = transfer.as_ref().map_or(0, |transfer| transfer.bytes);
    write_call(call, thread, details);
    if let Some(transfer) = transfer {
        transfer.write(call, thread);
    }
}

/// MPI_Imrecv: buffer, count, type, message, request.
pub fn start_mreceive(call: &mut Call, thread: &mut Thread) {
    let probed = take(call.handle_of(3, 0, Kind::Message));
    drop(state::ended(call));
    call.want = Want::UNKNOWN;
    call.run();
    let mut details = details(probed.as_ref().map(|probed| &*probed.comm));
    if call.failed() {
        write_call(call, thread, details);
        return;
    }
    let Some(Probed { comm, source, tag }) = probed else {
        details.request = requests::started(call, 4, What::Nothing) + 1;
        write_call(call, thread, details);
        return;
    };
    let peer = comm.peer(source);
    let flags = self_flag(peer) | comm.flags();
    let transfer = Transfer {
        kind: kind::RECEIVE,
        flags,
        tag,
        comm: comm.key,
        peer,
        bytes: 0,
        request: 0,
    };
    let what = What::Transfer {
        comm,
        transfer: transfer.clone(),
    };
    details.request = requests::started(call, 4, what) + 1;
    let request = details.request;
    write_call(call, thread, details);
    Transfer {
        request,
        ..transfer
    }
    .write(call, thread);
}

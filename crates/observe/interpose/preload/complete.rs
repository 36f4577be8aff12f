//! Functions that complete requests or query them.

use crate::call::Call;
use crate::communicators;
use crate::library::Kind;
use crate::page::{mode, unknown};
use crate::point_to_point::received;
use crate::requests::{self, Known, Request, What};
use crate::ring::{flags, kind};
use crate::state::Want;
use crate::table::How;
use crate::thread::Thread;
use crate::{Details, state, write_call};

/// The record of a completed request.
///
/// # Safety
/// `status` is 0 or points to a status that the library has filled.
unsafe fn write(call: &Call, thread: &mut Thread, request: Request, status: usize, more: u8) {
    let want = request.want;
    let ended = call
        .page
        .filter(|_| more & flags::FREED == 0)
        .map(state::write);
    if let Some(ended) = &ended {
        ended.unpost(&want);
    }
    // SAFETY: the caller guarantees it.
    let cancelled = request.cancelled && status != 0 && unsafe { call.library.cancelled(status) };
    let cancelled = if cancelled { flags::CANCELLED } else { 0 };
    let (mut flags, mut tag, mut peer, mut bytes) = (more | cancelled, 0, 0, 0);
    match request.what {
        What::Nothing => return,
        What::Collective(_) => {}
        What::Communicator {
            parent,
            at,
            fortran,
        } => {
            if more & flags::FAILED == 0 {
                communicators::idup_done(call.library, parent, at, fortran);
            }
        }
        What::Transfer { comm, transfer } => {
            (peer, tag, bytes) = (transfer.peer, transfer.tag, transfer.bytes);
            flags |= transfer.flags;
            if transfer.kind == kind::SEND {
                bytes = if cancelled == 0 { bytes } else { 0 };
            } else if flags & (flags::CANCELLED | flags::FAILED) == 0 && status != 0 {
                // SAFETY: the caller guarantees it.
                let Some(transfer) = (unsafe { received(call, &comm, status) }) else {
                    return;
                };
                (peer, tag, bytes) = (transfer.peer, transfer.tag, transfer.bytes);
                flags = more | transfer.flags;
                if let Some(ended) = ended.as_ref().filter(|_| want.posted != 0) {
                    ended.received(&comm, peer, tag);
                }
            } else if flags & (flags::CANCELLED | flags::FREED) == 0 {
                flags |= flags::BYTES_UNKNOWN;
            }
        }
    }
    let word = u64::from(kind::COMPLETION) | u64::from(flags) << 8 | u64::from(tag as u32) << 32;
    let serial = request.serial + 1;
    thread.write(&[
        call.begin,
        call.end,
        word,
        0,
        u64::from(peer),
        bytes,
        0,
        serial,
    ]);
}

/// What the requests of a call wait for; inactive requests are left out.
fn wants<'a>(call: &'a Call, handles: &'a [usize]) -> impl Iterator<Item = Option<Want>> + 'a {
    let of = |(k, &handle): (usize, &usize)| {
        if handle == call.library.request_null {
            return None;
        }
        match requests::known(handle, call.slot(places(call), k)) {
            Some(Known::Active(want)) => Some(Some(want)),
            Some(Known::Idle(..)) => None,
            None => Some(None),
        }
    };
    handles.iter().enumerate().filter_map(of)
}

/// Position of the requests among the arguments: after their number, except where there is only
/// one.
fn places(call: &Call) -> usize {
    usize::from(!matches!(
        call.entry.how,
        How::Wait | How::Test | How::GetStatus
    ))
}

/// Announces what the call is about to wait for.
fn begins(call: &Call, handles: &[usize], mode: u8) {
    if let Some(page) = call.page {
        let writing = state::write(page);
        let _ = writing.waits(call.entry.number, mode, wants(call, handles));
    }
}

/// Announces what was tested without success.
fn polled(call: &Call, handles: &[usize], mode: u8) {
    let asked = handles
        .iter()
        .fold(0, |hash, handle| state::mix(hash, *handle));
    state::polled(call, asked, |writing| {
        writing.waits(call.entry.number, mode, wants(call, handles))
    });
}

/// MPI_Wait: request, status.
pub fn wait(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    call.want_status(1);
    begins(call, &[handle], mode::ALL);
    call.run();
    let _ended = state::ended(call);
    one(call, thread, handle, 1);
}

/// MPI_Test: request, flag, status.
pub fn test(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    call.want_status(2);
    call.poll();
    if !call.failed() && call.out(1) == 0 {
        polled(call, &[handle], mode::POLL_ALL);
        thread.poll(call.begin, call.entry.number);
    } else {
        let _ended = state::ended(call);
        call.done();
        one(call, thread, handle, 2);
    }
}

fn one(call: &mut Call, thread: &mut Thread, handle: usize, status: usize) {
    let null = handle == call.library.request_null;
    let request = if null {
        None
    } else {
        requests::finish(handle, call.slot(0, 0))
    };
    let request_plus_one = request.as_ref().map_or(0, |request| request.serial + 1);
    write_call(
        call,
        thread,
        Details {
            request: request_plus_one,
            ..Details::default()
        },
    );
    if let Some(request) = request {
        // SAFETY: the call has filled the status, unless it failed, which the flag says.
        unsafe {
            write(
                call,
                thread,
                request,
                call.arguments[status],
                call.failure(),
            )
        };
    }
}

/// The handles of an array, saved before the call overwrites them.
fn remember(call: &Call, thread: &mut Thread) -> Vec<usize> {
    let mut handles = std::mem::take(&mut thread.extra().handles);
    handles.clear();
    let many = call.int(0).max(0) as usize;
    handles.extend((0..many).map(|k| call.handle_of(1, k, Kind::Request)));
    handles
}

/// Provides statuses of our own where the program passes none.
fn want_statuses(call: &mut Call, thread: &mut Thread, i: usize, many: usize) {
    if call
        .library
        .is_status_ignore(call.fortran(), call.arguments[i])
    {
        let statuses = &mut thread.extra().statuses;
        let words = (many * call.library.abi.status.size).div_ceil(8) + 1;
        if statuses.len() < words {
            statuses.resize(words, 0);
        }
        call.arguments[i] = statuses.as_mut_ptr() as usize;
    }
}

/// MPI_Waitall: count, requests, statuses.
pub fn wait_all(call: &mut Call, thread: &mut Thread) {
    let handles = remember(call, thread);
    want_statuses(call, thread, 2, handles.len());
    begins(call, &handles, mode::ALL);
    call.run();
    let _ended = state::ended(call);
    all(call, thread, &handles, 2);
    thread.extra().handles = handles;
}

/// MPI_Testall: count, requests, flag, statuses.
pub fn test_all(call: &mut Call, thread: &mut Thread) {
    let handles = remember(call, thread);
    want_statuses(call, thread, 3, handles.len());
    call.run();
    if !call.failed() && call.out(2) == 0 {
        polled(call, &handles, mode::POLL_ALL);
        thread.poll(call.begin, call.entry.number);
    } else {
        let _ended = state::ended(call);
        all(call, thread, &handles, 3);
    }
    thread.extra().handles = handles;
}

fn all(call: &Call, thread: &mut Thread, handles: &[usize], statuses: usize) {
    write_call(call, thread, Details::default());
    let abi = call.library.abi;
    for (k, &handle) in handles.iter().enumerate() {
        if handle == call.library.request_null {
            continue;
        }
        let status = call.arguments[statuses] + k * abi.status.size;
        let mut failure = 0;
        if call.failed() {
            // SAFETY: if any status holds an error, all statuses are set (MPI 3.1, section 3.7.5).
            let error = unsafe { *((status + abi.status.error) as *const i32) };
            if call.code != abi.err_in_status || error == abi.err_pending {
                if call.handle_of(1, k, Kind::Request) == handle {
                    continue;
                }
                failure = flags::FAILED;
            } else if error != abi.success {
                failure = flags::FAILED;
            }
        }
        if let Some(request) = requests::finish(handle, call.slot(1, k)) {
            // SAFETY: as above; without an error the call has filled all statuses.
            unsafe { write(call, thread, request, status, failure) };
        }
    }
}

/// The first index that a call returns: 0 in C, 1 in Fortran. MPICH 4.0, however, counts from 0 in
/// mpi_f08 too, which shows in which handles have become MPI_REQUEST_NULL.
fn first_index(call: &Call, values: &[i32], handles: &[usize]) -> i32 {
    if !call.fortran() {
        return 0;
    }
    let completed = |k: usize| {
        let null = call.library.request_null;
        handles.get(k).is_some_and(|&before| before != null)
            && call.handle_of(1, k, Kind::Request) == null
    };
    let all = |first: i32| {
        values
            .iter()
            .all(|value| usize::try_from(value.wrapping_sub(first)).is_ok_and(completed))
    };
    // Handles of persistent requests do not change; for them the standard is assumed.
    if !all(1) && all(0) { 0 } else { 1 }
}

/// A position in an array; `None` for MPI_UNDEFINED, which is negative in all families.
fn place(value: i32, first: i32, many: usize) -> Option<usize> {
    usize::try_from(value.wrapping_sub(first))
        .ok()
        .filter(|&place| place < many)
}

/// MPI_Waitany: count, requests, index, status; MPI_Testany has a flag before the status.
pub fn wait_any(call: &mut Call, thread: &mut Thread, flag: Option<usize>) {
    let handles = remember(call, thread);
    let status = if flag.is_some() { 4 } else { 3 };
    call.want_status(status);
    if flag.is_none() {
        begins(call, &handles, mode::ANY);
    }
    call.run();
    if flag.is_some_and(|flag| !call.failed() && call.out(flag) == 0) {
        polled(call, &handles, mode::POLL_ANY);
        thread.poll(call.begin, call.entry.number);
    } else {
        let _ended = state::ended(call);
        let value = call.out(2);
        let done = place(value, first_index(call, &[value], &handles), handles.len());
        let request = done.and_then(|k| requests::finish(handles[k], call.slot(1, k)));
        let request_plus_one = request.as_ref().map_or(0, |request| request.serial + 1);
        write_call(
            call,
            thread,
            Details {
                request: request_plus_one,
                ..Details::default()
            },
        );
        if let Some(request) = request {
            // SAFETY: the call has filled the status, unless it failed, which the flag says.
            unsafe {
                write(
                    call,
                    thread,
                    request,
                    call.arguments[status],
                    call.failure(),
                )
            };
        }
    }
    thread.extra().handles = handles;
}

/// MPI_Waitsome and MPI_Testsome: count, requests, number of completed ones, their indices, their
/// statuses.
pub fn wait_some(call: &mut Call, thread: &mut Thread, test: bool) {
    let handles = remember(call, thread);
    want_statuses(call, thread, 4, handles.len());
    if !test {
        begins(call, &handles, mode::ANY);
    }
    call.run();
    let done = call.out(2);
    if test && !call.failed() && done == 0 {
        polled(call, &handles, mode::POLL_ANY);
        thread.poll(call.begin, call.entry.number);
        thread.extra().handles = handles;
        return;
    }
    let _ended = state::ended(call);
    write_call(call, thread, Details::default());
    let abi = call.library.abi;
    if !call.failed() || call.code == abi.err_in_status {
        let many = usize::try_from(done).unwrap_or(0).min(handles.len());
        // SAFETY: the call has written that many indices and statuses.
        let values = unsafe { std::slice::from_raw_parts(call.arguments[3] as *const i32, many) };
        let first = first_index(call, values, &handles);
        for (nth, &value) in values.iter().enumerate() {
            let status = call.arguments[4] + nth * abi.status.size;
            let Some(k) = place(value, first, handles.len()) else {
                continue;
            };
            // SAFETY: as above.
            let error = unsafe { *((status + abi.status.error) as *const i32) };
            let failed = call.failed() && error != abi.success;
            let failure = if failed { flags::FAILED } else { 0 };
            if let Some(request) = requests::finish(handles[k], call.slot(1, k)) {
                // SAFETY: as above.
                unsafe { write(call, thread, request, status, failure) };
            }
        }
    }
    thread.extra().handles = handles;
}

/// MPI_Request_get_status: request, flag, status. It completes nothing.
pub fn get_status(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    call.run();
    if !call.failed() && call.out(1) == 0 {
        polled(call, &[handle], mode::POLL_ALL);
        thread.poll(call.begin, call.entry.number);
    } else {
        let _ended = state::ended(call);
        write_call(call, thread, Details::default());
    }
}

/// MPI_Cancel.
pub fn cancel(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    if let (Some(page), Some(Known::Active(want))) =
        (call.page, requests::known(handle, call.slot(0, 0)))
    {
        let _writing = state::write(page);
        // The send has been counted already, and may never arrive.
        if want.is_send() {
            state::give_up(page, unknown::UNCOUNTED);
        }
    }
    requests::cancel(handle, call.slot(0, 0));
    call.run();
    write_call(call, thread, Details::default());
}

/// MPI_Request_free: an active request continues unobserved.
pub fn free(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    call.run();
    let request = if call.failed() {
        None
    } else {
        requests::free(handle, call.slot(0, 0))
    };
    write_call(call, thread, Details::default());
    if let Some(request) = request {
        // SAFETY: there is no status.
        unsafe { write(call, thread, request, 0, flags::FREED) };
    }
}

//! Sends and receives.

use crate::call::Call;
use crate::communicators::{self, Comm, Held, details};
use crate::library::Kind;
use crate::page::mode;
use crate::requests::{self, Known, What};
use crate::ring::{ANY_TAG, flags, kind, loss};
use crate::thread::Thread;
use crate::{Details, losses, state, world, write_call};

/// One transfer, in the form of its record.
#[derive(Clone)]
pub struct Transfer {
    pub kind: u8,
    pub flags: u8,
    pub tag: i32,
    pub comm: u64,
    pub peer: u32,
    pub bytes: u64,
    /// Number of the request plus 1; 0 if the transfer completes with the call.
    pub request: u64,
}

impl Transfer {
    #[inline(always)]
    pub fn write(&self, call: &Call, thread: &mut Thread) {
        let word = u64::from(self.kind)
            | u64::from(self.flags | call.failure()) << 8
            | u64::from(self.tag as u32) << 32;
        let peer = u64::from(self.peer);
        thread.write(&[
            call.begin,
            0,
            word,
            self.comm,
            peer,
            self.bytes,
            0,
            self.request,
        ]);
    }
}

/// [`flags::SELF`] if the peer is the rank itself.
#[inline(always)]
pub fn self_flag(peer: u32) -> u8 {
    match world::world() {
        Some(world) if world.rank + 1 == peer => flags::SELF,
        _ => 0,
    }
}

fn synchronous_flag(synchronous: bool) -> u8 {
    if synchronous { flags::SYNCHRONOUS } else { 0 }
}

/// A tag to receive with.
pub fn wanted_tag(call: &Call, tag: i32) -> i32 {
    if tag == call.library.abi.any_tag {
        ANY_TAG
    } else {
        tag
    }
}

/// Bytes of `count` elements of a type, and [`flags::BYTES_UNKNOWN`] if the type is invalid.
#[inline(always)]
pub fn bytes(call: &Call, count: usize, datatype: usize) -> (u64, u8) {
    match call.library.type_size(call.handle(datatype, Kind::Type)) {
        Some(size) => (call.count(count).saturating_mul(size), 0),
        None => (0, flags::BYTES_UNKNOWN),
    }
}

/// The transfer described by the arguments of a send: buffer, count, type, destination, tag,
/// communicator. `None` if it goes to MPI_PROC_NULL.
#[inline(always)]
fn outgoing(call: &Call, comm: Option<Held>, synchronous: bool) -> Option<Transfer> {
    let (comm, rank) = (comm?, call.int(3));
    if rank == call.library.abi.proc_null {
        return None;
    }
    let peer = comm.peer(rank);
    let (bytes, unknown) = bytes(call, 1, 2);
    let flags = unknown | self_flag(peer) | comm.flags() | synchronous_flag(synchronous);
    let tag = call.int(4);
    Some(Transfer {
        kind: kind::SEND,
        flags,
        tag,
        comm: comm.key,
        peer,
        bytes,
        request: 0,
    })
}

/// The transfer described by the arguments of a receive.
#[inline(always)]
fn incoming(call: &Call, comm: Option<Held>) -> Option<Transfer> {
    let (comm, rank) = (comm?, call.int(3));
    if rank == call.library.abi.proc_null {
        return None;
    }
    let peer = comm.peer(rank);
    let flags = self_flag(peer) | comm.flags();
    let tag = wanted_tag(call, call.int(4));
    Some(Transfer {
        kind: kind::RECEIVE,
        flags,
        tag,
        comm: comm.key,
        peer,
        bytes: 0,
        request: 0,
    })
}

/// What the request of a transfer does.
fn what(comm: Option<Held>, transfer: Option<&Transfer>) -> What {
    match (comm, transfer) {
        (Some(comm), Some(transfer)) => What::Transfer {
            comm: comm.keep(),
            transfer: transfer.clone(),
        },
        _ => What::Nothing,
    }
}

/// The record of a completed receive, from its status; `None` from MPI_PROC_NULL.
///
/// # Safety
/// `status` points to a status that the library has filled.
pub unsafe fn received(call: &Call, comm: &Comm, status: usize) -> Option<Transfer> {
    let layout = call.library.abi.status;
    // SAFETY: the caller guarantees it; the offsets are those of the family.
    let (source, tag, bytes) = unsafe {
        let source = *((status + layout.source) as *const i32);
        let tag = *((status + layout.tag) as *const i32);
        (source, tag, call.library.bytes_of(status))
    };
    if source == call.library.abi.proc_null {
        return None;
    }
    let peer = comm.peer(source);
    let unknown = if bytes.is_none() {
        flags::BYTES_UNKNOWN
    } else {
        0
    };
    Some(Transfer {
        kind: kind::RECEIVE,
        flags: unknown | self_flag(peer) | comm.flags(),
        tag,
        comm: comm.key,
        peer,
        bytes: bytes.unwrap_or(0),
        request: 0,
    })
}

/// MPI_Send and its variants.
#[inline(always)]
pub fn send(call: &mut Call, thread: &mut Thread, synchronous: bool) {
    let comm = communicator(call, thread);
    let transfer = outgoing(call, comm, synchronous);
    if let (Some(page), Some(comm), Some(transfer)) = (call.page, &comm, &transfer) {
        let writing = state::write(page);
        let want = writing.sent(call, comm, transfer);
        state::waits_for(call, &writing, &want);
    }
    call.run();
    let _ended = state::ended(call);
    let mut details = details(comm.as_deref());
    let transfer = transfer.filter(|_| !call.failed());
    details.sent = transfer.as_ref().map_or(0, |transfer| transfer.bytes);
    write_call(call, thread, details);
    if let Some(transfer) = transfer {
        transfer.write(call, thread);
    }
}

#[inline(always)]
fn communicator<'a>(call: &Call, thread: &mut Thread) -> Option<Held<'a>> {
    communicators::of(thread, call.library, call.handle(5, Kind::Comm))
}

/// MPI_Recv.
#[inline(always)]
pub fn receive(call: &mut Call, thread: &mut Thread) {
    let comm = communicators::of(thread, call.library, call.handle(5, Kind::Comm));
    call.want_status(6);
    if let (Some(page), Some(comm)) = (call.page, &comm) {
        let writing = state::write(page);
        if let Some(transfer) = incoming(call, Some(*comm)) {
            let want = state::receive(comm, transfer.peer, transfer.tag, any_source(call, 3));
            state::waits_for(call, &writing, &want);
        }
    }
    call.run();
    let ended = state::ended(call);
    let mut details = details(comm.as_deref());
    let transfer = match &comm {
        // SAFETY: the call has filled the status.
        Some(comm) if !call.failed() => unsafe { received(call, comm, call.arguments[6]) },
        _ => None,
    };
    if let (Some(writing), Some(comm), Some(transfer)) = (&ended, &comm, &transfer) {
        writing.received(comm, transfer.peer, transfer.tag);
    }
    drop(ended);
    details.received = transfer.as_ref().map_or(0, |transfer| transfer.bytes);
    write_call(call, thread, details);
    if let Some(transfer) = transfer {
        transfer.write(call, thread);
    }
}

/// Whether argument `i` is MPI_ANY_SOURCE.
pub fn any_source(call: &Call, i: usize) -> bool {
    call.int(i) == call.library.abi.any_source
}

/// MPI_Isend and its variants.
pub fn start_send(call: &mut Call, thread: &mut Thread, synchronous: bool) {
    let comm = communicator(call, thread);
    let transfer = outgoing(call, comm, synchronous);
    begins(call, comm, transfer.as_ref());
    started(call, thread, comm, transfer);
}

/// MPI_Irecv.
pub fn start_receive(call: &mut Call, thread: &mut Thread) {
    let comm = communicator(call, thread);
    let transfer = incoming(call, comm);
    begins(call, comm, transfer.as_ref());
    started(call, thread, comm, transfer);
}

/// Announces the transfer that the call's arguments describe, which is about to start.
fn begins(call: &mut Call, comm: Option<Held>, transfer: Option<&Transfer>) {
    let (Some(page), Some(comm), Some(transfer)) = (call.page, comm, transfer) else {
        return;
    };
    let writing = state::write(page);
    call.want = match transfer.kind {
        kind::SEND => writing.sent(call, &comm, transfer),
        _ => {
            let any = any_source(call, 3);
            writing.post(state::receive(&comm, transfer.peer, transfer.tag, any))
        }
    };
}

#[inline(always)]
fn started(call: &mut Call, thread: &mut Thread, comm: Option<Held>, transfer: Option<Transfer>) {
    call.run();
    let mut details = details(comm.as_deref());
    if call.failed() {
        write_call(call, thread, details);
        return;
    }
    details.request = requests::started(call, 6, what(comm, transfer.as_ref())) + 1;
    let request = details.request;
    write_call(call, thread, details);
    if let Some(transfer) = transfer {
        Transfer {
            request,
            ..transfer
        }
        .write(call, thread);
    }
}

/// MPI_Send_init and its variants.
pub fn init_send(call: &mut Call, thread: &mut Thread, synchronous: bool) {
    let comm = communicator(call, thread);
    let transfer = outgoing(call, comm, synchronous);
    made(call, thread, comm, transfer);
}

/// MPI_Recv_init.
pub fn init_receive(call: &mut Call, thread: &mut Thread) {
    let comm = communicator(call, thread);
    let transfer = incoming(call, comm);
    made(call, thread, comm, transfer);
}

fn made(call: &mut Call, thread: &mut Thread, comm: Option<Held>, transfer: Option<Transfer>) {
    // The request gets its slot or its number when it is started.
    if let (Some(_), Some(comm), Some(transfer)) = (call.page, comm, &transfer) {
        if transfer.kind == kind::RECEIVE {
            let any = any_source(call, 3);
            call.want = state::receive(&comm, transfer.peer, transfer.tag, any);
        }
    }
    call.run();
    if !call.failed() {
        requests::made(call, 6, what(comm, transfer.as_ref()));
    }
    write_call(call, thread, details(comm.as_deref()));
}

/// MPI_Start. If a function that is not followed made the request, only the call itself is known.
pub fn start(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Request);
    starts(call, handle, 0);
    call.run();
    let request = if call.failed() {
        None
    } else {
        requests::start(handle)
    };
    let mut details = Details::default();
    details.request = request.as_ref().map_or(0, |request| request.serial + 1);
    write_call(call, thread, details);
    match request {
        Some(request) => write_started(call, thread, &request.what, request.serial),
        None if !call.failed() => losses::count(thread, loss::UNKNOWN_REQUEST),
        None => {}
    }
}

/// MPI_Startall.
pub fn start_all(call: &mut Call, thread: &mut Thread) {
    if call.page.is_some() {
        for k in 0..call.int(0).max(0) as usize {
            starts(call, call.handle_of(1, k, Kind::Request), call.slot(1, k));
        }
    }
    call.run();
    write_call(call, thread, Details::default());
    if call.failed() {
        return;
    }
    for k in 0..call.int(0).max(0) as usize {
        let handle = call.handle_of(1, k, Kind::Request);
        match requests::start(handle) {
            Some(request) => write_started(call, thread, &request.what, request.serial),
            None => losses::count(thread, loss::UNKNOWN_REQUEST),
        }
    }
}

/// Announces that a persistent request is about to start.
fn starts(call: &Call, handle: usize, slot: usize) {
    let Some(page) = call.page else { return };
    let writing = state::write(page);
    if let Some(Known::Idle(want, What::Transfer { comm, transfer })) =
        requests::known(handle, slot)
    {
        let want = match transfer.kind {
            kind::SEND => writing.sent(call, &comm, &transfer),
            _ => writing.post(want),
        };
        requests::set_want(handle, want);
    }
}

fn write_started(call: &Call, thread: &mut Thread, what: &What, serial: u64) {
    if let What::Transfer { transfer, .. } = what {
        Transfer {
            request: serial + 1,
            ..transfer.clone()
        }
        .write(call, thread);
    }
}

/// MPI_Sendrecv and MPI_Sendrecv_replace. `at` holds the positions of type, destination, send tag,
/// source, receive tag, communicator and status; the count precedes the type.
pub fn send_receive(call: &mut Call, thread: &mut Thread, at: [usize; 7]) {
    let [
        datatype,
        destination,
        tag,
        source,
        receive_tag,
        comm,
        status,
    ] = at;
    let comm = communicators::of(thread, call.library, call.handle(comm, Kind::Comm));
    call.want_status(status);
    let rank = call.int(destination);
    let sent = match &comm {
        Some(comm) if rank != call.library.abi.proc_null => {
            let peer = comm.peer(rank);
            let (bytes, unknown) = bytes(call, datatype - 1, datatype);
            let flags = unknown | self_flag(peer) | comm.flags();
            let tag = call.int(tag);
            Some(Transfer {
                kind: kind::SEND,
                flags,
                tag,
                comm: comm.key,
                peer,
                bytes,
                request: 0,
            })
        }
        _ => None,
    };
    if let (Some(page), Some(comm)) = (call.page, &comm) {
        let writing = state::write(page);
        let out = sent.as_ref().map(|sent| writing.sent(call, comm, sent));
        let from = call.int(source);
        let into = (from != call.library.abi.proc_null).then(|| {
            let any = from == call.library.abi.any_source;
            let (peer, tag) = (comm.peer(from), wanted_tag(call, call.int(receive_tag)));
            state::receive(comm, peer, tag, any)
        });
        let wants = out.into_iter().chain(into).map(Some);
        let _ = writing.waits(call.entry.number, mode::ALL, wants);
    }
    call.run();
    let ended = state::ended(call);
    let mut details = details(comm.as_deref());
    if call.failed() {
        write_call(call, thread, details);
        return;
    }
    // SAFETY: the call has filled the status.
    let got = comm
        .as_ref()
        .and_then(|comm| unsafe { received(call, comm, call.arguments[status]) });
    if let (Some(writing), Some(comm), Some(got)) = (&ended, &comm, &got) {
        writing.received(comm, got.peer, got.tag);
    }
    drop(ended);
    details.sent = sent.as_ref().map_or(0, |transfer| transfer.bytes);
    details.received = got.as_ref().map_or(0, |transfer| transfer.bytes);
    write_call(call, thread, details);
    for transfer in sent.iter().chain(&got) {
        transfer.write(call, thread);
    }
}

//! The library that is preloaded into MPI programs and records their calls.
//!
//! Compiled by the build script of `idlewave-interpose`, with the standard library only and without
//! `mpi.h`. Each wrapped function exists in C, in Fortran's `mpif.h` and `use mpi`, and twice in
//! `mpi_f08`; all of them come together in [`enter`]. The library calls the functions of MPI by
//! their profiling names (MPI 3.1, chapter 14).
//!
//! It must not disturb the program: it prints no message, creates no file except the rings and the
//! state page, and never exits. Calls that it cannot record are passed through.

#[path = "../../mpi/src/abi.rs"]
#[allow(dead_code)]
mod abi;
mod bell;
mod call;
mod clock;
mod collective;
mod communicators;
mod complete;
mod files;
mod library;
mod life;
mod losses;
mod marks;
mod narrow;
mod nodes;
#[path = "../src/state.rs"]
#[allow(dead_code)]
mod page;
mod point_to_point;
mod probe;
mod requests;
#[path = "../src/ring.rs"]
#[allow(dead_code)]
mod ring;
mod state;
mod state_pairs;
mod state_write;
mod sys;
#[path = "../src/table.rs"]
#[allow(dead_code)]
mod table;
mod thread;
mod world;

use call::{Call, Entry, Form};
use table::{How, Shape};
use thread::Thread;

/// Wrapped functions, generated from the table.
#[allow(non_snake_case)]
mod wrappers {
    use super::{Entry, Form, How, Shape, enter};
    include!(env!("IDLEWAVE_WRAPPERS"));
}

/// What a wrapper returns if the library does not have its function.
const NO_SUCH_FUNCTION: i32 = 15;

/// The common entry point of all wrapped functions.
///
/// # Safety
/// `arguments` are those of a call of the entry's function.
#[inline(never)]
unsafe fn enter(entry: &'static Entry, arguments: &mut [usize]) -> i32 {
    let Some(real) = entry.real() else {
        return NO_SUCH_FUNCTION;
    };
    // SAFETY: the state of the calling thread; `depth` keeps nested calls away from it.
    let thread = unsafe { &mut *thread::current() };
    if thread.depth != 0 {
        // SAFETY: the program's own call.
        return unsafe { pass(entry, real, arguments) };
    }
    thread.depth = 1;
    let page = state::page(std::ptr::from_ref(&*thread) as usize);
    let code = match library::library() {
        Some(library)
            if !files::forked() && (thread.records() || page.is_some() || takes_part(entry)) =>
        {
            let mut call = Call {
                entry,
                library,
                real,
                arguments,
                begin: 0,
                end: 0,
                code: 0,
                status: [0; call::STATUS_WORDS],
                kept: None,
                page,
                want: state::Want::default(),
            };
            follow(&mut call, thread);
            if let Some(page) = page.filter(|_| call.failed()) {
                state::give_up(page, page::unknown::FAILED);
            }
            call.code
        }
        // SAFETY: as above.
        _ => unsafe { pass(entry, real, arguments) },
    };
    thread.depth = 0;
    code
}

/// Whether a call is followed even without a ring: the other ranks compare clocks in it and would
/// wait forever.
#[cold]
fn takes_part(entry: &Entry) -> bool {
    matches!(entry.how, How::Init | How::InitThread | How::Finalize) && nodes::wanted()
}

/// Passes a call through unrecorded.
///
/// # Safety
/// As for [`enter`]; `real` is the function that the entry names.
#[inline(always)]
unsafe fn pass(entry: &'static Entry, real: usize, arguments: &[usize]) -> i32 {
    if entry.narrow() {
        if let Some(library) = library::library() {
            // SAFETY: the caller guarantees it.
            let (code, kept) = unsafe { narrow::invoke(entry, library, real, arguments) };
            if matches!(entry.how, How::StartCollective(_)) {
                // Leak them: nothing tells when the library no longer needs them.
                std::mem::forget(kept);
            }
            return code;
        }
    }
    // SAFETY: the caller guarantees it.
    unsafe { library::invoke(real, arguments) }
}

#[inline(always)]
fn follow(call: &mut Call, thread: &mut Thread) {
    match call.entry.how {
        How::Send(synchronous) => point_to_point::send(call, thread, synchronous),
        How::StartSend(synchronous) => point_to_point::start_send(call, thread, synchronous),
        How::InitSend(synchronous) => point_to_point::init_send(call, thread, synchronous),
        How::Receive => point_to_point::receive(call, thread),
        How::StartReceive => point_to_point::start_receive(call, thread),
        How::InitReceive => point_to_point::init_receive(call, thread),
        How::SendReceive => point_to_point::send_receive(call, thread, [2, 3, 4, 8, 9, 10, 11]),
        How::SendReceiveReplace => {
            point_to_point::send_receive(call, thread, [2, 3, 4, 5, 6, 7, 8])
        }
        How::Probe => probe::probe(call, thread),
        How::Iprobe => probe::iprobe(call, thread),
        How::Mprobe => probe::mprobe(call, thread, false),
        How::Improbe => probe::mprobe(call, thread, true),
        How::Mreceive => probe::mreceive(call, thread),
        How::StartMreceive => probe::start_mreceive(call, thread),
        How::Start => point_to_point::start(call, thread),
        How::Startall => point_to_point::start_all(call, thread),
        How::Wait => complete::wait(call, thread),
        How::Test => complete::test(call, thread),
        How::Waitall => complete::wait_all(call, thread),
        How::Testall => complete::test_all(call, thread),
        How::Waitany => complete::wait_any(call, thread, None),
        How::Testany => complete::wait_any(call, thread, Some(3)),
        How::Waitsome => complete::wait_some(call, thread, false),
        How::Testsome => complete::wait_some(call, thread, true),
        How::GetStatus => complete::get_status(call, thread),
        How::Cancel => complete::cancel(call, thread),
        How::RequestFree => complete::free(call, thread),
        How::Collective(shape) => collective::collective(call, thread, shape),
        How::StartCollective(shape) => collective::start(call, thread, shape),
        How::Make(new) => communicators::make(call, thread, usize::from(new)),
        How::StartMake(new) => communicators::start_make(call, thread, usize::from(new)),
        How::MakeGroup => communicators::make_group(call, thread),
        How::MakeInter => communicators::make_inter(call, thread),
        How::Free => communicators::free(call, thread),
        How::Outside => life::outside(call, thread),
        How::Loss => life::lost(call, thread),
        How::Init => life::init(call, thread, false),
        How::InitThread => life::init(call, thread, true),
        How::Finalize => life::finalize(call, thread),
        How::Abort => life::abort(call, thread),
    }
}

/// Writes the record of a call.
#[inline(always)]
fn write_call(call: &Call, thread: &mut Thread, more: Details) -> bool {
    let flags = more.flags | call.failure();
    let word =
        u64::from(ring::kind::CALL) | u64::from(flags) << 8 | u64::from(call.entry.number) << 16;
    let sequence = u64::from(more.sequence) | u64::from(more.root) << 32;
    thread.write(&[
        call.begin,
        call.end,
        word,
        more.comm,
        sequence,
        more.sent,
        more.received,
        more.request,
    ])
}

/// What the record of a call holds besides function and times; see [`ring::kind`].
#[derive(Default)]
struct Details {
    flags: u8,
    comm: u64,
    sequence: u32,
    root: u32,
    sent: u64,
    received: u64,
    request: u64,
}

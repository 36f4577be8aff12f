//! Start and end of MPI, and functions that are not followed.

use crate::call::{Call, Form};
use crate::library::call as mpi;
use crate::page::{phase, unknown};
use crate::ring::{life, loss};
use crate::thread::Thread;
use crate::{Details, clock, communicators, files, losses, nodes, state, world, write_call};

/// MPI_Init and MPI_Init_thread.
pub fn init(call: &mut Call, thread: &mut Thread, with_level: bool) {
    call.run();
    let library = call.library;
    let world = if call.failed() {
        None
    } else {
        world::find(library)
    };
    if let Some(world) = world {
        let mut level = -1_i32;
        if with_level {
            level = call.out(if call.entry.form == Form::C { 3 } else { 1 });
        } else {
            // SAFETY: writes one int.
            let _ = unsafe { mpi(library.query_thread, [(&raw mut level) as usize]) };
        }
        let abi = library.abi;
        let levels = [
            abi.thread_single,
            abi.thread_funneled,
            abi.thread_serialized,
            abi.thread_multiple,
        ];
        let level = levels.iter().position(|&value| value == level);
        let level = level.map(|level| level as u32);
        files::initialised(world.rank, world.size, level, &library.version());
        state::initialised(world.rank, world.size, level);
    }
    write_call(call, thread, Details::default());
    if world.is_some() {
        // The first communicator of every process: its number is the same on all ranks.
        communicators::of(thread, library, library.comm_world);
        nodes::begin(thread, library);
    }
}

/// MPI_Finalize.
pub fn finalize(call: &mut Call, thread: &mut Thread) {
    nodes::end(thread, call.library);
    thread.flush();
    files::alive(life::FINALISING);
    state::enter_phase(phase::FINALISING);
    call.run();
    state::enter_phase(phase::FINALISED);
    write_call(call, thread, Details::default());
    files::alive(life::FINALISED);
}

/// MPI_Abort does not return: its record is written before it is called.
pub fn abort(call: &mut Call, thread: &mut Thread) {
    call.begin = clock::now();
    call.end = call.begin;
    write_call(call, thread, Details::default());
    thread.flush();
    files::alive(life::ABORTED);
    state::enter_phase(phase::ABORTED);
    call.run();
}

/// Functions that involve processes outside MPI_COMM_WORLD.
pub fn outside(call: &mut Call, thread: &mut Thread) {
    losses::count(thread, loss::OUTSIDE_WORLD);
    state::give_up_any(unknown::OUTSIDE);
    call.run();
    write_call(call, thread, Details::default());
}

/// Functions that are not followed.
pub fn lost(call: &mut Call, thread: &mut Thread) {
    losses::not_followed(thread, call.entry.number);
    if let Some(page) = call.page {
        // The program does more than poll, so its wait is over.
        drop(state::write(page));
        let name = call.entry.name().to_bytes().to_ascii_lowercase();
        if name.starts_with(b"pmpi_isendrecv") {
            state::give_up(page, unknown::UNCOUNTED);
        }
    }
    call.run();
}

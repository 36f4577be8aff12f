//! What is known about MPI_COMM_WORLD once MPI is initialised.

use crate::library::{Library, call};
use std::sync::OnceLock;

/// MPI_COMM_WORLD as this process sees it.
pub struct World {
    pub rank: u32,
    pub size: u32,
    /// Its group, used to translate ranks.
    pub group: usize,
}

static WORLD: OnceLock<World> = OnceLock::new();

/// `None` until MPI_Init or MPI_Init_thread has returned.
#[inline(always)]
pub fn world() -> Option<&'static World> {
    WORLD.get()
}

/// Looks up MPI_COMM_WORLD after MPI_Init.
pub fn find(library: &Library) -> Option<&'static World> {
    if let Some(world) = WORLD.get() {
        return Some(world);
    }
    let (mut rank, mut size, mut group) = (0_i32, 0_i32, 0_usize);
    // SAFETY: MPI is initialised; each call writes one int, or one handle of at most a word.
    unsafe {
        call(
            library.comm_rank,
            [library.comm_world, (&raw mut rank) as usize],
        )?;
        call(
            library.comm_size,
            [library.comm_world, (&raw mut size) as usize],
        )?;
        call(
            library.comm_group,
            [library.comm_world, (&raw mut group) as usize],
        )?;
        group = library.handle_at((&raw const group) as usize);
    }
    let world = World {
        rank: u32::try_from(rank).ok()?,
        size: u32::try_from(size).ok()?,
        group,
    };
    Some(WORLD.get_or_init(|| world))
}

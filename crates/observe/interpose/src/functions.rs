//! The functions by their numbers in the records of calls.

/// One MPI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in C: `MPI_Send`, `MPI_Send_c`.
    pub name: &'static str,
    /// What it does: the numbers of `idlewave_run::tables::OperationClass`.
    pub class: u8,
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// All functions that are wrapped; the index is the number in CALL, POLLS and LOSS records of a
/// ring that the library of the same build has written.
pub fn functions() -> &'static [Function] {
    &FUNCTIONS
}

//! Foreign traces as runs.
//!
//! [`kernel`] reads traces of the kernel. The run that comes out is like one of
//! `idlewave record -- COMMAND` of a program that does not use MPI.

pub mod kernel;
pub mod paraver;
pub mod perfetto;

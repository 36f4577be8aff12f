//! MPI without `mpi.h`: the binary interfaces of the libraries as data ([`abi`]).

pub mod abi;
#[doc(hidden)]
pub mod testing;

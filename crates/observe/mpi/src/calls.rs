//! The functions of an MPI library, as typed function pointers.
//!
//! Handles are passed as `usize` whatever their type: in the calling conventions of x86-64 and
//! AArch64 a C `int` is the lower half of the register that a pointer would fill.

use crate::{Library, MpiError};
use std::ffi::{CStr, c_char, c_int, c_void};

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("handles and their places in memory are exchanged as 64-bit little-endian words");

/// A predefined or opaque handle, as an argument.
pub type RawHandle = usize;

/// Storage for a handle of either size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slot(pub RawHandle);

/// Storage for a status of any family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct RawStatus(pub [u8; crate::abi::StatusLayout::MAX_SIZE]);

impl RawStatus {
    /// The `int` at an offset of the status layout.
    pub fn int(&self, offset: usize) -> c_int {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[offset..offset + 4]);
        c_int::from_ne_bytes(bytes)
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $field:ident $name:literal ($($arg:ty),*);)*) => {
        /// Functions of MPI-3; all return an error code.
        #[derive(Clone, Copy, Debug)]
        pub struct Calls {
            $($(#[$doc])* #[doc = concat!("`", $name, "`.")]
            pub $field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl Calls {
            /// Looks up all functions.
            ///
            /// # Errors
            /// The library lacks a function.
            pub fn of(library: &Library) -> Result<Self, MpiError> {
                Ok(Self {$(
                    $field: {
                        let address = look_up(library, $name)?;
                        // SAFETY: the address is that of the function of this name, whose signature
                        // the MPI standard fixes; for handles, see the module.
                        unsafe {
                            std::mem::transmute::<usize, unsafe extern "C" fn($($arg),*) -> c_int>(address)
                        }
                    },
                )*})
            }
        }
    };
}

fn look_up(library: &Library, name: &str) -> Result<usize, MpiError> {
    let mut terminated = name.as_bytes().to_vec();
    terminated.push(0);
    let found = CStr::from_bytes_with_nul(&terminated).ok();
    let found = found.and_then(|name| library.address(name));
    found.ok_or_else(|| MpiError::NoFunction {
        library: library.describe(),
        function: name.to_owned(),
    })
}

type Data = *const c_void;
type DataMut = *mut c_void;
type Count = c_int;
/// Counts or displacements, one per rank.
type Counts = *const c_int;

calls! {
    init "MPI_Init" (*mut c_int, *mut *mut *mut c_char);
    init_thread "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized "MPI_Initialized" (*mut c_int);
    finalize "MPI_Finalize" ();
    finalized "MPI_Finalized" (*mut c_int);
    abort "MPI_Abort" (RawHandle, c_int);
    query_thread "MPI_Query_thread" (*mut c_int);
    error_string "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    error_class "MPI_Error_class" (c_int, *mut c_int);
    get_processor_name "MPI_Get_processor_name" (*mut c_char, *mut c_int);
    comm_rank "MPI_Comm_rank" (RawHandle, *mut c_int);
    comm_size "MPI_Comm_size" (RawHandle, *mut c_int);
    comm_dup "MPI_Comm_dup" (RawHandle, *mut Slot);
    comm_split "MPI_Comm_split" (RawHandle, c_int, c_int, *mut Slot);
    comm_split_type "MPI_Comm_split_type" (RawHandle, c_int, c_int, RawHandle, *mut Slot);
    comm_free "MPI_Comm_free" (*mut Slot);
    comm_set_errhandler "MPI_Comm_set_errhandler" (RawHandle, RawHandle);
    isend "MPI_Isend" (Data, Count, RawHandle, c_int, c_int, RawHandle, *mut Slot);
    irecv "MPI_Irecv" (DataMut, Count, RawHandle, c_int, c_int, RawHandle, *mut Slot);
    test "MPI_Test" (*mut Slot, *mut c_int, *mut RawStatus);
    wait "MPI_Wait" (*mut Slot, *mut RawStatus);
    get_count "MPI_Get_count" (*const RawStatus, RawHandle, *mut Count);
    barrier "MPI_Barrier" (RawHandle);
    allreduce "MPI_Allreduce" (Data, DataMut, Count, RawHandle, RawHandle, RawHandle);
    reduce "MPI_Reduce" (Data, DataMut, Count, RawHandle, RawHandle, c_int, RawHandle);
    bcast "MPI_Bcast" (DataMut, Count, RawHandle, c_int, RawHandle);
    alltoall "MPI_Alltoall" (Data, Count, RawHandle, DataMut, Count, RawHandle, RawHandle);
    alltoallv "MPI_Alltoallv" (Data, Counts, Counts, RawHandle, DataMut, Counts, Counts, RawHandle, RawHandle);
    allgather "MPI_Allgather" (Data, Count, RawHandle, DataMut, Count, RawHandle, RawHandle);
    ibarrier "MPI_Ibarrier" (RawHandle, *mut Slot);
    iallreduce "MPI_Iallreduce" (Data, DataMut, Count, RawHandle, RawHandle, RawHandle, *mut Slot);
    ireduce "MPI_Ireduce" (Data, DataMut, Count, RawHandle, RawHandle, c_int, RawHandle, *mut Slot);
    ibcast "MPI_Ibcast" (DataMut, Count, RawHandle, c_int, RawHandle, *mut Slot);
    ialltoall "MPI_Ialltoall" (Data, Count, RawHandle, DataMut, Count, RawHandle, RawHandle, *mut Slot);
    ialltoallv "MPI_Ialltoallv" (Data, Counts, Counts, RawHandle, DataMut, Counts, Counts, RawHandle, RawHandle, *mut Slot);
    iallgather "MPI_Iallgather" (Data, Count, RawHandle, DataMut, Count, RawHandle, RawHandle, *mut Slot);
}

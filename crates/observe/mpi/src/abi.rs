//! The binary interfaces of MPI libraries as data: what `mpi.h` would have said.
//!
//! Three families cover what is in use. Open MPI's handles are addresses of objects that the
//! library exports; those of the MPICH family (MPICH, Intel MPI, Cray MPICH, MVAPICH) are C `int`s;
//! those of the standard ABI (MPI 5.0, chapter 20) are small numbers in pointers. [`Abi`] has one
//! table for each. A test compares every constant with the header of each installed library.
//!
//! This file uses only `std` and no path of its crate: the preloaded library compiles it too.

use std::ffi::CStr;

/// Libraries with the same binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Open MPI 4 and 5, `libmpi.so.40`.
    OpenMpi,
    /// MPICH since 3.1 and the libraries that share its interface, `libmpi.so.12`, Debian
    /// `libmpich.so.12`.
    Mpich,
    /// The standard ABI of MPI 5.0, `libmpi_abi.so.1`, of any implementation.
    Standard,
}

impl Family {
    /// Recognises the family of an opened library. `soname` is the file name under which it was
    /// found; `has` tells whether it, or a library that it needs, exports a symbol. `None` if it is
    /// not an MPI library, or one of an unknown family.
    pub fn recognise(soname: Option<&str>, has: impl Fn(&CStr) -> bool) -> Option<Self> {
        if !has(c"MPI_Init") {
            return None;
        }
        // The name comes first: a library of the standard ABI may be a layer over another one,
        // whose symbols are then found too.
        if soname.and_then(Self::of_soname) == Some(Self::Standard) {
            return Some(Self::Standard);
        }
        if has(c"ompi_mpi_comm_world") {
            return Some(Self::OpenMpi);
        }
        // An object of the MPICH interface that the standard ABI replaced by a number.
        if has(c"MPI_UNWEIGHTED") || has(c"MPIR_Dup_fn") {
            return Some(Self::Mpich);
        }
        has(c"MPI_Abi_get_version").then_some(Self::Standard)
    }

    /// The family that a soname names, if known.
    pub fn of_soname(soname: &str) -> Option<Self> {
        let (stem, version) = soname.split_once(".so")?;
        match (stem, version) {
            ("libmpi_abi", _) => Some(Self::Standard),
            ("libmpich", _) | ("libmpi", ".12") => Some(Self::Mpich),
            ("libmpi", ".40") => Some(Self::OpenMpi),
            _ => None,
        }
    }

    /// Its table.
    pub const fn abi(self) -> &'static Abi {
        match self {
            Self::OpenMpi => &OPEN_MPI,
            Self::Mpich => &MPICH,
            Self::Standard => &STANDARD,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "the MPICH family",
            Self::Standard => "the standard ABI of MPI 5",
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A handle as the program passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// The address of this object of the library.
    Symbol(&'static CStr),
    /// A number: sign-extended where handles are C `int`s, zero-extended where they are pointers.
    Number(isize),
}

impl Handle {
    /// The value to pass as an argument; `address_of` looks up an object of the library. `None` if
    /// the library has no such object.
    pub fn resolve(self, address_of: impl Fn(&CStr) -> Option<usize>) -> Option<usize> {
        match self {
            Self::Symbol(name) => address_of(name),
            Self::Number(value) => Some(value as usize),
        }
    }
}

/// Where a status holds the length of the message, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLength {
    /// A `size_t` at this offset (Open MPI).
    Whole(usize),
    /// The low 32 bits at the first offset; the next 31 at the second, above the cancelled bit
    /// (MPICH).
    Split(usize, usize),
    /// The layout is the implementation's own: ask `MPI_Get_count` (standard ABI).
    Opaque,
}

/// Layout of `MPI_Status`. All offsets are in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLayout {
    /// `sizeof(MPI_Status)`.
    pub size: usize,
    /// Offset of the `int` `MPI_SOURCE`.
    pub source: usize,
    /// Offset of the `int` `MPI_TAG`.
    pub tag: usize,
    /// Offset of the `int` `MPI_ERROR`.
    pub error: usize,
    /// Where the length is.
    pub length: StatusLength,
}

impl StatusLayout {
    /// Size of the largest status of all families, bytes; statuses are aligned to 8 bytes.
    pub const MAX_SIZE: usize = 32;
}

/// A constant of one table, for comparison with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// An `int`.
    Int(i32),
    /// A special address, such as `MPI_IN_PLACE`.
    Address(isize),
    /// A predefined handle.
    Handle(Handle),
}

/// One row per constant: field, name in MPI, and the value in Open MPI, in MPICH and in the
/// standard ABI.
macro_rules! tables {
    (
        ints { $($int:ident $int_name:ident: $int_ompi:expr, $int_mpich:expr, $int_std:expr;)* }
        addresses { $($addr:ident $addr_name:ident: $addr_ompi:expr, $addr_mpich:expr, $addr_std:expr;)* }
        handles { $($handle:ident $handle_name:ident: $handle_ompi:literal, $handle_mpich:expr, $handle_std:expr;)* }
    ) => {
        /// The constants and layouts of one family.
        #[derive(Clone, Copy, Debug)]
        pub struct Abi {
            /// The family.
            pub family: Family,
            /// Size of a handle in memory, bytes: 4 (a C `int`) or that of a pointer.
            pub handle_size: usize,
            /// Layout of a status.
            pub status: StatusLayout,
            $(#[doc = concat!("`", stringify!($int_name), "`.")] pub $int: i32,)*
            $(#[doc = concat!("`", stringify!($addr_name), "`.")] pub $addr: isize,)*
            $(#[doc = concat!("`", stringify!($handle_name), "`.")] pub $handle: Handle,)*
        }

        /// Open MPI 4 and 5.
        pub static OPEN_MPI: Abi = Abi {
            family: Family::OpenMpi,
            handle_size: size_of::<usize>(),
            status: StatusLayout { size: 24, source: 0, tag: 4, error: 8, length: StatusLength::Whole(16) },
            $($int: $int_ompi,)* $($addr: $addr_ompi,)* $($handle: Handle::Symbol($handle_ompi),)*
        };

        /// MPICH 4 and 5 and their relatives.
        pub static MPICH: Abi = Abi {
            family: Family::Mpich,
            handle_size: size_of::<std::ffi::c_int>(),
            status: StatusLayout { size: 20, source: 8, tag: 12, error: 16, length: StatusLength::Split(0, 4) },
            $($int: $int_mpich,)* $($addr: $addr_mpich,)*
            $($handle: Handle::Number(sign_extended($handle_mpich)),)*
        };

        /// The standard ABI, version 1.0.
        pub static STANDARD: Abi = Abi {
            family: Family::Standard,
            handle_size: size_of::<usize>(),
            status: StatusLayout { size: 32, source: 0, tag: 4, error: 8, length: StatusLength::Opaque },
            $($int: $int_std,)* $($addr: $addr_std,)* $($handle: Handle::Number($handle_std),)*
        };

        impl Abi {
            /// Every constant with its name in MPI.
            pub fn constants(&self) -> Vec<(&'static str, Constant)> {
                vec![
                    $((stringify!($int_name), Constant::Int(self.$int)),)*
                    $((stringify!($addr_name), Constant::Address(self.$addr)),)*
                    $((stringify!($handle_name), Constant::Handle(self.$handle)),)*
                ]
            }
        }
    };
}

const fn sign_extended(handle: u32) -> isize {
    handle as i32 as isize
}

tables! {
    ints {
        any_source MPI_ANY_SOURCE: -1, -2, -1;
        any_tag MPI_ANY_TAG: -1, -1, -2;
        proc_null MPI_PROC_NULL: -2, -1, -3;
        root MPI_ROOT: -4, -3, -4;
        undefined MPI_UNDEFINED: -32766, -32766, -32766;
        keyval_invalid MPI_KEYVAL_INVALID: -1, 603979776, 0;
        tag_ub MPI_TAG_UB: 0, 1681915905, 501;
        comm_type_shared MPI_COMM_TYPE_SHARED: 0, 1, 221;
        thread_single MPI_THREAD_SINGLE: 0, 0, 0;
        thread_funneled MPI_THREAD_FUNNELED: 1, 1, 1024;
        thread_serialized MPI_THREAD_SERIALIZED: 2, 2, 2048;
        thread_multiple MPI_THREAD_MULTIPLE: 3, 3, 4096;
        ident MPI_IDENT: 0, 0, 201;
        congruent MPI_CONGRUENT: 1, 1, 202;
        success MPI_SUCCESS: 0, 0, 0;
        err_comm MPI_ERR_COMM: 5, 5, 5;
        err_rank MPI_ERR_RANK: 6, 6, 6;
        err_request MPI_ERR_REQUEST: 7, 19, 7;
        err_truncate MPI_ERR_TRUNCATE: 15, 14, 15;
        err_other MPI_ERR_OTHER: 16, 15, 16;
        err_in_status MPI_ERR_IN_STATUS: 18, 17, 19;
        err_pending MPI_ERR_PENDING: 19, 18, 18;
        max_error_string MPI_MAX_ERROR_STRING: 256, 512, 512;
        max_library_version_string MPI_MAX_LIBRARY_VERSION_STRING: 256, 8192, 8192;
        max_processor_name MPI_MAX_PROCESSOR_NAME: 256, 128, 256;
        max_object_name MPI_MAX_OBJECT_NAME: 64, 128, 128;
    }
    addresses {
        bottom MPI_BOTTOM: 0, 0, 0;
        in_place MPI_IN_PLACE: 1, -1, 1;
        status_ignore MPI_STATUS_IGNORE: 0, 1, 0;
        statuses_ignore MPI_STATUSES_IGNORE: 0, 1, 0;
    }
    handles {
        comm_null MPI_COMM_NULL: c"ompi_mpi_comm_null", 0x04000000, 0x100;
        comm_world MPI_COMM_WORLD: c"ompi_mpi_comm_world", 0x44000000, 0x101;
        comm_self MPI_COMM_SELF: c"ompi_mpi_comm_self", 0x44000001, 0x102;
        group_null MPI_GROUP_NULL: c"ompi_mpi_group_null", 0x08000000, 0x108;
        group_empty MPI_GROUP_EMPTY: c"ompi_mpi_group_empty", 0x48000000, 0x109;
        request_null MPI_REQUEST_NULL: c"ompi_request_null", 0x2c000000, 0x180;
        message_null MPI_MESSAGE_NULL: c"ompi_message_null", 0x2c000000, 0x128;
        message_no_proc MPI_MESSAGE_NO_PROC: c"ompi_message_no_proc", 0x6c000000, 0x129;
        info_null MPI_INFO_NULL: c"ompi_mpi_info_null", 0x1c000000, 0x130;
        win_null MPI_WIN_NULL: c"ompi_mpi_win_null", 0x20000000, 0x110;
        errhandler_null MPI_ERRHANDLER_NULL: c"ompi_mpi_errhandler_null", 0x14000000, 0x140;
        errors_are_fatal MPI_ERRORS_ARE_FATAL: c"ompi_mpi_errors_are_fatal", 0x54000000, 0x141;
        errors_return MPI_ERRORS_RETURN: c"ompi_mpi_errors_return", 0x54000001, 0x143;
        datatype_null MPI_DATATYPE_NULL: c"ompi_mpi_datatype_null", 0x0c000000, 0x200;
        byte MPI_BYTE: c"ompi_mpi_byte", 0x4c00010d, 0x247;
        packed MPI_PACKED: c"ompi_mpi_packed", 0x4c00010f, 0x207;
        char MPI_CHAR: c"ompi_mpi_char", 0x4c000101, 0x243;
        signed_char MPI_SIGNED_CHAR: c"ompi_mpi_signed_char", 0x4c000118, 0x244;
        unsigned_char MPI_UNSIGNED_CHAR: c"ompi_mpi_unsigned_char", 0x4c000102, 0x245;
        short MPI_SHORT: c"ompi_mpi_short", 0x4c000203, 0x208;
        unsigned_short MPI_UNSIGNED_SHORT: c"ompi_mpi_unsigned_short", 0x4c000204, 0x20c;
        int MPI_INT: c"ompi_mpi_int", 0x4c000405, 0x209;
        unsigned MPI_UNSIGNED: c"ompi_mpi_unsigned", 0x4c000406, 0x20d;
        long MPI_LONG: c"ompi_mpi_long", 0x4c000807, 0x20a;
        unsigned_long MPI_UNSIGNED_LONG: c"ompi_mpi_unsigned_long", 0x4c000808, 0x20e;
        long_long MPI_LONG_LONG: c"ompi_mpi_long_long_int", 0x4c000809, 0x20b;
        unsigned_long_long MPI_UNSIGNED_LONG_LONG: c"ompi_mpi_unsigned_long_long", 0x4c000819, 0x20f;
        float MPI_FLOAT: c"ompi_mpi_float", 0x4c00040a, 0x210;
        double MPI_DOUBLE: c"ompi_mpi_double", 0x4c00080b, 0x214;
        long_double MPI_LONG_DOUBLE: c"ompi_mpi_long_double", 0x4c00100c, 0x220;
        int8_t MPI_INT8_T: c"ompi_mpi_int8_t", 0x4c000137, 0x240;
        uint8_t MPI_UINT8_T: c"ompi_mpi_uint8_t", 0x4c00013b, 0x241;
        int16_t MPI_INT16_T: c"ompi_mpi_int16_t", 0x4c000238, 0x248;
        uint16_t MPI_UINT16_T: c"ompi_mpi_uint16_t", 0x4c00023c, 0x249;
        int32_t MPI_INT32_T: c"ompi_mpi_int32_t", 0x4c000439, 0x250;
        uint32_t MPI_UINT32_T: c"ompi_mpi_uint32_t", 0x4c00043d, 0x251;
        int64_t MPI_INT64_T: c"ompi_mpi_int64_t", 0x4c00083a, 0x258;
        uint64_t MPI_UINT64_T: c"ompi_mpi_uint64_t", 0x4c00083e, 0x259;
        double_int MPI_DOUBLE_INT: c"ompi_mpi_double_int", 0x8c000001, 0x229;
        two_int MPI_2INT: c"ompi_mpi_2int", 0x4c000816, 0x22b;
        op_null MPI_OP_NULL: c"ompi_mpi_op_null", 0x18000000, 0x20;
        sum MPI_SUM: c"ompi_mpi_op_sum", 0x58000003, 0x21;
        min MPI_MIN: c"ompi_mpi_op_min", 0x58000002, 0x22;
        max MPI_MAX: c"ompi_mpi_op_max", 0x58000001, 0x23;
        prod MPI_PROD: c"ompi_mpi_op_prod", 0x58000004, 0x24;
        land MPI_LAND: c"ompi_mpi_op_land", 0x58000005, 0x30;
        band MPI_BAND: c"ompi_mpi_op_band", 0x58000006, 0x28;
        lor MPI_LOR: c"ompi_mpi_op_lor", 0x58000007, 0x31;
        bor MPI_BOR: c"ompi_mpi_op_bor", 0x58000008, 0x29;
        lxor MPI_LXOR: c"ompi_mpi_op_lxor", 0x58000009, 0x32;
        bxor MPI_BXOR: c"ompi_mpi_op_bxor", 0x5800000a, 0x2a;
        minloc MPI_MINLOC: c"ompi_mpi_op_minloc", 0x5800000b, 0x38;
        maxloc MPI_MAXLOC: c"ompi_mpi_op_maxloc", 0x5800000c, 0x39;
    }
}

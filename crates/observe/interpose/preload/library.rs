//! The MPI library of the program, found when the first function is called.

use crate::abi::{Abi, Family, Handle, StatusLength};
use crate::sys;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The library and the functions that the recorder itself calls.
pub struct Library {
    pub abi: &'static Abi,
    pub comm_world: usize,
    pub comm_null: usize,
    pub request_null: usize,
    pub message_no_proc: usize,
    byte: usize,
    /// Addresses that mean MPI_IN_PLACE in Fortran.
    in_place: Special,
    /// Addresses that mean MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE in Fortran.
    status_ignore: Special,
    pub comm_rank: usize,
    pub comm_size: usize,
    pub comm_remote_size: usize,
    pub comm_test_inter: usize,
    pub comm_group: usize,
    pub comm_remote_group: usize,
    pub group_free: usize,
    pub group_size: usize,
    pub group_translate_ranks: usize,
    pub comm_dup: usize,
    pub comm_free: usize,
    pub comm_split_type: usize,
    pub comm_split: usize,
    pub allgather: usize,
    pub send: usize,
    pub recv: usize,
    pub type_size: usize,
    pub get_elements: usize,
    pub test_cancelled: usize,
    pub get_library_version: usize,
    pub query_thread: usize,
    pub topo_test: usize,
    pub cartdim_get: usize,
    pub cart_shift: usize,
    pub graph_neighbors_count: usize,
    pub dist_graph_neighbors_count: usize,
    comm_f2c: usize,
    type_f2c: usize,
    request_f2c: usize,
    message_f2c: usize,
}

/// Special addresses of Fortran: objects of the library, or what its pointers point to.
#[derive(Default)]
struct Special {
    objects: Vec<usize>,
    pointers: Vec<usize>,
}

impl Special {
    fn find(objects: &[&CStr], pointers: &[&CStr]) -> Self {
        let all = |names: &[&CStr]| names.iter().filter_map(|name| object(name)).collect();
        Self {
            objects: all(objects),
            pointers: all(pointers),
        }
    }

    fn is(&self, address: usize) -> bool {
        self.objects.contains(&address)
            // SAFETY: the library's variables live as long as the library; it sets them once, in
            // MPI_Init.
            || self.pointers.iter().any(|&at| unsafe { *(at as *const usize) } == address)
    }
}

/// A kind of handle, for its conversion from Fortran.
#[derive(Clone, Copy)]
pub enum Kind {
    Comm,
    Type,
    Request,
    Message,
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// Names under which a library may have been opened with RTLD_LOCAL, as mpi4py does.
const NAMES: [&CStr; 9] = [
    c"libmpi.so.40",
    c"libmpi.so.12",
    c"libmpich.so.12",
    c"libmpi_abi.so.1",
    c"libmpi.so.0",
    c"libmpi_usempif08.so.40",
    c"libmpi_mpifh.so.40",
    c"libmpifort.so.12",
    c"libmpichfort.so.12",
];

/// The library; `None` if it belongs to none of the known families.
pub fn library() -> Option<&'static Library> {
    LIBRARY.get_or_init(open).as_ref()
}

/// The address of an object of the library as the program sees it: a program linked without PIC
/// has its own copy, which the library then uses as well (copy relocation).
pub fn object(name: &CStr) -> Option<usize> {
    // SAFETY: looks up a name.
    let address = unsafe { sys::dlsym(sys::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return symbol_anywhere(name);
    }
    Some(address as usize)
}

/// The address of the library's function, which ours shadows.
pub fn symbol_anywhere(name: &CStr) -> Option<usize> {
    // SAFETY: looks up a name. The library opened here is loaded already, so no code runs.
    unsafe {
        let address = sys::dlsym(sys::RTLD_NEXT, name.as_ptr());
        if !address.is_null() {
            return Some(address as usize);
        }
        NAMES.iter().find_map(|library| {
            let handle = sys::dlopen(library.as_ptr(), sys::RTLD_LAZY | sys::RTLD_NOLOAD);
            if handle.is_null() {
                return None;
            }
            let address = sys::dlsym(handle, name.as_ptr());
            (!address.is_null()).then_some(address as usize)
        })
    }
}

/// The file name of the library that holds an address.
fn file_name(address: usize) -> Option<String> {
    let mut info = sys::DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: the structure is written; the name in it lives as long as the library.
    unsafe {
        if sys::dladdr(address as *const c_void, &mut info) == 0 || info.file.is_null() {
            return None;
        }
        let path = CStr::from_ptr(info.file).to_string_lossy();
        Some(path.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

fn open() -> Option<Library> {
    let init = symbol_anywhere(c"PMPI_Init")?;
    let name = file_name(init);
    // The wrapped names also exist in this library: look for the next definition.
    let has = |name: &CStr| {
        let name = if name == c"MPI_Init" {
            c"PMPI_Init"
        } else {
            name
        };
        symbol_anywhere(name).is_some()
    };
    let abi = Family::recognise(name.as_deref(), has)?.abi();
    let handle = |handle: Handle| handle.resolve(object);
    let function = |name: &CStr| symbol_anywhere(name).unwrap_or(0);
    let either = |one: &CStr, other: &CStr| {
        symbol_anywhere(one)
            .or_else(|| symbol_anywhere(other))
            .unwrap_or(0)
    };
    Some(Library {
        abi,
        comm_world: handle(abi.comm_world)?,
        comm_null: handle(abi.comm_null)?,
        request_null: handle(abi.request_null)?,
        message_no_proc: handle(abi.message_no_proc)?,
        byte: handle(abi.byte)?,
        in_place: Special::find(
            &[
                c"mpi_fortran_in_place_",
                c"mpi_fortran_in_place",
                c"MPIR_F08_MPI_IN_PLACE",
            ],
            &[c"MPIR_F_MPI_IN_PLACE"],
        ),
        status_ignore: Special::find(
            &[
                c"mpi_fortran_status_ignore_",
                c"mpi_fortran_statuses_ignore_",
            ],
            &[
                c"MPI_F_STATUS_IGNORE",
                c"MPI_F_STATUSES_IGNORE",
                c"MPI_F08_STATUS_IGNORE",
                c"MPI_F08_STATUSES_IGNORE",
            ],
        ),
        comm_rank: function(c"PMPI_Comm_rank"),
        comm_size: function(c"PMPI_Comm_size"),
        comm_remote_size: function(c"PMPI_Comm_remote_size"),
        comm_test_inter: function(c"PMPI_Comm_test_inter"),
        comm_group: function(c"PMPI_Comm_group"),
        comm_remote_group: function(c"PMPI_Comm_remote_group"),
        group_free: function(c"PMPI_Group_free"),
        group_size: function(c"PMPI_Group_size"),
        group_translate_ranks: function(c"PMPI_Group_translate_ranks"),
        comm_dup: function(c"PMPI_Comm_dup"),
        comm_free: function(c"PMPI_Comm_free"),
        comm_split_type: function(c"PMPI_Comm_split_type"),
        comm_split: function(c"PMPI_Comm_split"),
        allgather: function(c"PMPI_Allgather"),
        send: function(c"PMPI_Send"),
        recv: function(c"PMPI_Recv"),
        type_size: either(c"PMPI_Type_size_x", c"PMPI_Type_size_c"),
        get_elements: either(c"PMPI_Get_elements_x", c"PMPI_Get_elements_c"),
        test_cancelled: function(c"PMPI_Test_cancelled"),
        get_library_version: function(c"PMPI_Get_library_version"),
        query_thread: function(c"PMPI_Query_thread"),
        topo_test: function(c"PMPI_Topo_test"),
        cartdim_get: function(c"PMPI_Cartdim_get"),
        cart_shift: function(c"PMPI_Cart_shift"),
        graph_neighbors_count: function(c"PMPI_Graph_neighbors_count"),
        dist_graph_neighbors_count: function(c"PMPI_Dist_graph_neighbors_count"),
        comm_f2c: either(c"PMPI_Comm_f2c", c"PMPI_Comm_fromint"),
        type_f2c: either(c"PMPI_Type_f2c", c"PMPI_Type_fromint"),
        request_f2c: either(c"PMPI_Request_f2c", c"PMPI_Request_fromint"),
        message_f2c: either(c"PMPI_Message_f2c", c"PMPI_Message_fromint"),
    })
}

/// Calls a function of MPI; `None` if the library does not have it or it fails.
///
/// # Safety
/// `address` is 0 or a function that takes exactly these arguments.
pub unsafe fn call<const N: usize>(address: usize, arguments: [usize; N]) -> Option<()> {
    if address == 0 {
        return None;
    }
    // SAFETY: as promised by the caller.
    let code = unsafe { invoke(address, &arguments) };
    (code == 0).then_some(())
}

/// Calls a function with any number of integer arguments up to 16.
///
/// # Safety
/// `address` is a function that takes that many arguments or fewer, none of them floating point.
#[inline(always)]
pub unsafe fn invoke(address: usize, a: &[usize]) -> i32 {
    macro_rules! call {
        ($($i:literal)*) => {{
            // SAFETY: an argument of an integer or pointer type is passed in one register or one
            // word of the stack on the supported architectures, whatever its size; the result is an
            // int, or nothing.
            let function: unsafe extern "C" fn($(call!(@type $i)),*) -> c_int =
                unsafe { std::mem::transmute(address) };
            unsafe { function($(a[$i]),*) }
        }};
        (@type $i:literal) => { usize };
    }
    match a.len() {
        0 => call!(),
        1 => call!(0),
        2 => call!(0 1),
        3 => call!(0 1 2),
        4 => call!(0 1 2 3),
        5 => call!(0 1 2 3 4),
        6 => call!(0 1 2 3 4 5),
        7 => call!(0 1 2 3 4 5 6),
        8 => call!(0 1 2 3 4 5 6 7),
        9 => call!(0 1 2 3 4 5 6 7 8),
        10 => call!(0 1 2 3 4 5 6 7 8 9),
        11 => call!(0 1 2 3 4 5 6 7 8 9 10),
        12 => call!(0 1 2 3 4 5 6 7 8 9 10 11),
        13 => call!(0 1 2 3 4 5 6 7 8 9 10 11 12),
        14 => call!(0 1 2 3 4 5 6 7 8 9 10 11 12 13),
        15 => call!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
        _ => call!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
    }
}

impl Library {
    /// The C form of a handle that Fortran passes.
    pub fn from_fortran(&self, kind: Kind, number: i32) -> usize {
        let convert = match kind {
            Kind::Comm => self.comm_f2c,
            Kind::Type => self.type_f2c,
            Kind::Request => self.request_f2c,
            Kind::Message => self.message_f2c,
        };
        if self.abi.family == Family::Mpich || convert == 0 {
            return number as isize as usize;
        }
        // SAFETY: takes an int and returns a pointer.
        let convert: unsafe extern "C" fn(c_int) -> usize = unsafe { std::mem::transmute(convert) };
        // SAFETY: conversions take any number.
        unsafe { convert(number) }
    }

    /// Reads a handle from the memory of a C program.
    ///
    /// # Safety
    /// `at` points to a handle.
    pub unsafe fn handle_at(&self, at: usize) -> usize {
        // SAFETY: the caller guarantees it; the size of a handle is that of the family.
        unsafe {
            match self.abi.handle_size {
                4 => *(at as *const c_int) as isize as usize,
                _ => *(at as *const usize),
            }
        }
    }

    /// Whether an address means MPI_IN_PLACE.
    pub fn is_in_place(&self, fortran: bool, address: usize) -> bool {
        match fortran {
            false => address == self.abi.in_place as usize,
            true => self.in_place.is(address),
        }
    }

    /// Whether an address means that the caller wants no status.
    pub fn is_status_ignore(&self, fortran: bool, address: usize) -> bool {
        match fortran {
            false => address == self.abi.status_ignore as usize,
            true => self.status_ignore.is(address),
        }
    }

    /// Size in bytes of one element of a type, without gaps; `None` if the library rejects the
    /// type.
    #[inline]
    pub fn type_size(&self, datatype: usize) -> Option<u64> {
        if datatype == self.byte {
            return Some(1);
        }
        // MPICH encodes the size of a predefined type in its handle, as mpi.h shows: 0x4c000000,
        // with the size in bits 8 to 15.
        if self.abi.family == Family::Mpich && datatype as u32 & 0xff00_0000 == 0x4c00_0000 {
            return Some((datatype as u64 >> 8) & 0xff);
        }
        let mut size = 0_i64;
        // SAFETY: MPI_Type_size_x writes one MPI_Count, 64 bits wide in all families.
        unsafe { call(self.type_size, [datatype, (&raw mut size) as usize])? };
        u64::try_from(size).ok()
    }

    /// Bytes received according to a status; `None` if the library cannot tell.
    ///
    /// # Safety
    /// `status` points to a status that the library has filled.
    #[inline]
    pub unsafe fn bytes_of(&self, status: usize) -> Option<u64> {
        // SAFETY: the caller guarantees it; offsets are those of the family.
        unsafe {
            match self.abi.status.length {
                StatusLength::Whole(offset) => Some(*((status + offset) as *const u64)),
                StatusLength::Split(low, high) => {
                    let low = *((status + low) as *const u32);
                    let high = *((status + high) as *const u32) >> 1;
                    Some(u64::from(low) | u64::from(high) << 32)
                }
                StatusLength::Opaque => {
                    let mut many = 0_i64;
                    call(
                        self.get_elements,
                        [status, self.byte, (&raw mut many) as usize],
                    )?;
                    u64::try_from(many).ok()
                }
            }
        }
    }

    /// MPI_BYTE.
    pub fn byte(&self) -> usize {
        self.byte
    }

    /// Whether the operation that a status describes was cancelled.
    ///
    /// # Safety
    /// As for `bytes_of`.
    pub unsafe fn cancelled(&self, status: usize) -> bool {
        let mut flag: c_int = 0;
        // SAFETY: the caller guarantees it.
        unsafe { call(self.test_cancelled, [status, (&raw mut flag) as usize]) }.is_some()
            && flag != 0
    }

    /// The text of MPI_Get_library_version.
    pub fn version(&self) -> Vec<u8> {
        let mut text = vec![0_u8; self.abi.max_library_version_string as usize + 1];
        let mut length: c_int = 0;
        let arguments = [text.as_mut_ptr() as usize, (&raw mut length) as usize];
        // SAFETY: the buffer has the length that MPI requires.
        if unsafe { call(self.get_library_version, arguments) }.is_none() {
            return Vec::new();
        }
        // SAFETY: the buffer has one zero byte beyond what the library could write.
        let text = unsafe { CStr::from_ptr(text.as_ptr().cast::<c_char>()) };
        text.to_bytes()
            .iter()
            .copied()
            .take_while(|&byte| byte != b'\n')
            .collect()
    }
}

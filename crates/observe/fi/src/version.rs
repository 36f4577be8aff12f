//! Which version of the interface the libfabric of this process has: it refuses providers of later
//! versions, and from version 2 on also of earlier ones.

use crate::abi::INTERFACE;
use libc::{RTLD_DEFAULT, RTLD_LAZY, RTLD_NOLOAD, dl_iterate_phdr, dl_phdr_info, dlopen, dlsym};
use std::ffi::{CStr, CString, c_int, c_void};

/// The version of the libfabric that is loaded; that of [`abi`](crate::abi) if none says its own.
pub fn interface() -> u32 {
    let mut files: Vec<CString> = Vec::new();
    // SAFETY: the function is called with the vector, which lives through the call.
    unsafe { dl_iterate_phdr(Some(note), (&raw mut files).cast()) };
    let loaded = files.iter().filter_map(|file| {
        // SAFETY: a string; nothing new is loaded. The handle is kept: it is the caller's.
        let library = unsafe { dlopen(file.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
        (!library.is_null()).then_some(library)
    });
    let all = loaded.chain([RTLD_DEFAULT]);
    let version = all.map(version_of).find(Option::is_some).flatten();
    version.map_or(INTERFACE, |version| version.max(INTERFACE))
}

fn version_of(library: *mut c_void) -> Option<u32> {
    // SAFETY: a handle and a string.
    let symbol = unsafe { dlsym(library, c"fi_version".as_ptr()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: `uint32_t fi_version(void)` of libfabric.
    let version: extern "C" fn() -> u32 = unsafe { std::mem::transmute(symbol) };
    Some(version())
}

/// Notes libraries that may be libfabric by their name.
unsafe extern "C" fn note(object: *mut dl_phdr_info, _: usize, files: *mut c_void) -> c_int {
    let files: *mut Vec<CString> = files.cast();
    // SAFETY: an object that is loaded, and the vector of `interface`.
    if let (Some(object), Some(files)) = unsafe { (object.as_ref(), files.as_mut()) } {
        if !object.dlpi_name.is_null() {
            // SAFETY: a string.
            let name = unsafe { CStr::from_ptr(object.dlpi_name) };
            if name
                .to_bytes()
                .windows(12)
                .any(|part| part == b"libfabric.so")
            {
                files.push(name.to_owned());
            }
        }
    }
    0
}

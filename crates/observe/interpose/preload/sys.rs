//! The functions of libc that are used; the standard library links libc anyway.

use std::ffi::{c_char, c_int, c_long, c_void};

#[repr(C)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// setrlimit(2).
#[repr(C)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

#[repr(C)]
pub struct DlInfo {
    pub file: *const c_char,
    pub base: *mut c_void,
    pub symbol: *const c_char,
    pub address: *mut c_void,
}

pub const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
pub const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
pub const RTLD_LAZY: c_int = 1;
pub const RTLD_NOLOAD: c_int = 4;
pub const CLOCK_MONOTONIC: c_int = 1;
pub const PROT_READ_WRITE: c_int = 3;
pub const MAP_SHARED: c_int = 1;
pub const MADV_POPULATE_WRITE: c_int = 23;
/// The size of files.
pub const RLIMIT_FSIZE: c_int = 1;
/// futex(2).
pub const SYS_FUTEX: c_long = if cfg!(target_arch = "x86_64") {
    202
} else {
    98
};
/// Between processes.
pub const FUTEX_WAKE: c_int = 1;

unsafe extern "C" {
    pub fn syscall(number: c_long, ...) -> c_long;
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    pub fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    pub fn getrlimit(what: c_int, limit: *mut Limit) -> c_int;
    pub fn posix_fallocate(fd: c_int, offset: i64, length: i64) -> c_int;
    pub fn mmap(
        at: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
    pub fn munmap(at: *mut c_void, length: usize) -> c_int;
    pub fn gettid() -> c_int;
    pub fn getpid() -> c_int;
    pub fn atexit(function: extern "C" fn()) -> c_int;
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic() -> u64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the structure is that of 64-bit Linux, and is only written.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    (time.seconds as u64) * 1_000_000_000 + time.nanoseconds as u64
}

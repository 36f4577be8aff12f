//! The tables of functions behind the objects.

use super::objects::{
    AvAttr, CntrAttr, CqAttr, CqErrEntry, Fid, FidAv, FidCntr, FidCq, FidDomain, FidEp, FidEq,
    FidFabric, Msg, MsgTagged, Span,
};
use super::{Info, code};
use std::ffi::{c_char, c_int, c_void};

/// A function that this provider does not have. Its callers pass arguments, which it ignores: in
/// the C calling conventions of x86-64 and AArch64 the caller cleans up after any call.
pub type Missing = extern "C" fn() -> isize;

/// Says that a function is not there.
pub extern "C" fn missing() -> isize {
    -code::ENOSYS
}

/// A table of which no function is there.
#[repr(C)]
pub struct NoOps<const N: usize> {
    size: usize,
    all: [Missing; N],
}

impl<const N: usize> NoOps<N> {
    pub const fn new() -> Self {
        Self {
            size: size_of::<Self>(),
            all: [missing; N],
        }
    }
}

/// `struct fi_ops`
#[repr(C)]
pub struct FidOps {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub ops_open: Missing,
    pub tostr: Missing,
    pub ops_set: Missing,
}

/// `struct fi_ops_fabric`
#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
    pub passive_ep: Missing,
    pub eq_open:
        unsafe extern "C" fn(*mut FidFabric, *mut c_void, *mut *mut FidEq, *mut c_void) -> c_int,
    pub wait_open: Missing,
    pub trywait: Missing,
    pub domain2: Missing,
}

/// `struct fi_ops_domain`
#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open:
        unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
    pub cq_open:
        unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
    pub scalable_ep: Missing,
    pub cntr_open: unsafe extern "C" fn(
        *mut FidDomain,
        *mut CntrAttr,
        *mut *mut FidCntr,
        *mut c_void,
    ) -> c_int,
    pub poll_open: Missing,
    pub stx_ctx: Missing,
    pub srx_ctx: Missing,
    pub query_atomic: Missing,
    pub query_collective: Missing,
    pub endpoint2: Missing,
}

/// `struct fi_ops_ep`
#[repr(C)]
pub struct EpOps {
    pub size: usize,
    pub cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> isize,
    pub getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub tx_ctx: Missing,
    pub rx_ctx: Missing,
    pub rx_size_left: Missing,
    pub tx_size_left: Missing,
}

/// `struct fi_ops_cm`
#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: Missing,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    pub rest: [Missing; 7],
}

type Buf = *mut c_void;
type Desc = *mut c_void;
type Context = *mut c_void;
type Ep = *mut FidEp;

/// `struct fi_ops_msg`
#[repr(C)]
pub struct MessageOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, Context) -> isize,
    pub recvv: unsafe extern "C" fn(Ep, *const Span, *mut Desc, usize, u64, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> isize,
    pub send: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, Context) -> isize,
    pub sendv: unsafe extern "C" fn(Ep, *const Span, *mut Desc, usize, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Buf, usize, u64) -> isize,
    pub senddata: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(Ep, Buf, usize, u64, u64) -> isize,
}

/// `struct fi_ops_tagged`
#[repr(C)]
pub struct TaggedOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, u64, u64, Context) -> isize,
    pub recvv:
        unsafe extern "C" fn(Ep, *const Span, *mut Desc, usize, u64, u64, u64, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> isize,
    pub send: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, u64, Context) -> isize,
    pub sendv: unsafe extern "C" fn(Ep, *const Span, *mut Desc, usize, u64, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Buf, usize, u64, u64) -> isize,
    pub senddata: unsafe extern "C" fn(Ep, Buf, usize, Desc, u64, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(Ep, Buf, usize, u64, u64, u64) -> isize,
}

/// `struct fi_ops_av`
#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert:
        unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
    pub insertsvc: Missing,
    pub insertsym: Missing,
    pub remove: unsafe extern "C" fn(*mut FidAv, *mut u64, usize, u64) -> c_int,
    pub lookup: unsafe extern "C" fn(*mut FidAv, u64, *mut c_void, *mut usize) -> c_int,
    pub straddr:
        unsafe extern "C" fn(*mut FidAv, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    pub av_set: Missing,
}

/// `struct fi_ops_eq`
#[repr(C)]
pub struct EqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub readerr: unsafe extern "C" fn(*mut FidEq, *mut c_void, u64) -> isize,
    pub write: Missing,
    pub sread: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub strerror:
        unsafe extern "C" fn(*mut FidEq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

/// `struct fi_ops_cq`
#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
    pub readfrom: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut u64) -> isize,
    pub readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub sreadfrom: unsafe extern "C" fn(
        *mut FidCq,
        *mut c_void,
        usize,
        *mut u64,
        *const c_void,
        c_int,
    ) -> isize,
    pub signal: Missing,
    pub strerror:
        unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

/// `struct fi_ops_cntr`
#[repr(C)]
pub struct CntrOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub readerr: unsafe extern "C" fn(*mut FidCntr) -> u64,
    pub add: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub set: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub wait: unsafe extern "C" fn(*mut FidCntr, u64, c_int) -> c_int,
    pub adderr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    pub seterr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
}

const _: () = {
    // On 64-bit systems, by the headers.
    assert!(size_of::<FidOps>() == 56 && size_of::<CmOps>() == 80);
    assert!(size_of::<NoOps<9>>() == 80 && size_of::<NoOps<13>>() == 112);
    assert!(size_of::<NoOps<11>>() == 96);
};

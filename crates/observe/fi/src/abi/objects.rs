//! The objects that a provider hands out, and the tables of functions behind them (fi_provider(7),
//! fi_endpoint(3), fi_cq(3) and others).

use super::code;
use super::entries::{AvAttr, CntrAttr, CqAttr, CqErrEntry, Msg, MsgTagged, Span};
use super::info::{FabricAttr, Info};
use std::ffi::{c_char, c_int, c_void};

/// `struct fid`: the start of every object.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const FidOps,
}

/// `struct fi_provider`
#[repr(C)]
pub struct Provider {
    pub version: u32,
    pub interface: u32,
    /// For libfabric.
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const Info,
        *mut *mut Info,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int,
    pub cleanup: extern "C" fn(),
}

/// `struct fid_fabric`
#[repr(C)]
pub struct FidFabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
    pub api_version: u32,
}

/// `struct fid_domain`
#[repr(C)]
pub struct FidDomain {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub mr: *const NoOps<3>,
}

/// `struct fid_ep`
#[repr(C)]
pub struct FidEp {
    pub fid: Fid,
    pub ops: *const EpOps,
    pub cm: *const CmOps,
    pub msg: *const MessageOps,
    pub rma: *const NoOps<9>,
    pub tagged: *const TaggedOps,
    pub atomic: *const NoOps<13>,
    pub collective: *const NoOps<11>,
}

/// `struct fid_av`
#[repr(C)]
pub struct FidAv {
    pub fid: Fid,
    pub ops: *const AvOps,
}

/// `struct fid_eq`
#[repr(C)]
pub struct FidEq {
    pub fid: Fid,
    pub ops: *const EqOps,
}

/// `struct fid_cq`
#[repr(C)]
pub struct FidCq {
    pub fid: Fid,
    pub ops: *const CqOps,
}

/// `struct fid_cntr`
#[repr(C)]
pub struct FidCntr {
    pub fid: Fid,
    pub ops: *const CntrOps,
}

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
    assert!(size_of::<Provider>() == 72 && size_of::<FidFabric>() == 40);
    assert!(size_of::<FidDomain>() == 40 && size_of::<FidEp>() == 80);
};

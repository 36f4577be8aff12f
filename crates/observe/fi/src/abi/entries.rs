//! The structures that a program passes with its calls, and completions (fi_av(3), fi_cq(3),
//! fi_cntr(3), fi_msg(3), fi_tagged(3)).

use std::ffi::{c_char, c_int, c_void};

/// Classes of objects.
pub mod class {
    pub const FABRIC: usize = 1;
    pub const DOMAIN: usize = 2;
    pub const EP: usize = 3;
    pub const AV: usize = 11;
    pub const EQ: usize = 13;
    pub const CQ: usize = 14;
    pub const CNTR: usize = 15;
}

/// Commands for an object.
pub mod command {
    use std::ffi::c_int;
    pub const GETOPSFLAG: c_int = 2;
    pub const SETOPSFLAG: c_int = 3;
    pub const ENABLE: c_int = 6;
}

/// `struct fi_av_attr`
#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// `struct fi_cq_attr`
#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

/// `struct fi_cntr_attr`
#[repr(C)]
pub struct CntrAttr {
    pub events: c_int,
    pub wait_obj: c_int,
    pub wait_set: *mut c_void,
    pub flags: u64,
}

/// `FI_WAIT_NONE`
pub const WAIT_NONE: c_int = 0;
/// `FI_WAIT_UNSPEC`: the provider chooses.
pub const WAIT_UNSPEC: c_int = 1;
/// `FI_WAIT_YIELD`
pub const WAIT_YIELD: c_int = 5;

/// `struct fi_cq_tagged_entry`, of which all shorter formats are a part.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CqEntry {
    pub context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

/// `struct fi_cq_err_entry`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqErrEntry {
    pub entry: CqEntry,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

/// `struct iovec`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    pub base: *mut u8,
    pub len: usize,
}

/// `struct fi_msg`
#[repr(C)]
pub struct Msg {
    pub spans: *const Span,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub addr: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// `struct fi_msg_tagged`
#[repr(C)]
pub struct MsgTagged {
    pub spans: *const Span,
    pub desc: *mut *mut c_void,
    pub count: usize,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

const _: () = {
    // On 64-bit systems, by the headers.
    assert!(size_of::<AvAttr>() == 48 && size_of::<CqAttr>() == 40);
    assert!(size_of::<CntrAttr>() == 24 && size_of::<CqEntry>() == 48);
    assert!(size_of::<CqErrEntry>() == 80);
    assert!(size_of::<Msg>() == 48 && size_of::<MsgTagged>() == 64);
};

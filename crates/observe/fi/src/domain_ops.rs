//! What is done with a domain.

use crate::abi::{DomainOps, Fid, FidDomain, FidOps, NoOps, code, missing};
use crate::domain::Domain;
use crate::engine::{Engine, lock};
use crate::object::{self, closed_by, give};
use crate::{av, cntr, cq, ep_ops};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

static FID_OPS: FidOps = closed_by(close);

static OPS: DomainOps = DomainOps {
    size: size_of::<DomainOps>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: ep_ops::open,
    scalable_ep: missing,
    cntr_open: cntr::open,
    poll_open: missing,
    stx_ctx: missing,
    srx_ctx: missing,
    query_atomic: missing,
    query_collective: missing,
    endpoint2: missing,
};

static NO_MEMORY_REGISTRATION: NoOps<3> = NoOps::new();

/// Opens a domain.
///
/// # Safety
/// `to` is null or may be written.
pub unsafe fn open(to: *mut *mut FidDomain, context: *mut c_void) -> c_int {
    let domain = Domain {
        fid: FidDomain {
            fid: object::fid::<Domain>(context, &FID_OPS),
            ops: &OPS,
            mr: &NO_MEMORY_REGISTRATION,
        },
        shared: Arc::new(Mutex::new(Engine::default())),
    };
    // SAFETY: as promised.
    unsafe { give(domain, to) }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let release = |domain: &Domain| match lock(&domain.shared).endpoint {
        Some(_) => Err(code::EBUSY),
        None => Ok(()),
    };
    // SAFETY: the caller's object, which it gives up.
    unsafe { object::close(fid, release) }
}

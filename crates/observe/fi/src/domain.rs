//! The domain: what endpoints, queues, counters and address vectors are opened from.

use crate::abi::{FidDomain, class};
use crate::engine::Shared;
use crate::object::Object;

#[repr(C)]
pub struct Domain {
    pub fid: FidDomain,
    pub shared: Shared,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Domain {
    const CLASS: usize = class::DOMAIN;
}

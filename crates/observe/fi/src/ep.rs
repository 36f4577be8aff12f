//! An endpoint (fi_endpoint(3)): reliable, without connections. A process has one at a time.

use crate::abi::{FidEp, class};
use crate::engine::Shared;
use crate::object::Object;

#[repr(C)]
pub struct Ep {
    pub fid: FidEp,
    pub shared: Shared,
}

// SAFETY: it begins with a fid of this class.
unsafe impl Object for Ep {
    const CLASS: usize = class::EP;
}

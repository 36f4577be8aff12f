//! A libfabric provider over switched network contexts: an MPI library that uses libfabric then
//! sends through a gang's network device, without being changed.
//!
//! libfabric loads the shared library from `FI_PROVIDER_PATH` and calls [`fi_prov_ini`]. A process
//! is one rank of a gang, which its environment names as for
//! [`Attachment`](idlewave_fabric::netctx::device::Attachment). Without that, the provider offers
//! nothing. It has reliable endpoints without connections (FI_EP_RDM) with tagged and untagged
//! messages; no remote memory access. [`abi`] holds the declarations, [`matching`] the messages,
//! [`engine`] the state; the other modules are the objects of the interface.

mod abi;
mod address;
mod av;
mod cntr;
mod cq;
mod data;
mod direct;
mod domain;
mod domain_ops;
mod done;
mod engine;
mod envelope;
mod ep;
mod ep_ops;
mod fabric;
mod find;
mod info;
mod matching;
mod message;
mod object;
mod port;
mod room;
mod sending;
mod tagged;
mod version;

pub use find::{FILE_NAME, NAME, library, variables};

use abi::{INTERFACE, Provider};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

struct Description(UnsafeCell<Provider>);

// SAFETY: only libfabric uses it, and serialises what it does.
unsafe impl Sync for Description {}

static PROVIDER: Description = Description(UnsafeCell::new(Provider {
    version: 1 << 16,
    interface: INTERFACE,
    context: [null_mut(); 4],
    name: c"idlewave".as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::fabric,
    cleanup,
}));

extern "C" fn cleanup() {}

/// What libfabric calls when it has loaded the library: describes the provider
/// (fi_provider(7)).
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut std::ffi::c_void {
    let provider = PROVIDER.0.get();
    // SAFETY: libfabric calls this before it uses what it returns.
    unsafe { (*provider).interface = version::interface() };
    provider.cast()
}

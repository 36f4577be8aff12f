//! What this provider offers, and whether that is what a program asks for (fi_getinfo(3)).

use crate::abi::{
    DomainAttr, EP_RDM, EpAttr, FabricAttr, Info, PROGRESS_AUTO, PROGRESS_MANUAL, RM_ENABLED,
    RxAttr, THREAD_SAFE, TxAttr, code, flag, order,
};
use crate::address::Address;
use crate::envelope::LONGEST_INJECT;
use crate::find::NAME;
use crate::object::guarded_int;
use crate::port;
use crate::room::PARTS;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;

/// What it can do.
const CAPABILITIES: u64 = flag::MSG
    | flag::TAGGED
    | flag::SEND
    | flag::RECV
    | flag::MULTI_RECV
    | flag::REMOTE_CQ_DATA
    | flag::SOURCE
    | flag::DIRECTED_RECV
    | flag::LOCAL_COMM
    | flag::REMOTE_COMM;
/// Those of sends alone, and of receives alone.
const OF_SENDS: u64 = flag::MSG | flag::TAGGED | flag::SEND;
const OF_RECEIVES: u64 =
    flag::MSG | flag::TAGGED | flag::RECV | flag::MULTI_RECV | flag::SOURCE | flag::DIRECTED_RECV;
/// Flags that may be the default of sends, and of receives. Completions of sends mean that the
/// message is in the device: it arrives even if its sender ends.
const SEND_FLAGS: u64 =
    flag::COMPLETION | flag::INJECT | flag::INJECT_COMPLETE | flag::TRANSMIT_COMPLETE;
const RECEIVE_FLAGS: u64 = flag::COMPLETION | flag::MULTI_RECV;
/// The longest message, bytes.
const LONGEST: usize = 1 << 40;
/// Operations at a time: any number, but programs size their queues by this.
const OPERATIONS: usize = 4_096;
/// Bytes of data for a completion queue.
const DATA_BYTES: usize = 8;
/// All bits of a tag, of any fields (FI_TAG_GENERIC of fi_endpoint(3)).
const TAG_FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;
/// `FI_PROTO_UNSPEC` with the top bit: a protocol of this provider's own.
const PROTOCOL: u32 = 1 << 31 | 0x1d1e;
/// `FI_SOURCE` of `fi_getinfo`: the node and service are this program's own.
const OWN_ADDRESS: u64 = flag::SOURCE;
/// Zeros behind each structure, for what later versions append.
const SPARE: usize = 256;

/// What of the hints matters.
struct Asked {
    capabilities: u64,
    threading: c_int,
    av_type: c_int,
    send_flags: u64,
    receive_flags: u64,
    destination: Option<Address>,
}

pub unsafe extern "C" fn getinfo(
    _: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    to: *mut *mut Info,
) -> c_int {
    guarded_int(|| {
        if to.is_null() {
            return Err(code::EINVAL);
        }
        // A rank's address is known only to the rank.
        let named = !node.is_null() || !service.is_null();
        if !port::is_there() || (named && flags & OWN_ADDRESS == 0) {
            return Err(code::ENODATA);
        }
        // SAFETY: null or the caller's hints.
        let hints = unsafe { hints.as_ref() };
        // SAFETY: what they point to is the caller's, too.
        let asked = unsafe { asked(hints) }.ok_or(code::ENODATA)?;
        let info = offer(&asked).ok_or(code::ENOMEM)?;
        // SAFETY: not null; the caller's place for it.
        unsafe { to.write(info) };
        Ok(0)
    })
}

/// Whether a name in the hints is ours, or missing.
///
/// # Safety
/// It is null or a string.
unsafe fn is_ours(name: *const c_char) -> bool {
    // SAFETY: as promised.
    name.is_null() || unsafe { CStr::from_ptr(name) }.to_bytes() == NAME.as_bytes()
}

/// What is asked for; `None` if that is not offered.
///
/// # Safety
/// The pointers in the hints are null or valid.
unsafe fn asked(hints: Option<&Info>) -> Option<Asked> {
    let mut asked = Asked {
        capabilities: CAPABILITIES,
        threading: THREAD_SAFE,
        av_type: 0,
        send_flags: flag::COMPLETION,
        receive_flags: flag::COMPLETION,
        destination: None,
    };
    let Some(hints) = hints else {
        return Some(asked);
    };
    // SAFETY: as promised, for all of these.
    let (tx, rx, ep, domain, fabric) = unsafe {
        (
            hints.tx_attr.as_ref(),
            hints.rx_attr.as_ref(),
            hints.ep_attr.as_ref(),
            hints.domain_attr.as_ref(),
            hints.fabric_attr.as_ref(),
        )
    };
    let mut capabilities = hints.caps;
    let mut fits = hints.addr_format == 0 || hints.addr_format == Address::FORMAT;
    if !hints.dest_addr.is_null() {
        let address: *const [u8; Address::BYTES] = hints.dest_addr.cast();
        let whole = hints.dest_addrlen >= Address::BYTES;
        // SAFETY: of that length, of any alignment.
        let bytes = whole.then(|| unsafe { address.read_unaligned() });
        asked.destination = bytes.and_then(Address::read);
        fits &= asked.destination.is_some();
    }
    if let Some(tx) = tx {
        capabilities |= tx.caps;
        asked.send_flags = tx.op_flags;
        fits &= tx.op_flags & !SEND_FLAGS == 0 && tx.comp_order == 0;
        fits &= tx.inject_size <= LONGEST_INJECT && tx.iov_limit <= PARTS;
        fits &= tx.size <= OPERATIONS;
    }
    if let Some(rx) = rx {
        capabilities |= rx.caps;
        asked.receive_flags = rx.op_flags;
        fits &= rx.op_flags & !RECEIVE_FLAGS == 0 && rx.comp_order == 0;
        fits &= rx.iov_limit <= PARTS && rx.size <= OPERATIONS;
    }
    if let Some(ep) = ep {
        fits &= [0, EP_RDM].contains(&ep.kind) && [0, PROTOCOL].contains(&ep.protocol);
        fits &= ep.max_msg_size <= LONGEST && ep.auth_key_size == 0;
        fits &= ep.tx_ctx_cnt <= 1 && ep.rx_ctx_cnt <= 1;
    }
    if let Some(domain) = domain {
        // SAFETY: null or a string.
        fits &= unsafe { is_ours(domain.name) };
        let progress = [domain.control_progress, domain.data_progress];
        // Messages move only in calls of the program.
        fits &= !progress.contains(&PROGRESS_AUTO);
        fits &= domain.cq_data_size <= DATA_BYTES && domain.auth_key_size == 0;
        capabilities |= domain.caps;
        if domain.threading != 0 {
            asked.threading = domain.threading;
        }
        asked.av_type = domain.av_type;
    }
    if let Some(fabric) = fabric {
        // SAFETY: null or a string.
        fits &= unsafe { is_ours(fabric.name) };
    }
    fits &= capabilities & !CAPABILITIES == 0;
    if hints.caps != 0 {
        let any = |of: u64| capabilities & of != 0;
        if !any(flag::SEND | flag::RECV) {
            capabilities |= flag::SEND | flag::RECV;
        }
        asked.capabilities = capabilities | flag::LOCAL_COMM | flag::REMOTE_COMM;
    }
    fits.then_some(asked)
}

/// Allocates a structure as libfabric frees it.
fn allocate<T>(value: T) -> *mut T {
    // SAFETY: any numbers will do.
    let place: *mut T = unsafe { libc::calloc(1, size_of::<T>() + SPARE) }.cast();
    if !place.is_null() {
        // SAFETY: enough bytes, aligned for anything.
        unsafe { place.write(value) };
    }
    place
}

/// Our name, as libfabric frees it.
fn name() -> *mut c_char {
    // SAFETY: a string.
    unsafe { libc::strdup(c"idlewave".as_ptr()) }
}

fn offer(asked: &Asked) -> Option<*mut Info> {
    let both = flag::REMOTE_CQ_DATA | flag::LOCAL_COMM | flag::REMOTE_COMM;
    let tx = TxAttr {
        caps: asked.capabilities & (OF_SENDS | both),
        mode: 0,
        op_flags: asked.send_flags,
        msg_order: order::SEND_AFTER_SEND,
        comp_order: 0,
        inject_size: LONGEST_INJECT,
        size: OPERATIONS,
        iov_limit: PARTS,
        rma_iov_limit: 0,
        tclass: 0,
    };
    let rx = RxAttr {
        caps: asked.capabilities & (OF_RECEIVES | both),
        mode: 0,
        op_flags: asked.receive_flags,
        msg_order: order::SEND_AFTER_SEND,
        comp_order: 0,
        total_buffered_recv: 0,
        size: OPERATIONS,
        iov_limit: PARTS,
    };
    let ep = EpAttr {
        kind: EP_RDM,
        protocol: PROTOCOL,
        protocol_version: 1,
        max_msg_size: LONGEST,
        msg_prefix_size: 0,
        max_order_raw_size: 0,
        max_order_war_size: 0,
        max_order_waw_size: 0,
        mem_tag_format: TAG_FORMAT,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        auth_key_size: 0,
        auth_key: null_mut(),
    };
    let domain = DomainAttr {
        domain: null_mut(),
        name: name(),
        threading: asked.threading,
        control_progress: PROGRESS_MANUAL,
        data_progress: PROGRESS_MANUAL,
        resource_mgmt: RM_ENABLED,
        av_type: asked.av_type,
        mr_mode: 0,
        mr_key_size: 0,
        cq_data_size: DATA_BYTES,
        cq_cnt: 256,
        ep_cnt: 1,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        max_ep_stx_ctx: 0,
        max_ep_srx_ctx: 0,
        cntr_cnt: 256,
        mr_iov_limit: 0,
        caps: flag::LOCAL_COMM | flag::REMOTE_COMM,
        mode: 0,
        auth_key: null_mut(),
        auth_key_size: 0,
        max_err_data: 0,
        mr_cnt: 0,
        tclass: 0,
    };
    let fabric = FabricAttr {
        fabric: null_mut(),
        name: name(),
        // libfabric fills in these.
        prov_name: null_mut(),
        prov_version: 0,
        api_version: 0,
    };
    let info = Info {
        next: null_mut(),
        caps: asked.capabilities,
        mode: 0,
        addr_format: Address::FORMAT,
        src_addrlen: 0,
        dest_addrlen: asked.destination.map_or(0, |_| Address::BYTES),
        src_addr: null_mut(),
        dest_addr: asked
            .destination
            .map_or(null_mut(), |address| allocate(address.bytes()).cast()),
        handle: null_mut(),
        tx_attr: allocate(tx),
        rx_attr: allocate(rx),
        ep_attr: allocate(ep),
        domain_attr: allocate(domain),
        fabric_attr: allocate(fabric),
        nic: null_mut(),
    };
    // Where memory is short enough to refuse a few hundred bytes, what was allocated may stay so.
    let whole = !info.tx_attr.is_null()
        && !info.rx_attr.is_null()
        && !info.ep_attr.is_null()
        && !info.domain_attr.is_null()
        && !info.fabric_attr.is_null()
        && asked.destination.is_some() != info.dest_addr.is_null();
    let info = whole.then(|| allocate(info))?;
    (!info.is_null()).then_some(info)
}

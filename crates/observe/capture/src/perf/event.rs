//! Opens perf events of a thread. Source: perf_event_open(2).

use super::error::PerfError;
use crate::host::root::Root;
use idlewave_units::Pid;
use std::fs::File;
use std::io::Error;
use std::os::fd::FromRawFd;
use std::path::Path;

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER3` (Linux 3.7), which kernels before 4.3
/// accept and then refuse for its flags.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    /// Set by [`open`].
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint_kind: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_regs_user: u64,
    pub(super) sample_stack_user: u32,
    pub(super) clock: i32,
}

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`.
pub(super) const HARDWARE: u32 = 0;
pub(super) const SOFTWARE: u32 = 1;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`.
pub(super) const READ_TIME_ENABLED: u64 = 1 << 0;
pub(super) const READ_TIME_RUNNING: u64 = 1 << 1;

/// Bits of `flags`, counted from the least significant one.
#[cfg(target_endian = "little")]
const fn flag(bit: u32) -> u64 {
    1 << bit
}
#[cfg(target_endian = "big")]
const fn flag(bit: u32) -> u64 {
    1 << (63 - bit)
}
pub(super) const EXCLUDE_KERNEL: u64 = flag(5);
pub(super) const EXCLUDE_HYPERVISOR: u64 = flag(6);
/// Records of the thread's end (and of the start of its children).
pub(super) const TASK: u64 = flag(13);
pub(super) const SAMPLE_ID_ALL: u64 = flag(18);
pub(super) const USE_CLOCK: u64 = flag(25);
pub(super) const CONTEXT_SWITCH: u64 = flag(26);

/// Opens an event of a thread on any CPU; it counts immediately.
///
/// # Errors
/// Those of the call; [`explain`] interprets them.
pub(super) fn open(mut attributes: Attributes, pid: Pid) -> Result<File, Error> {
    attributes.size = size_of::<Attributes>() as u32;
    let thread =
        libc::pid_t::try_from(pid.get()).map_err(|_| Error::from_raw_os_error(libc::ESRCH))?;
    let (any_cpu, no_group, close_on_exec) = (-1, -1, 8u64);
    // SAFETY: `attributes` is a live structure of the size that it states; the kernel only reads
    // it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            any_cpu,
            no_group,
            close_on_exec,
        )
    };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call returned a descriptor that nothing else owns.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

/// The meaning of a failed open.
pub(super) fn explain(pid: Pid, error: Error) -> PerfError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => match paranoid_level(&Root::new(Path::new("/"))) {
            Some(level) if level > 2 => PerfError::NotPermitted { level },
            _ => PerfError::Filtered(error),
        },
        Some(libc::ESRCH) => PerfError::NoThread(pid),
        Some(libc::ENOSYS | libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP | libc::E2BIG) => {
            PerfError::Unsupported(error)
        }
        _ => PerfError::Open { pid, source: error },
    }
}

/// `kernel.perf_event_paranoid` below `root`; `None` if it cannot be read.
pub(crate) fn paranoid_level(root: &Root) -> Option<i64> {
    let text = root.text("proc/sys/kernel/perf_event_paranoid").ok()??;
    text.trim().parse().ok()
}

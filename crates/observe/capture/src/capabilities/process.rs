//! Privileges of this process, from /proc/self/status.

use crate::host::root::Root;

/// CAP_SYS_ADMIN of include/uapi/linux/capability.h.
const SYS_ADMIN: u32 = 21;
/// CAP_PERFMON (since Linux 5.8).
const PERFMON: u32 = 38;

/// Privileges and environment of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// May mount file systems and trace.
    pub(super) admin: bool,
    /// May open any perf event.
    pub(super) perfmon: bool,
    /// Runs as user 0.
    pub(super) root: bool,
    /// Runs in a container.
    pub(super) container: bool,
}

impl Process {
    pub(super) fn read(root: &Root) -> Process {
        let status = root
            .text("proc/self/status")
            .ok()
            .flatten()
            .unwrap_or_default();
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let mask = field("CapEff:")
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .unwrap_or(0);
        let has = |capability: u32| mask >> capability & 1 == 1;
        // Real, effective, saved and file-system user.
        let user = field("Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(1));
        let is_root = user == Some("0");
        // The mark alone proves nothing: virtual machines are also built from container images.
        let marked = [".dockerenv", "run/.containerenv"]
            .iter()
            .any(|path| root.path(path).exists());
        let contained = !sees_kernel(root) || on_overlay(root);
        Process {
            admin: has(SYS_ADMIN),
            perfmon: has(PERFMON) || has(SYS_ADMIN),
            root: is_root,
            // Other containers: user 0 without capabilities.
            container: (marked && contained) || (is_root && !has(SYS_ADMIN)),
        }
    }
}

/// Whether processes of the whole machine are visible: thread 2 is then the kernel's kthreadd.
pub(super) fn sees_kernel(root: &Root) -> bool {
    let second = root.text("proc/2/comm").ok().flatten();
    second.is_some_and(|name| name.trim() == "kthreadd")
}

/// Whether `/` is an overlay of image layers.
fn on_overlay(root: &Root) -> bool {
    let mounts = root.text("proc/self/mounts").ok().flatten();
    mounts.unwrap_or_default().lines().any(|line| {
        line.split(' ').nth(1) == Some("/") && line.split(' ').nth(2) == Some("overlay")
    })
}

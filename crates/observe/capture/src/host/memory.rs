//! How much memory a program can still use.

use super::cgroup::memory_left;
use super::root::Root;
use super::topology::size_of;
use idlewave_units::Bytes;
use std::path::Path;

/// Memory that programs of this process's cgroup can use on this node without swapping or being
/// killed: `MemAvailable` of /proc/meminfo, or what the limits of the cgroup leave if that is less.
/// `None` if the kernel does not say (before 3.14).
pub fn available_memory(root: &Path) -> Option<Bytes> {
    let root = Root::new(root);
    let info = root.text("proc/meminfo").ok()??;
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let available = size_of(line?.trim())?;
    Some(match memory_left(&root) {
        Some(left) => available.min(Bytes::new(left)),
        None => available,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::{container, laptop};
    use super::*;

    const INFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n",
    );

    #[test]
    fn a_machine_without_limits_has_what_the_kernel_says() {
        assert_eq!(available_memory(laptop().path()), None);
        let fake = laptop().with(&[INFO]);
        assert_eq!(available_memory(fake.path()), Some(Bytes::from_kib(8_192)));
    }

    #[test]
    fn the_tightest_limit_above_the_own_group_counts_without_unused_files() {
        let group = "sys/fs/cgroup/user.slice";
        let of = |file: &str| format!("{group}/{file}");
        let fake = laptop().with(&[
            INFO,
            (&of("memory.max"), "4096000\n"),
            (&of("memory.current"), "3000000\n"),
            (&of("memory.stat"), "anon 1\ninactive_file 500000\n"),
            (&of("session.scope/memory.max"), "max\n"),
            (&of("session.scope/memory.current"), "1\n"),
        ]);
        assert_eq!(available_memory(fake.path()), Some(Bytes::new(1_596_000)));
    }

    #[test]
    fn limits_of_version_1_are_those_of_the_memory_controller() {
        let at = "sys/fs/cgroup/memory";
        let of = |file: &str| format!("{at}/{file}");
        let fake = container().with(&[
            INFO,
            ("proc/self/cgroup", "5:memory:/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            (&of("memory.limit_in_bytes"), "2000000\n"),
            (&of("memory.usage_in_bytes"), "2500000\n"),
        ]);
        assert_eq!(available_memory(fake.path()), Some(Bytes::new(0)));
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_memory(Path::new("/")).is_some_and(|m| m > Bytes::from_kib(1_024)));
    }
}

//! Fake machines for tests: small files below a temporary directory.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// A directory that looks like `/` of some machine.
pub(crate) struct FakeRoot(TempDir);

impl FakeRoot {
    pub(crate) fn new() -> Self {
        FakeRoot(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes files: path and content.
    pub(crate) fn with(self, files: &[(&str, &str)]) -> Self {
        for (path, content) in files {
            self.write(path, content.as_bytes());
        }
        self
    }

    pub(crate) fn write(&self, path: &str, content: &[u8]) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn write_gz(&self, path: &str, content: &str) {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(content.as_bytes()).unwrap();
        self.write(path, &packed.finish().unwrap());
    }

    /// Removes a file or directory.
    pub(crate) fn without(self, path: &str) -> Self {
        let path = self.path().join(path);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        self
    }
}

/// A laptop: 2 cores of 2 threads, CPU 3 offline, Debian's kernel.
pub(crate) fn laptop() -> FakeRoot {
    let fake = FakeRoot::new().with(&[
        ("proc/sys/kernel/hostname", "laptop\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.55-1 (2023-09-29)\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Core(TM) i5\nflags\t\t: fpu vme\n"),
        ("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n"),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n"),
        ("proc/self/status", "Name:\tidlewave\nCpus_allowed_list:\t0-3\n"),
        ("proc/self/cgroup", "0::/user.slice/session.scope\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
        ("proc/2/comm", "kthreadd\n"),
        ("proc/400/comm", "irqbalance\n"),
        ("boot/config-6.1.0-13-amd64", "CONFIG_HZ_250=y\nCONFIG_HZ=250\nCONFIG_PREEMPT_VOLUNTARY=y\n"),
        ("sys/devices/system/cpu/online", "0-2\n"),
        ("sys/devices/system/cpu/possible", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1\n"),
        ("sys/devices/system/node/online", "0\n"),
        ("sys/devices/system/node/node0/cpulist", "0-2\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ]);
    for cpu in 0..3u32 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let siblings: &[u8] = if cpu < 2 { b"0-1\n" } else { b"2\n" };
        fake.write(&format!("{dir}/topology/core_cpus_list"), siblings);
        fake.write(
            &format!("{dir}/topology/core_id"),
            format!("{}\n", cpu / 2).as_bytes(),
        );
        fake.write(&format!("{dir}/topology/physical_package_id"), b"0\n");
        fake.write(&format!("{dir}/cpufreq/scaling_governor"), b"powersave\n");
    }
    fake
}

/// A node of a cluster: 2 packages of 64 cores of 2 threads, 4 NUMA nodes, CPUs 1-127 isolated.
/// Hardware threads of core n are CPUs n and n + 128.
pub(crate) fn node_of_256() -> FakeRoot {
    let fake = FakeRoot::new().with(&[
        ("proc/sys/kernel/hostname", "n0042\n"),
        ("proc/sys/kernel/arch", "x86_64\n"),
        ("proc/sys/kernel/osrelease", "5.14.0-70.el9.x86_64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT Thu Mar 24 2022\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763\nflags\t: fpu\n"),
        ("proc/cmdline", "isolcpus=1-127 nohz_full=1-127 rcu_nocbs=200-N\n"),
        ("proc/self/status", "Cpus_allowed_list:\t1-127,129-255\n"),
        ("proc/2/comm", "kthreadd\n"),
        ("sys/devices/system/cpu/online", "0-255\n"),
        ("sys/devices/system/cpu/possible", "0-511\n"),
        ("sys/devices/system/cpu/isolated", "1-127\n"),
        ("sys/devices/system/cpu/nohz_full", "1-127\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
        ("sys/devices/system/node/online", "0-3\n"),
        ("sys/devices/system/node/node0/cpulist", "0-31,128-159\n"),
        ("sys/devices/system/node/node1/cpulist", "32-63,160-191\n"),
        ("sys/devices/system/node/node2/cpulist", "64-95,192-223\n"),
        ("sys/devices/system/node/node3/cpulist", "96-127,224-255\n"),
    ]);
    for cpu in 0..256u32 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let core = cpu % 128;
        let siblings = format!("{core},{}\n", core + 128);
        fake.write(&format!("{dir}/thread_siblings_list"), siblings.as_bytes());
        fake.write(
            &format!("{dir}/core_id"),
            format!("{}\n", core % 64).as_bytes(),
        );
        fake.write(
            &format!("{dir}/physical_package_id"),
            format!("{}\n", core / 64).as_bytes(),
        );
    }
    fake.write_gz(
        "proc/config.gz",
        "# CONFIG_HZ_250 is not set\nCONFIG_HZ=1000\n",
    );
    fake
}

/// An ARM server in a cloud: no SMT, no package number, no cache sizes.
pub(crate) fn arm_server() -> FakeRoot {
    FakeRoot::new().with(&[
        ("proc/sys/kernel/hostname", "arm\n"),
        ("proc/sys/kernel/osrelease", "5.10.0\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT 2021\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        ),
        ("proc/self/status", "Cpus_allowed_list:\t0-1\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "-1\n",
        ),
        ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0\n"),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "1\n"),
        ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/class/dmi/id/product_name", "c6g.large\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "arch_sys_counter\n",
        ),
    ])
}

/// A container: own cgroup namespace of version 2, its limit in the group above.
pub(crate) fn container() -> FakeRoot {
    laptop()
        .without("proc/2")
        .without("proc/400")
        .without("boot")
        .with(&[
            ("proc/self/cgroup", "0::/pod/app\n"),
            ("sys/fs/cgroup/pod/app/cpu.max", "300000 100000\n"),
            (
                "sys/fs/cgroup/pod/app/cpu.stat",
                "usage_usec 5\nnr_periods 9\nnr_throttled 3\n",
            ),
            ("sys/fs/cgroup/pod/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pod/cpu.stat", "nr_throttled 4\n"),
        ])
}

/// A container of version 1 without a cgroup namespace: its own group is mounted.
pub(crate) fn container_v1() -> FakeRoot {
    laptop().with(&[
        ("proc/self/cgroup", "9:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n0::/system.slice\n"),
        (
            "proc/self/mountinfo",
            "31 30 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             32 30 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             an odd line\n",
        ),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 7\n"),
    ])
}

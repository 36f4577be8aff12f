//! The host sheet: a node's hardware and its settings that matter for noise. `None` is "not known".

use idlewave_units::{Bytes, Cpu, CpuSet, Nanos};
use serde::{Deserialize, Serialize};

/// A node at the time of the run. Read from /proc, /sys and the CPU itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSheet {
    /// Host name.
    pub name: String,
    /// Processor architecture, as in `uname -m`.
    pub architecture: String,
    /// Model name of the processor.
    pub cpu_model: Option<String>,
    /// CPUs that are online.
    pub online: CpuSet,
    /// CPUs on which this process may run (its affinity, after cgroup limits).
    pub allowed: CpuSet,
    /// Location of every online CPU.
    pub topology: Vec<CpuTopology>,
    /// Number of NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// Caches of the first allowed CPU.
    pub caches: Vec<Cache>,
    /// Main memory.
    pub memory: Option<Bytes>,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Kernel build (`uname -v`), which names the preemption model on most builds.
    pub kernel_build: String,
    /// Kernel command line.
    pub kernel_command_line: Option<String>,
    /// Timer interrupts per second of a busy CPU (`CONFIG_HZ`).
    pub hz: Option<u32>,
    /// Preemption model: none, voluntary, full, lazy, rt.
    pub preemption: Option<String>,
    /// CPUs kept free of the scheduler's balancing (`isolcpus`).
    pub isolated: Option<CpuSet>,
    /// CPUs without a tick while one task runs (`nohz_full`).
    pub nohz_full: Option<CpuSet>,
    /// CPUs whose RCU callbacks run elsewhere (`rcu_nocbs`).
    pub rcu_nocbs: Option<CpuSet>,
    /// Frequency governor, if all CPUs have the same.
    pub governor: Option<String>,
    /// Whether the frequency may rise above nominal.
    pub turbo: Option<bool>,
    /// Whether several hardware threads share a core.
    pub smt: Option<bool>,
    /// Transparent huge pages: always, madvise, never.
    pub transparent_huge_pages: Option<String>,
    /// CPU bandwidth limit of this process's cgroup; `None` if there is no limit.
    pub cgroup_quota: Option<CgroupQuota>,
    /// Whether irqbalance is running.
    pub irqbalance: Option<bool>,
    /// Hypervisor, if this is a virtual machine ("kvm", "unknown hypervisor").
    pub hypervisor: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Real-time tasks' share: `sched_rt_runtime_us` of `sched_rt_period_us`; -1 in the kernel is
    /// `None` here (unlimited).
    pub rt_runtime_us: Option<u64>,
    /// Settings that could not be read, with the reason.
    pub unreadable: Vec<String>,
}

/// Location of one CPU in the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTopology {
    /// The CPU.
    pub cpu: Cpu,
    /// Core number within its package.
    pub core: Option<u32>,
    /// Physical package (socket).
    pub package: Option<u32>,
    /// NUMA node.
    pub numa: Option<u32>,
    /// CPUs on the same core, this one included.
    pub siblings: Option<CpuSet>,
}

/// One level of cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3, ...
    pub level: u32,
    /// Data, Instruction or Unified.
    pub kind: String,
    /// Size.
    pub size: Bytes,
    /// CPUs that share it.
    pub shared_by: CpuSet,
}

/// A limit of CPU time: `quota` in every `period`. Exhausting it stops all threads until the period
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupQuota {
    /// CPU time granted per period, all CPUs together.
    pub quota: Nanos,
    /// The period, usually 100 ms.
    pub period: Nanos,
}

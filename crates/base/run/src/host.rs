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

/// Load by other processes during the run, from the difference of two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contamination {
    /// Wall time between the two readings.
    pub wall: Nanos,
    /// Online CPUs over which the shares are taken.
    pub cpus: u32,
    /// Share of all CPU time used by processes other than this one and the recorded program, 0..=1.
    /// Resolution: one tick per CPU.
    pub others: Option<f64>,
    /// Share of all CPU time that the hypervisor gave to other guests, 0..=1.
    pub steal: Option<f64>,
    /// Tasks other than this process that took most CPU time in between: name, nanoseconds; largest
    /// first. In a manifest from a sample of living processes, in findings from the kernel trace if
    /// there is one.
    pub top_tasks: Vec<(String, u64)>,
    /// Share of wall time during which some task waited for a CPU (`/proc/pressure/cpu`), 0..=1.
    pub cpu_pressure: Option<f64>,
    /// How often this process's cgroup was throttled.
    pub throttled: Option<u64>,
}

impl Contamination {
    /// A run is flagged above this share of others (reference: acceptance test 7, "others > 2 %").
    pub const FLAG_ABOVE: f64 = 0.02;

    /// Whether others used so much CPU time that the findings describe them as much as the machine.
    pub fn is_flagged(&self) -> bool {
        self.others.is_some_and(|o| o > Self::FLAG_ABOVE)
    }

    /// CPU time used by others; `None` where it was not measured.
    pub fn others_used(&self) -> Option<Nanos> {
        let all = self.wall.as_f64() * f64::from(self.cpus);
        self.others
            .map(|share| Nanos::from_nanos((share * all).round() as u64))
    }
}

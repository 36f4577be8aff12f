//! Advice on one source of delay: the remedy, and how certain it is that this source is the cause.

use super::evidence::Evidence;
use super::gain::{at_scale, from_run};
use idlewave_run::findings::{Advice, Findings, SourceFinding};
use idlewave_run::{HostSheet, Manifest, PhaseKind, SourceKind, TraceMode};
use idlewave_units::foreign::shell_word;
use idlewave_units::{NodeId, counted};
use std::collections::BTreeMap;

/// Remedy for a limit of CPU time.
pub(super) const RAISE_LIMIT: &str = "raise or lift the CPU limit of this container or group";

/// Sources with less than this share of the lateness are not worth moving, unless a prediction says
/// otherwise.
const WORTH_MOVING: f64 = 0.05;

/// A source with everything known about it.
pub(super) struct Cause<'a> {
    pub findings: &'a Findings,
    pub evidence: &'a Evidence,
    pub manifest: &'a Manifest,
    /// Its index in the table of sources.
    pub index: usize,
}

/// A remedy, its subject, and how certain the cause is.
struct Remedy {
    action: String,
    command: Option<String>,
    /// What cost the ranks their time, as the subject of a sentence.
    subject: String,
    /// What else is known.
    known: Option<String>,
    inferred: bool,
    /// Whether it saves what the source costs.
    saves: bool,
}

impl Remedy {
    fn new(action: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            command: None,
            subject: "it".to_owned(),
            known: None,
            inferred: false,
            saves: true,
        }
    }

    fn by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    fn of(mut self, subject: &str) -> Self {
        self.subject = subject.to_owned();
        self
    }

    fn inferred(mut self, known: impl Into<String>) -> Self {
        self.known = Some(known.into());
        self.inferred = true;
        self
    }
}

impl Cause<'_> {
    fn source(&self) -> &SourceFinding {
        &self.findings.sources[self.index]
    }

    fn host(&self) -> Option<&HostSheet> {
        self.manifest.nodes.first().map(|n| &n.host)
    }

    /// Advice on this source; `None` if it cost too little, or there is no remedy.
    pub(super) fn advice(&self) -> Option<Advice> {
        let gain = at_scale(self.findings, self.source());
        let late = self.source().lateness.as_f64();
        let matters = late > 0.0 && late >= WORTH_MOVING * self.findings.lateness.as_f64();
        if gain.is_none() && !matters {
            return None;
        }
        let remedy = self.remedy()?;
        let mut reason = format!("{} {}", remedy.subject, self.cost());
        if let Some(known) = &remedy.known {
            reason.push_str(&format!("; {known}"));
        }
        if !remedy.saves {
            return matters.then(|| insight(remedy.action, reason, remedy.command));
        }
        let gain = gain.or_else(|| from_run(self.findings, self.evidence, self.index))?;
        Some(Advice {
            action: remedy.action,
            reason,
            command: remedy.command,
            gain: Some(gain),
            inferred: remedy.inferred,
        })
    }

    /// The cost of the source in this run, in words.
    fn cost(&self) -> String {
        let source = self.source();
        let recorded = is_recorded(self.findings);
        if recorded && self.findings.program.is_none() {
            // There are no ranks that wait for each other.
            return format!("took {} from the threads of the program", source.lateness);
        }
        let late = match (source.late_steps, recorded) {
            (0, _) => String::new(),
            (1, false) => "made 1 step late and ".to_owned(),
            (n, false) => format!("made {n} late and ", n = counted(n, "step")),
            (1, true) => "made ranks wait once and ".to_owned(),
            (n, true) => format!("made ranks wait {n} and ", n = counted(n, "time")),
        };
        format!("{late}cost all ranks {} together", source.lost)
    }

    /// Whose CPUs are to be kept free.
    fn victims(&self) -> &'static str {
        match is_recorded(self.findings) && self.findings.program.is_none() {
            true => "program",
            false => "ranks",
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        let name = &self.source().name;
        let victims = self.victims();
        Some(match self.source().kind {
            SourceKind::Task => Remedy::new(format!("keep `{name}` off the CPUs of the {victims}")).by(
                format!(
                    "pgrep -x -- {} | xargs -r -n1 taskset -apc <other CPUs>",
                    shell_word(name)
                ),
            ),
            SourceKind::KernelThread if name == "kworker" => {
                Remedy::new(format!("keep the work queues off the CPUs of the {victims}"))
                    .by("echo <mask of other CPUs> > /sys/devices/virtual/workqueue/cpumask")
            }
            SourceKind::KernelThread => Remedy::new(format!(
                "keep the kernel thread `{name}` away: boot with isolcpus= and rcu_nocbs=<CPUs of the {victims}>"
            )),
            SourceKind::Irq => Remedy::new(format!("move the interrupt `{name}` to another CPU"))
                .by(format!(
                    "grep {} /proc/interrupts; echo <other CPUs> > /proc/irq/<number>/smp_affinity_list",
                    shell_word(name)
                )),
            SourceKind::Softirq => Remedy::new(format!(
                "move the interrupt or the task that raises the softirq {name}"
            ))
            .by("grep . /proc/softirqs"),
            SourceKind::TimerTick => {
                Remedy::new(format!("stop the timer tick: boot with nohz_full=<CPUs of the {victims}>"))
            }
            SourceKind::Hypervisor => self.gaps(),
            SourceKind::SlowLevel => self.slow_level(),
            SourceKind::SharedMemory if self.findings.program.is_none() => {
                let virtual_cpus = self.host().is_some_and(|h| h.hypervisor.is_some());
                match virtual_cpus {
                    true => Remedy::new("ask the operator of the host to pin the virtual CPUs to cores that share a cache"),
                    false => Remedy::new("put ranks that exchange messages on cores that share a cache"),
                }
                .of("slow messages between the CPUs of this machine")
                .inferred("that messages were slower for milliseconds at a time is measured, why they were is not")
            }
            SourceKind::PageFault => {
                Remedy::new("touch all memory before the main loop, or use huge pages")
            }
            SourceKind::Migration => self.binding("bind each rank to a CPU"),
            SourceKind::Rank => self.sharing(),
            SourceKind::Throttled => Remedy::new(RAISE_LIMIT),
            SourceKind::Blocked if self.findings.program.is_some() => Remedy {
                saves: false,
                ..Remedy::new("find out why ranks sleep between their calls: file access, locks, sleep()")
                    .of("that sleep")
            },
            SourceKind::Imbalance => Remedy::new("give the ranks equal work")
                .of("the longer computation that some ranks repeat"),
            SourceKind::OtherTask | SourceKind::Unexplained
                if self.findings.trace.mode != TraceMode::Tracefs =>
            {
                let allow = self.findings.trace.unavailable.iter().find_map(|u| u.allow.clone());
                Remedy {
                    command: allow,
                    saves: false,
                    ..Remedy::new("record the kernel's view as well, to learn who interrupts the ranks")
                        .of("what could not be named")
                }
            }
            _ => return None,
        })
    }

    /// Gaps without a record of the kernel: the hypervisor is one of several possible causes.
    fn gaps(&self) -> Remedy {
        let steal = self.findings.contamination.steal;
        let is_virtual = self.host().is_some_and(|h| h.hypervisor.is_some());
        let gaps = self.evidence.gaps.unwrap_or_default();
        let known = gaps.known(steal);
        let firmware = "perf stat -a -e msr/smi/ sleep 10";
        match (is_virtual, gaps.is_steal(steal), gaps.are_short()) {
            (true, true, _) => Remedy {
                known: Some(known),
                ..Remedy::new("use CPUs that no other virtual machine shares")
            },
            (true, false, true) => Remedy::new(
                "ask the operator of the host for its interrupts on these CPUs and for the exits of this virtual machine",
            )
            .inferred(format!(
                "{known}. Gaps this short are more likely interrupts of the host, exits to it, system-management \
                 interrupts or steps of the clock than another virtual machine"
            )),
            (true, false, false) => Remedy::new(
                "ask the operator of the host what else runs on these CPUs",
            )
            .inferred(format!("{known}. Steal time does not show another virtual machine to be the cause")),
            (false, ..) => Remedy::new("check for system-management interrupts of the firmware")
                .by(firmware)
                .inferred(format!("{known}. No hypervisor was found, so firmware is the likely cause")),
        }
    }

    fn slow_level(&self) -> Remedy {
        let host = self.host();
        let governor = host.and_then(|h| h.governor.as_deref());
        let remedy = match governor {
            Some(governor) if governor != "performance" => {
                Remedy::new(format!("fix the frequency (the governor is `{governor}`)"))
                    .by("cpupower frequency-set -g performance")
            }
            _ if host.and_then(|h| h.smt) == Some(true) => {
                Remedy::new("leave the second hardware thread of each core idle")
            }
            _ => Remedy::new("look for what shares a core, memory or the host with the ranks"),
        };
        remedy
            .of("slow stretches")
            .inferred("that the CPU was slow is measured, why it was is not")
    }

    /// Ranks that had to share a CPU: bind them if there is one CPU for each, otherwise use fewer.
    fn sharing(&self) -> Remedy {
        let mut ranks: BTreeMap<NodeId, u64> = BTreeMap::new();
        for sheet in &self.manifest.ranks {
            *ranks.entry(sheet.node).or_default() += 1;
        }
        let cpus = |node: NodeId| {
            let sheet = self.manifest.nodes.iter().find(|n| n.node == node)?;
            let allowed = [&sheet.host.allowed, &sheet.host.online];
            let known = allowed.into_iter().find(|set| !set.is_empty())?;
            Some(known.len() as u64)
        };
        let crowded = ranks
            .iter()
            .find_map(|(&node, &n)| cpus(node).filter(|&c| n > c).map(|c| (n, c)));
        match crowded {
            None => self
                .binding("bind each rank to its own CPU")
                .of("ranks on the same CPU"),
            Some((ranks, cpus)) => Remedy {
                saves: false,
                known: Some(
                    "sharing CPUs is not noise: until every rank has its own CPU, these waits tell nothing about the machine"
                        .to_owned(),
                ),
                ..Remedy::new(format!(
                    "start fewer ranks, or use more nodes: {ranks} share {cpus} CPU{}",
                    if cpus == 1 { "" } else { "s" }, ranks = counted(ranks, "rank")))
                .of("ranks on the same CPU")
            },
        }
    }

    /// Binding option of the launcher of the recorded MPI library.
    fn binding(&self, action: &str) -> Remedy {
        let library = self.manifest.phases.iter().find_map(|p| match &p.kind {
            PhaseKind::Recorded { library, .. } => library.as_deref(),
            _ => None,
        });
        let command = match library {
            Some(name) if name.starts_with("MPICH") || name.starts_with("Intel") => {
                "mpiexec -bind-to core ..."
            }
            _ => "mpirun --bind-to core ...",
        };
        Remedy::new(action).by(command)
    }
}

/// Advice that saves nothing itself.
pub(super) fn insight(action: String, reason: String, command: Option<String>) -> Advice {
    Advice {
        action,
        reason,
        command,
        gain: None,
        inferred: false,
    }
}

/// Whether the findings are of a recorded program only: then delays make ranks wait, not steps
/// late.
fn is_recorded(findings: &Findings) -> bool {
    findings.lockstep.is_empty() && findings.cpus.is_empty()
}

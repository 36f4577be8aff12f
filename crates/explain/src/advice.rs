//! What to do, each with this machine's own numbers.

use idlewave_run::findings::{Advice, Findings, SourceFinding, Topology};
use idlewave_run::{HostSheet, SourceKind};
use idlewave_units::Nanos;

/// A slow-down that most users would rather live with than work on.
const TOLERABLE: f64 = 0.05;
/// Sources that make less than this share of the lateness are not worth moving.
const WORTH_MOVING: f64 = 0.05;

/// Advice from complete findings (the prediction included), most useful first.
pub fn advise(findings: &Findings, host: &HostSheet) -> Vec<Advice> {
    let mut out = Vec::new();
    contaminated(findings, &mut out);
    throttled(findings, host, &mut out);
    for source in worth_moving(findings) {
        out.extend(remove(findings, host, source));
    }
    warm_up(findings, &mut out);
    quieter_cpus(findings, &mut out);
    granularity(findings, &mut out);
    synchronisation(findings, &mut out);
    out
}

/// Whether nothing but a recorded program is in the findings: then what is late are delays rather than steps.
fn is_recorded(findings: &Findings) -> bool {
    findings.lockstep.is_empty() && findings.cpus.is_empty()
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent.abs() < 10.0 { 1 } else { 0 };
    format!("{percent:.decimals$} %")
}

fn contaminated(findings: &Findings, out: &mut Vec<Advice>) {
    let c = &findings.contamination;
    if !c.is_flagged() {
        return;
    }
    let names: Vec<String> = c
        .top_tasks
        .iter()
        .take(3)
        .map(|(name, ns)| format!("{name} ({})", Nanos::from_nanos(*ns)))
        .collect();
    let who = if names.is_empty() {
        String::new()
    } else {
        format!(": {}", names.join(", "))
    };
    out.push(Advice {
        action: "repeat the run while the machine is idle".to_owned(),
        reason: format!(
            "others used {} of its CPU time meanwhile{who}; the findings speak of them too",
            percent(c.others.unwrap_or(0.0))
        ),
        command: None,
    });
}

fn throttled(findings: &Findings, host: &HostSheet, out: &mut Vec<Advice>) {
    if let (Some(quota), Some(times)) = (host.cgroup_quota, findings.contamination.throttled) {
        if times > 0 {
            out.push(Advice {
                action: "raise or lift the CPU limit of this container or group".to_owned(),
                reason: format!(
                    "the limit of {} per {} stopped all threads {times} times during the run",
                    quota.quota, quota.period
                ),
                command: None,
            });
        }
    }
}

fn worth_moving(findings: &Findings) -> impl Iterator<Item = &SourceFinding> {
    let all = findings.lateness.as_f64();
    findings
        .sources
        .iter()
        .filter(move |s| all > 0.0 && s.lateness.as_f64() >= WORTH_MOVING * all)
        .take(4)
}

/// What a source costs, in words: measured here, and at the largest scale predicted.
fn cost(findings: &Findings, source: &SourceFinding) -> String {
    if is_recorded(findings) && findings.program.is_none() {
        // It has no ranks that wait for each other.
        return format!("took {} from the threads of the program", source.lateness);
    }
    let late = match (source.late_steps, is_recorded(findings)) {
        (0, _) => String::new(),
        (1, false) => "made 1 step late and ".to_owned(),
        (n, false) => format!("made {n} steps late and "),
        (1, true) => "made ranks wait once and ".to_owned(),
        (n, true) => format!("made ranks wait {n} times and "),
    };
    let mut text = format!("{late}cost all ranks {} together", source.lost);
    if let Some(gain) = gain_at_scale(findings, source) {
        text.push_str(&gain);
    }
    text
}

fn gain_at_scale(findings: &Findings, source: &SourceFinding) -> Option<String> {
    let prediction = findings.prediction.as_ref()?;
    let without = prediction
        .without
        .iter()
        .find(|w| w.kind == source.kind && w.name == source.name)?;
    let at_end = |curves: &[idlewave_run::findings::Curve]| {
        let curve = curves.iter().find(|c| c.topology == Topology::Torus3d)?;
        curve.points.last().map(|p| (p.ranks, p.slowdown.value))
    };
    let (ranks, with) = at_end(&prediction.curves)?;
    let (_, less) = at_end(&without.curves)?;
    Some(format!(
        "; at {ranks} ranks in 3D the slow-down would be {} instead of {}",
        percent(less),
        percent(with)
    ))
}

/// A name as one word of a shell, whatever is in it: anybody may name a process, and an administrator types this.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

fn remove(findings: &Findings, host: &HostSheet, source: &SourceFinding) -> Option<Advice> {
    let name = &source.name;
    let (action, command) = match source.kind {
        SourceKind::Task => (
            format!("keep `{name}` off the CPUs of the ranks"),
            Some(format!(
                "pgrep -x -- {} | xargs -r -n1 taskset -apc <other CPUs>",
                quoted(name)
            )),
        ),
        SourceKind::KernelThread if name == "kworker" => (
            "keep the work queues off the CPUs of the ranks".to_owned(),
            Some("echo <mask of other CPUs> > /sys/devices/virtual/workqueue/cpumask".to_owned()),
        ),
        SourceKind::KernelThread => (
            format!(
                "keep the kernel thread `{name}` away: boot with isolcpus= and rcu_nocbs=<CPUs of the ranks>"
            ),
            None,
        ),
        SourceKind::Irq => (
            format!("move the interrupt `{name}` to another CPU"),
            Some(format!(
                "grep {} /proc/interrupts; echo <other CPUs> > /proc/irq/<number>/smp_affinity_list",
                quoted(name)
            )),
        ),
        SourceKind::Softirq => (
            format!("move the interrupt or the task that raises the softirq {name}"),
            Some("grep . /proc/softirqs".to_owned()),
        ),
        SourceKind::TimerTick => (
            "switch the timer tick off: boot with nohz_full=<CPUs of the ranks>".to_owned(),
            None,
        ),
        SourceKind::Hypervisor => (
            "ask for CPUs that no other virtual machine uses".to_owned(),
            None,
        ),
        SourceKind::SlowLevel => match host.governor.as_deref() {
            Some(governor) if governor != "performance" => (
                format!("fix the frequency (the governor is `{governor}`)"),
                Some("cpupower frequency-set -g performance".to_owned()),
            ),
            _ if host.smt == Some(true) => (
                "leave the second hardware thread of each core idle".to_owned(),
                None,
            ),
            _ => (
                "look for what shares core, memory or host with the ranks".to_owned(),
                None,
            ),
        },
        SourceKind::PageFault => (
            "touch all memory before the main loop, or use huge pages".to_owned(),
            None,
        ),
        SourceKind::Migration => (
            "bind the ranks to CPUs".to_owned(),
            Some("mpirun --bind-to core".to_owned()),
        ),
        SourceKind::Rank => (
            "give every rank a CPU of its own: start fewer ranks, or use more nodes".to_owned(),
            None,
        ),
        SourceKind::Blocked if findings.program.is_some() => (
            "look at why ranks sleep outside of MPI: input and output, locks, sleep".to_owned(),
            None,
        ),
        SourceKind::Imbalance => ("give the ranks equal work".to_owned(), None),
        SourceKind::OtherTask | SourceKind::Unexplained
            if findings.trace.mode != idlewave_run::TraceMode::Tracefs =>
        {
            (
                "let idlewave see who interrupts".to_owned(),
                findings
                    .trace
                    .unavailable
                    .iter()
                    .find_map(|u| u.allow.clone()),
            )
        }
        _ => return None,
    };
    let reason = match source.kind {
        SourceKind::SlowLevel => format!("slow stretches {}", cost(findings, source)),
        SourceKind::Rank => format!("ranks on the same CPU {}", cost(findings, source)),
        SourceKind::Blocked => format!("that {}", cost(findings, source)),
        SourceKind::Imbalance => format!(
            "what some had to compute more than others {}",
            cost(findings, source)
        ),
        _ => format!("it {}", cost(findings, source)),
    };
    Some(Advice {
        action,
        reason,
        command,
    })
}

fn warm_up(findings: &Findings, out: &mut Vec<Advice>) {
    let longest = findings
        .cpus
        .iter()
        .filter_map(|c| {
            let w = &c.fixed_work.as_ref()?.warm_up;
            Some((w.settled_after?, w.ratio, c.cpu))
        })
        .filter(|(settled, _, _)| *settled > Nanos::ZERO)
        .max_by_key(|(settled, _, _)| *settled);
    if let Some((settled, ratio, cpu)) = longest {
        out.push(Advice {
            action: format!("start measuring after {settled} of load"),
            reason: format!("on CPU {cpu} the same work took {ratio:.2} times as long until then"),
            command: None,
        });
    }
}

fn quieter_cpus(findings: &Findings, out: &mut Vec<Advice>) {
    let stolen = |c: &idlewave_run::findings::CpuNoise| {
        c.detours.as_ref().map(|d| (c.cpu, d.stolen.clone()))
    };
    let all: Vec<_> = findings.cpus.iter().filter_map(stolen).collect();
    let by = |a: &(_, idlewave_run::findings::Estimate),
              b: &(_, idlewave_run::findings::Estimate)| {
        a.1.value.total_cmp(&b.1.value)
    };
    let (Some(quiet), Some(loud)) = (
        all.iter().min_by(|a, b| by(a, b)),
        all.iter().max_by(|a, b| by(a, b)),
    ) else {
        return;
    };
    if quiet.0 != loud.0 && quiet.1.high < loud.1.low {
        out.push(Advice {
            action: format!(
                "prefer CPU {} to CPU {} for the rank that matters",
                quiet.0, loud.0
            ),
            reason: format!(
                "detours take {} of it against {}; the intervals do not overlap",
                percent(quiet.1.value),
                percent(loud.1.value)
            ),
            command: None,
        });
    }
}

fn granularity(findings: &Findings, out: &mut Vec<Advice>) {
    let Some(prediction) = &findings.prediction else {
        return;
    };
    for curve in &prediction.by_granularity {
        let Some(first) = curve.points.iter().find(|(_, s)| s.value <= TOLERABLE) else {
            continue;
        };
        let Some((shortest, worst)) = curve.points.first() else {
            continue;
        };
        if worst.value <= TOLERABLE {
            continue;
        }
        out.push(Advice {
            action: format!(
                "compute at least {} between two synchronisations ({}, {} ranks)",
                first.0,
                curve.topology.label(),
                curve.ranks
            ),
            reason: format!(
                "from there on the noise of this machine costs at most {}; at {shortest} it costs {}",
                percent(TOLERABLE),
                percent(worst.value)
            ),
            command: None,
        });
    }
}

fn synchronisation(findings: &Findings, out: &mut Vec<Advice>) {
    let Some(prediction) = &findings.prediction else {
        return;
    };
    let at_end = |topology| {
        let curve = prediction.curves.iter().find(|c| c.topology == topology)?;
        curve.points.last().map(|p| (p.ranks, p.slowdown.value))
    };
    let (Some((ranks, barrier)), Some((_, neighbours))) =
        (at_end(Topology::Barrier), at_end(Topology::Torus3d))
    else {
        return;
    };
    if barrier > TOLERABLE && barrier > 1.5 * neighbours {
        out.push(Advice {
            action: "synchronise with neighbours only, without blocking".to_owned(),
            reason: format!(
                "at {ranks} ranks a global barrier in every step costs {}, six neighbours cost {}",
                percent(barrier),
                percent(neighbours)
            ),
            command: None,
        });
    }
}

#[cfg(test)]
mod tests;

//! The simulated machine: CPUs with events that take time from their ranks, and two lockstep runs.

use super::Synthetic;
use idlewave_run::tables::{
    Burst, Bursts, Detour, Detours, EndReason, Interrupt, Interrupts, Region, RegionKind, Regions,
    Source, Sources, Task, TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    CgroupQuota, Contamination, Coupling, CpuTopology, HostSheet, Manifest, Phase, PhaseKind,
    RankSheet, SourceKind, Table, TraceCost, Unavailable,
};
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};

/// Undisturbed computation of an iteration.
pub(super) const WORK_NS: u64 = 20_000;
/// Undisturbed communication after the last arrival.
pub(super) const TALK_NS: u64 = 1_100;
/// Period and length of the culprit's strikes.
pub(super) const CULPRIT: (u64, u64) = (50_000_000, 500_000);

const NODE: NodeId = NodeId::new(0);
const CULPRIT_PID: Pid = Pid::new(4242);
const KWORKER_PID: Pid = Pid::new(37);

/// Something that takes a CPU: when, for how long, and of which kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub begin: u64,
    pub length: u64,
    pub what: What,
}

/// Kinds of events. The discriminants are the rows of the findings' table of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Culprit = 0,
    Gap = 1,
    Kworker = 2,
    Tick = 3,
}

/// A step that one rank made late.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub phase: u32,
    pub iteration: u64,
    pub last: u32,
    pub begin: u64,
    pub end: u64,
    /// Time taken from the last rank, per [`What`].
    pub taken: [u64; 4],
}

/// Everything that happened.
#[derive(Default)]
pub(super) struct Machine {
    pub tasks: Tasks,
    pub sources: Sources,
    pub bursts: Bursts,
    pub interrupts: Interrupts,
    pub regions: Regions,
    pub detours: Detours,
    pub steps: Vec<Step>,
    /// Start and end of the two phases.
    pub phases: Vec<(u64, u64)>,
    pub events: Vec<Vec<Event>>,
}

impl Machine {
    pub(super) fn run(what: &Synthetic) -> Self {
        let ranks = what.ranks.max(1);
        // Twice the undisturbed time leaves room for what the events take.
        let horizon = what.begin_ns + 2 * what.iterations * 2 * (WORK_NS + TALK_NS) + 100_000_000;
        let mut machine = Self {
            events: (0..ranks)
                .map(|c| events(c, what.begin_ns, horizon))
                .collect(),
            ..Self::default()
        };
        machine.name_tasks(what);
        let mut now = what.begin_ns + 1_000_000;
        for phase in 0..2 {
            let begin = now;
            now = machine.lockstep(phase, now, what.iterations);
            machine.phases.push((begin, now));
            now += 5_000_000;
        }
        machine.record(what.begin_ns, now);
        machine
    }

    fn name_tasks(&mut self, what: &Synthetic) {
        let mut task = |pid: u32, name: &str, kind| {
            self.tasks.push(Task {
                node: NODE,
                pid: Pid::new(pid),
                process: None,
                name: name.to_owned(),
                kind,
            });
        };
        task(0, "swapper", TaskKind::Idle);
        task(KWORKER_PID.get(), "kworker/1:2", TaskKind::Kernel);
        task(CULPRIT_PID.get(), &what.culprit, TaskKind::User);
        for rank in 0..what.ranks.max(1) {
            task(1000 + rank, &format!("iw-rank-{rank}"), TaskKind::Rank);
        }
        let tick = Source {
            id: 0,
            kind: SourceKind::TimerTick,
            name: "timer tick".to_owned(),
        };
        self.sources.push(tick);
    }

    /// Runs a lockstep phase in which all ranks wait for all (as they do on a ring of two).
    fn lockstep(&mut self, phase: u32, begin: u64, iterations: u64) -> u64 {
        let ranks = self.events.len();
        let talk = if phase == 0 {
            RegionKind::Exchange
        } else {
            RegionKind::Barrier
        };
        let mut ready = begin;
        for iteration in 0..iterations {
            let done: Vec<(u64, [u64; 4])> =
                (0..ranks).map(|r| self.work(phase, r, ready)).collect();
            let last = (0..ranks)
                .max_by_key(|&r| (done[r].0, std::cmp::Reverse(r)))
                .unwrap_or(0);
            let next = done[last].0 + TALK_NS;
            for (r, &(end, _)) in done.iter().enumerate() {
                let rank = Rank::new(r as u32);
                let region = |kind, begin_ns, end_ns, bytes| Region {
                    rank,
                    phase,
                    iteration,
                    kind,
                    begin_ns,
                    end_ns,
                    bytes,
                };
                self.regions
                    .push(region(RegionKind::Compute, ready, end, None));
                self.regions.push(region(
                    talk,
                    end,
                    next,
                    (phase == 0).then(|| Bytes::new(2048)),
                ));
            }
            let (end, taken) = done[last];
            self.steps.push(Step {
                phase,
                iteration,
                last: last as u32,
                begin: ready - TALK_NS,
                end,
                taken,
            });
            ready = next;
        }
        ready
    }

    /// Computes on one CPU from `at`: returns when it is done and how much each kind took
    /// meanwhile.
    fn work(&mut self, phase: u32, rank: usize, at: u64) -> (u64, [u64; 4]) {
        let events = &self.events[rank];
        let mut taken = [0; 4];
        let mut now = at;
        // A little spread, so that different ranks arrive last.
        let mut left = WORK_NS + (at / 7 + rank as u64 * 131) % 97;
        let mut i = events.partition_point(|e| e.begin + e.length <= at);
        loop {
            let event = events.get(i).copied().unwrap_or(Event {
                begin: u64::MAX,
                length: 0,
                what: What::Tick,
            });
            if now.saturating_add(left) <= event.begin {
                return (now + left, taken);
            }
            let begin = event.begin.max(now);
            left -= begin - now;
            now = event.begin + event.length;
            taken[event.what as usize] += now - begin;
            self.detours.push(Detour {
                phase,
                cpu: Cpu::new(rank as u32),
                rank: Some(Rank::new(rank as u32)),
                begin_ns: begin,
                length: Nanos::from_nanos(now - begin),
            });
            i += 1;
        }
    }

    /// Records what a kernel trace would have seen.
    fn record(&mut self, begin: u64, end: u64) {
        for (c, events) in self.events.iter().enumerate() {
            let cpu = Cpu::new(c as u32);
            let mut since = begin;
            for event in events.iter().take_while(|e| e.begin + e.length < end) {
                let (from, to) = (event.begin, event.begin + event.length);
                let pid = match event.what {
                    What::Culprit => CULPRIT_PID,
                    What::Kworker => KWORKER_PID,
                    // A hypervisor gap leaves no record.
                    What::Gap => continue,
                    What::Tick => {
                        self.interrupts.push(Interrupt {
                            node: NODE,
                            cpu,
                            source: 0,
                            pid: Pid::new(1000 + c as u32),
                            begin_ns: from,
                            end_ns: to,
                            depth: 0,
                            certain: true,
                        });
                        continue;
                    }
                };
                let mut burst = |pid, begin_ns, end_ns, end_reason| {
                    self.bursts.push(Burst {
                        node: NODE,
                        cpu,
                        pid,
                        begin_ns,
                        end_ns,
                        end_reason,
                        certain: true,
                    });
                };
                burst(Pid::new(1000 + c as u32), since, from, EndReason::Preempted);
                burst(pid, from, to, EndReason::Sleeping);
                since = to;
            }
            self.bursts.push(Burst {
                node: NODE,
                cpu,
                pid: Pid::new(1000 + c as u32),
                begin_ns: since,
                end_ns: end,
                end_reason: EndReason::Unknown,
                certain: false,
            });
        }
    }

    pub(super) fn manifest(&self, what: &Synthetic) -> Manifest {
        let mut manifest = empty_manifest();
        manifest.idlewave = "0.1.0".to_owned();
        manifest.command = ["idlewave", "study", "-o", "night run"]
            .map(str::to_owned)
            .into();
        manifest.phases = self
            .phases
            .iter()
            .enumerate()
            .map(|(i, p)| phase(i, *p, what.iterations))
            .collect();
        manifest.ranks = (0..what.ranks.max(1))
            .map(|r| RankSheet {
                process: None,
                rank: Rank::new(r),
                node: NODE,
                cpu: Some(Cpu::new(r)),
                threads: vec![Pid::new(1000 + r); 2],
                priority: None,
            })
            .collect();
        manifest.losses.enter(
            "kernel events overwritten on CPU 1",
            12,
            "strikes in 2 ms of the run are not named",
            "give the trace a larger buffer",
        );
        let node = &mut manifest.nodes[0];
        node.host = host(what.ranks.max(1));
        node.clock.counter = "tsc".to_owned();
        node.clock.quantum_ns = 9.63;
        node.clock.error = Nanos::from_nanos(41);
        node.trace.cost = TraceCost {
            events: 48_210,
            lost: 12,
            reader: Nanos::from_micros(900),
            event_ns: Some(180.0),
            wall: Nanos::from_millis(600),
            cpus: what.ranks.max(1),
        };
        node.trace.unavailable.push(Unavailable {
            what: "frequency of every CPU".to_owned(),
            why: "cpufreq: the hypervisor shows none".to_owned(),
            allow: None,
        });
        node.contamination = Contamination {
            wall: Nanos::from_millis(600),
            cpus: what.ranks.max(1),
            others: Some(0.034),
            steal: Some(0.0021),
            top_tasks: vec![
                (what.culprit.clone(), 6_000_000),
                ("systemd-journal".to_owned(), 1_200_000),
            ],
            cpu_pressure: Some(0.012),
            throttled: Some(0),
        };
        manifest
    }
}

fn phase(index: usize, (begin_ns, end_ns): (u64, u64), iterations: u64) -> Phase {
    Phase {
        kind: PhaseKind::Lockstep {
            coupling: if index == 0 {
                Coupling::Neighbours
            } else {
                Coupling::Barrier
            },
            work_steps: 12_345,
            work_target: Nanos::from_nanos(WORK_NS),
            message_bytes: if index == 0 { 1024 } else { 0 },
            sides: Vec::new(),
            neighbourhood: Default::default(),
            variant: idlewave_run::ExchangeVariant::NonBlocking,
            ranks: None,
            iterations,
            threshold: Nanos::from_nanos(300),
            turn: None,
        },
        begin_ns,
        end_ns,
    }
}

pub(super) fn host(cpus: u32) -> HostSheet {
    let online: idlewave_units::CpuSet = (0..cpus).map(Cpu::new).collect();
    HostSheet {
        name: "node0".to_owned(),
        architecture: "x86_64".to_owned(),
        cpu_model: Some("Synthetic CPU @ 2.70GHz".to_owned()),
        allowed: online.clone(),
        topology: (0..cpus)
            .map(|c| CpuTopology {
                cpu: Cpu::new(c),
                core: Some(c),
                package: Some(0),
                numa: Some(0),
                siblings: None,
            })
            .collect(),
        online,
        numa_nodes: Some(1),
        memory: Some(Bytes::new(8 << 30)),
        kernel: "6.12.0".to_owned(),
        kernel_build: "#1 SMP PREEMPT_DYNAMIC".to_owned(),
        hz: Some(250),
        preemption: Some("voluntary".to_owned()),
        smt: Some(false),
        transparent_huge_pages: Some("madvise".to_owned()),
        cgroup_quota: Some(CgroupQuota {
            quota: Nanos::from_millis(200),
            period: Nanos::from_millis(100),
        }),
        hypervisor: Some("kvm".to_owned()),
        clock_source: Some("kvm-clock".to_owned()),
        unreadable: vec!["turbo: no such file".to_owned()],
        ..HostSheet::default()
    }
}

/// The events of one CPU, without overlap: a tick of 3 us every 4 ms on all CPUs, the culprit on
/// CPU 0, a kernel thread on CPU 1 and, rarely, a gap that nothing records.
fn events(cpu: u32, begin: u64, end: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut comb = |first: u64, period: u64, length: u64, what| {
        let mut at = begin + first;
        while at < end {
            // Lengths vary by a few per cent, by a fixed rule.
            events.push(Event {
                begin: at,
                length: length + (at / period * 37 % 11) * length / 200,
                what,
            });
            at += period;
        }
    };
    comb(
        700_000 + u64::from(cpu) * 1_000_003,
        4_000_000,
        3_000,
        What::Tick,
    );
    if cpu == 0 {
        comb(11_300_000, CULPRIT.0, CULPRIT.1, What::Culprit);
    }
    if cpu == 1 {
        comb(23_100_000, 37_000_000, 80_000, What::Kworker);
    }
    comb(
        61_700_000 + u64::from(cpu) * 7_000_001,
        173_000_000,
        240_000,
        What::Gap,
    );
    events.sort_by_key(|e| e.begin);
    let mut free = 0;
    events.retain(|e| {
        let keep = e.begin >= free;
        if keep {
            free = e.begin + e.length;
        }
        keep
    });
    events
}

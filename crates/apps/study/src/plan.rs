//! What is measured: CPUs, ranks, parts, and how long each takes.

use crate::{CpuMeasurement, CpuOptions, Quantum, StudyOptions, Work};
use idlewave_run::{Coupling, Neighbour, WorkKernel};
use idlewave_session::SessionError;
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, Rank};
use idlewave_workloads::speed::Speed;
use std::time::Duration;

/// Gaps of at least this length are detours.
pub const THRESHOLD: Nanos = Nanos::from_micros(1);
/// The most rows that one part of a study may record over all ranks or CPUs, so that a node with 256
/// CPUs needs no more memory and disk than a small one.
const MOST_RECORDS: u64 = 4 << 20;
/// Bounds of the fixed work quantum: short enough to tell one tick from the next, long enough to
/// dwarf a clock reading.
const QUANTUM: [Nanos; 2] = [Nanos::from_micros(5), Nanos::from_millis(1)];

/// A part of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The detour loop on every CPU.
    Detours,
    /// The fixed work quantum on every CPU.
    FixedWork {
        /// The work.
        quantum: Quantum,
        /// Quanta per CPU, if they are not as many as fit into the duration.
        runs: Option<u64>,
    },
    /// The fixed time quantum on every CPU.
    FixedTime {
        /// The work of one unit.
        quantum: Quantum,
        /// The time of a quantum.
        every: Nanos,
    },
    /// A lockstep run of all ranks.
    Lockstep {
        /// How they meet.
        coupling: Coupling,
        /// Computation of one iteration.
        work: Nanos,
        /// The most iterations.
        max_iterations: u64,
    },
    /// Nothing: the CPUs become idle.
    Rest,
}

/// A part, how long it may take, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// What is measured.
    pub part: Part,
    /// The longest time.
    pub duration: Duration,
    /// The CPUs that measure; lockstep runs have the ranks' own.
    pub cpus: Vec<Cpu>,
}

impl Piece {
    /// The same on each of its CPUs, one after the other.
    fn one_at_a_time(&self) -> impl Iterator<Item = Piece> {
        let of = |cpu: &Cpu| Piece {
            cpus: vec![*cpu],
            ..self.clone()
        };
        self.cpus.iter().map(of)
    }

    /// How long it takes on CPUs of this speed.
    pub fn takes(&self, speed: Speed) -> Duration {
        match self.part {
            Part::FixedWork {
                quantum,
                runs: Some(runs),
            } => {
                let all = quantum.work.time(speed).get().saturating_mul(runs);
                self.duration.min(Duration::from_nanos(all))
            }
            _ => self.duration,
        }
    }
}

/// What to measure, in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// CPUs to measure.
    pub cpus: CpuSet,
    /// CPU of each rank; empty without lockstep runs.
    pub rank_cpus: Vec<Cpu>,
    /// The parts, one after the other.
    pub parts: Vec<Piece>,
    /// What runs on the CPUs that do not measure.
    pub neighbours: Vec<Neighbour>,
    /// Whether one CPU measures after the other.
    pub one_at_a_time: bool,
    /// Priority of the measuring threads under SCHED_FIFO; `None` for the ordinary policy.
    pub realtime: Option<u8>,
    /// The CPUs that this process may use.
    pub allowed: CpuSet,
    /// The size limit of the run on disk.
    pub max_size: Bytes,
}

impl Plan {
    /// Makes the plan of a study on the CPUs that this process may use.
    ///
    /// # Errors
    /// An option requests more than is available.
    pub fn of(options: &StudyOptions, allowed: &CpuSet) -> Result<Self, SessionError> {
        options.check()?;
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let list: Vec<Cpu> = cpus.iter().collect();
        let ranks = options.ranks.map_or(list.len(), |r| r as usize);
        let share = |percent: u64| Duration::from_nanos(options.duration.get() / 100 * percent);
        let lockstep = |coupling| Part::Lockstep {
            coupling,
            work: options.work,
            max_iterations: MOST_RECORDS / ranks as u64,
        };
        let work = few(&list, Work::Time(Self::quantum(options)));
        // A warm-up shows only after idleness: before, at most the speed of one CPU was measured.
        let parts = vec![
            on(&list, Part::Rest, share(4)),
            on(&list, work, share(5)),
            on(&list, Part::Detours, share(22)),
            on(&list, work, share(13)),
            on(&list, lockstep(Coupling::Neighbours), share(28)),
            on(&list, lockstep(Coupling::Barrier), share(28)),
        ];
        Ok(Self {
            rank_cpus: (0..ranks).map(|rank| list[rank % list.len()]).collect(),
            ..Self::plain(parts, cpus, allowed, options.max_size)
        })
    }

    /// Parts under the usual conditions, without ranks.
    fn plain(parts: Vec<Piece>, cpus: CpuSet, allowed: &CpuSet, max_size: Bytes) -> Self {
        Self {
            cpus,
            rank_cpus: Vec::new(),
            parts,
            neighbours: Vec::new(),
            one_at_a_time: false,
            realtime: None,
            allowed: allowed.clone(),
            max_size,
        }
    }

    /// Time of the fixed work quantum of a study.
    pub fn quantum(options: &StudyOptions) -> Nanos {
        options.work.clamp(QUANTUM[0], QUANTUM[1])
    }

    /// Makes the plan of a study of one of several nodes: detours and a quantum of `steps` on all
    /// CPUs of the node.
    ///
    /// # Errors
    /// As for [`Plan::of`].
    pub fn of_node(
        options: &StudyOptions,
        allowed: &CpuSet,
        steps: u64,
    ) -> Result<Self, SessionError> {
        options.check()?;
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let list: Vec<Cpu> = cpus.iter().collect();
        let share = |percent: u64| Duration::from_nanos(options.duration.get() / 100 * percent);
        let work = few(&list, Work::Steps(steps));
        let parts = vec![
            on(&list, Part::Detours, share(60)),
            on(&list, work, share(40)),
        ];
        Ok(Self::plain(parts, cpus, allowed, options.max_size))
    }

    /// Makes the plan of one measurement of every CPU.
    ///
    /// # Errors
    /// As for [`Plan::of`].
    pub fn of_cpus(options: &CpuOptions, allowed: &CpuSet) -> Result<Self, SessionError> {
        options.check()?;
        let duration = options.duration.to_duration();
        let cpus = chosen(options.cpus.as_ref(), allowed)?;
        let all: Vec<Cpu> = cpus.iter().collect();
        let fixed = |quantum, runs| Part::FixedWork { quantum, runs };
        let parts = match options.what {
            CpuMeasurement::Detours => vec![on(&all, Part::Detours, duration)],
            CpuMeasurement::FixedWork { quantum, runs } => {
                vec![on(&all, fixed(quantum, runs), duration)]
            }
            CpuMeasurement::FixedTime { quantum, every } => {
                vec![on(&all, Part::FixedTime { quantum, every }, duration)]
            }
            CpuMeasurement::WarmUp {
                quantum,
                starts,
                rest,
            } => {
                let start = [
                    on(&all, Part::Rest, rest.to_duration()),
                    on(&all, fixed(quantum, None), duration),
                ];
                vec![start; starts as usize].concat()
            }
            CpuMeasurement::LoadSweep { quantum } => {
                if all.len() < 2 {
                    return Err(SessionError::Option {
                        option: format!("--cpus {cpus}"),
                        reason: "a load sweep needs two CPUs or more".to_owned(),
                        next: "let this process use more CPUs".to_owned(),
                    });
                }
                let point = |busy: usize| {
                    [Part::Detours, fixed(quantum, None)]
                        .map(|part| on(&all[..busy], part, duration))
                };
                busy(all.len()).flat_map(point).collect()
            }
        };
        let plan = Self {
            cpus,
            rank_cpus: Vec::new(),
            parts: match options.one_at_a_time {
                true => parts.iter().flat_map(Piece::one_at_a_time).collect(),
                false => parts,
            },
            neighbours: options.neighbours.clone(),
            one_at_a_time: options.one_at_a_time,
            realtime: options.realtime,
            allowed: allowed.clone(),
            max_size: options.max_size,
        };
        plan.check_free()?;
        Ok(plan)
    }

    /// The CPUs that do not measure in a part.
    pub fn free(&self, piece: &Piece) -> CpuSet {
        self.allowed
            .difference(&piece.cpus.iter().copied().collect())
    }

    /// Refuses neighbours without a CPU, and real-time threads that would leave none to others: the
    /// one that collects their records, and everything that could end them.
    fn check_free(&self) -> Result<(), SessionError> {
        if self.parts.iter().all(|piece| !self.free(piece).is_empty()) {
            return Ok(());
        }
        let loads: Vec<&str> = self.neighbours.iter().map(|n| n.name()).collect();
        let (option, reason) = match self.realtime {
            Some(priority) => (
                format!("--realtime {priority}"),
                "all CPUs that this process may use would measure, and nothing else could run",
            ),
            None if loads.is_empty() => return Ok(()),
            None => (
                format!("--load {}", loads.join(",")),
                "all CPUs measure, and none is left for the load",
            ),
        };
        let next = match self.allowed.len() {
            1 => "let this process use a second CPU",
            _ => "add --one-at-a-time, or choose fewer CPUs with --cpus",
        };
        Err(SessionError::Option {
            option,
            reason: reason.to_owned(),
            next: next.to_owned(),
        })
    }

    /// The kernel whose speed decides how many steps take a time, and the size of its arrays: that of
    /// the fixed work; of lockstep runs the usual.
    pub fn kernel(&self) -> (WorkKernel, Option<Bytes>) {
        let mut parts = self.parts.iter().map(|piece| piece.part);
        let of = |part| match part {
            Part::FixedWork { quantum, .. } | Part::FixedTime { quantum, .. } => {
                Some((quantum.kernel, quantum.array))
            }
            Part::Detours | Part::Lockstep { .. } | Part::Rest => None,
        };
        parts.find_map(of).unwrap_or_default()
    }

    /// The time that all parts take on CPUs of this speed.
    pub fn takes(&self, speed: Speed) -> Duration {
        self.parts.iter().map(|piece| piece.takes(speed)).sum()
    }

    /// The share of the run's size limit for a part.
    pub fn share_of_size(&self, piece: &Piece, speed: Speed) -> Bytes {
        let whole = self.takes(speed).as_secs_f64().max(1e-9);
        let share = piece.takes(speed).as_secs_f64() / whole;
        Bytes::new((self.max_size.get() as f64 * share) as u64)
    }

    /// The ranks with their CPUs.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, Cpu)> + '_ {
        self.rank_cpus
            .iter()
            .enumerate()
            .map(|(rank, &cpu)| (Rank::new(rank as u32), cpu))
    }
}

/// The fixed work quantum, which on a node with very many CPUs ends well before its time.
fn few(cpus: &[Cpu], work: Work) -> Part {
    Part::FixedWork {
        quantum: work.into(),
        runs: Some(MOST_RECORDS / cpus.len().max(1) as u64),
    }
}

fn on(cpus: &[Cpu], part: Part, duration: Duration) -> Piece {
    Piece {
        part,
        duration,
        cpus: cpus.to_vec(),
    }
}

/// How many CPUs are busy at the points of a load sweep: every number up to eight, then powers of
/// two, and all.
fn busy(all: usize) -> impl Iterator<Item = usize> {
    let numbers = (1..all).filter(|n| *n <= 8 || n.is_power_of_two());
    numbers.chain([all])
}

/// The CPUs that were asked for, or all.
fn chosen(wanted: Option<&CpuSet>, allowed: &CpuSet) -> Result<CpuSet, SessionError> {
    let Some(wanted) = wanted else {
        return Ok(allowed.clone());
    };
    let missing = wanted.difference(allowed);
    if !missing.is_empty() {
        return Err(SessionError::Option {
            option: format!("--cpus {wanted}"),
            reason: format!("this process may not use CPU {missing}"),
            next: format!("choose from {allowed}"),
        });
    }
    Ok(wanted.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed {
        per_thousand: 250.0,
    };

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a CPU list")
    }

    #[test]
    fn the_parts_take_the_time_asked_for() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-3")).expect("a plan");
        assert_eq!(plan.takes(SPEED), Duration::from_secs(30));
        assert_eq!(plan.rank_cpus, [0, 1, 2, 3].map(Cpu::new));
    }

    #[test]
    fn a_load_sweep_keeps_more_and_more_cpus_busy() {
        let of = |all| busy(all).collect::<Vec<_>>();
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(24), [1, 2, 3, 4, 5, 6, 7, 8, 16, 24]);
        let options = CpuOptions {
            what: CpuMeasurement::LoadSweep {
                quantum: Work::Time(Nanos::from_micros(20)).into(),
            },
            output: None,
            duration: Nanos::from_secs(1),
            cpus: Some(set("3,5")),
            one_at_a_time: false,
            neighbours: Vec::new(),
            realtime: None,
            trace: false,
            max_size: Bytes::new(1 << 30),
            command: Vec::new(),
        };
        let plan = Plan::of_cpus(&options, &set("0-7")).expect("a plan");
        let where_: Vec<_> = plan.parts.iter().map(|p| p.cpus.len()).collect();
        assert_eq!(where_, [1, 1, 2, 2]);
        let alone = CpuOptions {
            cpus: Some(set("3")),
            ..options
        };
        let refused = Plan::of_cpus(&alone, &set("0-7")).expect_err("one CPU");
        assert!(refused.to_string().contains("--cpus 3"), "{refused}");
    }

    fn of_cpus(change: impl FnOnce(&mut CpuOptions)) -> Result<Plan, String> {
        let mut options = CpuOptions {
            what: CpuMeasurement::Detours,
            output: None,
            duration: Nanos::from_secs(1),
            cpus: None,
            one_at_a_time: false,
            neighbours: Vec::new(),
            realtime: None,
            trace: false,
            max_size: Bytes::new(1 << 30),
            command: Vec::new(),
        };
        change(&mut options);
        Plan::of_cpus(&options, &set("0-3")).map_err(|e| e.to_string())
    }

    #[test]
    fn one_cpu_after_the_other_measures_for_the_whole_time() {
        let plan = of_cpus(|o| o.one_at_a_time = true).expect("a plan");
        let cpus: Vec<_> = plan.parts.iter().map(|p| p.cpus.clone()).collect();
        assert_eq!(cpus, [0, 1, 2, 3].map(|cpu| vec![Cpu::new(cpu)]));
        assert_eq!(plan.takes(SPEED), Duration::from_secs(4));
        assert_eq!(plan.free(&plan.parts[1]), set("0,2-3"));
    }

    #[test]
    fn neighbours_need_a_cpu_and_real_time_threads_leave_one() {
        let load = |o: &mut CpuOptions| o.neighbours = vec![Neighbour::Cpu, Neighbour::Io];
        let real = |o: &mut CpuOptions| o.realtime = Some(5);
        let refused = of_cpus(load).expect_err("no CPU is left");
        assert!(refused.contains("--load cpu,io"), "{refused}");
        let refused = of_cpus(real).expect_err("no CPU is left");
        assert!(refused.contains("--realtime 5"), "{refused}");
        for change in [load, real] {
            let alone = |o: &mut CpuOptions| o.one_at_a_time = true;
            let fewer = |o: &mut CpuOptions| o.cpus = Some(set("1-3"));
            of_cpus(|o| [change, alone].iter().for_each(|f| f(o))).expect("one at a time");
            of_cpus(|o| [change, fewer].iter().for_each(|f| f(o))).expect("CPU 0 is left");
        }
        let refused = of_cpus(|o| o.realtime = Some(0)).expect_err("no such priority");
        assert!(refused.contains("--realtime 0"), "{refused}");
    }

    #[test]
    fn ranks_beyond_the_cpus_share_them_in_turn() {
        let options = StudyOptions {
            ranks: Some(5),
            cpus: Some(set("2,7")),
            ..StudyOptions::default()
        };
        let plan = Plan::of(&options, &set("0-7")).expect("a plan");
        assert_eq!(plan.rank_cpus, [2, 7, 2, 7, 2].map(Cpu::new));
    }

    #[test]
    fn cpus_that_are_not_allowed_are_refused_by_number() {
        let options = StudyOptions {
            cpus: Some(set("0-9")),
            ..StudyOptions::default()
        };
        let refused = Plan::of(&options, &set("0-3")).expect_err("CPUs 4 to 9 are not allowed");
        assert!(refused.to_string().contains("4-9"), "{refused}");
        assert!(refused.next_step().is_some_and(|n| n.contains("0-3")));
    }

    #[test]
    fn a_node_of_many_cpus_records_no_more_than_memory_allows() {
        let plan = Plan::of(&StudyOptions::default(), &set("0-255")).expect("a plan");
        let Part::Lockstep { max_iterations, .. } = plan.parts[4].part else {
            panic!("{:?}", plan.parts);
        };
        assert!(max_iterations * 256 <= MOST_RECORDS);
        assert!(plan.parts[3].takes(SPEED) < Duration::from_secs(1));
    }
}

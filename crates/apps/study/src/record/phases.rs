//! Runs the parts of the plan, one after the other.

use crate::Quantum;
use crate::plan::{Part, Piece, Plan, THRESHOLD};
use idlewave_clock::{Calibration, Readings, monotonic_ns};
use idlewave_run::{Coupling, Phase, PhaseKind};
use idlewave_session::SessionError;
use idlewave_session::{Current, Recording};
use idlewave_sys::affinity::bind;
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, NodeId, counted};
use idlewave_workloads::speed::Speed;
use idlewave_workloads::{Neighbours, Quanta, detour, fixed_time, fixed_work, lockstep};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The data that all parts need.
pub struct Phases<'a> {
    pub plan: &'a Plan,
    pub readings: Readings,
    /// Speed of the CPUs.
    pub speed: Speed,
    /// Size of the arrays of a memory neighbour.
    pub memory: Bytes,
    pub calibration: Calibration,
}

impl Phases<'_> {
    /// Runs all parts; stops cleanly between or within them when the recording is over.
    pub fn run(&mut self, recording: &mut Recording<'_>) -> Result<(), SessionError> {
        for piece in &self.plan.parts {
            if recording.is_over() {
                break;
            }
            let load = self.load(recording, piece)?;
            {
                let _apart = self.stand_apart(piece);
                self.piece(recording, piece)?;
            }
            load.stop()?;
        }
        Ok(())
    }

    fn piece(&mut self, recording: &mut Recording<'_>, piece: &Piece) -> Result<(), SessionError> {
        match piece.part {
            Part::Detours => self.detours(recording, piece)?,
            Part::FixedWork { quantum, runs } => {
                self.fixed_work(recording, piece, quantum, runs)?;
            }
            Part::FixedTime { quantum, every } => {
                self.fixed_time(recording, piece, quantum, every)?;
            }
            Part::Lockstep {
                coupling,
                work,
                max_iterations,
            } => self.lockstep(recording, piece, coupling, work, max_iterations)?,
            Part::Rest => rest(recording, piece.duration),
        }
        Ok(())
    }

    /// The neighbours of a part.
    fn load(&self, recording: &Recording<'_>, piece: &Piece) -> Result<Neighbours, SessionError> {
        let free: Vec<Cpu> = self.plan.free(piece).iter().collect();
        let place = recording.out.path();
        Ok(Neighbours::start(
            &self.plan.neighbours,
            &free,
            Some(self.memory),
            place,
        )?)
    }

    /// Keeps the calling thread, which collects the records, away from real-time threads.
    fn stand_apart(&self, piece: &Piece) -> Option<Apart> {
        self.plan.realtime?;
        // If it may not move, the kernel's balancing has to do.
        bind(&self.plan.free(piece)).ok()?;
        Some(Apart(self.plan.allowed.clone()))
    }

    /// Announces a part.
    fn part(&self, recording: &mut Recording<'_>, what: &str, piece: &Piece) {
        let ranks = matches!(piece.part, Part::Lockstep { .. });
        let current = Current {
            ranks,
            duration: piece.takes(self.speed),
            most: self.plan.share_of_size(piece, self.speed),
        };
        recording.part(what, current);
    }

    /// Enters a phase with a provisional end, which remains if this process is killed.
    fn begin(
        &self,
        recording: &mut Recording<'_>,
        kind: PhaseKind,
        piece: &Piece,
    ) -> Result<usize, SessionError> {
        let begin_ns = monotonic_ns();
        let end_ns = begin_ns + piece.takes(self.speed).as_nanos() as u64;
        recording.out.manifest.phases.push(Phase {
            kind,
            begin_ns,
            end_ns,
        });
        recording.out.save()?;
        Ok(recording.out.manifest.phases.len() - 1)
    }

    fn detours(
        &mut self,
        recording: &mut Recording<'_>,
        piece: &Piece,
    ) -> Result<(), SessionError> {
        let cpus = counted(piece.cpus.len(), "CPU");
        self.part(recording, &format!("watching for detours on {cpus}"), piece);
        let kind = PhaseKind::Detour {
            node: NodeId::new(0),
            threshold: THRESHOLD,
            floor: Nanos::ZERO,
            loops: Vec::new(),
        };
        let index = self.begin(recording, kind, piece)?;
        let params = detour::Params {
            cpus: piece.cpus.clone(),
            duration: piece.duration,
            threshold: THRESHOLD,
            realtime: self.plan.realtime,
            phase: index as u32,
        };
        let halt = Arc::clone(&recording.halt);
        let outcome = detour::run(
            &params,
            self.readings,
            &mut self.calibration,
            &halt,
            recording,
        )?;
        let not_kept = outcome.loops.iter().map(|l| l.not_kept).sum();
        let phase = &mut recording.out.manifest.phases[index];
        phase.end_ns = monotonic_ns();
        phase.kind = PhaseKind::Detour {
            node: NodeId::new(0),
            threshold: outcome.threshold,
            floor: outcome.floor,
            loops: outcome.loops,
        };
        recording.out.manifest.losses.enter(
            "detours for which there was no room",
            not_kept,
            "they are in the stolen time but not in the classes and periods",
            "measure fewer CPUs at a time with --cpus",
        );
        recording.phase_ended()
    }

    /// What the threads of a phase repeat.
    fn quanta(&self, piece: &Piece, quantum: Quantum, phase: usize) -> Quanta {
        Quanta {
            cpus: piece.cpus.clone(),
            duration: piece.duration,
            kernel: quantum.kernel,
            array: quantum.array,
            work_steps: quantum.work.steps(self.speed),
            realtime: self.plan.realtime,
            phase: phase as u32,
        }
    }

    fn fixed_work(
        &mut self,
        recording: &mut Recording<'_>,
        piece: &Piece,
        quantum: Quantum,
        runs: Option<u64>,
    ) -> Result<(), SessionError> {
        let cpus = counted(piece.cpus.len(), "CPU");
        let what = format!("timing the fixed work quantum on {cpus}");
        self.part(recording, &what, piece);
        let kind = PhaseKind::FixedWork {
            node: NodeId::new(0),
            work_steps: quantum.work.steps(self.speed),
            kernel: quantum.kernel,
            array: quantum.array,
        };
        let index = self.begin(recording, kind, piece)?;
        let params = fixed_work::Params {
            quanta: self.quanta(piece, quantum, index),
            expected: quantum.work.time(self.speed).to_duration(),
            runs,
        };
        let halt = Arc::clone(&recording.halt);
        let lost = fixed_work::run(&params, &mut self.calibration, &halt, recording)?;
        recording.out.manifest.losses.enter(
            "fixed work quanta for which there was no room",
            lost,
            "the slow-down rests on the others",
            "measure fewer CPUs at a time with --cpus",
        );
        ended(recording, index)
    }

    fn fixed_time(
        &mut self,
        recording: &mut Recording<'_>,
        piece: &Piece,
        quantum: Quantum,
        interval: Nanos,
    ) -> Result<(), SessionError> {
        let cpus = counted(piece.cpus.len(), "CPU");
        let what = format!("counting work in fixed times on {cpus}");
        self.part(recording, &what, piece);
        let kind = PhaseKind::FixedTime {
            node: NodeId::new(0),
            interval,
            work_steps: quantum.work.steps(self.speed),
            kernel: quantum.kernel,
            array: quantum.array,
        };
        let index = self.begin(recording, kind, piece)?;
        let params = fixed_time::Params {
            quanta: self.quanta(piece, quantum, index),
            interval,
        };
        let halt = Arc::clone(&recording.halt);
        let lost = fixed_time::run(&params, &mut self.calibration, &halt, recording)?;
        recording.out.manifest.losses.enter(
            "fixed time quanta for which there was no room",
            lost,
            "the work lost rests on the others",
            "measure fewer CPUs at a time with --cpus, or a longer --every",
        );
        ended(recording, index)
    }

    fn lockstep(
        &mut self,
        recording: &mut Recording<'_>,
        piece: &Piece,
        coupling: Coupling,
        work: Nanos,
        max_iterations: u64,
    ) -> Result<(), SessionError> {
        let what = format!("lockstep run: {}", coupling.name());
        self.part(recording, &what, piece);
        let work_steps = self.speed.steps(work);
        let kind = |iterations| PhaseKind::Lockstep {
            coupling,
            work_steps,
            work_target: work,
            message_bytes: lockstep::MESSAGE_BYTES as u64,
            sides: Vec::new(),
            neighbourhood: Default::default(),
            variant: idlewave_run::ExchangeVariant::NonBlocking,
            ranks: None,
            iterations,
            threshold: THRESHOLD,
            turn: None,
        };
        let index = self.begin(recording, kind(0), piece)?;
        let params = lockstep::Params {
            cpus: self.plan.rank_cpus.clone(),
            pattern: lockstep::Pattern::of(coupling),
            duration: piece.duration,
            work_steps,
            work,
            threshold: THRESHOLD,
            max_iterations,
            phase: index as u32,
        };
        let halt = Arc::clone(&recording.halt);
        let outcome = lockstep::run(&params, &mut self.calibration, &halt, recording)?;
        let kind = kind(outcome.iterations);
        let manifest = &mut recording.out.manifest;
        let phase = &mut manifest.phases[index];
        phase.kind = kind;
        (phase.begin_ns, phase.end_ns) = (outcome.begin_ns, outcome.end_ns);
        manifest.losses.enter(
            "iterations for which there was no room",
            outcome.lost_iterations,
            "the lockstep run is explained up to the first of them",
            "use fewer ranks, or more work per iteration",
        );
        manifest.losses.enter(
            "gaps of ranks for which there was no room",
            outcome.lost_gaps,
            "hypervisor gaps among them count as unexplained",
            "use fewer ranks",
        );
        recording.phase_ended()
    }
}

/// Ends a phase now.
fn ended(recording: &mut Recording<'_>, phase: usize) -> Result<(), SessionError> {
    recording.out.manifest.phases[phase].end_ns = monotonic_ns();
    recording.phase_ended()
}

/// While it lives, the thread that made it runs on some of these CPUs only.
struct Apart(CpuSet);

impl Drop for Apart {
    fn drop(&mut self) {
        // They were allowed before.
        let _ = bind(&self.0);
    }
}

/// Leaves the CPUs alone.
fn rest(recording: &mut Recording<'_>, duration: Duration) {
    const LOOK: Duration = Duration::from_millis(100);
    recording.part("leaving the CPUs idle", Current::default());
    sleep_unless(duration, LOOK, || recording.is_over());
}

/// Sleeps, and looks as rarely as this whether it is over.
pub fn sleep_unless(duration: Duration, look: Duration, mut is_over: impl FnMut() -> bool) {
    let begun = Instant::now();
    while let Some(left) = duration.checked_sub(begun.elapsed()) {
        if is_over() {
            break;
        }
        std::thread::sleep(left.min(look));
    }
}

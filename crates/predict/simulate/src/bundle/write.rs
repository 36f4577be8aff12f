//! Runs a program and writes its events step by step, so that memory grows with the ranks and not
//! with the steps.

use super::cpu::{RankCpu, Rows};
use super::error::BundleError;
use super::limits::MOST_EVENTS;
use super::phase::{LockstepPhase, work};
use super::run::Run;
use super::sheets::manifest;
use super::threads::Names;
use crate::bulk::{Ended, Engine};
use idlewave_noise::Noise;
use idlewave_run::tables::{Burst, Bursts, Interrupt, Interrupts, Region, RegionKind, Regions};
use idlewave_run::{Coupling, RunError, RunWriter, TableWriter};
use idlewave_units::{Bytes, Rank};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// When the last rank ended, in nanoseconds.
    pub finish_ns: u64,
    /// Rows of noise: bursts and interrupts.
    pub events: u64,
}

/// Simulates a run and writes its bundle to `path`, which must not exist or be an empty directory.
/// The same run gives the same bytes.
///
/// The bundle is written beside its destination and renamed when complete. A failure leaves nothing
/// behind, unless the process is killed, which leaves a hidden directory beside it. If `stop`
/// becomes true, the run ends soon.
///
/// # Errors
/// A program that is not a lockstep run, invalid models, more than
/// [`MOST_RANKS`](super::MOST_RANKS), [`MOST_RANK_STEPS`](super::MOST_RANK_STEPS) or
/// [`MOST_EVENTS`], write errors, and [`BundleError::Interrupted`].
pub fn write_run(path: &Path, run: &Run<'_>, stop: &AtomicBool) -> Result<Written, BundleError> {
    let lockstep = LockstepPhase::of(run.program)?;
    run.check()?;
    let noise = Noise::new(run.model, run.seed, run.replication, |source| {
        !run.without.contains(&source)
    })?;
    let engine = Engine::new(run.program, &noise, run.delays)?;
    if let Ok(mut entries) = fs::read_dir(path) {
        if entries.next().is_some() {
            return Err(BundleError::Exists(path.to_owned()));
        }
    } else if path.exists() {
        return Err(BundleError::Exists(path.to_owned()));
    }
    let aside = aside(path);
    let written = write_aside(&aside, run, lockstep, &noise, engine, stop).and_then(|written| {
        fs::rename(&aside, path).map_err(|source| BundleError::Io {
            action: "rename the bundle to",
            path: path.to_owned(),
            source,
        })?;
        Ok(written)
    });
    if written.is_err() {
        // The original error matters more than a failure to clean up.
        let _ = fs::remove_dir_all(&aside);
    }
    written
}

/// The path of the unfinished bundle: hidden, with the process id in its name.
fn aside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

fn write_aside(
    aside: &Path,
    run: &Run<'_>,
    lockstep: LockstepPhase,
    noise: &Noise,
    mut engine: Engine<'_>,
    stop: &AtomicBool,
) -> Result<Written, BundleError> {
    let coupling = lockstep.coupling;
    let bytes = match coupling {
        Coupling::Barrier => None,
        _ => Some(Bytes::new(lockstep.message_bytes)),
    };
    let wait = RegionKind::wait_of(coupling);
    let mut out = RunWriter::create(aside, manifest(run, noise, lockstep))?;
    let work = work(run.program)?;
    let mut names = Names::new(run.model, run.program.ranks);
    let mut cpus: Vec<RankCpu> = (0..run.program.ranks)
        .map(|rank| RankCpu::new(run.model, noise, rank))
        .collect();
    let mut regions: TableWriter<Regions> = out.table()?;
    let mut strikes = Strikes {
        bursts: out.table()?,
        interrupts: out.table()?,
        rows: 0,
        most: MOST_EVENTS,
        failed: None,
    };
    let mut begins = engine.times().to_vec();
    let (mut computed, mut arrived) = (begins.clone(), begins.clone());
    for step in 0..run.steps {
        if stop.load(Ordering::Relaxed) {
            return Err(BundleError::Interrupted);
        }
        engine.step_seen(&mut |ended, times| match ended {
            Ended::Compute => {
                computed.copy_from_slice(times);
                arrived.copy_from_slice(times);
            }
            Ended::Delays => arrived.copy_from_slice(times),
            Ended::Communication => {}
        })?;
        for (rank, cpu) in cpus.iter_mut().enumerate() {
            let (begin, done) = (begins[rank], computed[rank]);
            let (arrival, end) = (arrived[rank], engine.times()[rank]);
            let region = |kind, begin_ns, end_ns, bytes| Region {
                rank: Rank::new(rank as u32),
                phase: 0,
                iteration: step,
                kind,
                begin_ns,
                end_ns,
                bytes,
            };
            regions.push(region(RegionKind::Compute, begin, arrival, None))?;
            regions.push(region(wait, arrival, end, bytes))?;
            cpu.serve(noise, &mut names, end, &mut strikes);
            cpu.computed(noise, run.model, begin, done, work.of(rank), &mut strikes);
            cpu.delayed(names.delay(), done, arrival, &mut strikes);
            cpu.forget();
        }
        strikes.check()?;
        begins.copy_from_slice(engine.times());
    }
    let finish_ns = begins.iter().copied().max().unwrap_or(0);
    for cpu in &mut cpus {
        // A rank that has ended sees the noise until all have ended.
        cpu.serve(noise, &mut names, finish_ns, &mut strikes);
        cpu.finish(finish_ns, &mut strikes);
    }
    strikes.check()?;
    out.manifest.phases[0].end_ns = finish_ns;
    out.finish_table(regions)?;
    out.finish_table(strikes.bursts)?;
    out.finish_table(strikes.interrupts)?;
    out.write_table(&names.tasks(run.model, noise))?;
    out.write_table(&names.sources(run.model, !run.delays.is_empty()))?;
    out.close(None)?;
    Ok(Written {
        finish_ns,
        events: strikes.rows,
    })
}

/// The tables of noise; the first error is kept until the caller asks for it.
struct Strikes {
    bursts: TableWriter<Bursts>,
    interrupts: TableWriter<Interrupts>,
    rows: u64,
    most: u64,
    failed: Option<RunError>,
}

impl Strikes {
    fn count(&mut self, written: Result<(), RunError>) {
        self.rows += 1;
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn check(&mut self) -> Result<(), BundleError> {
        match self.failed.take() {
            Some(error) => Err(error.into()),
            None if self.rows > self.most => Err(BundleError::Events),
            None => Ok(()),
        }
    }
}

impl Rows for Strikes {
    fn burst(&mut self, burst: Burst) {
        let written = self.bursts.push(burst);
        self.count(written);
    }

    fn interrupt(&mut self, interrupt: Interrupt) {
        let written = self.interrupts.push(interrupt);
        self.count(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::testing::empty_manifest;
    use idlewave_units::{Cpu, NodeId, Pid};

    #[test]
    fn more_noise_than_a_bundle_keeps_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let out = RunWriter::create(dir.path(), empty_manifest()).unwrap();
        let mut strikes = Strikes {
            bursts: out.table().unwrap(),
            interrupts: out.table().unwrap(),
            rows: 0,
            most: 2,
            failed: None,
        };
        for row in 1..=3 {
            strikes.interrupt(Interrupt {
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                source: 0,
                pid: Pid::new(1),
                begin_ns: row,
                end_ns: row + 1,
                depth: 0,
                certain: true,
            });
            let refused = matches!(strikes.check(), Err(BundleError::Events));
            assert_eq!(refused, row > 2);
        }
    }
}

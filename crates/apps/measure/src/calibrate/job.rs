//! A calibration from start to end: every rank does the same; the samples are on rank 0.

use super::layout::Layout;
use super::options::CalibrateOptions;
use super::rounds::Rounds;
use crate::load::{LoadMeter, NodeLoad};
use crate::place::cpus_of_nodes;
use crate::threads::{OfEveryRank, on_every_rank};
use crate::{MeasureError, gather};
use idlewave_capture::host::available_memory;
use idlewave_fabric::{Fabric, Waits};
use idlewave_network::CalibrationSamples;
use idlewave_session::{Progress, SessionError, Stop, check_machine};
use idlewave_units::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};

/// The fraction (one over this) of a node's free memory that its ranks may use together.
const MEMORY_SHARE: u64 = 4;
/// Free memory to assume if the system does not report it.
const UNKNOWN_MEMORY: u64 = 1 << 30;

/// Measures what messages and shared memory cost; every process of an MPI job calls it. The samples
/// are on rank 0, `None` elsewhere. Nothing is pinned: programs will find the ranks as the launcher
/// placed them.
///
/// # Errors
/// See [`MeasureError`]. All ranks fail if one does. A request to stop before the first round is an
/// error: nothing was measured.
pub fn calibrate(
    options: &CalibrateOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Calibrated>, MeasureError> {
    options.check()?;
    check_machine()?;
    let work = Work { options, stop };
    let threads = ("--ranks", options.ranks);
    on_every_rank(&work, options.fabric, &options.mpi, threads, progress)
}

/// The result of a calibration.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The repetitions of all points.
    pub samples: CalibrationSamples,
    /// How busy other processes kept each node meanwhile.
    pub machine: Vec<NodeLoad>,
}

struct Work<'a> {
    options: &'a CalibrateOptions,
    stop: &'a Stop,
}

impl OfEveryRank for Work<'_> {
    type Outcome = Calibrated;

    fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        carrier: &str,
        progress: &dyn Progress,
    ) -> Result<Option<Calibrated>, MeasureError> {
        rank(fabric, self.options, carrier, self.stop, progress)
    }
}

/// The work of every rank.
fn rank<F: Fabric>(
    fabric: &mut F,
    options: &CalibrateOptions,
    carrier: &str,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Calibrated>, MeasureError> {
    let begin = Instant::now();
    let nodes = fabric.nodes()?;
    // Identical on all ranks, so that all fail together if it is impossible.
    let layout = Layout::new(&nodes, &options.leaves)?;
    let cpus_per_node = cpus_of_nodes(fabric, &nodes)?;
    let free = available_memory(Path::new("/")).map_or(UNKNOWN_MEMORY, Bytes::get);
    let [free] = gather::from_root(fabric, [free])?;
    let load = LoadMeter::begin(fabric, &nodes)?;
    fabric.set_waits(Waits::Blocking);
    let budget = Duration::from_nanos(options.duration.get());
    let rounds = Rounds {
        fabric,
        layout: &layout,
        memory: free / MEMORY_SHARE / u64::from(layout.per_node().max(1)),
        budget,
        stop,
        progress,
        begin,
    };
    let measured = rounds.run()?;
    fabric.set_waits(Waits::Watched);
    let machine = load.finish(fabric)?;
    if fabric.rank().get() != 0 {
        return Ok(None);
    }
    if measured.points.is_empty() {
        return Err(SessionError::Interrupted {
            kept: "nothing was measured".to_owned(),
        }
        .into());
    }
    let samples = CalibrationSamples {
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        fabric: carrier.to_owned(),
        nodes: nodes.names().to_vec(),
        ranks_per_node: layout.per_node(),
        cpus_per_node,
        budget_seconds: budget.as_secs_f64(),
        seconds: begin.elapsed().as_secs_f64(),
        interrupted: stop.is_requested(),
        points: measured.points,
        notes: measured.notes,
    };
    Ok(Some(Calibrated { samples, machine }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FabricChoice;
    use crate::load::alone;
    use idlewave_network::{Distance, Probe, SamplePoint, fit};
    use idlewave_session::Quiet;
    use idlewave_units::{Nanos, Pid};

    fn options() -> CalibrateOptions {
        CalibrateOptions {
            duration: Nanos::from_secs(2),
            fabric: Some(FabricChoice::Threads),
            ranks: Some(3),
            ..CalibrateOptions::default()
        }
    }

    #[test]
    fn threads_tell_of_one_node_and_their_samples_make_parameters() {
        // Under other load, little or nothing fits into two seconds, and longer messages may not
        // appear slower: then no bandwidth can be derived.
        let all_to_all = |p: &SamplePoint| matches!(p.probe, Probe::AllToAll { per_node: 3, .. });
        let attempts = [2, 8, 32].map(Nanos::from_secs).into_iter();
        let mut others = 0.0;
        let mut attempts = attempts.filter_map(|duration| {
            let options = CalibrateOptions {
                duration,
                ..options()
            };
            let meter = alone(&[Pid::new(std::process::id())]);
            let done = calibrate(&options, &Stop::default(), &Quiet);
            let used = meter.finish();
            others = used.others.unwrap_or(0.0) + used.steal.unwrap_or(0.0);
            let done = match done {
                Err(MeasureError::Recording(SessionError::Interrupted { .. })) => return None,
                done => done.expect("threads can be had").expect("rank 0"),
            };
            let found = fit(&done.samples, 1);
            Some((done, found))
        });
        let enough = attempts.find(|(done, found)| {
            let points = &done.samples.points;
            let often = points.iter().all(|p| p.seconds.len() >= 3);
            found.is_ok() && often && points.iter().any(all_to_all)
        });
        let Some((done, found)) = enough else {
            // In the longest attempt the machine was busy; a complete calibration may then take
            // minutes.
            assert!(others > 0.1, "{others}");
            return println!("skipped: others use {others} of the machine");
        };
        assert_eq!(done.machine.len(), 1);
        assert!(done.machine[0].contamination.others.is_some());
        let samples = done.samples;
        assert_eq!((samples.nodes.len(), samples.ranks_per_node), (1, 3));
        let all = |of: &dyn Fn(&Probe) -> bool| samples.points.iter().any(|p| of(&p.probe));
        assert!(all(&|p| matches!(
            p,
            Probe::PingPong {
                way: Distance::Inside,
                ..
            }
        )));
        assert!(all(&|p| matches!(
            p,
            Probe::Stream {
                both_ways: true,
                ..
            }
        )));
        assert!(all(&|p| matches!(p, Probe::Memory { ranks: 3, .. })));
        assert!(!all(&|p| matches!(
            p,
            Probe::PingPong {
                way: Distance::Outside,
                ..
            }
        )));
        let parameters = found.expect("it was looked for").parameters;
        parameters.check().expect("sound parameters");
        // Samples survive serialization unchanged.
        let text = serde_json::to_string(&samples).expect("plain data");
        assert_eq!(
            serde_json::from_str::<CalibrationSamples>(&text).ok(),
            Some(samples)
        );
    }

    #[test]
    fn what_was_ended_before_a_round_is_said_to_be_interrupted() {
        let stop = Stop::default();
        stop.flag.store(true, std::sync::atomic::Ordering::Relaxed);
        let done = calibrate(&options(), &stop, &Quiet);
        let interrupted = matches!(
            done,
            Err(MeasureError::Recording(SessionError::Interrupted { .. }))
        );
        assert!(interrupted, "{done:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_measured() {
        for wrong in [
            CalibrateOptions {
                duration: Nanos::from_millis(10),
                ..options()
            },
            CalibrateOptions {
                ranks: Some(1),
                ..options()
            },
            CalibrateOptions {
                leaves: vec![vec!["nobody".to_owned()]],
                ..options()
            },
        ] {
            let done = calibrate(&wrong, &Stop::default(), &Quiet);
            let refused = matches!(
                done,
                Err(MeasureError::Recording(SessionError::Option { .. }))
            );
            assert!(refused, "{wrong:?} gave {done:?}");
        }
    }
}

//! Ranks as threads of this process: starts them, joins them, and selects the error to report.

use crate::place::{CONTEXTS, attached, fabric_of};
use crate::{FabricChoice, MeasureError};
use idlewave_fabric::mpi::MpiFabric;
use idlewave_fabric::{Endpoint, Fabric, FabricError, PointToPoint, Waiting, world};
use idlewave_mpi::Search;
use idlewave_session::{Progress, Quiet};
use idlewave_units::Rank;

/// The most ranks as threads: each pair of them has a mailbox of 16 KiB, 1 GiB in total.
pub const MOST_THREADS: u32 = 256;

/// The progress output of one rank of a job: only the first rank shows progress.
pub struct OfRank<'a> {
    /// This process's rank.
    pub rank: Rank,
    /// Where the first rank shows progress.
    pub all: &'a dyn Progress,
    /// Whether the rank itself prints why it fails: needed if no caller will, because the whole job
    /// ends with it.
    pub notes: bool,
}

impl Progress for OfRank<'_> {
    fn part(&self, what: &str) {
        if self.rank.get() == 0 {
            self.all.part(what);
        }
    }
    fn at(&self, share: f64) {
        if self.rank.get() == 0 {
            self.all.at(share);
        }
    }
    fn note(&self, text: &str) {
        if self.notes {
            self.all.note(&format!("rank {}: {text}", self.rank));
        }
    }
}

/// Does `work` on `size` ranks; the outcome is on rank 0, the calling thread. All ranks fail if one
/// does.
pub fn on_threads<T: Send>(
    size: u32,
    waiting: Waiting,
    progress: &dyn Progress,
    work: impl Fn(&mut Endpoint, &dyn Progress) -> Result<Option<T>, MeasureError> + Sync,
) -> Result<Option<T>, MeasureError> {
    let mut ends = world(size, waiting);
    // The calling thread is rank 0, which shows progress.
    let mut first = ends.remove(0);
    let work = |fabric: &mut Endpoint, progress: &dyn Progress| {
        let done = work(fabric, progress);
        if done.is_err() {
            fabric.fail();
        }
        done
    };
    let work = &work;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for mut fabric in ends {
            let name = format!("iw-rank-{}", fabric.rank());
            let spawned = std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || work(&mut fabric, &Quiet));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    first.fail();
                    return Err(MeasureError::Spawn(error));
                }
            }
        }
        let shown = OfRank {
            rank: first.rank(),
            all: progress,
            notes: false,
        };
        let mut outcome = work(&mut first, &shown);
        for thread in threads {
            let other = thread.join().unwrap_or(Err(MeasureError::Panicked));
            // "Another rank failed" gives way to a specific error.
            let vague = matches!(
                outcome,
                Ok(_) | Err(MeasureError::Fabric(FabricError::PeerFailed))
            );
            if let (Err(error), true) = (other, vague) {
                outcome = Err(error);
            }
        }
        outcome
    })
}

/// The work of every rank of a job, on any fabric.
pub trait OfEveryRank: Sync {
    /// The outcome on rank 0.
    type Outcome: Send;

    /// The work of a rank; `carrier` is the name of the fabric. The outcome is on rank 0, `None`
    /// elsewhere.
    fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        carrier: &str,
        progress: &dyn Progress,
    ) -> Result<Option<Self::Outcome>, MeasureError>;
}

/// Runs it on all ranks of a job of several processes, which all call this, or on `threads` ranks
/// of this process (one per CPU if `None`), which are not bound to CPUs. `option` is the option
/// that sets their number.
pub fn on_every_rank<W: OfEveryRank>(
    work: &W,
    fabric: Option<FabricChoice>,
    mpi: &Search,
    (option, threads): (&str, Option<u32>),
    progress: &dyn Progress,
) -> Result<Option<W::Outcome>, MeasureError> {
    let asked = threads.map_or(option.to_owned(), |n| format!("{option} {n}"));
    match fabric_of(fabric, &asked, mpi)? {
        FabricChoice::Threads => {
            let allowed = idlewave_capture::host::allowed_cpus();
            let cpus = allowed
                .map_err(idlewave_session::SessionError::from)?
                .iter()
                .count() as u32;
            let size = threads.unwrap_or(cpus.clamp(2, MOST_THREADS));
            if !(1..=MOST_THREADS).contains(&size) {
                return Err(MeasureError::option(
                    asked,
                    format!("as threads of one process there are 1 to {MOST_THREADS}"),
                    format!("give a number in this range with {option}"),
                ));
            }
            let waiting = match size > cpus {
                true => Waiting::Yield,
                false => Waiting::Spin,
            };
            on_threads(size, waiting, progress, |fabric, progress| {
                work.run(fabric, "threads of one process", progress)
            })
        }
        FabricChoice::Mpi => {
            let fabric = MpiFabric::begin(mpi)?;
            let carrier = fabric.job().library().describe();
            on_this_rank(work, fabric, &carrier, progress)
        }
        FabricChoice::Netctx => on_this_rank(work, attached()?, CONTEXTS, progress),
    }
}

/// Runs it as one process of a job.
fn on_this_rank<W: OfEveryRank, F: Fabric>(
    work: &W,
    mut fabric: F,
    carrier: &str,
    progress: &dyn Progress,
) -> Result<Option<W::Outcome>, MeasureError> {
    let shown = OfRank {
        rank: fabric.rank(),
        all: progress,
        notes: true,
    };
    let done = work.run(&mut fabric, carrier, &shown);
    if let Err(error @ MeasureError::Fabric(_)) = &done {
        shown.note(&error.to_string());
        fabric.fail();
    }
    done
}

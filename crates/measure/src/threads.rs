//! Ranks as threads of this process: started, ended together, and what one of them failed with.

use crate::MeasureError;
use idlewave_fabric::{Endpoint, Fabric, FabricError, Waiting, world};
use idlewave_recording::{Progress, Quiet};
use idlewave_units::Rank;

/// What a rank of a job tells of its work: only the first shows how far it has come.
pub struct OfRank<'a> {
    /// The own rank.
    pub rank: Rank,
    /// What the first rank shows.
    pub all: &'a dyn Progress,
    /// Whether it says why it fails itself: where no caller will, as the whole job ends with it.
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

/// Does `work` on `size` ranks; the outcome is that of rank 0, which is the calling thread. All ranks fail if one does.
pub fn on_threads<T: Send>(
    size: u32,
    waiting: Waiting,
    progress: &dyn Progress,
    work: impl Fn(&mut Endpoint, &dyn Progress) -> Result<Option<T>, MeasureError> + Sync,
) -> Result<Option<T>, MeasureError> {
    let mut ends = world(size, waiting);
    // The calling thread is rank 0: it is the one that tells of the progress.
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
            // That another rank failed is no reason where one has its own.
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

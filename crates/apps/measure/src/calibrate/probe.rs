//! Measures points that share their ranks once each, and takes a first look at a pair.

use super::streams::{Pair, ping_pong, stream};
use idlewave_fabric::{Fabric, FabricError, Reduction};
use idlewave_network::Probe;
use idlewave_units::Rank;
use idlewave_workloads::triad::Triad;
use std::time::Instant;

/// Runs probes; keeps large buffers from one to the next.
#[derive(Debug, Default)]
pub struct Runner {
    triad: Option<Triad>,
}

/// Seconds of the slowest and of the fastest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Of the slowest rank.
    pub slowest: f64,
    /// Of the fastest rank.
    pub fastest: f64,
}

impl Runner {
    /// Runs `probes`, which have the same ranks, while the other ranks sleep: waking them and
    /// putting them back to sleep takes longer than many points. All ranks call it and get the same
    /// times, in the order of the probes.
    pub fn run<F: Fabric>(
        &mut self,
        fabric: &mut F,
        members: &[Rank],
        probes: &[Probe],
    ) -> Result<Vec<Times>, FabricError> {
        let own = together(fabric, members, |fabric| {
            let times = probes.iter().map(|probe| self.once(fabric, probe));
            times.collect::<Result<Vec<_>, _>>()
        })?;
        let mut own = own.unwrap_or_default();
        own.resize(probes.len(), None);
        let most = own.iter().map(|time| time.unwrap_or(0.0));
        let least = own.iter().map(|time| time.map_or(f64::MIN, |time| -time));
        let mut both: Vec<f64> = most.chain(least).collect();
        fabric.allreduce(&mut both, Reduction::Max, &mut || ())?;
        let (most, least) = both.split_at(probes.len());
        // The clock may not advance between two readings.
        let times = most.iter().zip(least).map(|(most, least)| Times {
            slowest: most.max(1e-9),
            fastest: (-least).max(1e-9),
        });
        Ok(times.collect())
    }

    /// The work of a member; returns seconds if this rank's time counts.
    fn once<F: Fabric>(
        &mut self,
        fabric: &mut F,
        probe: &Probe,
    ) -> Result<Option<f64>, FabricError> {
        match *probe {
            Probe::PingPong { bytes, rounds, .. } => {
                let pair = Pair::of(fabric.rank(), fabric.size());
                ping_pong(fabric, pair, bytes, rounds)
            }
            Probe::Stream {
                both_ways,
                bytes,
                messages,
                ..
            } => {
                let pair = Pair::of(fabric.rank(), fabric.size());
                stream(fabric, pair, bytes, messages, both_ways)
            }
            Probe::AllToAll { bytes, calls, .. } => {
                all_to_all(fabric, bytes as usize, calls).map(Some)
            }
            Probe::Memory { bytes, passes, .. } => {
                let bytes = bytes as usize;
                let triad = self.triad.get_or_insert_with(|| Triad::new(bytes));
                fabric.barrier(&mut || ())?;
                let begin = Instant::now();
                for _ in 0..passes {
                    triad.pass();
                }
                Ok(Some(begin.elapsed().as_secs_f64() / passes as f64))
            }
        }
    }
}

/// Does `work` on these ranks, and ends the job if it fails on one of them.
fn together<F: Fabric, T>(
    fabric: &mut F,
    members: &[Rank],
    work: impl FnOnce(&mut F) -> Result<T, FabricError>,
) -> Result<Option<T>, FabricError> {
    let done = fabric.with_ranks(members, |fabric| {
        let done = work(fabric);
        if done.is_err() {
            fabric.fail();
        }
        done
    })?;
    done.transpose()
}

/// How often to repeat a message that takes too long: others may have had the CPU meanwhile.
const TRIES: u32 = 5;

/// Half a round trip in seconds, as seen by the rank to which it seems longer: the fastest of two
/// messages, or of up to six while it is longer than `longest`.
fn slower<F: Fabric>(
    fabric: &mut F,
    pair: Pair,
    bytes: u64,
    longest: f64,
) -> Result<f64, FabricError> {
    // The first message opens connections.
    let mut time = ping_pong(fabric, pair, bytes, 1)?.unwrap_or(0.0);
    let mut of_both = [f64::INFINITY];
    for _ in 0..TRIES {
        time = time.min(ping_pong(fabric, pair, bytes, 1)?.unwrap_or(0.0));
        of_both = [time];
        fabric.allreduce(&mut of_both, Reduction::Max, &mut || ())?;
        if of_both[0] <= longest {
            break;
        }
    }
    Ok(of_both[0])
}

/// Half a round trip between two ranks for each length, in seconds, until one takes longer than
/// `longest`. All ranks call it and get the same times.
pub fn look<F: Fabric>(
    fabric: &mut F,
    members: &[Rank],
    lengths: &[u64],
    longest: f64,
) -> Result<Vec<f64>, FabricError> {
    let own = together(fabric, members, |fabric| {
        let pair = Pair::of(fabric.rank(), fabric.size());
        let mut times = Vec::new();
        for &bytes in lengths {
            let of_both = slower(fabric, pair, bytes, longest)?;
            if of_both > longest && bytes > 0 {
                break;
            }
            times.push(of_both.max(1e-9));
        }
        Ok(times)
    })?;
    let mut all = own.unwrap_or_default();
    // 0 for lengths that were not measured.
    all.resize(lengths.len(), 0.0);
    fabric.allreduce(&mut all, Reduction::Max, &mut || ())?;
    Ok(all.into_iter().take_while(|time| *time > 0.0).collect())
}

fn all_to_all<F: Fabric>(fabric: &mut F, bytes: usize, calls: u64) -> Result<f64, FabricError> {
    let all = bytes * fabric.size() as usize;
    let (send, mut receive) = (vec![0x5a_u8; all], vec![0_u8; all]);
    fabric.barrier(&mut || ())?;
    let begin = Instant::now();
    for _ in 0..calls {
        fabric.alltoall(&send, &mut receive, &mut || ())?;
    }
    Ok(begin.elapsed().as_secs_f64() / calls as f64)
}

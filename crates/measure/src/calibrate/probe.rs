//! One point, once.

use super::layout::Layout;
use super::streams::{Pair, ping_pong, stream};
use idlewave_fabric::{Fabric, FabricError, Reduction};
use idlewave_network::Probe;
use idlewave_workloads::triad::Triad;
use std::time::Instant;

/// Runs probes; keeps what is large from one to the next.
#[derive(Debug, Default)]
pub struct Runner {
    triad: Option<Triad>,
}

/// Seconds of the slowest and of the fastest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Of the slowest.
    pub slowest: f64,
    /// Of the fastest.
    pub fastest: f64,
}

impl Runner {
    /// Runs `probe` on its ranks while the others sleep. All ranks call it and get the same times.
    pub fn run<F: Fabric>(
        &mut self,
        fabric: &mut F,
        layout: &Layout,
        probe: &Probe,
    ) -> Result<Times, FabricError> {
        let members = layout.members(probe);
        let done = fabric.with_ranks(&members, |fabric| {
            let done = self.once(fabric, probe);
            if done.is_err() {
                fabric.fail();
            }
            done
        })?;
        let own = done.transpose()?.flatten();
        let (most, least) = own.map_or((0.0, f64::MIN), |seconds| (seconds, -seconds));
        let mut both = [most, least];
        fabric.allreduce(&mut both, Reduction::Max, &mut || ())?;
        // A clock may stand still between two looks at it.
        Ok(Times {
            slowest: both[0].max(1e-9),
            fastest: (-both[1]).max(1e-9),
        })
    }

    /// What a member does; seconds where this rank is one whose time counts.
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

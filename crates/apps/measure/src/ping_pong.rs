//! Messages back and forth between pairs of ranks: latency and bandwidth over message length.

use crate::bundle::Bundle;
use crate::keeping::Keeping;
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, gather};
use idlewave_clock::{Calibration, Source, with_source};
use idlewave_fabric::{Fabric, FabricError, Reduction, Tag, Waits};
use idlewave_run::findings::Estimate;
use idlewave_run::tables::{Region, RegionKind};
use idlewave_run::{Phase, PhaseKind};
use idlewave_session::{Progress, Stop};
use idlewave_stats::quantiles;
use idlewave_units::Rank;
use idlewave_units::counted;
use serde::Serialize;

const TAG: Tag = Tag(300);
/// Rounds before the measurement, which also show how many fit into the time.
const WARM_UP: u64 = 10;
/// The minimum and maximum rounds of one length.
const ROUNDS: [u64; 2] = [20, 20_000];

/// Findings for one message length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeFindings {
    /// Bytes of a message.
    pub bytes: u64,
    /// Median of half a round trip over all pairs, nanoseconds.
    pub latency: Estimate,
    /// Bytes that a pair moves per second one way at the median latency.
    pub bandwidth: f64,
    /// The same for all pairs together.
    pub total_bandwidth: f64,
}

/// A ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PingPongFindings {
    /// Simultaneous pairs: rank i with rank i + half of the ranks.
    pub pairs: u32,
    /// One per length.
    pub sizes: Vec<SizeFindings>,
}

/// Lengths: 0 and the powers of two from 8 to `most`.
fn lengths(most: u64) -> Vec<u64> {
    let powers = (3..64).map(|p| 1_u64 << p).take_while(|&l| l <= most);
    std::iter::once(0).chain(powers).collect()
}

/// Partner of `rank` among `pairs` pairs of `size` ranks, and whether `rank` begins. `None` if it
/// is in no pair.
fn partner(rank: u32, size: u32, pairs: u32) -> Option<(Rank, bool)> {
    let half = size / 2;
    if rank < pairs {
        Some((Rank::new(rank + half), true))
    } else {
        let first = rank.checked_sub(half)?;
        (first < pairs).then(|| (Rank::new(first), false))
    }
}

/// Measures; `plan` is the number of pairs and the largest length.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    plan: (Option<u32>, u64),
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<PingPongFindings>, MeasureError> {
    let size = options.ranks.first().copied().unwrap_or(fabric.size());
    let pairs = plan.0.unwrap_or(1);
    if size < 2 || size > fabric.size() || pairs > size / 2 {
        return Err(MeasureError::option(
            format!("--pairs {pairs}"),
            format!(
                "{size} of {} make {}",
                counted(fabric.size(), "rank"),
                counted(size / 2, "pair")
            ),
            "start more ranks, or give fewer pairs",
        ));
    }
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    let kept = options.output.is_some();
    let (me, lengths) = (fabric.rank().get(), lengths(plan.1));
    let partner = partner(me, size, pairs);
    let mut sizes = Vec::new();
    let budget = options.duration.as_secs_f64() / lengths.len() as f64;
    fabric.set_waits(Waits::Blocking);
    progress.part("messages back and forth");
    for (i, &bytes) in lengths.iter().enumerate() {
        if !gather::agree(fabric, !stop.is_requested())? {
            break;
        }
        let counter = calibration.counter();
        let round = |fabric: &mut F, rounds| with_source!(counter, s => rounds_of(fabric, s, partner, bytes as usize, rounds, kept));
        fabric.barrier(&mut || ())?;
        let first = round(fabric, WARM_UP)?;
        // The slowest pair determines how many rounds fit into the time.
        let begins = partner.is_some_and(|(_, begins)| begins);
        let length = |&[begin, end]: &[u64; 2]| end.saturating_sub(begin);
        let first = first.iter().filter(|_| begins).map(length);
        let mean = first.sum::<u64>() as f64 / WARM_UP as f64;
        let mut seconds = [mean / calibration.counts_per_second()];
        fabric.allreduce(&mut seconds, Reduction::Max, &mut || ())?;
        let rounds = (budget / seconds[0].max(1e-9)) as u64;
        let rounds = rounds.clamp(ROUNDS[0], ROUNDS[1]);
        fabric.barrier(&mut || ())?;
        let times = round(fabric, rounds)?;
        calibration.update();
        let half = |round| (calibration.length_ns(length(round)) / 2.0).round() as u64;
        let own: Vec<u64> = times.iter().filter(|_| begins).map(half).collect();
        let all_ranks = fabric.size();
        let all = gather::to_root(fabric, &own, all_ranks)?;
        let rows = match kept {
            true => {
                let ns = |counts: &u64| calibration.to_ns(*counts);
                let own: Vec<u64> = times.as_flattened().iter().map(ns).collect();
                keeping.compare(fabric)?;
                gather::to_root(fabric, &own, all_ranks)?
            }
            false => None,
        };
        let Some(all) = all else {
            continue;
        };
        let latency = quantiles::median(&all.concat());
        let bandwidth = bytes as f64 * 1e9 / latency.value.max(1.0);
        if let Some(mut rows) = rows {
            for (rank, by) in rows.iter_mut().zip(keeping.clocks().of_ranks(&ranks.nodes)) {
                rank.iter_mut().for_each(|time| *time = by.apply(*time));
            }
            let kind = PhaseKind::PingPong {
                bytes,
                pairs,
                rounds,
                latency: latency.clone(),
            };
            keeping.add(|bundle| add(bundle, kind, &rows));
        }
        sizes.push(SizeFindings {
            bytes,
            latency,
            bandwidth,
            total_bandwidth: bandwidth * f64::from(pairs),
        });
        progress.at((i + 1) as f64 / lengths.len() as f64);
    }
    fabric.set_waits(Waits::Watched);
    keeping.finish(fabric, options, ranks, &mut calibration, stop)?;
    Ok((me == 0).then_some(PingPongFindings { pairs, sizes }))
}

/// Adds the rounds of one length: begins and ends, by rank.
fn add(bundle: &mut Bundle, kind: PhaseKind, rows: &[Vec<u64>]) -> Result<(), MeasureError> {
    let begin_ns = rows.iter().filter_map(|rank| rank.first().copied()).min();
    let end_ns = rows.iter().filter_map(|rank| rank.last().copied()).max();
    let phase = Phase {
        kind,
        begin_ns: begin_ns.unwrap_or(0),
        end_ns: end_ns.unwrap_or(0),
    };
    bundle.add_regions(phase, |phase, table| {
        for (rank, times) in rows.iter().enumerate() {
            for (iteration, round) in times.chunks_exact(2).enumerate() {
                table.push(Region {
                    rank: Rank::new(rank as u32),
                    phase,
                    iteration: iteration as u64,
                    kind: RegionKind::RoundTrip,
                    begin_ns: round[0],
                    end_ns: round[1],
                    bytes: None,
                })?;
            }
        }
        Ok(())
    })
}

/// Begins and ends of the rounds in counts, on the ranks that begin; of the others too if they are
/// `kept`. A rank in no pair has none.
fn rounds_of<F: Fabric, S: Source>(
    fabric: &mut F,
    source: S,
    partner: Option<(Rank, bool)>,
    bytes: usize,
    rounds: u64,
    kept: bool,
) -> Result<Vec<[u64; 2]>, FabricError> {
    let Some((partner, begins)) = partner else {
        return Ok(Vec::new());
    };
    let mut times = Vec::with_capacity(if begins || kept { rounds as usize } else { 0 });
    let (mut message, mut buffer) = (vec![0x5a; bytes], vec![0; bytes]);
    for _ in 0..rounds {
        let begin = source.now_ordered();
        if begins {
            let sending = fabric.start_send(partner, TAG, message)?;
            message = fabric.finish_send(sending, &mut || ())?;
        }
        let receiving = fabric.start_receive(Some(partner), TAG, bytes, buffer)?;
        buffer = fabric.finish_receive(receiving, &mut || ())?.data;
        if !begins {
            let sending = fabric.start_send(partner, TAG, message)?;
            message = fabric.finish_send(sending, &mut || ())?;
        }
        if begins || kept {
            times.push([begin, source.now_ordered()]);
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_mutual_and_the_rest_idles() {
        for (size, pairs) in [(2, 1), (5, 2), (8, 3), (9, 4)] {
            let mut paired = 0;
            for rank in 0..size {
                if let Some((other, begins)) = partner(rank, size, pairs) {
                    let back = partner(other.get(), size, pairs);
                    assert_eq!(back, Some((Rank::new(rank), !begins)));
                    paired += 1;
                }
            }
            assert_eq!(paired, 2 * pairs);
        }
    }

    #[test]
    fn lengths_are_powers_of_two_and_nothing() {
        assert_eq!(lengths(64), [0, 8, 16, 32, 64]);
        assert_eq!(lengths(7), [0]);
    }
}

//! Where and how long noise strikes: compound Poisson events over blocks of ranks and steps.
//!
//! Exposure model: a source strikes a computing rank with its rate, independently of everything else; it does not
//! strike a waiting rank, nor the time it adds itself. The ranks x steps of a block are laid end to end, step after
//! step, and walked through with exponential gaps, so that the cost is that of the events. Several events may hit one
//! rank in one step; their lengths add up. Blocks draw by counter: who computes them, and when, changes nothing.

use idlewave_noise::draw::{LengthTable, exponential};
#[cfg(target_arch = "x86_64")]
use idlewave_noise::philox::philox4x32_avx2;
use idlewave_noise::philox::{LANES, philox4x32};
use idlewave_run::NoiseSource;
use idlewave_units::Nanos;

/// Ranks of a block: large enough that starting one (a draw per source) is rare, small enough for tiles of a ring.
pub(crate) const BLOCK_RANKS: usize = 2048;
/// Steps of a block: the distance at which a run can be sampled.
pub(crate) const BLOCK_STEPS: u64 = 16;

/// All sources of a profile at one granularity.
#[derive(Clone, Debug)]
pub(crate) struct NoiseField {
    key: [u32; 2],
    sources: Vec<FieldSource>,
}

#[derive(Clone, Debug)]
struct FieldSource {
    /// Index in the profile: removing a source leaves the draws of the others as they are.
    index: u32,
    /// Mean gap between two events, in rank-steps.
    gap: f64,
    lengths: LengthTable,
}

impl NoiseField {
    /// The sources of a profile whose index `keep` accepts. Sources without rate or events are left out.
    pub(crate) fn new(
        sources: &[NoiseSource],
        work: Nanos,
        seed: u64,
        keep: impl Fn(usize) -> bool,
    ) -> Self {
        let sources = sources
            .iter()
            .enumerate()
            .filter(|(index, source)| keep(*index) && source.rate_per_s > 0.0)
            .filter_map(|(index, source)| {
                Some(FieldSource {
                    index: index as u32,
                    gap: 1.0 / (source.rate_per_s * work.as_secs_f64()),
                    lengths: LengthTable::new(&source.lengths)?,
                })
            })
            .collect();
        NoiseField {
            key: [seed as u32, (seed >> 32) as u32],
            sources,
        }
    }

    /// Expected events in one step of one rank.
    pub(crate) fn events_per_step(&self) -> f64 {
        self.sources.iter().map(|s| 1.0 / s.gap).sum()
    }

    /// Number of sources that have events.
    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// The sources' walks through the block `block` of `width` ranks, from step `step` (a multiple of [`BLOCK_STEPS`]) on.
    pub(crate) fn enter(
        &self,
        block: usize,
        width: usize,
        step: u64,
        walks: &mut Vec<Walk>,
        offset: i64,
    ) {
        for (source, s) in self.sources.iter().enumerate() {
            let mut walk = Walk {
                at: 0.0,
                row_end: width as f64,
                width: width as u32,
                source: source as u32,
                offset,
                draws: Draws::new(s, self.key, block, step),
            };
            walk.at = s.gap * walk.draws.gap();
            walks.push(walk);
        }
    }

    /// Calls `hit(rank + offset, length)` for the events of the walk's next step.
    #[inline(always)]
    pub(crate) fn step(&self, walk: &mut Walk, mut hit: impl FnMut(i64, u64)) {
        while walk.at < walk.row_end {
            let rank = walk.at as i64 - (walk.row_end as i64 - i64::from(walk.width));
            hit(rank + walk.offset, walk.draws.length());
            let source = &self.sources[walk.source as usize];
            walk.draws.next(source, self.key);
            walk.at += source.gap * walk.draws.gap();
        }
        walk.row_end += f64::from(walk.width);
    }

    /// Calls `hit(cell, length)` for all events in a block of `cells` = ranks x steps.
    pub(crate) fn for_each(
        &self,
        block: usize,
        step: u64,
        cells: usize,
        mut hit: impl FnMut(usize, u64),
    ) {
        for s in &self.sources {
            let mut draws = Draws::new(s, self.key, block, step);
            let mut at = s.gap * draws.gap();
            while at < cells as f64 {
                hit(at as usize, draws.length());
                draws.next(s, self.key);
                at += s.gap * draws.gap();
            }
        }
    }
}

/// One source on its way through one block.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Place of the next event, in rank-steps from the beginning of the block.
    at: f64,
    /// End of the current step, in the same unit.
    row_end: f64,
    width: u32,
    source: u32,
    /// Added to the rank within the block before it is handed out.
    offset: i64,
    draws: Draws,
}

/// The random numbers of one source in one block, a few ahead.
#[derive(Clone, Debug)]
struct Draws {
    counter: [u32; 4],
    lane: usize,
    /// Exponential, with mean 1.
    gaps: [f64; LANES],
    lengths: [u64; LANES],
}

impl Draws {
    fn new(source: &FieldSource, key: [u32; 2], block: usize, step: u64) -> Self {
        let counter = [0, source.index, block as u32, (step / BLOCK_STEPS) as u32];
        let mut draws = Draws {
            counter,
            lane: 0,
            gaps: [0.0; LANES],
            lengths: [0; LANES],
        };
        draws.fill(&source.lengths, key);
        draws
    }

    /// Gap before the current event.
    #[inline(always)]
    fn gap(&self) -> f64 {
        self.gaps[self.lane]
    }

    /// Length of the current event.
    #[inline(always)]
    fn length(&self) -> u64 {
        self.lengths[self.lane]
    }

    #[inline(always)]
    fn next(&mut self, source: &FieldSource, key: [u32; 2]) {
        self.lane += 1;
        if self.lane == LANES {
            self.counter[0] = self.counter[0].wrapping_add(LANES as u32);
            self.lane = 0;
            self.fill(&source.lengths, key);
        }
    }

    /// With the widest instructions of this machine: no operation is fused, so the results are the same.
    fn fill(&mut self, lengths: &LengthTable, key: [u32; 2]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the only requirement of the function is AVX2, which was just seen to be there.
            return unsafe { self.fill_avx2(lengths, key) };
        }
        self.fill_body(lengths, philox4x32(self.counter, key));
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn fill_avx2(&mut self, lengths: &LengthTable, key: [u32; 2]) {
        // SAFETY: AVX2 is there by the contract of this function.
        let words = unsafe { philox4x32_avx2(self.counter, key) };
        self.fill_body(lengths, words);
    }

    #[inline(always)]
    fn fill_body(&mut self, lengths: &LengthTable, words: [[u64; LANES]; 4]) {
        for (gap, (&high, &low)) in self.gaps.iter_mut().zip(words[0].iter().zip(&words[1])) {
            *gap = exponential(high, low);
        }
        for (length, (&high, &low)) in self.lengths.iter_mut().zip(words[2].iter().zip(&words[3])) {
            *length = lengths.draw(high, low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::{LengthBin, SourceKind};

    fn source(rate_per_s: f64, lengths: &[(u64, u64)]) -> NoiseSource {
        NoiseSource {
            kind: SourceKind::Task,
            name: "x".into(),
            rate_per_s,
            events: 1,
            watched: Nanos::from_secs(1),
            period: None,
            lengths: lengths
                .iter()
                .map(|&(length_ns, count)| LengthBin { length_ns, count })
                .collect(),
        }
    }

    /// Every event of a field: (step, rank, length), in order of steps.
    fn events(field: &NoiseField, ranks: usize, steps: u64) -> Vec<(u64, i64, u64)> {
        let mut out = Vec::new();
        for begin in (0..steps).step_by(BLOCK_STEPS as usize) {
            let mut walks = Vec::new();
            for (block, first) in (0..ranks).step_by(BLOCK_RANKS).enumerate() {
                let width = BLOCK_RANKS.min(ranks - first);
                field.enter(block, width, begin, &mut walks, first as i64);
            }
            for step in begin..begin + BLOCK_STEPS {
                for walk in &mut walks {
                    field.step(walk, |rank, length| out.push((step, rank, length)));
                }
            }
        }
        out
    }

    #[test]
    fn counts_and_lengths_are_those_of_a_compound_poisson_process() {
        let sources = [
            source(500.0, &[(100, 3), (1_000, 1)]),
            source(2_000.0, &[(7, 1)]),
        ];
        let field = NoiseField::new(&sources, Nanos::from_micros(100), 11, |_| true);
        let (ranks, steps) = (5_000usize, 320u64);
        let all = events(&field, ranks, steps);
        let cells = ranks as f64 * steps as f64;
        let long = all.iter().filter(|e| e.2 == 1_000).count() as f64;
        let middle = all.iter().filter(|e| e.2 == 100).count() as f64;
        let short = all.iter().filter(|e| e.2 == 7).count() as f64;
        for (seen, expected) in [(long, 0.0125), (middle, 0.0375), (short, 0.2)] {
            let mean = expected * cells;
            assert!(
                (seen - mean).abs() < 4.5 * mean.sqrt(),
                "{seen} instead of {mean}"
            );
        }
        assert!(all.iter().all(|e| (0..ranks as i64).contains(&e.1)));
        // Rank-steps hit k times: e^-q q^k / k!.
        let mut hits = vec![0usize; ranks * steps as usize];
        for &(step, rank, _) in &all {
            hits[step as usize * ranks + rank as usize] += 1;
        }
        let q: f64 = 0.25;
        let mut expected = (-q).exp() * cells;
        for k in 0..5 {
            let seen = hits.iter().filter(|&&h| h == k).count() as f64;
            assert!(
                (seen - expected).abs() < 4.5 * expected.sqrt(),
                "{k}: {seen}, {expected}"
            );
            expected *= q / (k + 1) as f64;
        }
    }

    #[test]
    fn walking_step_by_step_and_all_at_once_meet_the_same_events() {
        let sources = [
            source(5_000.0, &[(3, 1), (9, 2)]),
            source(100.0, &[(70, 1)]),
        ];
        let field = NoiseField::new(&sources, Nanos::from_micros(20), 5, |_| true);
        let mut by_step = events(&field, 300, BLOCK_STEPS);
        let mut at_once = Vec::new();
        field.for_each(0, 0, 300 * BLOCK_STEPS as usize, |cell, length| {
            at_once.push(((cell / 300) as u64, (cell % 300) as i64, length));
        });
        by_step.sort_unstable();
        at_once.sort_unstable();
        assert!(by_step.len() > 100);
        assert_eq!(by_step, at_once);
    }

    #[test]
    fn removing_a_source_leaves_the_events_of_the_others_as_they_are() {
        let sources = [source(900.0, &[(3, 1)]), source(800.0, &[(70, 1)])];
        let work = Nanos::from_micros(50);
        let all = NoiseField::new(&sources, work, 5, |_| true);
        let rest = NoiseField::new(&sources, work, 5, |index| index != 0);
        let mut kept = events(&all, 4_000, 64);
        kept.retain(|e| e.2 == 70);
        assert_eq!(kept, events(&rest, 4_000, 64));
    }
}

//! Fewer events, where a sum over all of them would take too long.

use std::borrow::Cow;

/// Events that are kept, at least half of them; enough for any period that a comb of a tenth of the
/// events shows.
const KEPT: usize = 20_000;

/// All of `times`, or a part that an arbitrary but fixed rule picks from each stretch of them. A
/// regular rule would give the rest a period of its own.
pub fn thinned(times: &[f64]) -> Cow<'_, [f64]> {
    let step = (times.len() / KEPT).max(1) as u64;
    if step == 1 {
        return Cow::Borrowed(times);
    }
    Cow::Owned(
        times
            .iter()
            .zip(0..)
            .filter(|&(_, i)| mixed(i) % step == 0)
            .map(|(&t, _)| t)
            .collect(),
    )
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mixed(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_are_all_kept_and_many_evenly_thinned() {
        let times: Vec<f64> = (0..1_000_000).map(f64::from).collect();
        assert_eq!(thinned(&times[..30_000]).len(), 30_000);
        let some = thinned(&times);
        assert!((19_000..21_000).contains(&some.len()), "{}", some.len());
        let early = some.iter().filter(|&&t| t < 5e5).count();
        assert!((9_500..10_500).contains(&early), "{early}");
    }
}

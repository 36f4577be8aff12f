//! Thinning of events where a sum over all of them would take too long.

use crate::random::bits_at;
use std::borrow::Cow;

/// Events kept, at least half of them; enough for any period whose comb has a tenth of the events.
const KEPT: usize = 20_000;

/// All of `times`, or a part picked by a fixed pseudo-random rule from each stretch. A regular rule
/// would give the rest a period of its own.
pub fn thinned(times: &[f64]) -> Cow<'_, [f64]> {
    let step = (times.len() / KEPT).max(1) as u64;
    if step == 1 {
        return Cow::Borrowed(times);
    }
    Cow::Owned(
        times
            .iter()
            .zip(0..)
            .filter(|&(_, i)| bits_at(0, i) % step == 0)
            .map(|(&t, _)| t)
            .collect(),
    )
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

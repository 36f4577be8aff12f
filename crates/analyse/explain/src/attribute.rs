//! Splits a lateness into parts that add up to it exactly.

use crate::catalog::SourceId;

/// A part of a lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The source charged.
    pub source: SourceId,
    /// Nanoseconds; above zero.
    pub ns: u64,
}

/// Splits `lateness` nanoseconds: first what was `taken` from the rank in the step, then what was
/// `slow`, each up to its nanoseconds; the rest is unexplained. See [`apportion`].
pub fn split(
    lateness: u64,
    taken: &[(SourceId, u64)],
    slow: &[(SourceId, u64)],
    unexplained: SourceId,
) -> Vec<Part> {
    apportion(lateness, taken, slow, unexplained)
        .into_iter()
        .map(|(source, ns)| Part { source, ns })
        .collect()
}

/// Splits `whole` nanoseconds: first what was `taken`, then each of `next` in order up to its
/// nanoseconds; the rest goes to `last`.
///
/// If more was taken than there is (the rank was otherwise faster than the reference), the parts
/// are scaled down in proportion, in whole nanoseconds by largest remainder; the excess was
/// absorbed. Parts come largest first, equal ones in order of their key.
pub fn apportion<K: Copy + Ord>(
    whole: u64,
    taken: &[(K, u64)],
    next: &[(K, u64)],
    last: K,
) -> Vec<(K, u64)> {
    let mut parts: Vec<(K, u64)> = Vec::with_capacity(taken.len() + next.len() + 1);
    for &(key, ns) in taken {
        add(&mut parts, key, ns);
    }
    let sum: u64 = taken.iter().map(|t| t.1).sum();
    let mut rest = whole.saturating_sub(sum);
    for &(key, up_to) in next {
        let ns = rest.min(up_to);
        add(&mut parts, key, ns);
        rest -= ns;
    }
    add(&mut parts, last, rest);
    if sum > whole {
        scale(&mut parts, sum, whole);
    }
    parts.sort_by_key(|&(key, ns)| (std::cmp::Reverse(ns), key));
    parts
}

/// The parts with equal keys added up, in the order of [`apportion`].
pub fn merged<K: Copy + Ord>(parts: &[(K, u64)]) -> Vec<(K, u64)> {
    let mut out = Vec::with_capacity(parts.len());
    for &(key, ns) in parts {
        add(&mut out, key, ns);
    }
    out.sort_by_key(|&(key, ns)| (std::cmp::Reverse(ns), key));
    out
}

fn add<K: Copy + Ord>(parts: &mut Vec<(K, u64)>, key: K, ns: u64) {
    match parts.iter_mut().find(|p| p.0 == key) {
        _ if ns == 0 => {}
        Some(part) => part.1 += ns,
        None => parts.push((key, ns)),
    }
}

/// Scales parts that add up to `sum` so that they add up to `target`, which is smaller.
fn scale<K>(parts: &mut Vec<(K, u64)>, sum: u64, target: u64) {
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(parts.len());
    let mut left = target;
    for (i, part) in parts.iter_mut().enumerate() {
        let product = u128::from(part.1) * u128::from(target);
        part.1 = (product / u128::from(sum)) as u64;
        left -= part.1;
        remainders.push((product % u128::from(sum), i));
    }
    remainders.sort_by_key(|&(r, i)| (std::cmp::Reverse(r), i));
    for &(_, i) in remainders.iter().take(left as usize) {
        parts[i].1 += 1;
    }
    parts.retain(|p| p.1 > 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use idlewave_run::SourceKind;
    use proptest::prelude::*;

    fn ids() -> Vec<SourceId> {
        let mut catalog = Catalog::default();
        ["a", "b", "c", "slow", "rest"]
            .map(|name| catalog.intern(SourceKind::Task, name))
            .to_vec()
    }

    #[test]
    fn what_was_taken_comes_first_then_what_was_slow_then_unexplained() {
        let id = ids();
        let parts = split(
            100,
            &[(id[0], 30), (id[1], 10), (id[0], 20)],
            &[(id[3], 25)],
            id[4],
        );
        let named: Vec<_> = parts.iter().map(|p| (p.source, p.ns)).collect();
        assert_eq!(named, [(id[0], 50), (id[3], 25), (id[4], 15), (id[1], 10)]);
    }

    #[test]
    fn a_step_less_late_than_what_was_taken_scales_the_parts() {
        let id = ids();
        let parts = split(50, &[(id[0], 75), (id[1], 25)], &[(id[3], 10)], id[4]);
        let named: Vec<_> = parts.iter().map(|p| (p.source, p.ns)).collect();
        // 37.5 and 12.5: the remainders are equal, the earlier source gets the nanosecond.
        assert_eq!(named, [(id[0], 38), (id[1], 12)]);
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_lateness_exactly(
            lateness in 0u64..1_000_000_000_000,
            taken in proptest::collection::vec((0usize..3, 0u64..1_000_000_000_000), 0..6),
            slow in 0u64..1_000_000,
        ) {
            let id = ids();
            let taken: Vec<_> = taken.into_iter().map(|(s, ns)| (id[s], ns)).collect();
            let parts = split(lateness, &taken, &[(id[2], slow), (id[3], slow)], id[4]);
            prop_assert_eq!(parts.iter().map(|p| p.ns).sum::<u64>(), lateness);
            prop_assert!(parts.iter().all(|p| p.ns > 0));
            prop_assert!(parts.windows(2).all(|w| w[0].ns >= w[1].ns));
        }
    }
}

//! Change points in the mean of a series: PELT with a quadratic cost.
//!
//! Reference: Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107 (2012) 1590.

/// Indices at which a new segment starts, without the first. A segment has at least `shortest` >= 1
/// values; every further segment must lower the sum of squares by more than `penalty`.
pub fn change_points(values: &[f64], penalty: f64, shortest: usize) -> Vec<usize> {
    let n = values.len();
    let shortest = shortest.max(1);
    if n < 2 * shortest {
        return Vec::new();
    }
    let origin = values[0];
    let mut sums = vec![(0.0, 0.0)];
    for value in values {
        let (sum, squares) = sums[sums.len() - 1];
        let off = value - origin;
        sums.push((sum + off, squares + off * off));
    }
    let cost = |from: usize, to: usize| {
        let sum = sums[to].0 - sums[from].0;
        (sums[to].1 - sums[from].1 - sum * sum / (to - from) as f64).max(0.0)
    };
    // best[t]: cost of the first t values; from[t]: start of the last of their segments.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut from = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates: Vec<usize> = Vec::new();
    for to in shortest..=n {
        let newest = to - shortest;
        if newest == 0 || newest >= shortest {
            candidates.push(newest);
        }
        for &begin in &candidates {
            let total = best[begin] + cost(begin, to) + penalty;
            if total < best[to] {
                best[to] = total;
                from[to] = begin;
            }
        }
        candidates.retain(|&begin| best[begin] + cost(begin, to) <= best[to]);
    }
    let mut found = Vec::new();
    let mut at = from[n];
    while at > 0 {
        found.push(at);
        at = from[at];
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn two_steps_are_found_where_they_are() {
        let values: Vec<f64> = (0..90)
            .map(|i| if (30..57).contains(&i) { 5.0 } else { 1.0 })
            .collect();
        assert_eq!(change_points(&values, 1.0, 2), [30, 57]);
    }

    #[test]
    fn noise_alone_has_no_change_point() {
        let mut random = Random::new(3);
        let found: usize = (0..50)
            .map(|_| {
                let values: Vec<f64> = (0..400).map(|_| random.normal()).collect();
                change_points(&values, 3.0 * 400.0_f64.ln(), 2).len()
            })
            .sum();
        assert!(found <= 2, "{found}");
    }

    #[test]
    fn pruned_search_is_as_good_as_the_exhaustive_one() {
        let mut random = Random::new(5);
        for _ in 0..30 {
            let values: Vec<f64> = (0..24)
                .map(|i| f64::from(i / 8 % 2) * 3.0 + random.normal())
                .collect();
            let sse = |part: &[f64]| {
                let mean = part.iter().sum::<f64>() / part.len() as f64;
                part.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>()
            };
            let total = |cuts: &[usize]| {
                let mut edges = vec![0];
                edges.extend_from_slice(cuts);
                edges.push(24);
                edges
                    .windows(2)
                    .map(|e| sse(&values[e[0]..e[1]]))
                    .sum::<f64>()
                    + 4.0 * cuts.len() as f64
            };
            let found = total(&change_points(&values, 4.0, 1));
            for a in 1..24 {
                assert!(found <= total(&[a]) + 1e-9);
                for b in a + 1..24 {
                    assert!(found <= total(&[a, b]) + 1e-9);
                }
            }
        }
    }
}

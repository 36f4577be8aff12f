//! Means of correlated series with an interval, by block means.
//!
//! Successive steps of a simulation depend on each other. Means of long blocks hardly do, so their
//! spread gives the error of the overall mean (Law, "Simulation Modeling and Analysis", 9.5.3). As
//! the right length is unknown, the widest of the intervals for 10, 20 and 40 blocks is taken.

/// A mean with the half-width of its 95 % interval, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BlockMean {
    pub mean: f64,
    pub half_width: f64,
}

/// Mean over equally long parts of a series; `None` for fewer than two parts.
pub(crate) fn block_mean(parts: &[f64]) -> Option<BlockMean> {
    if parts.len() < 2 {
        return None;
    }
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    let mut half_width = 0.0f64;
    for blocks in [10, 20, 40] {
        let blocks = blocks.min(parts.len());
        let length = parts.len() / blocks;
        let means: Vec<f64> = parts
            .chunks_exact(length)
            .take(blocks)
            .map(|chunk| chunk.iter().sum::<f64>() / length as f64)
            .collect();
        let centre = means.iter().sum::<f64>() / blocks as f64;
        let variance =
            means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / (blocks - 1) as f64;
        half_width = half_width.max(student_t95(blocks - 1) * (variance / blocks as f64).sqrt());
    }
    Some(BlockMean { mean, half_width })
}

/// Two-sided 95 % quantile of Student's t, from 1 degree of freedom (a table; above 10, an
/// expansion accurate to 1e-3).
fn student_t95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    match TABLE.get(freedom.saturating_sub(1)) {
        Some(&t) => t,
        None => 1.96 + 2.372 / freedom as f64 + 2.82 / (freedom as f64).powi(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_the_tables() {
        for (freedom, t) in [
            (1, 12.706),
            (9, 2.262),
            (19, 2.093),
            (30, 2.042),
            (39, 2.023),
        ] {
            assert!((student_t95(freedom) - t).abs() < 2e-3, "{freedom}");
        }
    }

    #[test]
    fn a_constant_series_has_no_spread_and_a_single_value_no_interval() {
        assert_eq!(
            block_mean(&[3.0; 57]),
            Some(BlockMean {
                mean: 3.0,
                half_width: 0.0
            })
        );
        assert_eq!(block_mean(&[3.0]), None);
    }

    #[test]
    fn two_values_give_the_interval_by_hand() {
        let m = block_mean(&[1.0, 3.0]).unwrap();
        assert_eq!(m.mean, 2.0);
        assert!((m.half_width - 12.706).abs() < 1e-9); // sd sqrt(2), error 1
    }

    #[test]
    fn correlation_within_blocks_widens_the_interval() {
        let alternating: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let slow: Vec<f64> = (0..400).map(|i| f64::from(i / 40 % 2)).collect();
        assert!(
            block_mean(&slow).unwrap().half_width
                > 5.0 * block_mean(&alternating).unwrap().half_width
        );
    }
}

//! Idle waves: how a delay travelled through the ranks.
//!
//! All waits that go back to the same event are one wave. Its speed comes from a regression of the
//! ends of its waits over their hops; its decay from one of the logarithm of their mean length. On
//! a ring where every rank waits for one neighbour in every step, a silent system carries a delay
//! at one rank per step of computation and communication, undamped (Afzal, Hager and Wellein, IEEE
//! CLUSTER 2019).

use super::lanes::Program;
use super::origins::{Explained, Origins};
use super::waits::Waits;
use crate::catalog::SourceId;
use idlewave_run::findings::{Estimate, WaveFinding};
use idlewave_stats::distributions::student_quantile;
use idlewave_units::{Nanos, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// Waves listed in the findings.
const KEPT: usize = 20;
/// Waits listed per wave.
const POINTS_KEPT: usize = 1_000;

/// A wave; its source is a number in the catalog.
#[derive(Clone, Debug)]
pub struct Wave {
    pub finding: WaveFinding,
    pub source: SourceId,
}

/// The waves that travelled at least two hops, most time lost first.
pub fn waves(program: &Program, waits: &Waits, origins: &Origins) -> Vec<Wave> {
    let far: BTreeSet<(u32, u64)> = origins
        .explained
        .iter()
        .filter(|e| e.hops > 0)
        .map(|e| e.anchor)
        .collect();
    let mut groups: BTreeMap<(u32, u64), Vec<&Explained>> = BTreeMap::new();
    for explained in origins.explained.iter().filter(|e| far.contains(&e.anchor)) {
        groups.entry(explained.anchor).or_default().push(explained);
    }
    let mut out: Vec<Wave> = groups
        .into_iter()
        .filter_map(|((lane, _), members)| {
            wave(
                program,
                waits,
                origins,
                program.lanes[lane as usize].rank,
                &members,
            )
        })
        .collect();
    out.sort_by_key(|w| {
        (
            std::cmp::Reverse(w.finding.lost),
            w.finding.begin_ns,
            w.finding.origin,
        )
    });
    out.truncate(KEPT);
    out
}

fn wave(
    program: &Program,
    waits: &Waits,
    origins: &Origins,
    origin: Rank,
    members: &[&Explained],
) -> Option<Wave> {
    // Hops from the origin: a rank that waits for the origin itself is one hop away.
    let mut points: Vec<(Rank, u32, u64, Nanos)> = members
        .iter()
        .map(|e| {
            let wait = &waits.all[e.wait as usize];
            let rank = program.lanes[wait.lane as usize].rank;
            (
                rank,
                e.hops + 1,
                wait.begin,
                Nanos::from_nanos(wait.length()),
            )
        })
        .collect();
    points.sort_by_key(|p| (p.1, p.2, p.0));
    let mut by_source: BTreeMap<SourceId, u64> = BTreeMap::new();
    for share in members.iter().flat_map(|e| origins.shares_of(e)) {
        if share.origin == origin {
            *by_source.entry(share.source).or_default() += share.ns;
        }
    }
    let lost: u64 = by_source.values().sum();
    let (&source, _) = by_source
        .iter()
        .max_by_key(|&(&id, &ns)| (ns, std::cmp::Reverse(id)))?;
    let hops = points.last()?.1;
    let ends: Vec<(f64, f64)> = {
        let first = points.iter().map(|p| p.2 + p.3.get()).min()?;
        let end = |p: &(Rank, u32, u64, Nanos)| (p.2 + p.3.get() - first) as f64;
        points.iter().map(|p| (f64::from(p.1), end(p))).collect()
    };
    let mut lengths: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for point in &points {
        let sum = lengths.entry(point.1).or_default();
        *sum = (sum.0 + point.3.as_f64(), sum.1 + 1.0);
    }
    let means: Vec<(f64, f64)> = lengths
        .iter()
        .map(|(&hop, &(sum, n))| (f64::from(hop), (sum / n).ln()))
        .collect();
    let first = lengths.get(&1).map_or(0.0, |&(sum, n)| sum / n);
    let finding = WaveFinding {
        origin,
        begin_ns: points.iter().map(|p| p.2).min()?,
        source: 0,
        ranks: points.iter().map(|p| p.0).collect::<BTreeSet<_>>().len() as u32,
        hops,
        lost: Nanos::from_nanos(lost),
        speed: speed(&ends),
        first: Nanos::from_nanos(first.round() as u64),
        decay: line(&means)
            .filter(|_| means.len() >= 3)
            .map(|l| 1.0 - l.slope.exp()),
        points: points.into_iter().take(POINTS_KEPT).collect(),
    };
    Some(Wave { finding, source })
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    slope: f64,
    /// Standard error of the slope; 0 with two points.
    error: f64,
}

/// Least squares; `None` unless there are two different abscissae.
fn line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let xx: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    if points.len() < 2 || xx <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / xx;
    let off: f64 = points
        .iter()
        .map(|p| (p.1 - y - slope * (p.0 - x)).powi(2))
        .sum();
    let error = match points.len() {
        2 => 0.0,
        _ => (off / (n - 2.0) / xx).sqrt(),
    };
    Some(Line { slope, error })
}

/// Hops per second from (hops, nanoseconds); `None` if the interval includes an infinite speed.
fn speed(ends: &[(f64, f64)]) -> Option<Estimate> {
    if ends.len() < 3 {
        return None;
    }
    let line = line(ends)?;
    let half = student_quantile(0.975, (ends.len() - 2) as f64) * line.error;
    (line.slope - half > 0.0).then(|| Estimate {
        value: 1e9 / line.slope,
        low: 1e9 / (line.slope + half),
        high: 1e9 / (line.slope - half),
        n: ends.len() as u64,
        method: "regression of the ends of waits over hops, Student's t, 95 %".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_points_has_the_slope_and_error_of_the_textbook() {
        // Hand arithmetic: mean (2, 10/3), slope 5/2, residuals 1/6, -1/3, 1/6: error sqrt(1/6 /
        // 2).
        let found = line(&[(1.0, 1.0), (2.0, 3.0), (3.0, 6.0)]).expect("three abscissae");
        assert!((found.slope - 2.5).abs() < 1e-12);
        assert!((found.error - (1.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn waits_that_all_end_at_once_have_no_speed() {
        assert_eq!(speed(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]), None);
        let steady = speed(&[(1.0, 0.0), (2.0, 500.0), (3.0, 1_000.0)]).expect("steady");
        assert!((steady.value - 2e6).abs() < 1e-3);
    }
}

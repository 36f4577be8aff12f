//! Judges whether the model explains the measurement, and collects warnings.

use super::model::{LONG, Numbers};
use super::point_fit::PointFit;
use super::samples::{CalibrationSamples, Distance, Probe};
use crate::parameters::Misfit;
use idlewave_units::counted;
use idlewave_units::show::{digits, percent};
use serde::{Deserialize, Serialize};

/// Points that deviate by more than this factor are reported.
const FAR: f64 = 1.5;
/// A misfit above this is reported.
const MUCH: f64 = 0.25;
/// With fewer repetitions, a warning says that intervals are too narrow.
const FEW: usize = 5;
/// Pairs do not share fairly if the slowest takes this many times as long as the fastest.
const UNFAIR: f64 = 1.5;

/// Typical deviations of the model from the measurement: root mean square of the residuals (natural
/// logarithms). `None` if nothing of the kind was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deviations {
    /// Of messages shorter than 32 KiB.
    pub short: Option<f64>,
    /// Of longer ones within a node.
    pub inside: Option<f64>,
    /// Of longer ones between nodes.
    pub outside: Option<f64>,
}

impl Deviations {
    /// The misfit for the parameter file: like the parameters, assumed where nothing was measured.
    pub(super) fn misfit(&self) -> Misfit {
        Misfit {
            short: self.short.unwrap_or(Misfit::ASSUMED.short),
            inside: self.inside.unwrap_or(Misfit::ASSUMED.inside),
            outside: self.outside.unwrap_or(Misfit::ASSUMED.outside),
        }
    }
}

/// Root mean square residual of the points of a kind, as far as the model predicts their times;
/// `None` without such points.
fn deviation(points: &[PointFit], of_kind: impl Fn(&Probe) -> bool) -> Option<f64> {
    let residuals = points
        .iter()
        .filter(|p| of_kind(&p.probe))
        .filter_map(PointFit::residual);
    let squares: Vec<f64> = residuals.map(|r| r * r).collect();
    match squares.len() {
        0 => None,
        n => Some((squares.iter().sum::<f64>() / n as f64).sqrt()),
    }
}

/// Deviations of the model from the points, by the parameter that determines their time.
pub fn deviations(points: &[PointFit]) -> Deviations {
    let long = |probe: &Probe| probe.bytes() >= LONG;
    let inside = |probe: &Probe| match probe {
        Probe::PingPong { way, .. } | Probe::Stream { way, .. } => *way == Distance::Inside,
        Probe::AllToAll { nodes, .. } => *nodes == 1,
        Probe::Memory { .. } => false,
    };
    let message = |probe: &Probe| !matches!(probe, Probe::Memory { .. });
    Deviations {
        short: deviation(points, |p| message(p) && !long(p)),
        inside: deviation(points, |p| message(p) && long(p) && inside(p)),
        outside: deviation(points, |p| message(p) && long(p) && !inside(p)),
    }
}

/// The point with the largest deviation.
pub fn worst(points: &[PointFit]) -> Option<usize> {
    let far = points.iter().enumerate();
    far.filter_map(|(i, p)| Some((i, p.residual()?.abs())))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(i, _)| i)
}

/// All warnings.
pub fn warnings(samples: &CalibrationSamples, found: &Numbers, points: &[PointFit]) -> Vec<String> {
    let mut said = Vec::new();
    if !samples.cover(Distance::Outside) {
        said.push("all ranks were on one node: everything between nodes is assumed".to_owned());
    }
    said.extend(unexplained(points));
    let seen = |f: Option<super::curves::Filling>| f.is_some_and(|f| f.seen);
    if let Some(outside) = &found.outside {
        // If a single pair saturates the link, that looks like a per-pair limit.
        let several = seen(outside.filling);
        if !several && outside.filling.is_some() {
            said.push(
                "no number of pairs saturated the adapter: its capacity is at least the stated one"
                    .to_owned(),
            );
        }
    }
    if let Some(inside) = &found.inside {
        match inside.filling {
            None => said.push("memory was not measured with several pairs".to_owned()),
            Some(filling) if !filling.seen => said.push(
                "no number of pairs saturated the memory: its capacity is at least the stated one"
                    .to_owned(),
            ),
            Some(_) => {}
        }
    }
    if samples.shared_cpus() {
        said.push(format!(
            "{} shared {} of a node: times inside it and of short messages include waits for a CPU",
            counted(samples.ranks_per_node, "rank"),
            counted(samples.cpus_per_node, "CPU")
        ));
    }
    let least = samples.points.iter().map(|p| p.seconds.len()).min();
    if let Some(least) = least.filter(|&n| n < FEW) {
        said.push(format!(
            "some points have only {least}: intervals are too narrow; measure for longer",
            least = counted(least, "repetition")
        ));
    }
    said.extend(unfair(samples));
    said
}

fn unexplained(points: &[PointFit]) -> Option<String> {
    let misfit = deviation(points, |_| true)?;
    let point = &points[worst(points)?];
    let factor = point.residual()?.exp();
    if misfit <= MUCH && (1.0 / FAR..=FAR).contains(&factor) {
        return None;
    }
    let off = match factor >= 1.0 {
        true => format!("{} times as long as", digits(factor)),
        false => format!("1/{} of the time that", digits(1.0 / factor)),
    };
    let verb = if factor >= 1.0 { "" } else { " says" };
    Some(format!(
        "the model does not explain everything: its typical error is {}; {} took {off} it{verb}",
        percent(misfit.exp_m1()),
        point.probe.words()
    ))
}

fn unfair(samples: &CalibrationSamples) -> Option<String> {
    let ratio = |p: &super::SamplePoint| {
        let pairs = p.seconds.iter().zip(&p.fastest_seconds);
        let mut ratios: Vec<f64> = pairs.map(|(slow, fast)| slow / fast).collect();
        ratios.sort_by(f64::total_cmp);
        Some((ratios.get(ratios.len() / 2).copied()?, p.probe))
    };
    let streams = samples
        .points
        .iter()
        .filter(|p| matches!(p.probe, super::Probe::Stream { bytes, .. } if bytes >= LONG));
    let (most, probe) = streams
        .filter_map(ratio)
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most > UNFAIR).then(|| {
        format!(
            "pairs do not share evenly: of {} the slowest took {} times as long as the fastest",
            probe.words(),
            digits(most)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;

    #[test]
    fn misfits_are_told_apart_by_length_and_by_place() {
        let point = |way, bytes, factor: f64| PointFit {
            probe: Probe::PingPong {
                way,
                bytes,
                rounds: 1,
            },
            seconds: Quantity::stated(factor.exp()),
            model_seconds: Some(1.0),
        };
        let points = [
            point(Distance::Inside, 8, 0.3),
            point(Distance::Outside, LONG - 1, -0.4),
            point(Distance::Inside, LONG, 0.7),
            point(Distance::Outside, LONG, -0.2),
            point(Distance::Across, 2 * LONG, 0.2),
        ];
        let found = deviations(&points);
        let near = |found: Option<f64>, value: f64| (found.unwrap() - value).abs() < 1e-12;
        // The square root of the mean of 0.09 and 0.16.
        assert!(near(found.short, 0.125_f64.sqrt()));
        assert!(near(found.inside, 0.7));
        assert!(near(found.outside, 0.2));
        assert_eq!(deviations(&[]), Deviations::default());
    }

    #[test]
    fn what_was_not_measured_has_the_misfit_of_what_is_assumed() {
        let measured = Deviations {
            inside: Some(0.3),
            ..Deviations::default()
        };
        let misfit = measured.misfit();
        assert_eq!(
            (misfit.short, misfit.inside, misfit.outside),
            (0.1, 0.3, 0.1)
        );
    }
}

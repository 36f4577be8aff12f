//! Runs a calibration from the first look at the network to the last round over all points.
//!
//! Every round visits all points once, so that a machine that becomes slower or faster affects all
//! rank counts alike. Warm-up measurements are dropped. All ranks make the same decisions, from
//! times that all of them have or from rank 0.

use super::layout::Layout;
use super::plan::{LEAST_ROUNDS, Shape, Speeds, counts, lengths, with_count};
use super::probe::{Runner, look};
use crate::{MeasureError, gather};
use idlewave_fabric::{Fabric, FabricError};
use idlewave_network::{Distance, Probe, SamplePoint};
use idlewave_session::{Progress, Stop};
use idlewave_units::Rank;
use std::time::{Duration, Instant};

/// If a round trip of the ping-pong takes a larger share of the time, longer messages are skipped.
const LONGEST_SHARE: f64 = 0.01;
/// Even the minimum number of rounds is abandoned after this multiple of the time.
const OVERTIME: f64 = 3.0;

/// The measurements.
pub struct Measured {
    /// Points with at least one repetition.
    pub points: Vec<SamplePoint>,
    /// What was omitted.
    pub notes: Vec<String>,
}

/// The state of one calibration.
pub struct Rounds<'a, F: Fabric> {
    /// All ranks.
    pub fabric: &'a mut F,
    /// Which ranks do what.
    pub layout: &'a Layout,
    /// Bytes that a rank may use.
    pub memory: u64,
    /// The time available.
    pub budget: Duration,
    /// Requests to end.
    pub stop: &'a Stop,
    /// Where progress is reported.
    pub progress: &'a dyn Progress,
    /// When the calibration began.
    pub begin: Instant,
}

/// Points measured by the same ranks, by index.
struct Group {
    members: Vec<Rank>,
    points: Vec<usize>,
}

/// The results of the first look.
#[derive(Default)]
struct Look {
    probes: Vec<Probe>,
    units: Vec<f64>,
    speeds: Speeds,
    notes: Vec<String>,
}

impl<F: Fabric> Rounds<'_, F> {
    /// Measures everything.
    pub fn run(mut self) -> Result<Measured, MeasureError> {
        let mut runner = Runner::default();
        self.progress.part("a first look at the network");
        let mut seen = self.look()?;
        let spent: f64 = seen.units.iter().sum();
        let shape = Shape {
            nodes: self.layout.nodes(),
            per_node: self.layout.per_node(),
            ways: self.layout.ways(),
            memory: self.memory,
        };
        let budget = self.budget.as_secs_f64();
        let (others, left_out) = shape.points(&seen.speeds, spent, budget);
        seen.notes.extend(left_out);
        let mut probes = seen.probes;
        probes.extend(others);
        let groups = self.groups(&probes);
        // The times of the others are not known yet: run them once, which also warms up.
        let mut units = seen.units;
        units.resize(probes.len(), 0.0);
        for group in &groups {
            if !self.go_on(OVERTIME)? {
                break;
            }
            let of_group: Vec<Probe> = group.points.iter().map(|&i| probes[i]).collect();
            let times = runner.run(self.fabric, &group.members, &of_group)?;
            for (&i, times) in group.points.iter().zip(times) {
                let twice = matches!(probes[i], Probe::PingPong { .. });
                units[i] = times.slowest * if twice { 2.0 } else { 1.0 };
            }
        }
        let left = self.budget.saturating_sub(self.begin.elapsed());
        // All ranks use the counts of rank 0.
        let [left] = gather::from_root(self.fabric, [left.as_nanos() as u64])?;
        let counts = counts(&probes, &units, Duration::from_nanos(left));
        let with_counts = probes.into_iter().zip(counts);
        let mut points: Vec<SamplePoint> = with_counts
            .map(|(probe, count)| SamplePoint {
                probe: with_count(probe, count),
                seconds: Vec::new(),
                fastest_seconds: Vec::new(),
            })
            .collect();
        self.progress.part("rounds over all points");
        let mut round = 0;
        let mut last = Duration::ZERO;
        while self.begins_round(round, last)? {
            let began = Instant::now();
            for group in &groups {
                if !self.go_on(OVERTIME)? {
                    break;
                }
                let probes = group.points.iter().map(|&i| points[i].probe);
                let probes: Vec<Probe> = probes.collect();
                let times = runner.run(self.fabric, &group.members, &probes)?;
                for (&i, times) in group.points.iter().zip(times) {
                    points[i].seconds.push(times.slowest);
                    points[i].fastest_seconds.push(times.fastest);
                }
            }
            last = began.elapsed();
            round += 1;
        }
        points.retain(|p| !p.seconds.is_empty());
        Ok(Measured {
            points,
            notes: seen.notes,
        })
    }

    /// Groups the points by the ranks that measure them.
    fn groups(&self, probes: &[Probe]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (i, probe) in probes.iter().enumerate() {
            let members = self.layout.members(probe);
            match groups.iter_mut().find(|group| group.members == members) {
                Some(group) => group.points.push(i),
                None => groups.push(Group {
                    members,
                    points: vec![i],
                }),
            }
        }
        groups
    }

    /// Runs ping-pongs of rising lengths until they take too long.
    fn look(&mut self) -> Result<Look, MeasureError> {
        let mut seen = Look::default();
        let all: Vec<u64> = lengths().collect();
        for way in self.layout.ways() {
            let probe = |bytes| Probe::PingPong {
                way,
                bytes,
                rounds: 1,
            };
            let members = self.layout.members(&probe(0));
            let longest = LONGEST_SHARE * self.budget.as_secs_f64() / 2.0;
            let times = look(self.fabric, &members, &all, longest)?;
            if let Some(next) = all.get(times.len()) {
                seen.notes.push(format!(
                    "ping-pong {} ends before {next} bytes: not enough time",
                    way.words()
                ));
            }
            let (Some(&empty), Some(&last)) = (times.first(), times.last()) else {
                continue;
            };
            let rate = all[times.len() - 1] as f64 / (last - empty).max(0.1 * last);
            let of_way = Some((empty, rate.max(1.0)));
            match way {
                Distance::Inside => seen.speeds.inside = of_way,
                Distance::Outside => seen.speeds.outside = of_way,
                Distance::Across => {}
            }
            seen.probes
                .extend(all.iter().zip(&times).map(|(&bytes, _)| probe(bytes)));
            seen.units.extend(times.iter().map(|time| 2.0 * time));
        }
        Ok(seen)
    }

    /// Whether to continue: no request to end on rank 0, and less than `times` the available time
    /// has passed.
    fn go_on(&mut self, times: f64) -> Result<bool, FabricError> {
        let share = self.begin.elapsed().as_secs_f64() / self.budget.as_secs_f64();
        self.progress.at(share.min(1.0));
        gather::agree(self.fabric, !self.stop.is_requested() && share < times)
    }

    /// Whether to start another round after `round` rounds, the last of which took `last`.
    fn begins_round(&mut self, round: u32, last: Duration) -> Result<bool, FabricError> {
        let enough = round >= LEAST_ROUNDS && self.begin.elapsed() + last > self.budget;
        let wanted = gather::agree(self.fabric, !enough)?;
        Ok(wanted && self.go_on(OVERTIME)?)
    }
}

//! From the first look at the network to the last round over all points.
//!
//! Every round goes once over all points, so that a machine that becomes slower or faster meanwhile does so for all numbers of ranks
//! alike. What is measured to warm up is dropped. All ranks take the same decisions: from times that all of them have, or from rank 0.

use super::layout::Layout;
use super::plan::{LEAST_ROUNDS, Shape, Speeds, counts, lengths, with_count};
use super::probe::Runner;
use crate::{MeasureError, gather};
use idlewave_fabric::{Fabric, FabricError};
use idlewave_network::{Distance, Probe, SamplePoint};
use idlewave_recording::{Progress, Stop};
use std::time::{Duration, Instant};

/// A round trip of the ping-pong that takes a larger share of the time ends the lengths.
const LONGEST_SHARE: f64 = 0.02;
/// Rounds that are made in any case are not waited for longer than so many times the time.
const OVERTIME: f64 = 3.0;

/// What was measured.
pub struct Measured {
    /// Points with at least one repetition.
    pub points: Vec<SamplePoint>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// The parts of one calibration.
pub struct Rounds<'a, F: Fabric> {
    /// All ranks.
    pub fabric: &'a mut F,
    /// Who does what.
    pub layout: &'a Layout,
    /// Bytes that a rank may use.
    pub memory: u64,
    /// Time.
    pub budget: Duration,
    /// Whether to end.
    pub stop: &'a Stop,
    /// Who is told how far it is.
    pub progress: &'a dyn Progress,
    /// When it began.
    pub begin: Instant,
}

impl<F: Fabric> Rounds<'_, F> {
    /// Measures everything.
    pub fn run(mut self) -> Result<Measured, MeasureError> {
        let mut runner = Runner::default();
        self.progress.part("a first look at the network");
        let (mut probes, mut units, speeds, mut notes) = self.look(&mut runner)?;
        let spent: f64 = units.iter().map(|u| 2.0 * u).sum();
        let shape = Shape {
            nodes: self.layout.nodes(),
            per_node: self.layout.per_node(),
            ways: self.layout.ways(),
            memory: self.memory,
        };
        let budget = self.budget.as_secs_f64();
        let (others, left_out) = shape.points(&speeds, spent, budget);
        notes.extend(left_out);
        for probe in others {
            if !self.go_on(OVERTIME)? {
                break;
            }
            units.push(runner.run(self.fabric, self.layout, &probe)?.slowest);
            probes.push(probe);
        }
        let left = self.budget.saturating_sub(self.begin.elapsed());
        // All ranks count the same: those of rank 0.
        let [left] = gather::from_root(self.fabric, [left.as_nanos() as u64])?;
        let counts = counts(&units, Duration::from_nanos(left));
        let mut points: Vec<SamplePoint> = probes
            .into_iter()
            .zip(counts)
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
            for point in &mut points {
                if !self.go_on(OVERTIME)? {
                    break;
                }
                let times = runner.run(self.fabric, self.layout, &point.probe)?;
                point.seconds.push(times.slowest);
                point.fastest_seconds.push(times.fastest);
            }
            last = began.elapsed();
            round += 1;
        }
        points.retain(|p| !p.seconds.is_empty());
        Ok(Measured { points, notes })
    }

    /// The ping-pongs, each once, with rising lengths as long as they do not take too long.
    #[allow(clippy::type_complexity)]
    fn look(
        &mut self,
        runner: &mut Runner,
    ) -> Result<(Vec<Probe>, Vec<f64>, Speeds, Vec<String>), MeasureError> {
        let (mut probes, mut units, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut speeds = Speeds::default();
        for way in self.layout.ways() {
            let mut empty = None;
            for bytes in lengths() {
                if !self.go_on(1.0)? {
                    break;
                }
                let probe = Probe::PingPong {
                    way,
                    bytes,
                    rounds: 1,
                };
                let took = runner.run(self.fabric, self.layout, &probe)?.slowest;
                if 2.0 * took > LONGEST_SHARE * self.budget.as_secs_f64() && bytes > 0 {
                    notes.push(format!(
                        "ping-pong {} ends before {bytes} bytes: the time does not suffice",
                        way.words()
                    ));
                    break;
                }
                probes.push(probe);
                units.push(2.0 * took);
                let empty = *empty.get_or_insert(took);
                let rate = bytes as f64 / (took - empty).max(0.1 * took);
                let of_way = Some((empty, rate.max(1.0)));
                match way {
                    Distance::Inside => speeds.inside = of_way,
                    Distance::Outside => speeds.outside = of_way,
                    Distance::Across => {}
                }
            }
        }
        Ok((probes, units, speeds, notes))
    }

    /// Whether rank 0 was not asked to end and less than so many times the time has passed.
    fn go_on(&mut self, times: f64) -> Result<bool, FabricError> {
        let share = self.begin.elapsed().as_secs_f64() / self.budget.as_secs_f64();
        self.progress.at(share.min(1.0));
        gather::agree(self.fabric, !self.stop.is_requested() && share < times)
    }

    /// Whether there is to be another round, after so many of which the last one took so long.
    fn begins_round(&mut self, round: u32, last: Duration) -> Result<bool, FabricError> {
        let enough = round >= LEAST_ROUNDS && self.begin.elapsed() + last > self.budget;
        let wanted = gather::agree(self.fabric, !enough)?;
        Ok(wanted && self.go_on(OVERTIME)?)
    }
}

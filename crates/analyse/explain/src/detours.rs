//! The detours of a loop, summed up one after the other: counts and times are exact, and memory does
//! not grow with their number.

use idlewave_run::DetourLoop;
use idlewave_run::findings::{DetourFindings, Estimate, LengthClass};
use idlewave_stats::histogram::FineHistogram;
use idlewave_stats::{blocks, periodicity, quantiles, rates};
use idlewave_units::Nanos;

/// Lower edges of the length classes, nanoseconds: three per decade, so that rates above round
/// lengths can be compared with those of other tools. The first class begins at the threshold of the
/// detour loop, 1 us by default.
const CLASS_EDGES: [u64; 15] = [
    0, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];
/// Periods are looked for among this many detours, the first ones; in every class as many.
const BEGINS: usize = 1 << 18;
/// Points of the periodogram at most.
const SPECTRUM_POINTS: usize = 400;

/// The detours of one loop.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    sheet: &'a DetourLoop,
    lengths: FineHistogram,
    /// Time in detours by block of time, nanoseconds.
    blocks: [f64; blocks::BLOCKS],
    begins: Vec<u64>,
    classes: Vec<Class>,
}

/// The detours of one class of lengths.
#[derive(Clone, Debug, Default)]
struct Class {
    count: u64,
    time: u64,
    extremes: Option<(u64, u64)>,
    begins: Vec<u64>,
}

impl<'a> Seen<'a> {
    /// None yet, of this loop.
    pub fn new(sheet: &'a DetourLoop) -> Self {
        Self {
            sheet,
            lengths: FineHistogram::default(),
            blocks: [0.0; blocks::BLOCKS],
            begins: Vec::new(),
            classes: vec![Class::default(); CLASS_EDGES.len()],
        }
    }

    /// Adds the next detour in order of start: start on the clock of the loop, and length, in
    /// nanoseconds.
    pub fn add(&mut self, begin: u64, length: u64) {
        self.lengths.add(length);
        let of = blocks::BLOCKS as u128;
        let at =
            u128::from(begin.saturating_sub(self.sheet.begin_ns)) * of / u128::from(self.span());
        self.blocks[(at as usize).min(blocks::BLOCKS - 1)] += length as f64;
        keep(&mut self.begins, begin);
        let class = &mut self.classes[CLASS_EDGES.partition_point(|&e| e <= length) - 1];
        class.count += 1;
        class.time = class.time.saturating_add(length);
        let (least, most) = class.extremes.unwrap_or((length, length));
        class.extremes = Some((least.min(length), most.max(length)));
        keep(&mut class.begins, begin);
    }

    fn span(&self) -> u64 {
        self.sheet.end_ns.saturating_sub(self.sheet.begin_ns).max(1)
    }

    /// All, also those that were not kept.
    pub fn count(&self) -> u64 {
        self.lengths.count() + self.sheet.not_kept
    }

    /// Lengths of those that were kept.
    pub fn lengths(&self) -> &FineHistogram {
        &self.lengths
    }

    /// What this loop shows.
    pub fn findings(&self, threshold: Nanos) -> DetourFindings {
        let watched = self.sheet.watched();
        let (periods, spectrum) = periodicity::periods_and_spectrum(&self.begins, SPECTRUM_POINTS);
        DetourFindings {
            watched,
            threshold,
            turn_quanta: self.sheet.turn_quanta,
            count: self.count(),
            rate: rates::poisson(self.count(), watched.as_secs_f64()),
            stolen: self.stolen(),
            largest: self.lengths.extremes().map(|e| Nanos::from_nanos(e.1)),
            classes: self.classes(watched),
            periods,
            spectrum,
            histogram: self.lengths.coarse().non_empty(),
        }
    }

    /// The detours by length.
    fn classes(&self, watched: Nanos) -> Vec<LengthClass> {
        let time: u64 = self.classes.iter().map(|c| c.time).sum();
        let mut shorter = 0;
        let edges = CLASS_EDGES.iter().enumerate();
        let classes = edges.zip(&self.classes).map(|((i, &from), class)| {
            let (least, most) = class.extremes.unwrap_or_default();
            let at = |rank: u64| self.lengths.at(shorter + rank).clamp(least, most);
            let median = quantiles::quantile_by_rank(class.count, 0.5, at);
            shorter += class.count;
            LengthClass {
                from: Nanos::from_nanos(from),
                below: CLASS_EDGES.get(i + 1).map(|&b| Nanos::from_nanos(b)),
                count: class.count,
                per_second: class.count as f64 / watched.as_secs_f64().max(1e-9),
                share: class.time as f64 / time.max(1) as f64,
                median: (median.n > 0).then_some(median),
                period: periodicity::periods(&class.begins).into_iter().next(),
            }
        });
        classes.collect()
    }

    /// Stolen fraction over the whole time, with an interval over blocks of time.
    pub fn stolen(&self) -> Estimate {
        let value = self.sheet.stolen.as_f64() / self.sheet.watched().as_f64().max(1.0);
        let block = self.span() as f64 / blocks::BLOCKS as f64;
        let interval = blocks::mean(&self.blocks.map(|time| time / block), blocks::BLOCKS);
        Estimate {
            value,
            low: (value - interval.half_width).max(0.0),
            high: (value + interval.half_width).min(1.0),
            n: self.lengths.count(),
            method: format!(
                "time in detours over time watched; 95 % interval over {} blocks",
                blocks::BLOCKS
            ),
        }
    }
}

fn keep(begins: &mut Vec<u64>, begin: u64) {
    if begins.len() < BEGINS {
        begins.push(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Cpu;

    #[test]
    fn a_rare_spinner_among_ticks_has_its_own_length_rate_share_and_period() {
        // Ten seconds: a tick of 15 us every 4 ms, and 50 us every 99.9 ms.
        let every = |period: u64, length: u64| {
            let times = (0..10_000_000_000 / period).map(move |k| 1_000 + k * period);
            times.map(move |time| (time, length))
        };
        let mut detours: Vec<(u64, u64)> = every(4_000_000, 15_000).collect();
        detours.extend(every(99_900_000, 50_000).map(|(begin, length)| (begin + 700_000, length)));
        detours.sort_unstable();
        let sheet = DetourLoop {
            cpu: Cpu::new(0),
            begin_ns: 0,
            end_ns: 10_000_000_000,
            turns: 1,
            turn_quanta: 1.0,
            recording: Nanos::ZERO,
            not_kept: 0,
            stolen: Nanos::from_nanos(detours.iter().map(|d| d.1).sum()),
            involuntary_switches: None,
            moved: false,
        };
        let mut seen = Seen::new(&sheet);
        detours.iter().for_each(|d| seen.add(d.0, d.1));
        let found = seen.findings(Nanos::from_micros(1));
        let kept: u64 = found.histogram.iter().map(|bin| bin.1).sum();
        assert_eq!(kept, 2_600);
        let spectrum = found.spectrum.as_ref().expect("enough detours");
        assert!(spectrum.points.len() <= 400);
        let highest = spectrum.points.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (hertz, power) = *highest.expect("points");
        // Of the tick or a harmonic of it, on frequencies 0.05 Hz apart.
        assert!(
            (hertz / 250.0 - (hertz / 250.0).round()).abs() < 1e-3,
            "{hertz}"
        );
        assert!(power > spectrum.threshold);
        let at = |from| {
            let mut classes = found.classes.iter();
            classes
                .find(|c| c.from == Nanos::from_micros(from))
                .expect("a class")
        };
        let (ticks, spinner) = (at(10), at(50));
        assert_eq!((ticks.count, spinner.count), (2_500, 100));
        assert_eq!(spinner.per_second, 10.0);
        assert!((spinner.share - 5.0 / 42.5).abs() < 1e-9, "{spinner:?}");
        let is = |class: &LengthClass, length: f64, period: f64| {
            let median = class.median.as_ref().expect("detours");
            let comb = class.period.as_ref().expect("a period");
            median.value == length && (comb.period.value / period - 1.0).abs() < 1e-4
        };
        assert!(is(spinner, 50_000.0, 99_900_000.0), "{spinner:?}");
        assert!(is(ticks, 15_000.0, 4_000_000.0), "{ticks:?}");
        let empty = at(20);
        assert_eq!(
            (empty.count, &empty.median, &empty.period),
            (0, &None, &None)
        );
    }
}

//! Least squares on relative errors: lines, two lines with a break, and saturating curves.
//!
//! Times and bandwidths span five orders of magnitude. With absolute errors only the longest
//! messages would count; relative errors weigh every length the same.

/// `at + per * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// At 0; not below 0.
    pub at: f64,
    /// Per unit; not below 0.
    pub per: f64,
}

impl Line {
    fn value(self, x: f64) -> f64 {
        self.at + self.per * x
    }

    fn error(self, points: &[(f64, f64)]) -> f64 {
        let relative = |&(x, y): &(f64, f64)| (self.value(x) / y - 1.0).powi(2);
        points.iter().map(relative).sum()
    }
}

/// The line with the least squared relative errors through points with y above 0; `None` without
/// points.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    if points.is_empty() {
        return None;
    }
    // Minimises the sum of (at u + per v - 1)^2 with u = 1 / y, v = x / y.
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let (u, v) = (1.0 / y, x / y);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    let level = Line {
        at: u1 / uu,
        per: 0.0,
    };
    let through_zero = Line {
        at: 0.0,
        per: v1 / vv,
    };
    let determinant = uu * vv - uv * uv;
    let free = Line {
        at: (u1 * vv - v1 * uv) / determinant,
        per: (v1 * uu - u1 * uv) / determinant,
    };
    let sound = |l: &Line| l.at.is_finite() && l.per.is_finite() && l.at >= 0.0 && l.per >= 0.0;
    let all = [free, level, through_zero];
    all.into_iter()
        .filter(sound)
        .min_by(|a, b| a.error(points).total_cmp(&b.error(points)))
}

/// One line, or two with a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pieces {
    /// Up to the break.
    pub short: Line,
    /// After the break; equal to `short` without one.
    pub long: Line,
    /// The last x of the first piece; `None` if one line suffices.
    pub last_short: Option<f64>,
}

/// No library changes its protocol for messages shorter than this, in bytes.
const LEAST_LIMIT: f64 = 1024.0;
/// Points that a piece needs.
const LEAST_POINTS: usize = 3;
/// Relative errors below this come from the clock and the machine, and justify no break.
const NOISE: f64 = 0.02;

/// Two lines if Schwarz's criterion prefers them to one (G. Schwarz, "Estimating the dimension of a
/// model", 1978). `points` must be sorted by x.
pub fn pieces(points: &[(f64, f64)]) -> Option<Pieces> {
    let whole = line(points)?;
    let n = points.len() as f64;
    let score =
        |error: f64, parameters: f64| n * (error / n + NOISE * NOISE).ln() + parameters * n.ln();
    let one = Pieces {
        short: whole,
        long: whole,
        last_short: None,
    };
    let mut best = (score(whole.error(points), 2.0), one);
    for cut in LEAST_POINTS..(points.len() + 1).saturating_sub(LEAST_POINTS) {
        let (first, second) = points.split_at(cut);
        if points[cut - 1].0 < LEAST_LIMIT {
            continue;
        }
        let (Some(short), Some(long)) = (line(first), line(second)) else {
            continue;
        };
        let found = score(short.error(first) + long.error(second), 5.0);
        if found < best.0 {
            let last_short = Some(points[cut - 1].0);
            best = (
                found,
                Pieces {
                    short,
                    long,
                    last_short,
                },
            );
        }
    }
    Some(best.1)
}

/// A total that rises with the number of flows until a shared resource saturates: `min(flows *
/// each, full)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filling {
    /// Rate of a single flow.
    pub each: f64,
    /// Largest total; a lower bound if `seen` is false.
    pub full: f64,
    /// Whether the curve saturated.
    pub seen: bool,
}

/// A total this much below the sum of its flows is limited by a shared resource.
const SEEN: f64 = 0.95;

/// The curve with the least squared logarithmic errors through totals, sorted by number of flows;
/// `None` without points. If the first point is already saturated, `each` is just a flow's share of
/// it.
pub fn filling(totals: &[(f64, f64)]) -> Option<Filling> {
    let last = totals.last()?.0;
    let mean = |logs: &mut dyn Iterator<Item = f64>| {
        let (sum, n) = logs.fold((0.0, 0.0), |(sum, n), log| (sum + log, n + 1.0));
        (sum / n).exp()
    };
    let mut best: Option<(f64, Filling)> = None;
    for cut in 1..=totals.len() {
        let (rising, flat) = totals.split_at(cut);
        let each = mean(&mut rising.iter().map(|(flows, total)| (total / flows).ln()));
        let full = match flat.is_empty() {
            true => last * each,
            false => mean(&mut flat.iter().map(|(_, total)| total.ln())),
        };
        let off = |&(flows, total): &(f64, f64)| ((flows * each).min(full) / total).ln().powi(2);
        let error: f64 = totals.iter().map(off).sum();
        let seen = full < SEEN * last * each;
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, Filling { each, full, seen }));
        }
    }
    best.map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-6
    }

    #[test]
    fn a_line_comes_back() {
        let points: Vec<_> = [0.0, 10.0, 1e3, 1e6].map(|x| (x, 5.0 + 0.25 * x)).to_vec();
        let found = line(&points).unwrap();
        assert!(close(found.at, 5.0) && close(found.per, 0.25), "{found:?}");
        assert_eq!(line(&[]), None);
    }

    #[test]
    fn what_falls_is_taken_as_level_and_what_begins_below_0_as_proportional() {
        let falling = line(&[(0.0, 3.0), (10.0, 2.0)]).unwrap();
        assert_eq!(falling.per, 0.0);
        assert!((2.0..3.0).contains(&falling.at));
        let below = line(&[(1.0, 1.0), (10.0, 20.0)]).unwrap();
        assert_eq!(below.at, 0.0);
    }

    #[test]
    fn two_pieces_are_found_where_there_are_two_and_only_there() {
        let xs: Vec<f64> = (3..20).map(|p| f64::from(1 << p)).collect();
        let one: Vec<_> = xs.iter().map(|&x| (x, 7.0 + x / 100.0)).collect();
        assert_eq!(pieces(&one).unwrap().last_short, None);
        let two = |&x: &f64| match x <= 4096.0 {
            true => (x, 7.0 + x / 50.0),
            false => (x, 40.0 + x / 100.0),
        };
        let found = pieces(&xs.iter().map(two).collect::<Vec<_>>()).unwrap();
        assert_eq!(found.last_short, Some(4096.0));
        assert!(close(found.short.at, 7.0) && close(found.long.per, 0.01));
    }

    #[test]
    fn filling_finds_what_is_shared_and_says_when_it_never_saw_it() {
        let curve = |full: f64| -> Vec<_> {
            let total = |k: i32| (f64::from(k), (f64::from(k) * 4.0).min(full));
            (1..=8).map(total).collect()
        };
        let found = filling(&curve(10.0)).unwrap();
        assert!(found.seen && close(found.each, 4.0) && close(found.full, 10.0));
        // The resource is slower than a single flow.
        let narrow = filling(&curve(3.0)).unwrap();
        assert!(narrow.seen && close(narrow.each, 3.0) && close(narrow.full, 3.0));
        let wide = filling(&curve(1e9)).unwrap();
        assert!(!wide.seen && close(wide.full, 32.0));
    }

    proptest! {
        #[test]
        fn units_do_not_matter(scale in 1e-9f64..1e9, totals in proptest::collection::vec(0.1f64..10.0, 1..9)) {
            let by = |s: f64| totals.iter().enumerate().map(|(i, t)| ((i + 1) as f64, t * s)).collect::<Vec<_>>();
            let (a, b) = (filling(&by(1.0)).unwrap(), filling(&by(scale)).unwrap());
            prop_assert!(close(a.full * scale, b.full) && close(a.each * scale, b.each));
            let (a, b) = (line(&by(1.0)).unwrap(), line(&by(scale)).unwrap());
            prop_assert!((a.value(1.0) * scale / b.value(1.0) - 1.0).abs() < 1e-6);
        }
    }
}

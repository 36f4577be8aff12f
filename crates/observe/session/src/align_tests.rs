use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn point(time_ns: u64, offset_ns: i64, round_trip: u64) -> AlignmentPoint {
    AlignmentPoint {
        time_ns,
        offset_ns,
        round_trip: Nanos::from_nanos(round_trip),
    }
}

/// A clock that shows `offset` more than true time at 0 and gains `ppb` parts in 10^9.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: i64,
    ppb: i64,
}

impl Clock {
    fn at(self, t: u64) -> u64 {
        let gained = i128::from(t) * i128::from(self.ppb) / 1_000_000_000;
        (i128::from(t) + i128::from(self.offset) + gained) as u64
    }
}

/// An exchange at true time `t`: the request takes `there`, the answer `back`.
fn exchange(clocks: &[Clock], node: usize, peer: usize, t: u64, there: u64, back: u64) -> Exchange {
    Exchange {
        node,
        peer,
        sent_ns: clocks[node].at(t),
        peer_ns: clocks[peer].at(t + there),
        received_ns: clocks[node].at(t + there + back),
    }
}

#[test]
fn two_exchanges_with_equal_ways_recover_offset_and_drift_exactly() {
    let clocks = [
        Clock { offset: 0, ppb: 0 },
        Clock {
            offset: 5_000_000,
            ppb: 40_000,
        },
    ];
    let exchanges = [
        exchange(&clocks, 1, 0, 10 * S, 0, 0),
        exchange(&clocks, 1, 0, 110 * S, 0, 0),
    ];
    let spans = [(0, 0), (clocks[1].at(5 * S), clocks[1].at(120 * S))];
    let found = corrections(&spans, &exchanges);
    let correction = found[1].as_ref().unwrap();
    for t in [5 * S, 10 * S, 60 * S, 110 * S, 120 * S] {
        assert_eq!(correction.apply(clocks[1].at(t)).abs_diff(t), 0, "{t}");
    }
    assert!(correction.sheet(spans[1].0, spans[1].1).error <= Nanos::from_nanos(1));
}

#[test]
fn by_hand_one_exchange_gives_a_constant_offset_and_an_error_that_grows_with_the_assumed_drift() {
    let correction = Correction::fit(vec![point(10 * S, -300, 1_001)], 10 * S, 20 * S).unwrap();
    assert_eq!(correction.apply(10 * S), 10 * S - 300);
    assert_eq!(correction.apply(20 * S), 20 * S - 300);
    // Half of 1001 rounded up, 100 ppm of 0 s and of 10 s, and 1 for rounding.
    assert_eq!(correction.error(10 * S).get(), 501 + 1);
    assert_eq!(correction.error(20 * S).get(), 501 + 1_000_000 + 1);
    assert_eq!(correction.sheet(10 * S, 20 * S).error.get(), 1_000_502);
}

#[test]
fn by_hand_the_error_of_a_line_is_that_of_its_ends_by_their_weights() {
    let points = vec![point(10 * S, 0, 2_000), point(20 * S, 1_000, 4_000)];
    let line = Correction::fit(points, 10 * S, 20 * S).unwrap();
    assert_eq!(line.offset(15 * S), 500);
    assert_eq!(line.error(10 * S).get(), 1_000 + 1);
    assert_eq!(line.error(15 * S).get(), 1_500 + 1);
    assert_eq!(line.error(20 * S).get(), 2_000 + 1);
    // One second outside: 11/10 of the near end and 1/10 of the far one.
    assert_eq!(line.error(21 * S).get(), 2_200 + 100 + 1);
}

#[test]
fn two_points_too_close_for_the_drift_give_a_constant_offset() {
    // A millisecond apart with 200 us of error: over a minute, the line would be 20 % off.
    let points = vec![
        point(10 * S, 0, 200_000),
        point(10 * S + 1_000_000, 90_000, 190_000),
    ];
    let correction = Correction::fit(points, 9 * S, 70 * S).unwrap();
    assert_eq!(correction.offset(70 * S), 90_000);
    assert!(correction.sheet(9 * S, 70 * S).error < Nanos::from_nanos(10_000_000));
}

#[test]
fn points_that_show_more_drift_than_assumed_give_a_line_however_wide_its_error() {
    // 1 ms in a second is 1,000 ppm. The constant's bound at 11 s, 100 us and 1 ns, is smaller than
    // the line's, but it contradicts the second point: 1,000 us is not within 101 us + 200 us.
    let points = |offset| vec![point(10 * S, 0, 2_000), point(11 * S, offset, 400_000)];
    let line = Correction::fit(points(1_000_000), 10 * S, 11 * S).unwrap();
    assert_eq!(line.offset(11 * S), 1_000_000);
    assert_eq!(line.error(11 * S).get(), 200_000 + 1);
    // Half of the round trips, 100 ppm of a second and 1 for rounding: just possible; 1 more is
    // not.
    let limit = 1_000 + 200_000 + 100_000 + 1;
    let constant = Correction::fit(points(limit), 10 * S, 11 * S).unwrap();
    assert_eq!(constant.offset(11 * S), 0);
    let line = Correction::fit(points(limit + 1), 10 * S, 11 * S).unwrap();
    assert_eq!(line.offset(11 * S), limit + 1);
}

#[test]
fn nodes_that_no_exchange_leads_to_stay_without_correction() {
    let clocks = [Clock { offset: 0, ppb: 0 }; 4];
    let exchanges = [exchange(&clocks, 3, 2, S, 10, 10)];
    let found = corrections(&[(0, S); 4], &exchanges);
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    assert!(corrections(&[], &exchanges).is_empty());
}

#[test]
fn an_exchange_whose_clock_ran_backwards_is_not_used() {
    let bad = Exchange {
        node: 1,
        peer: 0,
        sent_ns: 10,
        received_ns: 9,
        peer_ns: 10,
    };
    assert_eq!(corrections(&[(0, S); 2], &[bad])[1], None);
}

/// Two such clocks drift by less than [`DRIFT_PPM`] in each other's time.
fn clock() -> impl Strategy<Value = Clock> {
    (0..1_000_000 * S as i64, -49_990..49_990_i64).prop_map(|(offset, ppb)| Clock { offset, ppb })
}

proptest! {
    /// Whatever the drift, two exchanges bound the error at their own times, and the line bounds it
    /// between them.
    #[test]
    fn no_bound_contradicts_the_exchanges(
        ppb in -2_000_000..2_000_000_i64,
        ways in proptest::collection::vec(0..200_000_u64, 4),
        length in S / 10..3 * S,
    ) {
        let clocks = [Clock { offset: 0, ppb: 0 }, Clock { offset: 0, ppb }];
        let times = [1_000 * S, 1_000 * S + length];
        let exchanges: Vec<Exchange> = times
            .iter()
            .zip(ways.chunks(2))
            .map(|(&t, w)| exchange(&clocks, 1, 0, t, w[0], w[1]))
            .collect();
        let points: Vec<AlignmentPoint> = exchanges.iter().filter_map(Exchange::point).collect();
        let span = (points[0].time_ns, points[1].time_ns);
        let found = corrections(&[(0, 0), span], &exchanges);
        let correction = found[1].as_ref().unwrap();
        for p in &points {
            let off = correction.offset(p.time_ns).abs_diff(p.offset_ns);
            let bound = correction.error(p.time_ns).get() + half(p);
            prop_assert!(off <= bound, "{off} > {bound}");
        }
        // While the messages are under way, 200 us at most, the clocks drift by 400 ns.
        let middle = times[0] + length / 2;
        let off = correction.apply(clocks[1].at(middle)).abs_diff(middle);
        if correction.drift {
            prop_assert!(off <= correction.error(clocks[1].at(middle)).get() + 402, "{off}");
        }
    }

    /// Three nodes; the third is reached through the second, asking or asked.
    #[test]
    fn corrected_times_are_within_the_stated_error_and_never_run_backwards(
        clocks in proptest::collection::vec(clock(), 3),
        ways in proptest::collection::vec(0..200_000_u64, 8),
        length in S..1_000 * S,
        ends in 1..=2_usize,
        asked in any::<bool>(),
        times in proptest::collection::vec(0.0..1.0_f64, 20),
    ) {
        let t0 = 1_000 * S;
        let mut exchanges = Vec::new();
        for end in 0..ends {
            let t = t0 + end as u64 * length;
            let w = &ways[end * 4..];
            exchanges.push(exchange(&clocks, 1, 0, t, w[0], w[1]));
            let (a, b) = if asked { (1, 2) } else { (2, 1) };
            exchanges.push(exchange(&clocks, a, b, t + 5_000, w[2], w[3]));
        }
        // From slightly before the first to slightly after the last exchange.
        let (from, to) = (t0 - length / 20, t0 + length + length / 20);
        let spans: Vec<Span> = clocks.iter().map(|c| (c.at(from), c.at(to))).collect();
        let found = corrections(&spans, &exchanges);
        let mut times: Vec<u64> = times.iter().map(|x| from + ((to - from) as f64 * x) as u64).collect();
        times.extend([from, to]);
        times.sort_unstable();
        for node in 0..3 {
            let correction = found[node].as_ref().unwrap();
            let stated = correction.sheet(spans[node].0, spans[node].1).error.get();
            let mut before = 0;
            for &t in &times {
                let corrected = correction.apply(clocks[node].at(t));
                let off = corrected.abs_diff(clocks[0].at(t));
                // 3 ns for the synthetic clocks' own rounding.
                prop_assert!(off <= stated + 3, "node {node} at {t}: {off} > {stated}");
                prop_assert!(off <= correction.error(clocks[node].at(t)).get() + 3);
                prop_assert!(corrected >= before);
                before = corrected;
            }
        }
    }
}

#[test]
fn alignments_of_two_parts_of_a_run_are_joined() {
    let line = Correction::fit(vec![point(0, 5, 10), point(10 * S, 9, 20)], 0, 10 * S);
    let line = line.unwrap().sheet(0, 10 * S);
    let next = Correction::fit(
        vec![point(10 * S, 9, 20), point(20 * S, 7, 40)],
        10 * S,
        20 * S,
    );
    let next = next.unwrap().sheet(10 * S, 20 * S);
    let both = joined(line.clone(), next);
    let times: Vec<u64> = both.points.iter().map(|p| p.time_ns).collect();
    assert_eq!(times, [0, 10 * S, 20 * S]);
    assert_eq!((both.error.get(), &both.method), (21, &line.method));
    let constant = Correction::fit(vec![point(30 * S, 3, 4)], 30 * S, 30 * S).unwrap();
    let constant = constant.sheet(30 * S, 30 * S);
    let all = joined(joined(both, constant.clone()), constant);
    assert!(all.method.starts_with(&line.method));
    assert_eq!(all.method.matches("in a part of the run").count(), 1);
}

//! Cases computed by hand, and the properties that define max-min fairness.

use super::*;
use proptest::prelude::*;

/// Flows given by their resources and limits, one class each.
fn rates(capacity: &[f64], flows: &[(&[u32], f64)]) -> Vec<f64> {
    let mut sharing = Sharing::new(capacity.to_vec());
    for (uses, limit) in flows {
        let uses: Vec<Use> = uses
            .iter()
            .map(|&resource| Use {
                resource,
                share: 1.0,
            })
            .collect();
        let class = sharing.add_class(&uses, *limit);
        sharing.start(class);
    }
    sharing.solve();
    (0..flows.len() as u32).map(|c| sharing.rate(c)).collect()
}

const FREE: f64 = f64::INFINITY;

#[test]
fn k_flows_on_one_link_get_a_kth_each() {
    for k in [1_u32, 2, 3, 7, 1_000] {
        let mut sharing = Sharing::new(vec![12.0]);
        let class = sharing.add_class(
            &[Use {
                resource: 0,
                share: 1.0,
            }],
            FREE,
        );
        (0..k).for_each(|_| sharing.start(class));
        sharing.solve();
        assert_eq!(sharing.rate(class), 12.0 / f64::from(k));
        assert_eq!(sharing.limit(class), Limit::Resource(0));
    }
}

#[test]
fn a_chain_of_links_has_the_rates_of_its_middle() {
    // Three share the middle link; at each outer one a single flow takes the rest.
    let flows: [(&[u32], f64); 5] = [
        (&[0], FREE),
        (&[0, 1], FREE),
        (&[1], FREE),
        (&[1, 2], FREE),
        (&[2], FREE),
    ];
    let third = 1.0 / 3.0;
    for (rate, expected) in
        rates(&[1.0; 3], &flows)
            .iter()
            .zip([2.0 * third, third, third, third, 2.0 * third])
    {
        assert!((rate - expected).abs() < 1e-15, "{rate} {expected}");
    }
}

#[test]
fn what_one_flow_cannot_take_the_others_get() {
    let link: &[u32] = &[0];
    assert_eq!(
        rates(&[10.0], &[(link, 2.0), (link, FREE), (link, FREE)]),
        [2.0, 4.0, 4.0]
    );
    assert_eq!(rates(&[10.0], &[(link, 3.0), (link, 4.0)]), [3.0, 4.0]);
    // A limit equal to the share, and a flow that uses nothing.
    assert_eq!(
        rates(&[10.0], &[(link, 5.0), (link, FREE), (&[], 7.0)]),
        [5.0, 5.0, 7.0]
    );
}

#[test]
fn both_ends_of_an_incast_are_seen() {
    // Three senders with adapters of 10 into one of 10; one of them also sends to a fourth.
    let flows: [(&[u32], f64); 4] = [
        (&[0, 3], FREE),
        (&[1, 3], FREE),
        (&[2, 3], FREE),
        (&[2, 4], FREE),
    ];
    let third = 10.0 / 3.0;
    assert_eq!(
        rates(&[10.0; 5], &flows),
        [third, third, third, 10.0 - third]
    );
}

#[test]
fn traffic_that_is_split_over_links_is_shared_by_its_parts() {
    let mut sharing = Sharing::new(vec![4.0, 4.0]);
    let half = |resource| Use {
        resource,
        share: 0.5,
    };
    let split = sharing.add_class(&[half(0), half(1)], FREE);
    let whole = sharing.add_class(
        &[Use {
            resource: 0,
            share: 1.0,
        }],
        FREE,
    );
    sharing.start(split);
    sharing.solve();
    assert_eq!(sharing.rate(split), 8.0);
    sharing.start(whole);
    sharing.solve();
    // r/2 + r = 4.
    assert_eq!(
        [sharing.rate(split), sharing.rate(whole)],
        [8.0 / 3.0, 8.0 / 3.0]
    );
}

#[test]
fn flows_that_ended_take_nothing() {
    let mut sharing = Sharing::new(vec![6.0]);
    let classes: Vec<u32> = (0..3)
        .map(|_| {
            sharing.add_class(
                &[Use {
                    resource: 0,
                    share: 1.0,
                }],
                FREE,
            )
        })
        .collect();
    classes.iter().for_each(|&c| sharing.start(c));
    sharing.start(classes[2]);
    sharing.end(classes[0]);
    sharing.solve();
    assert_eq!(sharing.active().len(), 2);
    assert_eq!([sharing.rate(1), sharing.rate(2)], [2.0, 2.0]);
    assert_eq!(sharing.flows(2), 2);
    sharing.end(classes[2]);
    sharing.end(classes[2]);
    sharing.solve();
    assert_eq!(sharing.rate(1), 6.0);
    assert_eq!(sharing.active(), [1]);
}

#[derive(Clone, Debug)]
struct Case {
    capacity: Vec<f64>,
    /// Uses, limit, number of flows.
    classes: Vec<(Vec<Use>, f64, u32)>,
}

fn cases() -> impl Strategy<Value = Case> {
    (1_u32..12).prop_flat_map(|resources| {
        let uses = prop::collection::btree_map(
            0..resources,
            prop_oneof![3 => Just(1.0), 1 => 0.1..1.0],
            0..5,
        );
        let limit = prop_oneof![2 => Just(FREE), 1 => 0.1..20.0];
        let class = (uses, limit, 1_u32..5).prop_map(|(uses, limit, count)| {
            let uses: Vec<Use> = uses
                .into_iter()
                .map(|(resource, share)| Use { resource, share })
                .collect();
            // A flow that uses nothing has a limit of its own.
            let limit = if uses.is_empty() {
                f64::min(limit, 5.0)
            } else {
                limit
            };
            (uses, limit, count)
        });
        let capacity = prop::collection::vec(0.5..50.0, resources as usize);
        (capacity, prop::collection::vec(class, 1..20))
            .prop_map(|(capacity, classes)| Case { capacity, classes })
    })
}

fn solved(case: &Case, order: &[usize]) -> Vec<f64> {
    let mut sharing = Sharing::new(case.capacity.clone());
    let mut rates = vec![0.0; case.classes.len()];
    let ids: Vec<u32> = order
        .iter()
        .map(|&at| {
            let (uses, limit, count) = &case.classes[at];
            let class = sharing.add_class(uses, *limit);
            (0..*count).for_each(|_| sharing.start(class));
            class
        })
        .collect();
    sharing.solve();
    for (&at, &class) in order.iter().zip(&ids) {
        rates[at] = sharing.rate(class);
    }
    rates
}

proptest! {
    /// A flow can gain only at the expense of one with no higher rate: it is at its own limit, or
    /// it uses a full resource on which no flow has a higher rate.
    #[test]
    fn no_flow_can_gain_unless_one_with_no_more_loses(case in cases()) {
        let order: Vec<usize> = (0..case.classes.len()).collect();
        let rates = solved(&case, &order);
        let load = |resource: u32| -> f64 {
            case.classes.iter().zip(&rates)
                .flat_map(|((uses, _, count), rate)| uses.iter().map(move |u| (u, f64::from(*count) * rate)))
                .filter(|(u, _)| u.resource == resource)
                .map(|(u, rate)| u.share * rate)
                .sum()
        };
        for (resource, capacity) in case.capacity.iter().enumerate() {
            prop_assert!(load(resource as u32) <= capacity * (1.0 + 1e-9), "more than there is");
        }
        for ((uses, limit, _), rate) in case.classes.iter().zip(&rates) {
            prop_assert!(*rate > 0.0 && *rate <= *limit);
            let held = uses.iter().any(|u| {
                let full = load(u.resource) >= case.capacity[u.resource as usize] * (1.0 - 1e-9);
                let most = case.classes.iter().zip(&rates)
                    .filter(|((others, _, _), _)| others.iter().any(|o| o.resource == u.resource))
                    .all(|(_, other)| *other <= rate * (1.0 + 1e-9));
                full && most
            });
            prop_assert!(held || *rate == *limit, "{uses:?} {limit} {rate}");
        }
    }

    #[test]
    fn the_order_of_the_flows_changes_nothing(case in cases(), seed in any::<u64>()) {
        let straight: Vec<usize> = (0..case.classes.len()).collect();
        let mut mixed = straight.clone();
        mixed.sort_by_key(|&at| (at as u64).wrapping_mul(seed | 1).rotate_left(17));
        for (a, b) in solved(&case, &straight).iter().zip(solved(&case, &mixed)) {
            prop_assert!((a - b).abs() <= 1e-9 * b, "{a} {b}");
        }
    }

    #[test]
    fn a_class_of_k_flows_is_k_classes_of_one(case in cases()) {
        let order: Vec<usize> = (0..case.classes.len()).collect();
        let together = solved(&case, &order);
        let mut single = Case { capacity: case.capacity.clone(), classes: Vec::new() };
        let mut of = Vec::new();
        for (at, (uses, limit, count)) in case.classes.iter().enumerate() {
            for _ in 0..*count {
                single.classes.push((uses.clone(), *limit, 1));
                of.push(at);
            }
        }
        let order: Vec<usize> = (0..of.len()).collect();
        for (rate, at) in solved(&single, &order).iter().zip(of) {
            prop_assert!((rate - together[at]).abs() <= 1e-9 * rate);
        }
    }

    /// Solving again after flows started and ended gives the same as solving once.
    #[test]
    fn what_was_solved_before_leaves_nothing_behind(case in cases()) {
        let order: Vec<usize> = (0..case.classes.len()).collect();
        let fresh = solved(&case, &order);
        let mut sharing = Sharing::new(case.capacity.clone());
        let ids: Vec<u32> = case.classes.iter().map(|(uses, limit, _)| sharing.add_class(uses, *limit)).collect();
        for (&class, (_, _, count)) in ids.iter().zip(&case.classes) {
            (0..count + 1).for_each(|_| sharing.start(class));
            sharing.solve();
        }
        for &class in &ids {
            sharing.end(class);
        }
        sharing.solve();
        for (&class, rate) in ids.iter().zip(&fresh) {
            prop_assert!((sharing.rate(class) - rate).abs() <= 1e-9 * rate);
        }
    }
}
